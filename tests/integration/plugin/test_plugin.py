"""A project's own tests under the plugin: limits, blocks, baselines, workers, and what a failure
says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from runner.analysis.repeatability import LEAST
from runner.integrations.pytest_plugin.baseline import BaselineEntry
from runner.integrations.pytest_plugin.limits import MemoryLimits

pytest_plugins = ["pytester"]

_INSTALLED = any(
    each.value == "runner.integrations.pytest_plugin"
    for each in metadata.entry_points(group="pytest11")
)
PLUGIN = () if _INSTALLED else ("-p", "runner.integrations.pytest_plugin")


# Without TensorFlow.


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session in this process asks TensorFlow for is not for other tests'."""
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "1")


def test_loading_the_plugin_imports_nothing_heavy_and_hides_nobodys_scenarios(
    tmp_path: Path,
) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "__init__.py").write_text("THEIRS = True\n")
    code = (
        "import sys, runner.integrations.pytest_plugin, scenarios\n"
        "assert scenarios.THEIRS\n"
        "heavy = {'tensorflow', 'keras', 'hydra', 'omegaconf', 'mlflow', 'pandas', 'numpy', 'yaml'}"
        "\nassert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},  # noqa: PTH109
    )


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (pytest.mark.tf_memory(peak="120 monkeys"), "peak='120 monkeys': is not a valid amount"),
        (pytest.mark.tf_memory(peak=-1), "peak=-1: is not a valid amount; write '120 MB'"),
        (pytest.mark.tf_memory(peek="1 MB"), "peek: there is no such limit. did you mean 'peak'?"),
        (pytest.mark.tf_memory("1 MB"), "a limit has a name"),
        (pytest.mark.tf_memory(steps=1), "steps=1: is not a whole number from 2"),
    ],
)
def test_a_limit_that_cannot_be_read_is_refused(mark: pytest.MarkDecorator, said: str) -> None:
    with pytest.raises(pytest.UsageError, match=re.escape(said)):
        MemoryLimits.read({}, mark.mark, "test_one.py::test_one")


def test_it_is_refused_before_anything_runs(pytester: pytest.Pytester) -> None:
    mark = "@pytest.mark.tf_memory(peak='much')"
    pytester.makepyfile(f"import pytest\n\n{mark}\ndef test_one():\n    pass\n")
    result = pytester.runpytest(*PLUGIN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes()
    assert "test_one: tf_memory peak='much': is not a valid amount" in result.stderr.str()


@pytest.mark.parametrize(
    ("words", "content", "said"),
    [
        (("--tf-memory-compare",), None, "can't be read"),
        (("--tf-memory-compare=b.yaml",), "tests: 3", "is not a valid baseline"),
        (("--tf-memory-compare=b.yaml",), "a: [", "is not a valid baseline"),
        (("--tf-memory-save", "test_one.py"), None, "is not a valid name for a baseline"),
        (("--tf-memory-save", "."), None, "is not a valid name for a baseline"),
    ],
)
def test_a_baseline_that_cannot_be_used_refuses_the_session(
    pytester: pytest.Pytester, words: tuple[str, ...], content: str | None, said: str
) -> None:
    pytester.makepyfile(test_one="def test_one(): pass")
    if content is not None:
        (pytester.path / "b.yaml").write_text(content)
    result = pytester.runpytest(*PLUGIN, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()


def test_an_unmarked_test_that_does_not_use_tensorflow_is_left_alone_by_the_ini_files_limit(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "tensorflow"]:
        monkeypatch.delitem(sys.modules, name)  # of this process: another test's
    pytester.makeini("[pytest]\ntf_memory_peak = 1 MB\n")
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest(*PLUGIN).assert_outcomes(passed=1)


def test_a_marks_limit_comes_before_the_ini_files() -> None:
    mark = pytest.mark.tf_memory(peak="2 MB").mark
    assert MemoryLimits.read({"peak": "1 MB", "growth": "1 kB"}, mark, "test") == MemoryLimits(
        2e6, 1e3
    )
    assert MemoryLimits.read({"peak": None, "growth": "0 B"}, None, "test") == MemoryLimits(None, 0)


@pytest.mark.parametrize(
    ("entry", "peak", "verdict"),
    [
        (BaselineEntry(1_000_000), 1_000_000, "same"),
        (BaselineEntry(1_000_000), 1_004_000, "same"),
        (BaselineEntry(1_000_000), 1_010_000, "worse"),
        (BaselineEntry(1_000_000), 990_000, "better"),
        (BaselineEntry(0), 256, "same"),
        (BaselineEntry(0), 257, "worse"),
        (BaselineEntry(1_000_000, 900_000, LEAST), 950_000, "same"),
        (BaselineEntry(1_000_000, 900_000, LEAST), 1_010_000, "worse"),
        (BaselineEntry(1_000_000, 900_000, LEAST - 1), 1_300_000, "same"),
        (BaselineEntry(1_000_000, 900_000, LEAST - 1), 1_500_000, "worse"),
    ],
)
def test_what_repeats_is_held_to_its_figure_and_a_graph_to_what_sessions_have_seen(
    entry: BaselineEntry, peak: int, verdict: str
) -> None:
    assert entry.judge_peak(peak) == verdict


def test_an_entry_stays_as_it_is_where_nothing_has_changed_and_a_graphs_range_widens() -> None:
    assert BaselineEntry(1_000_000).update(1_000_100, runs_graph=False) == BaselineEntry(1_000_000)
    assert BaselineEntry(1_000_000).update(2_000_000, runs_graph=False) == BaselineEntry(2_000_000)
    graph = BaselineEntry.create(1_000_000, runs_graph=True)
    assert graph.update(1_100_000, runs_graph=True) == BaselineEntry(1_100_000, 1_000_000, 2)

    def full(peak: int) -> BaselineEntry:
        return BaselineEntry(1_000_000, 900_000, LEAST).update(peak, runs_graph=True)

    assert full(950_000) == BaselineEntry(1_000_000, 900_000, LEAST)
    assert full(2_000_000) == BaselineEntry(2_000_000, 2_000_000, 1)
