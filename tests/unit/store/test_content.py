"""What MLflow is told about a record."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from runner.metrics import METRICS
from runner.records import Outcome, Record, Status, SweepPlace
from runner.store.content import (
    FIRST_SCREEN,
    LONGEST_TAG,
    SERIES_POINTS,
    MetricPoint,
    describe_record,
    list_artifacts,
    name_metric,
    name_run,
)
from tests.factories import completed, failed, sweep_of_nine

HERE = Path("outputs/runs/1")


def points(record: Record, name: str) -> list[MetricPoint]:
    return [point for point in describe_record(record, HERE).points if point.name == name]


def value(record: Record, name: str) -> float:
    (point,) = points(record, name)
    return point.value


def test_exact_metrics_keep_their_names_and_every_digit() -> None:
    record = dataclasses.replace(completed(), metrics={"tensor_peak_bytes": 1_234_567_891})
    assert value(record, "tensor_peak_bytes") == 1_234_567_891


def test_only_the_first_screen_s_metrics_are_there_in_readable_units_too() -> None:
    metrics = {
        "tensor_live_bytes": 52_800,
        "tensor_peak_bytes": 1_234_567_891,
        "tensor_growth_bytes_per_step": 31_108,
        "step_seconds": 0.001234567,
        "graph_nodes": 57,
    }
    record = dataclasses.replace(completed(), metrics=metrics)
    readable = {"Peak_MB": 1235, "Step_ms": 1.235, "Growth_kB_per_step": 31.11}
    found = [point for point in describe_record(record, HERE).points if "/" not in point.name]
    assert [(point.name, point.value) for point in found] == [*(readable | metrics).items()]


def test_readable_metrics_stand_before_exact_ones_where_names_are_sorted() -> None:
    names = [name_metric(METRICS[name]) for name in FIRST_SCREEN]
    assert len(set(names)) == len(names)
    assert max(names) < min(METRICS)


def test_an_unknown_metric_is_left_out_and_the_note_says_why() -> None:
    record = completed()
    assert record.metrics["host_growth_bytes_per_step"] is None
    assert points(record, "host_growth_bytes_per_step") == []
    note = describe_record(record, HERE).tags["mlflow.note.content"]
    assert "`host_growth_bytes_per_step`: needs 200 steps" in note


def test_a_long_series_is_thinned_and_keeps_its_first_and_last_step() -> None:
    series = points(completed(), "steps/step_ms")
    assert len(series) == SERIES_POINTS
    assert [series[0].step, series[-1].step] == [0, 499]
    assert len({point.step for point in series}) == SERIES_POINTS


def test_a_short_series_is_whole() -> None:
    series = points(completed(), "steps/tensor_live_MB")
    assert [point.step for point in series] == [0, 1, 2, 3, 4]


def test_everything_fits_in_one_batch_of_mlflow() -> None:
    content = describe_record(completed(), HERE)
    assert len(content.points) + len(content.parameters) + len(content.tags) <= 1000
    assert len(content.parameters) <= 100


def test_a_run_s_name_says_what_ran() -> None:
    assert name_run(completed(execution="xla", batch_size=128)) == "while_loop xla batch=128"


def test_in_a_sweep_the_name_begins_with_what_varies() -> None:
    swept = {
        "scenario": "while_loop",
        "execution": "graph",
        "batch_size": "256",
        "seed": "1",
    }
    record = completed(batch_size=256, sweep=SweepPlace("s", 0, swept))
    record = dataclasses.replace(record, spec=dataclasses.replace(record.spec, seed=1))
    assert name_run(record) == "graph 256 s1 while_loop"


def test_a_name_says_what_its_sweep_did_not_vary_last() -> None:
    swept = {"scenario.size": "57", "device": "cpu", "change.jit": "true"}
    record = completed(size=57, sweep=SweepPlace("s", 0, swept))
    assert name_run(record) == "size=57 cpu jit=true while_loop graph"


def test_arguments_of_the_user_s_are_parameters_and_part_of_the_name() -> None:
    swept = {"scenario.arguments.width": "64"}
    record = completed(arguments={"width": 64}, sweep=SweepPlace("s", 0, swept))
    told = describe_record(record, Path())
    assert told.parameters["scenario.arguments.width"] == "64"
    assert told.name.startswith("width=64 ")


def test_every_name_in_a_sweep_differs() -> None:
    assert len({name_run(record) for record in sweep_of_nine()}) == 9


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.COMPLETED, "FINISHED"),
        (Status.INTERRUPTED, "KILLED"),
        (Status.FAILED, "FAILED"),
        (Status.OUT_OF_MEMORY, "FAILED"),
        (Status.TIMED_OUT, "FAILED"),
        (Status.KILLED, "FAILED"),
        (Status.UNSUPPORTED, "FAILED"),
    ],
)
def test_every_outcome_has_a_status_in_mlflow(status: Status, word: str) -> None:
    record = dataclasses.replace(completed(), outcome=Outcome(status, None, None))
    content = describe_record(record, HERE)
    assert content.status == word
    assert content.tags["status"] == status.value


def test_a_failure_s_reason_is_a_tag_and_stands_in_the_note() -> None:
    content = describe_record(failed(reason="boom in line 7"), HERE)
    assert content.tags["reason"] == "boom in line 7"
    assert content.tags["phase"] == "first_call"
    assert "boom in line 7" in content.tags["mlflow.note.content"]


def test_a_reason_can_neither_leave_its_place_in_the_note_nor_fill_it() -> None:
    reason = "~~~~~~\n# gotcha\n" + "x" * 100_000
    content = describe_record(failed(reason=reason), HERE)
    text = content.tags["mlflow.note.content"]
    assert len(content.tags["reason"]) == LONGEST_TAG
    assert text.count("~~~~~~~") == 2, "a fence longer than any in the reason"
    assert "python -m runner scenario=while_loop" in text


def test_parameters_go_by_the_words_that_people_type() -> None:
    parameters = describe_record(completed(size=57), HERE).parameters
    assert parameters["scenario.size"] == "57"
    assert parameters["scenario"] == "while_loop"
    assert parameters["device"] == "cpu"
    assert parameters["device.index"] == "0"
    assert parameters["measure"] == "quick"


def test_a_parameter_that_is_not_set_is_only_there_if_it_is_swept() -> None:
    assert "device.memory_limit_mb" not in describe_record(completed(), HERE).parameters
    place = SweepPlace("s", 0, {"device.memory_limit_mb": "null"})
    parameters = describe_record(completed(sweep=place), HERE).parameters
    assert parameters["device.memory_limit_mb"] == "null"


def test_a_run_lasts_as_long_as_its_phases_did() -> None:
    content = describe_record(completed(), HERE)
    phases = [figures for trial in completed().trials for figures in trial.phases.values()]
    seconds = sum(figures.seconds or 0.0 for figures in phases)
    assert content.ended_ms - content.started_ms == round(1000 * seconds)


def test_whatever_changes_in_the_record_changes_the_digest() -> None:
    record = completed()
    same = describe_record(record, HERE).digest
    assert describe_record(record, Path("elsewhere")).digest == same
    higher = dataclasses.replace(record, metrics={**record.metrics, "graph_nodes": 58})
    ended = dataclasses.replace(record, outcome=Outcome(Status.FAILED, "steps", "why"))
    shorter = dataclasses.replace(record, trials=record.trials[:-1])
    for changed in (higher, ended, shorter):
        assert describe_record(changed, HERE).digest != same


def test_the_known_files_of_a_folder_are_kept_and_no_others(tmp_path: Path) -> None:
    for name in ("record.json", "trials.jsonl", "config.yaml", "run.log", "report.html", "a.png"):
        (tmp_path / name).touch()
    for name in (".record.json.17", "core", "secret.key"):
        (tmp_path / name).touch()
    with (tmp_path / "huge.log").open("wb") as file:
        file.truncate(10**9)
    (tmp_path / "secret.key").write_text("hush")
    (tmp_path / "linked.log").symlink_to(tmp_path / "secret.key")
    kept = {path.name for path in list_artifacts(tmp_path)}
    assert kept == {"record.json", "trials.jsonl", "config.yaml", "run.log", "report.html", "a.png"}
