"""Files for other tools, and the verb: written whole, from the record alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from runner import records
from runner.commands import call
from runner.errors import BadInput
from runner.render import html
from runner.render.files.allocations import write_files
from tests.factories import completed, failed, kept
from tests.unit.render.known import PEAK_BYTES


def test_views_are_the_timeline_the_folded_stacks_and_the_table(run_folder: Path) -> None:
    timeline, folded, table = write_files(records.read(run_folder), run_folder)
    events = json.loads(timeline.read_text())["traceEvents"]
    assert max(e["args"]["bytes"] for e in events if e["ph"] == "C") == PEAK_BYTES
    sizes = [int(line.rpartition(" ")[2]) for line in folded.read_text().splitlines()]
    assert sum(sizes) == PEAK_BYTES
    assert [each.name for each in (timeline, folded, table)] == [
        "timeline.json", "allocations.folded", "allocations.csv",
    ]  # fmt: skip


def test_the_table_of_allocations_sums_to_the_peak(run_folder: Path) -> None:
    write_files(records.read(run_folder), run_folder)
    with (run_folder / "allocations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["bytes"]) for row in rows) == PEAK_BYTES
    assert rows[0] == {
        **{"file": "", "line": "", "code": ""},
        **{"op": "MatMul", "shape": "128x100", "dtype": "float32", "count": "100"},
        **{"bytes": "5120000", "share": "0.992247", "held_bytes": "0", "kept_bytes": "0"},
        **{"gradient_bytes": "", "passing_bytes": "5120000", "scopes": "model/a model/b"},
    }


def test_a_run_without_allocations_has_no_views(tmp_path: Path) -> None:
    folder = kept(failed(), tmp_path / "run")
    before = sorted(folder.iterdir())
    assert write_files(records.read(folder), folder) == []
    assert sorted(folder.iterdir()) == before


def test_a_record_with_nothing_but_the_contract_s_fields_has_its_table(tmp_path: Path) -> None:
    folder = kept(completed(), tmp_path / "run")
    assert [each.name for each in write_files(records.read(folder), folder)] == ["allocations.csv"]


def test_nothing_half_written_stays_behind(run_folder: Path) -> None:
    html.write_page(run_folder)
    write_files(records.read(run_folder), run_folder)
    assert [each.name for each in run_folder.iterdir() if each.name.startswith(".")] == []


# The verb.


def test_report_of_a_run_writes_its_views_too(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", [str(run_folder), "--json"]) == 0
    written = [Path(each) for each in json.loads(capsys.readouterr().out)]
    assert [each.name for each in written] == [
        *("report.html", "timeline.json", "allocations.folded", "allocations.csv"),
    ]
    assert all(each.exists() for each in written)


def test_a_record_s_file_names_its_run(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", [str(run_folder / "record.json")]) == 0
    assert "report.html" in capsys.readouterr().out
    assert (run_folder / "report.html").exists()


def test_the_peak_is_printed_in_the_terminal_and_nothing_is_written(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run_folder.iterdir())
    assert call("report", [str(run_folder), "--peak"]) == 0
    assert capsys.readouterr().out == (
        "python_loop · graph · batch 128\n"
        "5.16 MB at the peak, in step 1: held 40.0 kB · passing 5.12 MB\n"
        "Bytes kept for the gradient are counted among the others: an older version recorded "
        "this.\n"
        "\n"
        "op      shape      dtype    count    bytes                 share  "
        "layer or scope, most bytes first\n"
        "MatMul  128 x 100  float32    100  5.12 MB  (5,120,000)   99.2 %  model/a and 1 more\n"
        "Fill    100 x 100  float32      1  40.0 kB     (40,000)    0.8 %\n"
        "Const   scalar     float32      1      4 B          (4)  < 0.1 %\n"
        "sum                           102  5.16 MB  (5,160,004)    100 %\n"
        "\n"
    )
    assert sorted(run_folder.iterdir()) == before


def test_the_peaks_of_a_sweep_are_printed_cell_by_cell(
    sweep_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", [str(sweep_folder), "--peak"]) == 0
    out = capsys.readouterr().out
    assert "while_loop · batch 128\n194 kB at the peak, in step 2\n" in out
    assert (
        "python_loop · batch 512\nThis run ended early: out of memory in first_call.\n"
        "unknown: no memory trial completed\n"
    ) in out
    assert call("report", [str(sweep_folder), "--peak", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)
    found = [records.read(each).cell for each in records.find(sweep_folder)]
    assert [each["cell"] for each in cells] == found
    assert (
        cells[0]["allocations"]["total_bytes"]
        == cells[0]["allocations"]["groups"][0]["bytes"] + 40_000
    )


@pytest.mark.parametrize("words", [["/nowhere"], [], ["--nonsense", "x"]])
def test_bad_input_is_refused_in_one_message(words: list[str]) -> None:
    with pytest.raises(BadInput) as refused:
        call("report", words)
    assert refused.value.exit_code == 2
    assert refused.value.remedy


def test_a_folder_without_a_record_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"holds no record\.json"):
        call("report", [str(tmp_path)])
    assert list(tmp_path.iterdir()) == []
