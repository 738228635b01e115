"""Who may know whom: the core points nowhere out, a room knows only those that are listed for it,
and nothing in `runner/` names a scenario."""

from __future__ import annotations

import ast
import sys

import pytest

from runner import places
from tests import rooms
from tests.rooms import SOURCES, imported, room

MAY_KNOW = {
    "core": "",
    "judging": "",
    "machine": "",
    "composing": "judging",
    "trial": "machine",
    "isolation": "machine trial",
    "export": "judging",
    "report": "judging export",
    "tracking": "judging export machine report",
    "running": "composing export isolation judging machine report tracking",
    "terminal": "judging export report tracking running",
    "claims": "composing judging report running terminal",
    "fit": "composing judging running terminal trial",
    "keras": "judging tracking trial",
    "leak": "composing isolation judging running terminal",
    "plugin": "judging terminal trial",
    "using": "composing judging report running terminal tracking trial",
    "verbs": "claims composing export fit judging leak report running terminal tracking",
}
"""Besides the core, which all may know. No verb knows a process or a trial."""

FOREIGN = {
    "core": "",
    "judging": "numpy scipy",
    "machine": "",
    "composing": "hydra hydra_plugins numpy omegaconf optuna ray submitit yaml",
    "trial": "tensorflow keras greenlet memray numpy",
    "isolation": "",
    "export": "pandas yaml",
    "report": "matplotlib numpy",
    "tracking": "mlflow requests sqlalchemy",
    "running": "",
    "terminal": "",
    "claims": "numpy yaml",
    "fit": "matplotlib numpy",
    "keras": "keras",
    "leak": "",
    "plugin": "pytest yaml",
    "using": "cloudpickle IPython yaml",
    "verbs": "yaml",
}
"""Packages beyond the standard library."""

STARRED = (
    "config",
    "errors",
    "scenario",
    "records",
    "metrics",
    "plan",
    "judging.estimate",
    "trial.measure.phases",
)
"""Pure by the house's rule; others say of themselves that they are."""
PURE = {f"runner.{name}" for name in STARRED} | {
    name for name, tree in SOURCES.items() if "Core:" in (ast.get_docstring(tree) or "")
}
ALLOWED = {"numpy", "scipy"}


@pytest.mark.parametrize("name", sorted(PURE))
def test_a_core_module_imports_the_standard_library_numpy_and_the_core(name: str) -> None:
    outside = {
        each
        for each in imported(SOURCES[name])
        if each not in PURE and each.partition(".")[0] not in sys.stdlib_module_names | ALLOWED
    }
    assert not outside


def test_every_module_lies_in_a_room_that_the_tables_know() -> None:
    found = {room(name) for name in SOURCES} - {""}
    assert found == set(MAY_KNOW) == set(FOREIGN)


@pytest.mark.parametrize("one", MAY_KNOW)
def test_a_room_knows_only_the_rooms_that_are_listed_for_it(one: str) -> None:
    for other in sorted(rooms.arrows()[one] - set(MAY_KNOW[one].split())):
        pytest.fail(f"runner/{one} imports from runner/{other}, which MAY_KNOW does not list")


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_foreign_package_is_imported_in_its_own_room_alone(name: str) -> None:
    own = {*sys.stdlib_module_names, "runner", *FOREIGN.get(room(name), "pandas").split()}
    for package in sorted({each.partition(".")[0] for each in imported(SOURCES[name])} - own):
        pytest.fail(f"{name} imports {package}, which FOREIGN does not list for its room")


def test_rooms_know_each_other_in_one_direction() -> None:
    left = {one: set(known.split()) for one, known in MAY_KNOW.items()}
    while left:
        ends = {one for one, known in left.items() if not known & set(left)}
        assert ends, f"a circle among {sorted(left)}"
        left = {one: known for one, known in left.items() if one not in ends}


def test_the_picture_of_the_rooms_is_up_to_date() -> None:
    assert rooms.drawing() in rooms.README.read_text(), "run: python -m tests.rooms"


def test_nothing_in_the_runner_names_a_scenario_or_imports_one() -> None:
    scenarios = {path.stem for path in (places.conf() / "scenario").glob("*.yaml")}
    words = scenarios - {"tape", "callable"}  # words of Python and of TensorFlow, too
    for name, tree in SOURCES.items():
        constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not constants & words, name
        assert not {each for each in imported(tree) if each.partition(".")[0] == "scenarios"}, name
