"""What came of a sweep, as it is printed: best first, failures last, and what to type next."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import msgspec
import pytest

from runner.allocations import Allocations, Group
from runner.cell import ClusterSpec, Plan
from runner.engine.events import Result
from runner.errors import Interrupted
from runner.metrics import format_metric
from runner.records import Outcome, Phase, Record, Status, SweepPlace
from runner.render import html
from runner.render.files.note import write_note
from runner.render.html.elements import write_document
from runner.render.html.run_page import draw_head
from runner.render.peak import describe_peak
from runner.render.text.run_summary import find_warnings, summarize_run
from runner.render.text.sweep_summary import summarize_sweep
from tests.factories import (
    completed,
    failed,
    kept,
    measured,
    memory_trial,
    read_run,
    sweep_of_nine,
    timing_trial,
)
from tests.unit.render.pages import parse_page

SWEPT = Plan((), True, None, ("scenario", "batch_size"))


def summarize(folder: Path, *found: Record, plan: Plan = SWEPT, **more: object) -> list[str]:
    for number, record in enumerate(found):
        kept(record, folder / str(number))
    result = Result(folder, tuple(record.outcome for record in found))
    if "interrupted" in more:
        result = dataclasses.replace(result, stopped=more["interrupted"])  # type: ignore[arg-type]
    cells = html.read_cells(folder)
    return summarize_sweep(plan, result, cells, 12.3, folder / "report.html").split("\n")


def test_the_smallest_peak_comes_first_and_what_did_not_complete_last(tmp_path: Path) -> None:
    found = sweep_of_nine()
    lines = summarize(tmp_path / "s", *found)
    rows = lines[2:11]
    peaks = sorted(
        (peak, record.metrics["step_seconds"])
        for record in found
        if (peak := record.metrics["tensor_peak_bytes"]) is not None
    )
    assert [" ".join(row.split()[2:4]) for row in rows[:8]] == [
        format_metric("tensor_peak_bytes", peak) for peak, _ in peaks
    ]
    assert rows[8].split()[:2] == ["python_loop", "512"]
    assert "out of memory in first_call: OOM when allocating" in rows[8]
    assert "8 of 9 cells completed in 12 s" in lines
    assert any(line.startswith("  log ") and line.endswith("/s/2/run.log") for line in lines)


def test_columns_are_the_swept_fields_and_the_main_metrics_in_readable_units(
    tmp_path: Path,
) -> None:
    lines = summarize(tmp_path / "s", *sweep_of_nine())
    head = ["scenario", "batch", "tensor peak", "growth", "host peak", "step", "first call"]
    assert lines[1].split("  ")[0] == head[0]
    assert all(name in lines[1] for name in head)
    ends = [lines[1].index(name) + len(name) for name in head[2:]]
    for row in lines[2:10]:
        assert all(row[end - 1] != " " and row[end : end + 1] in ("", " ") for end in ends)
    assert " none " in lines[2], "no growth is none, not 0 B/step"


def test_seeds_are_one_row_with_their_range(tmp_path: Path) -> None:
    found = []
    for batch_size in (32, 64):
        for seed in (1, 2):
            record = completed(f"{batch_size}-{seed}", batch_size=batch_size)
            record.metrics["step_seconds"] = seed * 1e-3
            spec = dataclasses.replace(record.spec, seed=seed)
            found.append(dataclasses.replace(record, spec=spec, cell=spec.cell))
    lost = dataclasses.replace(failed(batch_size=64), spec=found[3].spec, cell=found[3].cell)
    plan = Plan((), True, None, ("batch_size", "seed"))
    lines = summarize(tmp_path / "s", *found[:3], lost, plan=plan)
    assert lines[2].split()[:4] == ["32", "1,", "2", "78.4"]
    assert "1.00 to 2.00 ms" in lines[2]
    assert lines[3].split()[:2] == ["64", "1"]
    assert lines[4].split()[:2] == ["64", "2"]
    assert "out of memory" in lines[4]
    assert "3 of 4 cells completed in 12 s" in lines


def test_the_next_things_to_open_and_to_type_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "a sweep"
    text = "\n".join(summarize(folder, *sweep_of_nine()))
    where = min(os.path.relpath(folder), str(folder), key=len)
    assert f"table    {where}/table.csv, table.parquet" in text
    assert f"report   {where}/report.html" in text
    assert f"python -m runner compare '{where}'" in text


def test_an_interrupted_sweep_says_how_to_go_on(tmp_path: Path) -> None:
    lines = summarize(tmp_path / "s", *sweep_of_nine(), interrupted=Interrupted(2))
    assert any("go on" in line and "resume=" in line for line in lines)
    assert not any("compare" in line for line in lines)


def test_of_very_many_cells_the_best_are_shown_and_every_failure(tmp_path: Path) -> None:
    found = [completed(f"ok-{number}", batch_size=number + 1) for number in range(60)]
    found += [failed(f"bad-{number}", batch_size=1000 + number) for number in range(50)]
    lines = summarize(tmp_path / "s", *found)
    assert sum("out of memory" in line for line in lines) == 50
    assert "... and 20 more that completed: see the table's file" in lines
    assert any(line.startswith("  log ") and line.endswith("/s/N/run.log") for line in lines)


def test_a_reason_of_many_lines_takes_one(tmp_path: Path) -> None:
    lines = summarize(tmp_path / "s", failed(reason="first\ntwo\n" + "x" * 500), completed())
    assert next(line for line in lines if "first_call:" in line).endswith("first_call: first")
    assert not any("two" in line for line in lines)


def test_a_sweep_that_a_launcher_ran_says_what_that_means_for_times(tmp_path: Path) -> None:
    plan = dataclasses.replace(SWEPT, cluster=ClusterSpec("dask", 2))
    lines = summarize(tmp_path / "s", *sweep_of_nine(), plan=plan)
    assert any("under dask: not in rounds" in line for line in lines)


def test_a_sweep_that_varies_nothing_has_the_scenario_as_its_column(tmp_path: Path) -> None:
    lines = summarize(tmp_path / "s", completed(), plan=Plan((), True, None, ()))
    assert lines[1].startswith("scenario ")
    assert lines[2].startswith("while_loop ")


def test_scenarios_that_run_each_in_its_own_execution_say_which(tmp_path: Path) -> None:
    eager = completed("one", scenario="python_loop", execution="eager")
    graph = completed("two", scenario="while_loop", execution="graph")
    plan = Plan((), True, None, ("scenario",))
    lines = summarize(tmp_path / "s", eager, graph, plan=plan)
    assert lines[1].split()[:2] == ["scenario", "execution"]
    assert {tuple(line.split()[:2]) for line in lines[2:4]} == {
        ("python_loop", "eager"),
        ("while_loop", "graph"),
    }
    assert "execution" not in summarize(tmp_path / "t", eager, plan=plan)[1]


@pytest.mark.parametrize("declined", [True, False])
def test_colours_are_for_a_terminal_that_has_not_declined_them(
    declined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if declined:
        monkeypatch.setenv("NO_COLOR", "1")
    lines = summarize(tmp_path / "s", *sweep_of_nine())
    assert any("\x1b[" in line for line in lines) != declined


def test_a_busy_machine_is_named_where_times_are_read(tmp_path: Path) -> None:
    idle = completed()
    loaded = msgspec.structs.replace(idle.environment, load=3.94)
    busy = dataclasses.replace(idle, environment=loaded)
    told = "the machine was busy, load 3.9 on 2 cores"
    assert told not in "\n".join(summarize(tmp_path / "idle", idle))
    assert f"times are unsure: {told} when it began" in summarize(tmp_path / "busy", busy)
    assert told not in summarize_run(*read_run(kept(idle, tmp_path / "idle run")), 1.0)
    assert told in summarize_run(*read_run(kept(busy, tmp_path / "busy run")), 1.0)


@pytest.mark.parametrize(
    ("peaks", "says"),
    [
        (
            [2_137_784] * 8 + [2_300_604],
            "2,137,784 to 2,300,604 bytes in 9 processes; at most 1 in 3 others needs more (95 %)",
        ),
        (
            [78_430] * 11 + [78_434],
            "78,430 to 78,434 bytes in 12 processes",  # a comparison calls them the same
        ),
        (
            [4_804, 4_290],
            "4,290 to 4,804 bytes in 2 processes; others may need more, how much is not known",
        ),
    ],
)
def test_a_peak_that_varies_says_in_how_many_processes_it_was_seen(
    peaks: list[int], says: str
) -> None:
    trials = [memory_trial(peak, index=index) for index, peak in enumerate(peaks)]
    assert describe_peak(measured(*trials)) == says


@pytest.mark.parametrize(
    ("highest", "says"),
    [
        ((120_000, 120_100), "at most 1 in 3 others needs more (95 %)"),  # counts as the same
        (
            (120_000, 150_000),
            "at most 1 in 3 others of 3 steps needs more (95 %); a longer run may, too",
        ),
    ],
)
def test_a_range_is_of_as_many_steps_where_steps_differ(
    highest: tuple[int, int], says: str
) -> None:
    trials = [
        memory_trial(500_000 + 9_000 * index, live_bytes=(40_000,) * 2, index=index)
        for index in range(8)
    ]
    steps = msgspec.structs.replace(trials[3].steps, tensor_peak_bytes=highest)
    trials[3] = dataclasses.replace(trials[3], steps=steps)
    assert describe_peak(measured(*trials)).endswith(f"8 processes; {says}")


@pytest.mark.parametrize(
    ("courses", "says"),
    [
        ("abc", "500,000 bytes in 3 processes; others may need more, how much is not known"),
        ("a", "500,000 bytes in 1 process; others may need more, how much is not known"),
        ("aaaaaa", "500,000 bytes"),
    ],
)
def test_a_peak_not_shown_to_repeat_says_of_how_many_processes_it_is(
    courses: str, says: str
) -> None:
    trials = [
        memory_trial(index=index, graph_ops=True, course=course)
        for index, course in enumerate(courses)
    ]
    assert describe_peak(measured(*trials)) == says


@pytest.mark.parametrize(("processes", "says"), [(1, "in 1 process"), (2, "in 2 processes")])
def test_an_eager_peak_says_of_how_many_processes_it_is(processes: int, says: str) -> None:
    trials = [memory_trial(index=index) for index in range(processes)]
    assert describe_peak(measured(*trials)) == f"500,000 bytes {says}"


def test_a_peak_that_varies_is_a_range_wherever_it_stands(tmp_path: Path) -> None:
    cells = []
    for number, scenario in enumerate(("while_loop", "python_loop")):
        trials = [memory_trial(peak, index=i) for i, peak in enumerate((104_000, 117_232, 104_000))]
        place = SweepPlace("sweep", number, {"scenario": scenario})
        cells.append(measured(*trials, timing_trial(), scenario=scenario, sweep=place))
    lines = summarize(tmp_path / "sweep", *cells)
    views = {
        "the sweep's table": "\n".join(lines),
        "the run's summary": summarize_run(
            *read_run(tmp_path / "sweep" / "0"), None, is_plain=True
        ),
        "the note": write_note(cells[0], tmp_path),
        "the head of the run's page": write_document("", draw_head(cells[0])),
        "the page's table": parse_page(html.write_page(tmp_path / "sweep").read_text())
        .section("Cells, smallest peak first")
        .text,
    }
    for name, text in views.items():
        assert "104 to 117 kB" in text, name
        assert "117 kB" not in text.replace("104 to 117 kB", ""), name


def test_tensorflow_s_warning_of_retracing_is_quoted_once_a_function(tmp_path: Path) -> None:
    said = "5 out of the last 5 calls to <function step at 0x7f1> triggered tf.function retracing."
    rest = " Tracing is expensive and the excessive number of tracings could be due to (1) ..."
    log = tmp_path / "run.log"
    log.write_text(f"WARNING:tensorflow:{said}{rest}\n" * 2 + "other words\n")
    assert find_warnings(log) == [said]
    assert find_warnings(tmp_path / "none") == []


def test_a_reason_too_long_for_the_table_stands_whole_once_below_it(tmp_path: Path) -> None:
    long = "model.py does not say what it takes. " + "Make it from keras.Input. " * 5
    found = [failed("a", reason=long), failed("b", reason=long, batch_size=64), completed()]
    lines = summarize(tmp_path / "s", *found)
    assert sum(line.endswith("...") for line in lines) == 2
    assert sum(line.endswith(long) for line in lines) == 1


def test_a_cell_that_was_interrupted_after_its_peak_was_measured_shows_it(tmp_path: Path) -> None:
    stopped = Outcome(Status.INTERRUPTED, None, "interrupted by SIGINT")
    found = dataclasses.replace(measured(memory_trial(7_340_000)), outcome=stopped)
    lines = summarize(tmp_path / "s", found)
    row = next(line for line in lines if "interrupted by SIGINT" in line)
    peak = format_metric("tensor_peak_bytes", 7_340_000)
    assert row.index(peak) + len(peak) == lines[1].index("tensor peak") + len("tensor peak")


def test_a_run_of_which_one_trial_ended_early_shows_what_the_others_measured(
    tmp_path: Path,
) -> None:
    late = Outcome(Status.TIMED_OUT, Phase.STEPS, "passed its deadline of 120 s")
    found = measured(memory_trial(982_237_692), dataclasses.replace(timing_trial(), outcome=late))
    kept(dataclasses.replace(found, outcome=late), tmp_path / "one")

    lines = summarize_run(*read_run(tmp_path / "one"), 3.0).split("\n")
    assert "  timed out in steps: passed its deadline of 120 s" in lines
    assert any("982,237,692 bytes in 1 process" in line for line in lines)
    assert not any(line.startswith("  host peak") for line in lines), "nobody measured it"


def test_figures_say_what_they_leave_out(tmp_path: Path) -> None:
    texts = Group("tf.constant", (1000,), "string", 3, 72_000, 1.0)
    live = Allocations(total_bytes=72_000, phase="steps", step=0, groups=(texts,))
    pooled = measured(memory_trial(72_000), timing_trial(child_processes=2))
    kept(dataclasses.replace(pooled, allocations=live), tmp_path / "one")
    kept(completed(), tmp_path / "other")

    text = summarize_run(*read_run(tmp_path / "one"), 3.0)
    assert "not counted: the text of 3 string tensors; the host peak has them" in text
    assert "without the memory of its 2 child processes" in text
    assert "not counted" not in summarize_run(*read_run(tmp_path / "other"), 3.0)


def without_examples(record: Record) -> Record:
    """As a run of code that never asks for the batch size."""
    metrics = {k: v for k, v in record.metrics.items() if k != "examples_per_second"}
    return dataclasses.replace(record, metrics=metrics)


def test_the_batch_stands_where_the_code_reads_it(tmp_path: Path) -> None:
    script = {"scenario": "script", "execution": "own", "path": "a.py"}
    titles = {
        "while_loop · graph · batch 32": completed(),
        "while_loop · graph": without_examples(completed()),
        "script · own": without_examples(completed(**script, argv=["--epochs", "2"])),
        "script · own · batch 8": completed(**script, batch_size=8, argv=["{batch_size}"]),
        "script · own ": failed(**script, argv=[]),
        "script · own · batch 8 ": failed(**script, batch_size=8, argv=["--n={batch_size}"]),
    }
    for number, (title, record) in enumerate(titles.items()):
        folder = kept(record, tmp_path / str(number))
        assert summarize_run(*read_run(folder), None, is_plain=True).split("\n")[1] == title.strip()


def test_a_sweep_over_a_batch_size_that_no_cell_read_says_so(tmp_path: Path) -> None:
    said = "batch_size was swept, and no cell read it"
    cells = sweep_of_nine()
    assert said not in summarize(tmp_path / "read", *cells)
    assert said in summarize(tmp_path / "unread", *map(without_examples, cells))
