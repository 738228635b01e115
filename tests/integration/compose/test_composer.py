"""Planned cells, and refusals, side by side with those of Hydra itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import hydra
import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from runner import paths
from runner.compose import composition
from runner.compose.composer import VERSION_BASE, CellConfig, Composer, open_hydra
from runner.compose.config_dirs import take_config_dirs
from runner.compose.experiments import make_experiment
from runner.compose.translation import translate_errors
from runner.compose.words import read_words
from runner.errors import BadInput

EXPERIMENTS = sorted(path.stem for path in (paths.find_conf() / "experiment").glob("*.yaml"))
NEEDS_MORE = ("callable", "document_example", "script")
SCENARIOS = sorted(
    path.stem
    for path in (paths.find_conf() / "scenario").glob("*.yaml")
    if path.stem not in NEEDS_MORE
)
TARGET = ("scenario=callable", "scenario.target=tests.integration.scenarios.theirs:keeps_nothing")


Cell = tuple[int, object, tuple[str, ...], str]


def planned(*words: str) -> list[Cell]:
    """Return the cells as the runner plans them."""
    cells = composition.compose_plan(words).cells
    return [(each.number, each.experiment, each.overrides, each.composed) for each in cells]


def composed_by_hydra(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> list[Cell]:
    """Return the cells as `hydra.main` gives them to a program, one after the other."""
    line = read_words(take_config_dirs(words))
    given = [f"hydra.sweep.dir='{folder}'", *line.hydra_words, *line.cell_words]
    if any(word.startswith("scenario=") and "," in word for word in line.cell_words):
        # What is swept is unknown while Hydra looks for its sweeper.
        given = [
            f"{key}=choice({value})" if key.startswith("scenario.") and "," not in value else word
            for word in given
            for key, _, value in [word.partition("=")]
        ]
    found: list[Cell] = []

    def note(config: DictConfig) -> None:
        job = HydraConfig.get()
        is_sweep = job.mode is not None and job.mode.name == "MULTIRUN"
        with translate_errors():
            composed = CellConfig.read(config, str(job.runtime.choices.get("scenario")))
        experiment = make_experiment(composed.values, composed.scenario)
        number = int(job.job.num) if is_sweep else 0
        overrides = tuple(OmegaConf.to_container(job.overrides.task, resolve=False))
        found.append((number, experiment, overrides, composed.text))

    monkeypatch.setattr(sys, "argv", ["runner", *["-m"] * line.flags.multirun, *given])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with translate_errors():
        hydra.main(config_path=str(paths.find_conf()), config_name="config", **VERSION_BASE)(note)()
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_named_sweep_is_what_hydra_composes(name: str) -> None:
    """Some of its cells are held against those that Hydra composes one by one."""
    plan = composition.compose_plan([f"experiment={name}"])
    with open_hydra() as opened:
        composer = Composer(opened, [])
        for cell in plan.cells[3::40]:
            whole = composer.compose_whole(cell.number, cell.overrides)
            assert cell.composed == whole.text
            assert cell.experiment == make_experiment(whole.values, whole.scenario)
    assert plan.cells[3::40]


def test_every_scenario_is_what_hydra_composes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("-m", f"scenario={','.join(SCENARIOS)}", "seed=7")
    cells = planned(*words)
    assert len(cells) == len(SCENARIOS)
    assert cells == composed_by_hydra(tmp_path, monkeypatch, words)


@pytest.mark.parametrize(
    "words",
    [
        ["scenario=python_loop", "scenario.size=5,6", "scenario.gradient=tape"],
        ["scenario=python_loop,while_loop", "scenario.size=50", "execution=session"],
        ["scenario=tape", "measure=quick,standard", "measure.steps=5", "device=auto,cpu"],
        ["scenario=tape", "measure.max_seconds=0.5,2,1e1", "device.memory_limit_mb=64,null"],
        ["scenario=tape", "batch_size=1,2", "+measure.steps=7"],
        ["scenario=tape", "batch_size=1,2", "++measure.steps=7"],
        ["scenario=tape", "batch_size=1,2", "seed='${batch_size}'"],
        ["scenario=tape", "batch_size=1,2", "'seed=${hydra:job.num}'"],
        ["scenario=tape", "tracking=none", "batch_size=1,2", "tracking.experiment='a b'"],
        ["scenario=tape", "tracking=none", "batch_size=1,2", "tracking.experiment='1'"],
        ["scenario=tape", "tracking=none", "batch_size=1,2", "tracking.experiment='true'"],
        ["scenario=tape", "batch_size=1,2", "tracking.experiment='${oc.env:HOME}'"],
        ["scenario=tape", "batch_size=1,2", "tracking=server", "tracking.uri=http://here:5000"],
        ["scenario=tape", "seed=sort(3,1,2,reverse=true)", "batch_size=choice(8,16)"],
        ["scenario=tape", "measure.max_seconds=float(2),int(3)", "resume=null", "execution=null"],
        ["scenario=tape", "experiment=loops", "seed=3,4"],
        [*TARGET, "scenario.arguments={width: 3, deep: {a: 1, b: [1, x]}}", "seed=1,2"],
        [*TARGET, "scenario.arguments.width=3,4", "scenario.arguments.deep.a=1"],
        [*TARGET, "+scenario.arguments.width=3,4"],
        # What is refused
        ["scenario=tape", "scenario.dept=3,4"],
        ["scenario=tape", "scenario.depth=3,none"],
        ["scenario=tape", "batch_size=1,0"],
        ["scenario=tape", "batch_size=1,2", "measure=quik"],
        ["scenario=tape,nothing", "batch_size=1,2"],
        ["scenario=tape", "batch_size=1,2", "+measure.stps=7"],
        ["scenario=tape", "batch_size=1,2", "~measure.steps"],
        ["scenario=tape", "batch_size=1,2", "~measure.stepps"],
        ["scenario=tape", "batch_size=1,2", "~measure"],
        ["scenario=tape", "batch_size=1,2", "seed='${nothing}'"],
        ["scenario=tape", "batch_size=1,2", "seed='${oc.env:NOBODY_SETS_THIS}'"],
        ["scenario=tape", "batch_size=1,2", "seed=???"],
        ["scenario=tape", "batch_size=1,2", "scenario@measure=tape"],
        ["scenario=tape", "batch_size=1,[2]", "seed={a: 1}"],
        ["scenario=tape", "batch_size=1,2", "scenario.depth.more=1"],
        ["scenario=tape", "batch_size=1,2", "measure.steps[0]=1"],
        ["batch_size=1,2", "seed=3"],
    ],
    ids=" ".join,
)
def test_every_kind_of_override_is_composed_or_refused_as_by_hydra(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(compose: Callable[[], list[Cell]]) -> list[Cell] | str:
        try:
            return compose()
        except BadInput as refused:
            return str(refused)

    ours = answer(lambda: planned("-m", *words))
    theirs = answer(lambda: composed_by_hydra(tmp_path, monkeypatch, ["-m", *words]))
    assert ours == theirs


@pytest.mark.parametrize(
    ("words", "refusal", "cells"),
    [
        (["scenario=document_example", "scenario.example=glob(*)"], "the sweep has no cells", 0),
        (["scenario=tape", "batch_size=glob(*)", "seed=1,2"], "the sweep has no cells", 0),
        (["scenario=tape", "tracking.experiment='a b','1','true',null_"], "tracking: a sweep", 4),
        (
            ["scenario=tape", "batch_size=1,2", "tracking=local,none"],
            "tracking: a sweep has one",
            4,
        ),
    ],
)
def test_what_hydra_composes_and_no_sweep_can_be_is_refused(
    words: list[str], refusal: str, cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=refusal):
        planned("-m", *words)
    assert len(composed_by_hydra(tmp_path, monkeypatch, ["-m", *words])) == cells


def test_a_thousand_cells_ask_hydra_once_for_each_choice_of_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And set plain fields in plain copies, whatever the files ask of the environment."""
    asked, resolved = [], []
    compose, read = Composer._compose, CellConfig.read
    monkeypatch.setattr(
        Composer,
        "_compose",
        lambda *words: asked.append(words) or compose(*words),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr(
        CellConfig,
        "read",
        lambda *config: resolved.append(config) or read(*config),  # type: ignore[func-returns-value]
    )
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "123")
    plan = composition.compose_plan(["-m", "scenario=tape,python_loop", "seed=range(500)"])
    assert {cell.experiment.tracking.experiment for cell in plan.cells} == {"123"}
    assert len({cell.experiment.cell for cell in plan.cells}) == 1000
    assert (len(asked), len(resolved)) == (2, 2)
