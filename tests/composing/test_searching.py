"""Sweepers that search: checked whole before anything runs, then asked for their cells in turn.

Nothing is measured here: what a cell comes to is made up, and known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.composing import composition, searching
from runner.config import Experiment
from runner.errors import BadInput
from runner.judging.objective import WORST
from runner.plan import Plan, Planned

SEARCH = (
    *("-m", "hydra/sweeper=optuna", "measure.timing_processes=0"),
    "search.objectives=[tensor_peak_bytes,allocated_bytes_per_step]",
)
GRID = (
    *("scenario=keras_training", "scenario.recompute=false,true", "execution=graph,xla"),
    *("scenario.mixed_precision=false,true", "scenario.accumulate=1,2,4", "batch_size=16,32"),
)


def planned(*words: str) -> Plan:
    return composition.plan([*SEARCH, *words], Path("/nowhere/at/all"))


def found(folder: Path, *words: str) -> list[Experiment]:
    """What a search asks for, each once, in its order."""
    asked: dict[str, Planned] = {}

    def ask(cells: Sequence[Planned]) -> list[list[float]]:
        for cell in cells:
            assert asked.setdefault(cell.experiment.cell, cell) is cell, "a cell is one cell"
        return [list(figures(cell.experiment)) for cell in cells]

    composition.search([*SEARCH, *words], folder, ask)
    assert [cell.number for cell in asked.values()] == [*range(len(asked))]
    return [cell.experiment for cell in asked.values()]


def figures(cell: Experiment) -> tuple[float, float]:
    """Of a training, as its settings change it: weights that are always there, activations, seconds
    an example. Without any means against it, the large batch runs out of memory."""
    told, batch = cell.parameters, cell.batch_size
    spared = told["recompute"] or told["mixed_precision"] or told["accumulate"] > 1
    if batch == 32 and not spared and cell.execution == "graph":
        return WORST, WORST
    kept = (0.45 if told["recompute"] else 1) * (0.6 if told["mixed_precision"] else 1)
    kept *= 0.7 if cell.execution == "xla" else 1
    peak = 3e6 + 4e5 * batch / told["accumulate"] * kept + (1e6 if told["accumulate"] > 1 else 0)
    slow = (1.3 if told["recompute"] else 1) * (0.8 if cell.execution == "xla" else 1)
    if told["mixed_precision"]:
        slow *= 2.5 if cell.execution == "graph" else 1.6
    return peak, 0.01 / 16 * slow + 0.002 * told["accumulate"] / batch


def front(cells: Sequence[Experiment]) -> set[str]:
    values = {cell.cell: figures(cell) for cell in cells}
    return {
        name
        for name, own in values.items()
        if not any(
            each != own and each[0] <= own[0] and each[1] <= own[1] for each in values.values()
        )
    }


def test_every_cell_that_may_be_asked_for_is_in_the_plan() -> None:
    plan = planned(*GRID, "hydra.sweeper.n_trials=20", "hydra.sweeper.n_jobs=3")
    assert plan.search
    assert (plan.search.most, plan.search.at_once, plan.search.whole) == (20, 3, True)
    assert len(plan.cells) == len({cell.experiment.cell for cell in plan.cells}) == 48
    assert len(plan.swept) == 5


@pytest.mark.parametrize(
    "space",
    ["batch_size=int(interval(1,1000))", "batch_size=range(1,5000)"],
    ids=["interval", "range"],
)
def test_of_a_space_that_is_larger_than_a_grid_each_value_or_its_ends_are(space: str) -> None:
    plan = planned("scenario=tape", space, "scenario.persistent=true,false", "seed=range(0,100)")
    assert plan.search
    assert not plan.search.whole
    sizes = {cell.experiment.batch_size for cell in plan.cells}
    assert sizes == {1, 1000} if "interval" in space else {1, 4999} < sizes


def test_the_front_of_48_cells_is_found_in_20(tmp_path: Path) -> None:
    whole = front([cell.experiment for cell in planned(*GRID).cells])
    words = (*GRID, "hydra/sweeper/sampler=front", "hydra.sweeper.n_trials=20")
    shares = []
    for seed in range(5):
        cells = found(tmp_path, *words, f"hydra.sweeper.sampler.seed={seed}")
        assert len(cells) == 20, "no cell is asked for twice while there are others"
        shares.append(len(whole & {cell.cell for cell in cells}) / len(whole))
    assert sum(shares) / len(shares) >= 0.8, (shares, len(whole))


@pytest.mark.parametrize("sampler", ["front", "tpe", "nsgaii", "motpe", "random"])
def test_a_search_repeats_and_says_nothing_on_the_way(
    sampler: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = (*GRID, f"hydra/sweeper/sampler={sampler}", "hydra.sweeper.n_trials=4")
    first = found(tmp_path, *words)
    assert first == found(tmp_path, *words)
    assert capfd.readouterr() == ("", "")
    other = found(tmp_path, *words, "seed=1")
    assert {cell.seed for cell in other} == {1}
    assert [*map(figures, first)] != [*map(figures, other)]


@pytest.mark.parametrize("where", ["words", "a file"])
def test_a_range_ends_before_its_stop_as_in_a_grid(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ("scenario=keras_training", "hydra/sweeper/sampler=front", "hydra.sweeper.n_trials=12")
    if where == "words":
        ranges = ("batch_size=range(1,4)", "scenario.accumulate=range(2,7,2)", "seed=range(5,6)")
    else:
        file = tmp_path / "conf" / "experiment" / "mine.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(
            "# @package _global_\nhydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n"
            "      batch_size: range(1,4)\n      scenario.accumulate: range(2,7,2)\n"
            "      seed: range(5,6)\n"
        )
        monkeypatch.setenv("RUNNER_CONFIG_DIR", str(tmp_path / "conf"))
        ranges = ("experiment=mine",)
    cells = found(tmp_path, *said, *ranges)
    assert {cell.batch_size for cell in cells} == {1, 2, 3}
    assert {cell.parameters["accumulate"] for cell in cells} == {2, 4, 6}
    assert {cell.seed for cell in cells} == {5}


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("range(1,300000000)", "range(1,299999999,1)"),
        ("range(10,0,-3)", "range(1,10,3)"),
        ("range(0,1,0.25)", "range(0.0,0.75,0.25)"),
        ("range(0,1,0.1)", "range(0.0,0.9,0.1)"),
        ("range(5,6)", "5"),
        ("range(6,5)", "range(6,5)"),
        ("1,2", "1,2"),
    ],
)
def test_a_range_is_handed_on_upwards_with_its_last_value(said: str, read: str) -> None:
    assert searching.up_to_the_last(f"seed={said}") == f"seed={read}"


def test_of_a_long_range_no_value_between_its_steps_is_asked_for(tmp_path: Path) -> None:
    said = ("scenario=keras_training", "hydra/sweeper/sampler=front", "hydra.sweeper.n_trials=15")
    cells = found(tmp_path, *said, "batch_size=range(3,5000,7)")
    assert {(cell.batch_size - 3) % 7 for cell in cells} == {0}


def test_one_objective_is_searched_for_as_well_among_numbers_without_end(tmp_path: Path) -> None:
    one = SEARCH[-1].replace(",allocated_bytes_per_step", "")
    for sampler in ("front", "cmaes", "tpe"):
        sizes = []

        def ask(cells: Sequence[Planned], sizes: list[int] = sizes) -> list[list[float]]:
            sizes += [cell.experiment.batch_size for cell in cells]
            return [[abs(math.log(cell.experiment.batch_size / 300)) + 0.1] for cell in cells]

        words = ("batch_size=int(interval(1,1000))", "hydra.sweeper.n_trials=20")
        words = (*SEARCH[:-1], one, "scenario=tape", *words, f"hydra/sweeper/sampler={sampler}")
        composition.search(words, tmp_path, ask)
        assert len(sizes) == 20
        assert any(100 <= size <= 900 for size in sizes), sampler


def test_words_that_a_sweeper_writes_as_python_does_mean_what_was_said(tmp_path: Path) -> None:
    words = ("scenario=tape", "device.memory_limit_mb=null,64", "hydra.sweeper.n_trials=6")
    words = (*words, "hydra/sweeper/sampler=random")
    asked: set[int | None] = set()

    def ask(cells: Sequence[Planned]) -> list[list[float]]:
        asked.update(cell.experiment.device.memory_limit_mb for cell in cells)
        return [[1.0, 1.0]] * len(cells)

    composition.search([*SEARCH, *words], tmp_path, ask)
    assert asked == {None, 64}


REFUSED = {
    ("batch_size=0,1",): "0 is out of range",
    ("batch_size=1,2", "hydra.sweeper.n_trials=0"): "n_trials: 0 is out of range",
    ("batch_size=1,2", "hydra.sweeper.n_jobs=0"): "n_jobs: 0 is out of range",
    ("batch_size=1,2", "hydra.sweeper.n_trial=3"): "did you mean 'n_trials'",
    ("batch_size=1,2", "hydra.sweeper.direction=maximize"): "has its better direction",
    ("batch_size=1,2", "hydra.sweeper.storage='sqlite:///a.db'"): "`resume=latest` goes on",
    ("batch_size=1,2", "hydra/launcher=submitit_local"): "a search runs its cells here",
    ("batch_size=1,2", "hydra/sweeper/sampler=fron"): "did you mean 'front'",
    ("batch_size=1,2", "hydra.sweeper.sampler.n_ei_candidates=a"): "n_ei_candidates: can't be a",
    ("batch_size=1,2", "search.limits.step_seconds=1"): "measure.timing_processes=1",
    ("batch_size=1,2", "search.limit.step_seconds=1"): "search.limit",
    ("batch_size=1,2", "hydra/sweeper/sampler=grid"): "a sweep walks the whole grid",
    ("execution=glob(*)",): "takes values, and no pattern",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_no_search_can_do_is_refused_before_it_begins(words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=REFUSED[words]):
        planned("scenario=tape" if "execution" not in words[0] else "scenario=python_loop", *words)


def test_a_search_for_nothing_and_an_objective_for_nobody_are_refused() -> None:
    for words, says in (
        ([*SEARCH[:-1], "scenario=tape", "seed=1,2"], "a search needs one"),
        (["-m", "scenario=tape", SEARCH[-1]], "Say -m hydra/sweeper=optuna"),
        (["scenario=tape", SEARCH[-1]], "Say -m hydra/sweeper=optuna"),
        ([*SEARCH[:-1], "scenario=tape", "search.objectives=a,b"], r"search.objectives=\[A,B\]"),
    ):
        with pytest.raises(BadInput, match=says):
            composition.plan(words, Path("/nowhere/at/all"))


def test_what_a_sweeper_can_not_do_on_its_way_is_said_in_a_sentence(tmp_path: Path) -> None:
    def ask(_: Sequence[Planned]) -> list[list[float]]:
        return []

    with pytest.raises(BadInput, match="hydra/sweeper: gave up"):
        composition.search([*SEARCH, "scenario=tape", "seed=1,2"], tmp_path, ask)
