"""Kinds of allocations with their origins -> lines of code, and the lives of the peak's step.

Core: standard library and NumPy.
"""

from __future__ import annotations

import itertools
import linecache
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from runner.allocations import Band, Curve, Frame, Kind, Line, Lives, Part, Split
from runner.trial.measure.names import name_and_scope, of_forward, of_gradient
from runner.trial.measure.origins import Frame as Place
from runner.trial.measure.origins import Origin, Witness
from runner.trial.measure.xla import Buffer
from runner.trial.measure.xplane import NONE, Ints

MOST_BANDS = 2_000
"""Of a picture of lives; the others are one curve."""

PARTS = ("held", "kept", "gradient", "passing")


@dataclass(frozen=True)
class Made:
    """Allocations of one kind that were live at the peak."""

    op: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str
    origin: Origin
    count: int
    bytes: int
    split: Split
    block_bytes: int = 0
    """Of a block that XLA allocated for many buffers: the size of each."""


@dataclass(frozen=True)
class Piece:
    """A buffer in a block of XLA's: what `_Kind` says of an allocation, and its share of the block.
    It comes and goes with the block."""

    op: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str
    origin: Origin
    block_bytes: int
    bytes: int
    is_for_gradient: bool | None


def pieces(kind: HasOrigin, witness: Witness) -> list[list[Piece]]:
    """What the blocks of a kind hold, one after the other; nothing if it is not a block of XLA's,
    or one whose plan could not be read."""
    size, origin = kind.block_bytes, kind.origin
    return [
        [_piece(buffer, kind, witness) for buffer in held]
        for held in (witness.opened(origin.called, size) if size else ())
    ]


def _piece(buffer: Buffer, kind: HasOrigin, witness: Witness) -> Piece:
    origin, name, scope = kind.origin, buffer.op, kind.scope
    if buffer.node:
        origin = witness.node(buffer.node, kind.origin)
        name, scope = name_and_scope(buffer.node, "", {buffer.node: buffer.op})
        if origin.node and not origin.is_backward:
            scope = of_forward(scope)
        scope = of_gradient(scope) if origin.is_backward else scope
    return Piece(
        *(name, scope, buffer.shape, buffer.dtype, origin),
        *(kind.block_bytes, buffer.bytes, buffer.is_for_gradient),
    )


def opened(made: Sequence[Made], witness: Witness, knows_gradient: bool) -> list[Made]:
    """The same, each block of XLA's as the buffers in it; where it is not known what is kept for a
    gradient, that is part of what passes."""
    found = []
    for each in made:
        if not knows_gradient:
            each = replace(each, split=without_gradient(each.split))
        held, split = pieces(each, witness), each.split
        sizes = (split.held_bytes, split.kept_bytes, split.gradient_bytes or 0, split.passing_bytes)
        blocks = [part // each.block_bytes // len(held) for part in sizes] if held else []
        if not held or sum(blocks) * len(held) != each.count:  # not one of each
            shape, dtype = _shared(held, each)
            found.append(replace(each, shape=shape, dtype=dtype))
            continue
        for piece in itertools.chain.from_iterable(held):
            of = [number * piece.bytes for number in blocks]
            if piece.is_for_gradient and knows_gradient:
                of[2:] = [of[2] + of[3], 0]
            known = of[2] if knows_gradient else None
            found.append(
                Made(
                    *(piece.op, piece.scope, piece.shape, piece.dtype, piece.origin),
                    *(sum(blocks), sum(of), Split(of[0], of[1], known, of[3])),
                )
            )
    return found


def _shared(held: Sequence[Sequence[Piece]], block: _Typed) -> tuple[tuple[int, ...] | None, str]:
    """The shape and dtype of all that a block may be, where that is one."""
    types = {(piece.shape, piece.dtype) for pieces in held for piece in pieces}
    return types.pop() if len(types) == 1 else (block.shape, block.dtype)


def without_gradient(split: Split) -> Split:
    passing = split.passing_bytes + (split.gradient_bytes or 0)
    return Split(split.held_bytes, split.kept_bytes, None, passing)


class _Typed(Protocol):
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> str: ...


class HasOrigin(_Typed, Protocol):
    @property
    def op(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def block_bytes(self) -> int: ...


class Frames:
    """The table of lines that stacks refer to: each once, with its source text."""

    def __init__(self) -> None:
        self._numbers: dict[Place, int] = {}
        self._here = f"{os.getcwd()}{os.sep}"  # noqa: PTH109

    def stack(self, origin: Origin) -> tuple[int, ...]:
        return tuple(self._numbers.setdefault(place, len(self._numbers)) for place in origin.frames)

    def frame(self, place: Place) -> Frame:
        code = linecache.getline(place.file, place.line).strip()
        return Frame(place.file.removeprefix(self._here), place.line, place.function, code)

    @property
    def all(self) -> tuple[Frame, ...]:
        return tuple(self.frame(place) for place in self._numbers)


def lines(made: Sequence[Made], total: int, frames: Frames) -> tuple[Line, ...]:
    """What was live at the peak by the innermost line of the user's, largest first."""
    members: dict[tuple[str, int] | str, list[Made]] = {}
    for each in made:
        origin = each.origin
        key = origin.frames[-1][:2] if origin.frames else str(origin.why)
        members.setdefault(key, []).append(each)
    found = [_line(its, total, frames) for its in members.values()]
    return tuple(sorted(found, key=lambda line: (-line.bytes, str(line.file), line.line or 0)))


def _line(made: Sequence[Made], total: int, frames: Frames) -> Line:
    origin, size = made[0].origin, sum(each.bytes for each in made)
    at = frames.frame(origin.frames[-1]) if origin.frames else None
    parts = [
        Part(
            each.op,
            each.shape,
            each.dtype,
            each.scope,
            frames.stack(each.origin),
            each.count,
            each.bytes,
            each.split,
        )
        for each in made
    ]
    parts.sort(key=lambda part: (-part.bytes, part.op, str(part.shape), part.scope, part.stack))
    return Line(
        file=at and at.file,
        line=at and at.line,
        code=at and at.code,
        count=sum(each.count for each in made),
        bytes=size,
        share=size / total if total else 0.0,
        split=summed([each.split for each in made]),
        parts=tuple(parts),
        why=None if at else origin.why,
        is_library=any(each.origin.is_library for each in made),
    )


def summed(splits: Sequence[Split]) -> Split:
    knows = all(split.gradient_bytes is not None for split in splits)
    return Split(
        sum(split.held_bytes for split in splits),
        sum(split.kept_bytes for split in splits),
        sum(split.gradient_bytes or 0 for split in splits) if knows else None,
        sum(split.passing_bytes for split in splits),
    )


@dataclass(frozen=True)
class LivesFound:
    """Every tensor that was there in the step of the peak, as columns; `NONE` for a birth before
    it and a death after it."""

    begin_ns: int
    end_ns: int
    peak_ns: int
    kind: Ints
    part: Ints
    """A place in `PARTS`."""
    born_ns: Ints
    died_ns: Ints
    bytes: Ints

    @property
    def columns(self) -> tuple[Ints, ...]:
        return self.kind, self.part, self.born_ns, self.died_ns, self.bytes


def opened_lives(
    found: LivesFound, kinds: Sequence[HasOrigin], witness: Witness, knows_gradient: bool
) -> tuple[LivesFound, Sequence[HasOrigin]]:
    """The same, each block of XLA's as the buffers in it, each as long as the block."""
    all_kinds: list[HasOrigin] = list(kinds)
    whole, inside = np.ones(found.kind.size, bool), [found.columns]
    gradient, passing = PARTS.index("gradient"), PARTS.index("passing")
    for number in np.unique(found.kind):
        held = pieces(kinds[number], witness)
        rows = np.flatnonzero(found.kind == number)
        if not held:
            continue
        if rows.size % len(held):
            kind = kinds[number]
            shape, dtype = _shared(held, kind)
            all_kinds[number] = Piece(
                *(kind.op, kind.scope, shape, dtype, kind.origin),
                *(kind.block_bytes, kind.block_bytes, None),
            )
            continue
        whole[rows] = False
        for place, piece in ((at, one) for at, its in enumerate(held) for one in its):
            _, part, born, died, _ = (column[rows[place :: len(held)]] for column in found.columns)
            if piece.is_for_gradient and knows_gradient:
                part = np.where(part == passing, gradient, part)
            kind, size = np.full((2, part.size), [[len(all_kinds)], [piece.bytes]])
            inside.append((kind, part, born, died, size))
            all_kinds.append(piece)
    inside[0] = tuple(column[whole] for column in found.columns)
    columns = (np.concatenate(each) for each in zip(*inside, strict=True))
    return LivesFound(found.begin_ns, found.end_ns, found.peak_ns, *columns), all_kinds


def lives(found: LivesFound, kinds: Sequence[HasOrigin], frames: Frames, start_ns: int) -> Lives:
    """The largest as bands, those that can't be told apart joined; the rest as a curve."""
    born = np.where(found.born_ns == NONE, found.begin_ns, found.born_ns)
    died = np.where(found.died_ns == NONE, found.end_ns + 1, found.died_ns)
    columns = np.stack([found.kind, found.part, found.born_ns, found.died_ns])
    alike, first, which = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    sizes, counts = np.zeros((2, alike.shape[1]), np.int64)
    np.add.at(sizes, which, found.bytes)
    np.add.at(counts, which, 1)
    weight = sizes * (died - born + 1)[first].astype(np.float64)
    order = np.argsort(-weight, kind="stable")
    shown, left = order[:MOST_BANDS], order[MOST_BANDS:]
    numbers: dict[int, int] = {}

    def seconds(time_ns: int) -> float | None:
        return None if time_ns == NONE else (time_ns - start_ns) / 1e9

    bands = [
        Band(
            kind=numbers.setdefault(int(alike[0, row]), len(numbers)),
            part=PARTS[int(alike[1, row])],
            born_seconds=seconds(int(alike[2, row])),
            died_seconds=seconds(int(alike[3, row])),
            tensors=int(counts[row]),
            bytes=int(sizes[row]),
        )
        for row in sorted(shown.tolist(), key=lambda row: (born[first[row]], row))
    ]
    rest = _curve(born[first[left]], died[first[left]], sizes[left], found.end_ns, start_ns)
    return Lives(
        begin_seconds=(found.begin_ns - start_ns) / 1e9,
        end_seconds=(found.end_ns - start_ns) / 1e9,
        peak_seconds=(found.peak_ns - start_ns) / 1e9,
        kinds=tuple(
            Kind(
                *(each.op, each.shape, each.dtype, each.scope, frames.stack(each.origin)),
                block_bytes=each.block_bytes,
            )
            for each in (kinds[number] for number in numbers)
        ),
        bands=tuple(bands),
        rest=rest,
        rest_count=int(counts[left].sum()),
    )


def _curve(born: Ints, died: Ints, sizes: Ints, end_ns: int, start_ns: int) -> Curve:
    """Live bytes of these, at each moment at which they change."""
    times = np.concatenate([born, died])
    changes = np.concatenate([sizes, -sizes])
    within = times <= end_ns
    distinct, which = np.unique(times[within], return_inverse=True)
    levels = np.zeros(distinct.size, np.int64)
    np.add.at(levels, which.reshape(-1), changes[within])
    return Curve(
        tuple((int(time) - start_ns) / 1e9 for time in distinct),
        tuple(int(level) for level in np.cumsum(levels)),
    )
