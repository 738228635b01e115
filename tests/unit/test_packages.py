"""Who may know whom: the core points nowhere out, a room knows only those that are listed for it,
and nothing in `runner/` names a scenario."""

from __future__ import annotations

import ast
import sys

import pytest

from runner import paths
from tests import packages
from tests.packages import ORDER, SOURCES, imported, package

UPWARDS_TODAY: set[tuple[str, str]] = set()
"""What the redesign has still to turn round."""

FOREIGN = {
    "types": "cloudpickle tensorflow yaml",
    "analysis": "numpy scipy",
    "processes": "",
    "meters": "google keras memray numpy tensorflow",
    "trial": "tensorflow keras memray numpy",
    "script": "tensorflow",
    "compose": "hydra msgspec omegaconf yaml",
    "engine": "dask distributed dask_jobqueue",
    "render": "pandas rich yaml",
    "store": "mlflow",
    "search": "optuna numpy",
    "leak": "",
    "fit": "numpy",
    "claims": "numpy yaml",
    "integrations": "IPython keras pytest yaml",
    "commands": "yaml",
}
"""Packages beyond the standard library and msgspec."""

STARRED = (
    "config",
    "errors",
    "scenario",
    "records",
    "metrics",
    "cell",
    "analysis.estimate",
    "trial.phases",
)
"""Pure by the house's rule; others say of themselves that they are."""
PURE = {f"runner.{name}" for name in STARRED} | {
    name for name, tree in SOURCES.items() if "Core:" in (ast.get_docstring(tree) or "")
}
ALLOWED = {"numpy", "scipy", "msgspec"}
LAZY = {"runner.callables"}
"""Import nothing else before their functions are called."""


@pytest.mark.parametrize("name", sorted(PURE))
def test_a_core_module_imports_the_standard_library_numpy_and_the_core(name: str) -> None:
    outside = {
        each
        for each in imported(SOURCES[name])
        if each not in PURE | LAZY
        and each.partition(".")[0] not in sys.stdlib_module_names | ALLOWED
    }
    assert not outside


def test_every_package_is_in_the_order() -> None:
    assert set(packages.imports()) <= set(ORDER)
    assert set(ORDER) == set(FOREIGN)


@pytest.mark.parametrize("one", ORDER)
def test_a_package_imports_only_from_those_above_it(one: str) -> None:
    known = packages.imports().get(one, set())
    upwards = {(one, other) for other in known if ORDER.index(other) >= ORDER.index(one)}
    assert not upwards - UPWARDS_TODAY


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_foreign_package_is_imported_in_its_own_package_alone(name: str) -> None:
    own = {
        *sys.stdlib_module_names,
        "runner",
        "msgspec",
        *FOREIGN.get(package(name), "pandas").split(),
    }
    for each in sorted({each.partition(".")[0] for each in imported(SOURCES[name])} - own):
        pytest.fail(f"{name} imports {each}, which FOREIGN does not list for its package")


def test_the_printed_order_is_up_to_date() -> None:
    assert packages.drawing() in packages.README.read_text(), "run: python -m tests.packages"


def test_nothing_in_the_runner_names_a_scenario_or_imports_one() -> None:
    scenarios = {path.stem for path in (paths.find_conf() / "scenario").glob("*.yaml")}
    words = scenarios - {"tape", "callable", "script"}  # words of Python and of TensorFlow, too
    for name, tree in SOURCES.items():
        constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not constants & words, name
        assert not {each for each in imported(tree) if each.partition(".")[0] == "scenarios"}, name
