"""A sweep's page: the answer first, then what it rests on, and what went wrong."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runner import records
from runner.allocations import Allocations
from runner.records import Record, Status, SweepPlace
from runner.render import html
from runner.render.conclusion import describe_sweep
from tests.factories import completed, failed, kept, sweep_of_nine
from tests.unit.render.known import PEAK, PEAK_BYTES, make_known_run
from tests.unit.render.pages import Element, parse_page


@pytest.fixture
def page(sweep_folder: Path) -> Element:
    return parse_page(html.write_page(sweep_folder).read_text())


def write_and_parse(cells: list[Record], folder: Path) -> Element:
    for number, record in enumerate(cells):
        kept(record, folder / str(number))
    return parse_page(html.write_page(folder).read_text())


def sweep_along(axis: str, sizes: list[int], **like: Any) -> list[Record]:
    """A sweep of one number."""
    return [
        completed(
            f"sweep-{number}",
            sweep=SweepPlace("sweep", number, {axis: str(size)}),
            **{axis.rpartition(".")[2]: size},
            **like,
        )
        for number, size in enumerate(sizes)
    ]


def give_own_cells(found: list[Record]) -> list[Record]:
    """Each its own cell, as different parameters make it."""
    return [dataclasses.replace(each, cell=f"cell {each.id}") for each in found]


def test_it_begins_with_what_each_swept_field_does(page: Element, sweep_folder: Path) -> None:
    cells = [records.read(folder) for folder in records.find(sweep_folder)]
    sentences = [each.text for each in page.all("p", class_="sentence")]
    assert " ".join(sentences) == describe_sweep(cells)
    assert sentences[0].startswith("Peak memory: python_loop needs ")
    assert sentences[-1] == "1 of 9 cells: out of memory in first_call."
    assert page.all("h1")[0].text == ("python_loop, while_loop, numpy_loop × batch 32, 128, 512")
    assert "9 cells: 8 completed, 1 out of memory" in page.all("p", class_="asked")[0].text


def test_bars_of_what_was_swept_first_stand_side_by_side(page: Element) -> None:
    section = page.section("Peak memory by cell")
    assert [heading.text for heading in section.all("h4")] == ["batch 32", "batch 128", "batch 512"]
    rows = [row.text for row in section.all("div", class_="row")]
    assert rows[:3] == ["python_loop 1.32 MB", "while_loop 78.4 kB", "numpy_loop 78.4 kB"]
    assert rows[6] == "python_loop – out of memory in first_call"


def test_a_bar_is_split_into_what_is_held_and_what_is_passing(tmp_path: Path) -> None:
    cells = give_own_cells([make_known_run(), make_known_run(id="other", execution="eager")])
    section = write_and_parse(cells, tmp_path / "sweep").section("Peak memory by cell")
    row = section.all("div", class_="row")[0]
    held, passing = row.all("i")
    assert held.attributes["class"] == "held"
    assert passing.attributes["class"] == "passing"
    widths = [float((each.attributes["style"] or "")[6:-1]) for each in (held, passing)]
    shares = [100 * size / PEAK_BYTES for size in (40_004, 5_120_000)]
    assert widths == pytest.approx(shares, abs=0.01)
    assert row.all("small")[0].text == "held 40.0 kB · passing 5.12 MB"


def test_memory_along_a_swept_number_has_its_law(tmp_path: Path) -> None:
    cells = give_own_cells(
        sweep_along("scenario.iterations", [10, 25, 50, 100], scenario="python_loop")
    )
    page = write_and_parse(cells, tmp_path / "sweep")
    row = page.section("Peak memory against scenario.iterations").table()[1]
    assert row == [
        *("every cell", "linear in iterations", "0.90"),
        *("40.0 kB + 12.8 kB · iterations (to the byte)", "168 kB to 1.32 MB"),
    ]


def test_memory_along_an_argument_of_the_user_s_is_drawn_as_well(tmp_path: Path) -> None:
    cells = [
        completed(
            f"sweep-{number}",
            sweep=SweepPlace("sweep", number, {"scenario.arguments.width": str(size)}),
            arguments={"width": size},
        )
        for number, size in enumerate((10, 25, 50, 100))
    ]
    page = write_and_parse(give_own_cells(cells), tmp_path / "sweep")
    assert page.section("Peak memory against scenario.arguments.width")


def test_memory_that_does_not_follow_the_number_is_said_to_make_no_difference(
    tmp_path: Path,
) -> None:
    cells = give_own_cells(
        sweep_along("scenario.iterations", [10, 25, 50, 100], scenario="while_loop")
    )
    page = write_and_parse(cells, tmp_path / "sweep")
    first, *_ = page.all("p", class_="sentence")
    assert first.text == "Peak memory: no difference by iterations."


def test_lines_on_each_other_are_one_and_what_has_no_peak_says_where(page: Element) -> None:
    rows = page.section("Peak memory against batch_size").table()[1:]
    assert [row[0] for row in rows] == ["python_loop", "while_loop; numpy_loop"]
    assert rows[0][1] == "too few sizes to tell"
    assert rows[0][-1] == "out of memory in first_call at 512"
    assert rows[1][1] == "linear in batch"


def test_the_table_has_every_cell_smallest_peak_first_and_those_without_one_last(
    page: Element,
) -> None:
    head, *rows = page.section("All cells, smallest peak first").table()
    assert [name.rstrip("↕ ") for name in head[:4]] == ["scenario", "batch", "outcome", "peak"]
    assert len(rows) == 9
    assert rows[0][:4] == ["while_loop", "32", "✓ completed", "78.4 kB"]
    assert rows[-1][:4] == ["python_loop", "512", "✗ out of memory in first_call", "–"]


def test_cells_can_be_sorted_by_their_exact_values(page: Element) -> None:
    table = page.section("All cells, smallest peak first").all("table", class_="sortable")[0]
    cells = [row.all("td") for row in table.all("tbody")[0].all("tr")]
    peaks = [row[2].attributes.get("data-value") for row in cells]
    assert peaks[:2] == ["78400", "78400"]
    assert peaks[-1] is None


def test_times_have_their_intervals_and_the_first_call_stands_against_the_step(
    page: Element,
) -> None:
    rows = page.section("Time of a steady step").all("div", class_="row")
    assert rows[1].text == "python_loop 1.32 ms 95 %: 1.28 ms to 1.37 ms"
    first = page.section("First call against steady step").all("div", class_="row")[1]
    assert first.text == "python_loop 37.9 times 50.0 ms against 1.32 ms"


def test_growth_says_so_where_there_is_none_and_has_a_bar_where_there_is(tmp_path: Path) -> None:
    still, leaking = give_own_cells(
        [make_known_run(), make_known_run(id="other", execution="eager")]
    )
    leaking = dataclasses.replace(
        leaking, metrics={**leaking.metrics, "tensor_growth_bytes_per_step": 31_108}
    )
    page = write_and_parse([still, leaking], tmp_path / "leaking")
    rows = page.section("Growth from step to step").all("div", class_="row")
    assert [row.text for row in rows] == ["graph 0 B/step", "eager 31.1 kB/step"]
    page = write_and_parse([still], tmp_path / "still")
    assert "Tensor memory does not grow" in page.section("Growth from step to step").text


def test_failures_of_one_kind_stand_together_with_their_reason(tmp_path: Path) -> None:
    cells = give_own_cells(
        [
            completed("one"),
            failed("two", batch_size=128, reason="OOM at 128 bytes\nmore"),
            failed("three", batch_size=512, reason="OOM at 512 bytes\nmore"),
            failed("four", status=Status.TIMED_OUT, reason="after 120 s", batch_size=1024),
        ]
    )
    section = write_and_parse(cells, tmp_path / "sweep").section("What did not complete")
    assert [heading.text for heading in section.all("h3")] == [
        "✗ 2 cells out of memory in first_call",
        "✗ timed out in first_call",
    ]
    assert [each.text for each in section.all("pre")] == ["OOM at 128 bytes more", "after 120 s"]
    assert section.all("p")[0].text == "batch 128; batch 512"


def test_why_a_figure_is_missing_is_said_once_for_all_cells_alike(page: Element) -> None:
    (item,) = page.section("What could not be measured").all("li")
    assert item.text == (
        "host_growth_bytes_per_step in 8 of 9 cells: needs 200 steps, or 10 s of them"
    )


def test_each_cell_s_peak_opens_into_its_groups(tmp_path: Path) -> None:
    cells = give_own_cells([make_known_run(), make_known_run(id="other", execution="eager")])
    section = write_and_parse(cells, tmp_path / "sweep").section("What each peak is made of")
    first, second = section.all("details")
    assert first.all("summary")[0].text == "graph: 5.16 MB, in step 1"
    assert second.table()[-1][3] == "5.16 MB"


def test_the_command_is_told_from_the_plan(sweep_folder: Path) -> None:
    words = [
        [f"scenario={scenario}", f"batch_size={batch}", "tracking=none"]
        for scenario in ("python_loop", "while_loop", "numpy_loop")
        for batch in (32, 128, 512)
    ]
    (sweep_folder / "plan.json").write_text(json.dumps({"overrides": words}))
    (command,) = parse_page(html.write_page(sweep_folder).read_text()).all("header")[0].all("pre")
    assert command.text == (
        "python -m runner -m scenario=python_loop,while_loop,numpy_loop "
        "batch_size=32,128,512 tracking=none"
    )


def test_a_sweep_that_was_cut_short_says_how_many_cells_are_missing(sweep_folder: Path) -> None:
    (sweep_folder / "4" / "record.json").unlink()
    page = parse_page(html.write_page(sweep_folder).read_text())
    asked = page.all("p", class_="asked")[0].text
    assert asked.startswith("8 cells: ")
    assert asked.endswith("1 more cell has no record yet")


def test_what_differs_between_the_machines_of_cells_says_so(tmp_path: Path) -> None:
    one, other = give_own_cells([make_known_run(), make_known_run(id="other", execution="eager")])
    older = msgspec.structs.replace(other.environment, versions={"tensorflow": "2.20.0"})
    other = dataclasses.replace(other, environment=older)
    section = write_and_parse([one, other], tmp_path / "sweep").section("Measured on")
    assert "versions.tensorflow 2.21.0, 2.20.0 (differs between cells)" in section.text


def test_one_cell_alone_makes_a_page_without_a_comparison(tmp_path: Path) -> None:
    page = write_and_parse([make_known_run()], tmp_path / "sweep")
    assert page.all("p", class_="sentence") == []
    assert page.all("h1")[0].text == "python_loop · graph"


def test_a_sweep_in_which_nothing_completed_has_a_page(tmp_path: Path) -> None:
    cells = give_own_cells([failed("one"), failed("two", batch_size=128)])
    page = write_and_parse(cells, tmp_path / "sweep")
    assert "2 cells out of memory in first_call" in page.section("What did not complete").text


def test_a_cell_measured_twice_counts_once_by_its_newest_record(tmp_path: Path) -> None:
    old, new = sweep_of_nine()[3:5]
    again = dataclasses.replace(old, id="again", started_at="2025-01-02T00:00:00+00:00")
    again.metrics["tensor_peak_bytes"] = 99_900
    page = write_and_parse([old, new, again], tmp_path / "sweep")
    assert [row[2] for row in page.section("All cells, smallest peak first").table()[1:]] == [
        "99.9 kB", "194 kB",
    ]  # fmt: skip


def test_an_earlier_page_is_replaced_whole(sweep_folder: Path) -> None:
    html.write_page(sweep_folder).write_text("old")
    path = html.write_page(sweep_folder)
    assert path.read_text().startswith("<!doctype html>")
    assert [each.name for each in sweep_folder.iterdir() if each.is_file()] == ["report.html"]
    shutil.rmtree(sweep_folder / "0")
    assert "8 cells" in html.write_page(sweep_folder).read_text()


def test_the_peak_of_cells_is_the_record_s_whatever_the_curves_were(tmp_path: Path) -> None:
    without = {key: value for key, value in PEAK.items() if "curve" not in key}
    cells = give_own_cells(
        [dataclasses.replace(make_known_run(), allocations=msgspec.convert(without, Allocations))]
    )
    assert (
        "5.16 MB" in write_and_parse(cells, tmp_path / "sweep").section("Peak memory by cell").text
    )
