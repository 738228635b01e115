"""A judged claim in words, and as JSON. It judges nothing. Core: standard library only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runner import config
from runner.analysis import selection
from runner.claims.expectation import ExpectationResult
from runner.claims.verdicts import Case, CaseJudgement, Judgement, Verdict, Words


def write_cell(cell: Words) -> str:
    return " ".join(f"{key}={config.format_word(value)}" for key, value in cell.items())


def write_brief(judged: CaseJudgement) -> str:
    """Return the metric that decides a case, and its value at each size: of what fails, or comes
    first."""
    result = next((result for result in judged.results if result.holds is False), judged.results[0])
    return result.expectation.write_brief(result) + _write_sizes(judged.case)


def write_figures(result: ExpectationResult, case: Case) -> str:
    """Return everything that an expectation rests on: what was read, and what was made of it."""
    read = result.expectation.write_figures(result) + _write_sizes(case)
    return "; ".join([read, *result.expectation.list_notes(result)])


def _write_sizes(case: Case) -> str:
    if case.field is None:
        return ""
    sizes = ", ".join(f"{size:g}" for size in case.sizes)
    return f" at {selection.shorten_field(case.field)} {sizes}"


def write_reason(judgement: Judgement) -> str:
    """Return one line: what decided, with its figures."""
    cases = judgement.cases
    if judgement.verdict is Verdict.DEPENDS:
        return write_condition(judgement, most=1)
    if judgement.verdict is Verdict.INCONCLUSIVE:
        case = next(case for case in cases if case.unknown)
        return f"{case.case.when}: {case.unknown[0]}"
    more = f" (and {len(cases) - 1} more)" if len(cases) > 1 else ""
    return f"{cases[0].case.when}{more}: {write_brief(cases[0])}"


def write_condition(judgement: Judgement, most: int | None = None) -> str:
    """Return under which conditions a claim that depends holds and fails, each with its figures; no
    more than `most` of either by name."""
    groups = {
        word: [case for case in judgement.cases if set(case.holds_at.values()) == {holds}]
        for word, holds in (("holds", True), ("fails", False))
    }
    parts = []
    for word, cases in groups.items():
        if cases:
            whens = " / ".join(case.case.when for case in cases[:most])
            more = f" (and {len(cases) - most} more)" if most and len(cases) > most else ""
            parts.append(f"{word} {whens}{more}: {write_brief(cases[0])}")
    if most is None or not all(groups.values()):
        parts += [
            f"{case.case.when}, it {_write_holding_sizes(case)}: {write_brief(case)}"
            for case in judgement.cases
            if {True, False} <= set(case.holds_at.values())
        ]
    return "; ".join(parts)


def _write_holding_sizes(judged: CaseJudgement) -> str:
    """Return where a case holds: `holds at size 10, fails at size 100, 1000`."""
    field = selection.shorten_field(judged.case.field or "size")
    parts = []
    for word, outcome in (("holds", True), ("fails", False), ("is unclear", None)):
        sizes = [
            f"{judged.case.sizes[n]:g}" for n, holds in judged.holds_at.items() if holds is outcome
        ]
        if sizes:
            parts.append(f"{word} at {field} {', '.join(sizes)}")
    return ", ".join(parts)


def write_holding(judged: CaseJudgement) -> str:
    """Return whether a case holds, in a few words."""
    answers = set(judged.holds_at.values())
    if len(answers) > 1:
        return _write_holding_sizes(judged)
    return {True: "holds", False: "fails", None: "is unclear"}[answers.pop()]


def pair_contradictions(judgements: Sequence[Judgement]) -> list[tuple[Judgement, Judgement]]:
    """Return the pairs of which one contradicts the other, both of them judged; each pair once."""
    by_id = {judgement.claim.id: judgement for judgement in judgements}
    pairs = {
        tuple(sorted((judgement.claim.id, other)))
        for judgement in judgements
        for other in judgement.claim.contradicts
        if other in by_id
    }
    return [(by_id[one], by_id[other]) for one, other in sorted(pairs)]


def group_by_document(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Return the claims of each document, in their order."""
    documents: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        documents.setdefault(judgement.claim.document, []).append(judgement)
    return documents


def to_json(judgement: Judgement, find_cell: Callable[[Words], Path]) -> dict[str, Any]:
    """Return a verdict as `claims --json` prints it. `find_cell` says where a cell's record is."""
    claim = judgement.claim
    depends = judgement.verdict is Verdict.DEPENDS
    return {
        "id": claim.id,
        "claim": claim.claim,
        "source": claim.document,
        "verdict": str(judgement.verdict),
        "contradicts": list(claim.contradicts),
        "evidence": {
            "decisive": write_reason(judgement),
            "condition": write_condition(judgement) if depends else None,
            "advice": judgement.advice or None,
            "cases": [_case_to_json(case, find_cell) for case in judgement.cases],
        },
    }


def _case_to_json(judged: CaseJudgement, find_cell: Callable[[Words], Path]) -> dict[str, Any]:
    case = judged.case
    return {
        "when": case.when,
        "run": dict(case.run),
        "against": dict(case.against) if case.against else None,
        "sizes": {case.field: list(case.sizes)} if case.field else None,
        "holds": [judged.holds_at.get(n) for n in range(max(1, len(case.sizes)))],
        "cells": [str(find_cell(words).resolve()) for words in case.cells],
        "expectations": [
            {
                "rule": result.expectation.write_rule(),
                "because": result.expectation.because,
                "metric": result.expectation.metric,
                "values": [reading.value for reading in result.readings],
                "against": [reading.value for reading in result.against],
                "measured": [_drop_infinity(finding.measured) for finding in result.findings],
                "intervals": [
                    finding.interval and [*map(_drop_infinity, finding.interval)]
                    for finding in result.findings
                ],
                "holds": [finding.holds for finding in result.findings],
                "notes": [finding.why for finding in result.findings],
            }
            for result in judged.results
        ],
    }


def _drop_infinity(value: float | None) -> float | None:
    """Return null for infinity, which JSON lacks: something over nothing, both beside it."""
    return value if value is not None and math.isfinite(value) else None
