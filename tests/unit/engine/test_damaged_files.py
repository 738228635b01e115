"""A sweep that goes on where files were exchanged, damaged, or written by a newer version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas
import pytest

from runner import records
from runner.cell import Plan
from runner.compose import composition
from runner.errors import BadInput
from runner.records import RECORD_FILE, TRIALS_FILE, Status
from runner.render import html
from runner.render.files import table
from tests.unit.engine.conftest import Recorder, run_plan


def planned() -> Plan:
    words = ("scenario=tensor_per_step", "seed=1,2", "tracking=none", "measure.side_by_side=1")
    return composition.compose_plan(["-m", *words])


def test_trials_of_two_cells_that_were_exchanged_are_refused(folder: Path) -> None:
    run_plan(planned(), folder, Recorder())
    one, two = (folder / name / TRIALS_FILE for name in "01")
    shutil.move(one, folder / "kept")
    shutil.move(two, one)
    shutil.move(folder / "kept", two)
    with pytest.raises(BadInput, match="line 1 is a trial of another cell") as refused:
        run_plan(planned(), folder, Recorder())
    assert "measured anew" in refused.value.remedy


@pytest.mark.parametrize("text", ["", "{", '{"schema": 2}'])
def test_an_unreadable_record_marks_its_cell_alone(folder: Path, text: str) -> None:
    run_plan(planned(), folder, Recorder())
    damaged = folder / "1" / RECORD_FILE
    damaged.write_text(text)
    server = Recorder()
    result = run_plan(planned(), folder, server)
    assert [outcome.status for outcome in result.outcomes] == [Status.COMPLETED, Status.FAILED]
    assert "measured anew" in str(result.outcomes[1].reason)
    assert (server.asked, damaged.read_text()) == ([], text)

    assert "can't be read" in html.write_page(folder).read_text()
    table.write_csv(table.load(folder), folder)
    assert list(pandas.read_csv(folder / table.CSV_FILE).status) == ["completed", "unreadable"]

    for name in (RECORD_FILE, TRIALS_FILE):
        (folder / "1" / name).unlink()
    assert run_plan(planned(), folder, server).exit_code == 0
    assert server.asked
    assert records.read(folder / "1").outcome.completed
