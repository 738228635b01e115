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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from runner.allocations import GRADIENT, Curve, Lives, TensorBand, TensorKind

MOST_LAYERS = 8
"""So many layers have a colour of their own."""
LEAST_SHARE = 0.7
"""The layers with a colour hold at least this share of the peak."""


class PlacedBand(NamedTuple):
    """A band and the events between which it is there: from `born` on, at `died` no more."""

    band: TensorBand
    born: int
    died: int


@dataclass(frozen=True)
class BandStack:
    lives: Lives
    events: tuple[float, ...]
    """In seconds, each later than the one before; the first is the step's begin."""
    bands: tuple[PlacedBand, ...]
    """From the lowest to the highest."""
    rest: tuple[int, ...]
    """The bytes that lie on top of them, in no band, after each event."""

    @property
    def peak(self) -> int:
        return bisect_right(self.events, self.lives.peak_seconds) - 1

    def sum_levels(self) -> list[int]:
        """Return the upper edge: live bytes after each event."""
        changes = [0] * (len(self.events) + 1)
        for band, born, died in self.bands:
            changes[born] += band.bytes
            changes[died] -= band.bytes
        return [own + rest for own, rest in zip(accumulate(changes[:-1]), self.rest, strict=True)]

    def list_live(self, event: int) -> Iterator[tuple[PlacedBand, int]]:
        """Yield the bands that are there after an event, each with the bytes that lie below it."""
        below = 0
        for placed in self.bands:
            if placed.born <= event < placed.died:
                yield placed, below
                below += placed.band.bytes


def stack_bands(lives: Lives) -> BandStack:
    """Return which band lies on which, and from which event to which."""
    moments = {lives.begin_seconds, *lives.rest.seconds}
    for band in lives.bands:
        moments.update(time for time in (band.born_seconds, band.died_seconds) if time is not None)
    events = tuple(sorted(moments))
    number: dict[float | None, int] = {time: place for place, time in enumerate(events)}
    end = len(events)
    placed = (  # born before the step: at its begin; outlasting it: after its last event
        PlacedBand(band, number.get(band.born_seconds, 0), number.get(band.died_seconds, end))
        for band in lives.bands
    )

    def order(one: PlacedBand) -> tuple[int, int, tuple[int, ...], str, int]:
        """Put those of one life, as all that is held from before, together by line and layer."""
        kind = lives.kinds[one.band.kind]
        return -one.died, one.born, kind.stack[::-1], kind.scope, -one.band.bytes

    sizes, rest, size = dict(lives.rest.points), [], 0
    for time in events:
        size = sizes.get(time, size)
        rest.append(size)
    return BandStack(lives, events, tuple(sorted(placed, key=order)), tuple(rest))


def keep_largest(lives: Lives, most: int) -> Lives:
    """Return the same lives with so many bands: those that were there longest with the most bytes.
    The others join the rest, so that the sum stays what it is."""
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
    rest = stack_bands(replace(lives, bands=tuple(left)))
    kinds = {old: new for new, old in enumerate(dict.fromkeys(band.kind for band in kept))}
    return replace(
        lives,
        kinds=tuple(lives.kinds[old] for old in kinds),
        bands=tuple(band._replace(kind=kinds[band.kind]) for band in kept),
        rest=Curve(rest.events, tuple(rest.sum_levels())),
        rest_count=lives.rest_count + sum(band.tensors for band in left),
    )


def find_layer(kind: TensorKind, depth: int) -> str:
    """Return the first so many parts of a scope: a gradient's op is of the layer that it is for."""
    parts = [part for part in kind.scope.split("/") if part not in ("", GRADIENT)]
    return "/".join(parts[:depth])


def find_layer_depth(stack: BandStack) -> int:
    """Return how many parts of a scope tell layers apart: as many as leave few that hold most."""
    kinds = stack.lives.kinds
    deepest = max((kind.scope.count("/") + 1 for kind in kinds), default=1)
    for depth in range(deepest, 1, -1):
        sizes: Counter[str] = Counter()
        for (band, _, _), _ in stack.list_live(stack.peak):
            sizes[find_layer(kinds[band.kind], depth)] += band.bytes
        largest = sum(size for _, size in sizes.most_common(MOST_LAYERS))
        if largest >= LEAST_SHARE * sizes.total():
            return depth
    return 1
