"""The cells of a sweep as a person looks at them: what varies, what stands beside what, what is
measured along a number; and pairs of records that differ in one thing. A view of records.

Core: standard library only. Within a sweep, the cells of a pair differ in one field and are equal
in whatever else was varied; between two sweeps or runs they are the same cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runner import user_code
from runner.analysis.replicates import (
    group_replicates,
    identify_replicates,
    pool_replicates,
)
from runner.config import format_word as format_word
from runner.errors import BadInput, suggest
from runner.metrics import EXAMPLES_PER_SECOND
from runner.records import Record

Words = dict[str, str]
"""A cell's fields, each with its value as a user types it."""

PairKey = tuple[object, ...]


@dataclass(frozen=True)
class Pair:
    """Two cells to compare, and how to speak of them."""

    baseline: Record
    candidate: Record
    baseline_name: str
    candidate_name: str
    held: Words = field(default_factory=dict)
    """The fields that vary elsewhere and are equal here: where in the grid the pair stands."""

    @property
    def key(self) -> PairKey:
        """Return the same for all rows of this pair, and for no others."""
        names = self.baseline_name, self.candidate_name
        return self.baseline.id, self.candidate.id, *names, *self.held.items()

    @property
    def held_values(self) -> dict[str, Any]:
        """Return the fields held with their values: a number is a number."""
        known = {**self.baseline.spec.fields, **self.candidate.spec.fields}
        return {name: known.get(name, word) for name, word in self.held.items()}

    @property
    def sides(self) -> tuple[tuple[str, Record], tuple[str, Record]]:
        return (self.baseline_name, self.baseline), (self.candidate_name, self.candidate)

    @property
    def other_code(self) -> str | None:
        """Return how the user's own code differs between the two, where it does."""
        return user_code.describe_difference(
            self.baseline.environment.code, self.candidate.environment.code
        )


@dataclass(frozen=True)
class Selection:
    """The pairs, and what was left out and why."""

    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()


def list_words(record: Record) -> Words:
    """Return a cell's fields as a user types them."""
    return {name: format_word(value) for name, value in record.spec.fields.items()}


def name_record(record: Record) -> str:
    """Return `while_loop · graph · batch 32`; without the batch where nothing reads it."""
    spec = record.spec
    may_read = not record.outcome.completed and "batch_size" not in spec.unread
    is_read = EXAMPLES_PER_SECOND in record.metrics or may_read
    batch = f"batch {spec.batch_size}" if is_read else ""
    return " · ".join(filter(None, (spec.scenario, spec.execution, batch)))


UNSAID = "default"
"""Where a cell leaves out what another gives to the same code: an argument's own default."""


def align_words(cells: Sequence[Record]) -> list[Words]:
    """Return each cell's words; cells of the same code have all arguments that any was given."""
    points = [list_words(cell) for cell in cells]
    known: dict[tuple[str, ...], dict[str, str]] = {}
    for point in points:
        arguments = (name for name in point if name.count(".") > 1)
        known.setdefault(_identify_code(point), {}).update(dict.fromkeys(arguments, UNSAID))
    return [
        point | {n: UNSAID for n in known[_identify_code(point)] if n not in point}
        for point in points
    ]


def _identify_code(point: Words) -> tuple[str, ...]:
    return point["scenario"], point.get("scenario.target", "")


def list_differing_fields(first: Record, second: Record) -> list[str]:
    """Return the fields in which two cells differ; one that only one of them has is left out."""
    a, b = align_words([first, second])
    return [name for name in a if name in b and a[name] != b[name]]


_NO_AXES = ("seed", "device.index")
"""Numbers that are names."""


# Within a sweep.


def pair_by_field(
    records: Sequence[Record], by: str | None = None, baseline: str | None = None
) -> Selection:
    """Return pairs that differ in the field `by`: in the first that was swept, unless it is named.

    `baseline` is the value that the others are compared with: the first one, unless it is named. A
    field whose value follows from that of `by` (a scenario's own execution) is not held equal.
    Raises `BadInput` where no two cells differ in that field alone.
    """
    grid = CellGrid(records, is_pooled=by != "seed")
    cells = grid.records
    if not grid.varied:
        same = "one cell" if len(grid.cells) == 1 else f"{len(grid.cells)} cells, all alike"
        seeds = "" if len(grid.cells) == 1 else " but for their seeds"
        raise BadInput(
            f"there is nothing to compare: {same}{seeds} ({_name_point(grid.points[0])}).",
            "Say --by seed." if seeds else
            "Name a sweep that varies something, or the folder of a second run.",
        )  # fmt: skip
    by = grid.choose_field() if by is None else grid.resolve_field(by)
    if by not in grid.varied:
        raise grid.refuse_field(by)
    values = grid.values[by]
    if baseline is not None and baseline not in values:
        raise BadInput(
            f"--baseline {baseline}: no cell has {by}={baseline}.", suggest(baseline, values)
        )
    pairs = grid.pair(by, baseline or values[0])
    if not pairs:
        raise BadInput(
            f"--by {by}: no two cells differ in it and are equal in the rest.",
            f"Varied are {', '.join(grid.varied)}: name another one, or as --baseline another of "
            f"{', '.join(values)}.",
        )
    paired = {id(record) for pair in pairs for record in (pair.baseline, pair.candidate)}
    notes = [f"no counterpart: {grid.place(cell)}" for cell in cells if id(cell) not in paired]
    if len(grid.cells) < len(records):
        again = len(records) - len(grid.cells)
        notes.append(f"measured more than once: {again}; the newest counts")
    return Selection(tuple(pairs), tuple(notes))


@dataclass(frozen=True)
class NamedRecord:
    """A cell under the name that it has within its group."""

    name: str
    record: Record


@dataclass(frozen=True)
class Series:
    """Cells that differ in one number alone, in its order."""

    name: str
    points: tuple[tuple[float, Record], ...]


class CellGrid:
    """Cells in the order in which they were asked for, of one measured twice the newest: points,
    each a mapping from field to word, and the fields that tell them apart. Cells that differ in the
    seed alone are one, unless `is_pooled` is false."""

    def __init__(self, records: Sequence[Record], is_pooled: bool = True) -> None:
        newest = {each.cell: each for each in sorted(records, key=lambda each: each.started_at)}
        self.cells = [newest[cell] for cell in dict.fromkeys(each.cell for each in records)]
        """Each with its own record; `records` has replicates as one."""
        groups = group_replicates(self.cells) if is_pooled else [[cell] for cell in self.cells]
        self.records = [pool_replicates(group) for group in groups]
        self.seeds = {group[0].cell: len(group) for group in groups}
        """The number of seeds that a cell of `records` was measured with."""
        words = align_words(self.cells)
        self._words = {each.cell: own for each, own in zip(self.cells, words, strict=True)}
        self.points = [self._words[each.cell] for each in self.records]
        self._fields = {each.cell: each.spec.fields for each in self.cells}
        sweeps = [each.sweep for each in self.cells if each.sweep]
        self.swept = [name for sweep in sweeps for name in sweep.swept]
        """As its sweep knows them, in the order in which they were typed."""
        values: dict[str, dict[str, None]] = {name: {} for name in self.swept}
        for point in words:
            for name, value in point.items():
                values.setdefault(name, {})[value] = None
        self.values = {name: list(each) for name, each in values.items()}
        self.has_replicates = len(self.records) < len(self.cells)
        self.varied = [
            name
            for name, each in self.values.items()
            if len(each) > 1 and not (self.has_replicates and name == "seed")
        ]
        """The field that was swept first comes first."""

    def word(self, record: Record, name: str) -> str:
        """Return a field's value; empty where the cell has no such field."""
        return self._words[record.cell].get(name, "")

    def number(self, record: Record, name: str) -> float | None:
        value = self._fields[record.cell].get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def label(self, record: Record, names: Sequence[str] | None = None) -> str:
        """Return `while_loop · batch 32 · graph`."""
        own = self._words[record.cell]
        names = self.varied if names is None else names
        return (
            " · ".join(name_value(name, own[name]) for name in names if name in own) or "every cell"
        )

    def groups(self) -> list[tuple[str, list[NamedRecord]]]:
        """Return the cells that differ in what was swept first together, under what they have in
        common: so that strategies are beside each other, and not batch sizes."""
        if not self.varied:
            return [
                ("", [NamedRecord(self.label(each, ["scenario"]), each) for each in self.records])
            ]
        by = self.varied[0]
        held = [name for name in self.varied[1:] if not self._follows(name, by)]
        own = [name for name in self.varied if name not in held]
        found: dict[str, list[NamedRecord]] = {}
        for record in self.records:
            heading = self.label(record, held) if held else ""
            found.setdefault(heading, []).append(NamedRecord(self.label(record, own), record))
        return list(found.items())

    def axes(self) -> list[str]:
        """Return the numbers that vary, where some cells differ in that alone."""
        return [
            name
            for name in self.varied
            if name not in _NO_AXES and any(len(series.points) > 1 for series in self.series(name))
        ]

    def series(self, axis: str) -> list[Series]:
        """Return for each combination of the other fields its cells along `axis`."""
        held = [name for name in self.varied if name != axis]
        found: dict[str, dict[float, Record]] = {}
        for record in self.records:
            value = self.number(record, axis)
            if value is not None:
                found.setdefault(self.label(record, held), {})[value] = record
        return [Series(name, tuple(sorted(points.items()))) for name, points in found.items()]

    def place(self, cell: Record) -> str:
        own = self._words[cell.cell]
        return " ".join(f"{name}={own[name]}" for name in self.varied if name in own)

    def list_fields(self) -> list[str]:
        """Return the fields that vary by themselves: none whose value follows from another's."""
        fields: list[str] = []
        for name in self.varied:
            if not any(self._follows(name, field) for field in fields):
                fields.append(name)
        return fields

    def resolve_field(self, by: str) -> str:
        """Return the field that is meant: its last part will do where only one that varies ends
        so."""
        meant = [name for name in self.varied if name.endswith(f".{by}")]
        return meant[0] if by not in self.varied and len(meant) == 1 else by

    def choose_field(self) -> str:
        """Return the first swept field between whose values there are pairs; raise `BadInput` where
        there is none.

        A record knows what its sweep varies, in the order in which it was typed. Where it does not,
        cells came in an order in which what was typed first varies slowest.
        """

        def order(name: str) -> tuple[int, int]:
            first, *_ = self.values[name]
            changed = next(
                i for i, point in enumerate(self.points) if point.get(name, first) != first
            )
            return self.swept.index(name) if name in self.swept else len(self.swept), -changed

        for name in sorted(self.varied, key=order):
            if self.pair(name, self.values[name][0]):
                return name
        raise BadInput(
            "no two cells differ in one field and are equal in the rest.",
            f"Varied are {', '.join(self.varied)}: name one --by, and its --baseline.",
        )

    def refuse_field(self, by: str) -> BadInput:
        if self.values.get(by):
            return BadInput(
                f"--by {by}: is {self.values[by][0]} in every cell.",
                f"Varied are {', '.join(self.varied)}.",
            )
        return BadInput(f"--by {by}: no cell has such a field.", suggest(by, self.varied))

    def pair(self, by: str, baseline: str) -> list[Pair]:
        """Return each cell at the baseline with each elsewhere that is equal in all fields held."""
        apart = [name for name in self.varied if name != by and self._follows(name, by)]
        held = [name for name in self.varied if name != by and name not in apart]
        # A field that only some scenarios have holds only between those that have it; the others
        # make an index, so that a thousand cells are not matched each with each.
        common = [name for name in held if all(name in point for point in self.points)]
        others: dict[tuple[str, ...], list[int]] = {}
        for index, point in enumerate(self.points):
            if by in point and point[by] != baseline:
                others.setdefault(tuple(point[name] for name in common), []).append(index)
        return [
            _make_pair(self.records[one], self.records[other], by, apart, held)
            for one, point in enumerate(self.points)
            if point.get(by) == baseline
            for other in others.get(tuple(point[name] for name in common), [])
            if _has_equal(point, self.points[other], held)
        ]

    def _follows(self, name: str, by: str) -> bool:
        """Return True if the value of `by` decides that of `name`."""
        decided: dict[str, str | None] = {}
        return all(
            decided.setdefault(point[by], point.get(name)) == point.get(name)
            for point in self.points
            if by in point
        )


def _has_equal(one: Words, other: Words, held: Sequence[str]) -> bool:
    return all(one[name] == other[name] for name in held if name in one and name in other)


def _make_pair(
    baseline: Record, candidate: Record, by: str, apart: Sequence[str], held: Sequence[str]
) -> Pair:
    a, b = align_words([baseline, candidate])
    apart = [name for name in apart if name in a and name in b and a[name] != b[name]]
    place = {name: (a | b)[name] for name in held if name in a | b}
    return Pair(baseline, candidate, _name_side(a, by, apart), _name_side(b, by, apart), place)


def _name_side(own: Words, by: str, apart: Sequence[str]) -> str:
    """Return `while_loop`; or `while_loop (graph)`, where the other is not in graph."""
    others = ", ".join(name_value(name, own[name]) for name in apart)
    return name_value(by, own[by]) + (f" ({others})" if others else "")


SPEAKING = ("scenario", "execution", "device")
"""Fields whose values say what they are."""


def name_cell(swept: Mapping[str, Any]) -> str:
    """Return a cell as its sweep tells it from the others: `while_loop batch_size=32`."""
    words = [
        str(value) if key in SPEAKING else f"{key}={value}"
        for key, value in swept.items()
        if value is not None
    ]
    return " ".join(words).replace("scenario.", "")


def name_value(name: str, value: str) -> str:
    """Return a field with its value, as one speaks of it: `while_loop`, `batch 32`."""
    return value if name in SPEAKING else f"{shorten_field(name)} {value}"


def shorten_field(name: str) -> str:
    """Return a field as one speaks of it: `scenario.iterations` -> `iterations`."""
    return "batch" if name == "batch_size" else name.rpartition(".")[2]


# Between sweeps or runs.


def pair_by_path(groups: Mapping[str, Sequence[Record]], baseline: str | None = None) -> Selection:
    """Return pairs of the same cell in two or more places: yesterday's sweep and today's.

    The first place is the baseline unless another is named. Single runs are pairs whatever they
    are. Raises `BadInput` where two places have no cell in common.
    """
    names = list(groups)
    if baseline is not None and baseline not in groups:
        raise BadInput(f"--baseline {baseline}: is none of the paths.", suggest(baseline, names))
    first = baseline or names[0]
    others = [name for name in names if name != first]
    varied = CellGrid([record for records in groups.values() for record in records]).varied
    for same in (lambda record: record.cell, _identify_work):
        old = {same(record): record for record in groups[first]}
        pairs, notes = [], []
        for name in others:
            new = {same(record): record for record in groups[name]}
            pairs += [
                Pair(old[cell], new[cell], first, name, _locate(new[cell], varied))
                for cell in old
                if cell in new
            ]
            for place, here, there in ((first, old, new), (name, new, old)):
                alone = [record for cell, record in here.items() if cell not in there]
                notes += [f"only in {place}: {_name_point(list_words(record))}" for record in alone]
        if pairs:
            return Selection(tuple(_pool_pairs(pairs)), tuple(notes))
    if all(len(records) == 1 for records in groups.values()):
        return Selection(
            tuple(_pair_runs(groups[first][0], groups[name][0], (first, name)) for name in others)
        )
    raise BadInput(
        f"{first} and {others[0]} have no cell in common: they differ in {', '.join(varied)}.",
        "Say --by FIELD to compare between the values of one of these.",
    )


def _pool_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs, those whose cells differ in the seed alone as one."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        key = (pair.candidate_name, identify_replicates(pair.candidate))
        groups.setdefault(key, []).append(pair)
    return [
        replace(
            group[0],
            baseline=pool_replicates([pair.baseline for pair in group]),
            candidate=pool_replicates([pair.candidate for pair in group]),
        )
        for group in groups.values()
    ]


def _identify_work(record: Record) -> str:
    """Return the same for yesterday's quick run and today's thorough one."""
    return format_word({k: v for k, v in record.spec.fields.items() if not k.startswith("measure")})


def _pair_runs(baseline: Record, candidate: Record, places: tuple[str, str]) -> Pair:
    apart = list_differing_fields(baseline, candidate)
    if not apart:  # a scenario has gained or lost a parameter since
        return Pair(baseline, candidate, *places)
    return _make_pair(baseline, candidate, apart[0], apart[1:], held=())


def _locate(record: Record, varied: Sequence[str]) -> Words:
    """Return where in the grid a cell stands; of a grid of one cell what it runs."""
    own = list_words(record)
    names = [name for name in varied if not name.startswith("measure")] or _WORK
    return {name: own[name] for name in names if name in own}


_WORK = ["scenario", "scenario.target", "scenario.path"]
"""Fields that say what a cell runs."""


def _name_point(point: Words) -> str:
    return " ".join(f"{name}={point[name]}" for name in ("scenario", "execution", "batch_size"))
