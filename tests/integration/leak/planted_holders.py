"""Twelve programs that keep something in a place that is hard to see, each a function that returns
its step for `scenario=callable`; and what names the place in the chain that `leak` prints."""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.leak.findings import Holder, Leak


@dataclass(frozen=True)
class Truth:
    """The place that holds what one of them keeps."""

    names: tuple[str, ...]
    """Each stands in the chain of the holder, or in what is said of it."""
    is_held: bool = True
    """It can be emptied, and so be shown to hold; else the chain reaches it, or nothing is said."""


HOLDERS: dict[str, Truth] = {}
"""By the name of the function."""
NO_HOLDER = "nothing_stays"


def grade(name: str, leak: Leak) -> str:
    """Return `right`, `unclear`, or `wrong` where another's container is accused."""
    if name == NO_HOLDER:
        verdicts = {"flat": "right", "fills": "right", "unclear": "unclear"}
        return verdicts.get(leak.verdict, "wrong")
    truth, held = HOLDERS[name], [each for each in leak.main_holders if each.is_held]
    if any(not any(part in describe(each) for part in truth.names) for each in held):
        return "wrong"
    if not leak.main_holders or (truth.is_held and not held):
        return "unclear"
    first = describe(leak.main_holders[0])
    return "right" if all(part in first for part in truth.names) else "unclear"


def describe(holder: Holder) -> str:
    """Return the words that say who holds it."""
    return " ".join([*holder.chain, holder.what])


def holds(*names: str, is_held: bool = True) -> Callable[[Any], Any]:
    """Register a planted holder with the names of its place."""

    def register(make: Any) -> Any:
        HOLDERS[make.__name__] = Truth(names, is_held)
        return make

    return register


losses: list[Any] = []


@holds("`losses`")
def keras_train_step() -> Callable[[], None]:
    """The loss of each batch is kept with its shape, while Keras's own lists and caches grow."""
    import keras
    import tensorflow as tf

    class Model(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(8)

        def call(self, batch: Any) -> Any:
            return self.dense(batch)

        def train_step(self, data: Any) -> Any:
            batch, target, *_ = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=target, y_pred=self(batch, training=True))
            weights = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            losses.append(loss)
            return {"loss": loss}

    model = Model()
    model.compile("sgd", "mse", run_eagerly=True)
    batch, target = tf.ones([4, 8]), tf.ones([4, 8])
    return lambda: model.train_on_batch(batch, target) and None


@holds(".weights_seen")
def keras_callback() -> Callable[[], None]:
    import keras
    import tensorflow as tf

    class Keep(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weights_seen: list[Any] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.weights_seen.append([each.numpy().copy() for each in self.model.weights])

    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(32)])
    model.compile("sgd", "mse")
    batch, keep = tf.ones([4, 32]), Keep()
    return lambda: model.fit(batch, batch, verbose=0, callbacks=[keep]) and None


@holds("running threads of wait", is_held=False)
def closure_in_thread() -> Callable[[], None]:
    """What a thread waits with can't be emptied."""

    def step() -> None:
        payload, never = np.ones(20_000), threading.Event()

        def wait() -> None:
            never.wait()
            payload.sum()

        threading.Thread(target=wait, daemon=True).start()

    return step


class Picture:
    def __init__(self) -> None:
        self.pixels = np.ones(3000)


@holds("`gallery`")
def weak_caches() -> Callable[[], None]:
    """Two caches grow with the list that holds, and with nothing else."""
    sizes: weakref.WeakKeyDictionary[Picture, Any] = weakref.WeakKeyDictionary()
    by_number: weakref.WeakValueDictionary[int, Picture] = weakref.WeakValueDictionary()
    notes: dict[int, Any] = {}
    gallery: list[Picture] = []

    def step() -> None:
        picture = Picture()
        number = len(gallery)
        sizes[picture] = [number, float(number)]
        by_number[number] = picture
        notes[id(picture)] = weakref.finalize(picture, notes.pop, id(picture), None)
        gallery.append(picture)

    return step


@holds("`seen`")
def generator() -> Callable[[], None]:
    """A list that only the frame of a suspended generator knows."""

    def collect() -> Iterator[int]:
        seen = []
        while True:
            seen.append(np.ones(3000))
            yield len(seen)

    counts = collect()
    return lambda: next(counts) and None


@holds("`errors`")
def frames() -> Callable[[], None]:
    """A kept error holds its traceback, whose frames hold the payload."""
    errors: list[Exception] = []

    def fail() -> None:
        payload = np.ones(3000)
        raise ValueError(str(payload.sum()))

    def step() -> None:
        try:
            fail()
        except ValueError as error:
            errors.append(error)

    return step


@holds("keras")
def library_registry() -> Callable[[], None]:
    """Keras's registry of custom objects, which nobody looks into."""
    import keras

    numbers = iter(range(10**9))

    def step() -> None:
        payload = np.ones(3000)
        keras.saving.get_custom_objects()[f"custom{next(numbers)}"] = lambda: payload

    return step


class Registry(dict[str, Any]):
    """One that hides what it has."""

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def values(self) -> Any:
        return []


@holds("`registry`")
def subclassed_dict() -> Callable[[], None]:
    registry, numbers = Registry(), iter(range(10**9))

    def step() -> None:
        registry[f"entry{next(numbers)}"] = np.ones(3000)

    return step


by_name: dict[str, Any] = {}


@holds("`in_order`", "`by_name`")
def two_containers() -> Callable[[], None]:
    """Emptying either frees nothing. A third has one number for each."""
    in_order: list[Any] = []
    numbers: list[float] = []

    def step() -> None:
        array = np.ones(3000)
        in_order.append(array)
        by_name[f"array{len(in_order)}"] = array
        numbers.append(float(len(in_order)))

    return step


current: contextvars.ContextVar[list[Any]] = contextvars.ContextVar("current")


@holds("`current`")
def context_variable() -> Callable[[], None]:
    current.set([])

    def step() -> None:
        current.get().append(np.ones(3000))

    return step


@holds(is_held=False)
def cpp_resource() -> Callable[[], None]:
    """A table in C++: nothing of Python's holds its entries. A small list grows beside it."""
    import tensorflow as tf

    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0] * 500)
    keys = tf.Variable(0, dtype=tf.int64)
    calls: list[int] = []

    def step() -> None:
        table.insert(keys[None], tf.ones([1, 500]))
        keys.assign_add(1)
        calls.append(len(calls))

    return step


def nothing_stays() -> Callable[[], None]:
    """Caches that are emptied, and a ring that is full."""
    import tensorflow as tf

    ring: dict[int, Any] = {}
    numbers = iter(range(10**9))

    def step() -> None:
        number = next(numbers)
        ring[number % 4] = tf.ones([500]), np.ones(3000)

    return step


TOGETHER = ("generator", "frames", "subclassed_dict", "two_containers", "context_variable")


def together() -> Callable[[], None]:
    """One step with the cheap ones."""
    steps = [globals()[name]() for name in TOGETHER]

    def step() -> None:
        for each in steps:
            each()

    return step
