"""Scenarios that say something about the child they run in, some by failing with it."""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from runner.machine import lifeline
from runner.scenario import Bench, Executions, Step

_held: list[Any] = []


@dataclass(frozen=True)
class Modules:
    """Which of these modules are loaded?"""

    executions: ClassVar[Executions] = ("eager",)

    names: tuple[str, ...]

    def build(self, bench: Bench) -> Step:
        raise LookupError(f"loaded: {[name for name in self.names if name in sys.modules]}")


@dataclass(frozen=True)
class TakesLongToLeave:
    """Holds 1.5 GB of small pages to its end, which the kernel takes a tenth of a second to get
    back."""

    executions: ClassVar[Executions] = ("eager",)

    pid_file: str

    def build(self, bench: Bench) -> Step:
        pages = mmap.mmap(-1, 3 * 2**29, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel that has none
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        for offset in range(0, len(pages), mmap.PAGESIZE):
            pages[offset] = 1
        _held.append(pages)
        Path(self.pid_file).write_text(str(os.getpid()))
        return lambda: None


@dataclass(frozen=True)
class IsThere:
    """Is that process there, when this one begins?"""

    executions: ClassVar[Executions] = ("eager",)

    pid_file: str

    def build(self, bench: Bench) -> Step:
        raise LookupError(f"state: {lifeline.state(int(Path(self.pid_file).read_text()))}")
