"""Configuration of one's own, outside the clone: found, listed with where it comes from, run, and
found again from the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import paths
from runner.__main__ import main
from runner.commands import completion
from runner.compose import composition
from runner.errors import BadInput
from tests.team_config import CLASS, SCENARIO, write_team_config


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A team's folder, where a user stands who has said nothing of it yet."""
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return write_team_config(tmp_path)


@pytest.mark.parametrize("base", ["", "(Scenario)"])
def test_a_class_that_says_no_executions_is_not_a_scenario(
    conf: Path, tmp_path: Path, base: str
) -> None:
    lines = [line for line in CLASS.splitlines() if "executions" not in line]
    text = "\n".join(["from runner.scenario import Scenario", *lines]).replace("Doubling", "Bare")
    name = f"bare_{len(base)}"
    (tmp_path / f"{name}.py").write_text(text.replace("class Bare", f"class Bare{base}"))
    own = SCENARIO.replace("theirs_of_the_test.Doubling", f"{name}.Bare")
    (conf / "scenario" / "doubling.yaml").write_text(own)
    words = ["--config-dir", str(conf), "scenario=doubling"]
    with pytest.raises(BadInput, match="is not a scenario"):
        composition.compose_plan(words)


@pytest.mark.parametrize("text", ["name: x", "batch_size: 1", "a: {b: [1]}"])
def test_an_execution_that_is_no_name_is_bad_input(conf: Path, text: str) -> None:
    (conf / "execution").mkdir(exist_ok=True)
    (conf / "execution" / "odd.yaml").write_text(text)
    words = ["--config-dir", str(conf), "scenario=tape", "execution=odd"]
    with pytest.raises(BadInput, match="is not a valid choice"):
        composition.compose_plan(words)


def test_list_shows_a_teams_own_choices_with_where_they_come_from(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"]) == 0
    assert "doubling" not in capsys.readouterr().out
    assert main(["--config-dir", "conf", "list"]) == 0
    said = capsys.readouterr().out
    assert "Adds a tensor to itself [conf/scenario/doubling.yaml]\n" in said
    assert "Does a sum of more cost more? [conf/experiment/doublings.yaml]\n" in said
    assert "claim=our-01" in said


@pytest.mark.parametrize(
    "said",
    [
        ["--config-dir", "conf"],
        ["--config-dir=conf"],
        ["hydra.searchpath=[file://{conf}]"],
        ["hydra.searchpath=['{conf}']"],
    ],
)
def test_an_experiment_of_a_teams_own_sweeps_its_own_scenario(conf: Path, said: list[str]) -> None:
    words = [each.format(conf=conf) for each in said]
    plan = composition.compose_plan([*words, "experiment=doublings"])
    assert [cell.experiment.parameters for cell in plan.cells] == [
        {"size": 500},
        {"size": 1000},
        {"size": 1500},
    ]


def test_a_variable_of_the_environment_names_the_folder_for_every_command(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "conf")
    (cell,) = composition.compose_cells([{"scenario": "doubling", "scenario.size": 7}])
    assert cell.experiment.parameters == {"size": 7}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--config-dir", "nowhere"], "--config-dir nowhere: there is no such folder"),
        (["--config-dir"], "there is no such folder"),
        (["hydra.searchpath=[file:///not/there]"], "there is no folder 'file:///not/there'"),
        (["hydra.searchpath=[pkg://no.such.package]"], "there is no folder 'pkg://no.such"),
        (["hydra.searchpath=conf"], "is not a list of folders"),
    ],
)
def test_a_folder_that_is_not_there_is_refused(conf: Path, words: list[str], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        composition.compose_plan([*words, "scenario=doubling"])


def test_a_choice_with_the_name_of_one_of_ours_is_refused_and_not_passed_over(conf: Path) -> None:
    (conf / "scenario" / "tape.yaml").write_text(SCENARIO)
    with pytest.raises(BadInput, match=r"tape\.yaml: there is a scenario of that name already"):
        composition.compose_plan(["--config-dir", "conf", "scenario=tape"])
    assert paths.find_choices("scenario")["tape"].is_relative_to(paths.find_conf())


def test_an_experiment_in_a_folder_is_listed_completed_and_swept(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (conf / "experiment" / "team" / ".ipynb_checkpoints").mkdir(parents=True)
    (conf / "experiment" / "doublings.yaml").rename(conf / "experiment" / "team" / "first.yaml")
    (conf / "experiment" / "team" / ".ipynb_checkpoints" / "first.yaml").write_text("not: one\n")
    assert main(["--config-dir", "conf", "list", "experiment"]) == 0
    listed = capsys.readouterr().out
    assert "experiment=team/first" in listed
    assert ".ipynb_checkpoints" not in listed
    line = "runner --config-dir conf experiment=te"
    assert completion.complete_line(line) == ["experiment=team/first"]
    plan = composition.compose_plan(["--config-dir", "conf", "experiment=team/first"])
    assert len(plan.cells) == 3
    with pytest.raises(BadInput, match="did you mean 'team/first'"):
        composition.compose_plan(["experiment=team/frist"])
