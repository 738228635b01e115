"""Cheap steps are repeated until growth is told from none: rings do not grow, small leaks do."""

from __future__ import annotations

import pytest

from tests.conftest import MeasureWords

STEPS = "tests.benchmarks._growing_steps"
TENSOR, HOST = "tensor_growth_bytes_per_step", "host_growth_bytes_per_step"


def words(name: str, size: int) -> list[str]:
    return [
        *("scenario=callable", f"scenario.target={STEPS}:{name}"),
        *(f"scenario.arguments={{size: {size}}}", "measure.timing_processes=1"),
        "measure.max_seconds=10",  # a busy machine takes fewer steps in a second
    ]


@pytest.mark.parametrize("name", ["ring_of_16", "ring_of_100", "ring_of_250"])
def test_what_keeps_its_last_tensors_does_not_grow(measure: MeasureWords, name: str) -> None:
    record = measure(*words(name, 4_000), timing=True)
    assert record.metrics[TENSOR] == 0
    assert not record.metrics[HOST]


@pytest.mark.parametrize(
    ("name", "tensor", "least", "most"),
    [
        ("dict_that_stays", 0, 60, 200),
        ("array_that_stays", 0, 90, 300),
        ("array_that_stays_beside_garbage", 0, 90, 300),
        ("tensor_that_stays", 100, 100, 1_500),
    ],
)
def test_a_hundred_bytes_a_step_are_found(
    measure: MeasureWords, name: str, tensor: int, least: int, most: int
) -> None:
    record = measure(*words(name, 100), timing=True)
    assert record.metrics[TENSOR] == tensor
    growth = record.metrics[HOST]
    assert growth is not None
    assert least <= growth <= most


def test_what_python_keeps_for_free_objects_is_no_garbage(measure: MeasureWords) -> None:
    record = measure(*words("tuples_that_go", 2_000), timing=True, memory=False)
    assert (record.trials[0].facts.host_collected_bytes or 0) < 20_000


def test_a_long_trial_does_not_swell_the_record(measure: MeasureWords) -> None:
    record = measure(*words("dict_that_stays", 100), timing=True, memory=False)
    (trial,) = record.trials
    assert len(trial.steps) > 2_000
    assert len(trial.steps.host_bytes) <= 256
    assert len(trial.steps.seconds) == 202
