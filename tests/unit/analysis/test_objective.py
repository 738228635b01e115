"""What a search looks for: read from words, refused where it can't be, and judged by records."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from runner.analysis.objective import WORST, Objective
from runner.errors import BadInput
from runner.records import Record, Status
from tests.conftest import BRIEF
from tests.factories import completed, failed

BOTH = ("tensor_peak_bytes", "examples_per_second")


def cell(peak: float | None, speed: float | None = 100.0) -> Record:
    metrics = dict(zip(BOTH, (peak, speed), strict=True))
    return dataclasses.replace(completed(f"{peak}-{speed}"), metrics=metrics)


def sought(*metrics: str, **limits: Any) -> Objective:
    return Objective.read({"objectives": [*metrics], "limits": limits})


REFUSED = {
    "a metric that is mistyped": ({"objectives": ["tensor_peek_bytes"]}, "tensor_peak_bytes"),
    "a limit that is mistyped": ({"limits": {"step_second": 1}}, "'step_seconds'"),
    "a field that is mistyped": ({"limit": {}}, "'limits'"),
    "one metric twice": ({"objectives": ["step_seconds", "step_seconds"]}, "named twice"),
    "no list": ({"objectives": 3}, "is not a list"),
    "no mapping": ({"limits": 3}, "is not a mapping"),
    "no amount": ({"limits": {"step_seconds": "soon"}}, "is not an amount"),
    "a truth for an amount": ({"limits": {"step_seconds": True}}, "is not an amount"),
    "nothing": ([], "is not a mapping"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_a_metric_or_an_amount_is_refused_with_the_nearest_name(case: str) -> None:
    said, says = REFUSED[case]
    with pytest.raises(BadInput, match=says):
        Objective.read(said)


def test_a_limit_on_bytes_may_be_a_size() -> None:
    assert sought(tensor_peak_bytes="120MB").limits == {"tensor_peak_bytes": 120e6}


def test_it_is_said_in_the_words_of_its_better_directions() -> None:
    found = sought(*BOTH, examples_per_second=1000, tensor_peak_bytes="2 MB")
    assert found.words == (
        "smallest tensor_peak_bytes and largest examples_per_second, with examples_per_second from "
        "1,000/s and tensor_peak_bytes up to 2.00 MB"
    )


def test_what_no_trial_would_measure_is_refused() -> None:
    untimed = dataclasses.replace(BRIEF, timing_processes=0)
    sought(BOTH[0], "graph_nodes").check(untimed)
    for objective in (sought(*BOTH), sought(BOTH[0], examples_per_second=1)):
        objective.check(BRIEF)
        with pytest.raises(BadInput, match="timing trials, and there are none"):
            objective.check(untimed)


def test_the_front_is_what_nothing_else_is_as_good_as_in_the_order_of_the_first_metric() -> None:
    front = [cell(10, 1.0), cell(20, 5.0), cell(30, 9.0)]
    others = [cell(20, 4.0), cell(31, 9.0), cell(40, 2.0), cell(None), failed()]
    assert sought(*BOTH).find_front([*others, *reversed(front)]) == front


def test_cells_that_are_equally_good_are_all_on_the_front() -> None:
    twins = [cell(10, 1.0), cell(10, 1.0)]
    assert sought(*BOTH).find_front(twins) == twins


def test_the_best_of_one_metric_within_a_limit_is_the_one_that_keeps_it() -> None:
    slow, fast, faster = cell(10, 99.0), cell(20, 100.0), cell(30, 101.0)
    assert sought(BOTH[0], examples_per_second=100).find_front([faster, slow, fast]) == [fast]


def test_a_sweeper_is_told_the_worse_the_further_a_cell_is_off() -> None:
    objective = sought(*BOTH, tensor_peak_bytes=100)
    cells = [cell(50, 2.0), cell(101, 2.0), cell(500, 2.0), failed(), cell(None)]
    told = [objective.score(each) for each in cells]
    assert told[0] == [50, -2.0], "smaller is better in each"
    firsts = [first for first, _ in told[1:]]
    assert firsts == sorted(firsts)
    assert firsts[0] > WORST
    assert firsts[0] < firsts[1] < firsts[2] == firsts[3]


def test_why_a_cell_has_no_place_on_the_front_is_said() -> None:
    objective = sought(BOTH[0], examples_per_second=100)
    cells = [failed(status=Status.TIMED_OUT), cell(None), cell(5, 99.0), cell(5)]
    assert [objective.explain_exclusion(each) for each in cells] == [
        "timed out in first_call",
        "tensor_peak_bytes is unknown: it does not apply",
        "outside the limit of examples_per_second",
        "",
    ]
