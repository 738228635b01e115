"""A view that somebody else has written into the store is in nobody's way."""

from __future__ import annotations

import json

import pytest

from runner.store import views


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "5", "null", "{}"])
def test_a_view_that_can_t_be_read_is_the_first_to_go(text: str) -> None:
    names = [f"{views.TAG}runner-sweep-{number:03}" for number in range(views.MOST_VIEWS + 1)]
    tags = {name: json.dumps({"name": f"sweep 2026-{name[-3:]}"}) for name in names}
    assert views.find_surplus_views({**tags, names[7]: text}) == [names[7]]
