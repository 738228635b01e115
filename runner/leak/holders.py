"""Find who holds what grows: the survivors of a host trial, line by line, with what refers to them.

Core: standard library only. A line holds memory where it goes on: where the least that is held
rises from each quarter of the traced steps to the next. What rises and stops in them was warm-up,
or a buffer that fills. What rises by little, and not in nearly every step, may be Python's own
objects that come and go: that it goes on takes more steps to tell. What rises in a few steps alone
and stays (an evaluation, a checkpoint) is kept, too: the growth that was timed says if it recurs.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from runner.facts import MOST_TRACED_STEPS, GrowingFunction, HostFindings, Survivor
from runner.leak.findings import Holder, StoppedHolder
from runner.records import THREAD_STACKS, THREAD_START

LEAST_BYTES = 64
"""A step: below it nobody is accused. A leak of that rate takes half a year to fill 1 GB at a step
a second."""

ENOUGH_STEPS = 8
"""Of fewer traced steps it is not known that what rose goes on."""

_ENOUGH_BYTES = MOST_TRACED_STEPS * LEAST_BYTES
"""In all: by less, Python's own objects rise in some dozen steps, in some of them and not in
others."""

_NEARLY_ALL = 0.9
"""Share of the steps: what rises in so many of them goes on. Of a rise: what makes so much of it
makes it."""

_MOST_OF = 0.8
"""Share of what a kind grows by: a line that makes as much of it is taken to have made the rest."""

_CPP = ("native", "executable")
"""Kinds that no object of Python's stands for."""


class TracedHolders(NamedTuple):
    """The lines that were seen to take memory, by whether that goes on."""

    growing: list[Holder]
    unsure: list[Holder]
    """They rose in too few steps to say so, and nothing else says that the process grows."""
    stopped: list[StoppedHolder]
    """The largest first."""
    rare: list[Holder]
    """They rose and stayed, each in a few steps."""


def find_holders(held: HostFindings, is_known_to_grow: bool) -> TracedHolders:
    """Return the lines whose memory rose while it was traced."""
    by_line: dict[tuple[str, str | None, int | None], list[Survivor]] = defaultdict(list)
    for survivor in _assign_threadless(_assign_threads(held)):
        by_line[survivor.kind, survivor.file, survivor.line].append(survivor)
    growing, unsure, stopped = list[Holder](), list[Holder](), list[StoppedHolder]()
    rare = list[Holder]()
    for (kind, file, line), survivors in by_line.items():
        size = _add_up(survivor.bytes for survivor in survivors)
        count = round(rate_series(_add_up(survivor.count for survivor in survivors)), 3)
        largest = max(survivors, key=lambda survivor: abs(rate_series(survivor.bytes)))
        holder = Holder(
            kind, float(round(rate_series(size))), count, file, line, largest.code, largest.what
        )
        events = _list_rare_events(size)
        if events:
            holder = _rate_events(holder, events, len(size) - 1)
        if is_growing(size) and rate_series(size) >= LEAST_BYTES / 4:
            (growing if is_known_to_grow or _goes_on(size) else unsure).append(holder)
            continue
        if _has_stopped(size):
            stopped.append(StoppedHolder(kind, holder.where, holder.what, size[-1]))
        if events and holder.bytes_per_step >= LEAST_BYTES / 4:
            rare.append(holder)
    for mapping in held.mappings:
        size = list(map(float, mapping.bytes))
        if is_growing(size) and rate_series(size) >= LEAST_BYTES / 4:
            holder = Holder("native", float(round(rate_series(size))), what=mapping.what)
            (growing if is_known_to_grow or _goes_on(size) else unsure).append(holder)
    stopped.sort(key=lambda holder: -holder.bytes)
    return TracedHolders(
        list(_add_chains(growing, held)), unsure, stopped, list(_add_chains(rare, held))
    )


def sum_survivors(held: HostFindings) -> tuple[float, float]:
    """Return the bytes a step of all places that go on growing, and of whatever has risen."""
    every: list[Sequence[float]] = [place.bytes for place in held.survivors]
    every += [mapping.bytes for mapping in held.mappings]
    rising = [series for series in every if is_growing(series)]
    added = sum(max(0.0, rate_series(series)) for series in every)
    return float(round(sum(map(rate_series, rising)))), float(round(added))


def count_needed_steps(holder: Holder) -> int:
    """Return how many traced steps tell that what rises in some of them goes on."""
    steps = math.ceil(_ENOUGH_BYTES / holder.bytes_per_step)
    return min(MOST_TRACED_STEPS, max(ENOUGH_STEPS, steps))


def is_growing(series: Sequence[float]) -> bool:
    """Return True if the least that is held in each quarter rises from one quarter to the next, in
    none by much less than in the others; of fewer steps than eight, from step to step."""
    if len(series) < 4:
        return False
    parts = 4 if len(series) > ENOUGH_STEPS else len(series)
    bounds = [round(len(series) * part / parts) for part in range(parts + 1)]
    least = [min(series[begin:end]) for begin, end in pairwise(bounds)]
    rises = [later - earlier for earlier, later in pairwise(least)]
    return min(rises) > max(0.0, statistics.median(rises) / 4)


def _list_rare_events(series: Sequence[float]) -> list[tuple[int, float]]:
    """Return the steps in which it has risen for good, each with the bytes, where a few of them
    make nearly all of the rise; else none. What stays is the least of what is there from then
    on."""
    stays = list(accumulate(reversed(series), min))[::-1]
    rises = [later - earlier for earlier, later in pairwise(stays)]
    largest = max(rises)
    events = [(step, rise) for step, rise in enumerate(rises) if rise > largest / 4]
    is_all = sum(rise for _, rise in events) >= _NEARLY_ALL * sum(rises)
    return events if is_all and len(events) * ENOUGH_STEPS < len(series) else []


def _rate_events(holder: Holder, events: Sequence[tuple[int, float]], steps: int) -> Holder:
    """Return the holder with what its events add up to a step; of one event, at the rate of once in
    all steps."""
    every = float(steps)
    if len(events) > 1:
        every = (events[-1][0] - events[0][0]) / (len(events) - 1)
    once = sum(rise for _, rise in events) / len(events)
    return replace(
        holder,
        bytes_per_step=float(round(once / every)),
        count_per_step=round(1 / every, 3),
        events=len(events),
        every_steps=every,
    )


def _goes_on(series: Sequence[float]) -> bool:
    """Return True if what grows has grown enough, or in nearly every step, to say so."""
    begin = _find_second_part(series)
    rose = [later > earlier for earlier, later in pairwise(series[begin:])]
    is_steady = sum(rose) >= _NEARLY_ALL * len(rose)
    return is_steady or rate_series(series) * (len(series) - 1) >= _ENOUGH_BYTES


def _has_stopped(series: Sequence[float]) -> bool:
    half = series[len(series) // 2]
    return half > 100_000 and abs(series[-1] - half) < 0.02 * half


def rate_series(series: Sequence[float]) -> float:
    """Return the rise a step over the second part."""
    begin = _find_second_part(series)
    return (series[-1] - series[begin]) / (len(series) - 1 - begin)


def _find_second_part(series: Sequence[float]) -> int:
    """Return where the second half begins, as the first may still warm up; of fewer than 16 steps,
    the last three quarters."""
    steps = len(series) - 1
    return steps // (2 if steps >= 16 else 4)


def _add_up(series: Iterable[Sequence[float]]) -> list[float]:
    return [sum(values) for values in zip(*series, strict=True)]


# Lines: of survivors that have none, or another's.


def _assign_threads(held: HostFindings) -> list[Survivor]:
    """Return the survivors, with what a thread takes by being there at the line that makes it."""
    running = (container for container in held.containers if container.chain)
    made = next(
        (
            container.made_at
            for container in running
            if container.chain[0].startswith("running threads")
        ),
        None,
    )
    is_there = (
        survivor
        for survivor in held.survivors
        if made and survivor.line == made[1] and _is_same_file(made[0], survivor.file)
    )
    there = next(is_there, None)
    return [
        _move(survivor, there)
        if there and survivor.what in (THREAD_STACKS, THREAD_START)
        else survivor
        for survivor in held.survivors
    ]


def _assign_threadless(survivors: Sequence[Survivor]) -> list[Survivor]:
    """Return the survivors, those without a line at the one that made nearly all of their kind.

    XLA compiles on threads of its own, and ops of a graph run on TensorFlow's: these have no line.
    Where nearly all executables (or tensors) that have a line have the same, that line made the
    others, too. Where no executable has a line, it is the line that nearly all graphs were traced
    at, since a graph is what XLA compiles.
    """
    lines = {
        "executable": _find_common_line(survivors, "executable", "graph"),
        "tensor": _find_common_line(survivors, "tensor"),
    }
    return [
        _move(survivor, line)
        if not survivor.file and (line := lines.get(survivor.kind))
        else survivor
        for survivor in survivors
    ]


def _find_common_line(survivors: Sequence[Survivor], *kinds: str) -> Survivor | None:
    """Return a survivor at the line that makes nearly all of the first kind that has lines."""
    for kind in kinds:
        rates: dict[tuple[str, int | None, str | None], float] = defaultdict(float)
        first: dict[tuple[str, int | None, str | None], Survivor] = {}
        for survivor in survivors:
            if (
                survivor.kind == kind
                and survivor.file
                and (rate := rate_series(survivor.bytes)) > 0
            ):
                line = survivor.file, survivor.line, survivor.code
                rates[line] += rate
                first.setdefault(line, survivor)
        if rates:
            line = max(rates, key=rates.__getitem__)
            return first[line] if rates[line] >= _MOST_OF * sum(rates.values()) else None
    return None


def _move(survivor: Survivor, there: Survivor) -> Survivor:
    return replace(survivor, file=there.file, line=there.line, code=there.code)


# Chains: from a name that the user knows to what grows.


def _add_chains(holders: Sequence[Holder], held: HostFindings) -> Iterator[Holder]:
    """Yield each holder with the container that gave its line's memory back when it was emptied,
    else with one that only reaches what the line makes; a graph also with the function that was
    traced.

    Memory of C++ has a container if the container gave back as much of it. What is left of that is
    the next one's: tensors come first, as their objects in Python went.
    """
    native = {container: container.frees_native for container in held.containers}
    for holder in sorted(holders, key=lambda holder: holder.kind in _CPP):
        container = next((container for container in native if _has(container.frees, holder)), None)
        if container and holder.kind in ("tensor", *_CPP):
            is_whole = native[container] > holder.bytes_per_step / 2
            native[container] -= holder.bytes_per_step
            container = container if is_whole or holder.kind == "tensor" else None
        is_held = container is not None
        is_thread = holder.what in (THREAD_STACKS, THREAD_START)
        if container is None and (holder.kind not in _CPP or is_thread):
            container = next(
                (container for container in native if _has(container.lines, holder)), None
            )
        chain = container.chain if container else ()
        also = container.also if container and is_held else ()
        what = "; ".join([holder.what, *(f"{way} holds it, too" for way in also)])
        if holder.kind in ("graph", "executable") and held.functions:
            what = "; ".join([what, *map(_describe_traces, held.functions)])
            first = held.functions[0]
            where = f" at {first.file}:{first.line}" if first.file else ""
            chain = chain or (f"`{first.name}`, a tf.function{where}",)
        yield replace(holder, chain=chain, what=what, is_held=is_held)


def _has(lines: Iterable[tuple[str, int]], holder: Holder) -> bool:
    return any(at == holder.line and _is_same_file(file, holder.file) for file, at in lines)


def _is_same_file(one: str, other: str | None) -> bool:
    return other is not None and (one == other or one.endswith(f"/{other}"))


def _describe_traces(function: GrowingFunction) -> str:
    if function.traces_per_step is None:
        return f"`{function.name}` is made anew {function.made_per_step or 0:.3g} times a step"
    why = f": its argument differed ({function.differs})" if function.differs else ""
    return f"`{function.name}` is traced {function.traces_per_step:.3g} times a step{why}"
