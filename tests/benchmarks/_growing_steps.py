"""Steps that leave something behind for good, for a while, or not at all: `size` bytes each."""

from __future__ import annotations

import ctypes
import gc
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], object]

_libc = ctypes.CDLL(None)
_libc.malloc.argtypes, _libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
_libc.memset.restype = ctypes.c_void_p
_kept: list[Any] = []


def _tensor(size: int) -> Any:
    import tensorflow as tf

    return tf.ones([size // 4])


def _keep(value: object) -> None:
    _kept.append(value)


def nothing(size: int) -> Step:
    return lambda: None


def tensor_that_goes(size: int) -> Step:
    return lambda: _tensor(size)


def tensor_that_stays(size: int) -> Step:
    return lambda: _keep(_tensor(size))


def array_that_stays(size: int) -> Step:
    return lambda: _keep(np.ones(size // 8))


def array_that_stays_beside_garbage(size: int) -> Step:
    """2 MB of it are made before the first step, and wait for a look through all objects."""
    cycles: list[Any] = [[np.ones(1_000)] for _ in range(250)]
    for cycle in cycles:
        cycle.append(cycle)
    gc.collect()
    return array_that_stays(size)


def tuples_that_go(size: int) -> Step:
    """So many of each of eight lengths at once: Python keeps them for others."""
    return lambda: [tuple(range(length)) for length in range(2, 10) for _ in range(size)]


def array_that_goes(size: int) -> Step:
    return lambda: np.ones(size // 8)


def mapping_that_goes(size: int) -> Step:
    """Its pages go back to the kernel with it, as malloc's don't."""

    def step() -> None:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            for page in range(0, size, 4096):
                pages[page] = 1

    return step


def bytes_that_stay(size: int) -> Step:
    return lambda: _keep(b"x" * (size - 33))


def malloc_that_stays(size: int) -> Step:
    return lambda: _libc.memset(_libc.malloc(size), 1, size) and None


def warm_up(size: int) -> Step:
    """Keeps for the first seven steps, the first call among them."""

    def step() -> None:
        if len(_kept) < 14:
            _kept.extend([np.ones(size), _tensor(size)])

    return step


def cache_that_is_emptied(size: int) -> Step:
    def step() -> None:
        _keep(np.ones(size))
        if len(_kept) == 90:
            _kept.clear()

    return step


def tensors_in_a_cache_that_is_emptied(size: int) -> Step:
    def step() -> None:
        _keep(_tensor(size))
        if len(_kept) == 7:
            _kept.clear()

    return step


class _Node:
    """Refers to itself, so only Python's collector frees it."""

    def __init__(self, value: object) -> None:
        self.itself, self.value = self, value


def cycle_with_a_tensor(size: int) -> Step:
    def step() -> None:
        _Node(_tensor(size))

    return step


def stairs(size: int) -> Step:
    """Keeps in every third step."""
    calls = [0]

    def step() -> None:
        calls[0] += 1
        if calls[0] % 3 == 0:
            _keep(_tensor(3 * size))

    return step


def dict_that_stays(size: int) -> Step:
    """As many small dictionaries as come to `size`, or one."""
    return lambda: _keep([{} for _ in range(max(1, size // 64))])


def _ring(size: int, length: int) -> Step:
    """Keeps the last tensors."""
    ring: dict[int, Any] = {}
    calls = [0]

    def step() -> None:
        ring[calls[0] % length] = _tensor(size)
        calls[0] += 1

    return step


def ring_of_16(size: int) -> Step:
    return _ring(size, 16)


def ring_of_100(size: int) -> Step:
    return _ring(size, 100)


def ring_of_250(size: int) -> Step:
    return _ring(size, 250)


def rings(size: int) -> Step:
    steps = [_ring(size, length) for length in (16, 100, 250)]

    def step() -> None:
        for each in steps:
            each()

    return step
