"""Every way that a child can end, done for real, is an outcome with phase and reason."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import replace
from multiprocessing import Pipe, forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.config import Experiment
from runner.errors import Interrupted
from runner.isolation import server as isolation
from runner.isolation.server import Server
from runner.plan import Assignment
from runner.records import Status
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED, RunScenario
from tests.isolation.faults import EndTheServer, Fault, Spike
from tests.isolation.probes import IsThere, Modules, TakesLongToLeave

PHASES = ("build", "first_call", "steps")


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_trial_that_ends_well_is_completed(run_scenario: RunScenario) -> None:
    trial = run_scenario(Fault("none", "build"))
    assert trial.outcome.completed
    assert set(trial.phases) == {"build", "first_call", "steps", "release"}
    assert len(trial.steps["seconds"]) == BRIEF.warmup_steps + BRIEF.steps


@pytest.mark.parametrize("kind", ["timing", "memory"])
@pytest.mark.parametrize("phase", PHASES)
def test_an_exception_is_a_failure_that_points_at_its_line(
    run_scenario: RunScenario, phase: str, kind: str
) -> None:
    outcome = run_scenario(Fault("exception", phase), kind).outcome
    assert (outcome.status, outcome.phase) == (Status.FAILED, phase)
    assert outcome.reason is not None
    assert "IndexError: list index out of range" in outcome.reason
    assert "faults.py:" in outcome.reason


@pytest.mark.parametrize(
    ("end", "status", "says"),
    [
        ("sys_exit", Status.FAILED, "the code called sys.exit(3)"),
        ("sys_exit_0", Status.FAILED, "the code called sys.exit(0)"),
        ("os_exit", Status.FAILED, "exit code 7"),
        ("os_exit_0", Status.FAILED, "exit code 0"),
        ("os_exit_255", Status.FAILED, "exit code 255"),
        ("kill", Status.KILLED, "SIGKILL"),
        ("abort", Status.KILLED, "SIGABRT"),
        ("segfault", Status.KILLED, "SIGSEGV"),
        ("close_everything", Status.FAILED, "could not be sent"),
        ("unsendable", Status.FAILED, "Unsendable"),
        ("keyboard_interrupt", Status.FAILED, "KeyboardInterrupt"),
    ],
)
@pytest.mark.parametrize("kind", ["timing", "memory"])
def test_an_end_of_the_child_is_an_outcome_with_phase_and_reason(
    run_scenario: RunScenario, end: str, status: Status, says: str, kind: str
) -> None:
    outcome = run_scenario(Fault(end, "steps"), kind).outcome
    assert (outcome.status, outcome.phase) == (status, "steps")
    assert outcome.reason is not None
    assert says in outcome.reason


@pytest.mark.parametrize("phase", PHASES)
def test_a_hang_ends_at_the_deadline(run_scenario: RunScenario, phase: str) -> None:
    outcome = run_scenario(
        Fault("hang", phase), measure=replace(BRIEF, timeout_seconds=1.0)
    ).outcome
    assert (outcome.status, outcome.phase) == (Status.TIMED_OUT, phase)
    assert outcome.reason is not None
    assert "deadline of 1 s" in outcome.reason


def test_a_child_that_stops_in_mid_sentence_is_left_at_the_deadline() -> None:
    (ours, theirs), (sentinel, _end) = Pipe(duplex=False), Pipe(duplex=False)
    os.write(theirs.fileno(), b'{"phase": "build"}\n{"result')
    alive: Any = SimpleNamespace(sentinel=sentinel)
    phase, result = isolation._follow(ours, alive, 0.2, lambda _: None)
    assert (phase, type(result)) == ("build", isolation._DeadlinePassed)


@pytest.mark.parametrize("kind", ["timing", "memory"])
def test_memory_under_a_cap_ends_as_out_of_memory(run_scenario: RunScenario, kind: str) -> None:
    capped = replace(ANYWHERE, memory_limit_mb=64)
    trial = run_scenario(Fault("out_of_memory", "steps"), kind, device=capped)
    assert (trial.outcome.status, trial.outcome.phase) == (Status.OUT_OF_MEMORY, "steps")
    assert trial.outcome.reason is not None
    assert "ResourceExhaustedError" in trial.outcome.reason


def test_host_memory_above_its_limit_ends_as_out_of_memory(run_scenario: RunScenario) -> None:
    limited = replace(BRIEF, host_limit_mb=200)
    outcome = run_scenario(Spike(400, 0.0), measure=limited).outcome
    assert outcome.status is Status.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("throw_bad_alloc", "under a cap of 210 MB; it said std::bad_alloc"),
        (
            "write_without_looking",
            "ended by SIGSEGV under a cap of 210 MB; with 2.62 GB more it ended as completed",
        ),
    ],
)
def test_a_crash_that_the_limit_on_host_memory_made_is_out_of_memory(
    run_scenario: RunScenario, end: str, says: str
) -> None:
    limited = replace(BRIEF, host_limit_mb=200)
    outcome = run_scenario(Fault(end, "steps"), measure=limited).outcome
    assert (outcome.status, outcome.phase) == (Status.OUT_OF_MEMORY, "steps")
    assert says in (outcome.reason or "")


@pytest.mark.parametrize("end", ["abort", "segfault"])
def test_a_crash_under_a_limit_that_did_not_make_it_is_a_crash(
    run_scenario: RunScenario, end: str
) -> None:
    limited = replace(BRIEF, host_limit_mb=200)
    assert run_scenario(Fault(end, "steps"), measure=limited).outcome.status is Status.KILLED


def test_a_flood_of_output_is_kept_up_to_a_bound_and_loses_no_result(
    run_scenario: RunScenario, server: Server
) -> None:
    before = server.log.stat().st_size
    trial = run_scenario(Fault("flood", "steps"), measure=replace(BRIEF, timeout_seconds=60.0))
    assert trial.outcome.completed
    written = server.log.stat().st_size - before
    assert written < 1_100_000
    assert "bytes of output were not kept" in server.log.read_text(errors="replace")[-200:]


def test_what_the_child_started_ends_with_it(run_scenario: RunScenario, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    trial = run_scenario(Fault("leave_a_process", "first_call", str(pid_file)))
    assert trial.outcome.completed
    time.sleep(0.2)
    assert not _alive(int(pid_file.read_text()))


@pytest.mark.parametrize("kind", ["timing", "memory"])
@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("daemon", Status.COMPLETED),
        ("daemon_segfault", Status.KILLED),
        ("daemon_hang", Status.TIMED_OUT),
    ],
)
def test_a_daemon_in_a_session_of_its_own_ends_with_the_trial_however_that_ends(
    run_scenario: RunScenario, tmp_path: Path, end: str, status: Status, kind: str
) -> None:
    pid_file = tmp_path / "pid"
    pid_file.touch()
    brief = replace(BRIEF, timeout_seconds=5.0 if end == "daemon_hang" else 60.0)
    trial = run_scenario(Fault(end, "first_call", str(pid_file)), kind, measure=brief)
    assert trial.outcome.status is status
    assert not _alive(int(pid_file.read_text()))
    assert _folders_left() == []


@pytest.mark.parametrize("end", ["mind_a_child", "supervise"])
def test_who_minds_its_own_children_is_not_disturbed_by_their_end(
    run_scenario: RunScenario, end: str
) -> None:
    """They are ended once it has ended itself: before its deadline, which is sooner than the
    patience with processes that don't end."""
    brief = replace(BRIEF, timeout_seconds=4.0)
    assert run_scenario(Fault(end, "first_call"), measure=brief).outcome.completed


def _folders_left() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"runner-trial-{os.getpid()}-*"))


@pytest.mark.parametrize("kind", ["timing", "memory"])
@pytest.mark.parametrize("end", ["replace_streams", "close_streams"])
def test_whatever_the_code_does_with_its_streams_its_trial_is_not_lost(
    run_scenario: RunScenario, end: str, kind: str
) -> None:
    assert run_scenario(Fault(end, "steps"), kind).outcome.completed


@pytest.mark.parametrize(
    ("end", "status", "says"),
    [
        ("stop_itself", Status.TIMED_OUT, "deadline"),
        ("surrogates", Status.FAILED, "ValueError: a"),
        ("no_memory", Status.OUT_OF_MEMORY, "MemoryError"),
        ("recursion", Status.FAILED, "RecursionError"),
        ("stop_iteration", Status.FAILED, "StopIteration"),
    ],
)
def test_odd_ends_are_outcomes_as_well_and_leave_nothing(
    run_scenario: RunScenario, end: str, status: Status, says: str
) -> None:
    outcome = run_scenario(Fault(end, "steps"), measure=replace(BRIEF, timeout_seconds=5.0)).outcome
    assert (outcome.status, outcome.phase) == (status, "steps")
    assert says in (outcome.reason or "")
    (outcome.reason or "").encode()
    assert _folders_left() == []


def test_a_server_that_the_code_stopped_does_not_hang_the_run(run_scenario: RunScenario) -> None:
    started = time.monotonic()
    outcome = run_scenario(Fault("stop_server", "steps")).outcome
    assert outcome.completed
    assert run_scenario(Fault("none", "build")).outcome.completed
    assert time.monotonic() - started < 300, "as long as the trial's own deadline and more"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_server_that_was_stopped_or_died_between_trials_is_started_again(
    run_scenario: RunScenario, number: signal.Signals
) -> None:
    assert run_scenario(Fault("none", "build")).outcome.completed
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    os.kill(pid, number)
    assert run_scenario(Fault("none", "build")).outcome.completed


def test_a_server_that_an_interruption_finds_loading_starts_no_child_any_more(
    tmp_path: Path,
) -> None:
    def interrupt(number: int, _: object) -> None:
        raise Interrupted(number)

    own = replace(ANYWHERE, malloc_arenas=3)  # another server than that of the other tests
    experiment = Experiment("test", Fault("none", "build"), "eager", own, BRIEF, UNTRACKED, 4, 0)
    server = Server(tmp_path / "server.log")
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Interrupted):
            server.run(Assignment(experiment, "timing", 0), 60.0)
        loading = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        assert not _alive(loading)
    finally:
        signal.signal(signal.SIGALRM, before)
        server.stop()
    assert _folders_left() == []


def test_the_server_dying_is_survived_and_the_trial_run_once_more(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    trial = run_scenario(EndTheServer(str(tmp_path / "marker")))
    assert trial.outcome.completed
    assert run_scenario(Fault("none", "build")).outcome.completed


def test_a_trial_after_a_fault_is_untouched_by_it(run_scenario: RunScenario) -> None:
    run_scenario(Fault("segfault", "steps"))
    assert run_scenario(Fault("none", "build")).outcome.completed


def test_the_next_trial_begins_when_the_former_one_has_left_memory(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    assert run_scenario(TakesLongToLeave(str(pid_file))).outcome.completed
    reason = run_scenario(IsThere(str(pid_file))).outcome.reason or ""
    assert any(f"state: {gone}" in reason for gone in (None, "Z", "X"))


def test_a_server_that_is_stopped_leaves_no_child_that_was_just_leaving(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    server = Server(tmp_path / "server.log")
    experiment = Experiment(
        "test", TakesLongToLeave(str(pid_file)), "eager", ANYWHERE, BRIEF, UNTRACKED, 4, 0
    )
    assert server.run(Assignment(experiment, "timing", 0), 60.0).outcome.completed
    server.stop()
    assert not _alive(int(pid_file.read_text()))


def test_a_spike_held_for_a_millisecond_is_seen_within_one_per_cent(
    run_scenario: RunScenario,
) -> None:
    trial = run_scenario(Spike(400, 0.001))
    for phase in ("first_call", "steps"):
        assert trial.phases[phase]["host_peak_bytes"] == pytest.approx(400e6, rel=0.01)
    assert max(trial.steps["host_bytes"]) < 40e6, "between steps the spike is gone"


def test_the_child_has_no_hydra_mlflow_or_pandas(run_scenario: RunScenario) -> None:
    reason = run_scenario(Modules(("hydra", "omegaconf", "mlflow", "sklearn"))).outcome.reason
    assert reason is not None
    assert "loaded: []" in reason


def test_the_parent_has_no_tensorflow() -> None:
    import subprocess
    import sys

    code = (
        "import runner.verbs.run, runner.running.engine, sys;"
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'mlflow', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0
