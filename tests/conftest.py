"""What many tests stand on: one warm server for all, and the product as a user starts it."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import hypothesis
import pytest

from runner.__main__ import main
from runner.cell import TrialSpec
from runner.config import Device, Experiment, Measure, Tracking
from runner.engine import environment
from runner.engine.requests import Evidence, Request
from runner.engine.run import open_run
from runner.processes.server import TrialServer
from runner.records import Record, Trial
from runner.scenario import Scenario
from tests.runs import compose_cell

if TYPE_CHECKING:
    from selenium import webdriver

os.environ.pop("MLFLOW_TRACKING_URI", None)  # no test of ours writes to somebody's server

# The same examples every time, and none too slow for a busy machine.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.load_profile("steady")

MeasureWords = Callable[..., Record]
RunScenario = Callable[..., Trial]
Cli = Callable[..., subprocess.CompletedProcess[str]]

ANYWHERE = Device("auto", 0, None, None, None)
BRIEF = Measure("brief", 1, 1, 1, 5, 5, 0.1, 3, 60.0, None)
UNTRACKED = Tracking("none", None, "runner")


LONGEST = (
    *("system/real_case/test_real_case.py", "system/cluster/test_nodes.py"),
    *("system/script/test_leak_and_fit.py", "system/leak/test_planted.py"),
    *("system/cluster/test_slurm.py", "system/test_hostile.py"),
    *("system/test_what_users_have.py", "system/leak/test_holders.py"),
    *("system/processes/test_kills.py", "integration/scenarios/test_contract.py"),
    *("integration/processes/test_ends.py", "integration/scenarios/test_training.py"),
    *("integration/store/test_background.py", "integration/engine/test_sweeps.py"),
    *("integration/compose/test_composer.py", "integration/scenarios/test_own.py"),
)
"""The files of half a minute and more, the longest first: one that begins last is waited for."""

assert all((Path(__file__).parent / name).exists() for name in LONGEST)


_BEGAN = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """Note when the session began, by the clock of files."""
    config.stash[_BEGAN] = time.time()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest; pytest-xdist keeps this order with the option that
    `pyproject.toml` gives it."""
    here = Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a command of this clone's has met what nobody has foreseen: it leaves a file."""
    began, clone = session.config.stash[_BEGAN], str(Path(__file__).parents[1])
    for file in Path(tempfile.gettempdir()).glob("runner-error-*.txt"):
        if file.stat().st_mtime >= began and clone in (story := file.read_text()):
            print(f"\n{file}:\n{story}", file=sys.stderr)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep Python's garbage collector from all that is made while tests are collected, then and
    later: it takes half of the collection's time, and a quarter of a second of each `gc.collect()`,
    of which a trial's phases have three."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _freeze_what_is_loaded() -> None:
    """Keep the collector from what earlier files have loaded, TensorFlow among it, too."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """Take away the handlers that a command in this process has left: Hydra's flags make some."""
    before, level = list(logging.root.handlers), logging.root.level
    yield
    for each in list(logging.root.handlers):
        if each not in before and not type(each).__module__.startswith("_pytest"):
            logging.root.removeHandler(each)
    logging.root.setLevel(level)


@pytest.fixture(scope="session")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TrialServer]]:
    servers: list[TrialServer] = []
    yield servers
    for each in servers:
        each.stop()


@pytest.fixture
def server(_servers: list[TrialServer], tmp_path_factory: pytest.TempPathFactory) -> TrialServer:
    """The warm server of all tests; a new one where a test that failed has ended it for good.

    It loads when it is first used, so that what goes wrong there fails one test and not all.
    """
    if not _servers or _servers[-1].is_terminated:
        _servers.append(TrialServer())
    _servers[-1].log = tmp_path_factory.getbasetemp() / "server.log"  # a test may have moved it
    return _servers[-1]


@pytest.fixture
def run_scenario(server: TrialServer) -> RunScenario:
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
        return server.run(TrialSpec(experiment, kind, 0), measure.timeout_seconds)

    return run


@pytest.fixture
def measure(server: TrialServer, tmp_path: Path) -> MeasureWords:
    """A run's record from the words of its command line. One memory trial by default, of a graph
    too: `measure.memory_processes` asks for more."""

    def run(*words: str, timing: bool = False, memory: bool = True, fails: bool = False) -> Record:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        cell = compose_cell(*words)
        whole = Evidence.from_measure(cell.experiment.measure, settles_peak=False)
        wanted = replace(whole, memory=whole.memory * memory, timing=whole.timing * timing)
        record = _recorded(server, Request(cell, wanted, place=""), folder)
        assert fails or record.outcome.completed, record.outcome
        return record

    return run


def _recorded(server: TrialServer, request: Request, folder: Path) -> Record:
    run = open_run(request, folder, environment.describe_machine())
    while (spec := run.next) is not None:
        timeout = run.experiment.measure.timeout_seconds
        run.add_trial(server.run(spec, timeout))
    return run.close()


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
    """`python -m runner WORDS`, with outputs of its own, and without the allocator that the pytest
    plugin chooses for this process where a module that it collects names its mark."""

    def run(
        *words: str, cwd: Path | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
        environment.pop("TF_CPU_ALLOCATOR_USE_BFC", None)
        return subprocess.run(
            [sys.executable, "-m", "runner", *words],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            env=environment,
        )

    return run


@pytest.fixture
def front_door(outputs: Path) -> Cli:
    """The same in this process: for words that start no trial, as those that are refused."""
    return _call_here(outputs, _NoServer)


@pytest.fixture
def warm_cli(outputs: Path, server: TrialServer) -> Cli:
    """The same in this process, with the server of all tests: TensorFlow is loaded once for all."""
    return _call_here(outputs, lambda: _SharedServer(server))


def _call_here(outputs: Path, make_server: Callable[[], object]) -> Cli:
    def run(*words: str, cwd: Path | str = ".") -> subprocess.CompletedProcess[str]:
        stdout, stderr = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, RUNNER_OUTPUTS=str(outputs)),
            mock.patch.object(sys, "path", [*sys.path]),
            mock.patch("runner.engine.preload.TrialServer", make_server),
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            try:
                code = main(words)
            except SystemExit as end:  # as argparse ends --help
                code = int(end.code or 0)
        return subprocess.CompletedProcess(words, code, stdout.getvalue(), stderr.getvalue())

    return run


class _NoServer:
    """Loads nothing; a trial is not to be asked for."""

    log: Path | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None: ...

    def stop(self) -> None: ...


class _SharedServer(_NoServer):
    """Runs trials on a server that is there before and after."""

    def __init__(self, server: TrialServer) -> None:
        self.run = server.run

    def terminate(self) -> None: ...
