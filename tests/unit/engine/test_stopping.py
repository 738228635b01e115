"""A measurement that is stopped says what is not in the tracking store yet."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from runner.cell import TrialSpec
from runner.compose import composition
from runner.engine.events import Event, Listener, MeasurementEnded
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.store.listener import StoreListener
from runner.store.publisher import Published
from tests.unit.engine.conftest import Recorder, executor_on


def send(number: int) -> None:
    os.kill(os.getpid(), number)


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
