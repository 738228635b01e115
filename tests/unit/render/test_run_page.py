"""A run's page says what its record says: to the byte, and in words."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from runner.allocations import Allocations, Curve, Split
from runner.meters.tensor.replay import simplify
from runner.metrics import METRICS
from runner.records import Record
from runner.render import html
from runner.render.html.run_page import thin_out
from tests.factories import ALLOCATIONS, completed, failed, kept, measured, timing_trial
from tests.unit.render.known import PEAK, PEAK_BYTES, make_known_run
from tests.unit.render.pages import Element, parse_page


def write_and_parse(record: Record, folder: Path) -> Element:
    return parse_page(html.write_page(kept(record, folder)).read_text())


@pytest.fixture
def page(run_folder: Path) -> Element:
    return parse_page(html.write_page(run_folder).read_text())


def test_the_first_sentence_is_the_peak_and_what_it_is_made_of(page: Element) -> None:
    (sentence,) = page.all("p", class_="sentence")
    assert sentence.text == "Peak 5.16 MB of tensors, in step 1: held 40.0 kB · passing 5.12 MB"


def test_the_peak_s_groups_are_listed_largest_first_and_their_sum_is_the_peak(
    page: Element,
) -> None:
    section = page.section("What the peak is made of")
    head, *rows, total = section.table()
    assert [name.rstrip("↕ ") for name in head[:7]] == [
        *("op", "shape", "dtype", "bytes", "share", "of which", "count"),
    ]
    assert [row[:7] for row in rows] == [
        ["MatMul", "128 x 100", "float32", "5.12 MB", "99.2 %", "", "100"],
        ["Fill", "100 x 100", "float32", "40.0 kB", "0.8 %", "", "1"],
        ["Const", "scalar", "float32", "4 B", "< 0.1 %", "", "1"],
    ]
    assert total[:7] == ["sum", "", "", "5.16 MB", "100 %", "", "102"]
    exact = [span.text for span in section.all("span", class_="exact")]
    assert exact == ["5,120,000 bytes", "40,000 bytes", "4 bytes", f"{PEAK_BYTES:,} bytes"]


def test_the_peak_s_lines_come_first_each_with_its_source_text_its_callers_and_its_split(
    tmp_path: Path,
) -> None:
    record = dataclasses.replace(make_known_run(), allocations=ALLOCATIONS)
    section = write_and_parse(record, tmp_path / "run").section("What the peak is made of")
    head, *rows, total = section.table()
    assert [name.rstrip("↕ ") for name in head] == [
        *("line", "bytes", "share", "of which", "count", "tensors, most bytes first"),
    ]
    assert rows == [
        [
            "model.py:7 return tf.matmul(x, self.weight) called at train.py:3",
            *("870 B", "96.7 %", "gradient 270 B · passing 600 B", "2"),
            "1 MatMul 3 x 50 float32, 1 Mul 75 float32 (gradient)",
        ],
        [
            "no line no call into TensorFlow was under way",
            *("30 B", "3.3 %", "gradient 30 B", "1", "1 Mul 75 float32"),
        ],
    ]
    assert total == ["sum", "900 B", "100 %", "", "3", ""]
    assert [each.text for each in section.all("h3")] == [
        *("By line of code", "By op, shape and dtype"),
    ]


def test_where_what_is_kept_for_the_gradient_is_not_known_it_says_why(tmp_path: Path) -> None:
    allocations = dataclasses.replace(
        ALLOCATIONS, split=Split(0, 0, None, 900), gradient_why="XLA does not say"
    )
    record = dataclasses.replace(make_known_run(), allocations=allocations)
    section = write_and_parse(record, tmp_path / "run").section("What the peak is made of")
    (note,) = section.all("p", class_="note")
    assert (
        note.text == "Bytes kept for the gradient are counted among the others: XLA does not say."
    )


def test_a_long_list_ends_in_one_row_for_the_rest_and_still_sums_to_the_peak(
    tmp_path: Path,
) -> None:
    size = PEAK_BYTES // 60
    groups = [{**PEAK["groups"][0], "op": f"Op{number}", "bytes": size} for number in range(60)]
    record = dataclasses.replace(
        make_known_run(),
        allocations=msgspec.convert(
            {**PEAK, "total_bytes": 60 * size, "groups": groups}, Allocations
        ),
    )
    rows = write_and_parse(record, tmp_path / "run").section("What the peak is made of").table()
    assert rows[-2][0] == "35 smaller groups"
    assert rows[-1][0] == "sum"
    assert rows[-1][4] == "100 %"


def test_the_tree_opens_by_scope_down_to_the_op(page: Element) -> None:
    tree = page.section("Which layer or scope it belongs to")
    model, a, b = tree.all("details")
    assert model.all("summary")[0].text == "model 5.12 MB 99.2 %"
    assert a.text == "a 3.07 MB 59.5 % MatMul float32[128,100] 3.07 MB 59.5 %"
    assert b.text == "b 2.05 MB 39.7 % MatMul float32[128,100] 2.05 MB 39.7 %"
    assert "open" in model.attributes
    assert "open" in a.attributes


def test_the_curve_holds_every_point_exactly_and_marks_the_peak_in_its_own_step(
    page: Element,
) -> None:
    fine, whole = page.section("Live bytes over time").all("div", class_="area")
    points = fine.attributes["data-points"] or ""
    assert re.findall(r'"([\d,]+ bytes at [^"]+)"', points) == [
        "40,004 bytes at 0.00 ns",
        "5,160,004 bytes at 100 ms",
        "40,004 bytes at 150 ms",
        "40,004 bytes at 200 ms",
    ]
    (flag,) = whole.all("span", class_="flag")
    assert flag.text == "peak 5.16 MB"
    # The first call was as high, but the peak that the table is about is the step's: 0.5 s.
    points = whole.attributes["data-points"] or ""
    places = {text: int(at) for at, text in re.findall(r'\[(\d+),\d+,"([^"]+)"', points)}
    left = re.search(r"left:([\d.]+)%", flag.attributes["style"] or "")
    assert left
    assert float(left[1]) == pytest.approx(places["5,160,004 bytes at 500 ms"] / 100)


def test_every_phase_can_be_seen_however_short_it_was(page: Element) -> None:
    _, whole = page.section("Live bytes over time").all("div", class_="area")
    bands = whole.all("span", class_="band")
    assert [band.text for band in bands] == ["build", "first call", "steps", "release"]
    widths = [float((band.attributes["style"] or "").split("width:")[1][:-1]) for band in bands]
    assert min(widths) > 8
    assert sum(widths) <= 100.1


def test_what_does_not_leak_says_so_and_what_leaks_is_listed(page: Element, tmp_path: Path) -> None:
    assert "Nothing: live bytes do not grow over 2 steps." in page.section("What leaks").text
    leak = {
        **{"op": "Square", "scope": "", "shape": [7777], "dtype": "float32"},
        **{"count": 4, "bytes": 124_432, "count_per_step": 1.0, "bytes_per_step": 31_108.0},
    }
    leaking = dataclasses.replace(
        make_known_run(),
        allocations=msgspec.convert({**PEAK, "leaks": [leak], "leak_steps": 4}, Allocations),
    )
    rows = write_and_parse(leaking, tmp_path / "leaking").section("What leaks").table()
    assert rows[0] == ["bytes a step", "count", "what", "line"]
    assert rows[1] == ["31.1 kB", "1", "Square 7777 float32", "no line"]


def test_every_metric_has_its_meaning_and_what_is_unknown_its_reason(page: Element) -> None:
    section = page.section("Every figure")
    rows = {row[0]: row for row in section.table()[1:]}
    assert rows["step_seconds"][1:] == [
        "2.28 ms", "2.21 ms to 2.37 ms", METRICS["step_seconds"].meaning,
    ]  # fmt: skip
    assert section.all("li")[0].text == (
        "host_growth_bytes_per_step : needs 200 steps, or 10 s of them"
    )


def test_the_page_says_how_to_do_it_again_and_on_what_it_was_measured(page: Element) -> None:
    (command,) = page.section("What was asked").all("pre")
    assert command.text.startswith("python -m runner scenario=python_loop execution=graph")
    assert "tensorflow 2.21.0" in page.section("Measured on").text


def test_a_failed_run_begins_with_how_it_ended_and_its_reason(tmp_path: Path) -> None:
    page = write_and_parse(failed(), tmp_path / "run")
    (sentence,) = page.all("p", class_="sentence")
    assert sentence.text == "✗ Out of memory in first_call"
    assert "OOM when allocating tensor with shape[512,100]" in page.all("pre")[0].text
    assert "no memory trial completed" in page.section("What the peak is made of").text


def test_a_host_growth_of_0_stands_with_what_it_may_hide(tmp_path: Path) -> None:
    page = write_and_parse(measured(timing_trial((0.5,) * 31)), tmp_path / "run")
    (tiles,) = page.all("div", class_="tiles")
    (tile,) = (each for each in tiles.all("div") if "host growth" in each.text.lower())
    assert re.search(r"0 B/step more than [\d.]+ kB/step would show", tile.text)


def test_a_record_with_nothing_but_the_contract_s_fields_has_a_page(tmp_path: Path) -> None:
    record = completed()
    assert record.allocations is not None
    assert record.allocations.split is None
    assert record.allocations.curve == Curve()
    page = write_and_parse(record, tmp_path / "run")
    assert page.section("What the peak is made of").table()[-1][3] == "78.4 kB"
    with pytest.raises(LookupError):
        page.section("Live bytes over time")


def test_a_trial_of_100_000_events_makes_a_page_of_less_than_a_megabyte(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    levels = np.abs(random.integers(-1_000_000, 1_000_000, 100_000).cumsum())
    times = np.arange(100_000) * 1_000
    curves = {}
    for name in ("curve", "peak_curve"):
        seconds, kept_levels = simplify(times, levels, 2_000)
        curves[name] = {"seconds": (seconds / 1e9).tolist(), "bytes": kept_levels.tolist()}
    peak = {**PEAK, **curves, "total_bytes": int(levels.max())}
    record = dataclasses.replace(make_known_run(), allocations=msgspec.convert(peak, Allocations))
    path = html.write_page(kept(record, tmp_path / "run"))
    assert path.stat().st_size < 1_000_000
    assert f"{levels.max():,} bytes at" in path.read_text()


def test_a_long_series_is_thinned_and_keeps_its_extremes_and_ends() -> None:
    values = [1.0] * 10_000
    values[1_234], values[8_765] = 9.0, 0.5
    points = thin_out(values, most=100)
    assert len(points) <= 110
    assert {(0.0, 1.0), (1_234.0, 9.0), (8_765.0, 0.5), (9_999.0, 1.0)} <= set(points)


def test_the_same_record_makes_the_same_page(run_folder: Path) -> None:
    first = html.write_page(run_folder).read_bytes()
    assert html.write_page(run_folder).read_bytes() == first
