"""The product as a user starts it: bad input, interruption, and what a good run leaves behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runner import places, records
from runner.composing import composition
from runner.verbs import names as verbs
from tests.conftest import Cli

ENDLESS = ("scenario=python_loop", "scenario.iterations=2000000000", "tracking=none")

BAD_INPUT = {
    "unknown scenario": (["scenario=whle_loop"], "did you mean 'while_loop'"),
    "no scenario": ([], "no scenario was chosen"),
    "unknown field": (["scenario=while_loop", "scenario.iteratons=3"], "mean 'iterations'"),
    "a saved configuration": (["--config-name", "config"], "`python -m runner again PATH`"),
    "unknown group": (["scnario=while_loop"], "did you mean 'scenario'"),
    "unknown choice": (["scenario=while_loop", "device=gpo"], "did you mean 'gpu'"),
    "unknown parameter value": (["scenario=python_loop", "scenario.gradient=tap"], "mean 'tape'"),
    "no choice": (["scenario=null"], "there is no scenario of that name"),
    "no choice in a sweep": (["-m", "scenario=python_loop", "device=cpu,null"], "no device of"),
    "another class": (["scenario=while_loop", "scenario._target_=os.system"], "YAML file's to say"),
    "another name": (["scenario=while_loop", "measure.name=exact"], "Say measure=NAME"),
    "unknown op": (["scenario=op_allocation", "scenario.op=tnh"], "did you mean 'tanh'"),
    "unknown example": (["scenario=document_example", "scenario.example=a"], "is no example"),
    "unknown flag of a verb": (["list", "--jsn"], "list: unrecognized arguments: --jsn"),
    "words on both sides of a flag": (["list", "device", "--json", "scenaro"], "mean 'scenario'"),
    "a list for a mapping": (
        ["scenario=callable", "scenario.target=os:getcwd", "scenario.arguments=[1]"],
        "scenario.arguments: can't be [1]",
    ),
    "a server's address without one": (["scenario=while_loop", "tracking.uri=foo"], "as well"),
    "no address of a server": (
        ["scenario=while_loop", "tracking=server", "tracking.uri=foo"],
        "is not a valid address of an MLflow server",
    ),
    "a password in an address": (
        ["scenario=while_loop", "tracking=server", "tracking.uri='http://me:hush@host:5000'"],
        "MLFLOW_TRACKING_PASSWORD",
    ),
    "a token in an address": (
        ["-m", "scenario=while_loop", "tracking=server", "tracking.uri='http://host/?t=hush'"],
        "MLFLOW_TRACKING_PASSWORD",
    ),
    "a password for nobody": (
        ["scenario=while_loop", "tracking.uri='http://me:hush@host:5000'"],
        "MLFLOW_TRACKING_PASSWORD",
    ),
    "a password for a verb": (
        ["publish", ".", "tracking=server", "tracking.uri=http://me:hush@host:5000"],
        "MLFLOW_TRACKING_PASSWORD",
    ),
    "every address of the machine": (["ui", "--host", ""], "names no address"),
    "a number for a group": (["scenario=while_loop", "device=0"], "no device of that name"),
    "a truth for a group": (["scenario=true"], "no scenario of that name"),
    "a mapping for a group": (["scenario=while_loop", "measure={}"], "no measure of that name"),
    "a list for a group": (["scenario=while_loop", "execution=[]"], "no execution of that name"),
    "a file of another group": (["experiment=../measure/quick"], "no experiment of that name"),
    "a grid without end": (["-m", "scenario=tape", "seed=range(1,3,0)"], "goes on without end"),
    "a grid too large": (["-m", "scenario=tape", "seed=range(1,1e9)"], "999,999,999 cells"),
    "a grid too large in all": (
        ["-m", "scenario=tape", "seed=range(0,1000)", "batch_size=range(1,1001)"],
        "1,000,000 cells",
    ),
    "a grid in batches of none": (
        ["-m", "scenario=tape", "hydra.sweeper.max_batch_size=0"],
        "is not a number of cells",
    ),
    "nesting without end": (["scenario=tape", "seed=" + "[" * 900], "is nested too deeply"),
    "one run told of many": (["-m", "scenario=tape", "--cfg", "job"], "tell of one run"),
    "one run told of a search": (
        ["fit", "vary=batch_size", "scenario=tape", "--cfg", "job"],
        "tell of one run",
    ),
    "two ways to run": (["--run", "-m", "scenario=tape"], "is what is done without -m"),
    "no truth for a claim's group": (["claims", "device=NaN"], "no device of that name"),
    "no sweeper of that name": (["-m", "scenario=tape", "hydra/sweeper=optuna2"], "is: basic"),
    "a search for what there is not": (
        ["-m", "hydra/sweeper=optuna", "scenario=tape", "search.objectives=[tensor_peek_bytes]"],
        "did you mean 'tensor_peak_bytes'",
    ),
    "a search within a fit": (
        [
            *("fit", "vary=batch_size", "scenario=tape", "hydra/sweeper=optuna"),
            *("device.memory_limit_mb=64", "search.objectives=[tensor_peak_bytes]"),
        ],
        "a fit searches in its own way",
    ),
    "a variable that is not set": (
        ["scenario=tape", "batch_size='${oc.env:RUNNER_UNSET}'"],
        "no variable RUNNER_UNSET",
    ),
    "a name too long": (["report", "x" * 5000], "File name too long"),
    "no launcher": (["-m", "scenario=tape", "hydra/launcher=null"], "no hydra/launcher of that"),
    "no sweeper": (["-m", "scenario=tape", "hydra.sweeper=null"], "can't be null"),
    "an unset variable": (["-m", "scenario=tape", "resume="], "resume: names nothing"),
    "Hydra's completion": (
        ["--shell-completion", "install=bash"],
        "`python -m runner completion --help`",
    ),
    "a flag that goes with another": (["--resolve", "scenario=tape"], "It goes with --cfg job"),
    "a place of Hydra's": (["scenario=tape", "hydra.output_subdir=x"], "is the runner's to say"),
    "logs of Hydra's": (["scenario=tape", "hydra/job_logging=default"], "is the runner's to say"),
    "a claim's setting twice": (["claims", "seed=1", "seed=2"], "seed: said twice"),
    "added field": (["scenario=while_loop", "+scenario.foo=1"], "scenario.foo"),
    "added group": (["scenario=while_loop", "+foo=1"], "foo"),
    "batch_size=0": (["scenario=while_loop", "batch_size=0"], "out of range"),
    "batch_size=-1": (["scenario=while_loop", "batch_size=-1"], "out of range"),
    "batch_size=abc": (["scenario=while_loop", "batch_size=abc"], "not a whole number"),
    "batch_size=1e9999": (["scenario=while_loop", "batch_size=1e9999"], "not a whole number"),
    "batch_size empty": (["scenario=while_loop", "batch_size="], "not a whole number"),
    "said twice": (["scenario=while_loop", "seed=1", "seed=2"], "said twice"),
    "missing =": (["scenario=while_loop", "device"], "needs a '='"),
    "misspelt verb": (["lst"], "did you mean 'list'"),
    "verb after overrides": (["scenario=while_loop", "list"], "needs a '='"),
    "unsupported execution": (["scenario=numpy_loop", "execution=graph"], "it has: eager"),
    "unreadable value": (["scenario=while_loop", "batch_size=[1"], "can't be read"),
    "unknown interpolation": (["scenario=while_loop", "seed=${nope}"], "nope"),
    "unknown flag": (["scenario=while_loop", "--fast"], "no such flag"),
    "a group as a flag": (["--scenario", "while_loop"], "Write scenario=VALUE, without dashes"),
    "a field without its group": (["scenario=tape", "width=3"], "Write scenario.width=VALUE"),
    "a number with a unit": (
        ["scenario=tape", "device.memory_limit_mb=1GB"],
        "write device.memory_limit_mb=1024",
    ),
    "a range of another grammar": (
        ["scenario=tape", "batch_size=1..4"],
        "-m 'batch_size=range(1,5)'",
    ),
    "a plus too many": (["+experiment=loops"], "Write experiment=NAME, without the +"),
    "a file for a module": (
        ["scenario=callable", "scenario.target=there/mine.py:step"],
        "Say scenario.target=there.mine:step",
    ),
    "a part of metrics' names": (["compare", "/", "--metric", "peak"], "mean 'allocator_peak"),
    "a number that only YAML knows": (["claims", "seed=0x10"], "not a whole number"),
    "several values without -m": (["scenario=python_loop,while_loop"], "-m"),
    "bad cell in a sweep": (["-m", "scenario=python_loop", "batch_size=1,0"], "out of range"),
    "foreign parameter in a sweep": (
        ["-m", "scenario=python_loop,numpy_loop", "scenario.gradient=none,tape"],
        "scenario.gradient",
    ),
    "resume without a sweep": (["scenario=while_loop", "resume=latest"], "only a sweep"),
    "resume with none to resume": (["-m", "scenario=while_loop", "resume=latest"], "no sweep yet"),
    "unknown group in list": (["list", "scenaro"], "did you mean 'scenario'"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_message_exit_code_2_and_nothing_written(
    case: str, cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    words, says = BAD_INPUT[case]
    done = cli(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("runner: ")
    assert len(done.stderr.strip().splitlines()) == 2, "what and where; what to do"
    assert "Traceback" not in done.stderr
    assert "hush" not in done.stderr, "what may be a secret is not repeated"
    assert not outputs.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [["scenario=while_loop"], ["-m", "scenario=while_loop"], ["claims", "000-03"]],
    ids=["a run", "a sweep", "claims"],
)
def test_a_place_for_results_that_cannot_be_made_is_bad_input(
    words: list[str], cli: Cli, outputs: Path
) -> None:
    outputs.write_text("a file stands there")
    done = cli(*words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"runner: {outputs}")
    assert "RUNNER_OUTPUTS" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("size: [1\n", "line 2"),
        ("_target_: scenarios.nowhere.Thing\n", "can't be imported"),
        ("_target_: scenarios.loops.Nothing\n", "can't be imported"),
        ("_target_: scenarios.loops.annotations\n", "is not a scenario"),
        ("_target_: tests.scenarios.unreadable.Thing\n", "unreadable.py:6)"),
        ("size: 3\n", "has no _target_"),
        ("just text\n", "scenario"),
        ("_target_: scenarios.loops.NumpyLoop\nsize: 3\n", "scenario.iterations: has no value"),
    ],
)
def test_a_scenario_file_that_cannot_be_used_is_bad_input(
    text: str, says: str, cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "conf" / "scenario"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(text)
    done = cli("--config-dir", str(tmp_path / "conf"), "scenario=mine")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not outputs.exists()


def test_bad_input_is_answered_without_loading_what_only_a_measurement_needs() -> None:
    code = (
        "import sys; from runner.__main__ import main\n"
        "code = main(['scenario=while_loop', 'batch_size=0'])\n"
        "print(*{'tensorflow', 'numpy', 'pandas', 'mlflow'} & {*sys.modules})\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "\n")


@pytest.mark.parametrize("verb", ["", *verbs()])
def test_help_is_given_by_every_verb(verb: str, cli: Cli) -> None:
    done = cli(*filter(None, [verb]), "--help")
    assert done.returncode == 0
    assert "python -m runner" in done.stdout


def test_list_names_every_file_of_every_group(cli: Cli) -> None:
    listed = json.loads(cli("list", "--json").stdout)
    for group, names in listed.items():
        assert sorted(names) == sorted(path.stem for path in (places.conf() / group).glob("*.yaml"))
        assert all(names.values()), f"each {group} says in its header what it is"
    lines = cli("list").stdout.splitlines()
    assert len(lines) == sum(len(names) for names in listed.values())


def test_a_run_leaves_record_trials_config_and_log(cli: Cli, outputs: Path, tmp_path: Path) -> None:
    done = cli("scenario=while_loop", "tracking=none", cwd=tmp_path)
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
    assert record.spec["execution"] == "graph", "while_loop's natural execution"
    assert str(record.metrics["tensor_peak_bytes"]).isdigit()
    assert all(name in record.metrics for name in ("step_seconds", "host_peak_bytes"))
    assert set(record.unavailable) == {
        name for name, value in record.metrics.items() if value is None
    }
    assert list(tmp_path.iterdir()) == [outputs], "nothing lands where the user stands"


def test_the_cell_does_not_depend_on_where_its_record_goes(cli: Cli, outputs: Path) -> None:
    cli("scenario=numpy_loop", "tracking=none")
    cli("scenario=numpy_loop", "tracking=local")
    cli("scenario=numpy_loop", "tracking=none", "seed=1")
    cells = [records.read(folder).cell for folder in sorted((outputs / "runs").glob("*/*"))]
    assert cells[0] == cells[1] != cells[2]


def _start(words: tuple[str, ...], outputs: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
    )
    parent = psutil.Process(process.pid)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # until the server has forked a child
        if any(each.ppid() != process.pid for each in parent.children(recursive=True)):
            return process
        time.sleep(0.1)
    raise AssertionError("no trial was started")


def _family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_all_processes_and_keeps_what_is_finished(
    number: signal.Signals, code: int, outputs: Path
) -> None:
    process = _start(ENDLESS, outputs)
    family = _family(process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    (folder,) = (outputs / "runs").glob("*/*")
    assert records.read(folder).outcome.status == "interrupted"


def test_after_a_sigkill_of_the_parent_neither_server_nor_child_lives_on(outputs: Path) -> None:
    process = _start((*ENDLESS[:2], "tracking=local"), outputs)
    family = _family(process)
    assert len(family) >= 3, "server, child, tracking store"
    process.kill()
    process.communicate(timeout=30)
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_a_sweep_is_planned_leaves_nothing(
    outputs: Path, number: int, code: int
) -> None:
    words = ["-m", "scenario=tape", "tracking=none", "seed=range(0,5000)"]
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(outputs.glob("sweeps/*/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.startswith("runner: stopped by ")
    assert not list(outputs.glob("sweeps"))


def test_a_wrong_value_in_a_large_sweep_is_answered_at_its_first_cell(outputs: Path) -> None:
    words = ["-m", "scenario=tape", "device.memory_limit_mb=-1", "seed=range(0,200)"]
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, "-m", "runner", *words],
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "device.memory_limit_mb: -1 is out of range" in done.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - started < 5
    assert not list(outputs.glob("*"))


def test_a_pipe_ends_with_the_run_though_the_code_left_a_daemon_behind(
    outputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "leaves.py").write_text(
        "import subprocess, sys\n"
        "def daemon():\n"
        "    nap = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "    subprocess.Popen(nap, start_new_session=True, close_fds=False)\n"
        "    return lambda: None\n"
    )
    line = (
        f"{sys.executable} -m runner scenario=callable scenario.target=leaves:daemon "
        "tracking=none 2>&1 | cat"
    )
    done = subprocess.run(
        line,
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs), "PYTHONPATH": str(places.project())},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "record.json" in done.stdout  # it is there, and the pipe has ended


def test_ctrl_c_while_tensorflow_loads_leaves_no_folder(outputs: Path, tmp_path: Path) -> None:
    temporary = tmp_path / ("temporary" * 12)  # too long for the path of a socket
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", *ENDLESS],
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(outputs.glob("runs/*/*/*.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)  # of the four seconds and more that TensorFlow takes
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    assert not list(temporary.glob("runner-trial-*"))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for a log and a trial, and not for a record as well."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_one_message_that_says_what_is_kept_and_how_to_go_on(
    full_disk: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runner", "scenario=tensor_per_step", "tracking=none"],
        env={**os.environ, "RUNNER_OUTPUTS": str(full_disk)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "the disk is full; every trial that had ended before is kept" in done.stderr
    assert "Make room, then go on" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_fails_exits_1_and_says_where_its_log_is(cli: Cli, outputs: Path) -> None:
    done = cli(*ENDLESS, "measure.timeout_seconds=1")
    assert done.returncode == 1
    assert "timed out in first_call" in done.stdout
    assert "run.log" in done.stdout
    (folder,) = (outputs / "runs").glob("*/*")
    record = records.read(folder)
    assert record.outcome.status == "timed_out"
    assert record.metrics["tensor_peak_bytes"] is None
    assert "deadline" in record.unavailable["tensor_peak_bytes"]


def test_a_parameter_said_once_holds_for_every_scenario_of_a_sweep(tmp_path: Path) -> None:
    words = ["-m", "scenario=python_loop,while_loop", "scenario.gradient=tape", "batch_size=3,5"]
    plan = composition.plan(words, tmp_path / "sweep")
    assert [cell.experiment.parameters["gradient"] for cell in plan.cells] == ["tape"] * 4
    assert plan.swept == ("scenario", "batch_size")


def test_a_whole_mapping_that_is_swept_is_swept_entry_by_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wide.py").write_text("def step(width, deep): ...")
    words = ["-m", "scenario=callable", "scenario.target=wide:step"]
    both = "scenario.arguments={width:64,deep:2},{width:256,deep:2}"
    plan = composition.plan([*words, both], tmp_path / "sweep")
    assert plan.swept == ("scenario.arguments.width",)
    assert [cell.said["scenario.arguments.width"] for cell in plan.cells] == ["64", "256"]


def test_tensorflow_loads_while_the_words_are_read_and_bad_words_leave_no_process(
    tmp_path: Path,
) -> None:
    code = """
import os, sys
from runner.composing import composition
from runner.isolation import server
from runner.__main__ import main
began, plan = [], composition.plan
def planned(*words):
    began.append(server._server_pid())
    return plan(*words)
composition.plan = planned
code = main(["scenario=while_loop", "batch_size=0"])
print(code, [os.path.exists(f"/proc/{pid}") for pid in began])
"""
    environment = {**os.environ, "RUNNER_OUTPUTS": str(tmp_path / "outputs")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["2", "[False]"], done.stderr
    assert not (tmp_path / "outputs").exists()
