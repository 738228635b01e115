"""Claims as files: found by id in conf/claim/ and the user's own, or by path; taken apart, checked.

A mistake is named by file, field and the right word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from runner import paths, yaml_files
from runner.claims.comparisons import find_comparisons
from runner.claims.expectation import Expectation
from runner.claims.verdicts import Case, Claim, Verdict
from runner.config import build_checked
from runner.errors import BadInput, suggest

FEWEST_SIZES = 3
_EXAMPLES = "see conf/claim/ for examples"


def find_claim_files(names: Sequence[str]) -> list[Path]:
    """Return the files of claims that are named by id or by path; without names, of all that have
    an id."""
    known = paths.find_choices("claim")
    if not names:
        return list(known.values())
    claims = []
    for name in dict.fromkeys(names):
        if name not in known and not Path(name).is_file():
            raise BadInput(f"{name}: there is no claim of that id, and no such file.",
                           suggest(name, known))  # fmt: skip
        claims.append(known.get(name) or Path(name).resolve())
    return claims


def name_claim(path: Path) -> str:
    """Return the word that means that file on a command line."""
    return path.stem if paths.find_choices("claim").get(path.stem) == path else str(path)


def find_sentence(id: str) -> str | None:
    """Return what the claim of that id says, if there is one."""
    path = paths.find_choices("claim").get(id)
    return load_claim(path).claim if path else None


def find_contradiction(claim: Claim, other_id: str) -> str:
    """Return how two claims contradict each other, as the file of either says; else nothing."""
    if claim.contradicts.get(other_id):
        return claim.contradicts[other_id]
    path = paths.find_choices("claim").get(other_id)
    return load_claim(path).contradicts.get(claim.id, "") if path else ""


def load_claim(path: Path) -> Claim:
    """Return the claim of a file; raise `BadInput` where it can't be read, or makes no sense."""
    conf = paths.find_conf().parent
    where = str(path.relative_to(conf)) if path.is_relative_to(conf) else str(path)
    return parse_claim(path.stem, yaml_files.read(path), where)


def parse_claim(id: str, content: Any, where: str) -> Claim:
    """Return the claim that a file's content makes; `where` names the file in messages."""
    names = ("claim", "document", "cases", "advice", "contradicts")
    values = _check_fields(content, where, names)
    advice = _check_fields(values.get("advice", {}), f"{where}.advice", [*Verdict])
    cases = _check_list(values.get("cases"), f"{where}.cases")
    contradicts = values.get("contradicts") or {}
    if not isinstance(contradicts, Mapping):  # a list says of none how
        contradicts = dict.fromkeys(_check_list(contradicts, f"{where}.contradicts"), "")
    return Claim(
        id=id,
        claim=_check_text(values.get("claim"), f"{where}.claim"),
        document=_check_text(values.get("document"), f"{where}.document"),
        cases=tuple(_parse_case(case, f"{where}.cases.{n}") for n, case in enumerate(cases)),
        advice={verdict: str(text) for verdict, text in advice.items()},
        contradicts={str(other): str(how) for other, how in contradicts.items()},
    )


def _parse_case(content: Any, where: str) -> Case:
    values = _check_fields(content, where, ("when", "run", "against", "sizes", "expect"))
    when = _check_text(values.get("when"), f"{where}.when")
    run = _check_words(values.get("run"), f"{where}.run")
    if "scenario" not in run:
        raise BadInput(f"{where}.run: names no scenario.", "Write run: {scenario: NAME, ...}.")
    against = None
    if "against" in values:
        against = _check_words(values["against"], f"{where}.against")
        if "scenario" not in against:  # then it says what differs from `run`
            against = {**run, **against}
    field, sizes = _parse_sizes(values.get("sizes"), f"{where}.sizes")
    expect = []
    for n, item in enumerate(_check_list(values.get("expect"), f"{where}.expect")):
        expect.append(_parse_expectation(item, f"{where}.expect.{n}"))
        expect[-1].check(f"{where}.expect.{n}", sizes=bool(sizes), against=against is not None)
    return Case(when, run, against, field, sizes, tuple(expect))


def _parse_sizes(content: Any, where: str) -> tuple[str | None, tuple[float, ...]]:
    if content is None:
        return None, ()
    values = _check_mapping(content, where)
    if len(values) != 1:
        raise BadInput(f"{where}: takes one field.", "Write sizes: {scenario.size: [100, 200]}.")
    ((field, sizes),) = values.items()
    numbers = _check_list(sizes, f"{where}.{field}")
    if not all(isinstance(size, int | float) and not isinstance(size, bool) for size in numbers):
        raise BadInput(f"{where}.{field}: {sizes} are not all numbers.", "Give numbers.")
    if len(set(numbers)) < FEWEST_SIZES or numbers != sorted(numbers):
        raise BadInput(
            f"{where}.{field}: {sizes} are not {FEWEST_SIZES} growing sizes.",
            "Fewer do not show growth; write them in rising order.",
        )
    return field, tuple(numbers)


def _parse_expectation(content: Any, where: str) -> Expectation:
    values, known = _check_mapping(content, where), find_comparisons()
    named = [key for key in values if key in known]
    if len(named) != 1:
        wrong = next((key for key in values if key not in known), "")
        raise BadInput(
            f"{where}: names {len(named) or 'no'} comparison{'s' * (len(named) != 1)}.",
            f"One of these must be its first key. {suggest(wrong, known)}",
        )
    kind = known[named[0]]
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return build_checked(kind, {**defaults, **values}, where)


def _check_fields(content: Any, where: str, known: Sequence[str]) -> dict[str, Any]:
    values = _check_mapping(content, where)
    for name in values:
        if name not in known:
            raise BadInput(f"{where}.{name}: there is no such field.", suggest(name, known))
    return values


def _check_text(content: Any, where: str) -> str:
    if not isinstance(content, str):
        wrong = "is missing" if content is None else f"{content!r} is not text"
        raise BadInput(f"{where}: {wrong}.", f"Write text; {_EXAMPLES}.")
    return content


def _check_mapping(content: Any, where: str) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        wrong = "is missing" if content is None else f"{content!r} is not a mapping"
        raise BadInput(f"{where}: {wrong}.", f"Write key: value pairs; {_EXAMPLES}.")
    return {str(key): value for key, value in content.items()}


def _check_words(content: Any, where: str) -> dict[str, Any]:
    words = _check_mapping(content, where)
    for key, value in words.items():
        if not isinstance(value, str | int | float | bool):
            raise BadInput(
                f"{where}.{key}: {value!r} is not a plain value.", "Give text or a number."
            )
    return words


def _check_list(content: Any, where: str) -> list[Any]:
    if not isinstance(content, list) or not content:
        wrong = "is missing" if content is None else f"{content!r} is not a list with entries"
        raise BadInput(f"{where}: {wrong}.", f"Write a YAML list; {_EXAMPLES}.")
    return content
