"""A judged claim in words, for the terminal and the page, and as JSON. A view: it judges nothing.

Core: standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runner.claims.verdicts import (
    Case,
    Ends,
    Expectation,
    Growth,
    JudgedCase,
    Judgement,
    Ratio,
    Slope,
    Tested,
    Value,
    Verdict,
    Words,
    metric_of,
)
from runner.judging import selection
from runner.metrics import METRICS, readable, readable_bytes, readable_seconds


def rule(expectation: Expectation) -> str:
    """What is expected, in a sentence's worth of words."""
    if isinstance(expectation, Ends):
        says = f", saying {expectation.says!r}" if expectation.says else ""
        return f"ends {expectation.outcome.replace('_', ' ')}{says}"
    name = label(metric_of(expectation))
    if isinstance(expectation, Growth):
        return f"{name} {_SHAPES[expectation.shape]}"
    unit = getattr(expectation, "unit", None)
    in_units = f" in units of {_pretty(unit)}" if unit else ""
    if isinstance(expectation, Slope):
        what = f"what each unit of the size adds to {name}{in_units}"
    elif isinstance(expectation, Value):
        what = f"{name}{in_units}"
    elif expectation.to:
        what = f"{name} over {label(expectation.to)}"
    else:
        what = f"{name} over that of the other"
    low, high = expectation.at_least, expectation.at_most
    if low == high:
        return f"{what} is {low:g}"
    bounds = [f"at least {low:g}"] if low is not None else []
    bounds += [f"at most {high:g}"] if high is not None else []
    return f"{what} is {' and '.join(bounds)}"


_SHAPES = {
    "flat": "is flat",
    "grows": "grows",
    "linear": "grows linearly",
    "quadratic": "grows quadratically",
    "exponential": "grows exponentially",
}


def _pretty(unit: str) -> str:
    return " · ".join(selection.short(word.strip()) for word in unit.split("*"))


def label(metric: str) -> str:
    if metric in METRICS:
        return METRICS[metric].label
    phase, _, figure = metric.rpartition(".")
    what = figure.replace("tensor_", "").replace("_bytes", "").replace("_", " ")
    return f"{what} {'after' if 'live' in figure else 'in'} {phase.replace('_', ' ')}"


def shown(metric: str, value: float | None) -> str:
    """A value with its unit."""
    if metric in METRICS or value is None:
        return readable(metric, value) if value is not None else "unknown"
    if metric.endswith("seconds"):
        return readable_seconds(value)
    return readable_bytes(value) if metric.endswith("bytes") else f"{value:,.0f}"


def number(value: float | None) -> str:
    if value is None:
        return "?"
    if math.isinf(value):
        return "∞"
    size = abs(value)
    if size and size < 0.01:
        return f"{value:.1g}"
    return f"{value:.0f}" if size >= 99.5 else f"{value:.3g}"


def figures(judged: JudgedCase) -> str:
    """The metric that decides a case, and its value at each size: of what fails, or comes first."""
    tested = next((each for each in judged.tested if each.holds is False), judged.tested[0])
    expectation = tested.expectation
    if isinstance(expectation, Ends):
        return _endings(tested) + _at_sizes(judged.case)
    metric = metric_of(expectation)
    if isinstance(expectation, Ratio):
        values = [f"x{number(finding.measured)}" for finding in tested.findings]
    else:
        values = [shown(metric, reading.value) for reading in tested.readings]
    return f"{label(metric)} {_listed(values)}{_at_sizes(judged.case)}"


def figures_of(tested: Tested, case: Case) -> str:
    """Everything that an expectation rests on: what was read, and what was made of it."""
    expectation = tested.expectation
    if isinstance(expectation, Ends):
        return _endings(tested) + _at_sizes(case)
    metric = metric_of(expectation)
    values = [shown(metric, reading.value) for reading in tested.readings]
    made = [number(finding.measured) for finding in tested.findings]
    text = f"{label(metric)} {_listed(values)}"
    if isinstance(expectation, Ratio):
        others = [shown(expectation.to or metric, reading.value) for reading in tested.against]
        pairs = zip(made, values, others, strict=True)
        text = f"{label(metric)} " + ", ".join(f"x{x} ({a} : {b})" for x, a, b in pairs)
    text += _at_sizes(case)
    unit = getattr(expectation, "unit", None)
    if isinstance(expectation, Slope):
        text += f"; each unit of it adds {_listed(made)}{f' x {_pretty(unit)}' if unit else ''}"
    elif unit:
        text += f"; that is {_listed(made)} x {_pretty(unit)}"
    notes = dict.fromkeys(finding.why for finding in tested.findings if finding.why)
    return "; ".join([text, *notes])


def _endings(tested: Tested) -> str:
    texts = dict.fromkeys(finding.why for finding in tested.findings)
    return "; ".join(text if len(text) <= 110 else f"{text[:107]}..." for text in texts)


def _listed(values: Sequence[str]) -> str:
    """All of them; one, where they are the same."""
    return ", ".join(values if len(set(values)) > 1 else values[:1])


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
                "rule": rule(tested.expectation),
                "because": tested.expectation.because,
                "metric": None
                if isinstance(tested.expectation, Ends)
                else metric_of(tested.expectation),
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
