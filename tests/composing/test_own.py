"""Configuration of one's own, outside the clone: found, listed with where it comes from, run, and
found again from the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import places
from runner.__main__ import main
from runner.composing import composition
from runner.errors import BadInput
from runner.export.command import reproduce
from tests.conftest import MeasureWords

SCENARIO = """\
# Adds a tensor to itself. It is the team's.
_target_: theirs_of_the_test.Doubling
size: 1000
"""
EXPERIMENT = """\
# @package _global_
# Does a sum of more cost more?
defaults:
  - override /scenario: doubling
hydra:
  mode: MULTIRUN
  sweeper: {params: {scenario.size: "range(500,1501,500)"}}
"""
CLASS = '''\
from dataclasses import dataclass
from typing import ClassVar

from runner.config import Count


@dataclass(frozen=True)
class Doubling:
    """Adds a tensor to itself."""

    executions: ClassVar = ("eager", "graph")
    size: Count

    def build(self, bench):
        import tensorflow as tf

        tensor = tf.ones([self.size])
        return bench.compile(lambda: tensor + tensor)
'''


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A team's folder, where a user stands who has said nothing of it yet."""
    for name, text in {
        "conf/scenario/doubling.yaml": SCENARIO,
        "conf/experiment/doublings.yaml": EXPERIMENT,
        "conf/claim/our-01.yaml": "claim: Ours.\n",
        "conf/config.yaml": "of: another program\n",
        "theirs_of_the_test.py": CLASS,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "conf"


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
        composition.plan(words, tmp_path / "sweep")


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
    plan = composition.plan([*words, "experiment=doublings"], conf / "sweep")
    assert [cell.experiment.parameters for cell in plan.cells] == [
        {"size": 500},
        {"size": 1000},
        {"size": 1500},
    ]


def test_a_variable_of_the_environment_names_the_folder_for_every_command(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "conf")
    (cell,) = composition.cells([{"scenario": "doubling", "scenario.size": 7}])
    assert cell.experiment.parameters == {"size": 7}


def test_a_record_of_it_says_how_to_repeat_it_from_anywhere(
    conf: Path, measure: MeasureWords
) -> None:
    record = measure("--config-dir", "conf", "scenario=doubling")
    assert record.metrics["tensor_peak_bytes"] == 2 * 4000
    assert record.spec["target"] == "theirs_of_the_test.Doubling"
    assert f"runner --config-dir {conf} scenario=doubling " in reproduce(record)


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
        composition.plan([*words, "scenario=doubling"], conf / "sweep")


def test_a_choice_with_the_name_of_one_of_ours_is_refused_and_not_passed_over(conf: Path) -> None:
    (conf / "scenario" / "tape.yaml").write_text(SCENARIO)
    with pytest.raises(BadInput, match=r"tape\.yaml: there is a scenario of that name already"):
        composition.plan(["--config-dir", "conf", "scenario=tape"], conf / "sweep")
    assert places.choices("scenario")["tape"].is_relative_to(places.conf())
