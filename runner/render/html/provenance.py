"""The specification, the time and the machine: the frame of a run's and a sweep's page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import prod
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import msgspec

from runner.analysis import selection
from runner.analysis.selection import CellGrid
from runner.cell import read_plan
from runner.metrics import format_bytes
from runner.overrides import split_override
from runner.records import Record
from runner.render.files.command import join_command
from runner.render.html.elements import tag

_MOST_VALUES = 8


def find_sweep_command(folder: Path, records: Sequence[Record]) -> str | None:
    """Return the words that a sweep was started with: a search's as they were typed, a grid's as
    its plan has them. None where it has no plan, or is no full grid."""
    if (plan := read_plan(folder)) is None or not (plan.words or plan.overrides):
        return None
    config_dirs = {name: None for record in records for name in record.environment.config_dirs}
    if plan.words:
        return join_command(plan.words, config_dirs)
    values: dict[str, dict[str, None]] = {}
    for key, value in (split_override(word) for words in plan.overrides for word in words):
        values.setdefault(key, {})[value] = None
    if prod(map(len, values.values())) != len(plan.overrides):
        return None
    swept = [f"{key}={','.join(taken)}" for key, taken in values.items()]
    return join_command(["-m", *swept], config_dirs)


def format_time(started_at: str) -> str:
    return f"{datetime.fromisoformat(started_at):%Y-%m-%d %H:%M} UTC"


def draw_code(text: str) -> Element:
    return tag("pre", tag("code", text), tabindex=0)


def list_specification(grid: CellGrid) -> Element:
    """Return every field of what was asked, what varies first."""
    names = [*grid.varied, *(name for name in grid.values if name not in grid.varied)]
    return _list_facts((name, _join_values(grid.values[name])) for name in names)


def list_environment(records: Sequence[Record]) -> Element:
    """Return what it was measured on; what is not the same in all cells says so."""
    seen: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in _flatten(msgspec.to_builtins(record.environment)):
            seen.setdefault(name, {})[value] = None
        seen.setdefault("fingerprint", {})[record.fingerprint] = None
    return _list_facts(
        (name, _join_values([*values]) + " (differs between cells)" * (len(values) > 1))
        for name, values in seen.items()
    )


def _list_facts(facts: Iterable[tuple[str, str]]) -> Element:
    nodes = (node for name, value in facts for node in (tag("dt", name), tag("dd", value)))
    return tag("dl.facts", nodes)


def _join_values(values: Sequence[str]) -> str:
    if len(values) <= _MOST_VALUES:
        return ", ".join(values)
    return f"{', '.join(values[:3])}, ... {values[-1]} ({len(values)} values)"


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name == "comparable":  # the same once more, for the fingerprint
            continue
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        elif name == "memory_bytes":
            yield "memory", format_bytes(value)
        elif isinstance(value, float):
            yield name, f"{value:.3g}"
        elif value is not None:
            yield name, selection.format_word(value)
