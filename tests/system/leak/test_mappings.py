"""Memory that is not anonymous grows, too; what else is held, and settings that keep garbage, are
said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.leak.findings import Leak
from runner.processes.server import TrialServer
from tests.integration.leak import planted_mappings
from tests.system.leak.test_planted import sought

Seek = Callable[[str], Leak]


@pytest.fixture
def seek(server: TrialServer, tmp_path: Path) -> Seek:
    def seek(name: str) -> Leak:
        return sought(server, name, tmp_path, planted_mappings.__name__)

    return seek


def test_every_kind_of_mapping_grows_by_its_bytes_at_its_line(seek: Seek) -> None:
    leak = seek("map_all")
    kilobytes = {
        "anonymous": (64, "/dev/zero"),
        "shared": (32, "/dev/shm/"),
        "a file a step": (128, ".bin and "),
        "a file that was there": (16, "filled.bin"),
    }
    assert leak.verdict == "grows", leak.sentence
    told = {holder.what: holder for holder in leak.holders}
    for kind, (size, name) in kilobytes.items():
        (holder,) = [holder for what, holder in told.items() if name in what]
        assert holder.kind == "native"
        assert holder.is_held == (holder.file is not None), holder
        assert holder.bytes_per_step == pytest.approx(size * 1024, rel=0.1), kind
        assert (holder.file is None) == (kind == "a file that was there"), holder
    whole = 1024 * sum(size for size, _ in kilobytes.values())
    assert leak.explained_bytes_per_step == pytest.approx(whole, rel=0.1)
    assert any("3 files a step stay open" in note for note in leak.notes), leak.notes


def test_what_is_only_read_or_written_again_does_not_grow(seek: Seek) -> None:
    leak = seek("read_all")
    assert leak.verdict == "flat", leak.sentence
    assert not [holder for holder in leak.holders if holder.kind != "malloc"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("open_files", "1 file a step stays open, the last one /dev/null; the limit of "),
     ("start_threads", "1 thread a step stays")],
)  # fmt: skip
def test_what_stays_open_is_said(seek: Seek, name: str, said: str) -> None:
    assert any(note.startswith(said) for note in seek(name).notes)


@pytest.mark.parametrize(
    ("name", "setting"),
    [("disable_collector", "gc.disable()"), ("set_no_threshold", "gc.set_threshold(0)")],
)
def test_garbage_that_nobody_collects_grows_and_says_why(
    seek: Seek, name: str, setting: str
) -> None:
    leak = seek(name)
    assert leak.verdict == "grows", leak.sentence
    assert leak.host_growth_bytes_per_step == pytest.approx(40_000, rel=0.1)
    assert leak.holders[0].chain == (f"garbage, as Python's collector is off: {setting}",)
    assert leak.holders[0].is_held
    assert any(note.endswith(setting) for note in leak.notes)


def test_garbage_that_is_collected_does_not_grow(seek: Seek) -> None:
    leak = seek("collect_cycles")
    assert leak.verdict == "flat", leak.sentence
    assert not [note for note in leak.notes if "collector" in note]
