"""From words to a plan: what Hydra itself is asked, what is said of words that are not used, and
what is left behind."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

from runner.compose import composition
from runner.errors import BadInput

SWEEP = """\
# @package _global_
# Does more cost more?
defaults:
  - override /scenario: tape
hydra:
  {mode}
  sweeper: {{params: {{seed: "1,2"}}}}
"""


def experiment(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "") -> str:
    """Write an experiment of one's own, and return the word that chooses it."""
    file = folder / "conf" / "experiment" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(SWEEP.format(mode=mode))
    monkeypatch.setenv("RUNNER_CONFIG_DIR", str(folder / "conf"))
    return "experiment=mine"


def test_what_an_experiment_sweeps_is_not_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = experiment(tmp_path, monkeypatch)
    plan = composition.compose_plan([word])
    assert len(plan.cells) == 1
    assert plan.notes[0].startswith("hydra.sweeper.params of experiment=mine is not swept")
    swept = composition.compose_plan(["-m", word])
    assert (len(swept.cells), swept.notes) == (2, ())


def test_a_mode_in_the_file_makes_it_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = experiment(tmp_path, monkeypatch, mode="mode: MULTIRUN")
    plan = composition.compose_plan([word])
    assert ([cell.experiment.seed for cell in plan.cells], plan.notes) == ([1, 2], ())


def test_hydra_tells_the_configuration_and_nothing_is_planned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = composition.compose_plan(["scenario=tape", "seed=7", "--cfg", "job"])
    assert plan.cells == ()
    assert yaml.safe_load(capsys.readouterr().out)["seed"] == 7


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["scenario=tape", "--info", "defaults-tree"], "scenario: tape"),
        (["scenario=tape", "--info", "searchpath"], "/conf"),
        (["--hydra-help"], "--hydra-help : Hydra's help"),
        (["scenario=tape", "--help"], "scenario: "),
        (["scenario=tape", "--cfg", "job", "-p", "measure"], "# @package measure"),
    ],
)
def test_hydra_answers_its_own_flags(
    words: list[str],
    part: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Hydra sets logging up and so closes every handler that is there. TensorFlow's, where another
    # test has loaded it, closes its stream as well, which is pytest's own.
    monkeypatch.setattr(logging, "_handlerList", [])
    assert composition.compose_plan(words).cells == ()
    assert part in capsys.readouterr().out


def test_a_programs_own_hydra_and_words_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["theirs", "--not=ours"])
    before = (GlobalHydra.instance().is_initialized(), HydraConfig.instance().cfg)
    for words in (["scenario=tape"], ["-m", "scenario=tape", "seed=1,2"]):
        composition.compose_plan(words)
    with pytest.raises(BadInput):
        composition.compose_plan(["scenario=nothing"])
    composition.compose_cells([{"scenario": "tape"}])
    assert (GlobalHydra.instance().is_initialized(), HydraConfig.instance().cfg) == before
    assert sys.argv == ["theirs", "--not=ours"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sweep.dir", "sweep.subdir", "run.dir", "output_subdir"])
def test_a_place_of_hydras_is_set_by_the_runner(name: str) -> None:
    says = rf"^hydra\.{name} is set by the runner and cannot be overridden\."
    with pytest.raises(BadInput, match=says):
        composition.compose_plan(["scenario=tape", f"hydra.{name}=elsewhere"])


@pytest.mark.parametrize(
    ("words", "unread"),
    [
        (["scenario.argv=[]"], []),
        (["scenario.argv=[]", "batch_size=64"], ["batch_size"]),
        (["-m", "scenario.argv=[]", "batch_size=32,64", "seed=1"], ["batch_size"]),
        (["-m", "scenario.argv=[]", "batch_size=32,64", "seed=1,2"], ["batch_size", "seed"]),
        (["-m", "scenario.argv=[--n,'{batch_size}']", "batch_size=32,64"], []),
        (["-m", "scenario.argv=['--n={seed}'],[--x]", "seed=1,2"], ["seed"]),
    ],
)
def test_a_field_that_a_script_is_not_told_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], unread: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    plan = composition.compose_plan([*words, "scenario=script", "scenario.path=train.py"])
    assert list(plan.notes) == [
        f"{name} is not used: train.py is not told it. Write {{{name}}} among its words."
        for name in unread
    ]
