"""A run whose every figure is known."""

from __future__ import annotations

import dataclasses
from dataclasses import fields
from typing import Any

import msgspec

from runner.allocations import Allocations, TraceChecks
from runner.records import Record
from tests.factories import completed

STATE, WEIGHT = 51_200, 40_000


def make_group(op: str, shape: list[int] | None, *scopes: tuple[str, int, int], held: bool) -> Any:
    """A group from its scopes, each with a count and bytes; all of it held, or all passing."""
    size = sum(size for _, _, size in scopes)
    split = {"held_bytes": 0, "kept_bytes": 0, "gradient_bytes": None, "passing_bytes": 0}
    split["held_bytes" if held else "passing_bytes"] = size
    return {
        "op": op,
        "shape": shape,
        "dtype": "float32",
        "count": sum(count for _, count, _ in scopes),
        "bytes": size,
        "split": split,
        "scopes": [
            {"scope": scope, "count": count, "bytes": size} for scope, count, size in scopes
        ],
    }


def make_allocations(*groups: Any) -> dict[str, Any]:
    """A peak made of these groups, at 0.5 s in step 1 of two; the first call was as high."""
    total = sum(each["bytes"] for each in groups)
    held = sum(each["split"]["held_bytes"] for each in groups)
    return {
        "total_bytes": total,
        "phase": "steps",
        "step": 1,
        "split": {
            "held_bytes": held,
            "kept_bytes": 0,
            "gradient_bytes": None,
            "passing_bytes": total - held,
        },
        "groups": [{**each, "share": each["bytes"] / total} for each in groups],
        "leaks": [],
        "leak_steps": 1,
        "marks": [
            ["build", 0, 0.0, 0.1],
            ["first_call", 0, 0.1, 0.3],
            ["steps", 0, 0.3, 0.4],
            ["steps", 1, 0.4, 0.6],
            ["release", 0, 0.7, 0.8],
        ],
        "curve": {
            "seconds": [0.05, 0.2, 0.25, 0.5, 0.55, 0.75],
            "bytes": [held, total, held, total, held, 0],
        },
        "peak_curve": {"seconds": [0.4, 0.5, 0.55, 0.6], "bytes": [held, total, held, held]},
        "checks": {each.name: 12 if each.name == "events" else 0 for each in fields(TraceChecks)},
    }


PEAK = make_allocations(
    make_group(
        "MatMul", [128, 100], ("model/a", 60, 60 * STATE), ("model/b", 40, 40 * STATE), held=False
    ),
    make_group("Fill", [100, 100], ("", 1, WEIGHT), held=True),
    make_group("Const", [], ("", 1, 4), held=True),
)
PEAK_BYTES = 100 * STATE + WEIGHT + 4


def make_known_run(**like: Any) -> Record:
    """A run that kept 100 states at its peak, and its weight."""
    record = completed(scenario="python_loop", batch_size=128, **like)
    metrics = {**record.metrics, "tensor_peak_bytes": PEAK_BYTES}
    return dataclasses.replace(
        record, metrics=metrics, allocations=msgspec.convert(PEAK, Allocations)
    )
