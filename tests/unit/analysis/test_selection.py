"""Which cells stand side by side, in a sweep and between sweeps."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from runner.analysis.selection import Pair, pair_by_field, pair_by_path
from runner.errors import BadInput
from runner.records import Record
from tests.factories import completed, failed, sweep_of_nine


def cell(**like: Any) -> Record:
    """A record whose cell tells everything apart that its spec does."""
    record = completed(**like)
    return dataclasses.replace(record, cell=record.spec.cell)


def names(pairs: tuple[Pair, ...]) -> list[tuple[str, str]]:
    return [(pair.baseline_name, pair.candidate_name) for pair in pairs]


def grid(**axes: tuple[Any, ...]) -> list[Record]:
    return [
        cell(**dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())
    ]


class TestWithinASweep:
    def test_the_first_swept_field_is_compared_and_the_others_held(self) -> None:
        found = pair_by_field(sweep_of_nine())
        assert len(found.pairs) == 6
        for pair in found.pairs:
            assert pair.baseline_name == "python_loop"
            assert pair.baseline.spec.batch_size == pair.candidate.spec.batch_size
            assert pair.held == {"batch_size": str(pair.candidate.spec.batch_size)}

    def test_without_a_word_from_the_sweep_the_slowest_field_was_listed_first(self) -> None:
        found = pair_by_field(grid(batch_size=(32, 128), scenario=("python_loop", "while_loop")))
        assert names(found.pairs) == [("batch 32", "batch 128")] * 2

    def test_another_field_can_be_named(self) -> None:
        found = pair_by_field(grid(scenario=("a", "b"), iterations=(10, 20)), "scenario.iterations")
        assert names(found.pairs) == [("iterations 10", "iterations 20")] * 2

    def test_the_last_part_of_a_field_s_name_will_do_where_it_is_one_field_s(self) -> None:
        found = pair_by_field(grid(scenario=("a", "b"), iterations=(10, 20)), "iterations")
        assert names(found.pairs) == [("iterations 10", "iterations 20")] * 2

    def test_an_argument_of_the_user_s_is_a_field(self) -> None:
        cells = grid(arguments=({"width": 64}, {"width": 256}), batch_size=(8, 32))
        found = pair_by_field(cells, "width")
        assert names(found.pairs) == [("width 64", "width 256")] * 2
        assert [pair.held for pair in found.pairs] == [{"batch_size": "8"}, {"batch_size": "32"}]

    def test_an_argument_that_a_cell_leaves_out_has_its_default(self) -> None:
        cells = grid(arguments=({}, {"width": 256, "how": {"deep": True}}))
        assert names(pair_by_field(cells, "width").pairs) == [
            ("width default (deep default)", "width 256 (deep true)")
        ]
        alike = pair_by_path({"a": [cells[0]], "b": [cells[1]]})
        assert names(alike.pairs) == [("width default (deep default)", "width 256 (deep true)")]

    def test_another_baseline_can_be_named(self) -> None:
        found = pair_by_field(grid(batch_size=(32, 128, 512)), "batch_size", "128")
        assert names(found.pairs) == [("batch 128", "batch 32"), ("batch 128", "batch 512")]

    def test_failed_cells_are_paired_like_others(self) -> None:
        outcomes = [pair.baseline.outcome.status for pair in pair_by_field(sweep_of_nine()).pairs]
        assert outcomes.count(failed().outcome.status) == 2

    def test_an_execution_that_comes_with_its_scenario_is_not_held(self) -> None:
        cells = [
            cell(scenario=scenario, execution=execution, batch_size=batch_size)
            for scenario, execution in (("python_loop", "eager"), ("while_loop", "graph"))
            for batch_size in (32, 128)
        ]
        found = pair_by_field(cells, "scenario")
        assert names(found.pairs) == [("python_loop (eager)", "while_loop (graph)")] * 2
        assert [pair.held for pair in found.pairs] == [{"batch_size": "32"}, {"batch_size": "128"}]

    def test_an_execution_that_was_swept_is_held(self) -> None:
        found = pair_by_field(grid(scenario=("a", "b"), execution=("eager", "graph")), "scenario")
        assert [pair.held for pair in found.pairs] == [
            {"execution": "eager"},
            {"execution": "graph"},
        ]

    def test_a_parameter_that_only_one_scenario_has_does_not_keep_it_from_others(self) -> None:
        cells = [cell(scenario="python_loop")]
        cells += [cell(scenario="while_loop", parallel_iterations=n) for n in (1, 10)]
        found = pair_by_field(cells, "scenario")
        assert [pair.held["scenario.parallel_iterations"] for pair in found.pairs] == ["1", "10"]

    def test_what_has_no_counterpart_is_named(self) -> None:
        cells = grid(scenario=("a", "b"), batch_size=(32, 128))[:3]
        found = pair_by_field(cells, "scenario")
        assert len(found.pairs) == 1
        assert found.notes == ("no counterpart: scenario=a batch_size=128",)

    def test_of_a_cell_measured_twice_the_newest_counts(self) -> None:
        old, new = (
            dataclasses.replace(cell(scenario="a"), id=id, started_at=f"2025-01-0{day}")
            for day, id in ((1, "old"), (2, "new"))
        )
        found = pair_by_field([new, old, cell(scenario="b")])
        assert found.pairs[0].baseline.id == "new"

    @pytest.mark.parametrize(
        ("by", "baseline", "problem", "remedy"),
        [
            ("bath_size", None, "no cell has such a field", "did you mean 'batch_size'?"),
            ("seed", None, "is 0 in every cell", "Varied are scenario, batch_size"),
            ("scenario", "for_loop", "no cell has scenario=for_loop", "python_loop"),
        ],
    )
    def test_what_can_not_be_compared_says_what_can(
        self, by: str, baseline: str | None, problem: str, remedy: str
    ) -> None:
        with pytest.raises(BadInput) as raised:
            pair_by_field(sweep_of_nine(), by, baseline)
        assert problem in raised.value.problem
        assert remedy in raised.value.remedy

    def test_one_cell_alone_is_nothing_to_compare(self) -> None:
        with pytest.raises(BadInput, match=r"nothing to compare: one cell \(scenario=while_loop"):
            pair_by_field([completed()])

    def test_cells_that_differ_in_two_fields_at_once_have_no_pair(self) -> None:
        cells = [cell(scenario="a", batch_size=32), cell(scenario="b", batch_size=128),
                 cell(scenario="b", batch_size=512)]  # fmt: skip
        cells.append(cell(scenario="a", batch_size=64))
        with pytest.raises(BadInput, match="no two cells differ in it and are equal in the rest"):
            pair_by_field(cells, "scenario")

    def test_a_thousand_cells_are_paired_in_a_blink(self) -> None:
        cells = grid(scenario=("a", "b"), batch_size=tuple(range(1, 501)))
        assert len(pair_by_field(cells, "scenario").pairs) == 500


class TestBetweenSweeps:
    def test_the_same_cells_are_paired_the_first_path_the_baseline(self) -> None:
        found = pair_by_path({"yesterday": sweep_of_nine(), "today": sweep_of_nine()})
        assert names(found.pairs) == [("yesterday", "today")] * 9
        assert found.pairs[0].held == {"scenario": "python_loop", "batch_size": "32"}

    def test_the_other_path_can_be_the_baseline(self) -> None:
        found = pair_by_path({"one": [completed()], "other": [completed()]}, baseline="other")
        assert names(found.pairs) == [("other", "one")]

    def test_a_cell_that_only_one_of_them_has_is_named(self) -> None:
        found = pair_by_path({"yesterday": sweep_of_nine(), "today": sweep_of_nine()[1:]})
        assert found.notes == (
            "only in yesterday: scenario=python_loop execution=graph batch_size=32",
        )

    def test_a_cell_measured_better_is_the_same_cell(self) -> None:
        quick, standard = cell(), cell()
        measure = dataclasses.replace(standard.spec.measure, name="standard")
        spec = dataclasses.replace(standard.spec, measure=measure)
        standard = dataclasses.replace(standard, spec=spec, cell="another")
        found = pair_by_path({"quick": [quick], "standard": [standard]})
        assert names(found.pairs) == [("quick", "standard")]

    def test_two_single_runs_are_a_pair_whatever_they_are(self) -> None:
        one, other = cell(scenario="python_loop"), cell(scenario="while_loop", batch_size=128)
        found = pair_by_path({"one": [one], "other": [other]})
        assert names(found.pairs) == [("python_loop (batch 32)", "while_loop (batch 128)")]

    def test_two_sweeps_without_a_common_cell_are_refused(self) -> None:
        groups = {"one": grid(batch_size=(1, 2)), "other": grid(batch_size=(3, 4))}
        with pytest.raises(BadInput, match="no cell in common: they differ in batch_size"):
            pair_by_path(groups)

    def test_a_baseline_that_is_none_of_the_paths_is_refused(self) -> None:
        with pytest.raises(BadInput, match="is none of the paths"):
            pair_by_path({"one": [completed()], "other": [completed()]}, baseline="onn")
