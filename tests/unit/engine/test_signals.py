"""Signals end a command in order: the first one, and never in the middle of what must be whole."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from runner.cell import TrialSpec
from runner.compose import composition
from runner.engine.events import Event, Listener, MeasurementEnded
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.engine.signals import defer_signals, stop_on_signals
from runner.errors import Interrupted
from runner.store.listener import StoreListener
from runner.store.publisher import Published
from tests.unit.engine.conftest import Recorder, executor_on


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_raises_and_says_the_exit_code(number: int, code: int) -> None:
    with pytest.raises(Interrupted) as raised, stop_on_signals():
        send(number)
    assert raised.value.exit_code == code


def test_only_the_first_signal_counts() -> None:
    with stop_on_signals():
        with pytest.raises(Interrupted):
            send(signal.SIGINT)
        send(signal.SIGINT)
        send(signal.SIGTERM)


def test_no_library_that_goes_on_after_any_error_swallows_it() -> None:
    def library() -> None:
        with contextlib.suppress(Exception):
            send(signal.SIGINT)

    with pytest.raises(Interrupted), stop_on_signals():
        library()


def test_deferred_signals_interrupt_at_the_end_of_the_work() -> None:
    done = []

    def work() -> None:
        with defer_signals():
            send(signal.SIGTERM)
            done.append("the rest of it")
        done.append("what comes after it")

    with stop_on_signals():
        with pytest.raises(Interrupted) as raised:
            work()
        with defer_signals():
            done.append("on the way out")
    assert raised.value.exit_code == 143
    assert done == ["the rest of it", "on the way out"]


def test_failing_work_does_not_swallow_a_deferred_signal() -> None:
    def work() -> None:
        with defer_signals():
            send(signal.SIGTERM)
            raise ValueError("a flaw")

    with pytest.raises(Interrupted), stop_on_signals():
        work()


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(Interrupted), stop_on_signals():
        send(signal.SIGINT)
    after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before


class SlowPublisher:
    """In place of the store's process: answers nothing until it is hurried."""

    when = ""

    def __init__(self, *_: object) -> None:
        self.folders: list[Path] = []

    def publish(self, folder: Path) -> None:
        self.folders.append(folder)

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def finish(self, seconds: float | None = None) -> list[Published]:
        if seconds is None:
            assert self.when == "while the store is waited for"
            send(signal.SIGINT)
        problem = "no answer in time"
        return [Published(str(each), problem=problem, is_final=True) for each in self.folders]

    def close(self) -> None: ...


@pytest.mark.parametrize("when", ["in a trial", "at the end", "while the store is waited for"])
def test_after_ctrl_c_the_result_names_what_is_unstored(
    when: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopping:
        """Is told of the end before the store is."""

        def on(self, event: Event) -> None:
            if when == "at the end" and isinstance(event, MeasurementEnded):
                send(signal.SIGINT)

        def close(self) -> None: ...

    def stop(_: TrialSpec) -> None:
        if when == "in a trial" and publishers[0].folders:  # of the first cell
            send(signal.SIGINT)

    def make_publisher(*_: object) -> SlowPublisher:
        publishers.append(SlowPublisher())
        return publishers[0]

    publishers: list[SlowPublisher] = []
    monkeypatch.setattr("runner.store.listener.BackgroundPublisher", make_publisher)
    monkeypatch.setattr(SlowPublisher, "when", when)
    words = ["-m", "scenario=numpy_loop", "batch_size=4,8", "measure.timing_processes=0"]
    plan = composition.compose_plan([*words, "measure.side_by_side=1"])
    store = StoreListener(plan.cells[0].experiment.tracking, folder)
    listeners: list[Listener] = [Stopping(), store]
    result = measure(Grid(plan), folder, executor_on(Recorder(stop)), listeners)
    assert result.exit_code == 130
    (problem,) = result.warnings
    assert problem.startswith("Not in the tracking store: no answer in time.\n  Bring it in later:")
    assert f"publish {folder}" in problem
