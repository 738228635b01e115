"""A program without steps that makes more events than one window of the tracing holds."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import MeasureWords

TEXT = """
import tensorflow as tf

state = tf.ones([1000])
kept = []
for number in range(120_000):
    state = state + 1.0
    if number % 10_000 == 0:
        kept.append(tf.fill([5000], 1.0))
"""


def test_a_phase_of_any_length_is_traced_in_parts(measure: MeasureWords, tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(TEXT)
    record = measure("scenario=script", f"scenario.path={script}", "measure.timeout_seconds=500")
    (trial,) = record.trials
    assert record.allocations is not None
    assert record.allocations.checks.windows > 1
    assert record.allocations.checks.unmatched_frees == 0
    # Twelve that are kept, the state and its successor.
    assert record.metrics["tensor_peak_bytes"] == 12 * 20_000 + 2 * 4_000
    assert set(trial.phases) == {"build", "release"}
