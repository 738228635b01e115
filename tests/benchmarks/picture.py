"""Whether the picture of lives stays smooth: its frame time in a real browser, and its size.

    python -m tests.benchmarks picture

A training step of 1,000, 10,000 and 100,000 tensors in Debian's chromium, without a graphics card:
a frame is all that the page does before the browser may show it. A run's record keeps 2,000 bands,
so the last two are more than any page has today.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from runner.render import html
from runner.render.html import lives_layout
from tests.factories import kept
from tests.unit.render.lives import make_many_lives, make_run

COUNTS = (1_000, 10_000, 100_000)
FRAMES = 30

_FRAMES = """
const [kind, frames] = arguments;
const figure = document.querySelector(".lives").lives.figure, { canvas } = figure;
const box = canvas.getBoundingClientRect();
const settle = () => { for (const each of [figure.canvas, figure.over]) {
  each.getContext("2d").getImageData(0, 0, 1, 1); } };
const wide = box.width - 80, high = box.height;
const work = {
  pointing: (share) => {
    canvas.dispatchEvent(new PointerEvent("pointermove", { pointerType: "mouse",
      clientX: box.left + 65 + wide * share, clientY: box.top + high * (0.9 - 0.6 * share) }));
    figure.follow();
  },
  zooming: (share) => {
    figure.span(figure.lives.end * share / 2, figure.lives.end * (1 - share / 2.5));
    figure.draw();
  },
  whole: () => figure.draw(),
}[kind];
if (kind === "whole") figure.whole.reset();
const found = [];
for (let frame = 0; frame < frames; frame++) {
  const begin = performance.now();
  work(frame / frames);
  settle();
  found.push(performance.now() - begin);
}
return found;
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        browser = _browser(folder)
        try:
            for count in COUNTS:
                _measure(browser, count, Path(folder) / str(count))
        finally:
            browser.quit()


def _measure(browser: Any, count: int, folder: Path) -> None:
    lives = make_many_lives(count)
    began = time.monotonic()
    stack = lives_layout.stack_bands(lives)
    laid = time.monotonic() - began
    path = html.write_page(kept(make_run(lives, max(stack.sum_levels())), folder))
    size = path.stat().st_size
    browser.execute_cdp_cmd("Performance.enable", {})
    browser.get(path.as_uri())
    browser.execute_script("document.querySelector('.lives').scrollIntoView()")
    while not browser.execute_script(
        "return Boolean(document.querySelector('.lives').lives.figure.field)"
    ):
        time.sleep(0.1)
    pointing, zooming, whole = (_frame(browser, kind) for kind in ("pointing", "zooming", "whole"))
    print(
        f"{count:>7,} tensors: pointing {pointing} a frame, zooming {zooming}, the whole step "
        f"{whole}; laid out in {laid * 1e3:,.0f} ms; the page is {size / 1e3:,.0f} kB",
        flush=True,
    )


def _frame(browser: Any, kind: str) -> str:
    """The processor's time, which is the same on a busy machine, and the clock's."""
    before = _processor_seconds(browser)
    times = browser.execute_script(_FRAMES, kind, FRAMES)
    each = 1e3 * (_processor_seconds(browser) - before) / FRAMES
    return f"{each:.1f} ms (by the clock {statistics.median(times):.1f})"


def _processor_seconds(browser: Any) -> float:
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "ThreadTime"))


def _browser(folder: str) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (
        *("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-sync"),
        *("window-size=1400,1000", f"user-data-dir={folder}/browser"),
    ):
        options.add_argument(f"--{flag}")
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    browser.set_script_timeout(300)
    return browser
