"""Take a peak apart: by op, and by line.

Core: standard library and NumPy. Each view is made from the same rows, the tensors of the step of
the peak, in which each block of XLA's is replaced by the buffers in it; so groups, lines and lives
(`lives`) sum to the same bytes.
"""

from __future__ import annotations

import linecache
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from runner.allocations import PARTS, Frame, Group, LinePart, Scope, SourceLine, Split
from runner.meters.code_owner import make_absolute, make_relative
from runner.meters.tensor.attribution import Label, Piece
from runner.meters.tensor.peak import GRADIENT, PASSING, Tensors
from runner.meters.tensor.python_stacks import CodeLine
from runner.meters.tensor.recording import Origin

K = TypeVar("K", bound=Hashable)


def open_blocks(
    tensors: Tensors,
    labels: Sequence[Label],
    open_block: Callable[[Label], list[list[Piece]]],
    knows_gradient: bool,
) -> tuple[Tensors, list[Label]]:
    """Return the same, each block of XLA's as the buffers in it, each as long as the block.

    Of blocks of one size a call may make several, one after the other, with different contents. The
    births are dealt out in turn; where there is not one of each, the block stays whole, with the
    shape and dtype of all that it may be, where that is one.
    """
    labels, closed, opened = list(labels), np.ones(tensors.label.size, bool), []
    for number in np.unique(tensors.label).tolist():
        blocks = open_block(labels[number])
        if not blocks:
            continue
        rows = np.flatnonzero(tensors.label == number)
        its, kinds = tensors.take(rows), len(blocks)
        at_peak = np.bincount(its.part[its.is_live], minlength=len(PARTS))
        if rows.size % kinds or (at_peak % kinds).any():  # not one of each, in all or at the peak
            types = {(piece.label.shape, piece.label.dtype) for block in blocks for piece in block}
            if len(types) == 1:
                shape, dtype = types.pop()
                labels[number] = labels[number]._replace(shape=shape, dtype=dtype)
            continue
        closed[rows] = False
        for place, block in enumerate(blocks):
            whole = tensors.take(rows[place::kinds])
            for piece in block:
                is_kept = bool(piece.is_for_gradient and knows_gradient)
                one = replace(
                    whole,
                    label=np.full_like(whole.label, len(labels)),
                    bytes=np.full_like(whole.bytes, piece.bytes),
                    part=np.where(is_kept & (whole.part == PASSING), GRADIENT, whole.part),
                )
                opened.append(one)
                labels.append(piece.label)
    return tensors.take(closed).join(*opened), labels


@dataclass(frozen=True)
class LiveSum:
    """All tensors of one label that were live at the peak."""

    label: Label
    count: int
    sizes: tuple[int, ...]
    """Bytes by part, as in `PARTS`."""


class FrameTable:
    """The table of lines that stacks refer to: each once, with its source text."""

    def __init__(self) -> None:
        self._numbers: dict[CodeLine, int] = {}

    def number_lines(self, origin: Origin) -> tuple[int, ...]:
        """Return the places of an origin's lines in the table."""
        return tuple(self._numbers.setdefault(place, len(self._numbers)) for place in origin.frames)

    def describe_line(self, line: CodeLine) -> Frame:
        """Return the line as the record has it: relative to here, with its text."""
        names = (line.file, make_absolute(line.file))  # of a cell's code only the first is known
        code = next(filter(None, (linecache.getline(name, line.line) for name in names)), "")
        return Frame(make_relative(line.file), line.line, line.function, code.strip())

    def list_frames(self) -> tuple[Frame, ...]:
        return tuple(map(self.describe_line, self._numbers))


class Breakdown:
    """Bytes live at the peak, by op and by line: largest first, each list summing to the peak."""

    def __init__(
        self,
        tensors: Tensors,
        labels: Sequence[Label],
        total: int,
        knows_gradient: bool,
        frames: FrameTable,
    ) -> None:
        """`total`: the bytes at the peak; `knows_gradient`: what is kept for a gradient can be told
        from the rest."""
        self._total = total
        self._knows_gradient = knows_gradient
        self._frames = frames
        live = tensors.take(tensors.is_live)
        sizes = np.zeros((len(labels), len(PARTS)), np.int64)
        np.add.at(sizes, (live.label, live.part), live.bytes)
        counts = np.bincount(live.label, minlength=len(labels))
        self._sums = [
            LiveSum(labels[number], int(counts[number]), tuple(sizes[number].tolist()))
            for number in np.flatnonzero(counts).tolist()
        ]

    @property
    def split(self) -> Split:
        return self._add_up(self._sums)[2]

    def _add_up(self, sums: Sequence[LiveSum]) -> tuple[int, int, Split]:
        """Return the count, the bytes and the split of these together."""
        count = sum(each.count for each in sums)
        parts = [sum(sizes) for sizes in zip(*(each.sizes for each in sums), strict=True)]
        held, kept, gradient, passing = parts or [0] * len(PARTS)
        if self._knows_gradient:
            split = Split(held, kept, gradient, passing)
        else:
            split = Split(held, kept, None, gradient + passing)
        return count, sum(parts), split

    def list_groups(self) -> tuple[Group, ...]:
        """Return the groups of one op, shape and dtype."""
        groups = []
        for (op, shape, dtype), its in _group_by(
            self._sums, lambda label: (label.op, label.shape, label.dtype)
        ).items():
            count, size, split = self._add_up(its)
            by_scope = _group_by(its, lambda label: label.scope)
            scopes = [Scope(scope, *self._add_up(same)[:2]) for scope, same in by_scope.items()]
            scopes.sort(key=lambda scope: (-scope.bytes, scope.scope))
            share = size / self._total
            groups.append(Group(op, shape, dtype, count, size, share, split, tuple(scopes)))
        groups.sort(key=lambda group: (-group.bytes, group.op, str(group.shape), group.dtype))
        return tuple(groups)

    def list_lines(self) -> tuple[SourceLine, ...]:
        """Return the innermost lines of the user's; a line of its own for each reason why there is
        none."""

        def place_of(label: Label) -> tuple[str, int] | str:
            origin = label.origin
            return origin.frames[-1][:2] if origin.frames else str(origin.why)

        lines = [self._describe_line(its) for its in _group_by(self._sums, place_of).values()]
        return tuple(sorted(lines, key=lambda line: (-line.bytes, str(line.file), line.line or 0)))

    def _describe_line(self, sums: Sequence[LiveSum]) -> SourceLine:
        origin, (count, size, split) = sums[0].label.origin, self._add_up(sums)
        at = self._frames.describe_line(origin.frames[-1]) if origin.frames else None
        parts = []
        for each in sums:
            label, stack = each.label, self._frames.number_lines(each.label.origin)
            what = (label.op, label.shape, label.dtype, label.scope)
            parts.append(LinePart(*what, stack, *self._add_up([each])))
        parts.sort(key=lambda part: (-part.bytes, part.op, str(part.shape), part.scope, part.stack))
        return SourceLine(
            file=at and at.file,
            line=at and at.line,
            code=at and at.code,
            count=count,
            bytes=size,
            share=size / self._total if self._total else 0.0,
            split=split,
            parts=tuple(parts),
            why=None if at else origin.why,
            is_library=any(each.label.origin.is_library for each in sums),
        )


def _group_by(sums: Iterable[LiveSum], key: Callable[[Label], K]) -> dict[K, list[LiveSum]]:
    found: dict[K, list[LiveSum]] = defaultdict(list)
    for each in sums:
        found[key(each.label)].append(each)
    return found
