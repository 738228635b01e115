"""Every way that a child can end, done for real, is an outcome with phase and reason."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runner.cell import TrialSpec
from runner.config import Experiment
from runner.errors import Interrupted
from runner.processes import cgroup, process_tree
from runner.processes.server import TrialServer
from runner.records import Phase, Status
from runner.scenario import Scenario
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED, RunScenario
from tests.integration.processes.faults import (
    OCCUPATIONS,
    EndTheServer,
    Fault,
    Late,
    Shares,
    Slow,
    Spike,
)
from tests.integration.processes.probes import (
    FrozenTime,
    IsThere,
    LosesItsFolder,
    Modules,
    TakesLongToLeave,
)

PHASES = ("build", "first_call", "steps")
KEEPS = "_held.append(tf.fill([7_777], 1.0))"


def _assignment(scenario: Scenario) -> TrialSpec:
    experiment = Experiment("test", scenario, "eager", ANYWHERE, BRIEF, UNTRACKED, 4, 0)
    return TrialSpec(experiment, "timing", 0)


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
    assert len(trial.steps.seconds) == BRIEF.warmup_steps + BRIEF.steps


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
        ("write_to_everything", Status.FAILED, "can't be read"),
        ("unsendable", Status.FAILED, "Unsendable"),
        ("keyboard_interrupt", Status.FAILED, "KeyboardInterrupt"),
    ],
)
@pytest.mark.parametrize("kind", ["timing", "memory"])
def test_every_end_is_an_outcome_with_phase_and_reason(
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


@pytest.mark.parametrize(("waited", "least"), [(0.0, 1.0), (0.7, 1.7), (60.0, 3.0)])
def test_time_without_a_processor_does_not_count(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch, waited: float, least: float
) -> None:
    """Up to three times the deadline."""
    monkeypatch.setattr(process_tree, "read_waited_seconds", lambda pid: waited)
    trial = run_scenario(Fault("hang", "steps"), measure=replace(BRIEF, timeout_seconds=1.0))
    assert trial.outcome.status == Status.TIMED_OUT
    assert trial.facts.seconds is not None
    assert trial.facts.seconds >= least


@pytest.mark.parametrize("occupation", sorted(OCCUPATIONS))
def test_a_late_trial_keeps_what_it_has_measured(
    run_scenario: RunScenario, occupation: str
) -> None:
    late = replace(BRIEF, timeout_seconds=2.0)
    trial = run_scenario(Late(occupation), "memory", measure=late)
    assert (trial.outcome.status, trial.outcome.phase) == (Status.TIMED_OUT, "steps")
    assert trial.allocations is not None
    assert trial.allocations.total_bytes == 8_000_000
    assert trial.allocations.step == 0
    assert "take at least 8.00 MB" in (trial.outcome.reason or "")


def test_a_trial_that_goes_forward_has_more_time(run_scenario: RunScenario) -> None:
    """Its steps take longer than its deadline together, but none by itself."""
    brief = replace(BRIEF, timeout_seconds=3.0, memory_steps=10)
    trial = run_scenario(Slow(0.5), "memory", measure=brief)
    assert trial.outcome.completed
    assert (trial.facts.seconds or 0.0) > 5.0


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
        ("throw_bad_alloc", "under a cap of 200 MiB (210 MB); it said std::bad_alloc"),
        (
            "write_without_looking",
            "ended by SIGSEGV under a cap of 200 MiB (210 MB); with 2,500 MiB (2.62 GB) more it "
            "ended as completed",
        ),
    ],
)
def test_a_crash_made_by_the_host_limit_is_out_of_memory(
    run_scenario: RunScenario, end: str, says: str
) -> None:
    limited = replace(BRIEF, host_limit_mb=200)
    outcome = run_scenario(Fault(end, "steps"), measure=limited).outcome
    assert (outcome.status, outcome.phase) == (Status.OUT_OF_MEMORY, "steps")
    assert says in (outcome.reason or "")


@pytest.mark.parametrize("end", ["abort", "segfault"])
def test_a_crash_not_made_by_the_limit_stays_one(run_scenario: RunScenario, end: str) -> None:
    limited = replace(BRIEF, host_limit_mb=200)
    assert run_scenario(Fault(end, "steps"), measure=limited).outcome.status is Status.KILLED


def test_a_flood_of_output_is_bounded_and_loses_no_result(
    run_scenario: RunScenario, server: TrialServer
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
def test_a_daemon_ends_with_its_trial_however_that_ends(
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
def test_a_step_that_minds_its_children_is_not_disturbed(
    run_scenario: RunScenario, end: str
) -> None:
    """They are ended once it has ended itself: before its deadline, which is sooner than the
    patience with processes that don't end."""
    brief = replace(BRIEF, timeout_seconds=4.0)
    assert run_scenario(Fault(end, "first_call"), measure=brief).outcome.completed


def _folders_left() -> list[Path]:
    """Those of trials; a zygote has one as long as it lives."""
    return list(Path(tempfile.gettempdir()).glob(f"runner-trials-{os.getpid()}-*/*"))


def _zygote_pid(server: TrialServer) -> int:
    (zygote,) = server._zygotes.values()
    return zygote._process.pid


@pytest.mark.parametrize("kind", ["timing", "memory"])
@pytest.mark.parametrize(
    "end",
    [
        *("replace_streams", "close_streams", "replace_functions", "patch_open"),
        *("close_by_habit", "write_by_habit"),
    ],
)
def test_code_that_breaks_what_is_ours_loses_no_trial(
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


@pytest.mark.parametrize(
    ("end", "status"), [("kill", Status.KILLED), ("killed_by_the_kernel", Status.OUT_OF_MEMORY)]
)
def test_a_kill_for_want_of_memory_is_told_from_others(
    run_scenario: RunScenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    status: Status,
) -> None:
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "MEMBERSHIP", tmp_path / "membership")
    (tmp_path / "membership").write_text("0::/\n")
    (tmp_path / "memory.events").write_text("oom_kill 0\n")
    outcome = run_scenario(Fault(end, "steps", str(tmp_path / "memory.events"))).outcome
    assert outcome.status is status
    assert (outcome.reason or "").startswith("ended by SIGKILL")


def test_a_tensorflow_that_cannot_be_loaded_is_named_by_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = "libcudart.so.12: cannot open shared object file"
    (tmp_path / "tensorflow.py").write_text(f"raise ImportError({error!r})")
    monkeypatch.syspath_prepend(tmp_path)
    server = TrialServer(tmp_path / "server.log")
    outcome = server.run(_assignment(Fault("none", "build")), 60.0).outcome
    server.stop()
    assert outcome.status is Status.FAILED
    first = (outcome.reason or "").splitlines()[0]
    assert first == f"TensorFlow could not be loaded: ImportError: {error}"


@pytest.mark.parametrize("end", ["none", "exception", "os_exit", "kill", "hang"])
def test_memory_that_a_trial_shares_is_gone_with_it(
    run_scenario: RunScenario, tmp_path: Path, end: str
) -> None:
    before = set(Path("/dev/shm").glob("sem.mp-*"))
    name = f"runner-test-{os.getpid()}-{end}"
    run_scenario(Shares(end, name), measure=replace(BRIEF, timeout_seconds=5.0))
    assert not Path("/dev/shm", name).exists()
    assert set(Path("/dev/shm").glob("sem.mp-*")) <= before
    assert run_scenario(Fault("none", "build")).outcome.completed


def test_memory_that_a_trial_shares_is_gone_with_its_server(tmp_path: Path) -> None:
    name = f"runner-test-{os.getpid()}"
    server = TrialServer(tmp_path / "server.log")

    def end() -> None:
        while not Path("/dev/shm", name).exists():
            time.sleep(0.01)
        time.sleep(0.5)
        server.terminate()

    threading.Thread(target=end, daemon=True).start()
    outcome = server.run(_assignment(Shares("hang", name)), 60.0).outcome
    assert outcome.status is Status.KILLED
    assert not Path("/dev/shm", name).exists()


def test_code_that_stops_the_server_hangs_nothing(run_scenario: RunScenario) -> None:
    started = time.monotonic()
    outcome = run_scenario(Fault("stop_server", "steps")).outcome
    assert outcome.completed
    assert run_scenario(Fault("none", "build")).outcome.completed
    assert time.monotonic() - started < 300, "as long as the trial's own deadline and more"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_server_lost_between_trials_is_started_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    server = TrialServer(tmp_path / "server.log")
    assert server.run(_assignment(Fault("none", "build")), 60.0).outcome.completed
    os.kill(_zygote_pid(server), number)
    assert server.run(_assignment(Fault("none", "build")), 60.0).outcome.completed
    server.stop()


def test_a_server_interrupted_while_loading_starts_no_child(
    tmp_path: Path,
) -> None:
    def interrupt(number: int, _: object) -> None:
        raise Interrupted(number)

    server = TrialServer(tmp_path / "server.log")

    def send() -> None:
        while not server._zygotes:
            time.sleep(0.01)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGUSR1)  # SIGALRM is what bounds a test

    before = signal.signal(signal.SIGUSR1, interrupt)
    threading.Thread(target=send, daemon=True).start()
    try:
        with pytest.raises(Interrupted):
            server.run(_assignment(Fault("none", "build")), 60.0)
        assert not _alive(_zygote_pid(server))
    finally:
        signal.signal(signal.SIGUSR1, before)
        server.stop()
    assert _folders_left() == []


def test_a_trial_whose_server_dies_is_run_once_more(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    trial = run_scenario(EndTheServer(str(tmp_path / "marker")))
    assert trial.outcome.completed
    assert run_scenario(Fault("none", "build")).outcome.completed


def test_a_trial_after_a_fault_is_untouched_by_it(run_scenario: RunScenario) -> None:
    run_scenario(Fault("segfault", "steps"))
    assert run_scenario(Fault("none", "build")).outcome.completed


def test_a_trial_begins_when_the_former_has_left_memory(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    assert run_scenario(TakesLongToLeave(str(pid_file))).outcome.completed
    reason = run_scenario(IsThere(str(pid_file))).outcome.reason or ""
    assert any(f"state: {gone}" in reason for gone in (None, "Z", "X"))


def test_a_stopped_server_leaves_no_leaving_child(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    server = TrialServer(tmp_path / "server.log")
    assert server.run(_assignment(TakesLongToLeave(str(pid_file))), 60.0).outcome.completed
    server.stop()
    assert not _alive(int(pid_file.read_text()))


def test_a_millisecond_spike_is_seen_within_one_per_cent(
    run_scenario: RunScenario,
) -> None:
    trial = run_scenario(Spike(400, 0.001))
    for phase in ("first_call", "steps"):
        assert trial.figures(phase).host_peak_bytes == pytest.approx(400e6, rel=0.01)
    assert max(trial.steps.host_bytes) < 40e6, "between steps the spike is gone"


def test_the_child_has_no_hydra_mlflow_or_pandas(run_scenario: RunScenario) -> None:
    reason = run_scenario(Modules(("hydra", "omegaconf", "mlflow", "sklearn"))).outcome.reason
    assert reason is not None
    assert "loaded: []" in reason


def test_the_parent_has_no_tensorflow() -> None:
    import subprocess
    import sys

    code = (
        "import runner.commands.run, runner.engine.measure, sys;"
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'mlflow', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0


@pytest.mark.parametrize("runs_backwards", [False, True])
def test_a_program_that_changes_the_clocks_changes_no_figure(
    run_scenario: RunScenario, runs_backwards: bool
) -> None:
    timing, memory = (
        run_scenario(FrozenTime(runs_backwards), kind) for kind in ("timing", "memory")
    )

    assert len(timing.steps.seconds) == BRIEF.warmup_steps + BRIEF.steps
    assert all(0.002 <= seconds < 1 for seconds in timing.steps.seconds)
    assert 0 < (timing.phases[Phase.BUILD].seconds or 0) < 60
    assert timing.facts.unavailable == {}
    assert memory.allocations is not None
    line = memory.allocations.lines[0]
    assert (Path(line.file or "").name, line.code) == ("probes.py", KEEPS)


def test_a_program_that_changes_the_clocks_changes_nothing_that_a_host_trial_finds(
    run_scenario: RunScenario,
) -> None:
    held = run_scenario(FrozenTime(runs_backwards=True), "host").facts.held
    assert held is not None
    assert 0.002 <= held.traced_seconds_per_step < 10
    tensors = [each for each in held.survivors if each.kind == "tensor" and each.code == KEEPS]
    share = sum(each.bytes[-1] for each in tensors) / held.steps / (4 * 7_777)
    assert 0.7 < share < 1.7


def test_a_trial_whose_folder_is_gone_keeps_its_figures(run_scenario: RunScenario) -> None:
    timing, memory, host = (
        run_scenario(LosesItsFolder(), kind) for kind in ("timing", "memory", "host")
    )

    assert [trial.outcome.completed for trial in (timing, memory, host)] == [True] * 3
    assert all(trial.facts.code for trial in (timing, memory, host))
    assert memory.allocations is not None
    line = memory.allocations.lines[0]
    assert (Path(line.file or "").name, line.code) == ("probes.py", KEEPS)
    held = host.facts.held
    assert held is not None
    assert KEEPS in {each.code for each in held.survivors}
