"""Memory that is not anonymous, and what else a process may hold more and more of: functions that
return their step, for `scenario=callable`; a line that maps carries a comment with its bytes."""

from __future__ import annotations

import gc
import itertools
import mmap
import os
import tempfile
import threading
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np

KILOBYTES = 1024
kept: list[Any] = []


def map_all() -> Callable[[], None]:
    """Four kinds of mappings, each with a size of its own."""
    folder, numbers = Path(tempfile.mkdtemp()), itertools.count()
    size = 16 * KILOBYTES
    filled = np.memmap(folder / "filled.bin", dtype="u1", mode="w+", shape=(20_000 * size,))

    def step() -> None:
        number = next(numbers)
        anonymous = mmap.mmap(-1, 64 * KILOBYTES)  # maps 65536
        anonymous[:] = bytes(64 * KILOBYTES)
        shared = shared_memory.SharedMemory(create=True, size=32 * KILOBYTES)
        shared.unlink()
        shared.buf[:] = bytes(32 * KILOBYTES)
        shape = (128 * KILOBYTES,)
        array = np.memmap(folder / f"{number}.bin", dtype="u1", mode="w+", shape=shape)
        array[:] = 1
        filled[number * size : (number + 1) * size] = 1
        kept.append((anonymous, shared, array))

    return step


def read_all() -> Callable[[], None]:
    """A file that is mapped and only read, and shared memory that is written to again: nothing."""
    file = Path(tempfile.mkdtemp()) / "data.bin"
    size = 64 * KILOBYTES
    file.write_bytes(bytes(2_000 * size))
    data, numbers = np.memmap(file, dtype="u1", mode="r"), itertools.count()
    shared = mmap.mmap(-1, size)

    def step() -> None:
        begin = next(numbers) % 2_000 * size
        assert not data[begin : begin + size].any()
        shared[:] = bytes(size)

    return step


def open_files() -> Callable[[], None]:
    return lambda: kept.append(os.open(os.devnull, os.O_RDONLY))


def start_threads() -> Callable[[], None]:
    never = threading.Event()
    return lambda: threading.Thread(target=never.wait, daemon=True).start()


class Node:
    """One of two that hold each other."""

    def __init__(self) -> None:
        self.other: Node | None = None
        self.data = bytearray(20_000)


def make_cycles() -> None:
    first, second = Node(), Node()
    first.other, second.other = second, first


def disable_collector() -> Callable[[], None]:
    gc.disable()
    return make_cycles


def set_no_threshold() -> Callable[[], None]:
    gc.set_threshold(0)
    return make_cycles


def collect_cycles() -> Callable[[], None]:
    return make_cycles
