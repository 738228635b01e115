"""A page in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.render.conftest import run_folder as run_folder
from tests.unit.render.conftest import sweep_folder as sweep_folder

if TYPE_CHECKING:
    from selenium import webdriver

PHONE, DESK = 390, 1280
Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: webdriver.Chrome) -> Iterator[Open]:
    """Open a page at a width and in a scheme, with everything that opens open."""

    def show(path: Path, width: int = DESK, scheme: str = "light") -> webdriver.Chrome:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get_log("browser")
        browser.get(path.as_uri())
        browser.execute_script(
            "for (const d of document.querySelectorAll('details')) d.open = true"
        )
        return browser

    yield show
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
