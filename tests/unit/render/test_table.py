"""Tables: a row a cell, a column a parameter and a metric, nothing invented, quickly."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runner
from runner import records
from runner.allocations import Allocations
from runner.errors import BadInput
from runner.metrics import METRICS
from runner.records import Record, Status, SweepPlace
from runner.render.files import table
from tests.factories import (
    ENVIRONMENT,
    completed,
    failed,
    kept,
    measured,
    memory_trial,
    sweep_of_nine,
)

SWEEP = "2025-01-01-13-00-00-ab12"


@pytest.fixture
def nine(tmp_path: Path) -> Path:
    """A sweep's folder: nine cells, one of them out of memory."""
    folder = tmp_path / "nine"
    for number, record in enumerate(sweep_of_nine()):
        kept(record, folder / str(number))
    return folder


def write_both(folder: Path) -> None:
    frame = table.load(folder)
    table.write_csv(frame, folder)
    table.write_parquet(frame, folder)


def make_frame(tmp_path: Path, *found: Record) -> pandas.DataFrame:
    for number, record in enumerate(found):
        kept(record, tmp_path / "cells" / str(number))
    return runner.load(tmp_path / "cells")


def test_a_cell_is_a_row_in_the_order_of_the_plan(nine: Path) -> None:
    write_both(nine)
    frame = pandas.read_csv(nine / "table.csv")
    ways = ("python_loop", "while_loop", "numpy_loop")
    assert list(frame.scenario) == [way for way in ways for _ in range(3)]
    assert list(frame.batch_size) == [32, 128, 512] * 3
    assert frame.status.value_counts().to_dict() == {"completed": 8, "out_of_memory": 1}


def test_the_columns_are_outcome_parameters_metrics_and_settings(nine: Path) -> None:
    names = list(runner.load(nine).columns)
    record = records.read(nine / "0")
    assert names[:3] == ["cell", "status", "reason"]
    for group in (
        ["scenario", "iterations", "size", "gradient", "execution", "device", "batch_size", "seed"],
        [name for name in METRICS if name in record.metrics],
        ["step_seconds", "step_seconds_low", "step_seconds_high"],
        ["device.index", "device.memory_limit_mb", "measure.timing_processes"],
    ):
        places = [names.index(name) for name in group]
        assert places == sorted(places)
    assert names.index("seed") < names.index("tensor_peak_bytes") < names.index("device.index")
    assert "sweep" not in names, "there is but one"


def test_values_are_those_of_the_record_and_what_is_unknown_is_missing(nine: Path) -> None:
    frame = runner.load(nine)
    for number, row in frame.iterrows():
        record = records.read(nine / str(number))
        assert row.cell == record.cell
        for name, value in record.metrics.items():
            assert pandas.isna(row[name]) if value is None else row[name] == value
        for name, (low, high) in record.intervals.items():
            assert (row[f"{name}_low"], row[f"{name}_high"]) == (low, high)
    assert frame.host_growth_bytes_per_step.isna().all()
    assert frame.tensor_peak_bytes.isna().tolist() == [number == 2 for number in range(9)]
    assert frame.reason.isna().tolist() == [number != 2 for number in range(9)]


def test_bytes_stay_whole_numbers_though_some_are_missing(nine: Path) -> None:
    write_both(nine)
    frame = pandas.read_parquet(nine / "table.parquet")
    assert str(frame.tensor_peak_bytes.dtype) == "Int64"
    assert str(frame.step_seconds.dtype) == "float64"
    fields = (nine / "table.csv").read_text().splitlines()[1].split(",")
    assert str(records.read(nine / "0").metrics["tensor_peak_bytes"]) in fields


def test_the_files_hold_what_load_gives(nine: Path) -> None:
    write_both(nine)
    frame = runner.load(nine)
    pandas.testing.assert_frame_equal(frame, pandas.read_parquet(nine / "table.parquet"))
    again = pandas.read_csv(nine / "table.csv")
    assert list(again.columns) == list(frame.columns)
    assert len((nine / "table.csv").read_text().splitlines()) == 10, "a row is a line"
    assert not list(nine.glob(".*")), "nothing half-written stays"


def test_several_sweeps_and_runs_make_one_frame_that_says_which_is_which(
    nine: Path, tmp_path: Path
) -> None:
    kept(completed("2025-01-02-10-00-00-aaaa"), tmp_path / "run")
    frame = runner.load(nine, str(tmp_path / "run"))
    assert list(frame.sweep) == [SWEEP] * 9 + ["2025-01-02-10-00-00-aaaa"]
    assert len(runner.load(tmp_path)) == 10
    assert len(runner.load(nine, nine / "3", nine / "3" / "record.json")) == 9, "each once"


def test_a_parameter_only_some_scenarios_have_is_missing_elsewhere(tmp_path: Path) -> None:
    one, other = completed(), completed(scenario="large_tensor", keep_previous=True)
    frame = make_frame(tmp_path, one, other)
    assert frame.keep_previous.isna().tolist() == [True, False]
    assert bool(frame.keep_previous[1]) is True


def test_each_argument_of_the_user_s_is_a_column(tmp_path: Path) -> None:
    cells = (completed(arguments={"width": width}, batch_size=width) for width in (64, 256))
    assert list(make_frame(tmp_path, *cells)["arguments.width"]) == [64, 256]


def test_a_column_of_several_types_is_text_as_one_types_it(tmp_path: Path) -> None:
    values: list[Any] = [32, "auto", True, [1, 2], None]
    frame = make_frame(tmp_path, *(completed(thing=value) for value in values))
    assert frame.thing.tolist()[:4] == ["32", "auto", "true", "[1, 2]"]
    assert pandas.isna(frame.thing[4])
    write_both(tmp_path / "cells")


def test_a_parameter_that_is_called_like_another_column_keeps_its_prefix(tmp_path: Path) -> None:
    record = completed(status="x", seed=7, step_seconds_low="y")
    frame = make_frame(tmp_path, record)
    assert frame["scenario.status"][0] == "x"
    assert frame["scenario.seed"][0] == 7
    assert frame["scenario.step_seconds_low"][0] == "y"
    assert (frame.status[0], frame.seed[0]) == ("completed", 0)


def test_reasons_with_lines_and_quotes_are_one_field(tmp_path: Path) -> None:
    record = failed(reason='He said "no",\n\n  in two lines; and ünïcode')
    make_frame(tmp_path, record)
    write_both(tmp_path / "cells")
    frame = pandas.read_csv(tmp_path / "cells" / "table.csv")
    assert frame.reason[0] == 'He said "no", in two lines; and ünïcode'


def test_a_sweep_in_which_nothing_was_measured_has_a_table_too(tmp_path: Path) -> None:
    never = dataclasses.replace(
        failed(status=Status.INTERRUPTED, reason="stopped by SIGINT"), metrics={}, trials=()
    )
    frame = make_frame(tmp_path, never, never)
    write_both(tmp_path / "cells")
    assert list(frame.status) == ["interrupted"] * 2


def test_what_is_no_folder_of_records_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere: can't be read"):
        runner.load(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="no folder is named"):
        runner.load()
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(BadInput, match="is not a valid record"):
        runner.load(tmp_path)


# The shortcut past a record's trials.


def test_a_record_read_without_its_trials_is_the_record_without_its_trials(tmp_path: Path) -> None:
    record = measured(memory_trial(), memory_trial(index=1), sweep=SweepPlace("s", 0, {}))
    folder = kept(record, tmp_path / "one")
    whole = records.read(folder)
    assert records.read_brief(folder) == dataclasses.replace(whole, trials=(), allocations=None)


@settings(max_examples=100)
@given(reason=st.text(), key=st.text(), value=st.text())
def test_no_text_in_a_record_misleads_the_shortcut(reason: str, key: str, value: str) -> None:
    for text in (reason, '\n "trials": [', '\n "environment": {', '"trials": ['):
        record = dataclasses.replace(
            failed(reason=text),
            environment=msgspec.structs.replace(
                ENVIRONMENT, versions={key: value, "\n": text, "trials": "", "environment": text}
            ),
            allocations=Allocations(0, text, None, (), allocators={"environment": 0, text: 1}),
        )
        with tempfile.TemporaryDirectory() as name:
            records.write(record, Path(name))
            brief = records.read_brief(Path(name))
        assert brief == dataclasses.replace(record, trials=(), allocations=None)


def test_a_record_that_another_tool_wrote_on_one_line_is_read_as_well(tmp_path: Path) -> None:
    folder = kept(completed(), tmp_path / "one")
    file = folder / "record.json"
    brief = records.read_brief(folder)
    file.write_text(json.dumps(json.loads(file.read_text()), sort_keys=True))
    assert records.read_brief(folder) == brief
    assert set(METRICS) >= set(brief.metrics)
