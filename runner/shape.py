"""Whether a value that was read from a file has the shape that its type promises.

Core: standard library only. Files may be old, cut, or changed by hand: what holds something else
than it should is told by the name of the place, once, and nobody behind has to think of it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

_LARGEST = 1e300
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What a wrong shape raises in code that trusts it."""


def from_text(text: str) -> Any:
    """JSON as the runner writes it: every number is a number."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a valid number")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def check(hint: Any, value: Any, where: str) -> None:
    """Raise `ValueError`, with the place in it, where `value` is not what `hint` says."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return
    if origin in (typing.Union, types.UnionType):
        if value is not None or type(None) not in inner:
            check(next(each for each in inner if each is not type(None)), value, where)
    elif origin in (dict, Mapping):
        _expect(isinstance(value, dict), where, "a mapping", value)
        for key, each in value.items():
            _expect(isinstance(key, str), where, "a mapping with names", value)
            check(inner[1], each, f"{where}.{key}")
    elif origin in (list, tuple):
        _expect(isinstance(value, list | tuple), where, "a list", value)
        if origin is tuple and Ellipsis not in inner:
            _expect(len(value) == len(inner), where, f"a list of {len(inner)}", value)
            for part, each in zip(inner, value, strict=True):
                check(part, each, where)
        elif not (inner[0] in (int, float) and _are_whole(value)):
            for each in value:
                check(inner[0], each, where)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        _expect(isinstance(value, hint), where, f"one of {', '.join(map(str, hint))}", value)
    elif isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        _expect(isinstance(value, hint), where, "a mapping", value)
        for name, part in _hints(hint).items():
            check(part, getattr(value, name), f"{where}.{name}" if where else name)
    elif hint is float:
        _expect(_is_number(value, int | float), where, "a number", value)
    elif hint is int:
        _expect(_is_number(value, int), where, "a whole number", value)
    elif isinstance(hint, type):
        _expect(isinstance(value, hint), where, _NAMES.get(hint, hint.__name__), value)


_NAMES: dict[type, str] = {str: "text", bool: "true or false", dict: "a mapping", list: "a list"}


def _is_number(value: Any, kind: Any) -> bool:
    is_one = isinstance(value, kind) and not isinstance(value, bool)
    return is_one and -_LARGEST < value < _LARGEST and math.isfinite(value)


def _are_whole(values: Any) -> bool:
    """A long list of sizes is gone through at C's speed."""
    are = set(map(type, values)) == {int}
    return are and min(values) > -_LARGEST and max(values) < _LARGEST


def _expect(holds: bool, where: str, what: str, value: Any) -> None:
    if not holds:
        said = repr(value)
        raise ValueError(f"{where}: {said[:40]}{'...' if len(said) > 40 else ''} is not {what}")
