"""`compare` as it is typed: what it prints, what it refuses, how it exits."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from runner import records
from runner.allocations import Allocations, Frame, LeakedGroup, SourceLine, Split
from runner.commands import call
from runner.errors import BadInput
from runner.records import Record
from runner.render.conclusion import describe_sweep
from tests.factories import (
    ALLOCATIONS,
    completed,
    failed,
    kept,
    measured,
    memory_trial,
    sweep_of_nine,
)
from tests.factories import timing_trial as timing


@pytest.fixture
def sweep(tmp_path: Path) -> str:
    for number, record in enumerate(sweep_of_nine()):
        kept(record, tmp_path / "sweep" / str(number))
    return str(tmp_path / "sweep")


def run(record: Record, folder: Path) -> str:
    kept(record, folder)
    return str(folder)


def peak_of(peak: float) -> Record:
    return measured(memory_trial(peak), *(timing([1e-3] * 9, index=i) for i in range(3)))


def compare(words: list[str]) -> int:
    return call("compare", words)


def test_the_last_line_is_the_sentence(sweep: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare([sweep]) == 0
    *_, memory, _, failures = capsys.readouterr().out.rstrip().splitlines()
    assert memory.startswith("Peak memory: python_loop needs 16.8 to 26.7 times as much as while")
    assert failures == "1 of 9 cells: out of memory in first_call."
    assert compare([sweep, "--by", "scenario"]) == 0
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert last.startswith("Peak memory: while_loop needs 94 to 96 % less than python_loop; ")


def test_a_sweep_ends_with_what_each_field_does(
    sweep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare([sweep])
    lines = capsys.readouterr().out.splitlines()
    head = next(n for n, line in enumerate(lines) if "effect over all cells" in line)
    rows = [" ".join(line.split()) for line in lines[head + 1 : head + 3]]
    assert rows == [
        "peak scenario python_loop needs 16.8 to 26.7 times as much as while_loop 2",
        "batch batch 512 needs 8.35 times as much as 32 2",
    ]
    cells = [records.read(folder) for folder in records.find(Path(sweep))]
    assert " ".join(lines[-3:]) == describe_sweep(cells)
    compare([sweep, "--by", "batch_size"])
    assert "effect over all cells" not in capsys.readouterr().out


def test_a_row_has_values_ratio_interval_and_verdict(
    sweep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare([sweep, "--metric", "step_seconds"])
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == (
        "batch cell metric value python_loop ratio 95 % interval verdict"
    )
    assert row.split()[:3] == ["32", "while_loop", "step"]
    assert row.endswith("same")


def test_failed_cells_are_rows_with_their_status(
    sweep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare([sweep])
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines[:-1] if "out of memory" in line]
    assert len(rows) == 2
    compare([sweep, "--by", "scenario"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert "In 2 of 6 pairs a cell did not complete; python_loop: out of memory" in last
    assert all("512" in row and "completed" in row for row in rows)


def test_the_tolerances_and_the_correction_are_stated(
    sweep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare([sweep, "--threshold", "3%"])
    printed = capsys.readouterr().out
    assert "peak within 256 B or 0.5 %" in printed
    assert "step within 3 %" in printed
    assert "Bonferroni over 8 rows" in printed


def test_json_is_a_list_of_rows(sweep: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare([sweep, "--json", "--metric", "tensor_peak_bytes"])
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 6
    assert rows[0]["metric"] == "tensor_peak_bytes"
    assert (rows[0]["baseline"], rows[0]["candidate"]) == ("python_loop", "while_loop")
    assert rows[0]["held"] == {"batch_size": 32}
    assert rows[0]["verdict"] == "better"
    assert rows[0]["ratio"] == rows[0]["candidate_value"] / rows[0]["baseline_value"]
    assert rows[0]["interval"] == [rows[0]["ratio"]] * 2
    assert rows[-1]["metric"] == "outcome"
    assert rows[-1]["baseline_value"] == "out_of_memory"


def test_markdown_is_a_table_for_a_pull_request(
    sweep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare([sweep, "--markdown"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("| :--")
    assert {line.count("|") for line in lines[:5]} == {9}


def test_two_paths_compare_yesterday_with_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yesterday = run(peak_of(500_000), tmp_path / "yesterday")
    today = run(peak_of(600_000), tmp_path / "today")
    assert compare([yesterday, today, "--fail-on", "worse"]) == 3
    assert "Peak memory: today needs 20 % more than yesterday." in capsys.readouterr().out
    assert compare([today, yesterday, "--fail-on", "worse"]) == 0
    assert compare([yesterday, today]) == 0
    assert compare([yesterday, today, "--baseline", today, "--fail-on", "worse"]) == 0


def test_paths_are_called_by_what_tells_them_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [run(peak_of(500_000), tmp_path / day / "12-00") for day in ("mon", "tue")]
    compare(paths)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Peak memory: tue/12-00 needs as much as mon/12-00. ")


def test_a_cell_that_no_longer_completes_fails_the_gate(tmp_path: Path) -> None:
    paths = [run(completed(), tmp_path / "old"), run(failed(), tmp_path / "new")]
    assert compare([*paths, "--fail-on", "worse"]) == 3


def test_the_gate_fails_on_what_can_not_be_told_if_asked_to(tmp_path: Path) -> None:
    drawn = measured(*(memory_trial(peak, index=i) for i, peak in enumerate((5e5, 6e5, 5e5))))
    paths = [run(drawn, tmp_path / name) for name in ("old", "new")]
    peak = ["--metric", "tensor_peak_bytes"]
    assert compare([*paths, *peak, "--fail-on", "worse"]) == 0
    assert compare([*paths, *peak, "--fail-on", "unclear"]) == 3
    worse = [run(peak_of(each), tmp_path / str(each)) for each in (1000, 2000)]
    assert compare([*worse, *peak, "--fail-on", "unclear"]) == 3


def test_a_budget_holds_for_the_highest_peak_that_was_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = measured(*(memory_trial(peak, index=i) for i, peak in enumerate((5e5, 6e5, 5e5))))
    paths = [run(drawn, tmp_path / name) for name in ("old", "new")]
    assert compare([*paths, "--budget", "tensor_peak_bytes=600kB"]) == 0
    assert compare([*paths, "--budget", "tensor_peak_bytes=0.55MB"]) == 3
    said = capsys.readouterr()
    assert said.out.count("new scenario=while_loop: tensor_peak_bytes 600 kB, above 550 kB") == 1
    assert "600 kB" not in said.err


def test_a_cell_in_several_pairs_is_over_its_budget_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [completed(f"cell {at}", parallel_iterations=at) for at in (1, 10)]
    cells.append(completed("other", scenario="python_loop"))
    for number, record in enumerate(cells):
        run(record, tmp_path / "sweep" / str(number))
    asked = [str(tmp_path / "sweep"), "--by", "scenario", "--budget", "tensor_peak_bytes=1B"]
    assert compare([*asked, "--json"]) == 3
    rows = json.loads(capsys.readouterr().out)
    assert len({row["baseline_id"] for row in rows if row["baseline"]}) == 2
    assert [row["candidate_id"] for row in rows if "budget" in row] == ["other"]
    assert compare(asked) == 3
    assert capsys.readouterr().out.count("over budget: python_loop") == 1


def test_fields_in_json_are_what_they_are_in_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (name, batch) in enumerate((n, b) for n in ("a", "b") for b in (32, 64)):
        record = completed(str(number), scenario=name, batch_size=batch, flag=batch > 32, other="7")
        run(record, tmp_path / "sweep" / str(number))
    compare([str(tmp_path / "sweep"), "--json", "--budget", "tensor_peak_bytes=1B"])
    rows = json.loads(capsys.readouterr().out)
    held = [row["held"] for row in rows]
    assert {"batch_size": 32, "scenario.flag": False} in held
    assert {"batch_size": 64, "scenario.flag": True} in held
    assert all(isinstance(each["batch_size"], int) for each in held)


def test_the_gate_s_result_stands_under_the_table_and_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [run(peak_of(peak), tmp_path / str(peak)) for peak in (1_000_000, 1_100_000)]
    asked = [*paths, "--metric", "tensor_peak_bytes", "--fail-on", "worse"]
    asked += ["--budget", "tensor_peak_bytes=1.05MB"]
    assert compare([*asked, "--markdown"]) == 3
    *_, gate, _, budget_line = capsys.readouterr().out.splitlines()
    assert gate == "**gate: failed** (1 worse, 1 over budget)"
    assert budget_line == (
        r"- over budget: 1100000 scenario=while\_loop: tensor\_peak\_bytes 1.10 MB, above 1.05 MB"
    )
    assert compare([*asked, "--json"]) == 3
    row, budget = json.loads(capsys.readouterr().out)
    assert (row["verdict"], row["fails"]) == ("worse", True)
    assert (budget["verdict"], budget["candidate_value"]) == ("over budget", 1_100_000)
    assert (budget["budget"], budget["fails"]) == (1_050_000, True)


def with_lines(peaks: dict[str, int], growths: dict[str, int], above: int) -> Record:
    """A run of which each line's bytes are known; `above` lines stand above those in the file."""
    lines = {code: place + above for place, code in enumerate(["", *peaks, *growths])}
    frames = tuple(Frame("model.py", line, "step", code) for code, line in lines.items())
    stacks = {frame.code: (place,) for place, frame in enumerate(frames)}
    source_lines = tuple(
        SourceLine("model.py", lines[code], code, 1, size, 0.5, Split(0, 0, 0, size), ())
        for code, size in peaks.items()
    )
    leaks = tuple(
        LeakedGroup("Add", "", (1,), "float32", 1, size, 1.0, float(size), stacks[code])
        for code, size in growths.items()
    )
    record = completed(scenario="callable", target="model:make")
    metrics = {
        **record.metrics,
        "tensor_peak_bytes": sum(peaks.values()),
        "tensor_growth_bytes_per_step": sum(growths.values()),
    }
    allocations = dataclasses.replace(
        ALLOCATIONS, lines=source_lines, leaks=leaks, frames=frames, groups=()
    )
    return dataclasses.replace(record, metrics=metrics, allocations=allocations, trials=())


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_the_gate_names_the_cell_and_the_lines_that_are_to_blame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    """The line that holds most held as much before, and all lines stand elsewhere now."""
    before = with_lines({"a = big(x)": 9_000_000, "b = f(a)": 1000}, {}, above=3)
    after = with_lines({"a = big(x)": 9_000_000, "b = f(a)": 500_000}, {"c.append(a)": 64}, above=8)
    paths = [run(before, tmp_path / "base"), run(after, tmp_path / "change")]
    assert compare([*paths, "--fail-on", "worse", *form]) == 3
    said = capsys.readouterr().out
    assert "| callable | model:make | change |" in said or "callable  model:make  change" in said
    lines = [line.replace("`", "").strip(" -") for line in said.splitlines()]
    blamed = "of change, callable, target model:make"
    assert f"peak {blamed}: 499 kB more at model.py:10 b = f(a)" in lines
    assert f"growth {blamed}: 64 B/step more at model.py:11 c.append(a)" in lines


@pytest.mark.parametrize(("allowed", "code"), [("11%", 0), ("120kB", 0), ("5%", 3), ("64kB", 3)])
def test_a_tolerance_says_how_much_memory_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], allowed: str, code: int
) -> None:
    paths = [run(peak_of(peak), tmp_path / str(peak)) for peak in (1_000_000, 1_100_000)]
    asked = [*paths, "--metric", "tensor_peak_bytes", "--fail-on", "worse"]
    assert compare([*asked, "--tolerance", allowed]) == code
    said = capsys.readouterr().out
    assert f"gate: {'failed (1 worse)' if code else 'passed'}" in said
    shown = f"{allowed[:-1]} %" if allowed.endswith("%") else allowed.replace("kB", ".0 kB")
    assert f"same: peak within {shown.replace('120.0', '120')}" in said


def test_what_is_not_known_is_not_within_a_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [run(completed(), tmp_path / name) for name in ("old", "new")]
    assert compare([*paths, "--budget", "host_growth_bytes_per_step=1kB"]) == 3
    assert "unknown (needs 200 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    "budget", ["tensor_peak_bytes=5s", "tensor_peak_bytes=120", "examples_per_second=100"]
)
def test_a_budget_that_means_nothing_for_its_metric_is_refused(budget: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--budget"):
        compare([run(completed(), tmp_path / "one"), "--budget", budget])


def test_options_may_stand_between_paths(tmp_path: Path) -> None:
    one, other = (run(peak_of(peak), tmp_path / str(peak)) for peak in (1000, 2000))
    assert compare([one, "--fail-on", "worse", other]) == 3


def test_several_paths_with_by_are_one_grid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        run(completed(batch_size=batch_size), tmp_path / str(batch_size))
        for batch_size in (32, 128, 512)
    ]
    compare([*paths, "--by", "batch_size", "--baseline", "512", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert {row["candidate"] for row in rows} == {"batch 32", "batch 128"}


def test_allocations_show_what_the_one_holds_and_the_other_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        run(completed(scenario=scenario), tmp_path / scenario)
        for scenario in ("python_loop", "while_loop")
    ]
    compare([*paths, "--allocations"])
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "at the peak of while_loop, against python_loop" in printed
    assert "MatMul 32x100 float32 3 38.4 kB 100 1.28 MB -1.24 MB" in printed
    assert "all 78.4 kB 1.32 MB -1.24 MB" in printed


def test_allocations_name_the_layer_that_makes_most_of_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_layers(**bytes_of: int) -> Record:
        size = sum(bytes_of.values())
        group = {"op": "Mul", "shape": [9], "dtype": "float32", "count": 2, "share": 1.0}
        scopes = [
            {"scope": f"model/{name}", "count": 1, "bytes": each} for name, each in bytes_of.items()
        ]
        record = completed(scenario=f"s{size}")
        allocations = {"total_bytes": size, "phase": "steps", "step": 0}
        return dataclasses.replace(
            record,
            metrics={**record.metrics, "tensor_peak_bytes": size},
            allocations=msgspec.convert(
                {**allocations, "groups": [{**group, "bytes": size, "scopes": scopes}]}, Allocations
            ),
        )

    paths = [
        run(with_layers(first=4000, second=9000), tmp_path / "plain"),
        run(with_layers(first=3000, second=1000), tmp_path / "again"),
    ]
    compare([*paths, "--allocations"])
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "Mul 9 float32 2 4.00 kB 2 13.0 kB -9.00 kB model/second" in printed


def test_allocations_in_json_belong_to_the_peak(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        run(completed(scenario=scenario), tmp_path / scenario)
        for scenario in ("python_loop", "while_loop")
    ]
    compare([*paths, "--allocations", "--json", "--metric", "step_seconds"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["metric"] for row in rows] == ["tensor_peak_bytes", "step_seconds"]
    groups = rows[0]["allocations"]["groups"]
    assert sum(group["baseline_bytes"] for group in groups) == rows[0]["baseline_value"]
    assert sum(group["candidate_bytes"] for group in groups) == rows[0]["candidate_value"]
    assert sum(group["difference"] for group in groups) == (
        rows[0]["candidate_value"] - rows[0]["baseline_value"]
    )


def test_what_has_no_counterpart_is_said_on_stderr(
    sweep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = dataclasses.replace(completed(batch_size=7), cell="alone")
    kept(alone, tmp_path / "sweep" / "9")
    compare([sweep, "--by", "scenario"])
    assert "no counterpart: scenario=while_loop batch_size=7" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "the following arguments are required: PATH"),
        (["nowhere"], "nowhere: there is no such folder"),
        (["SWEEP", "--by", "bath_size"], "did you mean 'batch_size'"),
        (["SWEEP", "--metric", "peak_bytes"], "did you mean 'host_peak_bytes'"),
        (["SWEEP", "--baseline", "python_lop"], "did you mean 'python_loop'"),
        (["SWEEP", "--fail-on", "better"], "invalid choice: 'better'"),
        (["SWEEP", "--budget", "tensor_peak_byte=1MB"], "did you mean 'tensor_peak_bytes'"),
        (["SWEEP", "--budget", "tensor_peak_bytes=much"], "is not a valid amount"),
        (["SWEEP", "--tolerance", "5"], "is not a valid amount; write 1% or 64kB"),
        (["SWEEP", "--threshold", "5"], "write 5% or 0.05"),
        (["SWEEP", "--treshold", "5%"], "--treshold"),
        (["SWEEP", "SWEEP/../sweep"], "is named twice"),
        (["SWEEP/0"], "nothing to compare: one cell"),
        (["SWEEP", "--json", "--markdown"], "not allowed with"),
    ],
)
def test_bad_input_says_what_and_what_to_do(sweep: str, words: list[str], problem: str) -> None:
    with pytest.raises(BadInput) as raised:
        compare([word.replace("SWEEP", sweep) for word in words])
    assert problem in str(raised.value)
    assert raised.value.remedy


def test_help_is_answered_without_numpy() -> None:
    asked = (
        "import sys; from runner.commands import call\n"
        "try: call('compare', ['--help'])\n"
        "except SystemExit: print('numpy' in sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert found.stderr == "False\n"
    assert "--fail-on" in found.stdout
    assert "examples:" in found.stdout
