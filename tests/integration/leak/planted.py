"""Eight leaks, one of each kind, and five that look like one and are none. Each is a function that
returns its step, for `scenario=callable`; the line that leaks, or that holds, carries a comment."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

history: list[Any] = []
arrays: list[Any] = []
cache: dict[int, Any] = {}


def list_of_tensors() -> Callable[[], None]:
    import tensorflow as tf

    def step() -> None:
        history.append(tf.random.stateless_uniform([2000], [1, 2]))  # leak: tensor

    return step


def list_of_arrays() -> Callable[[], None]:
    def step() -> None:
        arrays.append(np.ones(2000))  # leak: python

    return step


def cache_by_key() -> Callable[[], None]:
    counter = iter(range(10**9))

    def looked_up(key: int) -> Any:
        if key not in cache:
            cache[key] = [float(key + number) for number in range(200)]  # leak: python
        return cache[key]

    def step() -> None:
        looked_up(next(counter))

    return step


class Emitter:
    """Calls back whoever registered."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = []


class Listener:
    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter  # the cycle: emitter -> callback -> listener -> emitter
        self.state = bytearray(6000)  # leak: python
        emitter.callbacks.append(self.called)

    def called(self) -> None: ...


emitter = Emitter()


def callback_cycle() -> Callable[[], None]:
    return lambda: Listener(emitter) and None


def retracing() -> Callable[[], None]:
    import tensorflow as tf

    @tf.function
    def scale(tensor: Any, factor: Any) -> Any:
        return tensor * factor

    tensor = tf.ones([4])
    counter = iter(range(10**9))

    def step() -> None:
        scale(tensor, float(next(counter)))  # leak: graph

    return step


def graph_per_model() -> Callable[[], None]:
    import tensorflow as tf

    models = []
    tensor = tf.ones([4, 4])

    class Model(tf.Module):  # type: ignore[misc]
        @tf.function
        def __call__(self, tensor: Any) -> Any:
            return tf.matmul(tensor, tensor) + 1.0

    def step() -> None:
        model = Model()
        model(tensor)  # leak: graph
        models.append(model)

    return step


def native_op() -> Callable[[], None]:
    import tensorflow as tf

    tf.random.set_seed(7)

    def step() -> None:
        tf.random.normal([10])  # leak: native

    return step


def closure_in_thread() -> Callable[[], None]:
    def step() -> None:
        payload = np.ones(20_000)  # leak: python
        waiting = threading.Event()

        def hold() -> None:
            waiting.wait()
            payload.sum()

        threading.Thread(target=hold, daemon=True).start()

    return step


# Not leaks.


def warms_up() -> Callable[[], None]:
    tables: dict[int, Any] = {}
    counter = iter(range(10**9))

    def step() -> None:
        number = next(counter)
        if number < 20:
            tables[number] = np.ones(50_000)

    return step


def bounded_cache() -> Callable[[], None]:
    counter = iter(range(10**9))

    @functools.lru_cache(maxsize=16)
    def looked_up(key: int) -> Any:
        return np.full(4000, key)

    def step() -> None:
        looked_up(next(counter))

    return step


def shuffle_fills() -> Callable[[], None]:
    import tensorflow as tf

    numbers = tf.data.Dataset.range(10**9).map(lambda number: tf.fill([1000], number))
    values = iter(numbers.shuffle(500, seed=1))

    def step() -> None:
        next(values)

    return step


def fragments() -> Callable[[], None]:
    generator = np.random.default_rng(0)

    def step() -> None:
        sizes = generator.integers(1_000, 120_000, 40)
        blocks = [bytearray(int(size)) for size in sizes]
        del blocks[::2]

    return step


def collected_late() -> Callable[[], None]:
    class Node:
        def __init__(self) -> None:
            self.itself = self
            self.state = np.ones(1000)

    def step() -> None:
        Node()

    return step


# What happens rarely.


def every_fiftieth() -> Callable[[], None]:
    """As an evaluation that logs."""
    counter, log = iter(range(10**9)), list[Any]()

    def step() -> None:
        if next(counter) % 50 == 7:
            log.append(np.ones(8192))  # leak: python

    return step


# What no tracer sees.


def past_the_tracer() -> Callable[[], None]:
    """As much again is garbage, which is no leak."""
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    late = collected_late()

    def step() -> None:
        ctypes.memset(malloc(8000), 1, 8000)
        late()

    return step


LEAKS = {
    "list_of_tensors": "tensor",
    "list_of_arrays": "python",
    "cache_by_key": "python",
    "callback_cycle": "python",
    "retracing": "graph",
    "graph_per_model": "graph",
    "native_op": "native",
    "closure_in_thread": "python",
}
NO_LEAKS = ("warms_up", "bounded_cache", "shuffle_fills", "fragments", "collected_late")


def all_leaks() -> Callable[[], None]:
    """One step with every leak."""
    return _together(LEAKS)


def no_leaks() -> Callable[[], None]:
    return _together(NO_LEAKS)


def _together(names: Iterable[str]) -> Callable[[], None]:
    steps = [globals()[name]() for name in names]

    def step() -> None:
        for each in steps:
            each()

    return step
