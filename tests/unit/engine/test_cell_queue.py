"""The queue hands each cell to one worker, and a journal is read as it is written."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

import pytest

from runner.engine.cluster.cell_queue import CellQueue, Journal, Message, Work


@pytest.fixture
def queue(tmp_path: Path) -> CellQueue:
    queue = CellQueue.create(Work(tmp_path, "ray", 0, ()))
    for number in (3, 1, 2, 0):
        queue.add(number)
    return queue


def other_side(queue: CellQueue) -> CellQueue:
    """Return the queue as another process sees it."""
    return CellQueue(queue.folder)


def test_a_worker_takes_all_in_their_order(queue: CellQueue) -> None:
    assert list(other_side(queue).take("a")) == [3, 1, 2, 0]
    assert queue.count_unclaimed() == 0
    assert queue.list_claims("a") == [3, 1, 2, 0]


def test_workers_share_what_there_is(queue: CellQueue) -> None:
    a, b = other_side(queue).take("a"), other_side(queue).take("b")
    assert [next(a), next(b), next(b)] == [3, 1, 2]
    assert queue.count_unclaimed() == 1
    assert list(a) == [0]
    assert list(b) == []
    assert queue.list_claims("b") == [1, 2]


def test_of_many_at_once_each_cell_has_one_worker(queue: CellQueue) -> None:
    for _ in range(200):
        queue.add(5)
    taken: list[tuple[str, int]] = []
    ready = Barrier(8)

    def take(name: str) -> None:
        ready.wait()
        taken.extend((name, number) for number in other_side(queue).take(name))

    threads = [Thread(target=take, args=(str(each),)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 204


def test_a_lost_cell_is_taken_by_whoever_finishes_first(queue: CellQueue) -> None:
    a = other_side(queue).take("a")
    assert [next(a) for _ in range(4)] == [3, 1, 2, 0]
    queue.add(1)
    assert list(a) == [1]


def test_from_a_closed_queue_nothing_is_taken(queue: CellQueue) -> None:
    taking = other_side(queue).take("a")
    next(taking)
    queue.close()
    assert list(taking) == []


def test_a_new_queue_closes_the_older_ones(queue: CellQueue) -> None:
    taking = other_side(queue).take("a")
    next(taking)
    newer = CellQueue.create(queue.read_work())
    assert newer.folder != queue.folder
    assert list(taking) == []


def test_half_a_line_is_not_read_yet(queue: CellQueue) -> None:
    with (queue.folder / "order").open("a") as file:
        file.write("1")
    assert list(other_side(queue).take("a")) == [3, 1, 2, 0]


def test_a_journal_is_read_from_where_it_was(tmp_path: Path) -> None:
    writer, reader = Journal(tmp_path / "a"), Journal(tmp_path / "a")
    assert reader.read() == []
    took, failed = Message("took", 3), Message("failed", why="no room\nleft")
    writer.write(took)
    assert reader.read() == [took]
    writer.write(failed)
    with (tmp_path / "a" / "journal").open("a") as file:
        file.write('{"kind": "en')
    assert reader.read() == [failed]
    assert reader.read() == []
