"""What can't be written is one sentence, and the rest is kept; no spreadsheet runs a text."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner import records
from runner.allocations import Allocations, Group
from runner.engine.events import MeasurementEnded, RecordWritten, Result
from runner.errors import ViewError
from runner.render.files.allocations import write_csv
from runner.render.listeners import RecordFilesListener, SweepFilesListener
from runner.sanitize import escape_csv, escape_markdown, is_formula, make_printable


@pytest.mark.parametrize("blocked", ["table.csv", "table.parquet", "report.html"])
def test_a_folder_in_a_file_s_place_is_one_sentence(blocked: str, sweep_folder: Path) -> None:
    (sweep_folder / blocked).mkdir()
    with pytest.raises(ViewError) as problem:
        SweepFilesListener().on(MeasurementEnded(sweep_folder, Result(sweep_folder, ())))
    assert f"{blocked} can't be written (Is a directory)." in problem.value.problem
    written = {each.name for each in sweep_folder.iterdir() if each.is_file()}
    assert written == {"table.csv", "table.parquet", "report.html"} - {blocked}


def test_a_record_s_files_are_kept_where_its_page_can_t_be_written(run_folder: Path) -> None:
    (run_folder / "report.html").mkdir()
    run = SimpleNamespace(folder=run_folder, get_record=lambda: records.read(run_folder))
    event = RecordWritten(cast(Any, run), is_new=True)
    with pytest.raises(ViewError, match=r"report\.html can't be written"):
        RecordFilesListener(has_page=True).on(event)
    assert (run_folder / "allocations.csv").is_file()
    assert not [each.name for each in run_folder.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|x", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1"])
def test_what_a_spreadsheet_would_run_is_text(text: str) -> None:
    assert is_formula(text)
    assert escape_csv(text).startswith("'")
    assert not is_formula(escape_markdown(text))


@pytest.mark.parametrize("text", ["-", "-1.5", "+3.2 kB", "-12 %", "plain", "-1e-05"])
def test_an_amount_is_no_formula(text: str) -> None:
    assert escape_csv(text) == text


def test_a_direction_mark_is_printable() -> None:
    assert make_printable("a\u200fb\u061cc\u202ed") == "a�b�c�d"


def test_the_table_of_allocations_holds_no_formula(run_folder: Path) -> None:
    group = Group('=HYPERLINK("x")', (2,), "float32", 1, 8, 1.0)
    found = Allocations(total_bytes=8, phase="steps", step=0, groups=(group,))
    (row,) = csv.DictReader(write_csv(dataclasses.replace(found)).splitlines())
    assert row["op"] == '\'=HYPERLINK("x")'
    assert row["bytes"] == "8"
