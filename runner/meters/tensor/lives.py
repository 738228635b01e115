"""Draw the lives of all tensors in the step of the peak: bands for the largest, else a curve.

    bytes  |   [ MatMul, kept for the gradient ]      a band: alive from its birth on, no more at
           | [ Fill, held ----------------------      its death; a held one was there before, one
           |      [ Mul, passing ]                    that is kept outlasts the step
           +------------------------------------ time

Core: standard library and NumPy. At any moment the bytes of the bands that are alive and of the
rest sum to the live bytes, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runner.allocations import PARTS, Curve, Lives, TensorBand, TensorKind
from runner.meters.tensor.attribution import Label
from runner.meters.tensor.breakdown import FrameTable
from runner.meters.tensor.peak import Peak, Tensors
from runner.meters.tensor.window import NONE, Ints

MOST_BANDS = 2_000
"""The most bands in a picture of lives; the other tensors are one curve."""


def describe_lives(
    peak: Peak, tensors: Tensors, labels: Sequence[Label], frames: FrameTable, start_ns: int
) -> Lives | None:
    """Return the largest tensors as bands, those that can't be told apart joined; the rest as a
    curve. None where there was no tensor at all."""
    if not peak.times.size:
        return None
    begin_ns, end_ns = int(peak.times[0]), int(peak.times[-1])
    # Tensors of one label and part that came and went together are one band.
    columns = np.stack([tensors.label, tensors.part, tensors.born_ns, tensors.died_ns])
    alike, which = np.unique(columns, axis=1, return_inverse=True)
    sizes, counts = np.zeros((2, alike.shape[1]), np.int64)
    np.add.at(sizes, which.reshape(-1), tensors.bytes)
    np.add.at(counts, which.reshape(-1), 1)
    born = np.where(alike[2] == NONE, begin_ns, alike[2])
    died = np.where(alike[3] == NONE, end_ns + 1, alike[3])  # alive at the end, the end included
    # By their area in the picture, bytes times nanoseconds, which may not fit into 64 bits.
    order = np.argsort(-sizes * (died - born + 1).astype(np.float64), kind="stable")
    shown, left = order[:MOST_BANDS], order[MOST_BANDS:]
    numbers: dict[int, int] = {}

    def seconds(time_ns: int) -> float:
        return (time_ns - start_ns) / 1e9

    bands = [
        TensorBand(
            kind=numbers.setdefault(int(label), len(numbers)),
            part=PARTS[part],
            born_seconds=None if born_ns == NONE else seconds(born_ns),
            died_seconds=None if died_ns == NONE else seconds(died_ns),
            tensors=int(counts[row]),
            bytes=int(sizes[row]),
        )
        for row in sorted(shown.tolist(), key=lambda row: (born[row], row))
        for label, part, born_ns, died_ns in [alike[:, row].tolist()]
    ]
    kinds = [
        TensorKind(
            *(label.op, label.shape, label.dtype, label.scope, frames.number_lines(label.origin)),
            block_bytes=label.block_bytes,
        )
        for label in (labels[number] for number in numbers)
    ]
    return Lives(
        begin_seconds=seconds(begin_ns),
        end_seconds=seconds(end_ns),
        peak_seconds=seconds(peak.at_ns),
        kinds=tuple(kinds),
        bands=tuple(bands),
        rest=_draw_rest(born[left], died[left], sizes[left], end_ns, start_ns),
        rest_count=int(counts[left].sum()),
    )


def _draw_rest(born: Ints, died: Ints, sizes: Ints, end_ns: int, start_ns: int) -> Curve:
    """Return live bytes of these, at each moment at which they change."""
    times = np.concatenate([born, died])
    changes = np.concatenate([sizes, -sizes])
    within = times <= end_ns
    distinct, which = np.unique(times[within], return_inverse=True)
    levels = np.zeros(distinct.size, np.int64)
    np.add.at(levels, which.reshape(-1), changes[within])
    seconds = tuple((time - start_ns) / 1e9 for time in distinct.tolist())
    return Curve(seconds, tuple(np.cumsum(levels).tolist()))
