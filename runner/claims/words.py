"""A judged claim in words, for the terminal and the page, and as JSON. A view: it judges nothing.

Core: standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runner import config
from runner.claims.expectation import Tested
from runner.claims.verdicts import Case, JudgedCase, Judgement, Verdict, Words
from runner.judging import selection


def said(cell: Words) -> str:
    """A cell as a user types it."""
    return " ".join(f"{key}={config.word(value)}" for key, value in cell.items())


def figures(judged: JudgedCase) -> str:
    """The metric that decides a case, and its value at each size: of what fails, or comes first."""
    tested = next((each for each in judged.tested if each.holds is False), judged.tested[0])
    return tested.expectation.brief(tested) + _at_sizes(judged.case)


def figures_of(tested: Tested, case: Case) -> str:
    """Everything that an expectation rests on: what was read, and what was made of it."""
    read = tested.expectation.whole(tested) + _at_sizes(case)
    return "; ".join([read, *tested.expectation.made(tested)])


def _at_sizes(case: Case) -> str:
    if case.field is None:
        return ""
    return f" at {selection.short(case.field)} {', '.join(f'{size:g}' for size in case.sizes)}"


def decisive(judgement: Judgement) -> str:
    """One line: what decided, with its figures."""
    cases = judgement.cases
    if judgement.verdict is Verdict.DEPENDS:
        return condition(judgement, most=1)
    if judgement.verdict is Verdict.INCONCLUSIVE:
        case = next(case for case in cases if case.unknown)
        return f"{case.case.when}: {case.unknown[0]}"
    more = f" (and {len(cases) - 1} more)" if len(cases) > 1 else ""
    return f"{cases[0].case.when}{more}: {figures(cases[0])}"


def condition(judgement: Judgement, most: int | None = None) -> str:
    """Under which conditions a claim that depends holds and fails, each with its figures; no more
    than `most` of either by name."""
    groups = {
        "holds": [case for case in judgement.cases if case.whole],
        "fails": [case for case in judgement.cases if set(case.holds_at.values()) == {False}],
    }
    split = [case for case in judgement.cases if case.split]
    parts = [
        f"{word} {_whens(cases, most)}: {figures(cases[0])}"
        for word, cases in groups.items()
        if cases
    ]
    if most is None or not all(groups.values()):
        parts += [f"{case.case.when}, it {_by_size(case)}: {figures(case)}" for case in split]
    return "; ".join(parts)


def _whens(cases: Sequence[JudgedCase], most: int | None) -> str:
    whens = [case.case.when for case in cases]
    if most is not None and len(whens) > most:
        return f"{' / '.join(whens[:most])} (and {len(whens) - most} more)"
    return " / ".join(whens)


def _by_size(judged: JudgedCase) -> str:
    """`holds at size 10, fails at 100, 1000`."""
    field = selection.short(judged.case.field or "size")
    parts = []
    for word, outcome in (("holds", True), ("fails", False), ("is unclear", None)):
        sizes = [
            f"{judged.case.sizes[n]:g}" for n, holds in judged.holds_at.items() if holds is outcome
        ]
        if sizes:
            parts.append(f"{word} at {field} {', '.join(sizes)}")
    return ", ".join(parts)


def holding(judged: JudgedCase) -> str:
    """Whether a case holds, in a few words."""
    found = set(judged.holds_at.values())
    if len(found) > 1:
        return _by_size(judged)
    return {True: "holds", False: "fails", None: "is unclear"}[found.pop()]


def contradictions(judgements: Sequence[Judgement]) -> list[tuple[Judgement, Judgement]]:
    """The pairs of which one contradicts the other, both of them judged; each pair once."""
    by_id = {each.claim.id: each for each in judgements}
    pairs = {
        tuple(sorted((each.claim.id, other)))
        for each in judgements
        for other in each.claim.contradicts
        if other in by_id
    }
    return [(by_id[one], by_id[other]) for one, other in sorted(pairs)]


# As JSON.


def to_json(judgement: Judgement, cell_of: Callable[[Words], Path]) -> dict[str, Any]:
    """As `claims --json` prints it. `cell_of` says where a cell's record is."""
    evidence: dict[str, Any] = {
        "decisive": decisive(judgement),
        "condition": condition(judgement) if judgement.verdict is Verdict.DEPENDS else None,
        "advice": judgement.advice or None,
        "cases": [_case_to_json(case, cell_of) for case in judgement.cases],
    }
    claim = judgement.claim
    return {
        "id": claim.id,
        "claim": claim.claim,
        "source": claim.document,
        "verdict": str(judgement.verdict),
        "contradicts": list(claim.contradicts),
        "evidence": evidence,
    }


def _case_to_json(judged: JudgedCase, cell_of: Callable[[Words], Path]) -> dict[str, Any]:
    case = judged.case
    return {
        "when": case.when,
        "run": dict(case.run),
        "against": dict(case.against) if case.against else None,
        "sizes": {case.field: list(case.sizes)} if case.field else None,
        "holds": [judged.holds_at.get(n) for n in range(max(1, len(case.sizes)))],
        "cells": [str(cell_of(words).resolve()) for words in case.cells],
        "expectations": [
            {
                "rule": tested.expectation.rule(),
                "because": tested.expectation.because,
                "metric": tested.expectation.metric,
                "values": [reading.value for reading in tested.readings],
                "against": [reading.value for reading in tested.against],
                "measured": [_finite(finding.measured) for finding in tested.findings],
                "intervals": [
                    [_finite(end) for end in finding.interval] if finding.interval else None
                    for finding in tested.findings
                ],
                "holds": [finding.holds for finding in tested.findings],
                "notes": [finding.why for finding in tested.findings],
            }
            for tested in judged.tested
        ],
    }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: something over nothing is null, with both values beside it."""
    return value if value is not None and math.isfinite(value) else None
