"""A whole fit: its searches go on side by side, and what ends one of them by force ends all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.cell import TrialSpec
from runner.compose import composition
from runner.engine.measure import measure
from runner.errors import BadInput, ServerError
from runner.facts import RequestSequence
from runner.fit import fitting
from runner.fit.fitting import FitSearch
from runner.fit.probes import Limit
from runner.fit.strategies import list_strategies
from runner.records import Outcome, Status, Trial
from tests.factories import memory_trial, timing_trial
from tests.unit.engine.conftest import Recorder, executor_on


def test_a_lost_server_ends_every_search_at_once_and_the_result_says_so(tmp_path: Path) -> None:
    def lose(_: TrialSpec) -> None:
        raise ServerError("the server ended.", "Its last words are in the log.")

    folder = tmp_path / "fit"
    words = ("scenario=python_loop", "scenario.gradient=none,tape", "device.memory_limit_mb=64")
    strategies = list_strategies(composition.compose_plan(["-m", *words]), "batch_size")
    search = FitSearch("batch_size", 9, words, strategies, folder)
    server = Recorder(lose)
    result = measure(search, folder, executor_on(server))
    assert len(server.asked) <= 2
    assert isinstance(result.stopped, ServerError)
    assert result.exit_code == 1
    search.stop(result.stopped)
    search.keep()
    kept = json.loads((folder / fitting.RESULT_FILE).read_text())
    assert {each["reason"] for each in kept["strategies"]} == {
        "the server ended; nothing had completed before"
    }


WORDS = ("scenario=while_loop", "device.memory_limit_mb=64")


class World(Recorder):
    """Answers each trial as it is told to."""

    def __init__(self, answer: Callable[[TrialSpec], Trial]) -> None:
        super().__init__()
        self.specs: list[TrialSpec] = []
        self._answer = answer

    def run(self, spec: TrialSpec, *_: object) -> Trial:
        self.specs.append(spec)
        return self._answer(spec)


def search_in(folder: Path, answer: Callable[[TrialSpec], Trial]) -> tuple[Limit, World]:
    strategies = list_strategies(composition.compose_plan(["-m", *WORDS]), "batch_size")
    search, world = FitSearch("batch_size", 10_000, WORDS, strategies, folder), World(answer)
    measure(search, folder, executor_on(world))
    return search.limits[0], world


def answer_with(end: Outcome, limit: int = 64, **facts: Any) -> Callable[[TrialSpec], Trial]:
    """Trials whose memory grows by 1 MiB a value, and which end so beyond the limit."""

    def answer(spec: TrialSpec) -> Trial:
        value = spec.experiment.batch_size
        if value > limit:
            return Trial(spec.kind, spec.index, end)
        if spec.kind == "timing":
            return timing_trial(index=spec.index)
        size = value * 2**20
        requests = RequestSequence((size,), (0,), ("op",), (0, 0))
        return memory_trial(size, index=spec.index, requests=requests, **facts)

    return answer


def test_a_crash_where_memory_was_foreseen_to_run_out_is_out_of_memory(tmp_path: Path) -> None:
    crash = Outcome(Status.KILLED, "steps", "ended by SIGSEGV")
    limit, _ = search_in(tmp_path / "fit", answer_with(crash))
    assert limit.largest == 64
    assert [probe.crash for probe in limit.probes if not probe.fits] == ["ended by SIGSEGV"]


@pytest.mark.parametrize(("beyond", "reason"), [(16, "ended by SIGSEGV"), (64, "ended by SIGKILL")])
def test_any_other_crash_stops_the_search(beyond: int, reason: str, tmp_path: Path) -> None:
    """Of the first value nothing says that memory could run out; and somebody else kills."""
    crash = Outcome(Status.KILLED, "steps", reason)
    limit, _ = search_in(tmp_path / "fit", answer_with(crash, beyond))
    assert limit.largest is None
    assert reason in (limit.problem or "")


def test_where_processes_may_differ_five_of_them_fit_and_no_more_are_asked(tmp_path: Path) -> None:
    end = Outcome(Status.OUT_OF_MEMORY, "steps", "no room")
    limit, world = search_in(tmp_path / "fit", answer_with(end, graph_ops=True, course="a"))
    assert limit.largest == 64
    kinds = Counter(spec.kind for spec in world.specs if spec.experiment.batch_size == 64)
    assert kinds == {"memory": 2, "timing": 3}


def test_a_batch_size_that_the_script_is_not_told_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    words = ["scenario=script", "scenario.path=train.py", "device.memory_limit_mb=64"]
    plan = composition.compose_plan(words)
    with pytest.raises(BadInput, match=r"vary=batch_size: train\.py is not told it"):
        list_strategies(plan, "batch_size")
    told = composition.compose_plan([*words, "scenario.argv=['--batch={batch_size}']"])
    assert len(list_strategies(told, "batch_size")) == 1
