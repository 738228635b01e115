"""What NumPy and pandas answer to fifty errors, warnings and modes of `np.seterr`, as text.

It is run in a trial and by plain Python; both must give the same.
"""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


class Finalized(np.ndarray):
    """Raises when a view of it is made."""

    def __array_finalize__(self, source: object) -> None:
        if source is not None:
            raise RuntimeError("no views")


class Refusing:
    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        raise LookupError("no array")


def divide(mode: str) -> str:
    with np.errstate(all=mode):
        return str(np.array([1.0, -1.0, 0.0]) / 0)


def overflow(mode: str) -> str:
    with np.errstate(all=mode):
        return str(np.float32(3e38) * np.full(3, 10, np.float32))


def note_calls() -> list[object]:
    calls: list[object] = []
    with np.errstate(divide="call", call=lambda kind, flag: calls.append((kind, flag))):
        np.ones(3) / 0
    return calls


def raise_in_call() -> None:
    def refuse(kind: str, flag: int) -> None:
        raise KeyError(kind)

    with np.errstate(all="call", call=refuse):
        np.ones(100_000) / 0


def note_log() -> list[str]:
    lines: list[str] = []

    class Log:
        def write(self, text: str) -> None:
            lines.append(text)

    with np.errstate(divide="log", call=Log()):
        np.ones(3) / 0
    return lines


def raise_from_iterator() -> None:
    def numbers() -> Any:
        yield from range(1_000)
        raise StopAsyncIteration("enough")

    np.fromiter(numbers(), float)


def raise_from_vectorized() -> None:
    np.frompyfunc(lambda value: 1 / value, 1, 1)(np.arange(1_000)[::-1])


def recurse(depth: int = 0) -> int:
    """Return whether the deepest call that there is room for is ended by what Python says."""
    try:
        np.ones(depth + 1_000).sum()
        return recurse(depth + 1)
    except RecursionError:
        return 0


def be_interrupted() -> int:
    """Return how many of forty alarms were heard: each raises in a loop of NumPy's."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    heard = 0
    before = signal.signal(signal.SIGVTALRM, interrupt)
    for _ in range(40):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.001)
        try:
            while True:
                np.ones(100) + np.ones((3, 100))
        except TimeoutError:
            heard += 1
    signal.signal(signal.SIGVTALRM, before)
    return heard


def note_profiled() -> list[str]:
    """Return the Python functions that NumPy calls to make and drop an array."""
    called: list[str] = []

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    array = np.zeros(1_000)
    array.resize(2_000, refcheck=False)
    del array
    sys.setprofile(None)
    return called


SERIES = pd.Series([1, 2, 3])
FRAME = pd.DataFrame({"key": list("aab"), "value": [1.0, 2.0, 3.0]})
CASES: dict[str, Callable[[], object]] = (
    {
        "isnat of a float": lambda: np.isnat(1.0),  # type: ignore[arg-type]
        "a text and a number": lambda: np.add("a", 1),  # type: ignore[call-overload]
        "text minus text": lambda: np.array(["a"]) - np.array(["b"]),  # type: ignore[operator]
        "bool minus bool": lambda: np.array([True]) - np.array([False]),  # type: ignore[operator]
        "bits of floats": lambda: np.ones(3) & np.ones(3),  # type: ignore[operator]
        "shift of floats": lambda: np.left_shift(np.ones(3), 1.0),  # type: ignore[arg-type]
        "matmul of wrong shapes": lambda: np.ones((2, 3)) @ np.ones((2, 3)),
        "sum of wrong shapes": lambda: np.ones(3) + np.ones(4),
        "a singular matrix": lambda: np.linalg.inv(np.zeros((2, 2))),
        "no square matrix": lambda: np.linalg.eig(np.zeros((2, 3))),
        "not positive": lambda: np.linalg.cholesky(-np.eye(3)),
        "an index beyond": lambda: np.ones(3)[5],
        "an index that is none": lambda: np.ones(3)["a"],  # type: ignore[call-overload]
        "a mask too long": lambda: np.ones(3)[np.ones(4, bool)],
        "a text to a float": lambda: np.array(["a"]).astype(float),
        "a cast that is not safe": lambda: np.ones(3).astype(int, casting="safe"),
        "into another dtype": lambda: np.add(np.ones(3), 0.5, out=np.ones(3, int)),  # type: ignore[arg-type]
        "into another shape": lambda: np.add(np.ones(3), 1, out=np.ones(4)),
        "in place to int": lambda: np.ones(3, int).__itruediv__(2),  # type: ignore[misc]
        "a reshape that cannot be": lambda: np.ones(3).reshape(2, 2),
        "a list of two lengths": lambda: np.array([[1], [1, 2]]),
        "too large": lambda: np.ones(2**50),
        "much too large": lambda: np.ones(2**63),
        "a negative size": lambda: np.ones(-1),
        "a read-only array": lambda: np.broadcast_to(1.0, 3).__setitem__(0, 2),
        "a resize of what is shared": lambda: (array := np.ones(3), array[:], array.resize(9)),
        "largest of nothing": lambda: np.max([]),
        "mean of nothing": lambda: np.mean([]),
        "a sum along no axis": lambda: np.ones(3).sum(axis=2),
        "a file of no numbers": lambda: np.loadtxt(["1 2", "a b"]),
        "a date that is none": lambda: np.datetime64("2026-13-01"),
        "an unknown dtype": lambda: np.zeros(3, "nothing"),
        "a power that is negative": lambda: np.arange(3) ** -1,
        "an int too large": lambda: np.array([300]).astype(np.uint8) + np.uint8(300),
        "divided by zero": lambda: str(np.array([1, 2]) // 0),
        "a log of zero": lambda: str(np.log([0.0, -1.0])),
        "a raising iterator": raise_from_iterator,
        "a raising function": raise_from_vectorized,
        "no views": lambda: np.ones(3).view(Finalized)[:2],
        "no array": lambda: np.ones(3) + Refusing(),  # type: ignore[operator]
        "a mode that calls": note_calls,
        "a mode that calls what raises": raise_in_call,
        "a mode that logs": note_log,
        "a series by a dict": lambda: SERIES.map({1: 2}).tolist(),
        "a series by a text": lambda: SERIES + "a",
        "a series of texts": lambda: pd.Series(["a", "b"]).astype(float),
        "a key that is not there": lambda: FRAME["nothing"],
        "a mean of texts": lambda: FRAME.groupby("value").mean(),
        "a merge without a key": lambda: FRAME.merge(FRAME, on="nothing"),
        "a merge that is not one to one": lambda: FRAME.merge(FRAME, on="key", validate="1:1"),
        "an index of two lengths": lambda: pd.DataFrame({"a": [1], "b": [1, 2]}),
        "dates that are none": lambda: pd.to_datetime(["no date"]),
        "a series of another size": lambda: SERIES.set_axis([1, 2]),
        "groups that raise": lambda: FRAME.groupby("key").apply(lambda group: 1 // 0),
        "as deep as it goes": recurse,
        "alarms": be_interrupted,
        "what a profiler sees": note_profiled,
    }
    | {
        f"{case.__name__} in mode {mode}": lambda case=case, mode=mode: case(mode)  # type: ignore[misc]
        for case in (divide, overflow)
        for mode in ("ignore", "warn", "raise", "print")
    }
)


def answer(case: Callable[[], object]) -> list[str]:
    """Return what a case gives or raises, and of what it warns."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            said = repr(case())
        except Exception as error:
            said = f"{type(error).__name__}: {error}; {type(error.__cause__).__name__}"
    return [said, *(f"{type(one.message).__name__}: {one.message}" for one in warned)]


def answer_all() -> dict[str, list[str]]:
    return {name: answer(case) for name, case in CASES.items()}


def make(file: str) -> Callable[[], None]:
    """Write the answers into a file; the step does nothing."""
    Path(file).write_text(json.dumps(answer_all()))
    return lambda: None


if __name__ == "__main__":
    make(sys.argv[1])
