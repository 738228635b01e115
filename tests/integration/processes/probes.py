"""Scenarios that say something about the child they run in, some by failing with it."""

from __future__ import annotations

import itertools
import mmap
import os
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from runner.processes import process_tree
from runner.scenario import Bench, Executions, Step
from tests.attacks import breaks

_held: list[Any] = []


@dataclass(frozen=True)
class Modules:
    """Which of these modules are loaded?"""

    executions: ClassVar[Executions] = ("eager",)

    names: tuple[str, ...]

    def build(self, bench: Bench) -> Step:
        raise LookupError(f"loaded: {[name for name in self.names if name in sys.modules]}")


@dataclass(frozen=True)
class Inherited:
    """Which descriptors that are no file and no standard stream does a program find?"""

    executions: ClassVar[Executions] = ("eager",)

    def build(self, bench: Bench) -> Step:
        named = []
        for link in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # the one that the folder was read by
                if 2 < int(link.name) < 1024:
                    named.append(str(link.readlink()))
        raise LookupError(f"found: {sorted(each for each in named if not each.startswith('/'))}")


@dataclass(frozen=True)
class Frames:
    """How many frames are below a step?"""

    executions: ClassVar[Executions] = ("eager",)

    def build(self, bench: Bench) -> Step:
        def step() -> None:
            frame, count = sys._getframe(1), 0
            while frame is not None:
                frame, count = frame.f_back, count + 1  # type: ignore[spec]
            raise LookupError(f"frames: {count}")

        return step


@dataclass(frozen=True)
class Surroundings:
    """Where does it stand, and as what?"""

    executions: ClassVar[Executions] = ("eager",)

    def build(self, bench: Bench) -> Step:
        main = sys.modules["__main__"]
        raise LookupError(f"{Path.cwd()} {sys.argv} {sys.path[-1]} {vars(main).get('__file__')}")


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
        raise LookupError(f"state: {process_tree.read_state(int(Path(self.pid_file).read_text()))}")


@dataclass(frozen=True)
class FrozenTime:
    """Does a trial notice that the clocks stand still, or run backwards?"""

    executions: ClassVar[Executions] = ("eager",)

    runs_backwards: bool

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        sleep, readings = time.sleep, itertools.count(-1_000_000_000_000, -1_000_000)
        fake = (lambda: next(readings)) if self.runs_backwards else (lambda: 1_000_000)
        breaks.set_clocks(fake)
        assert time.perf_counter is fake

        def step() -> None:
            sleep(0.002)
            _held.append(tf.fill([7_777], 1.0))

        return step


@dataclass(frozen=True)
class LosesItsFolder:
    """Does a trial end well that stands in a folder which is gone?"""

    executions: ClassVar[Executions] = ("eager",)

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        def step() -> None:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
            assert not Path(folder).exists()
            _held.append(tf.fill([7_777], 1.0))

        return step
