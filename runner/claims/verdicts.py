"""A claim as data, and the verdict that follows from records. A view: it measures nothing.

Core: standard library only. A claim is a few *cases*: each one condition that the document leaves
open (in eager mode, as a graph, with a gradient), measured at several sizes and held against what
the claim makes one expect there. What may be expected is in `comparisons/`, a file each; a YAML
file can name nothing else.

At each size a case holds, or not, or that is unknown: a metric is null, a cell failed, the interval
of a time contains the threshold. A case with several expectations holds where all of them do.

    supported      every case holds at every size
    refuted        none holds at any
    depends        some hold and some don't, at the conditions or sizes that the evidence names
    inconclusive   what is unknown could still change the verdict
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runner.claims.expectation import CaseRecords, Expectation, ExpectationResult, combine_holds
from runner.records import Record

Words = Mapping[str, Any]
"""A cell as a claim names it: what a user would type, `scenario.size` and its value."""

Lookup = Callable[[Words], Record]


class Verdict(StrEnum):
    SUPPORTED = "supported"
    REFUTED = "refuted"
    DEPENDS = "depends"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Case:
    """One condition that the document leaves open."""

    when: str
    run: Words
    against: Words | None
    field: str | None
    """The field that the sizes are values of."""
    sizes: tuple[float, ...]
    expect: tuple[Expectation, ...]

    def list_sizes(self, words: Words) -> list[Words]:
        """Return the cell at each size; the cell itself where there are none."""
        if self.field is None:
            return [words]
        return [{**words, self.field: size} for size in self.sizes]

    @property
    def cells(self) -> list[Words]:
        sides = (self.run, self.against)
        return [cell for words in sides if words for cell in self.list_sizes(words)]

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of trial that its evidence rests on."""
        return frozenset(kind for expectation in self.expect for kind in expectation.kinds)


@dataclass(frozen=True)
class Claim:
    """A sentence of a document, and the cases that it is held against."""

    id: str
    claim: str
    document: str
    cases: tuple[Case, ...]
    advice: Mapping[str, str]
    """A sentence on what to do, for each verdict that has a lesson."""
    contradicts: Mapping[str, str] = field(default_factory=dict)
    """Ids of claims that can't hold as well, each with how, or nothing."""


@dataclass(frozen=True)
class CaseJudgement:
    """A case with what came of each expectation."""

    case: Case
    results: tuple[ExpectationResult, ...]

    @property
    def holds_at(self) -> dict[int, bool | None]:
        """Return by number of the size whether all that is expected there holds."""
        held: dict[int, list[bool | None]] = {}
        for result in self.results:
            for finding in result.findings:
                for number in finding.covers:
                    held.setdefault(number, []).append(finding.holds)
        return {number: combine_holds(held[number]) for number in sorted(held)}

    @property
    def unknown(self) -> list[str]:
        """Return why it is unknown, where it is."""
        return [
            finding.why
            for result in self.results
            for finding in result.findings
            if finding.holds is None
        ]


@dataclass(frozen=True)
class Judgement:
    """A claim, its verdict, and what the verdict follows from."""

    claim: Claim
    verdict: Verdict
    cases: tuple[CaseJudgement, ...]

    @property
    def advice(self) -> str:
        return self.claim.advice.get(self.verdict, "")


def judge(claim: Claim, lookup: Lookup) -> Judgement:
    """Return the verdict, from the records of the claim's cells alone."""
    cases = []
    for case in claim.cases:
        run, against = (
            [lookup(cell) for cell in case.list_sizes(words)]
            for words in (case.run, case.against or case.run)
        )
        records = CaseRecords(case.field or "size", case.sizes, run, against)
        cases.append(
            CaseJudgement(case, tuple(expectation.test(records) for expectation in case.expect))
        )
    verdict = decide_verdict([case.holds_at.values() for case in cases])
    return Judgement(claim, verdict, tuple(cases))


def decide_verdict(cases: Sequence[Iterable[bool | None]]) -> Verdict:
    """Return the verdict by whether each case holds at each of its sizes; None is unknown."""
    seen = {holds for case in cases for holds in case}
    if {True, False} <= seen:
        return Verdict.DEPENDS  # whatever is unknown can't take that back
    if None in seen or not seen:
        return Verdict.INCONCLUSIVE
    return Verdict.SUPPORTED if True in seen else Verdict.REFUTED
