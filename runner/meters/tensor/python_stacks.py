"""Number the lines of the user's that are on the Python stack. No frame is kept, only code objects.

Core: standard library only. Whose code it is goes by the file (`code_owner`); the folders that are
named as the user's are so wherever they lie, and so is code that was made as the program ran. Of
what AutoGraph generated, the line that it was made from counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from runner.meters.code_owner import GENERATED, RUNNER, SCENARIO, USERS, find_owner, make_absolute

_USER, _LIBRARY, _RUNNER, _GENERATED = range(4)


class CodeLine(NamedTuple):
    """A line on the Python stack."""

    file: str
    line: int
    function: str


class PythonStacks:
    """Gives each distinct stack a number, from any thread, at every call of TensorFlow's."""

    def __init__(self, own: Iterable[Path] = ()) -> None:
        """`own`: folders of user code wherever they lie."""
        self.sources: dict[tuple[str, int], CodeLine] = {}
        """A generated line -> the line that it was made from."""
        self._own = tuple(f"{each.resolve()}/" for each in own)
        self._owners: dict[int, int] = {}
        self._codes: list[CodeType] = []  # alive, so that no id is used again
        self._numbers: dict[tuple[int, ...], int] = {}
        self._stacks: list[tuple[tuple[CodeType, int], ...]] = []
        self._is_library: list[bool] = []
        self._lock = threading.Lock()  # a number is a place in a list; threads must not share one

    def number_stack(self, frame: FrameType | None) -> int:
        """Return the number of the user's lines on this stack."""
        # At every call into TensorFlow: ids are looked up twice as fast as code objects, whose hash
        # covers their bytecode.
        innermost, owners = frame, self._owners
        key: list[int] = []
        while frame is not None:
            code = frame.f_code
            owner = owners.get(id(code))
            if owner is None:
                owner = self._find_owner(code)
            if owner is _USER or owner is _GENERATED:
                key += (id(code), frame.f_lineno)
            frame = frame.f_back
        number = self._numbers.get(tuple(key))
        if number is None or not key:
            return self._add_stack(tuple(key), innermost)
        return number

    def _add_stack(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        """Give a new stack its number. With no line of the user's, the innermost one outside
        TensorFlow, or else in it, stands for it."""
        wanted = (_USER, _GENERATED) if key else (_LIBRARY,)
        found = []
        while frame is not None:
            if self._owners[id(frame.f_code)] in wanted:
                found.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        is_library = not key
        if is_library:
            outside = [one for one in found if "/tensorflow/" not in one[0].co_filename]
            found = (outside or found)[:1]
            key = tuple(part for code, line in found for part in (id(code), line))
        with self._lock:
            if key not in self._numbers:
                self._numbers[key] = len(self._stacks)
                self._stacks.append(tuple(reversed(found)))
                self._is_library.append(is_library)
            return self._numbers[key]

    def _find_owner(self, code: CodeType) -> int:
        is_generated = os.path.basename(code.co_filename).startswith(GENERATED)  # noqa: PTH119
        owner = _GENERATED if is_generated else self._find_file_owner(code.co_filename)
        self._codes.append(code)
        self._owners[id(code)] = owner
        return owner

    def _find_file_owner(self, file: str) -> int:
        if file.startswith("<"):
            return _LIBRARY if file.startswith("<frozen ") else _USER
        whole = make_absolute(file)
        owner = USERS if whole.startswith(self._own) else find_owner(whole)
        return {USERS: _USER, SCENARIO: _USER, RUNNER: _RUNNER}.get(owner, _LIBRARY)

    def is_library(self, number: int) -> bool:
        """Return whether no line of the user's is on the stack: its frame is a library's."""
        return self._is_library[number]

    def list_frames(self, number: int) -> tuple[CodeLine, ...]:
        """Return the lines of a stack, outermost first."""
        frames: list[CodeLine] = []
        for code, line in self._stacks[number]:
            frame = CodeLine(code.co_filename, line, code.co_qualname)
            if self._owners[id(code)] is _GENERATED:
                source = self.sources.get((code.co_filename, line))
                if source is None or self._find_file_owner(source.file) is not _USER:
                    continue
                frame = source
            if not frames or frames[-1] != frame:
                frames.append(frame)
        return tuple(frames)
