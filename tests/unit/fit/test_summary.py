"""What `fit` says at its end: the table's rows, the model, the sentence that decides."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest

from runner.cell import TrialSpec
from runner.compose import composition
from runner.engine.events import TrialStarted
from runner.fit import search, summary
from runner.fit.probes import Limit, write_model
from runner.fit.search import FoundLimit, PeakModel, Probe
from runner.fit.strategies import Strategy
from tests.factories import completed


def limit(
    largest: int | None,
    vary: str = "batch_size",
    fails: int | None = None,
    problem: str | None = None,
    step_seconds: float = 0.01,
    **swept: str,
) -> Limit:
    words = ["scenario=keras_training", "device.memory_limit_mb=512"]
    (cell,) = composition.compose_plan(words).cells
    name = " ".join(f"{key}={value}" for key, value in swept.items())
    fields = {f"scenario.{key}" if key == "recompute" else key: swept[key] for key in swept}
    record = None
    if largest is not None:
        record = completed(batch_size=largest)
        record.metrics["step_seconds"] = step_seconds
        record.metrics["examples_per_second"] = largest / step_seconds
    return Limit(
        Strategy(0, name, cell, fields),
        vary,
        FoundLimit(largest, fails, False, ()),
        problem,
        [Probe(value, True, 12_400_000 + 830_000 * value) for value in (32, 64)],
        7,
        record,
    )


def test_the_sentence_says_how_many_times_the_batch_at_what_throughput() -> None:
    without = limit(100, fails=101, step_seconds=0.01, recompute="false")
    recomputing = limit(340, fails=341, step_seconds=0.0425, recompute="true")
    said = summary.write_decision([without, recomputing])
    assert said == "recompute fits 3.4 times the batch at 0.80 times the throughput"


def test_of_more_than_two_it_names_whom_it_compares() -> None:
    limits = [
        limit(100, fails=101, recompute="false", execution="graph"),
        limit(200, fails=201, recompute="false", execution="xla"),
        limit(300, fails=301, recompute="true", execution="xla"),
    ]
    said = summary.write_decision(limits)
    assert said is not None
    assert said.startswith(
        "recompute execution=xla fits 3.0 times the batch of recompute=false execution=graph at"
    )


def test_of_what_is_no_batch_it_says_what_a_step_takes_and_that_more_may_fit() -> None:
    vary = "scenario.iterations"
    limits = [
        limit(10, vary, fails=11, step_seconds=0.1, recompute="false"),
        limit(50, vary, step_seconds=0.4, recompute="true"),
    ]
    assert summary.write_decision(limits) == (
        "recompute fits at least 5.0 times the iterations, with a step that takes 4.0 times as long"
    )


def test_where_all_fit_the_same_the_fastest_is_named() -> None:
    limits = [
        limit(100, fails=101, step_seconds=0.02, recompute="false"),
        limit(100, fails=101, step_seconds=0.03, recompute="true"),
    ]
    assert summary.write_decision(limits) == (
        "all of them fit the same batch, 100; recompute=false is the fastest there"
    )


def test_one_answer_needs_no_decision() -> None:
    nothing = limit(None, problem="1 does not fit", recompute="true")
    assert summary.write_decision([limit(10, fails=11, recompute="false"), nothing]) is None


def test_the_table_has_a_row_a_strategy_with_what_ended_its_search(tmp_path: Path) -> None:
    limits = [
        limit(100, fails=101, recompute="false"),
        limit(None, problem="stopped: batch_size=64 failed in build", recompute="true"),
    ]
    lines = summary.summarize_fit(limits, tmp_path, None, 12.0).splitlines()
    assert lines[1] == "largest batch_size under device.memory_limit_mb: 512 MiB (537 MB)"
    assert lines[3].startswith("recompute=false      100  10,000/s  10.0 ms")
    assert lines[3].endswith("7  101 is out of memory")
    assert lines[4].split()[:2] == ["recompute=true", "-"]
    assert lines[4].endswith("stopped: batch_size=64 failed in build")
    assert lines[6] == "recompute=false: 12.4 MB + 830 kB per example"


def test_a_line_through_what_is_none_is_called_rough_in_the_words_of_the_law() -> None:
    peaks = {1: 10**6, 10: 10**6, 100: 10**9}
    model = search.fit_model([Probe(value, True, peak) for value, peak in peaks.items()])
    assert model is not None
    said = write_model(model, "batch_size")
    assert said.endswith(" per example, roughly (no single power: batch^0 to batch^3)")


@pytest.mark.parametrize(
    ("model", "vary", "says"),
    [
        (PeakModel(12.4e6, 0.83e6, 0.0), "batch_size", "12.4 MB + 830 kB per example"),
        (PeakModel(4e6, 1e-9, 0.0), "scenario.iterations", "4.00 MB whatever iterations is"),
        (PeakModel(8.0, 0.0, 12.0), "scenario.size", "8 B + 12 B per size squared"),
        (PeakModel(-1e3, 2e3, 0.0), "scenario.iterations", "-1.00 kB + 2.00 kB per iteration"),
    ],
)
def test_a_model_is_spelled_in_the_unit_that_is_varied(
    model: PeakModel, vary: str, says: str
) -> None:
    assert write_model(model, vary) == says


def test_an_answer_to_five_per_cent_comes_before_the_exact_one() -> None:
    found = limit(None)
    found.probes = [Probe(value, True, 1_000_000 * value) for value in (100, 200)]
    assert search.find_near_answer(found.probes, 536_000_000) is None, "two values foresee nothing"
    found.probes.append(Probe(520, True, 520_000_000))
    near = search.find_near_answer(found.probes, 536_000_000)
    assert near == (520, 537)
    assert summary.write_near_answer(found, *near) == (
        ": batch_size=520 fits in its first trial, 537 is foreseen to be out of memory"
    )
    found.probes.append(Probe(530, False))
    near = search.find_near_answer(found.probes, 536_000_000)
    assert near == (520, 530)
    assert summary.write_near_answer(found, *near).endswith(", 530 is out of memory")


def test_what_is_left_of_a_search_shrinks_as_it_gets_near() -> None:
    found = limit(None)
    left = [summary.estimate_search(found, 10.0, is_near=False)]
    found.probes.append(Probe(600, True, 510_000_000))
    found.probes.append(Probe(601, False))
    left.append(summary.estimate_search(found, 10.0, is_near=True))
    found.probes.append(Probe(600, True, 510_000_000, whole=True))
    left.append(summary.estimate_search(found, 10.0, is_near=True))
    assert left == sorted(left, reverse=True)
    assert left[2] < left[1] < left[0]


def test_a_crash_that_was_foreseen_is_out_of_memory_and_said() -> None:
    found = limit(64, fails=65)
    found.probes.append(Probe(65, False, crash="ended by SIGSEGV"))
    (_, row) = summary._list_table([found])
    assert row.endswith(
        "65 is out of memory (ended by SIGSEGV, where memory was foreseen to run out)"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclasses.dataclass
class OneSearch:
    """Has every trial tried for one strategy."""

    limits: list[Limit]
    value: int = 0

    def find_probe(self, _: object) -> tuple[Limit, int]:
        return self.limits[0], self.value


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_where_no_terminal_is_each_probe_has_its_line(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    searched = dataclasses.replace(limit(None), found=None, probes=[])
    one = OneSearch([searched])
    progress = summary.FitProgress(one, stream)  # type: ignore[arg-type]
    for value, foreseen in ((32, None), (64, None), (2517, 2517)):
        one.value, searched.foreseen, searched.foreseen_by = value, foreseen, 2
        for _ in range(2):  # the same probe's second trial of a kind has no line of its own
            progress.on(TrialStarted(None, TrialSpec(None, "memory", 0)))  # type: ignore[arg-type]
        searched.probes.append(Probe(value, True))
    lines = stream.getvalue().splitlines()
    if isinstance(stream, Terminal):
        assert "about 2,500 will, by 2 runs" in lines[-1]
        return
    assert lines == [
        " · batch_size=32, memory trial",
        " · batch_size=64, memory trial · 32 fits",
        " · batch_size=2,517, memory trial · 64 fits · about 2,500 will, by 2 runs",
    ]
