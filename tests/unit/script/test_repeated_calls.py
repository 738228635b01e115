"""Which functions a loop without a known step calls, and which of them may be its step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType

import pytest

from runner.records import RepeatedCalls
from runner.script import repeated_calls
from runner.script.marks import ScriptStopped
from runner.script.repeated_calls import CallSearch, name_function

PATIENCE = 60.0
"""Seconds after which a loop ends by itself, however busy the machine is."""


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAIT_SECONDS", "COUNT_SECONDS", "TELL_SECONDS"):
        seconds = getattr(repeated_calls, name)
        monkeypatch.setattr(repeated_calls, name, seconds / 20)
    monkeypatch.setattr(repeated_calls, "_TICK_SECONDS", 0.02)


def read() -> int:
    return 1


def compute() -> int:
    return sum(range(3000))


def handle() -> int:
    return compute() + compute()


def loop_plainly(until: float) -> None:
    while time.monotonic() < until:
        read()
        handle()


class Server:
    @property
    def is_open(self) -> bool:
        return True

    def answer(self) -> int:
        return handle()

    def serve(self, until: float) -> None:
        while time.monotonic() < until and self.is_open:
            self.answer()


def loop_slowly(until: float) -> None:
    """A call takes longer than the counting usually does."""
    while time.monotonic() < until:
        wait()


def wait() -> None:
    time.sleep(0.15)


def make_numbers(until: float) -> Iterator[float]:
    while time.monotonic() < until:
        yield time.monotonic()


def loop_over_a_generator(until: float) -> None:
    for _ in make_numbers(until):
        handle()


def loop_and_catch(until: float) -> None:
    """A program that goes on, whatever is raised in it, for a while."""
    caught = 0
    while time.monotonic() < until:
        try:
            handle()
        except BaseException:
            caught += 1
            if caught > 1:
                raise


def compute_once(until: float) -> None:
    """Nothing is called again and again."""
    ends = min(until, time.monotonic() + 1.0)
    while time.monotonic() < ends:
        pass


def search(
    program: Callable[[float], None], has_step: bool = False, may_choose: bool = True
) -> tuple[list[RepeatedCalls], str | None]:
    """Return what was told while a program ran, and the step for which it was stopped."""
    told: list[RepeatedCalls] = []
    chosen: list[str] = []

    def choose(step: str) -> None:
        chosen.append(step)
        raise ScriptStopped

    searching = CallSearch(
        lambda: has_step,
        lambda frame: name_function(frame.f_code, frame.f_globals["__name__"]),
        told.append,
        lambda: may_choose,
        choose,
    )
    try:
        program(time.monotonic() + PATIENCE if may_choose else time.monotonic() + 1.0)
    except ScriptStopped:
        assert chosen
    finally:
        searching.end()
        sys.setprofile(None)
    return told, chosen[-1] if chosen else None


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (loop_plainly, ("handle", "read", "compute")),
        (Server().serve, ("Server.answer", "Server.is_open", "handle", "compute")),
        (loop_slowly, ("wait",)),
        (loop_over_a_generator, ("handle", "compute")),
        (loop_and_catch, ("handle", "compute")),
    ],
)
def test_what_the_loop_itself_calls_is_the_likeliest_step(
    program: Callable[[float], None], names: tuple[str, ...]
) -> None:
    told, chosen = search(program)
    *_, last = told  # on a busy machine it may be told first that there is none yet
    assert last.steps == tuple(f"{__name__}:{name}" for name in names)
    assert last.goes_on
    assert chosen == f"{__name__}:{names[0]}"


def test_a_program_that_may_train_later_is_told_and_goes_on() -> None:
    told, chosen = search(loop_plainly, may_choose=False)
    assert [(calls.goes_on, calls.steps[0]) for calls in told] == [(False, f"{__name__}:handle")]
    assert chosen is None


def test_a_program_without_repeated_calls_is_told_so_and_goes_on() -> None:
    told, chosen = search(compute_once)
    assert [(calls.steps, calls.goes_on, calls.is_waiting) for calls in told] == [
        ((), False, False)
    ]
    assert chosen is None


def test_a_program_with_a_known_step_is_not_looked_at() -> None:
    assert search(compute_once, has_step=True) == ([], None)


def make_code(name: str) -> CodeType:
    return read.__code__.replace(co_qualname=name)


@pytest.mark.parametrize(
    ("module", "name", "step"),
    [
        ("__main__", "handle", "__main__:handle"),
        ("__main__", "main.<locals>.handle", "__main__:main.handle"),
        ("service", "Server.handle", "service:Server.handle"),
        ("service", "main.<locals>.handle", None),
        ("__main__", "<lambda>", None),
        ("__main__", "<module>", None),
    ],
)
def test_only_what_scenario_step_can_name_is_a_step(
    module: str, name: str, step: str | None
) -> None:
    named = name_function(make_code(name), module)
    assert (named and named.step) == step


def test_only_the_users_own_functions_are_steps() -> None:
    assert name_function(make_code.__code__, __name__) is not None
    assert name_function(pytest.importorskip.__code__, "_pytest.outcomes") is None
