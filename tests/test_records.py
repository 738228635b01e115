"""What is kept: whole or not at all, and the same when read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import records
from runner.errors import BadInput
from runner.records import COMPLETED, Outcome, Record, Status, Trial


def a_trial(index: int = 0) -> Trial:
    return Trial("timing", index, COMPLETED, {"build": {"seconds": 0.5}}, {"seconds": [0.1, 0.2]})


def a_record() -> Record:
    return Record(
        id="2026-11-18-10-00-00-abcd",
        cell="0123456789abcdef",
        started_at="2026-11-18T10:00:00.000+00:00",
        spec={
            "scenario": "while_loop",
            "parameters": {},
            "execution": "graph",
            "device": {"kind": "cpu"},
            "batch_size": 32,
            "seed": 0,
            "measure": {"name": "quick"},
        },
        outcome=Outcome(Status.FAILED, "build", "ValueError: no"),
        metrics={"tensor_peak_bytes": 1, "host_peak_bytes": None},
        unavailable={"host_peak_bytes": "no such kernel"},
        intervals={"tensor_peak_bytes": (1, 2)},
        trials=(a_trial(),),
        allocations=None,
        environment={},
        fingerprint="ff",
    )


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    records.write(a_record(), tmp_path)
    assert records.read(tmp_path) == a_record()


def test_a_record_on_disk_says_its_schema_and_status_in_plain_words(tmp_path: Path) -> None:
    data = json.loads(records.write(a_record(), tmp_path).read_text())
    assert data["schema"] == 1
    assert data["outcome"] == {"status": "failed", "phase": "build", "reason": "ValueError: no"}


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    records.write(a_record(), tmp_path)
    bad = Record(**{**a_record().__dict__, "metrics": {"step_seconds": float("nan")}})
    with pytest.raises(ValueError, match="not JSON compliant"):
        records.write(bad, tmp_path)
    assert records.read(tmp_path) == a_record()


def test_trials_are_read_back_without_the_line_that_a_kill_cut_short(tmp_path: Path) -> None:
    records.append_trial(a_trial(0), tmp_path)
    records.append_trial(a_trial(1), tmp_path)
    with (tmp_path / records.TRIALS_FILE).open("a") as file:
        file.write('{"kind": "timing", "ind')
    assert [trial.index for trial in records.read_trials(tmp_path)] == [0, 1]


def test_a_trial_after_a_cut_line_is_not_lost(tmp_path: Path) -> None:
    records.append_trial(a_trial(0), tmp_path)
    with (tmp_path / records.TRIALS_FILE).open("a") as file:
        file.write('{"kind": "timing", "ind')
    records.append_trial(a_trial(1), tmp_path)
    assert [trial.index for trial in records.read_trials(tmp_path)] == [0, 1]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": 1}', "not json"])
def test_what_is_no_record_is_bad_input(tmp_path: Path, content: str) -> None:
    (tmp_path / records.RECORD_FILE).write_text(content)
    with pytest.raises(BadInput):
        records.read(tmp_path)


def test_a_record_of_another_schema_says_so(tmp_path: Path) -> None:
    path = records.write(a_record(), tmp_path)
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 99'))
    with pytest.raises(BadInput, match="schema 99"):
        records.read(tmp_path)


def test_the_records_below_a_sweep_come_in_the_order_of_its_cells(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        records.write(a_record(), folder)
    assert [folder.name for folder in records.find(tmp_path)] == ["1", "2", "10"]
