"""Every named sweep composes, and its header says the question, the cost and the command."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from runner import paths
from runner.cell import Plan
from runner.commands import call
from runner.compose import composition

YAML = {path.stem: path for path in sorted((paths.find_conf() / "experiment").glob("*.yaml"))}

experiments = pytest.mark.parametrize("name", YAML)


@cache
def planned(name: str) -> Plan:
    return composition.compose_plan([f"experiment={name}"])


def header(name: str) -> str:
    lines = YAML[name].read_text().splitlines()
    assert lines[0] == "# @package _global_"
    comment = []
    for line in lines[1:]:
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("# "))
    return "\n".join(comment)


def test_there_is_one_for_every_document_and_one_for_a_training() -> None:
    """By the scenarios that come from the document; the first of each is its natural question."""
    swept = {cell.experiment.scenario_name for name in YAML for cell in planned(name).cells}
    for one_of_a_document in (
        "python_loop",
        "session_loop",
        "large_tensor",
        "dense_batch",
        "op_allocation",
        "keras_training",
    ):
        assert one_of_a_document in swept


@experiments
def test_it_is_a_sweep_of_several_cells_that_all_can_run(name: str) -> None:
    plan = planned(name)
    assert plan.is_sweep
    assert plan.swept
    assert len(plan.cells) > 1
    assert all(cell.experiment.supported for cell in plan.cells)
    assert len({cell.experiment.cell for cell in plan.cells}) == len(plan.cells)


@experiments
def test_its_first_sentence_is_the_question_and_its_line_in_the_list(name: str) -> None:
    sentence, mark, _ = header(name).partition("?")
    assert mark
    assert sentence[0].isupper()
    assert ". " not in sentence.replace("\n", " ")


@experiments
def test_its_header_says_what_it_costs(name: str) -> None:
    found = re.search(r"^Cost: (\d+) cells, .*(minute|second)", header(name), re.MULTILINE)
    assert found
    plan = planned(name)
    assert int(found[1]) == (plan.search.n_trials if plan.search else len(plan.cells))


@experiments
def test_its_header_says_the_command(name: str) -> None:
    [command] = re.findall(r"^Command: (.*)$", header(name), re.MULTILINE)
    assert command.removesuffix(" measure=quick") == f"python -m runner experiment={name}"


def test_the_list_shows_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    call("list", ["experiment", "--json"])
    assert json.loads(capsys.readouterr().out)["experiment"] == {
        name: header(name).replace("\n", " ").partition("?")[0] + "?" for name in YAML
    }
