"""The baseline: what each test took, in a small file for git; saved, and compared with.

A test's own figures are requested bytes, which are the same on any machine. Those of a graph are
those of a process: TensorFlow draws the order of its ops anew in each (`analysis.repeatability`).
So of a graph the file keeps the range over the sessions that saved it, and until there are enough
of them a peak counts as worse only beyond what such draws have been seen to differ by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

import pytest

from runner import paths
from runner.analysis.repeatability import LEAST
from runner.analysis.tolerance import find_tolerance
from runner.integrations.pytest_plugin.limits import MemoryUse, format_exact
from runner.metrics import METRICS, TENSOR_PEAK, format_bytes
from runner.render.words import count_things, join_first

_HEAD = """\
# What tests take of TensorFlow's memory: requested bytes, the same on any machine.
# Written by `pytest --tf-memory-save`; `pytest --tf-memory-compare` fails what takes more.
"""
_PEAK = "tf_memory_peak_bytes"
_GRAPH = "tf_memory_runs_graph"
_LEFT_OUT = {
    "passed": (
        "test without a limit, or without TensorFlow",
        "tests without a limit, or without TensorFlow",
    ),
    "failed": ("test that failed", "tests that failed"),
    "skipped": ("skipped test", "skipped tests"),
}
_DRAWS_DIFFER = 0.3
"""Peaks of one graph in several processes were seen to lie so far apart."""


@dataclass(frozen=True)
class BaselineEntry:
    """The figures of a test. A graph's peak is the highest of the sessions that saved it."""

    peak_bytes: int
    lowest_peak_bytes: int | None = None
    sessions: int | None = None

    def judge_peak(self, peak_bytes: int) -> str:
        """Return `better`, `same` or `worse`."""
        low, high = self.lowest_peak_bytes or self.peak_bytes, self.peak_bytes
        if low <= peak_bytes <= high:
            return "same"
        nearest = high if peak_bytes > high else low
        tolerance = find_tolerance(METRICS[TENSOR_PEAK])
        if self.sessions is not None and self.sessions < LEAST:
            tolerance = replace(tolerance, share=_DRAWS_DIFFER)
        if tolerance.same([nearest, peak_bytes]):
            return "same"
        return "worse" if peak_bytes > high else "better"

    def update(self, peak_bytes: int, runs_graph: bool) -> BaselineEntry:
        """Return this entry where nothing has changed, so that the file stays as it is."""
        if self.judge_peak(peak_bytes) != "same" or runs_graph != (self.sessions is not None):
            return BaselineEntry.create(peak_bytes, runs_graph)
        if self.sessions is None or self.lowest_peak_bytes is None:
            return self
        return BaselineEntry(
            max(self.peak_bytes, peak_bytes),
            min(self.lowest_peak_bytes, peak_bytes),
            min(self.sessions + 1, LEAST),
        )

    @staticmethod
    def create(peak_bytes: int, runs_graph: bool) -> BaselineEntry:
        """Return the entry of a test that the file did not know, or knew otherwise."""
        return BaselineEntry(peak_bytes, peak_bytes, 1) if runs_graph else BaselineEntry(peak_bytes)


@dataclass(frozen=True)
class Baseline:
    """The content of a baseline file."""

    tensorflow: str
    tests: dict[str, BaselineEntry] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Baseline:
        """Return what a file holds; raise `UsageError` if it is no baseline."""
        import yaml

        try:
            data = yaml.safe_load(paths.read_text(path))
            tests = {str(name): BaselineEntry(**entry) for name, entry in data["tests"].items()}
            for entry in tests.values():
                if not all(value is None or type(value) is int for value in vars(entry).values()):
                    raise TypeError("a figure is not a whole number")
            return Baseline(str(data["tensorflow"]), tests)
        except OSError as error:
            raise pytest.UsageError(
                f"{path}: can't be read ({error.strerror}); `pytest --tf-memory-save` writes it."
            ) from None
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            why = str(error).splitlines()[0]
            raise pytest.UsageError(
                f"{path}: is not a valid baseline ({why}); delete it, and write it anew with "
                "`pytest --tf-memory-save`."
            ) from None

    def write(self, path: Path) -> None:
        """Write the file, as a whole or not at all."""
        import yaml

        tests = {
            name: {key: value for key, value in vars(entry).items() if value is not None}
            for name, entry in sorted(self.tests.items())
        }
        text = yaml.safe_dump(
            {"tensorflow": self.tensorflow, "tests": tests}, sort_keys=False, width=1000
        )
        with paths.replace_file(path) as scratch:
            scratch.write_text(_HEAD + text)


@dataclass
class _Row:
    name: str
    peak_bytes: int
    runs_graph: bool


class BaselineSession:
    """The baselines that a session saves and compares with, and what its tests took: where results
    are printed, a plugin of pytest's."""

    def __init__(self, config: pytest.Config) -> None:
        self._save = _find_file(config, "save")
        self._compare = _find_file(config, "compare")
        self._baseline = Baseline.read(self._compare) if self._compare else None
        self._rows: list[_Row] = []
        self._left_out: Counter[str] = Counter()
        """Of tests without a row, by what became of them."""
        self._saved = ""

    def list_problems(self, name: str, taken: MemoryUse) -> Iterator[str]:
        """Yield a sentence, where a test takes more than the baseline says."""
        entry = self._baseline.tests.get(name) if self._baseline else None
        if entry is None or entry.judge_peak(taken.peak_bytes) != "worse":
            return
        assert self._baseline is not None
        more = taken.peak_bytes / entry.peak_bytes - 1 if entry.peak_bytes else 0
        peak, known = format_exact(taken.peak_bytes), format_exact(entry.peak_bytes)
        sentence = f"its peak of {peak} is above the {known} of {self._compare}" + (
            f", by {more:.0%}" if more else ""
        )
        if self._baseline.tensorflow != _find_version():
            sentence += f" (written with TensorFlow {self._baseline.tensorflow})"
        yield sentence

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a test's report, a worker's too; figures of tests that passed only."""
        if report.when != "call":
            self._left_out[report.outcome] += report.when == "setup" and not report.passed
            return
        notes = dict(report.user_properties)
        if not report.passed or not any(key.startswith(_PEAK) for key in notes):
            self._left_out[report.outcome] += 1
            return
        for key, value in notes.items():
            if key.startswith(_PEAK):
                name = key.removeprefix(_PEAK)
                graph = bool(notes.get(f"{_GRAPH}{name}"))
                self._rows.append(_Row(f"{report.nodeid}{name}", int(str(value)), graph))

    def pytest_sessionfinish(self) -> None:
        """Write the file; tests that did not run, or failed, keep what it says of them."""
        if self._save is None or not self._rows:
            return
        before = Baseline.read(self._save).tests if self._save.exists() else {}
        tests = dict(before)
        for row in self._rows:
            entry = before.get(row.name)
            tests[row.name] = (
                entry.update(row.peak_bytes, row.runs_graph)
                if entry
                else BaselineEntry.create(row.peak_bytes, row.runs_graph)
            )
        Baseline(_find_version(), tests).write(self._save)
        new = len(tests.keys() - before.keys())
        changed = sum(tests[name] != entry for name, entry in before.items())
        figures = count_things(len(tests), "figure")
        self._saved = f"{figures}, {new} of them new and {changed} changed"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was saved, what became less, and which tests the file does not know."""
        write_line = terminalreporter.write_line
        if self._save is not None:
            left_out = [
                count_things(self._left_out[outcome], *words)
                for outcome, words in _LEFT_OUT.items()
                if self._left_out[outcome]
            ]
            held = f"{self._save} holds {self._saved}" if self._saved else "nothing was saved"
            more = f"; left out: {', '.join(left_out)}" if left_out else ""
            write_line(f"tf_memory: {held}{more}")
        if self._baseline is None:
            return
        unknown, less = [], dict[tuple[int, int], list[str]]()
        for row in self._rows:
            entry = self._baseline.tests.get(row.name)
            if entry is None:
                unknown.append(row.name)
            elif entry.judge_peak(row.peak_bytes) == "better":
                less.setdefault((row.peak_bytes, entry.peak_bytes), []).append(row.name)
        for (now, before), names in less.items():
            write_line(
                f"tf_memory: {join_first(names, 1, 'more')}: {format_bytes(now)}, less than the "
                f"{format_bytes(before)} of {self._compare}"
            )
        if unknown:
            write_line(
                f"tf_memory: not in {self._compare}: {join_first(unknown, 1, 'more')}; "
                "--tf-memory-save adds what is missing"
            )


def _find_file(config: pytest.Config, option: str) -> Path | None:
    name = config.getoption(f"tf_memory_{option}")
    if name is None:
        return None
    if "::" in name or name.endswith(".py") or (config.invocation_params.dir / name).is_dir():
        raise pytest.UsageError(
            f"--tf-memory-{option} {name}: is not a valid name for a baseline; write "
            f"--tf-memory-{option}=FILE, or name the tests first."
        )
    is_default = name == "tf_memory.yaml"
    return Path(config.rootpath if is_default else config.invocation_params.dir) / str(name)


def _find_version() -> str:
    """Return TensorFlow's version, without importing it."""
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
