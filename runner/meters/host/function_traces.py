"""Find the `tf.function`s that are traced again from step to step, and those that are made anew."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from runner.facts import GrowingFunction
from runner.meters.host.reference_chains import shorten


def count_traces(objects: list[Any]) -> dict[int, int]:
    """Return how often each `tf.function` was traced so far, by its identity."""
    return {id(each): each.experimental_get_tracing_count() for each in _list_functions(objects)}


def find_retraced(
    objects: list[Any], before: Mapping[int, int], steps: int
) -> list[GrowingFunction]:
    """Return functions that were traced again, or made anew, every other step at least."""
    found, anew = [], Counter[GrowingFunction]()
    least = max(2, steps / 2)
    for each in _list_functions(objects):
        if id(each) not in before:
            anew[_describe_function(each)] += 1
        elif (traces := each.experimental_get_tracing_count() - before[id(each)]) >= least:
            rate, differs = traces / steps, _find_difference(each)
            found.append(replace(_describe_function(each), traces_per_step=rate, differs=differs))
    for function, count in anew.items():
        if count >= least:
            found.append(replace(function, made_per_step=count / steps))
    return found


def _list_functions(objects: list[Any]) -> list[Any]:
    import tensorflow as tf

    functions = tf.types.experimental.PolymorphicFunction
    kinds = {each for each in set(map(type, objects)) if issubclass(each, functions)}
    return [each for each in objects if type(each) in kinds]


def _describe_function(function: Any) -> GrowingFunction:
    python = inspect.unwrap(function.python_function)
    name = getattr(python, "__qualname__", repr(python)).rpartition(".")[2]
    if (code := getattr(python, "__code__", None)) is None:
        return GrowingFunction(name=name)
    return GrowingFunction(name=name, file=shorten(code.co_filename), line=code.co_firstlineno)


def _find_difference(function: Any) -> str | None:
    """Return the first argument that the last two traces don't have in common: `factor: 3.0, then
    4.0`."""
    try:
        traces = function._list_all_concrete_functions()
        one, other = (each.function_type.parameters for each in traces[-2:])
    except (AttributeError, ValueError):  # TensorFlow's own, without a promise
        return None
    for name in one:
        if name in other and str(one[name].type_constraint) != str(other[name].type_constraint):
            return f"{name}: {_describe_type(one[name])}, then {_describe_type(other[name])}"
    return None


def _describe_type(parameter: Any) -> str:
    text = str(parameter.type_constraint).replace(", name=None", "")
    return text.removeprefix("Literal[").removesuffix("]") if text.startswith("Literal[") else text
