"""What is kept: whole or not at all, and the same when read again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from runner import records, schema
from runner.config import Spec
from runner.errors import BadInput
from runner.facts import PhaseFigures, StepSeries
from runner.records import COMPLETED, Outcome, Phase, Record, Status, Trial
from tests.factories import DEVICE, ENVIRONMENT, MEASURE


def a_trial(index: int = 0) -> Trial:
    phases = {Phase.BUILD: PhaseFigures(seconds=0.5)}
    return Trial("timing", index, COMPLETED, phases, StepSeries(seconds=(0.1, 0.2)))


def a_record() -> Record:
    spec = Spec("while_loop", "scenarios.loops", {}, "graph", DEVICE, 32, 0, MEASURE)
    return Record(
        id="2026-11-18-10-00-00-abcd",
        cell=spec.cell,
        started_at="2026-11-18T10:00:00.000+00:00",
        spec=spec,
        outcome=Outcome(Status.FAILED, "build", "ValueError: no"),
        metrics={"tensor_peak_bytes": 1, "host_peak_bytes": None},
        unavailable={"host_peak_bytes": "no such kernel"},
        intervals={"tensor_peak_bytes": (1, 2)},
        trials=(a_trial(),),
        allocations=None,
        environment=ENVIRONMENT,
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
    with pytest.raises(ValueError, match="is not a number"):
        records.write(bad, tmp_path)
    assert records.read(tmp_path) == a_record()


def test_trials_are_read_back_without_the_line_that_a_kill_cut_short(tmp_path: Path) -> None:
    records.append_trial(a_trial(0), tmp_path, "one")
    records.append_trial(a_trial(1), tmp_path, "one")
    with (tmp_path / records.TRIALS_FILE).open("a") as file:
        file.write('{"kind": "timing", "ind')
    assert [trial.index for trial in records.read_trials(tmp_path)] == [0, 1]


def test_a_trial_after_a_cut_line_is_not_lost(tmp_path: Path) -> None:
    records.append_trial(a_trial(0), tmp_path, "one")
    with (tmp_path / records.TRIALS_FILE).open("a") as file:
        file.write('{"kind": "timing", "ind')
    records.append_trial(a_trial(1), tmp_path, "one")
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


OLD = sorted(Path(__file__).with_name("old_records").iterdir())
"""Written by the version before msgspec, 4082193."""


GONE = {"launcher", "in_rounds", "allocated_peak_bytes", "trace_events", "unmatched_free_bytes"}
"""Fields that nobody read, and that are written no more."""


def without_gone_fields(value: Any) -> Any:
    if isinstance(value, list):
        return [without_gone_fields(item) for item in value]
    if isinstance(value, dict):
        kept = value.keys() - GONE
        return {key: without_gone_fields(item) for key, item in value.items() if key in kept}
    return value


@pytest.mark.parametrize("folder", OLD, ids=lambda folder: folder.name)
def test_an_older_record_opens_and_would_be_written_the_same(folder: Path) -> None:
    then = without_gone_fields(json.loads((folder / records.RECORD_FILE).read_text()))
    now = json.loads(schema.encode_indented(records.read(folder)))
    assert now == {**then, "cell": records.read(folder).spec.cell}  # which counted the trials
    assert list(now) == list(then)


@pytest.mark.parametrize("folder", OLD, ids=lambda folder: folder.name)
def test_a_brief_record_is_the_record_without_what_is_most_of_it(folder: Path) -> None:
    whole = records.read(folder)
    assert records.read_brief(folder) == dataclasses.replace(whole, trials=(), allocations=None)


def test_older_trials_open() -> None:
    (trial,) = records.read_trials(Path(__file__).with_name("old_records") / "out_of_memory")
    assert trial.outcome.status is Status.OUT_OF_MEMORY
    assert trial.allocations


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("outcome", "status"), "fine", "outcome.status: Invalid enum value 'fine'"),
        (("spec", "batch_size"), 0, "spec.batch_size: Expected int >= 1"),
        (("spec", "batch_size"), True, "spec.batch_size: Expected int, got bool"),
        (("metrics", "step_seconds"), 1e308, "Expected float <= 1e+300"),
        (("metrics", "step_seconds"), 10**30, "Expected int <= "),
        (("metrics", "step_seconds"), "NaN", "Expected int | float | null, got str"),
        (("intervals", "step_seconds"), [1], "Expected array of length 2"),
        (("started_at",), "yesterday", "Invalid isoformat string"),
        (("allocations", "total_bytes"), -(2**70), "allocations.total_bytes: Expected int >= "),
        (("allocations", "curve", "bytes"), [], "a curve has not as many times as sizes"),
    ],
)
def test_what_is_wrong_in_a_record_is_named(
    tmp_path: Path, place: tuple[str, ...], value: object, words: str
) -> None:
    data = json.loads((OLD[0] / records.RECORD_FILE).read_text())
    inner = data
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    (tmp_path / records.RECORD_FILE).write_text(json.dumps(data))
    with pytest.raises(BadInput) as refused:
        records.read(tmp_path)
    assert words in refused.value.problem


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "[" * 9999])
def test_what_no_json_holds_is_refused(tmp_path: Path, value: str) -> None:
    text = (OLD[0] / records.RECORD_FILE).read_text()
    (tmp_path / records.RECORD_FILE).write_text(text.replace('"seed": 0', f'"seed": {value}', 1))
    with pytest.raises(BadInput, match="is not a valid record"):
        records.read(tmp_path)


def test_a_name_that_is_no_text_is_kept_as_its_code(tmp_path: Path) -> None:
    outcome = Outcome(Status.FAILED, None, "in caf\udce9.py")
    records.append_trial(Trial("timing", 0, outcome), tmp_path, "one")
    (trial,) = records.read_trials(tmp_path)
    assert trial.outcome.reason == "in caf\\udce9.py"
    older = json.dumps({"kind": "timing", "index": 0, "outcome": dataclasses.asdict(outcome)})
    (tmp_path / records.TRIALS_FILE).write_text(older + "\n")
    assert next(records.read_trials(tmp_path)) == trial


def test_a_record_is_ascii_whatever_it_says(tmp_path: Path) -> None:
    outcome = Outcome(Status.FAILED, None, "größer \u202e 漢 \N{GRINNING FACE}")
    path = records.write(dataclasses.replace(a_record(), outcome=outcome), tmp_path)
    assert path.read_bytes().isascii()
    assert records.read(tmp_path).outcome == outcome


def test_a_trial_of_another_cell_is_refused(tmp_path: Path) -> None:
    records.append_trial(a_trial(0), tmp_path, "one")
    assert list(records.read_trials(tmp_path, "one")) == [a_trial(0)]
    assert list(records.read_trials(tmp_path)) == [a_trial(0)]
    with pytest.raises(BadInput, match=r"line 1 is a trial of another cell \(one, not other"):
        list(records.read_trials(tmp_path, "other"))


def test_older_lines_that_name_no_cell_are_anybody_s(tmp_path: Path) -> None:
    line = schema.encode(a_trial(0))
    assert b'"cell"' not in line
    (tmp_path / records.TRIALS_FILE).write_bytes(line + b"\n")
    assert list(records.read_trials(tmp_path, "other")) == [a_trial(0)]


def test_a_record_s_trials_do_not_name_it_again(tmp_path: Path) -> None:
    records.append_trial(a_trial(0), tmp_path, "one")
    (trial,) = records.read_trials(tmp_path)
    record = dataclasses.replace(a_record(), trials=(trial,))
    written = json.loads(records.write(record, tmp_path).read_text())
    assert "cell" not in written["trials"][0]


@pytest.mark.parametrize("text", ["", "{", '{"schema": 2}'])
def test_one_damaged_record_hides_no_other_cell(tmp_path: Path, text: str) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        records.write(a_record(), tmp_path / name)
    (tmp_path / "2" / records.RECORD_FILE).write_text(text)
    found, (unreadable,) = records.read_each(records.find(tmp_path))
    assert found == [(tmp_path / "1", a_record())]
    assert unreadable.folder == tmp_path / "2"
    assert "measured anew" in unreadable.sentence
    with pytest.raises(BadInput):
        records.read_each([tmp_path / "2"])
