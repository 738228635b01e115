"""The way to what only a variable of a running function holds, as `main()` of a script has it."""

from __future__ import annotations

from typing import Any

from runner.meters.host.reference_chains import ReferenceChains


class Keeper:
    def __init__(self) -> None:
        self.pictures: list[object] = []


def test_a_variable_of_a_running_function_is_the_way_to_what_it_holds() -> None:
    history: list[Any] = []
    keeper = Keeper()
    chains = ReferenceChains(step=None)
    found = chains.find(history)
    assert found is not None
    assert found.links[0].startswith("`history`, a list in test_a_variable_of_a_running_function")
    found = chains.find(keeper.pictures)
    assert found is not None
    assert found.links[0].startswith("`keeper`")
    assert ".pictures, a list of Keeper" in found.links
