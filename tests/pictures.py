"""Take README's pictures from the pages themselves: `python -m tests.pictures SWEEP RUN [INTO]`.

SWEEP is the folder of README's grid, RUN that of its transformer; needs chromium and its driver.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from runner import paths
from runner.render import html

WIDTH, HEIGHT = 1160, 1157
HERE = Path(html.__file__).parent


def main(sweep: Path, run: Path, into: Path = HERE) -> None:
    """Write example.png, the top of the sweep's page, and example_lives.png, the run's figure."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("headless", "no-sandbox", "disable-gpu", f"user-data-dir={profile}"):
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(html.write_page(sweep.resolve()).as_uri())
        browser.save_screenshot(str(into / "example.png"))
        browser.get(html.write_page(run.resolve()).as_uri())
        figure = browser.find_element("css selector", ".lives")
        browser.execute_script("arguments[0].scrollIntoView()", figure)
        figure.screenshot(str(into / "example_lives.png"))
        browser.quit()
    for name in ("example.png", "example_lives.png"):
        print(paths.shorten(into / name))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
