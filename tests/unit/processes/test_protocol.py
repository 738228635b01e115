"""What passes between parent and child is read whole, or is said to be unreadable."""

from __future__ import annotations

import os
from typing import Any

import pytest

from runner.cell import TrialSpec
from runner.processes import ends, protocol
from runner.processes.protocol import Channel, Ended, LineReader, Task
from runner.records import ChildMessage, Phase, Status, TrialResult
from runner.schema import Unreadable

NOTHING: Any = None
READY = b'{"phase": "build"}\n{"phase": "steps"}\n{"result": {"is_alone": true}}\n'


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_messages_are_read_however_they_are_cut(size: int) -> None:
    reader, found = LineReader(), []
    for start in range(0, len(READY), size):
        found += reader.feed(READY[start : start + size])
    result = ChildMessage(result=TrialResult(is_alone=True))
    assert found == [ChildMessage(Phase.BUILD), ChildMessage(Phase.STEPS), result]


@pytest.mark.parametrize(
    "line",
    [
        *(b"a line of nobody's", b"\xff\xfe", b"[1]", b'"phase"', b'{"phase": 3}', b"{}", b""),
        *(b'{"phase": "lunch"}', b'{"result": []}', b'{"result": {"facts": {"a": NaN}}}'),
        *(b'{"result": {"status": "fine"}}', b'{"result": {"steps": 3}}'),
        b'{"result": {"phases": {"build": {"seconds": "soon"}}}}',
        b'{"result": {"allocations": {"total_bytes": 1}}}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_unreadable(line: bytes) -> None:
    with pytest.raises(Unreadable):
        list(LineReader().feed(line + b"\n"))


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_LONGEST_LINE", 100)
    reader = LineReader()
    assert list(reader.feed(b"x" * 100)) == []
    with pytest.raises(Unreadable, match="without an end"):
        list(reader.feed(b"x"))


def test_a_channel_is_out_of_reach_and_loses_nothing() -> None:
    ours, theirs = os.pipe()
    channel = Channel(theirs)
    assert channel._descriptor >= 1024
    said = ChildMessage(result=TrialResult(reason="é", is_alone=True))
    channel.send(ChildMessage(Phase.STEPS))
    channel.send(said)
    os.close(channel._descriptor)
    found = list(LineReader().feed(os.read(ours, 1000)))
    os.close(ours)
    assert found == [ChildMessage(Phase.STEPS), said]


def test_a_task_is_read_as_it_was_written() -> None:
    task = Task("a.b:c", b"work", "/scratch", (1, 2), "/folder", ("", "/x\udcff"), ("a", "b"))
    assert protocol.read_task(protocol.write_task(task)) == task


@pytest.mark.parametrize(
    ("end", "status", "says"),
    [
        (Ended(-60), Status.KILLED, "ended by signal 60"),
        (Ended(3), Status.FAILED, "exit code 3"),
        (Unreadable("a line without an end"), Status.FAILED, "a line without an end"),
    ],
)
def test_an_end_without_a_result_says_what_it_was(end: ends.End, status: Status, says: str) -> None:
    trial = ends.make_trial(TrialSpec(NOTHING, "memory", 2), None, end)
    assert (trial.kind, trial.index, trial.outcome.status) == ("memory", 2, status)
    assert says in (trial.outcome.reason or "")
