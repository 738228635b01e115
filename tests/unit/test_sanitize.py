"""Text of others in every view: it is shown, and does nothing."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.render.text.console import Screen, redraw_line, style_text
from runner.sanitize import escape_markdown, format_code_block, format_code_span, make_printable

NASTY = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202eknil\ud800"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text(st.characters(codec=None, categories=None)))
def test_what_is_printable_has_no_control_character_and_can_be_encoded(text: str) -> None:
    shown = make_printable(text)
    shown.encode()
    assert len(shown) == len(text)
    assert all(each in "\t\n" or ord(each) >= 32 for each in shown)
    assert not any("\x7f" <= each <= "\x9f" or each == "\u202e" for each in shown)


def test_a_screen_writes_our_own_codes_and_nobody_elses() -> None:
    below = Terminal()
    screen = Screen(below)
    print(style_text(f"red {NASTY}", "red", screen), file=screen)  # type: ignore[arg-type]
    text = below.getvalue()
    assert text.startswith("\x1b[31mred �[2J")
    assert text.endswith("\x1b[0m\n")
    assert text.count("\x1b") == 2
    assert not set("\x07\r\x9b\u202e") & set(text)


def test_the_line_in_place_is_redrawn_beneath_the_screen_and_only_on_a_terminal() -> None:
    below = Terminal()
    redraw_line("trial 1\x1b[2J", Screen(below))  # type: ignore[arg-type]
    assert below.getvalue() == "\r\x1b[Ktrial 1�[2J"
    piped = io.StringIO()
    redraw_line("trial 1", Screen(piped))  # type: ignore[arg-type]
    assert piped.getvalue() == ""


def test_what_an_encoding_lacks_is_written_out_and_ends_nothing() -> None:
    raw = io.BytesIO()
    screen = Screen(io.TextIOWrapper(raw, encoding="ascii"))
    print("größer █", file=screen)  # type: ignore[call-overload]
    screen.flush()
    assert raw.getvalue() == b"gr\\xf6\\xdfer \\u2588\n"


@pytest.mark.parametrize("text", ["```\n# gotcha", "~~~~~~~~\n<b>", "plain", "`" * 9])
def test_no_text_leaves_its_fence(text: str) -> None:
    for mark in "`~":
        first, *_, last = format_code_block(text, mark).split("\n")
        assert first == last
        assert first not in text


def test_a_line_of_markdown_holds_no_link_no_picture_and_no_html() -> None:
    assert escape_markdown("![x](http://e.vil/p.png)\n# <b>") == (
        r"\!\[x\]\(http://e.vil/p.png\) \# \<b\>"
    )
    assert format_code_span("a`b") == "`` a`b ``"


def test_the_front_door_says_what_nobody_foresaw_in_one_message_and_keeps_the_details(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, runner.__main__ as door;"
        "door._dispatch = lambda _: 1 / 0;"
        "sys.exit(door.main(['list']))"
    )
    command, surroundings = [sys.executable, "-c", code], {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == ("runner: this should not have happened (ZeroDivisionError: division by zero).")
    file = second.split("details are in ")[1].partition(";")[0]
    with open(file) as details:  # noqa: PTH123
        assert "Traceback" in details.read()
