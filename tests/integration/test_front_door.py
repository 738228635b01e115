"""The front door: a handful of real command lines, and what a run leaves behind."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner import records
from runner.render.text import progress
from tests.conftest import Cli

ENDLESS = ("scenario=python_loop", "scenario.iterations=2000000000", "tracking=none")

REFUSED = {
    "a run": (["scenario=while_loop", "batch_size=0"], "out of range"),
    "a sweep": (["-m", "scenario=python_loop", "batch_size=1,0"], "out of range"),
    "a mistyped verb": (["lst"], "did you mean 'list'"),
    "a verb's flag": (["list", "--jsn"], "list: unrecognized arguments: --jsn"),
    "a verb's words": (["claims", "seed=0x10"], "not a whole number"),
    "a verb that measures": (["leak", "scenario=nothing"], "no scenario of that name"),
}
"""A handful of real command lines; all others are refused in `tests/unit/test_front_door.py`."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_command_line_is_refused_in_one_message(
    case: str, cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    words, says = REFUSED[case]
    done = cli(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("runner: ")
    assert len(done.stderr.strip().splitlines()) == 2, "what and where; what to do"
    assert not outputs.exists()
    assert list(tmp_path.iterdir()) == []


HEAVY = {"tensorflow", "numpy", "pandas", "mlflow"}


@pytest.mark.parametrize(
    ("words", "code", "unneeded"),
    [
        (["scenario=while_loop", "batch_size=0"], 2, HEAVY),
        (["leak", "scenario=while_loop", "batch_size=0"], 2, HEAVY),
        (["fit", "vary=batchsize", "scenario=tape", "device.memory_limit_mb=64"], 2, HEAVY),
        (["lst"], 2, {*HEAVY, "hydra", "omegaconf"}),
        (["leak", "--help"], 0, {*HEAVY, "hydra", "omegaconf"}),
    ],
)
def test_an_answer_loads_nothing_that_only_a_measurement_needs(
    words: list[str], code: int, unneeded: set[str]
) -> None:
    script = (
        "import sys; from runner.__main__ import main\n"
        "try: code = main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert done.returncode == code
    assert unneeded.isdisjoint(done.stderr.splitlines()[-1].split())


def test_a_run_leaves_record_trials_config_and_log(
    warm_cli: Cli, outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QUIET_SECONDS", "WAITING_SECONDS"):  # a busy machine has to say how far it is
        monkeypatch.setattr(progress, name, math.inf)
    done = warm_cli("scenario=while_loop", "tracking=none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout, "piped output holds no control codes"
    (folder,) = (outputs / "runs").glob("*/*")
    assert {path.name for path in folder.iterdir()} == {
        *("record.json", "trials.jsonl", "config.yaml", "run.log"),
        *("timeline.json", "allocations.folded", "allocations.csv"),
    }
    record = records.read(folder)
    assert record.outcome.completed
    kinds = [trial.kind for trial in record.trials]
    assert kinds[-4:] == ["memory", "timing", "timing", "timing"]
    assert set(kinds[:-3]) == {"memory"}, "a graph's peak takes several to be known"
    assert record.spec.execution == "graph", "while_loop's natural execution"
    assert str(record.metrics["tensor_peak_bytes"]).isdigit()
    assert all(name in record.metrics for name in ("step_seconds", "host_peak_bytes"))
    assert set(record.unavailable) == {
        name for name, value in record.metrics.items() if value is None
    }
    assert list(tmp_path.iterdir()) == [outputs], "nothing lands where the user stands"


def test_the_cell_does_not_depend_on_where_its_record_goes(warm_cli: Cli, outputs: Path) -> None:
    words = ("scenario=numpy_loop", "measure.timing_processes=1", "measure.host_processes=0")
    warm_cli(*words, "tracking=none")
    warm_cli(*words, "tracking=local")
    warm_cli(*words, "tracking=none", "seed=1")
    cells = [records.read(folder).cell for folder in sorted((outputs / "runs").glob("*/*"))]
    assert cells[0] == cells[1] != cells[2]


@pytest.mark.parametrize("is_sweep", [False, True])
def test_json_is_each_cells_record_with_its_folder(
    warm_cli: Cli, tmp_path: Path, is_sweep: bool
) -> None:
    (tmp_path / "ones.py").write_text("import tensorflow as tf\nx = tf.ones([10])\n")
    words = ["measure.timing_processes=0", "measure.host_processes=0", "tracking=none", "--json"]
    if is_sweep:
        words += ["-m", "scenario=numpy_loop,tape", "execution=eager"]
    else:
        words = ["script", *words, "ones.py"]
    done = warm_cli(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, list) is is_sweep
    for row in told if is_sweep else [told]:
        whole = json.loads((Path(row.pop("folder")) / "record.json").read_text())
        assert row == {name: whole[name] for name in whole if name in row}
        assert set(whole) - set(row) == {"trials", "allocations"}


def test_a_run_that_fails_exits_1_and_says_where_its_log_is(warm_cli: Cli, outputs: Path) -> None:
    done = warm_cli(*ENDLESS, "measure.timeout_seconds=1")
    assert done.returncode == 1
    assert "timed out in first_call" in done.stdout
    assert "run.log" in done.stdout
    (folder,) = (outputs / "runs").glob("*/*")
    record = records.read(folder)
    assert record.outcome.status == "timed_out"
    assert record.metrics["tensor_peak_bytes"] is None
    assert "deadline" in record.unavailable["tensor_peak_bytes"]


def test_tensorflow_loads_while_the_words_are_read_and_bad_words_leave_no_process(
    tmp_path: Path,
) -> None:
    code = """
import os, sys
from runner.compose import composition
from runner.processes import process_tree
from runner.__main__ import main
began, plan = [], composition.compose_plan
def planned(*words):
    began.extend(process_tree.list_children(os.getpid()))
    return plan(*words)
composition.compose_plan = planned
code = main(["scenario=while_loop", "batch_size=0"])
print(code, [os.path.exists(f"/proc/{pid}") for pid in began])
"""
    environment = {**os.environ, "RUNNER_OUTPUTS": str(tmp_path / "outputs")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["2", "[False]"], done.stderr
    assert not (tmp_path / "outputs").exists()
