"""One table is the same in the terminal, in Markdown and on a page; words count rightly."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import pytest

from runner.records import COMPLETED, Trial
from runner.render.files.markdown import write_table
from runner.render.html.elements import tag, write_element
from runner.render.html.tables import draw_table
from runner.render.tables import Column, Table, make_bytes_cell, make_table
from runner.render.text.table import align_table
from runner.render.words import count_things, count_trials, join_first
from tests.unit.render.pages import parse_page

ROWS = [("a|b", 5_000, ""), ("a|b", 70, ""), ("c", 1, "")]
COLUMNS: list[Column[tuple[str, int, str]]] = [
    Column("cell", lambda row: row[0]),
    Column("bytes", lambda row: make_bytes_cell(row[1]), is_figure=True),
    Column("nothing", lambda row: row[2]),
]


@pytest.fixture
def table() -> Table:
    return make_table(COLUMNS, ROWS, joined=1)


def test_the_terminal_sets_figures_right_and_says_a_name_once(table: Table) -> None:
    assert align_table(table) == [
        "cell    bytes",
        "a|b   5.00 kB",
        "         70 B",
        "c         1 B",
    ]


def test_markdown_has_the_same_rows_and_no_cell_breaks_them(table: Table) -> None:
    assert write_table(table) == [
        "| cell | bytes |",
        "| :-- | --: |",
        "| a\\|b | 5.00 kB |",
        "|  | 70 B |",
        "| c | 1 B |",
    ]


def test_a_page_has_every_name_and_the_exact_values(table: Table) -> None:
    page = parse_page(write_element(draw_table(table, "sizes")))
    assert page.table() == [["cell", "bytes"], ["a|b", "5.00 kB"], ["a|b", "70 B"], ["c", "1 B"]]
    assert [each.text for each in page.all("span", class_="exact")] == [
        *("5,000 bytes", "70 bytes", "1 byte"),
    ]


def test_a_total_stands_below_and_makes_no_column_on_its_own() -> None:
    table = make_table(COLUMNS, ROWS, total=("sum", 5_071, "all"))
    page = parse_page(write_element(draw_table(table, "sizes")))
    assert [cell.text for cell in page.all("tfoot")[0].all("th")] == ["sum"]
    assert [column.head for column in table.columns] == ["cell", "bytes"]


def test_an_element_is_drawn_on_a_page_alone() -> None:
    def draw(row: str) -> Element:
        return tag("b.mark", row)

    table = make_table([Column[str]("name", draw)], ["x"])
    assert parse_page(write_element(draw_table(table, "names"))).all("b", class_="mark")
    assert table.list_texts() == [["name"], [""]]


def test_a_table_without_rows_has_its_headings() -> None:
    assert make_table(COLUMNS, []).list_texts() == [["cell", "bytes", "nothing"]]


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 cells"), (1, "1 cell"), (2, "2 cells"), (1_500, "1,500 cells")]
)
def test_one_thing_is_no_plural(number: int, words: str) -> None:
    assert count_things(number, "cell") == words


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ([], "no trials"),
        (["memory"], "1 memory trial"),
        (["timing", "memory", "timing"], "1 memory and 2 timing trials"),
        (["host", "memory", "timing"], "1 memory, 1 timing and 1 host trials"),
    ],
)
def test_trials_are_counted_by_kind(kinds: list[str], words: str) -> None:
    assert count_trials([Trial(kind, 0, COMPLETED) for kind in kinds]) == words


def test_what_is_left_of_a_list_is_counted() -> None:
    assert join_first("abcd", 2, "more") == "a, b and 2 more"
    assert join_first("ab", 2, "more") == "a, b"
