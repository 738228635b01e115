"""The page in a real browser: light and dark, on a phone, by keyboard, by pointer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.render import html
from tests.factories import kept
from tests.system.render.conftest import PHONE, Open
from tests.unit.render.known import make_known_run
from tests.unit.render.test_elements import make_hostile_run, write_hostile_sweep

pytestmark = pytest.mark.browser


@pytest.fixture(params=["run", "sweep"])
def any_page(request: pytest.FixtureRequest, run_folder: Path, sweep_folder: Path) -> Path:
    return html.write_page(run_folder if request.param == "run" else sweep_folder)


def test_it_loads_nothing_and_has_no_error(open_page: Open, any_page: Path) -> None:
    page = open_page(any_page)
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.get_log("browser") == []


@pytest.mark.parametrize("hostile_names", [False, True], ids=["plain", "hostile"])
def test_on_a_phone_the_page_never_scrolls_sideways(
    open_page: Open, any_page: Path, hostile_names: bool, tmp_path: Path
) -> None:
    if hostile_names:
        kind = any_page.parent.name
        folder = tmp_path / "hostile"
        any_page = html.write_page(
            write_hostile_sweep(folder) if kind == "sweep" else kept(make_hostile_run(), folder)
        )
    page = open_page(any_page, PHONE)
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE


def test_hostile_names_run_nothing(open_page: Open, tmp_path: Path) -> None:
    page = open_page(html.write_page(write_hostile_sweep(tmp_path / "sweep")))
    assert page.execute_script("return window.hacked") is None
    assert page.execute_script("return document.images.length") == 0
    assert "window.hacked = 1" in page.find_element("tag name", "h1").text


def test_it_is_dark_where_the_reader_s_system_is(open_page: Open, any_page: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert open_page(any_page, scheme="light").execute_script(ground) == "rgb(255, 255, 255)"
    assert open_page(any_page, scheme="dark").execute_script(ground) == "rgb(20, 23, 27)"


def read_first_column(page: Any, table: int) -> list[str]:
    rows = page.find_elements("css selector", "table.sortable")[table].find_elements(
        "css selector", "tbody tr"
    )
    return [row.find_element("css selector", "th").text for row in rows]


def test_a_table_is_sorted_by_keyboard_and_what_has_no_value_stays_last(
    open_page: Open, sweep_folder: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    page = open_page(html.write_page(sweep_folder))
    table = page.find_element("css selector", "table.sortable")
    heads = table.find_elements("css selector", "thead button")
    (peak,) = [head for head in heads if head.text == "peak"]
    peak.send_keys(Keys.ENTER)
    peak.send_keys(Keys.SPACE)
    rows = [row.text for row in table.find_elements("css selector", "tbody tr")]
    assert rows[0].startswith("python_loop 128")
    assert "out of memory" in rows[-1]
    parent = peak.find_element("xpath", "..")
    assert parent.get_attribute("aria-sort") == "descending"


def test_exact_values_are_a_key_away(open_page: Open, run_folder: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    page = open_page(html.write_page(run_folder))
    table = page.find_element("css selector", ".table")
    assert "5.12 MB" in table.text
    table.find_element("css selector", ".switch input").send_keys(Keys.SPACE)
    assert "5,120,000 bytes" in table.text
    assert "5.12 MB" not in table.text


def test_the_curve_is_read_by_arrow_keys_and_by_pointer(open_page: Open, run_folder: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    page = open_page(html.write_page(run_folder))
    plot = page.find_element("css selector", ".plot")
    area, output = (plot.find_element("css selector", name) for name in (".area", "output"))
    area.send_keys(Keys.HOME)
    assert output.text == "40,004 bytes at 0.00 ns"
    area.send_keys(Keys.ARROW_RIGHT)
    assert output.text == "5,160,004 bytes at 100 ms"
    # A value holds until the next one: at 0.6 of the step it is still the peak, at 0.3 it is not.
    width = area.size["width"]
    for share, text in ((0.6, "5,160,004 bytes at 100 ms"), (0.3, "40,004 bytes at 0.00 ns")):
        ActionChains(page).move_to_element_with_offset(
            area, int(width * (share - 0.5)), 0
        ).perform()
        assert output.text == text


def test_without_its_script_the_page_says_the_same(open_page: Open, run_folder: Path) -> None:
    path = html.write_page(run_folder)
    with_script = open_page(path).find_element("tag name", "main").text
    silent = path.with_name("silent.html")
    text = path.read_text()
    silent.write_text(text[: text.index("<script>")] + text[text.index("</script>") :])
    assert open_page(silent).find_element("tag name", "main").text == with_script


def test_the_tree_opens_and_closes_by_keyboard(open_page: Open, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    page = open_page(html.write_page(kept(make_known_run(), tmp_path / "run")))
    branch = page.find_element("css selector", ".tree details")
    summary = branch.find_element("css selector", "summary")
    assert "MatMul" in branch.text
    summary.send_keys(Keys.ENTER)
    assert "MatMul" not in branch.text
    summary.send_keys(Keys.ENTER)
    assert "MatMul" in branch.text
