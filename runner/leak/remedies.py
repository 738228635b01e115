"""What can be done: what came of the remedies that were tried, and what to write, from the holder.

Core: standard library and NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.judging import growth
from runner.judging.leak import Holder, Leak, Remedy
from runner.metrics import readable_bytes
from runner.records import Record

_STOPS, _HELPS, _HARMS = 0.1, 0.8, 1.25
"""Shares of the growth: what is left of it where a remedy stops it, or helps."""


def outcome(change: str, command: str, leak: Leak, record: Record) -> Remedy:
    """What came of one that was tried, by the same meter as the leak."""
    name = (
        "host_growth_bytes_per_step"
        if leak.host_growth_bytes_per_step
        else "tensor_growth_bytes_per_step"
    )
    before, after = getattr(leak, name), record.metrics.get(name)
    if not record.outcome.completed:
        return Remedy(change, command, None, f"could not be tried: {record.outcome.reason}")
    if not before:
        return Remedy(change, command, after, "unclear: too little grows for one process to tell")
    if after is None:
        most = growth.at_most(_grew(record, name))
        if most is not None and most <= _STOPS * before:
            return Remedy(change, command, None, f"stops it: at most {readable_bytes(most)} a step")
        why = record.unavailable.get(name, "it was not measured")
        return Remedy(change, command, None, f"unclear: {why}")
    share = after / before
    if share <= _STOPS:
        return Remedy(change, command, after, "stops it")
    if share <= _HELPS:
        return Remedy(change, command, after, "helps")
    return Remedy(change, command, after, "makes it worse" if share > _HARMS else "does not help")


def _grew(record: Record, name: str) -> list[growth.Growth]:
    of = growth.of_host if name.startswith("host") else growth.of_tensors
    kind = "timing" if name.startswith("host") else "memory"
    found = [of(trial) for trial in record.trials if trial.kind == kind]
    return [each for each in found if each is not None]


def in_code(leak: Leak) -> Iterator[Remedy]:
    """What to write, from each holder; each once. A buffer that fills needs nothing."""
    if leak.verdict == "fills":
        return
    seen = set()
    for holder in leak.main_holders:
        change = _change(holder)
        if change and change not in seen:
            seen.add(change)
            yield Remedy(f"{holder.where}: {change}" if holder.file else change)


def _change(holder: Holder) -> str | None:
    if holder.kind == "malloc":
        return None
    if holder.kind in ("graph", "executable"):
        return _of_graphs(holder)
    if holder.kind == "native":
        if "random" in holder.what:
            return (
                "draw from a generator made once, `g = tf.random.Generator.from_seed(1)` and "
                "`g.normal(shape)`, or from tf.random.stateless_normal(shape, seed=[1, n])"
            )
        return "move the op into a tf.function that is made once, or call it once before the loop"
    first = holder.chain[0] if holder.chain else ""
    name = first.split("`")[1] if first.count("`") >= 2 else None
    if holder.kind == "tensor":
        keeps = f"`{name}`" if name else "what holds it"
        return f"keep a number, `float(loss)` or `tensor.numpy().copy()`, in {keeps}, or clear it"
    if "thread" in first:
        return "let the thread end, or hand it what it needs as an argument that it can drop"
    if "dict" in first:
        return f"bound `{name}`: functools.lru_cache(maxsize=1000), or drop the oldest key"
    if "callback" in " ".join(holder.chain):
        return "unregister the callback, or register weakref.WeakMethod(callback)"
    if name:
        return f"bound `{name}`: collections.deque(maxlen=1000), or clear it"
    return None


def _of_graphs(holder: Holder) -> str:
    if "argument differed" in holder.what:
        return "pass tensors, not Python numbers: `step(tf.constant(value))`; for shapes, say " + (
            "`@tf.function(reduce_retracing=True)`"
        )
    if "made anew" in holder.what:
        return "make the tf.function once, outside of the step, and call that one"
    if any("model" in each.lower() for each in (*holder.chain, holder.what, holder.code or "")):
        return "build the model once and load new weights into it: `model.set_weights(weights)`"
    return "build the graph once, outside of the step"
