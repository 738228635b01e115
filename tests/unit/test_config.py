"""Typed and checked: what a field accepts, and how a wrong value is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from runner.config import Count, NonNegative, Seconds, build_checked
from runner.errors import BadInput


@dataclass(frozen=True)
class Sample:
    size: Count
    style: Literal["named", "nested"]
    keep: bool
    seconds: Seconds
    limit: NonNegative | None
    name: str
    arguments: dict[str, Any]


GOOD = {
    "size": 3,
    "style": "named",
    "keep": False,
    "seconds": 2,
    "limit": None,
    "name": "a",
    "arguments": {"b": 1},
}


def test_good_values_become_the_dataclass() -> None:
    assert build_checked(Sample, GOOD, "sample") == Sample(
        3, "named", False, 2.0, None, "a", {"b": 1}
    )


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("size", 0, "sample.size: 0 is out of range"),
        ("size", -1, "sample.size: -1 is out of range"),
        ("size", 2**31, "sample.size: 2147483648 is out of range"),
        ("size", "abc", "sample.size: 'abc' is not a whole number"),
        ("size", 1.5, "sample.size: 1.5 is not a whole number"),
        ("size", True, "sample.size: True is not a whole number"),
        ("size", float("inf"), "sample.size: inf is not a whole number"),
        ("size", None, "sample.size: None is not a whole number"),
        ("style", "neested", "did you mean 'nested'"),
        ("keep", "yes", "sample.keep: 'yes' is neither true nor false"),
        ("keep", 1, "sample.keep: 1 is neither true nor false"),
        ("seconds", float("nan"), "sample.seconds: nan is not a finite number"),
        ("seconds", 0.0, "sample.seconds: 0.0 is out of range"),
        ("limit", -2, "sample.limit: -2 is out of range"),
        ("name", 3, "sample.name: 3 is not text"),
        ("arguments", [1], "sample.arguments: [1] is not a mapping"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_that_the_user_typed(
    field: str, value: object, says: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        build_checked(Sample, {**GOOD, field: value}, "sample")
    assert says in str(refusal.value)


def test_an_unknown_field_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(BadInput, match="did you mean 'size'"):
        build_checked(Sample, {**GOOD, "sice": 3}, "sample")


def test_a_missing_field_is_refused() -> None:
    with pytest.raises(BadInput, match=r"sample\.style: has no value"):
        build_checked(Sample, {name: GOOD[name] for name in GOOD if name != "style"}, "sample")


def test_a_check_across_fields_is_bad_input_too() -> None:
    @dataclass(frozen=True)
    class Pair:
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    with pytest.raises(BadInput, match="pair: low is above high"):
        build_checked(Pair, {"low": 2, "high": 1}, "pair")
