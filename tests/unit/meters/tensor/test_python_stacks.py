"""Numbers of stacks, of frames made by hand."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from runner.meters import code_owner
from runner.meters.tensor import python_stacks
from runner.meters.tensor.python_stacks import CodeLine, PythonStacks

MINE, STANDARD = "/home/me/train.py", f"{sysconfig.get_path('stdlib')}/threading.py"
KERAS = "/env/site-packages/keras/src/layer.py"
TENSORFLOW = "/env/site-packages/tensorflow/python/ops.py"


def call_through(*files: str, then: Callable[[], Any]) -> Any:
    """Call functions of these files, each from the second line of the one before.

    In a thread, above which lies the standard library alone: not pytest, nor who runs it.
    """
    for file in reversed(files):
        names = {"then": then}
        exec(compile("def call():\n    return then()", file, "exec"), names)
        then = names["call"]
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(then).result()


def number(stacks: PythonStacks, *files: str) -> int:
    def ask() -> int:
        frame: FrameType | None = sys._getframe(1)
        return stacks.number_stack(frame)

    found: int = call_through(*files, then=ask)
    return found


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> PythonStacks:
    """Of a program whose only lines are those made by hand: this file's are the runner's."""

    def find_owner(file: str) -> str:
        is_ours = file.startswith(str(Path(__file__).parents[4]))
        return code_owner.RUNNER if is_ours else code_owner.find_owner(file)

    monkeypatch.setattr(python_stacks, "find_owner", find_owner)
    return PythonStacks(own=[Path("/home/me")])


def test_a_stack_has_the_users_lines_outermost_first(stacks: PythonStacks) -> None:
    one = number(stacks, "/home/me/main.py", STANDARD, MINE, KERAS, TENSORFLOW)

    assert stacks.list_frames(one) == (
        CodeLine("/home/me/main.py", 2, "call"),
        CodeLine(MINE, 2, "call"),
    )
    assert not stacks.is_library(one)
    assert number(stacks, "/home/me/main.py", MINE) != one


def test_one_line_has_one_number(stacks: PythonStacks) -> None:
    numbers: list[int] = []

    def ask() -> None:
        numbers.append(stacks.number_stack(sys._getframe(1)))

    def ask_twice() -> None:
        ask()
        ask()

    call_through(MINE, then=ask_twice)
    assert numbers[0] == numbers[1]


def test_without_a_line_of_the_users_the_library_next_to_tensorflow_stands_for_it(
    stacks: PythonStacks,
) -> None:
    found = number(stacks, STANDARD, KERAS, TENSORFLOW)

    assert stacks.is_library(found)
    assert stacks.list_frames(found) == (CodeLine(KERAS, 2, "call"),)


def test_a_generated_line_is_the_line_that_it_was_made_from(stacks: PythonStacks) -> None:
    generated = "/tmp/__autograph_generated_file1.py"
    stacks.sources[generated, 2] = CodeLine(MINE, 40, "train")

    assert stacks.list_frames(number(stacks, generated)) == (CodeLine(MINE, 40, "train"),)
