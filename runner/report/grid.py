"""The cells of a sweep as a person looks at them: what varies, what stands beside what, what is
measured along a number. Pure functions of records; also of runs that no sweep holds together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.judging import selection
from runner.records import Record

_NO_AXES = ("seed", "device.index")
"""Numbers that are names."""


@dataclass(frozen=True)
class Row:
    """A cell under the name that it has within its group."""

    name: str
    record: Record


@dataclass(frozen=True)
class Series:
    """Cells that differ in one number alone, in its order."""

    name: str
    points: tuple[tuple[float, Record], ...]


class Grid:
    """Cells in the order in which they were asked for; of one measured twice the newest."""

    def __init__(self, records: Sequence[Record]) -> None:
        newest = {each.cell: each for each in sorted(records, key=lambda each: each.started_at)}
        self.records = [newest[cell] for cell in dict.fromkeys(each.cell for each in records)]
        self._fields = {each.cell: selection.fields(each.spec) for each in self.records}
        words = selection.side_by_side(self.records)
        self._words = {each.cell: own for each, own in zip(self.records, words, strict=True)}
        swept = [str(name) for each in self.records for name in (each.sweep or {}).get("swept", ())]
        known = dict.fromkeys(name for words in self._words.values() for name in words)
        self.values = {name: self._values_of(name) for name in dict.fromkeys([*swept, *known])}
        self.varied = [name for name, values in self.values.items() if len(values) > 1]
        """What was swept first comes first."""

    def _values_of(self, name: str) -> list[str]:
        return list(dict.fromkeys(words[name] for words in self._words.values() if name in words))

    def word(self, record: Record, name: str) -> str:
        """A field's value; nothing where the cell has no such field."""
        return self._words[record.cell].get(name, "")

    def number(self, record: Record, name: str) -> float | None:
        value = self._fields[record.cell].get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def label(self, record: Record, names: Sequence[str] | None = None) -> str:
        """`while_loop · batch 32 · graph`."""
        words = self._words[record.cell]
        names = self.varied if names is None else names
        parts = [selection.said(name, words[name]) for name in names if name in words]
        return " · ".join(parts) or "every cell"

    def groups(self) -> list[tuple[str, list[Row]]]:
        """Cells that differ in what was swept first stand together under what they have in common:
        so that strategies are beside each other, and not batch sizes."""
        if not self.varied:
            return [("", [Row(self.label(each, ["scenario"]), each) for each in self.records])]
        by = self.varied[0]
        held = [name for name in self.varied[1:] if not self._follows(name, by)]
        own = [name for name in self.varied if name not in held]
        found: dict[str, list[Row]] = {}
        for record in self.records:
            heading = self.label(record, held) if held else ""
            found.setdefault(heading, []).append(Row(self.label(record, own), record))
        return list(found.items())

    def axes(self) -> list[str]:
        """The numbers that vary, where some cells differ in that alone."""
        return [
            name
            for name in self.varied
            if name not in _NO_AXES and any(len(series.points) > 1 for series in self.series(name))
        ]

    def series(self, axis: str) -> list[Series]:
        held = [name for name in self.varied if name != axis]
        found: dict[str, dict[float, Record]] = {}
        for record in self.records:
            number = self.number(record, axis)
            if number is not None:
                found.setdefault(self.label(record, held), {})[number] = record
        return [Series(name, tuple(sorted(points.items()))) for name, points in found.items()]

    def _follows(self, name: str, by: str) -> bool:
        """Whether the value of `by` decides that of `name`: a scenario its natural execution."""
        decided: dict[str, str | None] = {}
        return all(
            decided.setdefault(words.get(by, ""), words.get(name)) == words.get(name)
            for words in self._words.values()
        )
