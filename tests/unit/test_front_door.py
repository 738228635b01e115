"""Words that start no trial, answered in this process: what is refused, and what is only told."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runner import paths
from runner.commands import list_verbs
from runner.compose import composition
from tests.conftest import Cli

BAD_INPUT = {
    "unknown scenario": (["scenario=whle_loop"], "did you mean 'while_loop'"),
    "no name": (["=while_loop"], "=while_loop: has no name before the '='"),
    "a line of its own": (["scenario=while_loop\n"], r"scenario=while_loop\n can't be read"),
    "no scenario": ([], "no scenario was chosen"),
    "unknown field": (["scenario=while_loop", "scenario.iteratons=3"], "mean 'iterations'"),
    "a saved configuration": (["--config-name", "config"], "`python -m runner again PATH`"),
    "unknown group": (["scnario=while_loop"], "did you mean 'scenario'"),
    "unknown choice": (["scenario=while_loop", "device=gpo"], "did you mean 'gpu'"),
    "unknown parameter value": (["scenario=python_loop", "scenario.gradient=tap"], "mean 'tape'"),
    "no choice": (["scenario=null"], "there is no scenario of that name"),
    "no choice in a sweep": (["-m", "scenario=python_loop", "device=cpu,null"], "no device of"),
    "another class": (["scenario=while_loop", "scenario._target_=os.system"], "by its YAML file"),
    "another name": (["scenario=while_loop", "measure.name=exact"], "Say measure=NAME"),
    "unknown op": (["scenario=op_allocation", "scenario.op=tnh"], "did you mean 'tanh'"),
    "unknown example": (["scenario=document_example", "scenario.example=a"], "is no example"),
    "unknown flag of a verb": (["list", "--jsn"], "list: unrecognized arguments: --jsn"),
    "words on both sides of a flag": (["list", "device", "--json", "scenaro"], "mean 'scenario'"),
    "a list for a mapping": (
        ["scenario=callable", "scenario.target=os:getcwd", "scenario.arguments=[1]"],
        "scenario.arguments can't be [1]",
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
    "a port without end": (["ui", "--port", "9" * 5000], "is not a port"),
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
    "one run told of many": (["-m", "scenario=tape", "--cfg", "job"], "show one run"),
    "one run told of a search": (
        ["fit", "vary=batch_size", "scenario=tape", "--cfg", "job"],
        "show one run",
    ),
    "two ways to run": (["--run", "-m", "scenario=tape"], "A command without -m is one run"),
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
        "fit chooses its cells itself",
    ),
    "a variable that is not set": (
        ["scenario=tape", "batch_size='${oc.env:RUNNER_UNSET}'"],
        "no variable RUNNER_UNSET",
    ),
    "a name too long": (["report", "x" * 5000], "File name too long"),
    "no launcher": (["-m", "scenario=tape", "hydra/launcher=null"], "no hydra/launcher of that"),
    "no sweeper": (["-m", "scenario=tape", "hydra.sweeper=null"], "can't be null"),
    "an unset variable": (["-m", "scenario=tape", "resume="], "resume names nothing"),
    "Hydra's completion": (
        ["--shell-completion", "install=bash"],
        "`python -m runner completion --help`",
    ),
    "a flag that goes with another": (["--resolve", "scenario=tape"], "It goes with --cfg job"),
    "a place of Hydra's": (["scenario=tape", "hydra.output_subdir=x"], "is set by the runner"),
    "logs of Hydra's": (["scenario=tape", "hydra/job_logging=default"], "is set by the runner"),
    "a claim's setting twice": (["claims", "seed=1", "seed=2"], "seed is given twice"),
    "added field": (["scenario=while_loop", "+scenario.foo=1"], "scenario.foo"),
    "added group": (["scenario=while_loop", "+foo=1"], "foo"),
    "batch_size=0": (["scenario=while_loop", "batch_size=0"], "out of range"),
    "batch_size=-1": (["scenario=while_loop", "batch_size=-1"], "out of range"),
    "batch_size=abc": (["scenario=while_loop", "batch_size=abc"], "not a whole number"),
    "batch_size=1e9999": (["scenario=while_loop", "batch_size=1e9999"], "not a whole number"),
    "batch_size empty": (["scenario=while_loop", "batch_size="], "not a whole number"),
    "said twice": (["scenario=while_loop", "seed=1", "seed=2"], "seed is given twice"),
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
    "a function of Python's own": (
        ["scenario=callable", "scenario.target=os:system"],
        "os:system needs 'command'",
    ),
    "a name that Python's own lacks": (
        ["scenario=callable", "scenario.target=os:sytem"],
        "did you mean 'system'",
    ),
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
    case: str, front_door: Cli, outputs: Path, tmp_path: Path
) -> None:
    words, says = BAD_INPUT[case]
    done = front_door(*words, cwd=tmp_path)
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
    words: list[str], front_door: Cli, outputs: Path
) -> None:
    outputs.write_text("a file stands there")
    done = front_door(*words)
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
        ("_target_: tests.integration.scenarios.unreadable.Thing\n", "unreadable.py:6)"),
        ("size: 3\n", "has no _target_"),
        ("just text\n", "scenario"),
        ("_target_: scenarios.loops.NumpyLoop\nsize: 3\n", "scenario.iterations: has no value"),
    ],
)
def test_a_scenario_file_that_cannot_be_used_is_bad_input(
    text: str, says: str, front_door: Cli, outputs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "conf" / "scenario"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(text)
    done = front_door("--config-dir", str(tmp_path / "conf"), "scenario=mine")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not outputs.exists()


@pytest.mark.parametrize("verb", ["", *list_verbs()])
def test_help_is_given_by_every_verb(verb: str, front_door: Cli) -> None:
    done = front_door(*filter(None, [verb]), "--help")
    assert done.returncode == 0
    assert "python -m runner" in done.stdout


def test_list_names_every_file_of_every_group(front_door: Cli) -> None:
    listed = json.loads(front_door("list", "--json").stdout)
    for group, names in listed.items():
        assert sorted(names) == sorted(
            path.stem for path in (paths.find_conf() / group).glob("*.yaml")
        )
        assert all(names.values()), f"each {group} says in its header what it is"
    lines = front_door("list").stdout.splitlines()
    assert len(lines) == sum(len(names) for names in listed.values())


def test_a_wrong_value_in_a_large_sweep_is_answered_at_its_first_cell(
    front_door: Cli, outputs: Path
) -> None:
    started = time.process_time()
    done = front_door("-m", "scenario=tape", "device.memory_limit_mb=-1", "seed=range(0,200)")
    assert (done.returncode, done.stdout) == (2, "")
    assert "device.memory_limit_mb: -1 is out of range" in done.stderr
    assert time.process_time() - started < 5
    assert not list(outputs.glob("*"))


def test_a_parameter_said_once_holds_for_every_scenario_of_a_sweep(tmp_path: Path) -> None:
    words = ["-m", "scenario=python_loop,while_loop", "scenario.gradient=tape", "batch_size=3,5"]
    plan = composition.compose_plan(words)
    assert [cell.experiment.parameters["gradient"] for cell in plan.cells] == ["tape"] * 4
    assert plan.swept == ("scenario", "batch_size")


def test_a_whole_mapping_that_is_swept_is_swept_entry_by_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wide.py").write_text("def step(width, deep): ...")
    words = ["-m", "scenario=callable", "scenario.target=wide:step"]
    both = "scenario.arguments={width:64,deep:2},{width:256,deep:2}"
    plan = composition.compose_plan([*words, both])
    assert plan.swept == ("scenario.arguments.width",)
    assert [cell.said["scenario.arguments.width"] for cell in plan.cells] == ["64", "256"]
