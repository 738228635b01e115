"""Read TensorFlow's profile: the bytes of an `.xplane.pb` -> the columns of a `Window`.

The file is a protocol buffer, an `XSpace`; its schema is tsl/profiler/protobuf/xplane.proto in
https://github.com/openxla/xla:

    space > planes > lines, one a thread > events > stats: a number, a text or a reference
                   > tables of names, to which events, stats and references point by number

What is not as the schema says raises `XPlaneError`; nothing is guessed.

A million allocation events among six million of all kinds take about 7 s, less than the profiler
takes to write them (`python -m tests.benchmarks allocation_events`). NumPy over the raw bytes was
five times as fast and three times as long.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from runner.meters.tensor.trace_schema import Space
from runner.meters.tensor.window import (
    CONSTANT,
    DROPPED,
    EAGER_OP,
    EXECUTABLE,
    ITERATOR,
    MARK,
    MARKING,
    NONE,
    Ints,
    Mark,
    Window,
)


class XPlaneError(ValueError):
    """The file isn't what the schema says; it would have been misread."""


_NEEDED = {
    "requested_bytes": "requested_bytes",
    "allocation_bytes": "allocated_bytes",
    "addr": "address",
    "bytes_allocated": "in_use_bytes",
    "peak_bytes_in_use": "peak_bytes",
}
"""The profiler's name of a stat, and our column of it."""
_NUMBERS = {**_NEEDED, "data_type": "dtype"}
_TEXTS = {"allocator_name": "allocator", "tf_op": "op", "shape": "shape"}
_OF_THE_EVENT = ("time_ns", "freed", "thread", "on_data_thread", "within")
_COLUMNS = (*_NUMBERS.values(), *_TEXTS.values(), *_OF_THE_EVENT)
_PLACES = {stat: _COLUMNS.index(column) for stat, column in (_NUMBERS | _TEXTS).items()}
_TIME, _FREED = _COLUMNS.index("time_ns"), _COLUMNS.index("freed")

_DATA_THREADS = b"tf_data"
"""How the names of the threads begin that tf.data has."""
_START, _STEP = "profile_start_time", "index"

_ALLOCATION, _FREE, _MARK, _STAGE, _CONSTANT, _EAGER_OP, _NODE, _EXECUTABLE = range(8)
"""The roles of events. The last five are spans that say what an allocation is for."""
_ROLES = {"MemoryAllocation": _ALLOCATION, "MemoryDeallocation": _FREE, CONSTANT: _CONSTANT}
_PREFIXES = {MARK: _MARK, ITERATOR: _STAGE, EAGER_OP: _EAGER_OP}

_Span = tuple[int, int, int]
"""Begin, end, and the code of its name."""


def read_window(content: bytes) -> Window:
    """Return the window in a serialized `XSpace`; raise `XPlaneError` where it is none."""
    try:
        return _read_space(Space.FromString(content))
    except (DecodeError, OverflowError) as error:  # a number of more than 64 bits
        raise XPlaneError(f"the file is cut short or garbled ({error})") from None


def _read_space(space: Any) -> Window:
    start_ns = next(filter(None, map(_read_start_ns, space.planes)), 0)
    codes: dict[str, int] = {}
    op_types: dict[str, str] = {}
    marks: list[Mark] = []
    parts = [np.zeros((0, len(_COLUMNS)), np.int64)]
    for plane in space.planes:
        reader = _PlaneReader(plane, start_ns, codes)
        op_types |= reader.op_types
        for line in plane.lines:
            rows, marked = reader.read_line(line)
            parts.append(rows)
            marks += marked
    if marks and not start_ns:
        raise XPlaneError(f"no {_START}: windows can't be put on one clock")

    # An allocator's lock spans the reading of the clock, so time alone puts the events of several
    # threads in order; a stable sort makes what is left of chance come out the same way each time.
    whole = np.concatenate(parts)
    whole = whole[np.argsort(whole[:, _TIME], kind="stable")]
    columns: dict[str, Any] = dict(zip(_COLUMNS, whole.T.copy(), strict=True))
    for stat, column in _NEEDED.items():
        if (columns[column] < 0).any():
            raise XPlaneError(f"an allocation without {stat}")
    for column in ("freed", "on_data_thread"):
        columns[column] = columns[column].astype(bool)
    return Window(
        **columns,
        names=tuple(codes),
        marks=tuple(sorted(marks, key=lambda mark: mark.begin_ns)),
        op_types=op_types,
    )


def _read_start_ns(plane: Any) -> int:
    """Return when the profiler began, which one plane says, or 0."""
    keys = {entry.key for entry in plane.stat_names if entry.value.name == _START.encode()}
    return next((each.unsigned or each.signed for each in plane.stats if each.key in keys), 0)


class _PlaneReader:
    """Reads the lines of one plane by its tables of names."""

    def __init__(self, plane: Any, start_ns: int, codes: dict[str, int]) -> None:
        """`codes` takes the name of each code that a row refers to, in their order."""
        self._start_ns = start_ns
        self._codes = codes
        self._event_names: dict[int, str] = {}
        self._roles: dict[int, int] = {}
        self.op_types: dict[str, str] = {}
        for entry in plane.event_names:
            name, display_name = _decode(entry.value.name), _decode(entry.value.display_name)
            node, _, op_type = name.rpartition(":")
            is_node = bool(node) and op_type in (display_name, node)  # a function's is named twice
            if is_node:
                self.op_types[node] = op_type
            self._event_names[entry.key] = name
            if (role := _find_role(name, is_node)) is not None:
                self._roles[entry.key] = role
        self._stat_names = {entry.key: _decode(entry.value.name) for entry in plane.stat_names}
        self._places = {
            key: _PLACES[name] for key, name in self._stat_names.items() if name in _PLACES
        }

    def read_line(self, line: Any) -> tuple[Ints, list[Mark]]:
        """Return a row for each event of an allocator's, and the marks."""
        clock_ns = self._start_ns + line.timestamp_ns
        flat, marks, spans = array("q"), list[Mark](), dict[int, list[_Span]]()
        roles, is_marking = self._roles, False
        for event in line.events:  # millions: what is of no interest must leave at once
            role = roles.get(event.key)
            if role is None:
                continue
            # Events of a thread lie after its line's begin, in picoseconds; allocations are told
            # apart by nanoseconds, as TensorFlow reads its clock.
            time_ns = clock_ns + event.offset_ps // 1000
            if role in (_ALLOCATION, _FREE):
                row = [NONE] * len(_COLUMNS)
                row[_TIME], row[_FREED] = time_ns, role == _FREE
                self._read_stats(row, event.stats)
                flat.extend(row)
                continue
            name, end_ns = self._event_names[event.key], time_ns + event.duration_ps // 1000
            if role == _MARK:
                stats = {self._stat_names.get(each.key): each for each in event.stats}
                is_marking = True
                if DROPPED not in stats:
                    at = stats.get(_STEP)
                    step = NONE if at is None else at.signed or at.unsigned
                    marks.append(Mark(name.removeprefix(MARK), step, time_ns, end_ns))
            else:
                spans.setdefault(role, []).append((time_ns, end_ns, self._number_name(name)))
        rows = np.array(flat, np.int64).reshape(-1, len(_COLUMNS))
        columns = dict(zip(_COLUMNS, rows.T, strict=True))
        columns["thread"][:] = MARKING if is_marking else line.id & 0xFFFF_FFFF  # some have more
        columns["on_data_thread"][:] = line.name.startswith(_DATA_THREADS)
        nameless = np.flatnonzero((columns["shape"] == NONE) & (columns["freed"] == 0))
        times = columns["time_ns"][nameless].tolist()
        columns["within"][nameless] = _find_innermost(spans, times)
        return rows, marks

    def _read_stats(self, row: list[int], stats: Any) -> None:
        for stat in stats:
            place = self._places.get(stat.key)
            if place is None:
                continue
            if place >= len(_NUMBERS):
                row[place] = self._read_text(stat)
            else:
                row[place] = stat.signed or stat.unsigned
                if not (row[place] or stat.HasField("signed") or stat.HasField("unsigned")):
                    raise XPlaneError(f"{self._stat_names[stat.key]}: is not a whole number")

    def _read_text(self, stat: Any) -> int:
        """Return a text's code: nearly all refer to the plane's table, one may be written out."""
        if stat.HasField("text"):
            return self._number_name(_decode(stat.text))
        if not stat.HasField("reference"):
            raise XPlaneError("a name is neither a text nor a reference to one")
        if stat.reference not in self._stat_names:
            raise XPlaneError(f"a stat refers to name {stat.reference}, which is not in the table")
        return self._number_name(self._stat_names[stat.reference])

    def _number_name(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")


def _find_role(name: str, is_node: bool) -> int | None:
    if name in _ROLES:
        return _ROLES[name]
    for prefix, role in _PREFIXES.items():
        if name.startswith(prefix):
            return role
    if EXECUTABLE in name:
        return _EXECUTABLE
    return _NODE if is_node else None


def _find_innermost(spans: dict[int, list[_Span]], times: list[int]) -> list[int]:
    """Return the name of the innermost of one thread's spans around each time, or `NONE`.

    stages    [ whole pipeline        x   ]      x: the stages nest, as each asks the one before
                [ map ]  [ map ]                    it; the innermost that goes on is `whole`
    others    [ function      x   ]              x: none. What began within a function's span
                 [ folded ]                         and ended before is a constant that is folded
                                                    while the function is made ready, and what
                                                    comes after is not of the function's run
    """
    tables = [(role, *_sort_spans(its)) for role, its in sorted(spans.items())]
    found = []
    for time in times:
        innermost = (0, NONE, NONE)
        for role, begins, ends, codes, outer in tables:
            at = bisect_right(begins, time) - 1
            while at != NONE and ends[at] < time:
                at = outer[at] if role == _STAGE else NONE
            if at != NONE:
                innermost = max(innermost, (begins[at], role, codes[at]))
        found.append(innermost[-1])
    return found


def _sort_spans(spans: list[_Span]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return begins, ends, names, and the place of the span around each or `NONE`, by begin."""
    spans.sort(key=lambda span: (span[0], -span[1]))
    outer, around = list[int](), list[int]()
    for number, (_, end_ns, _) in enumerate(spans):
        while around and spans[around[-1]][1] < end_ns:
            around.pop()
        outer.append(around[-1] if around else NONE)
        around.append(number)
    begins, ends, codes = map(list, zip(*spans, strict=True))
    return begins, ends, codes, outer
