"""The claims' page: document by document the claim, its verdict, the pictures that prove it, the
advice that follows, the command that repeats it. One file that loads nothing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from runner.analysis import selection
from runner.claims import words as claim_words
from runner.claims.expectation import ExpectationResult, write_values
from runner.claims.files import find_contradiction
from runner.claims.readings import find_metric
from runner.claims.verdicts import CaseJudgement, Claim, Judgement, Verdict
from runner.render.html import charts, scales
from runner.render.html.elements import Node, draw_sections, tag, write_document

_STYLE = """
.verdict { display: inline-block; padding: 1px 9px; border-radius: 99px; border: 2px solid;
  font-size: .86rem; font-weight: 600; white-space: nowrap; }
.verdict.supported { color: var(--passing); } .verdict.refuted { color: var(--failed); }
.verdict.depends { color: var(--kept); } .verdict.inconclusive { color: var(--unknown); }
.claim { border-top: 1px solid var(--rule); padding: 18px 0 10px; }
.claim h3 { margin: 0 0 6px; font-size: 1.08rem; }
a { color: var(--link); }
.instead { border-left: 4px solid var(--passing); padding-left: 10px; margin: 10px 0; }
.cases { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr));
  gap: 14px; margin: 10px 0; }
.case { border: 1px solid var(--rule); border-radius: 8px; padding: 10px 12px; min-width: 0; }
.case h4 { margin: 0 0 4px; font-size: .95rem; }
.case .plot { margin: 8px 0 0; } .case .plot .area { height: 130px; }
.case .plot output { font-size: .8rem; }
.case p { font-size: .86rem; margin: 4px 0; }
.overview { font-size: .9rem; } .overview td:first-child, .overview td:nth-child(2) {
  white-space: nowrap; }
@media (max-width: 640px) { .overview { width: 100%; } }
"""
_SIGNS = {True: "✓ holds", False: "✗ fails", None: "? unclear"}


def draw_claims_page(
    documents: Mapping[str, Sequence[Judgement]],
    made_with: str,
    words: Mapping[str, str],
    is_all: bool,
) -> str:
    """Return the page. `made_with` says on what it was measured, and when; `words` what to type for
    each claim, and `is_all` that these are all there are."""
    judgements = [judgement for ours in documents.values() for judgement in ours]
    by_id = {judgement.claim.id: judgement for judgement in judgements}
    all_of_it = "" if is_all else " ".join(["", *map(shlex.quote, words.values())])
    counts = {
        verdict: sum(judgement.verdict is verdict for judgement in judgements)
        for verdict in Verdict
    }
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return write_document(
        "Claims, measured",
        tag("style", _STYLE),
        tag("h1", "Claims, measured"),
        tag("p.asked", made_with),
        tag("p.sentence", f"{counted}. Each verdict follows from the figures below it alone."),
        _draw_overview(documents),
        draw_sections(
            (name, (_draw_claim(judgement, by_id, words[judgement.claim.id]) for judgement in ours))
            for name, ours in documents.items()
        ),
        tag("footer", "Repeat all of it: ", tag("code", f"python -m runner claims{all_of_it}")),
    )


def _draw_overview(documents: Mapping[str, Sequence[Judgement]]) -> Element:
    rows = [
        tag(
            "tr",
            tag("td", tag("a", judgement.claim.id, href=f"#{_make_anchor(judgement.claim.id)}")),
            tag("td", _draw_verdict(judgement.verdict)),
            tag("td", judgement.claim.claim),
        )
        for ours in documents.values()
        for judgement in ours
    ]
    head = tag("thead", tag("tr", tag("th", "id"), tag("th", "verdict"), tag("th", "claim")))
    table = tag("table.overview", head, tag("tbody", rows))
    return tag("section", tag("h2", "At a glance"), tag("div.frame", table))


def _draw_claim(judgement: Judgement, by_id: Mapping[str, Judgement], word: str) -> Element:
    claim = judgement.claim
    content: list[Node] = [
        tag("h3", f"{claim.id}  “{claim.claim}”"),
        tag("p", _draw_verdict(judgement.verdict), f" {claim_words.write_reason(judgement)}"),
    ]
    if judgement.advice:
        content.append(tag("p.instead", tag("b", "Do this instead: "), judgement.advice))
    if claim.contradicts:
        links = _draw_links(claim, by_id)
        content.append(tag("p", tag("b", "Another place says otherwise: "), links, "."))
    content.append(tag("div.cases", map(_draw_case, judgement.cases)))
    content.append(tag("p.note", tag("code", f"python -m runner claims {shlex.quote(word)}")))
    return tag("article.claim", content, id=_make_anchor(claim.id))


def _draw_links(claim: Claim, by_id: Mapping[str, Judgement]) -> list[Node]:
    nodes: list[Node] = []
    for other in claim.contradicts:
        nodes += ["; "] if nodes else []
        if (judged := by_id.get(other)) is None:
            nodes.append(other)
        else:
            link = tag("a", other, href=f"#{_make_anchor(other)}")
            nodes += [link, f" “{judged.claim.claim}” ", _draw_verdict(judged.verdict)]
        if how := find_contradiction(claim, other):
            nodes.append(f". {how.rstrip('.')}")
    return nodes


def _draw_case(judged: CaseJudgement) -> Element:
    case = judged.case
    holds = set(judged.holds_at.values())
    sign = _SIGNS[holds.pop()] if len(holds) == 1 else claim_words.write_holding(judged)
    content: list[Node] = [tag("h4", case.when), tag("p", tag("b", sign))]
    for result in judged.results:
        because = result.expectation.because
        rule = result.expectation.write_rule() + (f" ({because})" if because else "")
        content.append(tag("p", f"Expected: {rule}."))
        content.append(tag("p", f"Found: {claim_words.write_figures(result, case)}."))
        content.append(_draw_picture(result, judged))
    content.append(tag("p.note", tag("code", claim_words.write_cell(case.run))))
    if case.against:
        against = claim_words.write_cell(case.against)
        content.append(tag("p.note", "against ", tag("code", against)))
    return tag("div.case", content)


def _draw_picture(result: ExpectationResult, judged: CaseJudgement) -> Element | None:
    """Return the metric over the sizes; with what it is held against, where it is a ratio."""
    case, metric = judged.case, result.expectation.metric
    series = result.expectation.list_series(result)
    if case.field is None or metric is None:
        return None
    text = find_metric(metric).format
    lines = []
    for number, (name, readings) in enumerate(series):
        points, texts = [], []
        written = write_values(metric, readings)
        for size, reading, words in zip(case.sizes, readings, written, strict=True):
            if reading.value is not None and math.isfinite(reading.value):
                points.append((float(size), reading.value))
                texts.append(f"{name}, {size:g}: {words}")
        lines.append(charts.PlotLine(points, texts, series=number, is_marked=True))
    values = [value for line in lines for _, value in line.points]
    if not values:
        return None
    field = selection.shorten_field(case.field)
    low, high, text_size = min(case.sizes), max(case.sizes), "{:g}".format
    span: scales.Scale = scales.LinearScale(low * 0.9, high * 1.05, text_size, case.sizes)
    if low > 0 and high / low > 5:
        span = scales.LogScale(low / 1.2, high * 1.2, text_size, case.sizes)
    return charts.draw_plot(
        lines,
        span,
        scales.make_scale_from_zero(values, text),
        summary=f"{case.when}: {claim_words.write_figures(result, case)}",
        x_name=field if len(series) == 1 else f"{field} (round: run, square: against)",
    )


def _draw_verdict(verdict: Verdict) -> Element:
    return tag(f"span.verdict.{verdict}", str(verdict))


def _make_anchor(id: str) -> str:
    return f"claim-{id}"
