"""Streams that fail in other ways than streams do take no trial away."""

from __future__ import annotations

import pytest

from tests.attacks.breaks import Hostile
from tests.conftest import RunScenario


@pytest.mark.parametrize("kind", ["timing", "memory"])
def test_a_stream_whose_flush_is_an_interruption_loses_no_trial(
    run_scenario: RunScenario, kind: str
) -> None:
    assert run_scenario(Hostile(("streams",), "steps", None), kind).outcome.completed
