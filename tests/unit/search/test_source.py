"""A search: checked whole before anything runs, then asked for its cells in turn.

Nothing is measured here: what a cell comes to is made up, and known.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from runner.analysis.objective import WORST
from runner.cell import Cell, Choices, Interval, Plan
from runner.compose import composition, searches
from runner.config import Experiment
from runner.errors import BadInput
from runner.records import Record
from runner.search.source import SearchSource
from tests.factories import completed, failed

SEARCH = (
    *("-m", "hydra/sweeper=optuna", "measure.timing_processes=0"),
    "search.objectives=[tensor_peak_bytes,allocated_bytes_per_step]",
)
GRID = (
    *("scenario=keras_training", "scenario.recompute=false,true", "execution=graph,xla"),
    *("scenario.mixed_precision=false,true", "scenario.accumulate=1,2,4", "batch_size=16,32"),
)


def planned(*words: str) -> Plan:
    return composition.compose_plan([*SEARCH, *words])


def play(plan: Plan, values: Callable[[Experiment], Sequence[float]]) -> list[Cell]:
    """Return what a search asks for, each cell once, in its order, told what `values` says."""
    assert plan.search
    source, asked = SearchSource(plan), dict[str, Cell]()
    while requests := source.ask():
        assert not source.ask(), "the next ones are asked for when these have their records"
        for cell in (request.cell for request in requests):
            assert cell.experiment.cell not in asked, "a cell is one cell"
            asked[cell.experiment.cell] = cell
            source.tell(told(cell, record_of(plan.search.metrics, values(cell.experiment))))
    assert [cell.number for cell in asked.values()] == [*range(len(asked))]
    return [*asked.values()]


def told(cell: Cell, record: Record) -> Any:
    """Return a run of the cell that has come to this record."""
    return SimpleNamespace(experiment=cell.experiment, get_record=lambda: record)


def record_of(metrics: Sequence[str], values: Sequence[float]) -> Record:
    """Return a record with these metrics; of a cell that failed where they are the worst."""
    if max(values) >= WORST:
        return failed("a cell")
    known = dict(zip(metrics, values, strict=True))
    return dataclasses.replace(completed("a cell"), metrics=known)


def found(*words: str) -> list[Experiment]:
    return [cell.experiment for cell in play(planned(*words), figures)]


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
    assert (plan.search.n_trials, plan.search.n_jobs, plan.search.is_whole) == (20, 3, True)
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
    assert not plan.search.is_whole
    sizes = {cell.experiment.batch_size for cell in plan.cells}
    assert sizes == {1, 1000} if "interval" in space else {1, 4999} < sizes


def test_the_front_of_48_cells_is_found_in_20(tmp_path: Path) -> None:
    whole = front([cell.experiment for cell in planned(*GRID).cells])
    words = (*GRID, "hydra/sweeper/sampler=front", "hydra.sweeper.n_trials=20")
    shares = []
    for seed in range(5):
        cells = found(*words, f"hydra.sweeper.sampler.seed={seed}")
        assert len(cells) == 20, "no cell is asked for twice while there are others"
        shares.append(len(whole & {cell.cell for cell in cells}) / len(whole))
    assert sum(shares) / len(shares) >= 0.8, (shares, len(whole))


@pytest.mark.parametrize("sampler", ["front", "tpe", "nsgaii", "motpe", "random"])
def test_a_search_repeats_and_says_nothing_on_the_way(
    sampler: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = (*GRID, f"hydra/sweeper/sampler={sampler}", "hydra.sweeper.n_trials=4")
    first = found(*words)
    assert first == found(*words)
    assert capfd.readouterr() == ("", "")
    other = found(*words, "seed=1")
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
    cells = found(*said, *ranges)
    assert {cell.batch_size for cell in cells} == {1, 2, 3}
    assert {cell.parameters["accumulate"] for cell in cells} == {2, 4, 6}
    assert {cell.seed for cell in cells} == {5}


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("range(1,300000000)", Interval(1, 299999999, 1)),
        ("range(10,0,-3)", Interval(1, 10, 3)),
        ("range(0,1,0.25)", Interval(0.0, 0.75, 0.25)),
        ("range(0,1,0.1)", Interval(0.0, 0.9, 0.1)),
        ("range(5,6)", Choices((5,))),
        ("1,2", Choices((1, 2))),
        ("'a b',true,null,1.5", Choices(("'a b'", True, "null", 1.5))),
        ("tag(log,interval(1,9))", Interval(1.0, 9.0, None, True)),
        ("tag(log,int(interval(1,9)))", Interval(1, 9, None, True)),
    ],
)
def test_a_range_is_handed_on_upwards_with_its_last_value(
    word: str, read: Choices | Interval
) -> None:
    override = OverridesParser.create().parse_override(f"seed={word}")
    assert searches.read_space(override) == read


@pytest.mark.parametrize(
    ("word", "problem"),
    [("range(6,5)", "has no values"), ("range(1,3,0)", "without end"), ("glob(*)", "no pattern")],
)
def test_a_range_of_nothing_and_one_without_end_are_refused(word: str, problem: str) -> None:
    override = OverridesParser.create().parse_override(f"seed={word}")
    with pytest.raises(BadInput, match=problem):
        searches.read_space(override)


def test_of_a_long_range_no_value_between_its_steps_is_asked_for(tmp_path: Path) -> None:
    said = ("scenario=keras_training", "hydra/sweeper/sampler=front", "hydra.sweeper.n_trials=15")
    cells = found(*said, "batch_size=range(3,5000,7)")
    assert {(cell.batch_size - 3) % 7 for cell in cells} == {0}


def test_one_objective_is_searched_for_as_well_among_numbers_without_end() -> None:
    one = SEARCH[-1].replace(",allocated_bytes_per_step", "")
    for sampler in ("front", "cmaes", "tpe"):
        words = ("batch_size=int(interval(1,1000))", "hydra.sweeper.n_trials=20")
        words = (*SEARCH[:-1], one, "scenario=tape", *words, f"hydra/sweeper/sampler={sampler}")
        cells = play(
            composition.compose_plan(words),
            lambda cell: [abs(math.log(cell.batch_size / 300)) + 0.1],
        )
        sizes = [cell.experiment.batch_size for cell in cells]
        assert len(sizes) > 10, "hardly any is asked for twice"
        assert any(100 <= size <= 900 for size in sizes), sampler


def test_words_that_are_no_numbers_mean_what_they_mean_in_a_grid() -> None:
    words = ("scenario=tape", "device.memory_limit_mb=null,64", "hydra.sweeper.n_trials=6")
    words = (*words, "scenario.persistent=true,false", "hydra/sweeper/sampler=random")
    cells = play(planned(*words), lambda _: [1.0, 1.0])
    assert {cell.experiment.device.memory_limit_mb for cell in cells} == {None, 64}
    assert {cell.experiment.parameters["persistent"] for cell in cells} == {True, False}
    words_of = {word for cell in cells for word in cell.overrides}
    assert {"device.memory_limit_mb=null", "scenario.persistent=true"} < words_of


def test_a_number_between_two_steps_is_the_cell_that_was_checked() -> None:
    plan = planned("scenario=tape", "measure.max_seconds=range(0.1,1,0.1)")
    assert plan.search
    cell = plan.search.compose(0, {"measure.max_seconds": 0.1 * 3})
    assert cell.experiment in [each.experiment for each in plan.cells]


def test_cells_that_are_asked_for_again_answer_at_once() -> None:
    """Also within a batch; and the rest of the batch waits for those that are measured."""
    plan = planned(
        "scenario=tape", "seed=1,2", "hydra.sweeper.n_trials=40", "hydra.sweeper.n_jobs=4"
    )
    assert len(play(plan, lambda _: [1.0, 1.0])) == 2


REFUSED = {
    ("batch_size=0,1",): "0 is out of range",
    ("batch_size=1,2", "hydra.sweeper.n_trials=0"): "n_trials: 0 is out of range",
    ("batch_size=1,2", "hydra.sweeper.n_jobs=0"): "n_jobs: 0 is out of range",
    ("batch_size=1,2", "hydra.sweeper.n_trial=3"): "did you mean 'n_trials'",
    ("batch_size=1,2", "hydra.sweeper.direction=maximize"): "has its better direction",
    ("batch_size=1,2", "hydra.sweeper.storage='sqlite:///a.db'"): "`resume=latest` goes on",
    ("batch_size=1,2", "hydra/launcher=dask"): "a search runs its cells here",
    ("batch_size=1,2", "hydra/sweeper/sampler=fron"): "did you mean 'front'",
    ("batch_size=1,2", "hydra.sweeper.sampler.n_ei_candidates=a"): "n_ei_candidates can't be a",
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
            composition.compose_plan(words)


def test_what_optuna_can_not_do_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("scenario=tape", "seed=1,2")
    assert plan.search
    for sampler in ({"_target_": "optuna.samplers.Nothing"}, {**plan.search.sampler, "seeds": 1}):
        search = dataclasses.replace(plan.search, sampler=sampler)
        with pytest.raises(BadInput, match="hydra/sweeper: the search stopped"):
            SearchSource(dataclasses.replace(plan, search=search))
    source = SearchSource(plan)
    monkeypatch.setattr(type(source._study), "ask", lambda _: 1 / 0)
    with pytest.raises(BadInput, match=r"stopped with an error \(ZeroDivisionError"):
        source.ask()


def test_where_optuna_is_not_installed_it_is_said_how(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("scenario=tape", "seed=1,2")
    assert plan.search
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BadInput, match="is not installed"):
        SearchSource(plan)
