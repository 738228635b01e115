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


def test_the_first_picture_has_a_dot_for_each_two_cells_that_differ_in_a_field(
    page: Element,
) -> None:
    section = page.section("What each swept field does")
    assert [heading.text for heading in section.all("h4")] == ["peak memory", "time"]
    rows = [row for row in section.all("div", class_="row") if row.all("span", class_="name")]
    assert [row.text for row in rows][:2] == [
        "python_loop / while_loop 16.8 to 26.7×",
        "batch 512 / 32 8.35×",
    ]
    dots = [len(row.all("i", class_="dot")) for row in rows]
    assert dots[:2] == [2, 2]  # of three each: one cell ran out of memory
    assert rows[-1].all("b", class_="whisker")  # the average time has an interval


def test_the_table_has_a_bar_split_into_what_is_held_and_what_is_passing(tmp_path: Path) -> None:
    cells = give_own_cells([make_known_run(), make_known_run(id="other", execution="eager")])
    section = write_and_parse(cells, tmp_path / "sweep").section("Cells, smallest peak first")
    bar = section.all("div", class_="which")[0]
    held, passing = bar.all("i")
    assert held.attributes["class"] == "held"
    assert passing.attributes["class"] == "passing"
    widths = [float((each.attributes["style"] or "")[6:-1]) for each in (held, passing)]
    shares = [100 * size / PEAK_BYTES for size in (40_004, 5_120_000)]
    assert widths == pytest.approx(shares, abs=0.01)
    assert bar.attributes["title"] == "held 40.0 kB · passing 5.12 MB"


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


def test_two_sizes_make_no_law_and_no_picture(tmp_path: Path) -> None:
    cells = give_own_cells(sweep_along("scenario.iterations", [10, 100], scenario="python_loop"))
    page = write_and_parse(cells, tmp_path / "sweep")
    assert "Peak memory against" not in page.text
    assert page.all("div", class_="plot") == []


def test_lines_on_each_other_are_one_and_what_has_no_peak_says_where(page: Element) -> None:
    rows = page.section("Peak memory against batch_size").table()[1:]
    assert [row[0] for row in rows] == ["python_loop", "while_loop; numpy_loop"]
    assert rows[0][1] == ""
    assert rows[0][-1] == "out of memory in first_call at 512"
    assert rows[1][1] == "linear in batch"


def test_the_table_has_every_cell_smallest_peak_first_and_those_without_one_last(
    page: Element,
) -> None:
    head, *rows = page.section("Cells, smallest peak first").table()
    names = [name.rstrip("↕ ") for name in head]
    assert names[:6] == ["cell", "scenario", "batch", "outcome", "peak", "of which"]
    assert names[6:8] == ["step", "growth"]
    assert len(rows) == 9
    assert rows[0][:5] == ["while_loop · batch 32", "while_loop", "32", "✓ completed", "78.4 kB"]
    assert rows[-1][1:5] == ["python_loop", "512", "✗ out of memory in first_call", "–"]


def test_where_all_completed_no_column_says_so(tmp_path: Path) -> None:
    cells = give_own_cells([completed("one"), completed("two", batch_size=128)])
    head, *rows = (
        write_and_parse(cells, tmp_path / "sweep").section("Cells, smallest peak first").table()
    )
    assert "outcome ↕" not in head
    assert "completed" not in str(rows)


def test_a_phone_has_the_name_and_the_figures_before_anything_else(page: Element) -> None:
    heads = page.section("Cells, smallest peak first").all("th", scope="col")
    shown = [head for head in heads if "desk" not in (head.attributes.get("class") or "")]
    assert [head.text for head in shown] == [
        "cell", "outcome", "peak", "step", "growth", "host peak", "first call",
    ]  # fmt: skip
    assert "phone" in (heads[0].attributes["class"] or "")


def test_cells_can_be_sorted_by_their_exact_values(page: Element) -> None:
    table = page.section("Cells, smallest peak first").all("table", class_="sortable")[0]
    cells = [row.all("td") for row in table.all("tbody")[0].all("tr")]
    peaks = [row[3].attributes.get("data-value") for row in cells]
    assert peaks[:2] == ["78400", "78400"]
    assert peaks[-1] is None


def test_seeds_are_one_row_with_their_spread(tmp_path: Path) -> None:
    cells = []
    for batch_size in (32, 128):
        for seed, seconds in ((1, 2e-3), (2, 3e-3), (3, 2.5e-3)):
            record = completed(f"s-{batch_size}-{seed}", batch_size=batch_size)
            spec = dataclasses.replace(record.spec, seed=seed)
            metrics = {**record.metrics, "step_seconds": seconds}
            cells.append(dataclasses.replace(record, spec=spec, cell=spec.cell, metrics=metrics))
    page = write_and_parse(cells, tmp_path / "sweep")
    head, *rows = page.section("Cells, smallest peak first").table()
    assert [row[0] for row in rows] == ["batch 32", "batch 128"]
    step = [name.rstrip("↕ ") for name in head].index("step")
    assert rows[0][step] == "2.50 ms 2.00 ms to 3.00 ms"
    assert "6 cells: 6 completed · a row has the seeds 1, 2, 3" in page.all("p")[0].text


def test_growth_is_a_column_and_a_row_of_the_picture_where_there_is_some(tmp_path: Path) -> None:
    still, leaking = give_own_cells(
        [make_known_run(), make_known_run(id="other", execution="eager")]
    )
    leaking = dataclasses.replace(
        leaking, metrics={**leaking.metrics, "tensor_growth_bytes_per_step": 31_108}
    )
    page = write_and_parse([still, leaking], tmp_path / "leaking")
    head, *rows = page.section("Cells, smallest peak first").table()
    growth = [name.rstrip("↕ ") for name in head].index("growth")
    assert [row[growth] for row in rows] == ["none", "31.1 kB/step"]
    still_page = write_and_parse([still], tmp_path / "still")
    assert "growth" not in [heading.text for heading in still_page.all("h4")]


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
    (item,) = page.opened("What could not be measured").all("li")
    assert item.text == (
        "host_growth_bytes_per_step in 8 of 9 cells: needs 200 steps, or 10 s of them"
    )


def test_each_cell_s_peak_opens_into_its_groups(tmp_path: Path) -> None:
    cells = give_own_cells([make_known_run(), make_known_run(id="other", execution="eager")])
    section = write_and_parse(cells, tmp_path / "sweep").opened("What each peak is made of")
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
    page = parse_page(html.write_page(sweep_folder).read_text())
    (command,) = page.opened("What was asked").all("pre")
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
    section = write_and_parse([one, other], tmp_path / "sweep").opened("Measured on")
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
    assert [row[2] for row in page.section("Cells, smallest peak first").table()[1:]] == [
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
    section = write_and_parse(cells, tmp_path / "sweep").section("Cells, smallest peak first")
    assert "5.16 MB" in section.text
