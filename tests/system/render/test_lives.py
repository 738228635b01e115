"""The picture of lives: what it says without its script, and what it does in a browser."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from runner.allocations import Frame, SourceLine, Split, TensorKind
from runner.metrics import format_bytes, format_seconds
from runner.render import html
from runner.render.html import lives as lives_figures
from runner.render.html import lives_layout
from tests.factories import kept
from tests.system.render.conftest import PHONE, Open
from tests.unit.render.known import make_known_run
from tests.unit.render.lives import KNOWN, KNOWN_PEAK, make_many_lives, make_run
from tests.unit.render.pages import parse_page
from tests.unit.render.test_elements import HOSTILE

SMALLER = dataclasses.replace(KNOWN, bands=KNOWN.bands[:3], peak_seconds=2.0)


@pytest.fixture
def known_page(tmp_path: Path) -> Path:
    return html.write_page(kept(make_run(KNOWN, KNOWN_PEAK), tmp_path / "run"))


@pytest.fixture
def sweep_page(tmp_path: Path) -> Path:
    """Three cells, the first with the highest peak."""
    for number, (name, its, total) in enumerate(
        [("python_loop", KNOWN, KNOWN_PEAK), ("numpy_loop", KNOWN, KNOWN_PEAK),
         ("while_loop", SMALLER, 142_400)]
    ):  # fmt: skip
        record = make_run(its, total, id=name)
        spec = dataclasses.replace(record.spec, scenario=name)
        kept(dataclasses.replace(record, cell=name, spec=spec), tmp_path / "sweep" / str(number))
    return html.write_page(tmp_path / "sweep")


def test_without_its_script_a_table_says_what_is_live_at_the_peak(known_page: Path) -> None:
    section = parse_page(known_page.read_text()).section("Every tensor of the peak's step")
    (caption,) = section.all("caption")
    assert caption.text == "245 kB (244,800 bytes) live at 5.00 s, the peak"
    assert section.table() == [
        ["tensor", "bytes", "line"],
        ["2 × MatMul 128 x 100", "102 kB", "model.py:12"],
        ["MatMul 128 x 100", "51.2 kB", "train.py:9"],
        ["MatMul 128 x 100", "51.2 kB", "model.py:12"],
        ["Fill 100 x 100", "40.0 kB", "train.py:3"],
    ]
    hidden = [each for each in section.all("canvas") + section.all("select")
              if "hidden" not in each.attributes]  # fmt: skip
    assert len(hidden) == len(section.all("canvas")) == 2  # their box is hidden instead
    assert "hidden" in section.all("div", class_="lives-plot")[0].attributes


def test_a_record_without_lives_has_no_picture(run_folder: Path) -> None:
    tree = parse_page(html.write_page(run_folder).read_text())
    assert tree.all("canvas") == []


def test_the_data_are_small_and_say_the_same() -> None:
    found = make_run(make_many_lives(2_000), 1).allocations
    assert found is not None
    told = lives_figures.CellLives("run", found)
    packed, stack = lives_figures.pack_lives(told), told.stack
    data = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert data["bytes"] == [band.bytes for band, _, _ in stack.bands]
    assert list(accumulate(data["born"])) == [born for _, born, _ in stack.bands]
    assert list(accumulate(data["died"])) == [died for _, _, died in stack.bands]
    times = [round((event - stack.events[0]) * 1e9) for event in stack.events]
    assert list(accumulate(data["times"])) == times
    assert len(packed) < 50_000


def test_where_no_line_is_known_the_card_says_why() -> None:
    line = SourceLine(
        None, None, None, 1, 4, 1.0, Split(0, 4, None, 0), (), why="made by TensorFlow"
    )
    record = make_run(KNOWN, KNOWN_PEAK)
    assert record.allocations is not None
    found = dataclasses.replace(record.allocations, lines=(line,))
    told = lives_figures.CellLives("run", found)
    data = json.loads(zlib.decompress(base64.b64decode(lives_figures.pack_lives(told))))
    assert data["why"] == "made by TensorFlow"


def test_a_sweep_s_page_holds_few_bands_of_a_cell_and_the_exact_edge(tmp_path: Path) -> None:
    its = make_many_lives(2_000)
    peak = max(lives_layout.stack_bands(its).sum_levels())
    for number in range(2):
        record = make_run(its, peak, id=str(number))
        spec = dataclasses.replace(record.spec, batch_size=number + 1)
        record = dataclasses.replace(record, cell=str(number), spec=spec)
        kept(record, tmp_path / "sweep" / str(number))
    tree = parse_page(html.write_page(tmp_path / "sweep").read_text())
    (shown,) = tree.all("div", class_="lives")
    data = json.loads(zlib.decompress(base64.b64decode(shown.attributes["data-lives"] or "")))
    assert len(data["bytes"]) == html.MOST_BANDS
    assert write_exactly(peak) in tree.all("caption")[0].text


def write_exactly(size: int) -> str:
    return f"({size:,} bytes)"


def make_hostile_lives() -> Any:
    kinds = tuple(
        TensorKind(HOSTILE, kind.shape, HOSTILE, HOSTILE, (0,) if kind.stack else ())
        for kind in KNOWN.kinds
    )
    return dataclasses.replace(KNOWN, kinds=kinds)


def make_hostile_run() -> Any:
    record = make_run(make_hostile_lives(), KNOWN_PEAK)
    assert record.allocations is not None
    frames = (Frame(HOSTILE, 1, HOSTILE, HOSTILE),)
    return dataclasses.replace(
        record, allocations=dataclasses.replace(record.allocations, frames=frames)
    )


def test_names_of_ops_files_and_source_are_text_and_nothing_else(tmp_path: Path) -> None:
    tree = parse_page(html.write_page(kept(make_hostile_run(), tmp_path / "run")).read_text())
    assert len(tree.all("script")) == len(tree.all("style")) == 1
    assert tree.all("img") == []
    assert "window.hacked = 1</script>" in tree.section("Every tensor of the peak's step").text


# In a browser.


def open_figure(page: Any) -> Any:
    """The picture, once it is drawn."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(page, 10).until(
        lambda _: page.execute_script("return document.querySelector('.lives')?.lives.figure.field")
    )
    return page.find_element("css selector", ".lives")


def read_caption(root: Any) -> str:
    text: str = root.find_element("css selector", "caption").text
    return text


def read_card(root: Any) -> str:
    text: str = root.find_element("css selector", ".lives-tensor").text
    return text


def point(page: Any, root: Any, seconds: float, size: float, click: bool = False) -> None:
    """Point at a moment and so many bytes above 0."""
    from selenium.webdriver import ActionChains

    canvas = root.find_element("css selector", "canvas")
    x, y, wide, high = page.execute_script(
        "const f = arguments[0].lives.figure; f.canvas.scrollIntoView({block: 'center'});"
        "return [f.x(arguments[1] * 1e9), f.y(arguments[2]),"
        " f.canvas.clientWidth, f.canvas.clientHeight]",
        root, seconds, size,
    )  # fmt: skip
    moved = ActionChains(page).move_to_element_with_offset(
        canvas, round(x - wide / 2), round(y - high / 2)
    )
    (moved.click() if click else moved).pause(0.1).perform()


@pytest.mark.browser
def test_the_arrow_keys_read_the_exact_live_bytes_at_every_event(
    open_page: Open, known_page: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    root = open_figure(open_page(known_page))
    stack = lives_layout.stack_bands(KNOWN)
    canvas = root.find_element("css selector", "canvas")
    canvas.send_keys(Keys.HOME)
    for event, level in enumerate(stack.sum_levels()):
        when = format_seconds(stack.events[event] - stack.events[0])
        peak = ", the peak" if event == stack.peak else ""
        words = f"{format_bytes(level)} {write_exactly(level)} live at {when}{peak}"
        wait_for(root, lambda words=words: read_caption(root) == words)
        rows = root.find_elements("css selector", "tbody tr")
        assert len(rows) == len(list(stack.list_live(event)))
        canvas.send_keys(Keys.ARROW_RIGHT)


def wait_for(root: Any, holds: Any) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(root.parent, 5, poll_frequency=0.02).until(lambda _: holds())


@pytest.mark.browser
def test_the_drawn_edge_is_the_highest_live_bytes_of_each_column(
    open_page: Open, tmp_path: Path
) -> None:
    its = make_many_lives(1_000)
    stack = lives_layout.stack_bands(its)
    path = html.write_page(kept(make_run(its, max(stack.sum_levels())), tmp_path / "run"))
    root = open_figure(open_page(path))
    drawn, low, high, height = root.parent.execute_script(
        """const f = arguments[0].lives.figure, found = [];
        for (let column = 0; column < f.width; column++) {
          let row = 0;
          while (row < f.height && !f.field[row * f.width + column]) row++;
          found.push(f.height - row);
        }
        return [found, ...f.whole.bytes, f.height];""",
        root,
    )
    levels, end = stack.sum_levels(), its.end_seconds - stack.events[0]
    for column, rows in enumerate(drawn):
        begin, until = (end * (column + side) / len(drawn) for side in (0, 1))
        before = max(at for at, time in enumerate(stack.events) if time <= begin + 1e-9)
        inside = [at for at, time in enumerate(stack.events) if begin < time < until]
        expected = max(levels[at] for at in [before, *inside])
        assert abs(rows - (expected - low) / (high - low) * height) <= 1


@pytest.mark.browser
def test_pointing_tells_the_tensor_and_a_click_keeps_it(open_page: Open, known_page: Path) -> None:
    page = open_page(known_page)
    root = open_figure(page)
    point(page, root, 4.5, 120_000)
    assert read_caption(root).startswith("194 kB (193,600 bytes) live at 4.49 s")
    told = read_card(root)
    assert told.startswith("2 × MatMul 128 x 100 float32\n")
    for words in (
        "102 kB together (102,400 bytes)",
        "net/model.py:12, in call",
        "hidden = tf.matmul(inputs, self.weight)",
        "net/dense",
        "gradient: made in the step, kept for the gradient",
        "at 4.00 s",
        "at 7.00 s, 3.00 s later: after Const",
        "train.py:3",
    ):
        assert words in told, words
    point(page, root, 4.5, 120_000, click=True)
    point(page, root, 4.5, 20_000)
    assert read_card(root).startswith("Fill 100 x 100")
    assert "before the step" in read_card(root)
    assert "not in this step" in read_card(root)
    point(page, root, 0.5, 240_000)  # nothing lies there: what is kept stands
    assert read_card(root).startswith("2 × MatMul")
    kept_rows = root.find_elements("css selector", "[aria-pressed=true][data-band]")
    assert kept_rows == []  # the table follows the moment, in which it is not yet made
    assert read_caption(root).startswith("40.0 kB (40,000 bytes) live at 482 ms")


@pytest.mark.browser
def test_from_the_keyboard_bands_are_walked_kept_and_pressed_in_the_table(
    open_page: Open, known_page: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    root = open_figure(open_page(known_page))
    canvas = root.find_element("css selector", "canvas")
    canvas.send_keys("p", Keys.ARROW_UP)
    wait_for(root, lambda: read_card(root).startswith("Fill 100 x 100"))
    canvas.send_keys(Keys.ARROW_UP, Keys.ENTER)
    wait_for(root, lambda: read_card(root).startswith("MatMul 128 x 100"))
    pressed = """return [...document.querySelectorAll("tbody [aria-pressed=true]")].map(
      (each) => each.textContent)"""
    assert root.parent.execute_script(pressed) == ["MatMul 128 x 100"]
    root.find_element("css selector", "tbody button").send_keys(Keys.ENTER)
    largest = ["2 × MatMul 128 x 100"]
    wait_for(root, lambda: root.parent.execute_script(pressed) == largest)
    assert root.parent.switch_to.active_element.text == "2 × MatMul 128 x 100"


@pytest.mark.browser
def test_dragging_zooms_and_escape_shows_the_whole_step_again(
    open_page: Open, known_page: Path
) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    page = open_page(known_page)
    root = open_figure(page)
    canvas = root.find_element("css selector", "canvas")
    back = root.find_element("css selector", ".lives-controls button")
    view = "return arguments[0].lives.figure.view.map((each) => each / 1e9)"
    assert page.execute_script(view, root) == [0, 10]
    assert not back.is_enabled()
    point(page, root, 4, 100_000)
    wide = (canvas.size["width"] - 70) / 10
    ActionChains(page).click_and_hold().move_by_offset(round(2 * wide), 0).release().perform()
    begin, end = page.execute_script(view, root)
    assert begin == pytest.approx(4, abs=0.05)
    assert end == pytest.approx(6, abs=0.05)
    assert back.is_enabled()
    canvas.send_keys(Keys.ESCAPE)
    assert page.execute_script(view, root) == [0, 10]


def count_colours(page: Any, root: Any) -> int:
    count: int = page.execute_script(
        """const canvas = arguments[0].querySelector("canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size""",
        root,
    )
    return count


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_of_lines_layers_ops_or_kinds_and_each_has_its_bytes_at_the_peak(
    open_page: Open, known_page: Path, scheme: str
) -> None:
    page = open_page(known_page, scheme=scheme)
    root = open_figure(page)
    named = {
        "line": {"model.py:12": "154 kB", "train.py:9": "51.2 kB", "train.py:3": "40.0 kB"},
        "layer": {"net/dense": "205 kB", "net/dense/kernel": "40.0 kB"},
        "op": {"MatMul": "205 kB", "Fill": "40.0 kB"},
        "kind": {"held": "40.0 kB", "gradient": "154 kB", "passing": "51.2 kB"},
    }
    for by, expected in named.items():
        root.find_element("css selector", f"input[value={by}] + span").click()
        found = page.execute_script(
            """return Object.fromEntries([...document.querySelectorAll(".lives-legend button")].map(
              (each) => ["span", "b"].map((name) => each.querySelector(name).textContent)))"""
        )
        assert found == expected
        cut = page.execute_script(
            """return [...document.querySelectorAll(".lives-legend button")].filter((each) => {
              const span = each.querySelector("span");
              const long = span.textContent;
              span.textContent = "a_very_long_name_of_a_module".repeat(3) + long;
              const isCut = span.scrollWidth > span.clientWidth
                || span.getBoundingClientRect().right > each.getBoundingClientRect().right + 1;
              span.textContent = long;
              return isCut; }).length"""
        )
        assert cut == 0, "the end of a name, where the line's number stands"
        before = count_colours(page, root)
        assert before > len(expected)
    first = root.find_element("css selector", ".lives-legend button")
    first.click()
    lit = root.find_element("css selector", ".lives-legend button")
    assert lit.get_attribute("aria-pressed") == "true"


def test_a_sweep_shows_its_cell_with_the_highest_peak_by_name(sweep_page: Path) -> None:
    section = parse_page(sweep_page.read_text()).section("Every tensor of the peak's step")
    assert [head.text for head in section.all("h3")] == ["python_loop"]
    assert "(244,800 bytes)" in section.all("caption")[0].text


@pytest.mark.browser
def test_bytes_and_times_are_written_as_everywhere_else(open_page: Open, known_page: Path) -> None:
    page = open_page(known_page)
    root = open_figure(page)
    sizes = [
        0,
        1,
        999,
        1000,
        1234,
        9995,
        99_949,
        99_950,
        999_499,
        1_000_000,
        36_024_968,
        5 * 10**12,
    ]
    found = page.execute_script(
        "return arguments[1].map((each) => arguments[0].lives.readable.bytes(each))", root, sizes
    )
    assert found == [format_bytes(size) for size in sizes]
    times = [0, 1, 15, 1_000, 786_322_557, 99_960_000, 2_500_000_000]
    found = page.execute_script(
        "return arguments[1].map((each) => arguments[0].lives.readable.time(each))", root, times
    )
    assert found == [format_seconds(time / 1e9) for time in times]


@pytest.mark.browser
@pytest.mark.parametrize("which", ["run", "sweep"])
def test_it_loads_nothing_fits_a_phone_and_runs_nothing_foreign(
    open_page: Open, which: str, tmp_path: Path
) -> None:
    folder = tmp_path / which
    if which == "run":
        kept(make_hostile_run(), folder)
    else:
        for number in range(2):
            record = make_hostile_run()
            spec = dataclasses.replace(record.spec, batch_size=number + 1)
            kept(dataclasses.replace(record, cell=str(number), spec=spec), folder / str(number))
    page = open_page(html.write_page(folder), PHONE)
    root = open_figure(page)
    point(page, root, 4.5, 120_000, click=True)
    assert "window.hacked = 1</script>" in read_card(root)
    for by in ("layer", "op", "kind"):
        root.find_element("css selector", f"input[value={by}] + span").click()
    assert page.execute_script("return window.hacked") is None
    assert page.execute_script("return document.images.length") == 0
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE
    assert page.get_log("browser") == []


def test_a_known_run_of_an_older_version_still_has_its_page(tmp_path: Path) -> None:
    text = html.write_page(kept(make_known_run(), tmp_path / "run")).read_text()
    assert "Every tensor" not in text.partition("<body>")[2].partition("<script>")[0]
