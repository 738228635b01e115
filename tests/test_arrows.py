"""Who may know whom: the core points nowhere out, and nothing in `runner/` names a scenario."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import places

RUNNER = places.project() / "runner"
STARRED = (
    "config",
    "errors",
    "scenario",
    "records",
    "metrics",
    "judging.estimate",
    "trial.measure.phases",
)
"""Core by the house's rule; others say of themselves that they are."""
ALLOWED = {"numpy", "scipy"}


def _name(path: Path) -> str:
    parts = path.relative_to(places.project()).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): ast.parse(path.read_text()) for path in sorted(RUNNER.rglob("*.py"))}
CORE = {f"runner.{name}" for name in STARRED} | {
    name for name, tree in SOURCES.items() if "Core:" in (ast.get_docstring(tree) or "")
}


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported anywhere in a file, within its functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{each.name}" for each in node.names]
            yield from (each if each in SOURCES else str(node.module) for each in whole)


@pytest.mark.parametrize("name", sorted(CORE))
def test_a_core_module_imports_the_standard_library_numpy_and_the_core(name: str) -> None:
    outside = {
        each
        for each in imported(SOURCES[name])
        if each not in CORE and each.partition(".")[0] not in sys.stdlib_module_names | ALLOWED
    }
    assert not outside


def test_nothing_in_the_runner_names_a_scenario_or_imports_one() -> None:
    scenarios = {path.stem for path in (places.conf() / "scenario").glob("*.yaml")}
    words = scenarios - {"tape", "callable"}  # words of Python and of TensorFlow, too
    for name, tree in SOURCES.items():
        constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not constants & words, name
        assert not {each for each in imported(tree) if each.partition(".")[0] == "scenarios"}, name
