"""Another malloc, or fewer arenas: a process that is started with it, and says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from runner.config import Device
from runner.errors import Unavailable
from runner.isolation import mallocs
from runner.isolation.server import Server
from runner.running import environment
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


def told(server: Server) -> str:
    lines = server.log.read_text().splitlines()
    return next(line for line in reversed(lines) if line.startswith("malloc:"))


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc"])
def test_a_timing_trial_runs_on_the_malloc_that_was_asked_for(
    name: str, run_scenario: RunScenario, server: Server
) -> None:
    device = replace(ANYWHERE, malloc=name)
    assert run_scenario(TellsItsMalloc(), device=device).outcome.completed
    assert told(server) == f"malloc: ['{name}'] None"
    assert run_scenario(TellsItsMalloc(), kind="memory", device=device).outcome.completed
    assert told(server) == "malloc: [] None", "other meters know glibc's alone"
    assert run_scenario(TellsItsMalloc()).outcome.completed
    assert told(server) == "malloc: [] None", "the default server is still there"


def test_the_number_of_arenas_is_a_matter_of_the_start_too(
    run_scenario: RunScenario, server: Server
) -> None:
    device = replace(ANYWHERE, malloc_arenas=2)
    assert run_scenario(TellsItsMalloc(), device=device).outcome.completed
    assert told(server) == "malloc: [] 2"


def test_one_that_is_not_installed_is_refused_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mallocs, "_FOLDERS", ())
    with pytest.raises(Unavailable) as refused:
        mallocs.environment(replace(ANYWHERE, malloc="jemalloc"))
    assert "libjemalloc2" in refused.value.remedy


def test_timings_on_different_mallocs_are_not_comparable() -> None:
    import tests.factories as factories
    from runner.composing import composition

    def fingerprint(*words: str) -> str:
        plan = composition.plan(["scenario=numpy_loop", *words], Path("/nonexistent"))
        machine = {**environment.describe(), "flags": {}}
        return environment.for_record(machine, plan.cells[0].experiment, {})[1]

    assert factories.DEVICE["malloc"] == "default"
    assert fingerprint() != fingerprint("device.malloc=jemalloc")
    assert fingerprint() != fingerprint("device.malloc_arenas=1")


def test_device_takes_them_as_fields() -> None:
    assert Device("cpu", 0, None, None, None, "tcmalloc", 1).malloc_arenas == 1
