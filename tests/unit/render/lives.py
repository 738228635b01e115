"""Lives of tensors that are known, and records that have them."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import msgspec

from runner.allocations import Allocations, Curve, Frame, Lives, TensorBand, TensorKind
from runner.records import Record
from tests.unit.render.known import PEAK, make_known_run

FRAMES = (
    Frame("train.py", 3, "step", "loss = train(batch)"),
    Frame("net/model.py", 12, "Net.call", "hidden = tf.matmul(inputs, self.weight)"),
    Frame("train.py", 9, "train", "gradients = tape.gradient(loss, weights)"),
)
KINDS = (
    TensorKind("Fill", (100, 100), "float32", "net/dense/kernel", (0,)),
    TensorKind("MatMul", (128, 100), "float32", "net/dense", (0, 1)),
    TensorKind("MatMul", (128, 100), "float32", "net/dense/(gradient)", (0, 2)),
    TensorKind("Const", None, "untyped", "", ()),
)


def make_lives(*bands: TensorBand, end: float = 10.0, peak: float = 5.0, **like: Any) -> Lives:
    values: dict[str, Any] = {"rest": Curve(), "rest_count": 0, **like}
    return Lives(0.0, end, peak, KINDS, bands, **values)


KNOWN = make_lives(
    TensorBand(0, "held", None, None, 1, 40_000),
    TensorBand(1, "gradient", 1.0, 8.0, 1, 51_200),
    TensorBand(1, "passing", 2.0, 3.0, 1, 51_200),
    TensorBand(1, "gradient", 4.0, 7.0, 2, 102_400),
    TensorBand(2, "passing", 5.0, 9.0, 1, 51_200),
    TensorBand(3, "kept", 6.5, None, 1, 4),
)
"""Its peak is at 5 s: 40,000 held, 51,200 and 102,400 for the gradient, 51,200 passing."""
KNOWN_PEAK = 244_800


def make_run(its: Lives, total: int, id: str = "one", **like: Any) -> Record:
    record = make_known_run(id=id, **like)
    allocations = dataclasses.replace(
        msgspec.convert(PEAK, Allocations), total_bytes=total, lives=its, frames=FRAMES
    )
    return dataclasses.replace(record, allocations=allocations)


def make_many_lives(count: int, seed: int = 0) -> Lives:
    """A training step of so many tensors: a tenth held, half of them made by the forward pass and
    freed by the backward one, the others passing."""
    chance = random.Random(seed)
    held, forward = count // 10, count // 2
    passing = count - held - forward
    sizes = [2 ** chance.randrange(8, 20) for _ in range(count)]
    bands = [TensorBand(0, "held", None, None, 1, size) for size in sizes[:held]]
    for number in range(forward):
        born = 1 + number
        died = 2 * forward + 2 - number - chance.randrange(3) * 0.25
        bands.append(TensorBand(1, "gradient", born, died, 1, sizes[held + number]))
    for number in range(passing):
        born = 1 + chance.random() * 2 * forward
        long = chance.random() * 6
        size = sizes[held + forward + number]
        bands.append(TensorBand(2 + number % 2, "passing", born, born + long, 1, size))
    bands.sort(key=lambda band: band.born_seconds or 0.0)
    end = 2.0 * forward + 10
    found = make_lives(*bands, end=end, peak=0.0)
    changes: dict[float, int] = {}
    for band in bands:
        born = band.born_seconds or 0.0
        changes[born] = changes.get(born, 0) + band.bytes
        if band.died_seconds is not None:
            changes[band.died_seconds] = changes.get(band.died_seconds, 0) - band.bytes
    level, highest = 0, 0
    for time, change in sorted(changes.items()):
        level += change
        if level > highest:
            highest, found = level, dataclasses.replace(found, peak_seconds=time)
    return found
