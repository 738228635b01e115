"""What the kernel counts as killed for want of memory, as its files say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.processes import cgroup

OF_TWO = "low 0\noom 2\noom_kill 7\noom_group_kill 0\n"
OF_ONE = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"


@pytest.mark.parametrize(
    ("membership", "file", "text", "kills"),
    [
        ("0::/user.slice/a:b", "user.slice/a:b/memory.events", OF_TWO, 7),
        ("0::/docker/1", "memory.events", OF_TWO, 7),
        ("5:cpu,memory:/job\n0::/", "memory/job/memory.oom_control", OF_ONE, 7),
        ("5:memory:/docker/1", "memory/memory.oom_control", OF_ONE, 7),
        ("5:cpu:/job", "memory/job/memory.oom_control", OF_ONE, 0),
        ("0::/", "memory.events", "low 0\n", 0),
        ("0::/", "elsewhere", "", 0),
        ("", "memory.events", OF_TWO, 0),
    ],
)
def test_kills_are_read_of_either_version(
    membership: str,
    file: str,
    text: str,
    kills: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "membership").write_text(f"{membership}\n" if membership else "")
    (tmp_path / "root" / file).parent.mkdir(parents=True)
    (tmp_path / "root" / file).write_text(text)
    monkeypatch.setattr(cgroup, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(cgroup, "ROOT", tmp_path / "root")
    assert cgroup.count_kills() == kills


def test_a_kernel_that_says_nothing_counts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "MEMBERSHIP", tmp_path / "none")
    assert cgroup.count_kills() == 0
