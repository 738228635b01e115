"""Stacks hold no code of a terminal's, and name only what is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.render.files.allocations import fold_stacks
from runner.sanitize import make_printable
from tests.factories import ALLOCATIONS


def test_a_folded_stack_has_no_code_of_a_terminal_s() -> None:
    frames = tuple(frame._replace(file="\x1b[2J\u202e.py") for frame in ALLOCATIONS.frames)
    assert frames
    text = fold_stacks(replace(ALLOCATIONS, frames=frames))
    assert text.replace("\n", "") == make_printable(text).replace("\n", "")


@pytest.mark.parametrize("change", [{"frames": ()}, {"total_bytes": 0}, {"total_bytes": -5}])
def test_parts_that_do_not_fit_together_are_no_allocations(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not there|sum of the groups"):
        replace(ALLOCATIONS, **change)
