"""Reading the profiler's file: on files encoded by hand, and against protobuf's own reader."""

from __future__ import annotations

import contextlib
import random
import struct
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.meters.tensor.trace_reader import XPlaneError, read_window
from runner.meters.tensor.window import MARK, NONE, Mark, Window

START_NS = 1_795_000_000_000_000_000
NAMES = {
    1: "allocator_name", 2: "requested_bytes", 3: "allocation_bytes", 4: "addr",
    5: "bytes_allocated", 6: "peak_bytes_in_use", 7: "data_type", 8: "tf_op", 9: "shape",
    10: "index", 11: "fragmentation", 12: "id", 13: "profile_start_time",
    200: "cpu_bfc", 201: "MatMul", 202: "[2,3]",
}  # fmt: skip
EVENTS = {
    1: "MemoryAllocation", 2: "MemoryDeallocation", 3: f"{MARK}steps", 4: "ExecutorState::Process",
    5: "EagerLocalExecute: _EagerConst", 6: "model/mm:_MklMatMul", 7: "Iterator::Root::BatchV2",
    8: "Iterator::Root::BatchV2::Map",
}  # fmt: skip


class Encoder:
    """Protocol buffer's wire format. Given a source of chance, it writes the same message another
    way: fields in any order, unknown ones among them, and numbers wider than they need be."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self.chance = chance

    def varint(self, number: int) -> bytes:
        octets = []
        while number >= 0x80:
            octets.append(number & 0x7F | 0x80)
            number >>= 7
        octets.append(number)
        if self.chance and len(octets) < 9 and self.chance.random() < 0.2:
            octets[-1] |= 0x80
            octets.append(0)
        return bytes(octets)

    def field(self, number: int, value: int | float | bytes) -> bytes:
        if isinstance(value, bytes):
            return self.varint(number << 3 | 2) + self.varint(len(value)) + value
        if isinstance(value, float):
            return self.varint(number << 3 | 1) + struct.pack("<d", value)
        return self.varint(number << 3) + self.varint(value % 2**64)

    def message(self, *fields: bytes) -> bytes:
        parts = list(fields)
        if self.chance:
            unknown = [
                self.field(99, b"something new"),
                self.field(98, 2**63),
                self.field(97, 0.5),
                self.varint(96 << 3 | 5) + b"four",
            ]
            parts += [part for part in unknown if self.chance.random() < 0.3]
            self.chance.shuffle(parts)
        return b"".join(parts)

    def stat(self, name: int, value: int | float | bytes, field: int = 4) -> bytes:
        kind = 2 if isinstance(value, float) else field
        return self.message(self.field(1, name), self.field(kind, value))

    def event(self, name: int, at_ns: int, *stats: bytes, lasting_ns: int = 0) -> bytes:
        fields = [self.field(1, name), self.field(2, at_ns * 1000)]
        if lasting_ns:
            fields.append(self.field(3, lasting_ns * 1000))
        return self.message(*fields, *(self.field(4, stat) for stat in stats))

    def memory(self, at_ns: int, address: int, size: int, freed: bool = False) -> bytes:
        return self.event(
            2 if freed else 1,
            at_ns,
            self.stat(1, 200, field=7),
            self.stat(11, 0.0447) if freed else self.stat(11, 0),
            self.stat(2, size),
            self.stat(3, size + 255),
            self.stat(4, address),
            self.stat(5, size * 3),
            self.stat(6, size * 4),
            self.stat(12, -9_048_748_963_345_514_977),
            self.stat(7, 1),
            *([] if freed else [self.stat(8, 201, field=7), self.stat(9, 202, field=7)]),
        )

    def line(self, *events: bytes, timestamp_ns: int = 0, name: bytes = b"a thread") -> bytes:
        return self.message(
            self.field(1, 2**63 + 5),
            self.field(2, name),
            self.field(3, timestamp_ns),
            *(self.field(4, event) for event in events),
        )

    def named(self, name: str) -> bytes:
        display_name = name.rpartition(":")[2]  # the profiler gives one to ops: `node:type`
        extra = [self.field(4, display_name.encode())] if "/" in name else []
        return self.message(self.field(2, name.encode()), *extra)

    def plane(self, *lines: bytes) -> bytes:
        tables = [
            self.field(table, self.message(self.field(1, key), self.field(2, self.named(name))))
            for table, names in ((4, EVENTS), (5, NAMES))
            for key, name in names.items()
        ]
        return self.message(
            self.field(2, b"/host:CPU"), *(self.field(3, line) for line in lines), *tables
        )

    def space(self, *lines: bytes, start_ns: int = START_NS) -> bytes:
        task = [
            self.field(2, b"Task Environment"),
            self.field(5, self.message(self.field(1, 13), self.field(2, self.named(NAMES[13])))),
            self.field(6, self.stat(13, start_ns, field=3)),
        ]
        planes = [self.plane(*lines), *([self.message(*task)] if start_ns else [])]
        return self.message(*(self.field(1, plane) for plane in planes))


def columns(window: Window) -> dict[str, object]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(window).items()
    }


def texts(window: Window, codes: np.ndarray) -> list[str | None]:
    return [None if code == NONE else window.names[code] for code in codes]


def test_an_allocation_is_read_with_all_that_the_replay_needs() -> None:
    encoder = Encoder()
    line = encoder.line(
        encoder.memory(1_000, 140_710_603_894_848, 40_000),
        encoder.event(4, 1_500, lasting_ns=7),
        encoder.memory(2_000, 140_710_603_894_848, 40_000, freed=True),
        timestamp_ns=50,
    )

    window = read_window(encoder.space(line))

    assert window.time_ns.tolist() == [START_NS + 1_050, START_NS + 2_050]
    assert window.freed.tolist() == [False, True]
    assert window.address.tolist() == [140_710_603_894_848] * 2
    assert window.requested_bytes.tolist() == [40_000] * 2
    assert window.allocated_bytes.tolist() == [40_255] * 2
    assert window.in_use_bytes.tolist() == [120_000] * 2
    assert window.peak_bytes.tolist() == [160_000] * 2
    assert window.dtype.tolist() == [1, 1]
    assert texts(window, window.allocator) == ["cpu_bfc"] * 2
    assert texts(window, window.op) == ["MatMul", None]
    assert texts(window, window.shape) == ["[2,3]", None]


def test_a_stage_of_a_data_pipeline_goes_on_after_the_stages_that_it_asked() -> None:
    encoder = Encoder()
    plain = [encoder.stat(1, 200, field=7), *(encoder.stat(key, 8) for key in (2, 3, 4, 5, 6))]

    def allocated(at_ns: int) -> bytes:
        return encoder.event(1, at_ns, *plain)

    line = encoder.line(
        encoder.event(7, 100, lasting_ns=900),
        *(encoder.event(8, at_ns, lasting_ns=50) for at_ns in (200, 300, 400)),
        *(allocated(at_ns) for at_ns in (150, 310, 500, 2_000)),
        name=b"tf_data_iterator_resource/7",
    )
    window = read_window(encoder.space(line, encoder.line(allocated(600))))

    whole, inner = EVENTS[7], EVENTS[8]
    assert texts(window, window.within) == [whole, inner, whole, None, None]
    assert window.on_data_thread.tolist() == [True, True, True, False, True]


def test_marks_are_read_with_their_name_their_step_and_their_span() -> None:
    encoder = Encoder()
    line = encoder.line(encoder.event(3, 700, encoder.stat(10, 12), lasting_ns=30))

    window = read_window(encoder.space(line))

    assert window.marks == (Mark("steps", 12, START_NS + 700, START_NS + 730),)


def test_events_of_several_threads_come_out_in_order_of_time() -> None:
    encoder = Encoder()
    one = encoder.line(encoder.memory(10, 1, 1), encoder.memory(30, 3, 1), timestamp_ns=100)
    other = encoder.line(encoder.memory(0, 2, 1), encoder.memory(60, 4, 1), timestamp_ns=120)

    assert read_window(encoder.space(one, other)).address.tolist() == [1, 2, 3, 4]


def test_an_allocation_without_a_shape_lies_within_the_innermost_span_of_its_thread() -> None:
    encoder = Encoder()
    needed = [(1, 200, 7), (2, 8, 4), (3, 256, 4), (4, 99, 4), (5, 256, 4), (6, 256, 4)]
    stats = [encoder.stat(name, value, field) for name, value, field in needed]
    line = encoder.line(
        encoder.event(5, 100, lasting_ns=50),
        encoder.event(1, 110, *stats),
        encoder.event(6, 120, lasting_ns=10),
        encoder.event(1, 125, *stats),
        encoder.event(1, 140, *stats),
        encoder.event(1, 151, *stats),
        encoder.memory(145, 7, 7),
    )

    window = read_window(encoder.space(line))

    inside, outside = "EagerLocalExecute: _EagerConst", None
    assert texts(window, window.within) == [inside, EVENTS[6], inside, None, outside]


@settings(deadline=None)  # the machine may be busy
@given(st.integers(), st.integers(1, 2**47), st.integers(1, 2**40))
def test_order_of_fields_unknown_fields_and_width_of_numbers_make_no_difference(
    seed: int, address: int, size: int
) -> None:
    def space(encoder: Encoder) -> bytes:
        return encoder.space(
            encoder.line(
                *(encoder.memory(at, address + at, size // at) for at in range(1, 6)),
                encoder.event(3, 70, encoder.stat(10, 3), lasting_ns=9),
                timestamp_ns=77,
            ),
            encoder.line(*(encoder.memory(9 + at, address + at, 5, True) for at in range(3))),
        )

    plain, other = read_window(space(Encoder())), read_window(space(Encoder(random.Random(seed))))

    assert texts(plain, plain.op) == texts(other, other.op)
    numbers = ("time_ns", "freed", "address", "requested_bytes", "allocated_bytes", "dtype")
    for name in (*numbers, "in_use_bytes", "peak_bytes", "marks"):
        assert columns(plain)[name] == columns(other)[name]


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_numbers_of_any_size_are_read_exactly(sizes: list[int]) -> None:
    encoder = Encoder()
    stats = [(1, 200, 7), (3, 1, 4), (4, 99, 4), (5, 256, 4), (6, 256, 4)]
    line = encoder.line(
        *(
            encoder.event(1, at, *(encoder.stat(*one) for one in (*stats, (2, size, 4))))
            for at, size in enumerate(sizes)
        )
    )

    assert read_window(encoder.space(line)).requested_bytes.tolist() == sizes


def test_a_name_that_is_no_utf_8_and_one_that_is_written_out_are_read() -> None:
    encoder = Encoder()
    stats = [(1, b"cpu_\xff", 5), (2, 8, 4), (3, 256, 4), (4, 99, 4), (5, 256, 4), (6, 256, 4)]
    line = encoder.line(encoder.event(1, 5, *(encoder.stat(*one) for one in stats)))

    window = read_window(encoder.space(line))

    assert texts(window, window.allocator) == ["cpu_\ufffd"]


def test_an_empty_file_is_an_empty_window() -> None:
    window = read_window(b"")

    assert window.time_ns.size == 0
    assert window.marks == ()


def test_a_file_that_is_cut_short_anywhere_is_refused() -> None:
    encoder = Encoder()
    plane = encoder.field(1, encoder.plane(encoder.line(encoder.memory(5, 1, 300))))

    assert read_window(plane).time_ns.size == 1
    for size in range(1, len(plane)):
        with pytest.raises(XPlaneError):
            read_window(plane[:size])


@settings(deadline=None)  # the machine may be busy
@given(st.data())
def test_a_garbled_file_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    encoder = Encoder()
    whole = encoder.space(encoder.line(encoder.memory(5, 1, 300), encoder.memory(9, 1, 300, True)))
    garbled = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        garbled[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(XPlaneError):
        read_window(bytes(garbled))


@pytest.mark.parametrize(
    ("stats", "complaint"),
    [
        ([(1, 200, 7), (2, 8, 4), (3, 256, 4)], "without addr"),
        ([(1, 200, 7), (2, 8.5, 4)], "requested_bytes: is not a whole number"),
        ([(1, 3, 4)], "neither a text"),
        ([(1, 777, 7)], "name 777"),
    ],
)
def test_an_allocation_that_cannot_be_understood_is_refused(
    stats: list[tuple[int, int | float, int]], complaint: str
) -> None:
    encoder = Encoder()
    line = encoder.line(encoder.event(1, 5, *(encoder.stat(*one) for one in stats)))

    with pytest.raises(XPlaneError, match=complaint):
        read_window(encoder.space(line))


def test_marks_without_a_clock_are_refused() -> None:
    encoder = Encoder()
    line = encoder.line(encoder.event(3, 700, encoder.stat(10, 0), lasting_ns=30))

    with pytest.raises(XPlaneError, match="profile_start_time"):
        read_window(encoder.space(line, start_ns=0))
