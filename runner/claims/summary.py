"""What came of claims, on stdout: a line each, or all that a verdict rests on. A view: it judges
nothing. Piped, it holds no control codes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence, Set

from runner.claims import shelf, words
from runner.claims.measuring import Judged, by_document
from runner.claims.verdicts import Judgement, Verdict
from runner.places import relative
from runner.terminal.console import readable_duration, styled

_FOUND = {
    "supported": "is supported",
    "refuted": "is refuted",
    "depends": "depends",
    "inconclusive": "is inconclusive",
}
_COLOURS = {"supported": "32", "refuted": "31", "depends": "33", "inconclusive": "35"}


def of_claims(judged: Judged, in_full: Set[str], seconds: float) -> str:
    """Of the claims `in_full` everything; a line for each of all, where there are none."""
    told = [each for each in judged.judgements if not in_full or each.claim.id in in_full]
    others = {each.claim.id: each for each in judged.judgements}
    lines = [judged.made_with]
    for document, ours in by_document(told).items():
        lines += ["", styled(document, "1", sys.stdout)]
        for judgement in ours:
            lines += _evidence(judgement, judged, others) if in_full else [_line(judgement)]
    if not in_full:
        lines += _contradictions(told)
    counts = {verdict: [each.verdict for each in told].count(verdict) for verdict in Verdict}
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    cells = len(judged.work.plan.cells)
    lines += ["", f"{counted}; {cells} cells in {readable_duration(seconds)}"]
    lines.append(f"records in {relative(judged.folder)}, page {relative(judged.page)}")
    return "\n".join(lines)


def _verdict(judgement: Judgement) -> str:
    return styled(f"{judgement.verdict:<12}", _COLOURS[judgement.verdict], sys.stdout)


def _head(judgement: Judgement) -> str:
    return f"{judgement.claim.id}  {_verdict(judgement)}  {judgement.claim.claim}"


def _line(judgement: Judgement) -> str:
    return f"{_head(judgement)}: {words.decisive(judgement)}"


def _told(id: str, judged: Mapping[str, Judgement]) -> str:
    """Another claim: what it says, and what came of it if it was judged too."""
    if id in judged:
        return f"{id}, which {_FOUND[judged[id].verdict]}: {judged[id].claim.claim}"
    said = shelf.sentence(id)
    return f"{id}: {said}" if said else id


def _contradictions(judgements: Sequence[Judgement]) -> list[str]:
    pairs = words.contradictions(judgements)
    title = "What one place says and another contradicts"
    lines = ["", styled(title, "1", sys.stdout)] if pairs else []
    for one, other in pairs:
        lines += [_head(one), f"  against {_told(other.claim.id, {other.claim.id: other})}"]
    return lines


def _evidence(judgement: Judgement, judged: Judged, others: Mapping[str, Judgement]) -> list[str]:
    """Each case: its cells, what was expected and why, what was found."""
    lines = [_head(judgement)]
    for one in judgement.cases:
        case = one.case
        lines.append(f"  {case.when}: {words.holding(one)}")
        lines.append(f"    run      {words.said(case.run)}")
        if case.against:
            lines.append(f"    against  {words.said(case.against)}")
        for tested in one.tested:
            lines.append(f"    expected {tested.expectation.rule()}")
            if tested.expectation.because:
                lines.append(f"             ({tested.expectation.because})")
            lines.append(f"    found    {words.figures_of(tested, case)}")
        first, *more = (judged.cell_of(cell) for cell in case.cells)
        lines.append(f"    cells    {', '.join([relative(first), *(cell.name for cell in more)])}")
    if judgement.verdict is Verdict.DEPENDS:
        lines.append(f"  so it depends: {words.condition(judgement)}")
    if judgement.advice:
        lines.append(f"  instead: {judgement.advice}")
    for other in judgement.claim.contradicts:
        lines.append(f"  contradicts {_told(other, others)}")
    return [*lines, ""]
