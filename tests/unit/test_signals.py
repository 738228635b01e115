"""Signals end a command in order: the first one, and never in the middle of what must be whole."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from runner.compose import composition
from runner.errors import Interrupted
from runner.signals import defer_signals, raise_if_stopped, stop_on_signals


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


def test_a_loop_stops_though_a_library_swallowed_the_exception() -> None:
    done = []

    def work() -> None:
        for number in range(3):
            raise_if_stopped()
            with contextlib.suppress(BaseException):
                send(signal.SIGTERM)
            done.append(number)

    with pytest.raises(Interrupted) as raised, stop_on_signals():
        work()
    assert (done, raised.value.exit_code) == ([0], 143)
    raise_if_stopped()  # nothing is left of it
    with stop_on_signals():
        raise_if_stopped()


def test_a_sweep_s_planning_stops_though_the_exception_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    composed = []

    def swallow(*_: object) -> None:
        composed.append(len(composed))
        with contextlib.suppress(BaseException):
            send(signal.SIGINT)

    make_cell = composition._make_cell
    monkeypatch.setattr(composition, "_make_cell", lambda *of: (swallow(), make_cell(*of))[1])
    with pytest.raises(Interrupted), stop_on_signals():
        composition.compose_plan(["-m", "scenario=tape", "seed=range(0,9)"])
    assert composed == [0]


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
