"""The claims' page: document by document the claim, its verdict, the pictures that prove it, the
advice that follows, the command that repeats it. One file that loads nothing. A view of judgements.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from runner.claims import words as claim_words
from runner.claims.expectation import Tested
from runner.claims.readings import measure
from runner.claims.verdicts import JudgedCase, Judgement, Verdict
from runner.judging import selection
from runner.report import charts
from runner.report.markup import Node, page, tag

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
_SIGNS: dict[bool | None, str] = {True: "✓ holds", False: "✗ fails"}


def claims_page(
    documents: Mapping[str, Sequence[Judgement]],
    made_with: str,
    words: Mapping[str, str],
    whole: bool,
) -> str:
    """The whole page. `made_with` says on what it was measured, and when; `words` what to type for
    each claim, and `whole` that these are all there are."""
    judgements = [each for ours in documents.values() for each in ours]
    by_id = {each.claim.id: each for each in judgements}
    all_of_it = "" if whole else " ".join(["", *map(shlex.quote, words.values())])
    counts = {verdict: sum(each.verdict is verdict for each in judgements) for verdict in Verdict}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return page(
        "Claims, measured",
        tag("style", _STYLE),
        tag("h1", "Claims, measured"),
        tag("p", made_with, class_="asked"),
        tag("p", f"{told}. Each verdict follows from the figures below it alone.",
            class_="sentence"),
        _overview(documents),
        (_document(name, ours, by_id, words) for name, ours in documents.items()),
        tag("footer", "Repeat all of it: ", tag("code", f"python -m runner claims{all_of_it}")),
    )  # fmt: skip


def _overview(documents: Mapping[str, Sequence[Judgement]]) -> Element:
    rows = [
        tag(
            "tr",
            tag("td", tag("a", each.claim.id, href=f"#{_anchor(each.claim.id)}")),
            tag("td", _verdict(each.verdict)),
            tag("td", each.claim.claim),
        )
        for ours in documents.values()
        for each in ours
    ]
    head = tag("thead", tag("tr", tag("th", "id"), tag("th", "verdict"), tag("th", "claim")))
    table = tag("table", head, tag("tbody", rows), class_="overview")
    return tag("section", tag("h2", "At a glance"), tag("div", table, class_="frame"))


def _document(
    name: str,
    judgements: Sequence[Judgement],
    by_id: Mapping[str, Judgement],
    words: Mapping[str, str],
) -> Element:
    claims = (_claim(each, by_id, words[each.claim.id]) for each in judgements)
    return tag("section", tag("h2", name), claims)


def _claim(judgement: Judgement, by_id: Mapping[str, Judgement], word: str) -> Element:
    claim = judgement.claim
    content: list[Node] = [
        tag("h3", f"{claim.id}  “{claim.claim}”"),
        tag("p", _verdict(judgement.verdict), f" {claim_words.decisive(judgement)}"),
    ]
    if judgement.advice:
        content.append(tag("p", tag("b", "Do this instead: "), judgement.advice, class_="instead"))
    if claim.contradicts:
        content.append(tag("p", tag("b", "Another place says otherwise: "),
                           _links(claim.contradicts, by_id), "."))  # fmt: skip
    content.append(tag("div", (_case(each) for each in judgement.cases), class_="cases"))
    content.append(tag("p", tag("code", f"python -m runner claims {shlex.quote(word)}"),
                       class_="note"))  # fmt: skip
    return tag("article", content, class_="claim", id=_anchor(claim.id))


def _links(others: Sequence[str], by_id: Mapping[str, Judgement]) -> list[Node]:
    nodes: list[Node] = []
    for other in others:
        nodes += ["; "] if nodes else []
        if other in by_id:
            nodes += [tag("a", other, href=f"#{_anchor(other)}"), f" “{by_id[other].claim.claim}” "]
            nodes.append(_verdict(by_id[other].verdict))
        else:
            nodes.append(other)
    return nodes


def _case(judged: JudgedCase) -> Element:
    case = judged.case
    holds = set(judged.holds_at.values())
    sign = _SIGNS.get(holds.pop(), "? unclear") if len(holds) == 1 else claim_words.holding(judged)
    words = claim_words.said(case.run)
    content: list[Node] = [tag("h4", case.when), tag("p", tag("b", sign))]
    for tested in judged.tested:
        because = tested.expectation.because
        rule = tested.expectation.rule() + (f" ({because})" if because else "")
        content.append(tag("p", f"Expected: {rule}."))
        content.append(tag("p", f"Found: {claim_words.figures_of(tested, case)}."))
        content.append(_picture(tested, judged))
    content.append(tag("p", tag("code", words), class_="note"))
    if case.against:
        against = claim_words.said(case.against)
        content.append(tag("p", "against ", tag("code", against), class_="note"))
    return tag("div", content, class_="case")


def _picture(tested: Tested, judged: JudgedCase) -> Element | None:
    """The metric over the sizes; with what it is held against, where it is a ratio."""
    case, metric = judged.case, tested.expectation.metric
    series = tested.expectation.series(tested)
    if case.field is None or metric is None:
        return None
    text = measure(metric).readable
    lines = []
    for number, (name, readings) in enumerate(series):
        points = [
            (float(size), reading.value)
            for size, reading in zip(case.sizes, readings, strict=True)
            if reading.value is not None and math.isfinite(reading.value)
        ]
        texts = [f"{name}, {size:g}: {text(value)}" for size, value in points]
        lines.append(charts.Line(points, texts, series=number, marked=True))
    values = [value for line in lines for _, value in line.points]
    if not values:
        return None
    field = selection.short(case.field)
    span: charts.Scale = charts.Linear(min(case.sizes) * 0.9, max(case.sizes) * 1.05, "{:g}".format)
    if min(case.sizes) > 0 and max(case.sizes) / min(case.sizes) > 5:
        span = charts.Log(min(case.sizes) / 1.2, max(case.sizes) * 1.2, "{:g}".format)
    return charts.plot(
        lines,
        charts.At(span, case.sizes, "{:g}".format),
        charts.from_zero(values, text),
        summary=f"{case.when}: {claim_words.figures_of(tested, case)}",
        x_name=field if len(series) == 1 else f"{field} (round: run, square: against)",
    )


def _verdict(verdict: Verdict) -> Element:
    return tag("span", str(verdict), class_=f"verdict {verdict}")


def _anchor(id: str) -> str:
    return f"claim-{id}"
