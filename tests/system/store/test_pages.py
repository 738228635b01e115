"""What a person sees: a real `ui`, a real MLflow server, a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from runner.config import Tracking
from runner.store.background import BackgroundPublisher
from runner.store.location import LOCAL_UI
from runner.store.publisher import Published
from tests.conftest import Cli
from tests.factories import completed, failed, kept, sweep_of_nine
from tests.stores import Runs

PAGE_SECONDS = 60.0
SWEEP = "2025-01-01-13-00-00-ab12"


@dataclass
class Ui:
    """A running `ui`: its process, what it printed by name, and its outputs."""

    process: subprocess.Popen[str]
    links: dict[str, str]
    outputs: Path

    def session(self) -> list[psutil.Process]:
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(True)]


def start_ui(outputs: Path) -> Ui:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", "ui", f"port={port}"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
        start_new_session=True,
    )
    links = {}
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Ctrl-C"):
            break
        name, _, link = line.strip().partition("  ")
        links[name] = link.strip()
    return Ui(process, links, outputs)


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """The UI on a store with a run, a failed run and a sweep of nine."""
    outputs = tmp_path_factory.mktemp("outputs")
    early = {"started_at": "2025-01-01T12:00:00+00:00"}
    for record in (completed("one", **early), failed("two", **early), *sweep_of_nine()):
        kept(record, outputs / "runs" / record.id)
    words = [sys.executable, "-m", "runner", "publish", str(outputs / "runs")]
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    subprocess.run(words, check=True, capture_output=True, env=environment)
    ui = start_ui(outputs)
    yield ui
    end_ui(ui)


def end_ui(ui: Ui) -> None:
    ui.process.send_signal(signal.SIGTERM)
    ui.process.communicate()


def text_of(browser: webdriver.Chrome, page: str, *expected: str) -> str:
    """The words of a page, once all that is expected is among them (or time is up)."""
    browser.get("about:blank")
    browser.get(page)

    def read(driver: webdriver.Chrome) -> str:
        return str(driver.find_element(By.TAG_NAME, "body").text)

    def settled(driver: webdriver.Chrome) -> bool:
        return all(word in read(driver) for word in expected)

    try:
        WebDriverWait(browser, PAGE_SECONDS, ignored_exceptions=[Exception]).until(settled)
    finally:
        words = read(browser)
        missing = [word for word in expected if word not in words]
    assert not missing, words
    return words


@pytest.mark.browser
def test_the_sweep_s_link_opens_a_table_of_its_nine_runs(ui: Ui, browser: webdriver.Chrome) -> None:
    names = [
        f"{batch} {scenario} graph"
        for scenario in ("python_loop", "while_loop", "numpy_loop")
        for batch in (32, 128, 512)
    ]
    words = text_of(browser, ui.links["last sweep"], *names, "9 matching runs")
    lines = words.splitlines()
    for column in ("Peak_MB", "Step_ms", "Growth_kB_per_step", "status"):
        assert column in lines
    assert "out_of_memory" in lines
    assert "5.16" in lines  # 40 kB of weight and 100 states of 51.2 kB


@pytest.mark.browser
def test_the_comparison_s_link_opens_charts_of_the_sweep_s_runs(
    ui: Ui, browser: webdriver.Chrome
) -> None:
    text_of(
        browser,
        ui.links["compared"],
        "Swept and measured",
        "Peak_MB",
        "128 python_loop graph",
    )
    # The charts draw their words as pictures: look into them.
    drawn = WebDriverWait(browser, PAGE_SECONDS).until(
        lambda driver: (
            [
                element.text
                for element in driver.find_elements(By.CSS_SELECTOR, "svg text")
                if element.text
            ]
            or False
        )
    )
    assert "5.16" in drawn


@pytest.mark.browser
def test_the_link_to_all_runs_shows_what_is_in_no_sweep_too(
    ui: Ui, browser: webdriver.Chrome
) -> None:
    words = text_of(browser, ui.links["all runs"], "12 matching runs", "Peak_MB")
    assert "execution" in words.splitlines()


@pytest.mark.browser
def test_a_run_s_page_begins_with_what_came_out_and_how_to_do_it_again(
    ui: Ui, browser: webdriver.Chrome
) -> None:
    page = page_of(ui, "one")
    words = text_of(browser, page, "Completed: peak 78.4 kB", "Peak_MB", "Finished")
    assert "Peak made by MatMul" in words
    assert "Report" in words
    assert "Model registry" in words  # MLflow's page for training, not the one for chats


@pytest.mark.browser
def test_a_failed_run_s_page_says_why(ui: Ui, browser: webdriver.Chrome) -> None:
    words = text_of(browser, page_of(ui, "two"), "Out of memory in first_call", "Failed")
    assert "OOM when allocating tensor with shape[512,100] | on <CPU>" in words


@pytest.mark.browser
def test_a_run_s_record_can_be_read_in_the_browser(ui: Ui, browser: webdriver.Chrome) -> None:
    page = page_of(ui, "one").replace("?", "/artifacts/record.json?")
    text_of(browser, page, "trials.jsonl", "config.yaml", '"fingerprint": "f1f1f1f1"')


@pytest.mark.browser
def test_a_run_s_page_report_is_shown_in_place(ui: Ui, browser: webdriver.Chrome) -> None:
    page = page_of(ui, "one").replace("?", "/artifacts/report.html?")
    text_of(browser, page, "report.html")
    WebDriverWait(browser, PAGE_SECONDS).until(
        lambda driver: driver.find_elements(By.TAG_NAME, "iframe")
    )
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    try:
        body = browser.find_element(By.TAG_NAME, "body")
        WebDriverWait(browser, PAGE_SECONDS).until(lambda _: "78.4 kB" in body.text)
        assert "What the peak is made of" in body.text
    finally:
        browser.switch_to.default_content()


def page_of(ui: Ui, record: str) -> str:
    """The page that `publish` names, on the port where the UI is."""
    environment = {**os.environ, "RUNNER_OUTPUTS": str(ui.outputs)}
    words = [sys.executable, "-m", "runner", "publish", str(ui.outputs / "runs" / record)]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    return done.stdout.split()[-1].replace(LOCAL_UI, ui.links["MLflow"])


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "terminated"]
)
def test_ui_ends_with_no_process_left(outputs: Path, number: int, code: int) -> None:
    ui = start_ui(outputs)
    processes = ui.session()
    assert len(processes) >= 2
    with urllib.request.urlopen(f"{ui.links['MLflow']}/health") as answer:
        assert answer.status == 200
    ui.process.send_signal(number)
    ui.process.communicate()
    assert ui.process.returncode == code
    assert psutil.wait_procs(processes, timeout=PAGE_SECONDS)[1] == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--port", "99999"], "--port 99999: is not a port"),
        (["port=http"], "--port http: is not a port"),
        (["port=5001", "--port", "5002"], "port is given twice"),
        (["host= "], "--host: names no address"),
    ],
    ids=" ".join,
)
def test_ui_refuses_what_is_no_address(
    words: list[str], why: str, front_door: Cli, outputs: Path
) -> None:
    done = front_door("ui", *words)
    assert done.returncode == 2
    assert why in done.stderr
    assert not outputs.exists()


def test_ui_on_a_port_in_use_is_bad_input(front_door: Cli, outputs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = front_door("ui", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "--port" in done.stderr
    assert not outputs.exists()


def test_of_two_on_one_port_one_prints_links_and_they_open_its_own_store(
    tmp_path: Path, free_port: int, runs: Runs
) -> None:
    processes = {}
    for name in ("one", "two"):
        outputs = tmp_path / name
        folder = kept(completed(name), outputs / "runs" / "1")
        environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
        words = [sys.executable, "-m", "runner", "publish", str(folder)]
        subprocess.run(words, check=True, capture_output=True, env=environment)
        processes[name] = subprocess.Popen(
            [sys.executable, "-m", "runner", "ui", "--port", str(free_port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    shown = {}
    while len(shown) < 2:  # one ends by itself, the other prints its last line
        for name, process in processes.items():
            if name not in shown and process.poll() is not None:
                shown[name], said = process.communicate()
                assert (shown[name], process.returncode) == ("", 2), said
                assert f"--port {free_port}: can't be used" in said
                (winner,) = set(processes) - {name}
                assert processes[winner].stdout is not None
                lines = iter(processes[winner].stdout.readline, "Ctrl-C ends it.\n")
                shown[winner] = "".join(lines)
        time.sleep(0.1)
    assert f"MLflow      http://127.0.0.1:{free_port}\n" in shown[winner]
    (run,) = runs(f"http://127.0.0.1:{free_port}")
    assert run.data.tags["record"] == winner
    processes[winner].send_signal(signal.SIGINT)
    processes[winner].communicate()


def _children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_ui_on_every_address_says_what_that_means_and_its_kill_ends_mlflow(
    outputs: Path, free_port: int, mlflow_imported: None
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", "ui", "--host", "0.0.0.0", "--port", str(free_port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNNER_OUTPUTS": str(outputs)},
    )
    assert process.stdout is not None
    while "Ctrl-C" not in (line := process.stdout.readline()):
        assert line, "it ended"
    family = _children_of(process)
    assert len(family) >= 2, "its keeper, and MLflow"
    process.kill()
    _, errors = process.communicate(timeout=30)
    assert "everybody who can reach this machine" in errors
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An MLflow server that knows nothing of us."""
    folder = tmp_path_factory.mktemp("server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["--workers", "1", "--port", str(port), "--backend-store-uri", "sqlite:///db.sqlite"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *words],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health"):
                break
        except OSError:
            time.sleep(0.2)
    yield address
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def on_server(server: str, runs: Runs) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=server)


def list_files(client: Any, published: Published) -> set[str]:
    run_id = re.findall("[0-9a-f]{32}", published.page or "")[0]
    return {file.path for file in client.list_artifacts(run_id)}


def test_a_server_takes_records_their_files_and_the_view(
    server: str, on_server: Any, runs: Runs, outputs: Path
) -> None:
    publisher = BackgroundPublisher(
        Tracking("server", server, "runner"), outputs, outputs.parent / "log"
    )
    sweep = outputs / "sweeps" / "2025-01-01" / "13-00-00-ab12"
    folders = [kept(record, sweep / record.id) for record in sweep_of_nine()]
    (sweep / "report.html").write_text("the sweep's page")
    for folder in (*folders, folders[0], sweep):
        publisher.publish(folder)
    *cells, again, whole = publisher.finish()
    assert again == cells[0]
    assert len(runs(server)) == 9 + 1
    assert list_files(on_server, cells[0]) == {
        *("record.json", "trials.jsonl", "config.yaml", "run.log"),
    }
    assert list_files(on_server, whole) == {"report.html"}
    assert (whole.table or "").startswith(f"{server}/#/experiments/")
    assert not (outputs / "mlflow.db").exists()


def test_ui_with_a_server_prints_its_links_and_ends(server: str, cli: Cli, outputs: Path) -> None:
    """Of each experiment that has records of ours, and of no other."""
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=server).create_experiment("somebody else's")
    choice = Tracking("server", server, "loops")
    publisher = BackgroundPublisher(choice, outputs, outputs.parent / "log")
    publisher.publish(kept(completed("in another experiment"), outputs / "runs" / "1"))
    publisher.finish()
    done = cli("ui", "tracking=server", f"tracking.uri={server}", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["mlflow"] == server
    assert [experiment["name"] for experiment in told["experiments"]] == ["runner", "loops"]
    for experiment in told["experiments"]:
        assert experiment["all_runs"].startswith(f"{server}/#/experiments/")
        assert experiment["compared"].endswith("&compareRunsMode=CHART")
    done = cli("ui", "tracking=server", f"tracking.uri={server}")
    assert "experiment  loops\nall runs    " in done.stdout
    assert not (outputs / "mlflow.db").exists()
