"""What was asked for, when, and on what machine: the frame of a run's and a sweep's page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from runner import places, shape
from runner.judging import selection
from runner.judging.selection import Grid
from runner.metrics import readable_bytes
from runner.plan import PLAN_FILE
from runner.records import Record, Trial
from runner.report.markup import Node, tag

_MOST_VALUES = 8


def command(grid: Grid, folder: Path) -> str | None:
    """The words that a sweep was started with: a search's as they were typed, a grid's as its plan
    tells them. None where it has no plan, or is no full grid."""
    try:
        plan = shape.from_text(places.text_of(folder / PLAN_FILE))
        if said := plan.get("words"):
            shape.check(list[str], said, "words")
            return shlex.join(["python", "-m", "runner", *said])
        overrides = plan["overrides"]
        shape.check(list[list[str]], overrides, "overrides")
    except (OSError, *shape.UNREADABLE):
        return None
    values: dict[str, dict[str, None]] = {}
    for words in overrides:
        for word in words:
            key, _, value = word.partition("=")
            values.setdefault(key, {})[value] = None
    cells = 1
    for each in values.values():
        cells *= len(each)
    if cells != len(overrides):
        return None
    words = [f"{key}={','.join(each)}" for key, each in values.items()]
    return shlex.join(["python", "-m", "runner", "-m", *words])


def evidence(trials: Sequence[Trial]) -> str:
    """`1 memory and 3 timing processes`."""
    kinds = [trial.kind for trial in trials]
    counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    plural = "process" if len(kinds) == 1 else "processes"
    return f"{' and '.join(counts)} {plural}" if counts else "no process"


def when(started_at: str) -> str:
    try:
        return f"{datetime.fromisoformat(started_at):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return started_at


def code(text: str) -> Element:
    return tag("pre", tag("code", text), tabindex=0)


def facts(rows: Sequence[tuple[str, Node]]) -> Element:
    """Names and what there is to say of each."""
    return tag(
        "dl",
        (node for name, value in rows for node in (tag("dt", name), tag("dd", value))),
        class_="facts",
    )


def specification(grid: Grid) -> Element:
    """Every field of what was asked, what varies first."""
    names = [*grid.varied, *(name for name in grid.values if name not in grid.varied)]
    return facts([(name, _values(grid.values[name])) for name in names])


def _values(values: Sequence[str]) -> str:
    if len(values) <= _MOST_VALUES:
        return ", ".join(values)
    return f"{', '.join(values[:3])}, ... {values[-1]} ({len(values)} values)"


# The machine.


def environment(records: Sequence[Record]) -> Element:
    """What it was measured on; what is not the same in all cells says so."""
    seen: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in _flat(record.environment):
            seen.setdefault(name, {})[value] = None
        seen.setdefault("fingerprint", {})[record.fingerprint] = None
    rows: list[tuple[str, Node]] = []
    for name, values in seen.items():
        differs = " (differs between cells)" if len(values) > 1 else ""
        rows.append((name, _values(list(values)) + differs))
    return facts(rows)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name == "comparable":  # the same once more, for the fingerprint
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif name == "memory_bytes" and isinstance(value, int):
            yield "memory", readable_bytes(value)
        elif isinstance(value, float):
            yield name, f"{value:.3g}"
        elif value is not None:
            yield name, selection.word(value)
