"""Lines that are certainly bad, by the thousand, and attacks of each class: none gets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import hostile
from tests.attacks import classes

OF_EACH = 85


def test_every_bad_line_is_refused_in_one_message_and_leaves_nothing(tmp_path: Path) -> None:
    counts, short = hostile.tried(tmp_path, OF_EACH)
    assert short == []
    assert counts.total() >= 1000


@pytest.mark.parametrize(
    ("code", "said", "seconds", "left", "says"),
    [
        (2, "runner: a: b.\n  c.\n", 0.1, [], None),
        (None, "", 20.0, [], "took more than"),
        (0, "", 0.1, [], "exit code 0"),
        (2, "Traceback (most recent call last):\n", 0.1, [], "no message"),
        (2, "runner: a\nrunner: b\nrunner: c\n", 0.1, [], "3 lines"),
        (2, "runner: \x1b[2J\n", 0.1, [], "not printable"),
        (2, "runner: a: b.\n", 0.1, ["outputs"], "left"),
    ],
)
def test_what_falls_short_is_told(
    code: int | None, said: str, seconds: float, left: list[str], says: str | None
) -> None:
    shortfall = hostile.Answer(code, said, seconds, left).shortfall
    assert shortfall is None if says is None else says in (shortfall or "")


def test_a_line_that_is_good_falls_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path / "outputs"))
    answer = hostile.answer(["scenario=while_loop", "tracking=none"], tmp_path)
    assert answer.shortfall == "exit code 0: let in"


def test_no_attack_of_any_class_falls_short(tmp_path: Path) -> None:
    counts, short = classes.try_all(tmp_path, 0.1)
    assert short == []
    assert counts.keys() == classes.CLASSES.keys()
    assert counts.total() >= 100
