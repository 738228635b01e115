"""Verdicts on stdout: a line each, or all that a verdict rests on. It judges nothing. Piped, it
holds no control codes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Set

from runner.claims import files, words
from runner.claims.judging import JudgedClaims
from runner.claims.verdicts import Judgement, Verdict
from runner.paths import shorten
from runner.render.text.console import style_text
from runner.render.words import count_things, format_duration

_COLOURS = {"supported": "green", "refuted": "red", "depends": "yellow", "inconclusive": "magenta"}


def summarize_claims(judged: JudgedClaims, in_full: Set[str], seconds: float) -> str:
    """Return everything of the claims `in_full`; where there are none, a line for each of all."""
    shown = [
        judgement for judgement in judged.judgements if not in_full or judgement.claim.id in in_full
    ]
    lines = [judged.made_with]
    for document, ours in words.group_by_document(shown).items():
        lines += ["", style_text(document, "bold", sys.stdout)]
        for judgement in ours:
            if in_full:
                lines += _list_evidence(judgement, judged)
            else:
                lines.append(f"{_write_head(judgement)}: {words.write_reason(judgement)}")
    pairs = [] if in_full else words.pair_contradictions(shown)
    if pairs:
        title = "What one place says and another contradicts"
        lines += ["", style_text(title, "bold", sys.stdout)]
    for one, other in pairs:
        how = files.find_contradiction(one.claim, other.claim.id)
        lines += [_write_head(one), f"  against {_write_verdict(other)}"]
        lines += [f"  {how}"] if how else []
    counts = Counter(judgement.verdict for judgement in shown)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    cells = count_things(len(judged.claims.plan.cells), "cell")
    lines += ["", f"{counted}; {cells} in {format_duration(seconds)}"]
    lines.append(f"records in {shorten(judged.folder)}, page {shorten(judged.page)}")
    return "\n".join(lines)


def _write_head(judgement: Judgement) -> str:
    verdict = style_text(f"{judgement.verdict:<12}", _COLOURS[judgement.verdict], sys.stdout)
    return f"{judgement.claim.id}  {verdict}  {judgement.claim.claim}"


def _write_verdict(judgement: Judgement) -> str:
    verdict = judgement.verdict
    answer = verdict if verdict is Verdict.DEPENDS else f"is {verdict}"
    return f"{judgement.claim.id}, which {answer}: {judgement.claim.claim}"


def _list_evidence(judgement: Judgement, judged: JudgedClaims) -> list[str]:
    """Return the lines of each case: its cells, what was expected and why, what was found."""
    lines = [_write_head(judgement)]
    for one in judgement.cases:
        case = one.case
        lines.append(f"  {case.when}: {words.write_holding(one)}")
        lines.append(f"    run      {words.write_cell(case.run)}")
        if case.against:
            lines.append(f"    against  {words.write_cell(case.against)}")
        for result in one.results:
            lines.append(f"    expected {result.expectation.write_rule()}")
            if result.expectation.because:
                lines.append(f"             ({result.expectation.because})")
            lines.append(f"    found    {words.write_figures(result, case)}")
        first, *more = (judged.find_cell(cell) for cell in case.cells)
        lines.append(f"    cells    {', '.join([shorten(first), *(cell.name for cell in more)])}")
    if judgement.verdict is Verdict.DEPENDS:
        lines.append(f"  so it depends: {words.write_condition(judgement)}")
    if judgement.advice:
        lines.append(f"  instead: {judgement.advice}")
    others = {judgement.claim.id: judgement for judgement in judged.judgements}
    for id in judgement.claim.contradicts:
        if id in others:
            other = _write_verdict(others[id])
        else:
            other = ": ".join(filter(None, (id, files.find_sentence(id))))
        how = files.find_contradiction(judgement.claim, id)
        lines.append(f"  contradicts {other}{f'. {how}' if how else ''}")
    return [*lines, ""]
