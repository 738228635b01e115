"""Another malloc, or fewer arenas: a process that is started with it, and says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from runner.config import Device
from runner.engine import environment
from runner.errors import Unavailable
from runner.facts import TrialFacts
from runner.processes import mallocs
from runner.processes.server import TrialServer
from runner.scenario import Bench, Executions, Step
from tests.conftest import ANYWHERE, RunScenario


@dataclass(frozen=True)
class TellsItsMalloc:
    """Prints which malloc is loaded, and how many arenas it may have."""

    executions: ClassVar[Executions] = ("eager",)

    def build(self, bench: Bench) -> Step:
        import os

        maps = Path("/proc/self/maps").read_text()
        loaded = [name for name in ("jemalloc", "tcmalloc") if name in maps]
        print("malloc:", loaded, os.environ.get("MALLOC_ARENA_MAX"))
        return lambda: None


def told(server: TrialServer) -> str:
    lines = server.log.read_text().splitlines()
    return next(line for line in reversed(lines) if line.startswith("malloc:"))


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc"])
def test_a_timing_trial_runs_on_the_chosen_malloc(
    name: str, run_scenario: RunScenario, server: TrialServer
) -> None:
    device = replace(ANYWHERE, malloc=name)
    assert run_scenario(TellsItsMalloc(), device=device).outcome.completed
    assert told(server) == f"malloc: ['{name}'] None"
    assert run_scenario(TellsItsMalloc(), kind="memory", device=device).outcome.completed
    assert told(server) == "malloc: [] None", "other meters know glibc's alone"
    assert run_scenario(TellsItsMalloc()).outcome.completed
    assert told(server) == "malloc: [] None", "the default server is still there"


def test_the_number_of_arenas_is_set_at_the_start(
    run_scenario: RunScenario, server: TrialServer
) -> None:
    device = replace(ANYWHERE, malloc_arenas=2)
    assert run_scenario(TellsItsMalloc(), device=device).outcome.completed
    assert told(server) == "malloc: [] 2"


def test_a_missing_malloc_is_refused_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mallocs, "_FOLDERS", ())
    with pytest.raises(Unavailable) as refused:
        mallocs.find_variables(replace(ANYWHERE, malloc="jemalloc"))
    assert "libjemalloc2" in refused.value.remedy


def test_timings_on_different_mallocs_are_not_comparable() -> None:
    import tests.factories as factories
    from runner.compose import composition

    def fingerprint(*words: str) -> str:
        plan = composition.compose_plan(["scenario=numpy_loop", *words])
        machine = msgspec.structs.replace(environment.describe_machine(), flags={})
        return environment.make_environment(machine, plan.cells[0].experiment, TrialFacts())[1]

    assert factories.DEVICE.malloc == "default"
    assert fingerprint() != fingerprint("device.malloc=jemalloc")
    assert fingerprint() != fingerprint("device.malloc_arenas=1")


def test_device_takes_them_as_fields() -> None:
    assert Device("cpu", 0, None, None, None, "tcmalloc", 1).malloc_arenas == 1
