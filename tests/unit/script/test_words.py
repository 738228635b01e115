"""The words of a command that names a script, and what Hydra makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.commands import make_parser
from runner.compose import composition
from runner.errors import BadInput
from runner.script.words import split_words

ODD = [
    "--a=b",
    "a:b",
    "true",
    "a-b.py",
    "it's",
    "a,b",
    "[x]",
    "${x}",
    "a\\b",
    "end\\",
    "\\'",
    "",
    "{batch_size}",
    "$HOME",
]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trains')\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").touch()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["train.py", "-m", "x"], ([], "train.py", ["-m", "x"])),
        (["measure=quick", "--show", "train.py", "a=b"],
         (["measure=quick", "--show"], "train.py", ["a=b"])),
        (["-m", "package.train", "--config", "c"], ([], "-m package.train", ["--config", "c"])),
        (["-m", "scenario=tape"], (["-m", "scenario=tape"], None, [])),
        (["gone.py"], ([], "gone.py", [])),
    ],
)  # fmt: skip
def test_words_before_the_script_are_the_runners(words: list[str], found: object) -> None:
    assert split_words(words) == found


def compose(verb: str, *words: str) -> object:
    settings = make_parser(verb).parse(words).settings
    (cell,) = composition.compose_plan([*settings, "tracking=none"]).cells
    return cell.experiment.scenario


@pytest.mark.parametrize("verb", ["script", "leak", "fit"])
def test_a_scripts_words_come_through_hydra_as_they_are(verb: str) -> None:
    found = compose(
        verb, "batch_size=8", "train.py", *ODD, *("\\${y}", "$${z}", '"q"', "null", "1")
    )
    assert found.argv == [*ODD, *("\\${y}", "$${z}", '"q"', "null", "1")]
    assert found.max_steps == "measured"


def test_a_sweep_may_name_a_script_in_hydras_own_grammar() -> None:
    words = ("scenario.path=train.py", 'scenario.argv=[--batch-size,"{batch_size}"]')
    plan = composition.compose_plan(["-m", "scenario=script", *words, "batch_size=32,64"])
    assert [cell.experiment.scenario.argv for cell in plan.cells] == [
        ["--batch-size", "{batch_size}"]
    ] * 2
    assert plan.cells[0].experiment.execution == "own"


@pytest.mark.parametrize(("said", "value"), [("12", 12), ("null", None), ("measured", "measured")])
def test_a_number_of_steps_is_a_number_or_none_or_as_measured(said: str, value: object) -> None:
    assert compose("script", f"scenario.max_steps={said}", "train.py").max_steps == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone.py"], "there is no script gone.py"),
        (["-m", "package.gone"], "there is no module 'package.gone'"),
        (["scenario.max_steps=0", "train.py"], "out of range"),
        (["scenario.step=train", "train.py"], "names no function"),
        (["execution=eager", "train.py"], "has no 'eager' execution"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(words: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        compose("script", *words)


def test_a_script_with_a_mistake_in_its_syntax_is_told_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\ndef broken(:\n")
    with pytest.raises(BadInput, match=r"train\.py, line 2"):
        compose("script", "train.py")
