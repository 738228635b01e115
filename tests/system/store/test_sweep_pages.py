"""What MLflow's pages show of a sweep of sixteen cells on the screen of a laptop, 1400 x 900."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.factories import kept, sweep_of_sixteen
from tests.system.store.test_pages import PAGE_SECONDS, Ui, end_ui, start_ui

pytestmark = pytest.mark.browser
PANEL = "[data-component-id='mlflow.assistant.chat_panel.close']"
"""The button that closes the panel which MLflow opens at a first visit."""


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    outputs = tmp_path_factory.mktemp("outputs")
    sweep = outputs / "sweeps" / "2025-01-01" / "13-00-00-ab16"
    for number, record in enumerate(sweep_of_sixteen()):
        kept(record, sweep / str(number))
    words = [sys.executable, "-m", "runner", "publish", str(sweep)]
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    subprocess.run(words, check=True, capture_output=True, env=environment)
    ui = start_ui(outputs)
    yield ui
    end_ui(ui)


@pytest.fixture
def screen(browser: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def open_page(screen: webdriver.Chrome, page: str, *, panel: bool) -> None:
    """Open a page as at a first visit, with or without MLflow's panel."""
    screen.get(page.partition("#")[0])
    screen.execute_script("localStorage.clear()")
    screen.get("about:blank")
    screen.get(page)
    close = wait(screen, lambda: screen.find_elements(By.CSS_SELECTOR, PANEL))
    if not panel:
        close[0].click()
        wait(screen, lambda: not screen.find_elements(By.CSS_SELECTOR, PANEL))


def wait(screen: webdriver.Chrome, read: Any) -> Any:
    return WebDriverWait(screen, PAGE_SECONDS, ignored_exceptions=[Exception]).until(
        lambda _: read()
    )


READ_COLUMN = """
const grid = document.querySelector('.ag-body-viewport').getBoundingClientRect();
const shown = [...document.querySelectorAll(`.ag-cell[col-id="${arguments[0]}"]`)].filter(cell => {
    const box = cell.getBoundingClientRect();
    return box.top >= grid.top - 1 && box.bottom <= Math.min(grid.bottom, innerHeight) + 1
        && box.left >= grid.left - 1 && box.right <= Math.min(grid.right, innerWidth) + 1;
});
const top = cell => cell.getBoundingClientRect().top;
shown.sort((one, other) => top(one) - top(other));
return shown.map(cell => cell.innerText.trim().split('\\n').pop());
"""
"""The texts of a column's cells that can be read as they are, from the top down; a name stands
below its colour's."""


def read_column(screen: webdriver.Chrome, column: str, least: int) -> list[str]:
    """Return what is readable of a column, once there is so much of it."""

    def read() -> list[str] | None:
        texts = screen.execute_script(READ_COLUMN, column)
        return texts if len(texts) >= least else None

    found: list[str] = wait(screen, read)
    return found


def test_the_first_screen_of_the_table_has_each_cell_s_name_and_peak(
    ui: Ui, screen: webdriver.Chrome
) -> None:
    open_page(screen, ui.links["last sweep"], panel=False)
    records = sweep_of_sixteen()
    peaks = read_column(screen, "metrics.`Peak_MB`", 16)
    expected = [float(f"{record.metrics['tensor_peak_bytes'] / 1e6:.4g}") for record in records]
    assert [float(peak) for peak in peaks] == expected
    names = read_column(screen, "attributes.`Run Name`", 16)
    assert names[0] == "eager 32 s0 python_loop"
    assert len(set(names)) == 16


def test_with_mlflow_s_panel_open_peak_step_and_growth_stand_beside_the_name(
    ui: Ui, screen: webdriver.Chrome
) -> None:
    """The panel and MLflow's notice on shared views leave room for fourteen rows."""
    open_page(screen, ui.links["last sweep"], panel=True)
    names = read_column(screen, "attributes.`Run Name`", 12)
    for metric in ("Peak_MB", "Step_ms", "Growth_kB_per_step"):
        assert len(read_column(screen, f"metrics.`{metric}`", 12)) == len(names), metric


def test_the_first_chart_has_a_bar_for_each_cell(ui: Ui, screen: webdriver.Chrome) -> None:
    open_page(screen, ui.links["compared"], panel=True)

    def count() -> int | None:
        chart = screen.find_element(By.CSS_SELECTOR, ".js-plotly-plot")
        bars = len(chart.find_elements(By.CSS_SELECTOR, ".bars .point"))
        return bars if bars >= 16 else None

    assert wait(screen, count) == 16
    title = screen.find_elements(By.XPATH, "//*[text()='Peak_MB']")
    assert title[0].is_displayed()


def test_a_cell_s_page_leads_to_its_report_and_its_sweep_in_one_click(
    ui: Ui, screen: webdriver.Chrome
) -> None:
    open_page(screen, ui.links["last sweep"], panel=False)
    wait(screen, lambda: screen.find_element(By.LINK_TEXT, "eager 32 s0 python_loop")).click()
    report = wait(screen, lambda: screen.find_element(By.LINK_TEXT, "Report"))
    assert "/artifacts/report.html" in report.get_attribute("href")
    above = wait(screen, lambda: screen.find_element(By.LINK_TEXT, "Sweep")).get_attribute("href")
    screen.get(above)
    wait(screen, lambda: "16 cells: 16 completed." in read_text(screen))
    assert "sweep: scenario, execution, batch_size, seed" in read_text(screen)


def read_text(screen: webdriver.Chrome) -> str:
    return str(screen.find_element(By.TAG_NAME, "body").text)
