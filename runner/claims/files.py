"""A claim from its YAML file: what it says, taken apart and checked; a mistake is named by file,
field and the right word.

Core: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from runner.claims import comparisons
from runner.claims.expectation import Expectation
from runner.claims.verdicts import Case, Claim, Verdict
from runner.config import typed
from runner.errors import BadInput, nearest

FEWEST_SIZES = 3


@dataclass(frozen=True)
class _File:
    claim: str
    document: str


@dataclass(frozen=True)
class _Case:
    when: str


def parse(id: str, content: Any, where: str) -> Claim:
    values = _mapping(content, where)
    known = ("claim", "document", "cases", "advice", "contradicts")
    _only(values, known, where)
    said = typed(_File, {key: values[key] for key in known[:2] if key in values}, where)
    advice = _mapping(values.get("advice", {}), f"{where}.advice")
    _only(advice, [str(verdict) for verdict in Verdict], f"{where}.advice")
    cases = _list(values.get("cases"), f"{where}.cases")
    return Claim(
        id=id,
        claim=said.claim,
        document=said.document,
        cases=tuple(_case(each, f"{where}.cases.{n}") for n, each in enumerate(cases)),
        advice={str(key): str(text) for key, text in advice.items()},
        contradicts=tuple(
            str(each)
            for each in _list(values.get("contradicts", []), f"{where}.contradicts", empty=True)
        ),
    )


def _case(content: Any, where: str) -> Case:
    values = _mapping(content, where)
    _only(values, ("when", "run", "against", "sizes", "expect"), where)
    when = typed(_Case, {key: values[key] for key in ("when",) if key in values}, where).when
    run = _words(values.get("run"), f"{where}.run")
    if "scenario" not in run:
        raise BadInput(f"{where}.run: names no scenario.", "Write run: {scenario: NAME, ...}.")
    against = None
    if "against" in values:
        against = _words(values["against"], f"{where}.against")
        if "scenario" not in against:  # then it says what differs from `run`
            against = {**run, **against}
    field, sizes = _sizes(values.get("sizes"), f"{where}.sizes")
    expect = tuple(
        _expectation(each, f"{where}.expect.{n}")
        for n, each in enumerate(_list(values.get("expect"), f"{where}.expect"))
    )
    for n, each in enumerate(expect):
        each.check(f"{where}.expect.{n}", sizes=bool(sizes), against=against is not None)
    return Case(when, run, against, field, sizes, expect)


def _sizes(content: Any, where: str) -> tuple[str | None, tuple[float, ...]]:
    if content is None:
        return None, ()
    values = _mapping(content, where)
    if len(values) != 1:
        raise BadInput(f"{where}: takes one field.", "Write sizes: {scenario.size: [100, 200]}.")
    ((field, sizes),) = values.items()
    numbers = _list(sizes, f"{where}.{field}")
    if not all(isinstance(size, int | float) and not isinstance(size, bool) for size in numbers):
        raise BadInput(f"{where}.{field}: {sizes} are not all numbers.", "Give numbers.")
    if len(set(numbers)) < FEWEST_SIZES or numbers != sorted(numbers):
        raise BadInput(
            f"{where}.{field}: {sizes} are not {FEWEST_SIZES} growing sizes.",
            "Growth can't be told from fewer; write them in rising order.",
        )
    return str(field), tuple(numbers)


def _expectation(content: Any, where: str) -> Expectation:
    values, known = _mapping(content, where), comparisons.known()
    named = [key for key in values if key in known]
    if len(named) != 1:
        wrong = next((str(key) for key in values if key not in known), "")
        raise BadInput(
            f"{where}: names {len(named) or 'no'} comparison{'s' * (len(named) != 1)}.",
            f"One of these must be its first key. {nearest(wrong, known)}",
        )
    kind = known[named[0]]
    defaults = {each.name: each.default for each in fields(kind) if each.default is not MISSING}
    return typed(kind, {**defaults, **values}, where)


def _mapping(content: Any, where: str) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        said = "is missing" if content is None else f"{content!r} is not a mapping"
        raise BadInput(f"{where}: {said}.", "Write key: value pairs; see conf/claim/ for examples.")
    return {str(key): value for key, value in content.items()}


def _words(content: Any, where: str) -> dict[str, Any]:
    words = _mapping(content, where)
    for key, value in words.items():
        if not isinstance(value, str | int | float | bool):
            raise BadInput(
                f"{where}.{key}: {value!r} is not a plain value.", "Give text or a number."
            )
    return words


def _list(content: Any, where: str, empty: bool = False) -> list[Any]:
    if not isinstance(content, list) or not (content or empty):
        said = "is missing" if content is None else f"{content!r} is not a list with entries"
        raise BadInput(f"{where}: {said}.", "Write a YAML list; see conf/claim/ for examples.")
    return content


def _only(values: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in values:
        if key not in known:
            raise BadInput(f"{where}.{key}: there is no such field.", nearest(key, known))
