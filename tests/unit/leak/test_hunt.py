"""The search for a leak: which trials it takes, which remedies, and that it ends on request."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import pytest

from runner.cell import Cell, TrialSpec
from runner.compose import composition
from runner.engine.measure import measure
from runner.errors import Interrupted
from runner.leak import remedies
from runner.leak.findings import Holder, Leak
from runner.leak.hunt import LeakHunt, prepare_cell
from runner.records import Outcome, Status, Trial
from runner.script.words import to_overrides
from tests.runs import open_whole
from tests.unit.engine.conftest import Recorder, executor_on


def cell(folder: Path, *words: str) -> Cell:
    plan = composition.compose_plan([*words, "tracking=none"])
    return prepare_cell(plan.cells[0])


@pytest.mark.parametrize(
    ("phase", "status", "left"),
    [
        ("steps", Status.OUT_OF_MEMORY, ["host"]),
        ("release", Status.TIMED_OUT, ["host"]),
        ("build", Status.OUT_OF_MEMORY, []),
        ("steps", Status.FAILED, []),
    ],
)
def test_a_trial_that_what_grows_may_have_ended_leaves_the_host_trial_to_say_what(
    tmp_path: Path, phase: str, status: Status, left: list[str]
) -> None:
    wanted = cell(tmp_path, "scenario=python_loop", "measure.memory_processes=0")
    run = open_whole(wanted, tmp_path / "run", settles_peak=False)
    ended = Outcome(status, phase, "it is so")
    run.add_trial(Trial("timing", 0, ended))
    assert [*run.count_missing().elements()] == left
    assert run.outcome == ended
    again = open_whole(wanted, tmp_path / "run", settles_peak=False)
    assert (again.next is not None) == bool(left)
    if again.next:
        again.add_trial(Trial("host", 0, Outcome(Status.FAILED, "steps", "no")))
        assert (again.next, again.outcome) == (None, ended)


def test_jit_compile_is_tried_off_where_the_scenario_has_it_on(tmp_path: Path) -> None:
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    tried = remedies.list_remedies(cell(tmp_path, "scenario=model_per_step_xla"), grows)
    assert ("scenario.jit_compile=false",) in [each.words for each in tried]


def test_a_remedy_that_is_in_force_already_is_not_tried(tmp_path: Path) -> None:
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    plain = [
        each.words for each in remedies.list_remedies(cell(tmp_path, "scenario=retracing"), grows)
    ]
    collected = cell(tmp_path, "scenario=retracing", "measure.between_steps=gc_collect")
    tried = [each.words for each in remedies.list_remedies(collected, grows)]
    assert plain == [("measure.between_steps=gc_collect",), *tried]


@pytest.mark.parametrize(
    ("kind", "is_held", "is_tried"),
    [("python", False, False), ("native", False, True), ("tensor", False, True),
     ("tensor", True, False)],
)  # fmt: skip
def test_a_graph_is_no_remedy_for_python_that_it_would_run_once(
    kind: str, is_held: bool, is_tried: bool, tmp_path: Path
) -> None:
    kept = Holder(kind, 5000.0, 1.0, "a.py", 3, is_held=is_held)
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0, holders=(kept,))
    tried = remedies.list_remedies(cell(tmp_path, "scenario=python_loop"), grows)
    assert (("execution=graph",) in [each.words for each in tried]) == is_tried


def test_a_trial_with_a_remedy_has_a_few_times_what_one_without_it_took(tmp_path: Path) -> None:
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    first = cell(tmp_path, "scenario=python_loop", "measure.timeout_seconds=300")
    remedy = remedies.list_remedies(first, grows)[0]
    deadlines = [
        remedies.apply_remedy(first, remedy, grows, longest).experiment.measure.timeout_seconds
        for longest in (1.0, 33.0, 200.0)
    ]
    assert deadlines == [60, 132, 300]


@pytest.mark.parametrize(
    "words",
    [
        [
            "scenario=python_loop",
            "execution=eager",
            "measure.between_steps=nothing",
            "batch_size=3",
        ],
        ["-m", "scenario=python_loop", "execution=eager,graph", "batch_size=3"],
        ["experiment=reported", "scenario=model_per_step_xla"],
    ],
)
def test_the_command_of_a_remedy_is_taken_as_it_is_printed(
    tmp_path: Path, words: list[str]
) -> None:
    first = composition.compose_plan(words).cells[0]
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    for remedy in remedies.list_remedies(first, grows):
        printed = shlex.split(remedies.write_command(first, remedy))
        assert printed[:4] == ["python", "-m", "runner", "leak"]
        (repeated,) = composition.compose_plan(printed[4:]).cells
        wanted = remedies.apply_remedy(first, remedy, grows, 10.0)
        assert set(remedy.words) <= {word.lower() for word in repeated.overrides}
        assert repeated.experiment.batch_size == wanted.experiment.batch_size
        assert repeated.experiment.execution == wanted.experiment.execution


@pytest.mark.parametrize("script", [["serve.py"], ["-m", "serve", "--port", "0", "a b", "{seed}"]])
def test_the_command_of_a_remedy_names_a_script_as_its_user_did(
    tmp_path: Path, script: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "serve.py").write_text("import tensorflow as tf\n")
    monkeypatch.chdir(tmp_path)
    first = composition.compose_plan(to_overrides(["seed=3", *script])).cells[0]
    grows = Leak("grows", "grows", None, 5000.0, None, 5000.0)
    for remedy in remedies.list_remedies(first, grows):
        printed = shlex.split(remedies.write_command(first, remedy))
        assert printed == [*["python", "-m", "runner", "leak", "seed=3"], *remedy.words, *script]
        again = composition.compose_plan(to_overrides(printed[4:])).cells[0].experiment
        assert again.parameters == first.experiment.parameters


@pytest.mark.parametrize(
    ("said", "step"), [([], "likeliest"), (["scenario.step=serve:f"], "serve:f")]
)
def test_the_step_of_a_script_is_sought_unless_the_user_names_it(
    tmp_path: Path, said: list[str], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "serve.py").write_text("import tensorflow as tf\n")
    monkeypatch.chdir(tmp_path)
    first = composition.compose_plan(to_overrides([*said, "serve.py"])).cells[0]
    assert prepare_cell(first).experiment.parameters["step"] == step


def test_an_interrupted_run_ends_the_search_and_no_remedy_is_tried(tmp_path: Path) -> None:
    def stop(_: TrialSpec) -> None:
        raise Interrupted(signal.SIGINT)

    server = Recorder(stop)
    plan = composition.compose_plan(["-m", "scenario=python_loop", "batch_size=1,2"])
    hunt = LeakHunt(plan, tmp_path / "leak")
    result = measure(hunt, tmp_path / "leak", executor_on(server))
    assert result.exit_code == 130
    assert len(server.asked) == 1
    assert hunt.leaks == {}


def test_what_is_known_is_shown_and_stands_when_it_is_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(spec: TrialSpec) -> None:
        if spec.kind == "host":
            raise Interrupted(signal.SIGINT)

    plan = composition.compose_plan(["scenario=python_loop"])
    hunt = LeakHunt(plan, tmp_path / "leak")
    result = measure(hunt, tmp_path / "leak", executor_on(Recorder(stop)), [hunt])
    assert result.exit_code == 130
    (leak,) = hunt.leaks.values()
    assert leak.verdict == "unclear"
    assert leak.seen.endswith(" timed")
    assert capsys.readouterr().err.count("python_loop so far: unclear: ") == 1
