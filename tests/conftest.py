"""What many tests stand on: one warm server for all, and the product as a user starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from runner.composing import composition
from runner.config import Device, Experiment, Measure, Tracking
from runner.isolation.server import Server
from runner.plan import Assignment, Planned
from runner.records import Record, Trial
from runner.running import environment, lifecycle
from runner.scenario import Scenario

if TYPE_CHECKING:
    from selenium import webdriver

# The same examples every time, and none too slow for a busy machine.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.load_profile("steady")

MeasureWords = Callable[..., Record]
RunScenario = Callable[..., Trial]
Cli = Callable[..., subprocess.CompletedProcess[str]]

ANYWHERE = Device("auto", 0, None, None, None)
BRIEF = Measure("brief", 1, 1, 1, 5, 5, 10.0, 3, 60.0, None)
UNTRACKED = Tracking("none", None, "runner")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server") / "server.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def run_scenario(server: Server) -> RunScenario:
    """One trial of a scenario object that has no YAML."""

    def run(
        scenario: Scenario,
        kind: str = "timing",
        device: Device = ANYWHERE,
        measure: Measure = BRIEF,
        execution: str = "eager",
    ) -> Trial:
        experiment = Experiment(
            "test", scenario, execution, device, measure, UNTRACKED, batch_size=4, seed=0
        )
        return server.run(Assignment(experiment, kind, 0), measure.timeout_seconds)

    return run


@pytest.fixture
def measure(server: Server, tmp_path: Path) -> MeasureWords:
    """A run's record from the words of its command line. One memory trial by default."""

    def run(*words: str, timing: bool = False, memory: bool = True, fails: bool = False) -> Record:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        plan = composition.plan([*words, "tracking=none"], tmp_path / "sweep")
        record = _recorded(server, plan.cells[0], folder, {"timing": timing, "memory": memory})
        assert fails or record.outcome.completed, record.outcome
        return record

    return run


def _recorded(server: Server, planned: Planned, folder: Path, wanted: Mapping[str, bool]) -> Record:
    run = lifecycle.open_run(planned, folder)
    run.assignments = [each for each in run.assignments if wanted[each.kind]]
    while (assignment := run.next) is not None:
        timeout = run.experiment.measure.timeout_seconds
        lifecycle.add_trial(run, server.run(assignment, timeout))
    return lifecycle.close_run(run, environment.describe())


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Headless Chromium. Where it is not installed its tests are skipped, in CI they fail."""
    missing = [path for path in ("/usr/bin/chromium", "/usr/bin/chromedriver")
               if not Path(path).exists()]  # fmt: skip
    if missing:
        why = f"{missing[0]} is missing: apt install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        f"user-data-dir={tmp_path_factory.mktemp('browser')}",
        "window-size=1900,1100",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return tmp_path / "outputs"


@pytest.fixture
def cli(outputs: Path) -> Cli:
    """`python -m runner WORDS`, with outputs of its own."""

    def run(
        *words: str, cwd: Path | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "runner", *words],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
        )

    return run
