"""A notebook, executed as `jupyter nbconvert --execute` does it, and looked at as a page."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium import webdriver

EXAMPLE = Path(__file__).parent / "example.ipynb"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    (folder / EXAMPLE.name).write_text(EXAMPLE.read_text())
    spec = find_spec("nbconvert")
    assert spec is not None
    assert spec.origin is not None
    shared = Path(spec.origin).parents[4] / "share" / "jupyter"  # where pip put its templates
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", EXAMPLE.name],
        capture_output=True,
        text=True,
        timeout=550,
        cwd=folder,
        env={**os.environ, "RUNNER_OUTPUTS": str(folder / "outputs"), "JUPYTER_PATH": str(shared)},
    )
    assert done.returncode == 0, done.stderr
    return folder / EXAMPLE.with_suffix(".html").name


def test_a_notebook_shows_each_record_with_its_peak_at_the_lines_of_its_cells(page: Path) -> None:
    text = page.read_text()
    frames = [html.unescape(each) for each in re.findall(r'srcdoc="([^"]*)"', text)]
    assert len(frames) == 2
    leaking, cell = frames
    assert "In[2]:9" in leaking
    assert "output = layer(batch)" in leaking
    assert "In[4]:2" in cell, "the magic's own line is the first"
    assert "20,000 bytes" in cell
    assert "14,000 bytes" in cell


def test_it_shows_the_same_as_text_for_a_viewer_that_takes_frames_away(page: Path) -> None:
    (leaking, _) = re.findall(r"<summary>As text</summary><pre>(.*?)</pre>", page.read_text(), re.S)
    assert leaking.startswith("callable · eager · batch 128 · CPU:0")
    assert "growth      32.8 kB/step" in leaking


def test_a_comparison_is_a_table_with_verdicts(page: Path) -> None:
    text = re.sub(r"<[^>]+>", " ", page.read_text())
    assert re.search(r"growth\s+0 B/step\s+32\.8 kB/step\s+0\s+exact\s+better", text)


@pytest.mark.browser
def test_the_frame_is_drawn_at_its_full_height(browser: webdriver.Chrome, page: Path) -> None:
    browser.get(page.as_uri())
    frames = browser.find_elements("css selector", "iframe")
    assert len(frames) == 2
    for frame in frames:
        height = frame.size["height"]
        browser.switch_to.frame(frame)
        needed = browser.execute_script("return document.documentElement.scrollHeight")
        drawn = browser.execute_script(
            "const canvas = document.querySelector('.lives-plot canvas');"
            "return canvas && canvas.offsetWidth"
        )
        browser.switch_to.default_content()
        assert height >= needed > 300
        assert drawn > 300, "the picture of lives"
