"""Functions of the user's go by their import path, or by value."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

import pytest

from runner.callables import PickledFunction, pickle_function
from runner.errors import BadInput


def test_a_function_that_can_be_imported_goes_by_its_import_path() -> None:
    assert pickle_function(OrderedDict) == ("collections:OrderedDict", None)
    assert pickle_function("my_module:make_step") == ("my_module:make_step", None)


def test_any_other_goes_by_value_with_what_it_uses() -> None:
    amount = 3

    def step(factor: int = 2) -> int:
        return factor * amount

    for each, gives in ((step, 6), (partial(step, 5), 15)):
        target, function = pickle_function(each)
        assert target.endswith(":test_any_other_goes_by_value_with_what_it_uses.<locals>.step")
        assert function is not None
        assert function.load()() == gives
        assert function.files == (__file__,)


def test_a_broken_copy_says_so_and_what_to_do() -> None:
    _, function = pickle_function(lambda: 1)
    assert function is not None
    broken = PickledFunction(function.target, function.pickled[:-9], None)
    with pytest.raises(BadInput, match="can't be made again in the process that measures"):
        broken.load()
