"""Suggestions: what to write differently, from the holder of what grows.

Core: standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runner.leak.findings import Holder, Leak, Remedy
from runner.metrics import format_bytes
from runner.records import ONEDNN, THREAD_STACKS, THREAD_START


def suggest_changes(leak: Leak) -> Iterator[Remedy]:
    """Yield what to write, from each holder; each once. A buffer that fills needs nothing."""
    if leak.verdict == "fills":
        return
    seen = set()
    traced = {
        holder.where for holder in leak.main_holders if holder.kind in ("graph", "executable")
    }
    for holder in leak.main_holders:
        if holder.kind == "native" and holder.where in traced:  # it is what the graph takes in C++
            continue
        change = _suggest_change(holder)
        if change and change not in seen:
            seen.add(change)
            yield Remedy(f"{holder.where}: {change}" if holder.file else change)


def _suggest_change(holder: Holder) -> str | None:
    """Return the change for a holder; None where what was found says of none that it fits."""
    if holder.kind == "malloc":
        return None
    if holder.kind in ("graph", "executable"):
        return _suggest_for_graph(holder)
    if holder.chain and (holder.is_held or _OF_THREAD.search(holder.chain[0])):
        return _suggest_for_container(holder)
    if "made of Python values" in holder.what:
        return "TensorFlow keeps a tensor of each Python number: pass NumPy's, `np.float32(number)`"
    return _suggest_for_op(holder.what) if holder.kind == "native" else None


def _suggest_for_op(what: str) -> str | None:
    if "random" in what:
        return (
            "draw from a generator made once, `g = tf.random.Generator.from_seed(1)` and "
            "`g.normal(shape)`, or from tf.random.stateless_normal(shape, seed=[1, n])"
        )
    if what in (THREAD_STACKS, THREAD_START):
        return "let the threads end, or hand work to a pool: concurrent.futures.ThreadPoolExecutor"
    if what.startswith(ONEDNN):
        return "say TF_ENABLE_ONEDNN_OPTS=0; where shapes differ, pad them to a few"
    if _OF_KERAS.search(what):
        return "call the model itself, `model(batch)`: Keras makes a pipeline for each call here"
    if "iterator" in what:
        return "make one iterator, outside of the step: `values = iter(dataset.repeat())`"
    return None


_OF_THREAD = re.compile(r"^running threads|^thread '|, running in thread ")
"""What a chain begins with that a thread holds; a name may have the word in it, too."""

_OF_KERAS = re.compile(r" under (fit|evaluate|predict)\b")


def _suggest_for_container(holder: Holder) -> str | None:
    """Return the change by the container that grows, and by what it is given."""
    *way, given = holder.chain
    held = given.partition(" ")[2].removesuffix(" a step")
    if _OF_THREAD.search(way[0]):
        return "let the thread end, or hand it what it needs as an argument that it can drop"
    if cached := next((link for link in way if link.startswith("the cache of ")), None):
        function = cached.removeprefix("the cache of ").partition(" (")[0]
        return f"bound the cache of `{function}`: functools.lru_cache(maxsize=1000)"
    name, link = _name_container(way)
    if name is None:
        return None
    if _LIBRARY.search(link):  # nobody can bound it, and what the user's line makes is not known
        return None
    bound = (
        f"bound `{name}`: drop its oldest key"
        if ", a dict" in way[-1]
        else f"bound `{name}`: collections.deque(maxlen=1000), or clear it"
    )
    if held == "EagerTensor":
        return f"keep a number, `float(loss)`, in `{name}`; or {bound}"
    if held == "ResourceVariable":
        return f"make the variable once and `variable.assign(value)` in the step; or {bound}"
    if held.endswith(("Error", "Exception")):
        return f"keep `repr(error)` in `{name}`: an error holds its traceback's local variables"
    if held in ("function", "method", "partial"):
        return f"take it out of `{name}` once it was called, or keep weakref.WeakMethod(it) there"
    return bound


_NAME = re.compile(r"`([^`]+)`|\.(\w+)")
_LIBRARY = re.compile(r" of (\w+)\.\w")


def _name_container(way: Sequence[str]) -> tuple[str | None, str]:
    """Return a person's name of the last container, `registry['done']`, and the link with it."""
    keys = ""
    for link in reversed(way):
        if link.startswith("["):
            keys = link.partition(", a ")[0] + keys
        elif match := _NAME.match(link):
            return (match[1] or match[2]) + keys, link
    return None, ""


_TRACES = re.compile(r"is traced ([\d.]+) times a step")


def _suggest_for_graph(holder: Holder) -> str:
    traces = _TRACES.search(holder.what)  # how often a step traces the function, where known
    times = float(traces[1]) if traces else 0.0
    keeps = f"(each takes {format_bytes(holder.bytes_per_step / (times or 1))})"
    if "argument differed (" in holder.what:
        if "TensorSpec(" not in holder.what:
            return "pass tensors, not Python values: `step(tf.constant(value))`"
        if holder.kind == "executable":
            return (
                f"pad the arguments to a few shapes, or say jit_compile=False: XLA compiles for "
                f"each one {keeps}"
            )
        if _OF_KERAS.search(holder.what):
            return f"pad the batches to a few sizes: Keras traces its step for each one {keeps}"
        return (
            "say `@tf.function(reduce_retracing=True)`, or pad the arguments to a few shapes "
            f"{keeps}"
        )
    if "made anew" in holder.what:
        return "make the tf.function once, outside of the step, and call that one"
    if holder.kind == "executable":
        return f"pad the arguments to a few shapes, or say jit_compile=False {keeps}"
    return (
        "build once, outside of the step, what makes a graph here: a tf.function, or a model, "
        "which takes new weights by `model.set_weights(weights)`"
    )
