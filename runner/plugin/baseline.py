"""The baseline: what each test took, in a small file for git; saved, and compared with.

A test's own figures are requested bytes, which are the same on any machine. Those of a graph are
those of a process: TensorFlow draws the order of its ops anew in each (`runner.judging.repeats`).
So of a graph the file keeps the range over the sessions that saved it, and until there are enough
of them a peak counts as worse only beyond what such draws have been seen to differ by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

import pytest

from runner import places
from runner.judging.repeats import LEAST
from runner.judging.tolerance import Tolerance, tolerance
from runner.metrics import METRICS, readable_bytes
from runner.plugin.limits import Taken, exact

_HEAD = """\
# What tests take of TensorFlow's memory: requested bytes, the same on any machine.
# Written by `pytest --tf-memory-save`; `pytest --tf-memory-compare` fails what takes more.
"""
_PEAK = "tf_memory_peak_bytes"
_GRAPH = "tf_memory_runs_graph"
_DRAWS_DIFFER = 0.3
"""Peaks of one graph in several processes were seen to lie so far apart."""


@dataclass(frozen=True)
class Entry:
    """Of one test. A graph's peak is the highest of the sessions that saved it."""

    peak_bytes: int
    lowest_peak_bytes: int | None = None
    sessions: int | None = None

    def same(self) -> Tolerance:
        plain = tolerance(METRICS["tensor_peak_bytes"])
        if self.sessions is None or self.sessions >= LEAST:
            return plain
        return replace(plain, share=_DRAWS_DIFFER)

    def verdict(self, peak_bytes: int) -> str:
        low, high = self.lowest_peak_bytes or self.peak_bytes, self.peak_bytes
        if low <= peak_bytes <= high:
            return "same"
        nearest = high if peak_bytes > high else low
        if self.same().same([nearest, peak_bytes]):
            return "same"
        return "worse" if peak_bytes > high else "better"

    def saved(self, peak_bytes: int, runs_graph: bool) -> Entry:
        """This entry where nothing has changed, so that the file stays as it is."""
        if self.verdict(peak_bytes) != "same" or runs_graph != (self.sessions is not None):
            return Entry.first(peak_bytes, runs_graph)
        if self.sessions is None or self.lowest_peak_bytes is None:
            return self
        return Entry(
            max(self.peak_bytes, peak_bytes),
            min(self.lowest_peak_bytes, peak_bytes),
            min(self.sessions + 1, LEAST),
        )

    @staticmethod
    def first(peak_bytes: int, runs_graph: bool) -> Entry:
        return Entry(peak_bytes, peak_bytes, 1) if runs_graph else Entry(peak_bytes)


@dataclass(frozen=True)
class Baseline:
    """A file's content."""

    tensorflow: str
    tests: dict[str, Entry] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Baseline:
        import yaml

        try:
            data = yaml.safe_load(places.text_of(path))
            tests = {str(name): Entry(**entry) for name, entry in data["tests"].items()}
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
        import yaml

        tests = {
            name: {key: value for key, value in vars(entry).items() if value is not None}
            for name, entry in sorted(self.tests.items())
        }
        text = yaml.safe_dump(
            {"tensorflow": self.tensorflow, "tests": tests}, sort_keys=False, width=1000
        )
        with places.whole(path) as scratch:
            scratch.write_text(_HEAD + text)


@dataclass
class _Row:
    name: str
    peak_bytes: int
    runs_graph: bool


class Session:
    """What a session is asked to save and to compare with, and what its tests took."""

    def __init__(self, config: pytest.Config) -> None:
        self._save = _path(config, "save")
        self._compare = _path(config, "compare")
        self._baseline = Baseline.read(self._compare) if self._compare else None
        self._rows: list[_Row] = []
        self._saved = ""

    def worse(self, name: str, taken: Taken) -> Iterator[str]:
        """A sentence, where a test takes more than the baseline says."""
        entry = self._baseline.tests.get(name) if self._baseline else None
        if entry is None or entry.verdict(taken.peak_bytes) != "worse":
            return
        assert self._baseline is not None
        more = taken.peak_bytes / entry.peak_bytes - 1 if entry.peak_bytes else 0
        sentence = (
            f"its peak of {exact(taken.peak_bytes)} is above the {exact(entry.peak_bytes)} of "
            f"{self._compare}" + (f", by {more:.0%}" if more else "")
        )
        if self._baseline.tensorflow != _tensorflow():
            sentence += f" (written with TensorFlow {self._baseline.tensorflow})"
        yield sentence

    def add(self, report: pytest.TestReport) -> None:
        """A test's report, a worker's too. Only a test that passed says what is to be kept."""
        if report.when != "call" or not report.passed:
            return
        said = dict(report.user_properties)
        for key, value in said.items():
            if key.startswith(_PEAK):
                name = key.removeprefix(_PEAK)
                graph = bool(said.get(f"{_GRAPH}{name}"))
                self._rows.append(_Row(f"{report.nodeid}{name}", int(str(value)), graph))

    def save(self) -> None:
        """Tests that did not run, or failed, keep what the file says of them."""
        if self._save is None or not self._rows:
            return
        before = Baseline.read(self._save).tests if self._save.exists() else {}
        tests = dict(before)
        for row in self._rows:
            entry = before.get(row.name)
            tests[row.name] = (
                entry.saved(row.peak_bytes, row.runs_graph)
                if entry
                else Entry.first(row.peak_bytes, row.runs_graph)
            )
        Baseline(_tensorflow(), tests).write(self._save)
        new = len(tests.keys() - before.keys())
        changed = sum(tests[name] != entry for name, entry in before.items())
        self._saved = f"{len(tests)} tests, {new} of them new and {changed} changed"

    def summarise(self, terminal: pytest.TerminalReporter) -> None:
        if self._saved:
            terminal.write_line(f"tf_memory: {self._save} holds {self._saved}")
        if self._baseline is None:
            return
        unknown = [row.name for row in self._rows if row.name not in self._baseline.tests]
        for row in self._rows:
            entry = self._baseline.tests.get(row.name)
            if entry is not None and entry.verdict(row.peak_bytes) == "better":
                terminal.write_line(
                    f"tf_memory: {row.name} takes {readable_bytes(row.peak_bytes)}, less than the "
                    f"{readable_bytes(entry.peak_bytes)} of {self._compare}"
                )
        if unknown:
            terminal.write_line(
                f"tf_memory: {len(unknown)} tests are not in {self._compare}, as {unknown[0]}; "
                "--tf-memory-save adds them"
            )


def _path(config: pytest.Config, option: str) -> Path | None:
    said = config.getoption(f"tf_memory_{option}")
    if said is None:
        return None
    if "::" in said or said.endswith(".py") or (config.invocation_params.dir / said).is_dir():
        raise pytest.UsageError(
            f"--tf-memory-{option} {said}: is not a valid name for a baseline; write "
            f"--tf-memory-{option}=FILE, or name the tests first."
        )
    is_default = said == "tf_memory.yaml"
    return Path(config.rootpath if is_default else config.invocation_params.dir) / str(said)


def _tensorflow() -> str:
    """Its version, without importing it."""
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
