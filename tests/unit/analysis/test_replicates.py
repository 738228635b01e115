"""Cells that differ in the seed alone are one, with all their processes."""

from __future__ import annotations

import dataclasses

import pytest

from runner.analysis import comparison
from runner.analysis.replicates import group_replicates, pool_replicates
from runner.analysis.selection import CellGrid, pair_by_field, pair_by_path
from runner.errors import BadInput
from runner.records import Record
from tests.factories import failed, measured, memory_trial, timing_trial


def cell(seed: int, peak: float = 1e6, seconds: float = 1e-3, **like: object) -> Record:
    timing = [timing_trial([seconds * (1 + i / 100)] * 20, index=i) for i in range(3)]
    return give_seed(measured(memory_trial(peak), *timing, **like), seed)


def give_seed(record: Record, seed: int) -> Record:
    spec = dataclasses.replace(record.spec, seed=seed)
    return dataclasses.replace(record, id=f"{record.id}-{seed}", spec=spec, cell=spec.cell)


def test_only_the_seed_makes_replicates() -> None:
    cells = [cell(seed, batch_size=batch) for batch in (32, 64) for seed in (1, 2)]
    assert [[one.spec.seed for one in group] for group in group_replicates(cells)] == [[1, 2]] * 2


def test_a_pooled_record_has_the_highest_peak_and_the_median_time_with_their_range() -> None:
    pooled = pool_replicates([cell(1, 1.0e6, 1e-3), cell(2, 1.2e6, 3e-3), cell(3, 1.1e6, 2e-3)])
    assert pooled.metrics["tensor_peak_bytes"] == 1.2e6
    assert pooled.intervals["tensor_peak_bytes"] == (1.0e6, 1.2e6)
    assert pooled.metrics["step_seconds"] == cell(3, seconds=2e-3).metrics["step_seconds"]
    low, high = pooled.intervals["step_seconds"]
    assert (low, high) == pytest.approx((1e-3, 3e-3), rel=0.05)
    assert len(pooled.trials) == 12


def test_a_figure_that_one_seed_lacks_is_unknown_and_says_which() -> None:
    lacking = cell(2)
    lacking.metrics["tensor_peak_bytes"] = None
    lacking.unavailable["tensor_peak_bytes"] = "more events than can be traced"
    pooled = pool_replicates([cell(1), lacking])
    assert pooled.metrics["tensor_peak_bytes"] is None
    assert pooled.unavailable["tensor_peak_bytes"] == "seed 2: more events than can be traced"
    assert "tensor_peak_bytes" not in pooled.intervals
    assert pooled.metrics["step_seconds"]


def test_a_seed_that_did_not_complete_is_the_outcome_and_hides_no_figure() -> None:
    pooled = pool_replicates([cell(1, 1e6), give_seed(failed(), 2), cell(3, 2e6)])
    assert pooled.outcome.words == "out of memory in first_call"
    assert pooled.intervals["tensor_peak_bytes"] == (1e6, 2e6)
    assert pool_replicates([give_seed(failed(), seed) for seed in (1, 2)]).outcome.brief


def test_times_of_seeds_from_two_machines_are_not_compared_with_one_s() -> None:
    elsewhere = dataclasses.replace(cell(2), fingerprint="another")
    assert pool_replicates([cell(1), elsewhere]).fingerprint != cell(1).fingerprint


def test_a_grid_has_one_cell_for_all_seeds_and_keeps_each_record() -> None:
    cells = [cell(seed, batch_size=batch) for batch in (32, 64) for seed in (1, 2, 3)]
    grid = CellGrid(cells)
    assert (len(grid.records), len(grid.cells)) == (2, 6)
    assert grid.varied == ["batch_size"]
    assert grid.values["seed"] == ["1", "2", "3"]


def test_pooled_rows_share_the_five_percent_among_fewer() -> None:
    cells = [cell(seed, batch_size=batch) for batch in (32, 64) for seed in range(4)]
    apart = [cell(seed, batch_size=batch) for batch in (32, 64) for seed in [0]]
    pooled, alone = (
        comparison.compare(pair_by_field(records).pairs, ["step_seconds"])
        for records in (cells, apart)
    )
    assert (len(pooled.rows), pooled.tested) == (len(alone.rows), alone.tested) == (1, 1)
    assert widths(pooled) < widths(alone)  # with four times the processes


def widths(found: comparison.Comparison) -> float:
    assert found.rows[0].interval
    low, high = found.rows[0].interval
    return high / low


def test_seeds_can_still_be_compared_with_each_other() -> None:
    cells = [cell(seed, peak=seed * 1e6) for seed in (1, 2)]
    (pair,) = pair_by_field(cells, "seed").pairs
    assert (pair.baseline.spec.seed, pair.candidate.spec.seed) == (1, 2)
    with pytest.raises(BadInput, match="--by seed"):
        pair_by_field(cells)


def test_yesterday_s_seeds_are_one_row_against_today_s() -> None:
    yesterday = [cell(seed, batch_size=batch) for batch in (32, 64) for seed in (1, 2)]
    today = [cell(seed, 2e6, batch_size=batch) for batch in (32, 64) for seed in (1, 2)]
    pairs = pair_by_path({"yesterday": yesterday, "today": today}).pairs
    assert [pair.held for pair in pairs] == [{"batch_size": "32"}, {"batch_size": "64"}]
    assert all(len(pair.candidate.trials) == 8 for pair in pairs)
