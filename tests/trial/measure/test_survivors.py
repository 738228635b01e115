"""What is garbage at a mark does not stay, unless its user keeps it."""

from __future__ import annotations

import gc
import weakref

import pytest

from runner.trial.measure.survivors import Survivors


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("switched_on", [True, False])
def test_garbage_stays_where_the_collector_is_switched_off(switched_on: bool) -> None:
    survivors = Survivors()
    gc.disable()
    garbage = weakref.ref(Cycle())
    try:
        if switched_on:
            gc.enable()
        survivors.mark()
        assert (garbage() is None) == switched_on
    finally:
        gc.enable()
