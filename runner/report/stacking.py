"""The lives of a step's tensors -> where each band lies in their picture, which then only draws.

Pure: standard library only. What may be relied on:

- An event is a moment at which something is born or dies; between two events nothing moves. The
  bands that are there after an event, and the rest, sum to the live bytes at that event exactly.
- Bands keep one order throughout: what lives longest lies lowest. So a life that lies within
  another one moves it never, nor is moved by it. Of two that overlap, one must move once, when the
  other comes or goes: here it is the one that ends sooner, and it moves up. No order of the bands
  makes fewer of them jump.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from runner.allocations import GRADIENT, Band, Curve, Kind, Lives

MOST_LAYERS = 8
"""That are told apart by colour."""
LEAST_SHARE = 0.7
"""Of the peak, that these hold."""


class Placed(NamedTuple):
    """A band and the events between which it is there: from `born` on, at `died` no more."""

    band: Band
    born: int
    died: int


@dataclass(frozen=True)
class Stack:
    lives: Lives
    events: tuple[float, ...]
    """In seconds, each later than the one before; the first is the step's begin."""
    bands: tuple[Placed, ...]
    """From the lowest to the highest."""
    rest: tuple[int, ...]
    """The bytes that lie on top of them, in no band, after each event."""

    @property
    def peak(self) -> int:
        """The event of the peak."""
        return bisect_right(self.events, self.lives.peak_seconds) - 1

    def levels(self) -> list[int]:
        """The upper edge: live bytes after each event."""
        changes = [0] * (len(self.events) + 1)
        for band, born, died in self.bands:
            changes[born] += band.bytes
            changes[died] -= band.bytes
        return [own + rest for own, rest in zip(accumulate(changes[:-1]), self.rest, strict=True)]

    def at(self, event: int) -> Iterator[tuple[Placed, int]]:
        """The bands that are there after an event, each with the bytes that lie below it."""
        below = 0
        for placed in self.bands:
            if placed.born <= event < placed.died:
                yield placed, below
                below += placed.band.bytes


def stack(lives: Lives) -> Stack:
    moments = {lives.begin_seconds, *lives.rest.seconds}
    for band in lives.bands:
        moments.update(time for time in (band.born_seconds, band.died_seconds) if time is not None)
    events = tuple(sorted(moments))
    number = {time: place for place, time in enumerate(events)}
    placed = [
        Placed(
            band,
            0 if band.born_seconds is None else number[band.born_seconds],
            len(events) if band.died_seconds is None else number[band.died_seconds],
        )
        for band in lives.bands
    ]

    def order(one: Placed) -> tuple[int, int, tuple[int, ...], str, int]:
        """Those of one life, as all that is held from before, lie together by line and layer."""
        kind = lives.kinds[one.band.kind]
        return -one.died, one.born, kind.stack[::-1], kind.scope, -one.band.bytes

    rest = [0] * len(events)
    for time, size in lives.rest.points:
        rest[number[time]] = size
    known = {number[time] for time in lives.rest.seconds}
    for event in range(1, len(events)):
        if event not in known:
            rest[event] = rest[event - 1]
    return Stack(lives, events, tuple(sorted(placed, key=order)), tuple(rest))


def thinned(lives: Lives, most: int) -> Lives:
    """The same lives with so many bands: those that were there longest with the most bytes. The
    others join the rest, so that the sum stays what it is."""
    if len(lives.bands) <= most:
        return lives

    def weight(number: int) -> float:
        band = lives.bands[number]
        born = lives.begin_seconds if band.born_seconds is None else band.born_seconds
        died = lives.end_seconds if band.died_seconds is None else band.died_seconds
        return band.bytes * (died - born)

    ranked = sorted(range(len(lives.bands)), key=weight, reverse=True)
    kept, left = (
        [lives.bands[number] for number in sorted(numbers)]
        for numbers in (ranked[:most], ranked[most:])
    )
    rest = stack(replace(lives, bands=tuple(left)))
    kinds = {old: new for new, old in enumerate(dict.fromkeys(band.kind for band in kept))}
    return replace(
        lives,
        kinds=tuple(lives.kinds[old] for old in kinds),
        bands=tuple(band._replace(kind=kinds[band.kind]) for band in kept),
        rest=Curve(rest.events, tuple(rest.levels())),
        rest_count=lives.rest_count + sum(band.tensors for band in left),
    )


def layer(kind: Kind, depth: int) -> str:
    """The first so many parts of its scope: a gradient's op is of the layer that it is for."""
    parts = [part for part in kind.scope.split("/") if part not in ("", GRADIENT)]
    return "/".join(parts[:depth])


def layer_depth(stacks: Sequence[Stack]) -> int:
    """How many parts of a scope tell layers apart: as many as leave few that hold most."""
    deepest = max(
        (kind.scope.count("/") + 1 for each in stacks for kind in each.lives.kinds), default=1
    )
    for depth in range(deepest, 1, -1):
        sizes: Counter[str] = Counter()
        for each in stacks:
            for (band, _, _), _ in each.at(each.peak):
                sizes[layer(each.lives.kinds[band.kind], depth)] += band.bytes
        largest = sum(size for _, size in sizes.most_common(MOST_LAYERS))
        if largest >= LEAST_SHARE * sizes.total():
            return depth
    return 1
