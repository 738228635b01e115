"""A comparison as tables, for a terminal or a pull request, and what its verdicts rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from runner.judging.comparison import Comparison, Row
from runner.judging.peaks import Peaks
from runner.judging.selection import Pair, short
from runner.metrics import METRICS, readable, readable_bytes
from runner.terminal.tables import aligned

_MOST_GROUPS = 12


def lines(
    result: Comparison, pairs: Sequence[Pair], peaks: Sequence[Peaks | str], markdown: bool
) -> list[str]:
    drawn = _markdown if markdown else _plain
    bullet = "- " if markdown else ""  # else they run into one line
    lines = [*drawn(_table(result.rows)), "", *(f"{bullet}{each}" for each in _footnotes(result))]
    for pair, found in zip(pairs, peaks, strict=False):
        place = "".join(f", {name}={value}" for name, value in pair.held.items())
        title = f"at the peak of {pair.candidate_name}, against {pair.baseline_name}{place}"
        if isinstance(found, str):
            lines += ["", f"{title}: unknown ({found})"]
        else:
            lines += ["", title, "", *drawn(_allocations(found))]
    return lines


@dataclass(frozen=True)
class Table:
    head: list[str]
    lines: list[list[str]]
    figures: range
    """The columns that are set to the right."""


def _table(rows: Sequence[Row]) -> Table:
    """Where a row stands in the grid, what it compares, and what came out."""
    places = list(dict.fromkeys(name for row in rows for name in row.pair.held))
    baselines = {row.pair.baseline_name for row in rows}
    alone = len(baselines) == 1  # then it heads a column, and needs none of its own
    lines, before = [], None
    for row in rows:
        pair = row.pair
        where = [pair.held.get(name, "") for name in places] + [pair.candidate_name]
        where += [] if alone else [pair.baseline_name]
        lines.append([*([""] * len(where) if pair is before else where), *_figures(row)])
        before = pair
    head = [*map(short, places), "cell", *([] if alone else ["against"]), "metric"]
    figures = ["value", baselines.pop() if alone else "baseline", "ratio", "95 % interval"]
    return Table([*head, *figures, "verdict"], lines, range(len(head), len(head) + len(figures)))


def _figures(row: Row) -> list[str]:
    if row.metric not in METRICS:
        words = [one.outcome.status.replace("_", " ") for _, one in reversed(row.pair.sides)]
        return [row.metric, *words, "", "", row.explanation]
    values = [
        readable(row.metric, value) if value is not None else "-"
        for value in (row.candidate, row.baseline)
    ]
    ratio = "" if row.ratio is None else _ratio(row.ratio)
    interval = ""
    if row.interval:
        low, high = row.interval
        interval = "exact" if low == high else f"{_ratio(low)} to {_ratio(high)}"
    return [METRICS[row.metric].label, *values, ratio, interval, row.explanation]


def _ratio(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if 0.1 <= value < 10 else f"{value:.3g}"


def _footnotes(result: Comparison) -> list[str]:
    """What the verdicts rest on, as far as there are such rows."""
    bounds: dict[str, list[str]] = {}
    for row in result.rows:
        if row.same_within:
            labels = bounds.setdefault(row.same_within, [])
            if METRICS[row.metric].label not in labels:
                labels.append(METRICS[row.metric].label)
    same = "; ".join(
        f"{', '.join(labels)} {'only if equal' if bound == '0' else f'within {bound}'}"
        for bound, labels in bounds.items()
    )
    lines = [f"same: {same}"] if same else []
    pairs = {id(row.pair): row.pair for row in result.rows}.values()
    lines += dict.fromkeys(f"other code: {other}" for pair in pairs if (other := pair.other_code))
    if result.tested:
        many = f", together (Bonferroni over {result.tested} rows)" if result.tested > 1 else ""
        lines.append(f"intervals: 95 %{many}, over processes")
    more = [METRICS[row.metric] for row in result.rows if row.more_processes]
    if more:
        sources = dict.fromkeys(f"measure.{metric.source}_processes" for metric in more)
        lines.append(f"more processes: of either cell ({', '.join(sources)})")
    counts = Counter(row.verdict for row in result.rows)
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return lines


def _allocations(peaks: Peaks) -> Table:
    shown, rest = peaks.apart[:_MOST_GROUPS], peaks.apart[_MOST_GROUPS:]
    alike = [group for group in peaks.groups if group not in peaks.apart]
    lines = [
        [group.op or "-", group.shape, group.dtype, str(group.candidate_count),
         readable_bytes(group.candidate_bytes), str(group.baseline_count),
         readable_bytes(group.baseline_bytes), _signed(group.difference), group.line, group.scope]
        for group in shown
    ]  # fmt: skip
    for groups, what in ((rest, "smaller differences"), (alike, "alike")):
        if groups:
            ours = sum(group.candidate_bytes for group in groups)
            theirs = sum(group.baseline_bytes for group in groups)
            lines.append([f"{len(groups)} {what}", "", "", "", readable_bytes(ours), "",
                          readable_bytes(theirs), _signed(ours - theirs), "", ""])  # fmt: skip
    ours, theirs = peaks.candidate_bytes, peaks.baseline_bytes
    lines.append(["all", "", "", "", readable_bytes(ours), "", readable_bytes(theirs),
                  _signed(ours - theirs), "", ""])  # fmt: skip
    head = ["op", "shape", "dtype", "count", "bytes", "count", "baseline", "difference"]
    figures = range(3, len(head))
    line = "most of it by" if any(group.line for group in shown) else ""
    scope = "most of it in" if any(group.scope for group in shown) else ""
    return Table([*head, line, scope], lines, figures)


def _signed(value: int) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{readable_bytes(abs(value))}"


def _plain(table: Table) -> list[str]:
    return aligned([table.head, *table.lines], table.figures)


def _markdown(table: Table) -> list[str]:
    rule = ["--:" if number in table.figures else ":--" for number in range(len(table.head))]
    escaped = [[text.replace("|", "\\|") for text in line] for line in table.lines]
    return [f"| {' | '.join(line)} |" for line in (table.head, rule, *escaped)]
