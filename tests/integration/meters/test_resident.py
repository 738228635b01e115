"""The kernel's high-water mark, against mappings of known size, on whichever CPU they are made."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import statistics
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.config import Device
from runner.meters.host import floor, resident
from runner.meters.host.malloc import MallocLog
from runner.meters.host.resident import HostMemory
from runner.processes import mallocs

PAGE = 4096
STAY: Callable[[], None] = lambda: None  # noqa: E731


@pytest.fixture
def move() -> Iterator[Callable[[], None]]:
    """Go on, on another CPU."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("it takes two CPUs")

    def to_another() -> None:
        here = ctypes.CDLL(None).sched_getcpu()
        os.sched_setaffinity(0, {min(allowed - {here})})

    yield to_another
    os.sched_setaffinity(0, allowed)


def off_by(pages: int, before: Callable[[], None], amid: Callable[[], None]) -> float:
    """Pages by which the mark is off: of looks in processes that begin differently, the median."""
    return statistics.median(seen(number, pages, before, amid) for number in range(9))


def seen(number: int, pages: int, before: Callable[[], None], amid: Callable[[], None]) -> float:
    """In one such process: how many pages more than there were."""
    meter = HostMemory(number)
    meter.forget()
    resident = meter.anonymous()
    before()
    with mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapped:
        for page in range(pages):
            mapped[page * PAGE] = 1
            if page == pages // 2:
                amid()
    return (meter.peak(meter.read()) - resident) / PAGE - pages


@pytest.fixture(params=["new", "before 5.14"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "new":
        monkeypatch.setattr(resident, "_POPULATE", 9_999)  # refused, as one that it doesn't know


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("pages", [40, 200, 490])
def test_a_peak_that_is_gone_at_once_is_seen_within_16_pages(
    pages: int, move: Callable[[], None]
) -> None:
    assert abs(off_by(pages, STAY, STAY)) <= 16
    assert abs(off_by(pages, move, STAY)) <= 16
    assert abs(off_by(pages, STAY, move)) <= 16


def test_what_another_cpu_keeps_back_of_files_pages_too_is_told(move: Callable[[], None]) -> None:
    kept = []

    def elsewhere(pages: int, kind: int) -> None:
        move()
        kept.append(mmap.mmap(-1, pages * PAGE, flags=kind | mmap.MAP_ANONYMOUS))
        for page in range(pages):
            kept[-1][page * PAGE] = 1
        move()

    for own, files in itertools.product(range(1, 62, 6), repeat=2):
        found = []
        for number in range(3):
            elsewhere(own, mmap.MAP_PRIVATE)
            elsewhere(files, mmap.MAP_SHARED)
            found.append(seen(number, 200, STAY, STAY))
        assert abs(statistics.median(found)) <= 16, (own, files)


def test_what_the_meter_holds_itself_is_in_no_figure() -> None:
    meter = HostMemory()
    before = meter.anonymous()
    meter.forget()
    assert abs(meter.anonymous() - before) <= 4 * PAGE
    assert meter.read().anonymous == meter.anonymous()
    resident = meter.read()
    assert meter.peak(resident) == pytest.approx(resident.anonymous, abs=16 * PAGE)


def write_pages(mapped: mmap.mmap, pages: int) -> None:
    for page in range(pages):
        mapped[page * PAGE] = 1


def write_shared_memory(pages: int, folder: Path) -> mmap.mmap:
    mapped = mmap.mmap(-1, pages * PAGE)
    write_pages(mapped, pages)
    return mapped


def write_file(pages: int, folder: Path) -> mmap.mmap:
    with (folder / f"{pages}.bin").open("w+b") as file:
        file.truncate(pages * PAGE)
        mapped = mmap.mmap(file.fileno(), pages * PAGE)
    write_pages(mapped, pages)
    return mapped


def read_file(pages: int, folder: Path) -> mmap.mmap:
    path = folder / f"{pages}.read"
    with path.open("wb") as file:
        for _ in range(pages):
            file.write(b"x" * PAGE)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert all(mapped[page * PAGE] == ord("x") for page in range(pages))
    return mapped


Filling = Callable[[int, Path], mmap.mmap]


@pytest.mark.parametrize(
    ("fill", "counted"), [(write_shared_memory, 1), (write_file, 1), (read_file, 0)]
)
def test_shared_memory_and_written_files_are_counted_and_read_ones_not(
    fill: Filling, counted: int, tmp_path: Path
) -> None:
    meter = HostMemory()
    before = meter.anonymous()
    kept = fill(1000, tmp_path)
    assert meter.anonymous() - before == pytest.approx(counted * 1000 * PAGE, abs=64 * PAGE)
    assert meter.read().anonymous == pytest.approx(meter.anonymous(), abs=16 * PAGE)
    kept.close()
    assert meter.anonymous() - before == pytest.approx(0, abs=64 * PAGE)


@pytest.mark.parametrize("fill", [write_shared_memory, write_file])
def test_a_peak_holds_what_is_shared_too(fill: Filling, tmp_path: Path) -> None:
    meter = HostMemory()
    meter.forget()
    before = meter.anonymous()
    kept = fill(1000, tmp_path)
    assert meter.peak(meter.read()) - before == pytest.approx(1000 * PAGE, abs=64 * PAGE)
    kept.close()


class Cycle:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self
        self.state = bytearray(5000)


@pytest.fixture
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("eager_collector")
def test_lowering_the_floor_does_not_set_the_collector_off() -> None:
    garbage = weakref.ref(Cycle())
    floor.lower(HostMemory().anonymous)
    assert garbage() is not None


def test_what_the_collector_frees_is_read_off_malloc_s_books() -> None:
    gc.collect()  # what other tests have left
    books = MallocLog()
    books.note(0)
    for _ in range(100):
        Cycle()
    books.begin_collection()
    gc.collect()
    books.end_collection()
    told = books.to_facts()
    assert told is not None
    assert told.collected_bytes == pytest.approx(100 * 5016, rel=0.05)


LOWERED = """
from runner.meters.host import floor, resident
from runner.meters.host.resident import HostMemory
host = HostMemory()
floor.lower(host.anonymous)
# here
lowered = floor.lower(host.anonymous)
print(lowered.taken_bytes - lowered.moved_bytes)
"""


def lowered(malloc: str, before: str = "") -> subprocess.CompletedProcess[str]:
    device = Device("cpu", 0, None, None, None, malloc=malloc)
    return subprocess.run(
        [sys.executable, "-c", LOWERED.replace("# here", before)],
        env={**os.environ, **mallocs.find_variables(device)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("malloc", ["default", "jemalloc", "tcmalloc"])
def test_a_floor_that_was_lowered_has_nothing_free_left_whichever_malloc(malloc: str) -> None:
    assert int(lowered(malloc).stdout) < 200_000


LIMIT = """
import resource
from pathlib import Path
data = Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]
limit = 1024 * (limit + int(data))
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
"""


@pytest.mark.parametrize("kilobytes_left", [0, 300, 1000])
@pytest.mark.parametrize("malloc", ["default", "jemalloc", "tcmalloc"])
def test_where_no_memory_is_left_lowering_the_floor_crashes_nothing(
    malloc: str, kilobytes_left: int
) -> None:
    ran = lowered(malloc, before=f"limit = {kilobytes_left}{LIMIT}")
    # 120: Python has run, and has no memory left to write its output at the end.
    assert ran.returncode == 0 or (ran.returncode in (1, 120) and "MemoryError" in ran.stderr)
