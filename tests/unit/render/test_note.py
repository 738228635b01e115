"""A record in Markdown, and the command in it that measures the same again."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from runner.compose import composition
from runner.render.files.command import write_command
from runner.render.files.note import write_note, write_sweep_note
from tests.factories import ALLOCATIONS, completed, failed, sweep_of_nine

HERE = Path("outputs/runs/1")


def test_words_of_others_are_text_in_the_note_and_no_markdown() -> None:
    nasty = "![x](http://e.vil/p.png)\n\n# [click](http://e.vil) <b> \x1b[2J"
    record = dataclasses.replace(failed(), unavailable={"host_peak_bytes": nasty})
    text = write_note(record, HERE)
    assert r"\!\[x\]\(http://e.vil/p.png\) \# \[click\]\(http://e.vil\) \<b\>" in text
    assert "\x1b" not in text


def test_the_note_begins_with_what_came_out_and_which_lines_made_the_peak() -> None:
    record = dataclasses.replace(completed(), allocations=ALLOCATIONS)
    first, second, third = write_note(record, HERE).split("\n\n")[:3]
    assert first.startswith("**Completed**: peak **78.4 kB**")
    assert second == "Peak made by `model.py:7` 96.7 %, `no line` 3.3 %."
    assert third.startswith("```\npython -m runner scenario=while_loop")


def test_a_sweep_s_note_has_a_row_a_cell_with_the_smallest_peak_first() -> None:
    text = write_sweep_note(sweep_of_nine())
    assert text.startswith("**9 cells**: 8 completed, 1 out of memory.")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[0] for row in rows][-1] == "| python_loop"
    assert "out of memory in first_call: OOM when" in rows[-1]
    assert len(rows) == 9
    assert len(text) < 8000


@pytest.mark.parametrize(
    "words",
    [
        ["scenario=while_loop"],
        ["scenario=python_loop", "scenario.gradient=tape", "execution=xla", "batch_size=7"],
        ["scenario=while_loop", "scenario.swap_memory=true", "device=cpu", "seed=3"],
        ["scenario=variable_loop", "measure=standard", "measure.timeout_seconds=7.5"],
        ["scenario=numpy_loop", "device.memory_limit_mb=64", "device.intra_op_threads=1"],
    ],
)
def test_the_command_in_the_note_measures_the_same_cell(words: list[str]) -> None:
    experiment = composition.compose_plan(words).cells[0].experiment
    record = dataclasses.replace(completed(), spec=experiment.spec, cell=experiment.cell)
    (
        python,
        *module,
    ) = shlex.split(write_command(record))
    assert [python, *module[:2]] == ["python", "-m", "runner"]
    again = composition.compose_plan(module[2:]).cells[0].experiment
    assert again.cell == record.cell


@pytest.mark.parametrize(
    "odd",
    ["a b", "it's", "x,y", "a=b", "back\\slash'", "true", "12", "", "{a: 1}", "mod:fn"],
)
def test_a_value_that_hydra_or_the_shell_would_take_apart_is_quoted(odd: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    record = completed(gradient=odd)
    (word,) = [w for w in shlex.split(write_command(record)) if w.startswith("scenario.gradient=")]
    assert str(OverridesParser.create().parse_override(word).value()) == odd


def test_a_mapping_is_written_as_hydra_reads_it() -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    arguments = {"units": 3, "name": "a b", "deep": {"flag": True, "list": [1, 2.5, None]}}
    record = completed(arguments=arguments)
    (word,) = [w for w in shlex.split(write_command(record)) if w.startswith("scenario.arguments=")]
    override = OverridesParser.create().parse_override(word)
    assert OmegaConf.to_container(OmegaConf.create({"a": override.value()}))["a"] == arguments


@pytest.mark.parametrize(
    "text",
    [
        "${oc.env:HOME}",
        r"\${oc.env:HOME}",
        r"a\\${seed}",
        "${a",
        "it's ${seed}",
        "\\",
        "a\\\\",
        "'",
    ],
)
def test_what_a_record_says_is_never_looked_up(text: str) -> None:
    """A stranger's record is repeated by its words: they are text, whatever they hold."""
    from runner.compose import composition

    parameters = {"target": "os:fspath", "arguments": {"path": text}}
    spec = dataclasses.replace(
        completed().spec, scenario="callable", parameters=parameters, execution="eager"
    )
    words = shlex.split(write_command(dataclasses.replace(completed(), spec=spec)))[3:]
    plan = composition.compose_plan([*words, "tracking=none"])
    assert plan.cells[0].experiment.parameters == parameters
