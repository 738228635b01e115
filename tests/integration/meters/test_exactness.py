"""Measured figures against known truth, to the byte. M is one state, W the weight, both float32."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from runner.records import Phase, Trial
from runner.scenario import Bench, Executions, Step
from tests.conftest import MeasureWords, RunScenario

SIZES = [(100, 100), (57, 123), (1, 3), (512, 64)]


def _state_bytes(batch_size: int, size: int) -> int:
    return 4 * batch_size * size


@dataclass(frozen=True)
class Keeper:
    """Keeps a vector of this many floats in every step, on purpose."""

    executions: ClassVar[Executions] = ("eager", "graph")

    elements: int

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        kept: list[Any] = []
        seed = tf.zeros([self.elements])
        make = bench.compile(lambda tensor: tensor + 1.0)
        return lambda: kept.append(make(seed))


@dataclass(frozen=True)
class Holder:
    """Builds one tensor of this many floats, and does nothing."""

    executions: ClassVar[Executions] = ("eager",)

    elements: int

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        tensor = tf.zeros([self.elements])
        return lambda: tensor is None


@pytest.mark.parametrize(("batch_size", "size"), SIZES)
def test_a_taped_loop_keeps_every_state_under_its_tape(
    measure: MeasureWords, batch_size: int, size: int
) -> None:
    def peak(iterations: int) -> float:
        record = measure(
            "scenario=python_loop",
            "scenario.gradient=tape",
            f"scenario.iterations={iterations}",
            f"scenario.size={size}",
            f"batch_size={batch_size}",
        )
        value = record.metrics["tensor_step_peak_bytes"]
        assert value is not None
        return value

    assert peak(40) - peak(23) == 17 * _state_bytes(batch_size, size)


@pytest.mark.parametrize(("batch_size", "size"), SIZES)
@pytest.mark.parametrize("iterations", [5, 100])
def test_an_untaped_loop_keeps_two_states_however_long_it_is(
    measure: MeasureWords, batch_size: int, size: int, iterations: int
) -> None:
    record = measure(
        "scenario=python_loop",
        f"scenario.iterations={iterations}",
        f"scenario.size={size}",
        f"batch_size={batch_size}",
    )
    assert record.metrics["tensor_step_peak_bytes"] == 2 * _state_bytes(batch_size, size)
    assert record.metrics["tensor_live_bytes"] == _state_bytes(batch_size, size) + 4 * size * size


@pytest.mark.parametrize("elements", [1, 63, 7_777, 65_536, 1_000_003])
def test_a_tensor_of_known_size_counts_as_exactly_that(
    run_scenario: RunScenario, elements: int
) -> None:
    trial = run_scenario(Holder(elements), kind="memory")
    assert trial.figures(Phase.BUILD).tensor_live_bytes == 4 * elements
    assert trial.facts.tensor_retained_bytes == 0


@pytest.mark.parametrize("execution", ["eager", "graph"])
def test_a_step_that_keeps_a_vector_grows_by_exactly_its_bytes(
    run_scenario: RunScenario, execution: str
) -> None:
    live = _live(run_scenario(Keeper(7_777), kind="memory", execution=execution))
    assert {after - before for before, after in pairwise(live)} == {31_108}


def _live(trial: Trial) -> tuple[float, ...]:
    assert trial.outcome.completed, trial.outcome
    return trial.steps.tensor_live_bytes


@pytest.mark.parametrize(
    "words",
    [
        ("scenario=python_loop",),
        ("scenario=python_loop", "scenario.gradient=tape"),
        ("scenario=variable_loop",),
        ("scenario=while_loop", "device.inter_op_threads=1"),
        ("scenario=while_loop", "scenario.gradient=tape", "device.inter_op_threads=1"),
    ],
    ids=lambda words: " ".join(words),
)
def test_ten_processes_agree_on_the_peak_to_the_byte(
    measure: MeasureWords, words: tuple[str, ...]
) -> None:
    brief = ("scenario.iterations=30", "measure.memory_processes=10", "measure.memory_steps=3")
    record = measure(*words, *brief)
    assert len(record.trials) == 10
    assert len({trial.facts.tensor_peak_bytes for trial in record.trials}) == 1
    assert len({trial.facts.course for trial in record.trials}) == 1


def test_where_concurrency_moves_the_peak_the_record_gives_the_range(measure: MeasureWords) -> None:
    record = measure(
        "scenario=python_loop",
        "scenario.gradient=tape",
        "execution=graph",
        "measure.memory_processes=4",
        "measure.memory_steps=3",
    )
    peaks = [trial.facts.tensor_peak_bytes for trial in record.trials]
    assert record.intervals["tensor_peak_bytes"] == (min(peaks), max(peaks))
    assert record.metrics["tensor_peak_bytes"] == max(peaks)
    requested = {tuple(trial.steps.allocated_bytes) for trial in record.trials}
    assert len(requested) == 1, "what is requested is the same, whatever the order"


def test_the_groups_at_the_peak_sum_to_it(measure: MeasureWords) -> None:
    record = measure("scenario=python_loop", "scenario.gradient=tape", "batch_size=57")
    assert record.allocations is not None
    assert record.allocations.total_bytes == record.metrics["tensor_peak_bytes"]
    groups = record.allocations.groups
    assert sum(group.bytes for group in groups) == record.metrics["tensor_peak_bytes"]
    assert (groups[0].op, groups[0].shape, groups[0].dtype) == (
        "MatMul",
        (57, 100),
        "float32",
    )
