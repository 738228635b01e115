"""Number the lines of the user's that are on the Python stack. No frame is kept, only code objects.

Whose code it is goes by the file: all is the user's but the standard library, installed packages
and the runner itself; the folders that are named as the user's are so wherever they lie. Of what
AutoGraph generated, the line that it was made from counts.
"""

from __future__ import annotations

import os
import sysconfig
import threading
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType

import runner
from runner.meters.code_owner import make_absolute
from runner.meters.tensor.recording import CodeLine

_USER, _LIBRARY, _RUNNER, _GENERATED = range(4)
_GENERATED_NAME = "__autograph_generated_file"
_TENSORFLOW = f"{os.sep}tensorflow{os.sep}"


class PythonStacks:
    """Gives each distinct stack a number, from any thread, at every call of TensorFlow's."""

    def __init__(self, own: Iterable[Path] = ()) -> None:
        """`own`: folders of user code wherever they lie."""
        self.sources: dict[tuple[str, int], CodeLine] = {}
        """A generated line -> the line that it was made from."""
        self._own = tuple(f"{each.resolve()}{os.sep}" for each in own)
        self._runners = f"{Path(runner.__file__).resolve().parent}{os.sep}"
        standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
        standard |= {os.path.realpath(path) for path in standard}
        self._library = ("<frozen ", *(f"{path}{os.sep}" for path in standard))
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
            outside = [one for one in found if _TENSORFLOW not in one[0].co_filename]
            found = (outside or found)[:1]
            key = tuple(part for code, line in found for part in (id(code), line))
        with self._lock:
            if key not in self._numbers:
                self._numbers[key] = len(self._stacks)
                self._stacks.append(tuple(reversed(found)))
                self._is_library.append(is_library)
            return self._numbers[key]

    def _find_owner(self, code: CodeType) -> int:
        is_generated = os.path.basename(code.co_filename).startswith(_GENERATED_NAME)  # noqa: PTH119
        owner = _GENERATED if is_generated else self._find_file_owner(code.co_filename)
        self._codes.append(code)
        self._owners[id(code)] = owner
        return owner

    def _find_file_owner(self, file: str) -> int:
        whole = file if file.startswith("<") else make_absolute(file)
        if whole.startswith(self._own):
            return _USER
        if whole.startswith(self._runners):
            return _RUNNER
        is_installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(whole).parts)
        return _LIBRARY if is_installed or whole.startswith(self._library) else _USER

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
