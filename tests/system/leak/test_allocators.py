"""Tensors have their lines, whatever allocator the user has chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cell import TrialSpec
from runner.compose import composition
from runner.meters.tensor.allocator import EXACT_ALLOCATOR
from runner.processes.server import TrialServer


def test_small_tensors_have_a_line_under_an_allocator_with_regions_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keeps.py").write_text(
        "import tensorflow as tf\nkept = []\ndef step():\n    kept.append(tf.fill([256], 1.0))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(EXACT_ALLOCATOR, "1")
    words = ["scenario=callable", "scenario.target=keeps:step", "measure.max_seconds=1"]
    experiment = composition.compose_plan(words).cells[0].experiment
    server = TrialServer(tmp_path / "server.log")
    try:
        trial = server.run(TrialSpec(experiment, "host", 0), 120)
    finally:
        server.stop()
    assert trial.facts.held is not None, trial.outcome
    tensors = [place for place in trial.facts.held.survivors if place.kind == "tensor"]
    assert {(place.file, place.line) for place in tensors} == {("keeps.py", 4)}
    assert sum(place.bytes[-1] for place in tensors) >= 1024 * trial.facts.held.steps
