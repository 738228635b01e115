"""What a person sees while a plan runs, and the time it is said to take."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.cell import Plan
from runner.compose import composition
from runner.engine.events import CellsOpened, PhaseEntered, TrialEnded, TrialStarted
from runner.engine.grid import Grid
from runner.engine.open_runs import OpenRuns
from runner.engine.run import Run
from runner.engine.scheduler import next_trial
from runner.records import Outcome, RepeatedCalls, Status, Trial
from runner.render.text import progress
from runner.render.text.forecast import Forecast
from runner.render.text.progress import Progress
from tests.factories import memory_trial, timing_trial
from tests.unit.engine.conftest import Recorder, executor_on


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def drawn(self) -> list[str]:
        """Every line that was seen, one after the other."""
        return [line.partition("\x1b[K")[2] for line in self.getvalue().split("\r")[1:]]


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def plan() -> Plan:
    words = ["-m", "scenario=numpy_loop,while_loop", "seed=1,2", "tracking=none"]
    return composition.compose_plan(words)


@pytest.fixture
def runs(plan: Plan, tmp_path: Path) -> list[Run]:
    return OpenRuns(tmp_path, executor_on(Recorder())).open(Grid(plan).ask())


def run_next_trial(seen: Progress, run: Run, seconds: float, trial: Trial | None = None) -> None:
    spec = run.next
    assert spec is not None
    seen.on(TrialStarted(run, spec))
    made = memory_trial() if spec.kind == "memory" else timing_trial()
    run.add_trial(trial or made)
    seen.on(TrialEnded(run, spec, seconds))


def test_the_line_counts_trials_cells_failures_and_says_what_runs(runs: list[Run]) -> None:
    stream = Terminal()
    seen = Progress(stream=stream)
    seen.on(CellsOpened(runs))
    failed = Trial("memory", 0, Outcome(Status.OUT_OF_MEMORY, "steps", "no room"))
    run_next_trial(seen, runs[0], 6.0)
    run_next_trial(seen, runs[1], 1.0, failed)
    run_next_trial(seen, runs[2], 1.0)
    lines = stream.drawn
    assert "0/16 trials · 0/4 cells · loading TensorFlow" in lines[0]
    assert lines[1].endswith("numpy_loop seed=1: memory 1/1, loading TensorFlow")
    assert "1/16 trials · 0/4 cells · about " in lines[2]
    assert "2/13 trials · 1/4 cells · 1 failed · about " in lines[3], "a failed cell asks no more"
    assert lines[3].endswith("while_loop seed=1: memory 1/1")
    assert len(lines) == 4, "between trials only"


def test_the_line_is_gone_when_all_is_done(runs: list[Run]) -> None:
    stream = Terminal()
    seen = Progress(stream=stream)
    seen.on(CellsOpened(runs))
    seen.close()
    assert stream.drawn[-1] == ""


def test_it_never_wraps_however_narrow_the_terminal(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    Progress(stream=stream).on(CellsOpened(runs))
    assert len(stream.drawn[0]) < 40


def test_a_sweep_draws_no_phases_and_a_run_does(runs: list[Run]) -> None:
    for some, lines in ((runs, 2), (runs[:1], 3)):
        stream = Terminal()
        seen = Progress(stream=stream)
        seen.on(CellsOpened(some))
        spec = some[0].next
        assert spec is not None
        seen.on(TrialStarted(some[0], spec))
        seen.on(PhaseEntered("steps"))
        assert len(stream.drawn) == lines


@pytest.mark.parametrize("terminal", [False, True])
def test_without_a_terminal_that_can_only_the_announcement_is_written(
    terminal: bool, plan: Plan, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setenv("TERM", "dumb")
    seen = Progress(plan, stream)
    seen.on(CellsOpened(runs))
    run_next_trial(seen, runs[0], 1.0)
    seen.close()
    assert stream.getvalue() == "4 cells, 16 trials (4 memory, 12 timing), about 13 s to 25 s\n"


def test_off_a_terminal_a_long_run_says_now_and_then_how_far_it_is(runs: list[Run]) -> None:
    stream, now = io.StringIO(), 0.0
    seen = Progress(stream=stream, clock=lambda: now)
    seen.on(CellsOpened(runs))
    for run, seconds in ((runs[0], 6.0), (runs[1], 40.0), (runs[2], 20.0), (runs[3], 20.0)):
        run_next_trial(seen, run, seconds)
        now += seconds
    run_next_trial(seen, runs[0], 1.0)
    first, second = stream.getvalue().splitlines()
    assert first.startswith("2/16 trials · 0/4 cells · about ")
    assert first.endswith(" left · while_loop seed=1: memory 1/1")
    assert second.startswith("4/16 trials")


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (RepeatedCalls(5, ("a:f", "a:g"), True, False), "scenario.step=a:f\n    scenario.step=a:g"),
        (RepeatedCalls(5, ("a:f",), True, False), "going on with the first"),
        (RepeatedCalls(5, ("a:f",), False, False), "name one of them"),
        (RepeatedCalls(9, (), False, False), "no function of yours"),
        (RepeatedCalls(9, (), False, True), "own thread waits"),
    ],
)
def test_a_program_without_a_known_step_is_told_what_to_name(
    calls: RepeatedCalls, said: str
) -> None:
    text = progress.describe_calls(calls)
    assert f"no step was found in {calls.seconds} s" in text
    assert said in text
    assert ("scenario.step=MODULE:FUNCTION" in text) == (not calls.steps)


def test_the_first_figures_of_a_long_run_are_shown_as_they_are_known(runs: list[Run]) -> None:
    stream = io.StringIO()
    seen = Progress(stream=stream)
    seen.on(CellsOpened(runs[:1]))
    run_next_trial(seen, runs[0], 20.0)
    run_next_trial(seen, runs[0], 10.0)
    run_next_trial(seen, runs[0], 10.0)
    first, second = stream.getvalue().splitlines()
    assert first.startswith("in its first memory trial: tensor peak 500 kB; about ")
    assert second.startswith("in its first timing trial: host peak 30.0 MB, step 1.00 ms, first ")
    assert second.endswith("; about 20 s left")


def test_a_memory_trial_that_is_added_says_why(runs: list[Run]) -> None:
    stream = Terminal()
    seen = Progress(stream=stream)
    seen.on(CellsOpened(runs[:1]))
    for number, peak in enumerate((5e5, 5e5, 6e5)):
        made = memory_trial(peak, index=number, graph_ops=True, course="a", seconds=2.0)
        run_next_trial(seen, runs[0], 2.0, made)
    spec = next_trial(runs[0])
    seen.on(TrialStarted(runs[0], spec))
    begun = [line.partition(": ")[2] for line in stream.drawn if ": memory" in line]
    assert begun[0].startswith("memory 1/1")
    assert begun[1:3] == [
        "memory 2/3, to see if this graph's peak repeats",
        "memory 3/3, to see if this graph's peak repeats",
    ]
    assert begun[3].endswith(", as processes of this graph differ")


def test_a_single_run_is_not_announced(runs: list[Run]) -> None:
    stream = io.StringIO()
    alone = composition.compose_plan(["scenario=numpy_loop", "tracking=none"])
    Progress(alone, stream).on(CellsOpened(runs[:1]))
    assert stream.getvalue() == ""


def test_what_is_left_of_a_resumed_sweep_is_announced(plan: Plan, runs: list[Run]) -> None:
    for _ in range(4):
        run_next_trial(Quiet(runs), runs[0], 1.0)
    run_next_trial(Quiet(runs), runs[1], 1.0)
    said = progress.describe_plan(plan, runs)
    assert said.startswith("4 cells, 1 of them done, 11 trials (2 memory, 9 timing) of 16 left, ")


class Quiet(Progress):
    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__(stream=io.StringIO())
        self.on(CellsOpened(runs))


# The forecast.


def end_trial(forecast: Forecast, run: Run, trial: Trial, seconds: float) -> None:
    spec = run.next
    assert spec is not None
    run.add_trial(trial)
    forecast.count_trial(run, spec, seconds)


def test_a_forecast_is_a_range_until_every_kind_of_trial_was_seen(runs: list[Run]) -> None:
    forecast = Forecast(runs)
    least, most = forecast.seconds
    assert most - least == pytest.approx(12 * runs[0].experiment.measure.max_seconds)
    for made in (memory_trial(), timing_trial()):
        end_trial(forecast, runs[0], made, 2.0)
    least, most = forecast.seconds
    assert least == most == pytest.approx(14 * 2.0)


def test_a_forecast_learns_from_what_trials_took(runs: list[Run]) -> None:
    forecast = Forecast(runs)
    end_trial(forecast, runs[0], memory_trial(), 1.0)
    end_trial(forecast, runs[0], timing_trial(), 10.0)
    end_trial(forecast, runs[0], timing_trial(), 20.0)
    assert forecast.seconds[0] == pytest.approx(3 * 1.0 + 10 * 15.0)


@pytest.mark.parametrize(("traced", "each"), [(0.01, 202 * 0.002), (1.0, 1.0), (50.0, 3 * 10.0)])
def test_traced_steps_tell_what_the_steps_of_timing_trials_take(
    traced: float, each: float, runs: list[Run]
) -> None:
    now, run = 0.0, runs[0]  # quick: 5 traced steps, 2 and 200 timed ones, 3 at least, for 1 s
    seen = Progress(stream=Terminal(), clock=lambda: now)
    seen.on(CellsOpened([run]))
    without_steps = seen._forecast.seconds[0]
    seen.on(TrialStarted(run, next_trial(run)))
    seen.on(PhaseEntered("steps"))
    now += traced
    seen.on(PhaseEntered("collection"))
    now += 5.0  # what is no step tells nothing of steps
    seen.on(PhaseEntered("release"))
    assert seen._forecast.seconds == pytest.approx((without_steps + 3 * each,) * 2)


def test_what_a_failed_cell_will_not_run_is_not_ahead(runs: list[Run]) -> None:
    forecast = Forecast(runs)
    spec = next_trial(runs[0])
    failed = Trial("memory", 0, Outcome(Status.FAILED, "build", "no"))
    runs[0].add_trial(failed)
    forecast.count_trial(runs[0], spec, 1.0)
    assert forecast.left == {"memory": 3, "timing": 9}


def test_trials_that_will_be_added_are_ahead(runs: list[Run]) -> None:
    forecast = Forecast(runs[:1])
    made = memory_trial(graph_ops=True, course="a", seconds=2.0)
    end_trial(forecast, runs[0], made, 2.0)
    assert forecast.left == {"memory": 2, "timing": 3}


def test_a_cell_s_own_memory_trials_tell_what_its_others_take(runs: list[Run]) -> None:
    forecast = Forecast(runs[:2])
    end_trial(forecast, runs[0], memory_trial(), 1.0)
    end_trial(forecast, runs[1], memory_trial(), 10.0)
    end_trial(forecast, runs[0], timing_trial(), 2.0)
    assert forecast.seconds[0] == pytest.approx(2 * 2.0 + 3 * 20.0)


def test_what_trials_took_before_a_sweep_was_resumed_counts(runs: list[Run]) -> None:
    runs[0].add_trial(memory_trial(seconds=10.0))
    least, most = Forecast(runs[:1]).seconds
    assert 3 * 5.0 <= least < most <= 3 * 11.0
