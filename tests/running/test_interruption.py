"""Signals end a command in order: the first one, and never in the middle of what must be whole."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner import tracking
from runner.composing import composition
from runner.errors import Interrupted
from runner.running import session
from runner.running.engine import Result
from runner.running.interruption import interruptible, uncut
from runner.running.session import Session
from runner.tracking import NoTracker, StoreProblem, TrackedRun


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_raises_and_says_the_exit_code(number: int, code: int) -> None:
    with pytest.raises(Interrupted) as raised, interruptible():
        send(number)
    assert raised.value.exit_code == code


def test_only_the_first_signal_counts() -> None:
    with interruptible():
        with pytest.raises(Interrupted):
            send(signal.SIGINT)
        send(signal.SIGINT)
        send(signal.SIGTERM)


def test_no_library_that_goes_on_after_any_error_swallows_it() -> None:
    def library() -> None:
        with contextlib.suppress(Exception):
            send(signal.SIGINT)

    with pytest.raises(Interrupted), interruptible():
        library()


def test_what_is_uncut_is_done_whole_and_interrupted_at_its_end() -> None:
    done = []

    def work() -> None:
        with uncut():
            send(signal.SIGTERM)
            done.append("the rest of it")
        done.append("what comes after it")

    with interruptible():
        with pytest.raises(Interrupted) as raised:
            work()
        with uncut():
            done.append("on the way out")
    assert raised.value.exit_code == 143
    assert done == ["the rest of it", "on the way out"]


def test_work_that_fails_while_it_is_uncut_does_not_swallow_the_signal() -> None:
    def work() -> None:
        with uncut():
            send(signal.SIGTERM)
            raise ValueError("a flaw")

    with pytest.raises(Interrupted), interruptible():
        work()


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(Interrupted), interruptible():
        send(signal.SIGINT)
    after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before


@pytest.mark.parametrize("when", ["in a trial", "at the end", "while the store is waited for"])
def test_after_ctrl_c_it_is_known_what_the_store_has_not_got(
    when: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(NoTracker):
        is_hurried = False

        def hurry(self) -> None:
            self.is_hurried = True

        def collect(self) -> list[TrackedRun | StoreProblem]:
            if when == "while the store is waited for" and not self.is_hurried:
                send(signal.SIGINT)
            assert self.is_hurried
            return [StoreProblem("no answer in time", "")]

    def measured(_plan: object, _runs: object, _words: object, *rest: Any) -> Result:
        opened: Session = rest[1]
        opened.publishing.publish(folder)
        return Result(folder, (), Interrupted(signal.SIGINT) if when == "in a trial" else None)

    idle = SimpleNamespace(start=lambda: None, stop=lambda: None)
    console = cast(Any, SimpleNamespace(announce=lambda *_: None, close=lambda: None))
    monkeypatch.setattr(session, "Server", lambda _: idle)
    monkeypatch.setattr(session, "_run", measured)
    monkeypatch.setattr(tracking, "open_tracking", lambda *_: Slow())
    plan = composition.plan(["scenario=numpy_loop"], folder)
    if when == "in a trial":
        with session.measured(plan, folder, console) as done:
            assert done.publishing.problem is None
        assert "no answer in time" in str(done.publishing.problem)
        return
    number = signal.SIGINT if when == "at the end" else 0  # which looks whether it could be sent
    with pytest.raises(Interrupted) as raised, session.measured(plan, folder, console):
        send(number)
    (said,) = raised.value.__notes__
    assert "no answer in time" in said
