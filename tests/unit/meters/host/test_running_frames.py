"""The way to what only a variable of a running function holds, as `main()` of a script has it."""

from __future__ import annotations

from typing import Any

from runner.meters.host.reference_chains import Chain, ReferenceChains


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


class RunnersKeeper(Keeper):
    """A class of the runner's own, by its module."""

    __module__ = "runner.meters.host.reference_chains"


def test_what_an_object_of_the_runners_holds_has_no_way() -> None:
    users, runners = find_pictures(Keeper()), find_pictures(RunnersKeeper())
    assert users is not None
    assert users.links[-1] == ".pictures, a list of Keeper"
    assert runners is None


def find_pictures(keeper: Keeper) -> Chain | None:
    return ReferenceChains(step=None).find(keeper.pictures)
