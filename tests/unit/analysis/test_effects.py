"""The effect of each swept field, against grids whose truth is known."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from runner.analysis.effects import Effect, find_effects
from runner.analysis.selection import CellGrid
from runner.records import Record, SweepPlace
from runner.render.conclusion import describe_sweep
from tests.factories import failed, measured, memory_trial, timing_trial

PEAK, STEP = "tensor_peak_bytes", "step_seconds"


def sweep(
    peak: Callable[..., float],
    seconds: Callable[..., float] = lambda **_: 1e-3,
    spread: float = 0.0,
    **axes: Sequence[Any],
) -> list[Record]:
    """Cells at all points of the axes, whose peak and time follow from where they stand."""
    random = np.random.default_rng(0)
    records = []
    for number, values in enumerate(itertools.product(*axes.values())):
        point = dict(zip(axes, values, strict=True))
        timing = [
            timing_trial([seconds(**point) * math.exp(random.normal(0, spread))] * 20, index=i)
            for i in range(3)
        ]
        swept = {name: str(value) for name, value in point.items()}
        seed = point.pop("seed", 0)
        record = measured(
            memory_trial(peak(**point)), *timing, id=f"s-{number}",
            sweep=SweepPlace("s", number, swept), **point,
        )  # fmt: skip
        spec = dataclasses.replace(record.spec, seed=seed)
        records.append(dataclasses.replace(record, spec=spec, cell=spec.cell))
    return records


LOOPS = {
    "scenario": ("python_loop", "while_loop"),
    "execution": ("eager", "graph"),
    "batch_size": (32, 256),
}


def loops_peak(scenario: str, execution: str, batch_size: int) -> float:
    return 1e5 + batch_size * (4e4 if execution == "eager" else 2e3)


def find(records: Sequence[Record], metric: str = PEAK) -> list[Effect]:
    return [effect for effect in find_effects(CellGrid(records)) if effect.metric == metric]


def test_fields_come_by_the_size_of_their_effect_over_all_cells() -> None:
    effects = find(sweep(loops_peak, **LOOPS))
    assert [effect.field for effect in effects] == ["execution", "batch_size", "scenario"]
    execution, batch, scenario = effects
    assert (execution.baseline, execution.candidate) == ("graph", "eager")
    assert len(execution.more) == len(execution.rows) == 4
    assert (batch.baseline, batch.candidate) == ("batch 32", "batch 256")
    assert scenario.is_none


def test_the_sentence_of_a_sweep_speaks_of_every_field() -> None:
    assert describe_sweep(sweep(loops_peak, **LOOPS)) == (
        "Peak memory: eager needs 8.41 to 16.9 times as much as graph; "
        "batch 256 needs 3.73 to 7.49 times as much as 32; no difference by scenario. "
        "Time: no difference by scenario, execution, batch."
    )


@pytest.mark.parametrize("seeds", [(0,), (0, 1), (0, 1, 2)])
def test_seeds_change_no_effect(seeds: Sequence[int]) -> None:
    effects = find(sweep(loops_peak, **LOOPS, seed=seeds))
    assert [(effect.field, len(effect.rows)) for effect in effects] == [
        ("execution", 4), ("batch_size", 4), ("scenario", 4),
    ]  # fmt: skip


def test_an_effect_says_where_it_holds_and_where_it_does_not() -> None:
    def peak(scenario: str, execution: str, batch_size: int) -> float:
        if scenario == "python_loop":
            return 8e6 if execution == "eager" else 1e6
        return 2e6

    records = sweep(peak, **LOOPS)
    (effect,) = (one for one in find(records) if one.field == "execution")
    assert effect.find_place(effect.more) == "python_loop"
    assert effect.find_place(effect.same) == "while_loop"
    words = describe_sweep(records)
    assert (
        "eager needs 8 times as much as graph with python_loop, as much with while_loop;" in words
    )
    assert (
        "python_loop needs 4 times as much as while_loop with eager, 50 % less with graph;" in words
    )
    assert "no difference by batch." in words


def test_a_place_of_many_values_is_counted_and_not_listed() -> None:
    def peak(op: str, execution: str) -> float:
        return 3e6 if execution == "eager" and op in "ab" else 1e6

    words = describe_sweep(sweep(peak, op=tuple("abcdefg"), execution=("eager", "graph")))
    assert "eager needs 3 times as much as graph with op a or b, as much in 5 of 7" in words


def test_thousands_are_written_out() -> None:
    words = describe_sweep(sweep(lambda iterations: iterations * 1e3, iterations=(1, 4000)))
    assert words.startswith("Peak memory: iterations 4000 needs 4,000 times as much as 1.")


def test_of_several_values_those_that_differ_most_are_compared() -> None:
    sizes = {"sgd": 3e6, "adam": 7e6, "nadam": 9e6, "lion": 6e6}
    records = sweep(lambda optimizer: sizes[optimizer], optimizer=tuple(sizes))
    (effect,) = find(records)
    assert (effect.baseline, effect.candidate) == ("optimizer sgd", "optimizer nadam")
    assert describe_sweep(records).startswith(
        "Peak memory: optimizer nadam needs 3 times as much as sgd."
    )


def test_a_field_that_follows_from_another_is_not_counted_twice() -> None:
    records = sweep(lambda scenario: 1e6 if scenario == "a" else 2e6, scenario=("a", "b"))
    for record, execution in zip(records, ("eager", "graph"), strict=True):
        object.__setattr__(record, "spec", dataclasses.replace(record.spec, execution=execution))
    assert [effect.field for effect in find(records)] == ["scenario"]


def test_growth_from_nothing_is_said_in_bytes() -> None:
    def growing(record: Record) -> Record:
        grown = 40_000 if record.spec.parameters["release"] == "keep" else 0
        return dataclasses.replace(
            record, metrics={**record.metrics, "tensor_growth_bytes_per_step": grown}, trials=()
        )

    records = sweep(lambda release: 1e6, release=("rebind", "keep"))
    words = describe_sweep([growing(record) for record in records])
    assert "Growth: release keep has 40.0 kB/step, release rebind 0 B/step." in words


def test_an_average_tells_times_apart_that_single_pairs_cannot() -> None:
    def seconds(execution: str, **_: Any) -> float:
        return 1.5e-3 if execution == "graph" else 1e-3

    axes = {**LOOPS, "iterations": (25, 50, 100)}
    records = sweep(lambda **_: 1e6, seconds, spread=0.1, **axes)
    execution = next(effect for effect in find(records, STEP) if effect.field == "execution")
    assert len(execution.unsettled) > len(execution.rows) / 2
    assert execution.trend
    assert execution.trend.interval
    low, high = execution.trend.interval
    assert 1 < low < 1.5 < high
    assert "graph takes" in describe_sweep(records)


def test_an_average_of_equal_times_is_seldom_called_a_difference() -> None:
    false_alarms = 0
    for number in range(40):
        records = sweep(lambda **_: 1e6, lambda **_: 1e-3, spread=0.05, **LOOPS, seed=(number,))
        random = np.random.default_rng(number)
        for record in records:
            timing = [
                timing_trial([1e-3 * math.exp(random.normal(0, 0.05))] * 20, index=i)
                for i in range(3)
            ]
            object.__setattr__(record, "trials", (memory_trial(1e6), *timing))
            medians = [trial.steps.seconds[0] for trial in timing]
            record.metrics[STEP] = float(np.median(medians))
        false_alarms += any(effect.trend for effect in find(records, STEP))
    assert false_alarms <= 6  # of 40 at 5 %: more come by chance one time in 200


def test_cells_that_did_not_complete_are_counted() -> None:
    records = sweep(loops_peak, **LOOPS)
    lost = failed("lost", scenario="while_loop", execution="eager", batch_size=256)
    lost = dataclasses.replace(lost, cell=records[5].cell, started_at="2026-01-01T00:00:00+00:00")
    words = describe_sweep([*records, dataclasses.replace(lost, spec=records[5].spec)])
    assert words.endswith("1 of 8 cells: out of memory in first_call.")
    assert "eager needs" in words


def test_a_cell_of_several_seeds_alone_has_its_range() -> None:
    records = sweep(lambda: 1e6, seed=(1, 2, 3))
    for record, peak in zip(records, (1.0e6, 1.2e6, 1.1e6), strict=True):
        record.metrics[PEAK] = peak
    assert describe_sweep(records) == (
        "Peak memory: 1.00 to 1.20 MB over 3 seeds. Time: 1.00 ms over 3 seeds."
    )
    assert describe_sweep(records[:1]) == ""
