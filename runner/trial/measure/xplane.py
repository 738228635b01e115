"""Profiler file -> columns: the allocation events and marks of one window, in order of time.

TensorFlow's profiler writes a protocol buffer (`XSpace`) with tens of bytes and a dozen stats an
event. Python objects for a million of them take 11 s and gigabytes, so the file is read as what it
is on the wire, many events at a time: a cursor an event, all of them moved together by NumPy. That
needs no schema but the field numbers below, and takes any order of fields, unknown fields and any
width of varint. What isn't as the schema says raises `XPlaneError`; nothing is guessed.

Core: standard library and NumPy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MARK = "runner/"
"""How the names of our own marks begin, so that no name of the user's is taken for one. Without a
colon, or the profiler would take them for ops."""

MARKING = 0
"""In the column of threads: the one that made the marks."""

NONE = -1
"""In a column of codes: the event has no such stat."""

# Field numbers of tsl/profiler/protobuf/xplane.proto.
_SPACE_PLANES = 1
_PLANE_LINES, _PLANE_EVENT_NAMES, _PLANE_STAT_NAMES, _PLANE_STATS = 3, 4, 5, 6
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_NAMED_ID, _NAMED_NAME, _NAMED_DISPLAY_NAME = 1, 2, 4
_LINE_ID, _LINE_NAME, _LINE_TIMESTAMP_NS, _LINE_EVENTS = 1, 2, 3, 4
_THREAD = 0xFFFF_FFFF
_EVENT_OFFSET_PS, _EVENT_DURATION_PS, _EVENT_STATS = 2, 3, 4
_STAT_UINT64, _STAT_INT64, _STAT_TEXT, _STAT_REF = 3, 4, 5, 7
_STAT_VALUES = range(2, 8)  # a number, a text or a reference: one of these
_NAME = 1  # of an event, and of a stat: a key of the plane's tables
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_ALLOCATION, _DEALLOCATION = "MemoryAllocation", "MemoryDeallocation"
_START = "profile_start_time"
_NUMBERS = (
    "requested_bytes",
    "allocation_bytes",
    "addr",
    "bytes_allocated",
    "peak_bytes_in_use",
    "data_type",
)
_TEXTS = ("allocator_name", "tf_op", "shape")
_NEEDED = ("requested_bytes", "allocation_bytes", "addr", "bytes_allocated", "peak_bytes_in_use")
_INDEX = "index"
_OF_EVENT = ("event", "time_ns", "duration_ns", _INDEX, *_NUMBERS, *_TEXTS)

CONSTANT = "tf.constant"
"""The span in which a Python value becomes a tensor."""
EAGER_OP = "EagerLocalExecute: "
"""How the span of an eager op begins, before the op's type."""
EXECUTABLE = "Executable::Execute"
"""In the name of the span in which XLA runs what it compiled."""

ITERATOR = "Iterator::"
"""How the span begins in which a stage of a data pipeline makes an element: its path of stages."""
_DATA_THREADS = "tf_data"
"""How the names of the threads begin that tf.data has."""

_AT_ONCE = 32_768
"""Events decoded together: their bytes fit the processor's cache, and memory stays bounded."""


class XPlaneError(ValueError):
    """The file isn't what the schema says; it would have been misread."""


class Mark(NamedTuple):
    """A span that we put around a phase or a step."""

    name: str
    step: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Window:
    """What one profiler file says. Each column has an entry an event, ordered by time.

    `allocator`, `op`, `shape` and `within` are codes into `names`, or `NONE`.
    """

    time_ns: Ints
    freed: Bools
    thread: Ints
    """The operating system's number of the thread; `MARKING` of the one that made the marks: in a
    forked process TensorFlow has another number for it."""
    address: Ints
    requested_bytes: Ints
    allocated_bytes: Ints
    in_use_bytes: Ints
    peak_bytes: Ints
    dtype: Ints
    allocator: Ints
    op: Ints
    shape: Ints
    within: Ints
    """The name of the innermost span around an allocation without a shape, if it is an op's, an
    XLA executable's or a data pipeline's: TensorFlow names no op for some of these, and a whole
    function for others."""
    of_pipeline: Bools
    """On a thread of tf.data's own."""
    names: tuple[str, ...]
    marks: tuple[Mark, ...]
    op_types: dict[str, str]
    """The op type of each graph node that the profiler named with its type."""
    trace_events: int
    """All events in the file, those that are of no interest here included."""


def read(path: Path) -> Window:
    return parse(path.read_bytes())


def parse(content: bytes) -> Window:
    """The window in a serialized `XSpace`."""
    wire = _Wire(content)
    try:
        planes = [
            _Plane(wire, begin, end)
            for field, kind, begin, end in wire.fields(0, wire.size)
            if (field, kind) == (_SPACE_PLANES, _BYTES)
        ]
        return _window(wire, planes)
    except (IndexError, OverflowError) as error:  # a number led outside the file
        raise XPlaneError(f"the file is cut short or garbled ({error})") from None


class _Wire:
    """Protocol buffer's wire format: one message at a time, or many at once."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)
        self.octets = np.zeros(self.size + 24, np.uint8)  # a word can be read at any byte
        self.octets[: self.size] = np.frombuffer(content, np.uint8)
        self._words: NDArray[np.uint64] = np.ndarray(
            self.size + 16, np.dtype("<u8"), self.octets.data, strides=(1,)
        )

    # One at a time, in plain Python: for planes, lines and tables of names, of which there are few.

    def varint(self, at: int) -> tuple[int, int]:
        value = shift = 0
        while shift < 70:
            if at >= self.size:
                raise XPlaneError("a number runs past the end of the file")
            octet = self.content[at]
            at += 1
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return value, at
            shift += 7
        raise XPlaneError(f"a number of more than 10 bytes at byte {at - 10}")

    def field(self, at: int, end: int) -> tuple[int, int, int, int, int]:
        """The field here: where the next one is, its number, its wire type and its value, or where
        its bytes begin and end."""
        tag, at = self.varint(at)
        kind = tag & 7
        if kind == _VARINT:
            value, after = self.varint(at)
            stop = after
        elif kind == _BYTES:
            size, value = self.varint(at)
            after = stop = value + size
        elif kind in (_FIXED64, _FIXED32):
            value, after = at, at + (8 if kind == _FIXED64 else 4)
            stop = after
        else:
            raise XPlaneError(f"wire type {kind} at byte {at}: no such type")
        if after > end:
            raise XPlaneError(f"a field runs past its message's end at byte {end}")
        return after, tag >> 3, kind, value, stop

    def fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Fields of one message: number, wire type, and value or begin and end of bytes."""
        while at < end:
            at, number, kind, value, stop = self.field(at, end)
            yield number, kind, value, stop

    def text(self, begin: int, end: int) -> str:
        """Names come from anywhere, and some are not UTF-8."""
        return self.content[begin:end].decode(errors="replace")

    # Many at once, in NumPy: a cursor a message, and all of them moved together.

    def varints(self, at: Ints) -> tuple[Ints, Ints]:
        """The numbers that begin at these bytes, and where each ends."""
        octets = self.octets[at]
        if (octets < 0x80).all():
            return octets.astype(np.int64), at + 1
        words = self._words[at]
        stops = ~words & _HIGH_BITS
        last = stops & (~stops + _ONE)  # the high bit of the number's last byte
        value = _pack(words & (last - _ONE))
        width = (np.frexp(last.astype(np.float64))[1].astype(np.int64)) >> 3
        long = np.flatnonzero(stops == 0)  # 9 or 10 bytes: 63 or 64 bits
        if long.size:
            high = self._words[at[long] + 8]
            ninth = high & np.uint64(0xFF)
            tenth = (high >> np.uint64(8)) & np.uint64(0xFF)
            ten = ninth >= 0x80
            if (tenth[ten] > 1).any():
                raise XPlaneError("a number of more than 64 bits")
            value[long] = _pack(words[long]) | (ninth & np.uint64(0x7F)) << np.uint64(56)
            value[long] |= np.where(ten, tenth, np.uint64(0)) << np.uint64(63)
            width[long] = 9 + ten
        return value.view(np.int64), at + width

    def all_fields(self, begin: Ints, end: Ints) -> Iterator[tuple[int, int, Ints, Ints, Ints]]:
        """Fields of many messages, their first ones first: (field, wire type, which messages,
        values, 0), or (.., begins, ends) of bytes."""
        messages = np.flatnonzero(begin < end)
        at, end = begin[messages], end[messages]
        while messages.size:
            tags, at = self.varints(at)
            following = np.empty_like(at)
            distinct = _distinct(tags)
            for tag in distinct:
                picked = slice(None) if len(distinct) == 1 else np.flatnonzero(tags == tag)
                here, kind = at[picked], tag & 7
                if kind == _VARINT:
                    values, ends = self.varints(here)
                    after = ends
                    ends = np.zeros_like(values)
                elif kind == _BYTES:
                    sizes, values = self.varints(here)
                    if (sizes < 0).any():
                        raise XPlaneError("bytes of negative length")
                    after = ends = values + sizes
                elif kind in (_FIXED64, _FIXED32):
                    values = here
                    after = ends = here + (8 if kind == _FIXED64 else 4)
                else:
                    raise XPlaneError(f"wire type {kind}: no such type")
                if (after > end[picked]).any():
                    raise XPlaneError("a field runs past its message's end")
                following[picked] = after
                yield tag >> 3, kind, messages[picked], values, ends
            going_on = following < end
            if going_on.all():
                at = following
                continue
            messages, at, end = messages[going_on], following[going_on], end[going_on]


_ONE = np.uint64(1)
_HIGH_BITS = np.uint64(0x8080808080808080)


def _pack(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Eight groups of seven bits, one in each byte, pushed together."""
    words = words & ~_HIGH_BITS
    for shift, low in ((1, 0x007F007F007F007F), (2, 0x00003FFF00003FFF), (4, 0x000000000FFFFFFF)):
        words = (words & np.uint64(low)) | ((words & ~np.uint64(low)) >> np.uint64(shift))
    return words


def _distinct(values: Ints) -> list[int]:
    if not values.size:
        return []
    first = int(values[0])
    return [first] if (values == first).all() else [int(value) for value in np.unique(values)]


class _Plane:
    """One plane's tables of names, and where its lines are. The tables follow the lines."""

    def __init__(self, wire: _Wire, begin: int, end: int) -> None:
        self.wire = wire
        self.lines: list[tuple[int, int]] = []
        self.events: dict[int, str] = {}
        self.stats: dict[int, str] = {}
        self.nodes: dict[str, tuple[str, str]] = {}
        """Of the events that are named after a graph node: the node and its op type."""
        own_stats = []
        for field, kind, start, stop in wire.fields(begin, end):
            if kind != _BYTES:
                continue
            if field == _PLANE_LINES:
                self.lines.append((start, stop))
            elif field == _PLANE_STATS:
                own_stats.append((start, stop))
            elif field in (_PLANE_EVENT_NAMES, _PLANE_STAT_NAMES):
                key, name, display_name = _named(wire, start, stop)
                (self.events if field == _PLANE_EVENT_NAMES else self.stats)[key] = name
                node, _, op_type = name.rpartition(":")
                if node and op_type in (display_name, node):  # a function's call is named twice
                    self.nodes[name] = (node, op_type)
        self.start_ns = 0
        for start, stop in own_stats:
            values = {field: value for field, _, value, _ in wire.fields(start, stop)}
            if self.stats.get(values.get(_NAME, 0)) == _START:
                self.start_ns = values.get(_STAT_UINT64, values.get(_STAT_INT64, 0))

    def keys(self, is_wanted: Callable[[str], bool]) -> Ints:
        """The numbers of the event names that are wanted."""
        return np.array([key for key, name in self.events.items() if is_wanted(name)], np.int64)

    def event(self, key: int) -> str:
        return self.events[key]

    def stat(self, key: int) -> str:
        if key not in self.stats:
            raise XPlaneError(f"a stat refers to name {key}, which is not in the table")
        return self.stats[key]


def _named(wire: _Wire, begin: int, end: int) -> tuple[int, str, str]:
    """An entry of a table of names: its key, its name, its display name."""
    key, name, display_name = 0, "", ""
    for field, kind, start, stop in wire.fields(begin, end):
        if (field, kind) == (_ENTRY_KEY, _VARINT):
            key = start
        elif (field, kind) == (_ENTRY_VALUE, _BYTES):
            for inner, inner_kind, first, last in wire.fields(start, stop):
                if (inner, inner_kind) == (_NAMED_NAME, _BYTES):
                    name = wire.text(first, last)
                elif (inner, inner_kind) == (_NAMED_DISPLAY_NAME, _BYTES):
                    display_name = wire.text(first, last)
    return key, name, display_name


class _Line(NamedTuple):
    thread: int
    name: str
    clock_ns: int
    begins: Ints
    ends: Ints


def _line(wire: _Wire, begin: int, end: int) -> _Line:
    """A line's thread, its clock, and where its events begin and end. The one plain loop over all
    events: where each begins is known only from the one before."""
    thread, name, timestamp_ns, at, octets = 0, "", 0, begin, wire.content
    lengths_at = array("q")  # where the length of each event is written
    while at < end:
        if octets[at] == _LINE_EVENTS << 3 | _BYTES:
            at += 1
            lengths_at.append(at)
            size = octets[at]
            if size < 0x80:
                at += 1 + size
            else:
                size, at = wire.varint(at)
                at += size
        else:
            after, field, kind, value, _ = wire.field(at, end)
            if (field, kind) == (_LINE_TIMESTAMP_NS, _VARINT):
                timestamp_ns = value
            elif (field, kind) == (_LINE_ID, _VARINT):
                thread = value & _THREAD  # other planes have larger numbers here
            elif (field, kind) == (_LINE_NAME, _BYTES):
                name = wire.text(value, after)
            elif (field, kind) == (_LINE_EVENTS, _BYTES):  # its tag is wider than it need be
                lengths_at.append(wire.varint(at)[1])
            at = after
    if at != end:
        raise XPlaneError(f"an event runs past its line's end at byte {end}")
    sizes, begins = wire.varints(np.frombuffer(lengths_at, np.int64))
    return _Line(thread, name, timestamp_ns, begins, begins + sizes)


Columns = dict[str, Ints]


def _window(wire: _Wire, planes: list[_Plane]) -> Window:
    names: dict[str, int] = {}
    marks: list[Mark] = []
    parts: list[Columns] = []
    total = 0
    start_ns = next((plane.start_ns for plane in planes if plane.start_ns), 0)
    for plane in planes:
        memory = plane.keys(lambda event: event in (_ALLOCATION, _DEALLOCATION))
        freeing = plane.keys(lambda event: event == _DEALLOCATION)
        marking = plane.keys(lambda event: event.startswith(MARK))
        for begin, end in plane.lines:
            thread, name, clock_ns, begins, ends = _line(wire, begin, end)
            total += begins.size
            line = _decoded(plane, names, begins, ends, np.concatenate([memory, marking]))
            mark_rows = np.flatnonzero(np.isin(line["event"], marking))
            for row in mark_rows:
                time_ns = int(line["time_ns"][row]) + clock_ns + start_ns
                marked = plane.events[int(line["event"][row])].removeprefix(MARK)
                until_ns = time_ns + int(line["duration_ns"][row])
                marks.append(Mark(marked, int(line[_INDEX][row]), time_ns, until_ns))
            line = _taken(line, np.isin(line["event"], memory))
            for stat in _NEEDED:
                if (line[stat] < 0).any():
                    raise XPlaneError(f"an allocation without {stat}")
            line["freed"] = np.isin(line["event"], freeing).astype(np.int64)
            line["within"] = _within(plane, names, begins, ends, line)
            of = MARKING if mark_rows.size else thread
            line["thread"] = np.full(line["event"].size, of, np.int64)
            is_data = name.startswith(_DATA_THREADS)
            line["of_pipeline"] = np.full(line["event"].size, is_data, np.int64)
            line["time_ns"] += clock_ns + start_ns
            parts.append(line)
    if marks and not start_ns:
        raise XPlaneError(f"no {_START}: windows can't be put on one clock")

    # An allocator's lock spans the reading of the clock, so time alone puts the events of several
    # threads in order; a stable sort makes what is left of chance come out the same way each time.
    whole = _joined(parts, (*_OF_EVENT, "freed", "within", "thread", "of_pipeline"))
    whole = _taken(whole, np.argsort(whole["time_ns"], kind="stable"))
    return Window(
        time_ns=whole["time_ns"],
        freed=whole["freed"].astype(bool),
        thread=whole["thread"],
        address=whole["addr"],
        requested_bytes=whole["requested_bytes"],
        allocated_bytes=whole["allocation_bytes"],
        in_use_bytes=whole["bytes_allocated"],
        peak_bytes=whole["peak_bytes_in_use"],
        dtype=whole["data_type"],
        allocator=whole["allocator_name"],
        op=whole["tf_op"],
        shape=whole["shape"],
        within=whole["within"],
        of_pipeline=whole["of_pipeline"].astype(bool),
        names=tuple(names),
        marks=tuple(sorted(marks, key=lambda mark: mark.begin_ns)),
        op_types={node: kind for plane in planes for node, kind in plane.nodes.values()},
        trace_events=total,
    )


def _joined(parts: list[Columns], names: tuple[str, ...]) -> Columns:
    empty = np.zeros(0, np.int64)
    return {name: np.concatenate([empty, *(part[name] for part in parts)]) for name in names}


def _taken(columns: Columns, rows: Ints | Bools) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def _span_keys(plane: _Plane) -> Iterator[Ints]:
    """Kinds of spans that say what an allocation is for."""
    yield plane.keys(lambda event: event.startswith(ITERATOR))
    yield plane.keys(lambda event: event == CONSTANT)
    yield plane.keys(lambda event: event.startswith(EAGER_OP))
    yield plane.keys(lambda event: event in plane.nodes)
    yield plane.keys(lambda event: EXECUTABLE in event)


def _within(plane: _Plane, names: dict[str, int], begins: Ints, ends: Ints, line: Columns) -> Ints:
    """For each allocation that TensorFlow names no op or only a function for: the innermost span
    of its thread around it. Spans of one kind rarely nest, and where they do, the last one that
    began may have ended while an outer one goes on: then there is none, as far as we can say. Those
    of a pipeline's stages always nest, as each stage asks the one before it."""
    within = np.full(line["event"].size, NONE, np.int64)
    rows = np.flatnonzero((line["shape"] == NONE) & (line["freed"] == 0))
    if not rows.size:
        return within
    began = np.full(rows.size, np.iinfo(np.int64).min)
    nesting, *others = _span_keys(plane)
    for keys in (nesting, *others):
        spans = _decoded(plane, names, begins, ends, keys)
        if not spans["event"].size:
            continue
        spans = _taken(spans, np.argsort(spans["time_ns"], kind="stable"))
        until = spans["time_ns"] + spans["duration_ns"]
        latest = np.searchsorted(spans["time_ns"], line["time_ns"][rows], "right") - 1
        if keys is nesting:
            latest = _outwards(latest, until, line["time_ns"][rows])
        begin = spans["time_ns"][latest]
        inside = (latest >= 0) & (line["time_ns"][rows] <= until[latest]) & (begin >= began)
        began[inside] = begin[inside]
        within[rows[inside]] = _coded(spans["event"][latest[inside]], plane.event, names)
    return within


def _outwards(latest: Ints, until: Ints, times: Ints) -> Ints:
    """Of the span that began last before each time, the one around it that goes on then."""
    around = np.full(until.size, NONE, np.int64)
    open_spans: list[int] = []
    ends = until.tolist()
    for span, end in enumerate(ends):
        while open_spans and ends[open_spans[-1]] < end:
            open_spans.pop()
        around[span] = open_spans[-1] if open_spans else NONE
        open_spans.append(span)
    found = latest.copy()
    while (over := np.flatnonzero((found >= 0) & (until[found] < times))).size:
        found[over] = around[found[over]]
    return found


def _coded(keys: Ints, text: Callable[[int], str], names: dict[str, int]) -> Ints:
    """Keys of a plane's table as codes into our names."""
    distinct, which = np.unique(keys, return_inverse=True)
    codes = [names.setdefault(text(int(key)), len(names)) for key in distinct]
    return np.array(codes, np.int64)[which]


def _decoded(
    plane: _Plane, names: dict[str, int], begins: Ints, ends: Ints, wanted: Ints
) -> Columns:
    """Those of a line's events that have one of the wanted names."""
    read = {*_NUMBERS, *_TEXTS, _INDEX}
    stats = np.array([key for key, name in plane.stats.items() if name in read], np.int64)
    parts = []
    for at in range(0, begins.size if wanted.size else 0, _AT_ONCE):
        chunk = slice(at, at + _AT_ONCE)
        events = _events(plane.wire, begins[chunk], ends[chunk], wanted, stats)
        parts.append(_columns(events, plane, names))
    line = _joined(parts, _OF_EVENT)
    return _taken(line, np.isin(line["event"], wanted))


def _maybe_named(wire: _Wire, begins: Ints, ends: Ints, wanted: Ints) -> Bools:
    """Leaves out the events, or stats, that say at once that their name is another one: all but
    a few of the many that are of no interest, and so needn't be decoded."""
    named = np.flatnonzero((wire.octets[begins] == _NAME << 3 | _VARINT) & (begins < ends))
    kept = np.ones(begins.size, bool)
    kept[named] = np.isin(wire.varints(begins[named] + 1)[0], wanted)
    return kept


class _Events(NamedTuple):
    """Some events of one line, and all their stats in one row each."""

    event: Ints
    """The number of its name."""
    offset_ps: Ints
    duration_ps: Ints
    stat_event: Ints
    stat_name: Ints
    stat_field: Ints
    stat_value: Ints
    stat_end: Ints


def _events(wire: _Wire, begins: Ints, ends: Ints, wanted: Ints, stats: Ints) -> _Events:
    """Those events that have one of the wanted names, and those of their stats."""
    kept = _maybe_named(wire, begins, ends, wanted)
    begins, ends = begins[kept], ends[kept]
    scalars = {
        field: np.zeros(begins.size, np.int64)
        for field in (_NAME, _EVENT_OFFSET_PS, _EVENT_DURATION_PS)
    }
    found = [(np.zeros(0, np.int64),) * 3]
    for field, kind, rows, values, stops in wire.all_fields(begins, ends):
        if kind == _VARINT and field in scalars:
            scalars[field][rows] = values
        elif (field, kind) == (_EVENT_STATS, _BYTES):
            found.append((rows, values, stops))
    owner, begins, ends = (np.concatenate(column) for column in zip(*found, strict=True))
    kept = _maybe_named(wire, begins, ends, stats)
    owner, begins, ends = owner[kept], begins[kept], ends[kept]

    stat_name, stat_field, stat_value, stat_end = np.zeros((4, owner.size), np.int64)
    for field, _, rows, values, stops in wire.all_fields(begins, ends):
        if field == _NAME:
            stat_name[rows] = values
        elif field in _STAT_VALUES:
            stat_field[rows], stat_value[rows], stat_end[rows] = field, values, stops
    return _Events(
        scalars[_NAME],
        scalars[_EVENT_OFFSET_PS],
        scalars[_EVENT_DURATION_PS],
        owner,
        stat_name,
        stat_field,
        stat_value,
        stat_end,
    )


def _codes(events: _Events, rows: Ints, plane: _Plane, names: dict[str, int]) -> Ints:
    """Texts as codes: nearly all refer to the plane's table, but one may be written out."""
    fields, values = events.stat_field[rows], events.stat_value[rows]
    codes = np.full(rows.size, NONE, np.int64)
    referring = fields == _STAT_REF
    codes[referring] = _coded(values[referring], plane.stat, names)
    for row in np.flatnonzero(~referring):
        if fields[row] != _STAT_TEXT:
            raise XPlaneError("a name is neither a text nor a reference to one")
        text = plane.wire.text(int(values[row]), int(events.stat_end[rows[row]]))
        codes[row] = names.setdefault(text, len(names))
    return codes


def _columns(events: _Events, plane: _Plane, names: dict[str, int]) -> dict[str, Ints]:
    """The stats that we read, an entry an event; `NONE` where it has no such stat."""
    keys = {name: key for key, name in plane.stats.items()}
    columns = {
        "event": events.event,
        "time_ns": events.offset_ps // 1000,
        "duration_ns": events.duration_ps // 1000,
    }
    for stat in (*_NUMBERS, *_TEXTS, _INDEX):
        rows = np.flatnonzero(events.stat_name == keys.get(stat, NONE))
        fields, values = events.stat_field[rows], events.stat_value[rows]
        if stat in _TEXTS:
            values = _codes(events, rows, plane, names)
        elif not ((fields == _STAT_UINT64) | (fields == _STAT_INT64)).all():
            raise XPlaneError(f"{stat}: is not a whole number")
        columns[stat] = np.full(events.event.size, NONE, np.int64)
        columns[stat][events.stat_event[rows]] = values
    return columns
