"""A comparison as tables, for a terminal, a pull request or a page; what its verdicts rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from runner.analysis.budget import OverBudget
from runner.analysis.comparison import Comparison, ComparisonRow
from runner.analysis.effects import Effect
from runner.analysis.peak_comparison import PeakComparison, PeakGroup, find_guilty_line
from runner.analysis.selection import Pair, name_value, shorten_field
from runner.metrics import METRICS, format_bytes, format_metric
from runner.render.conclusion import describe_effect
from runner.render.files.markdown import write_table
from runner.render.tables import (
    Column,
    Table,
    TableCell,
    make_count_cell,
    make_table,
    make_value_cell,
)
from runner.render.text.table import align_table
from runner.render.words import count_things
from runner.sanitize import escape_markdown, format_code_span

_MOST_GROUPS = 12
_MOST_GUILTY = 20
"""Lines below a gate's result: the table has the others."""


def list_comparison(
    result: Comparison,
    pairs: Sequence[Pair],
    peaks: Sequence[PeakComparison | str],
    is_markdown: bool,
) -> list[str]:
    """Return the lines of a comparison; `peaks` is what the cells of each pair hold at theirs."""
    draw = write_table if is_markdown else align_table
    bullet = "- " if is_markdown else ""  # else they run into one line
    notes = (f"{bullet}{note}" for note in _list_footnotes(result))
    lines = [*draw(make_comparison_table(result.rows)), "", *notes]
    for pair, peak in zip(pairs, peaks, strict=False):
        place = "".join(f", {name}={value}" for name, value in pair.held.items())
        title = f"at the peak of {pair.candidate_name}, against {pair.baseline_name}{place}"
        if isinstance(peak, str):
            lines += ["", f"{title}: unknown ({peak})"]
        else:
            lines += ["", title, "", *draw(_make_peaks_table(peak))]
    return lines


def list_gate(
    failing: Sequence[ComparisonRow],
    over: Sequence[OverBudget],
    pairs: Sequence[Pair],
    is_markdown: bool,
) -> list[str]:
    """Return the lines that say what the exit code says, and which lines of code are to blame."""
    counts = Counter([str(row.verdict) for row in failing] + [figure.verdict for figure in over])
    result = f"gate: {'failed' if counts else 'passed'}"
    why = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    lines = [(f"**{result}**" if is_markdown else result) + (f" ({why})" if why else "")]
    escape: Callable[[str], str] = escape_markdown if is_markdown else str
    write_code: Callable[[str], str] = format_code_span if is_markdown else str
    lines += [""] if is_markdown else []
    bullet = "- " if is_markdown else "  "
    lines += [f"{bullet}over budget: {escape(figure.reason)}" for figure in over[:_MOST_GUILTY]]
    pairs_by_key = {pair.key: pair for pair in pairs}
    for row in failing[:_MOST_GUILTY]:
        guilty = find_guilty_line(pairs_by_key[row.pair_key], row.metric)
        if guilty is not None:
            more = format_metric(row.metric, guilty.bytes)
            what = f"{METRICS[row.metric].label} of {_name_candidate(row)}: {more} more at"
            where = f"{guilty.file}:{guilty.line}"
            lines.append(f"{bullet}{escape(f'{what} {where}')} {write_code(guilty.code)}".rstrip())
    return lines


def _name_candidate(row: ComparisonRow) -> str:
    return ", ".join([row.candidate, *(name_value(*field) for field in row.held.items())])


def make_comparison_table(rows: Sequence[ComparisonRow]) -> Table:
    """Return where each row stands in the grid, what it compares, and what came out."""
    places = dict.fromkeys(name for row in rows for name in row.held)
    baselines = {row.baseline for row in rows}
    is_alone = len(baselines) == 1  # then it heads a column, and needs none of its own

    def read_place(row: ComparisonRow, name: str) -> str:
        return row.held.get(name, "")

    column = Column[ComparisonRow]
    columns = [
        *(column(shorten_field(name), partial(read_place, name=name)) for name in places),
        column("cell", lambda row: row.candidate),
        *([] if is_alone else [column("against", lambda row: row.baseline)]),
        column("metric", lambda row: METRICS[row.metric].label if row.metric in METRICS else
                    row.metric),
        column("value", lambda row: _make_value(row, row.candidate_value), is_figure=True),
        column(baselines.pop() if is_alone else "baseline",
               lambda row: _make_value(row, row.baseline_value), is_figure=True),
        column("ratio", lambda row: TableCell(_format_ratio(row.ratio), value=row.ratio),
                    is_figure=True),
        column("95 % interval", _format_interval, is_figure=True),
        column("verdict", lambda row: row.explanation, wraps=True),
    ]  # fmt: skip
    return make_table(columns, rows, joined=len(places) + 2 - is_alone)


def list_effects(effects: Sequence[Effect], is_markdown: bool) -> list[str]:
    """Return the lines that say what each swept field does; none where there is no such field."""
    columns: list[Column[Effect]] = [
        Column("metric", lambda effect: METRICS[effect.metric].label),
        Column("field", lambda effect: shorten_field(effect.field)),
        Column("effect over all cells", describe_effect, wraps=True),
        Column("95 % interval", lambda effect: _format_interval(effect.average), is_figure=True),
        Column("pairs", lambda effect: str(len(effect.rows)), is_figure=True),
    ]
    draw = write_table if is_markdown else align_table
    return ["", *draw(make_table(columns, effects, joined=1))] if effects else []


def _make_value(row: ComparisonRow, value: float | str | None) -> TableCell:
    if isinstance(value, str):  # a status
        return TableCell(value.replace("_", " "))
    return TableCell("-") if value is None else make_value_cell(row.metric, value)


def _format_ratio(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if 0.1 <= value < 10 else f"{value:.3g}"


def _format_interval(row: ComparisonRow | None) -> str:
    """Return `1.80 to 1.91`; `exact` where it is a point."""
    if row is None or not row.interval:
        return ""
    low, high = row.interval
    return "exact" if low == high else f"{_format_ratio(low)} to {_format_ratio(high)}"


def _list_footnotes(result: Comparison) -> list[str]:
    """Return what the verdicts rest on, as far as there are such rows."""
    bounds: dict[str, dict[str, None]] = {}
    for row in result.rows:
        if row.same_within:
            bounds.setdefault(row.same_within, {})[METRICS[row.metric].label] = None
    same = "; ".join(
        f"{', '.join(labels)} {'only if equal' if bound == '0' else f'within {bound}'}"
        for bound, labels in bounds.items()
    )
    lines = [f"same: {same}"] if same else []
    lines += dict.fromkeys(f"code: {row.other_code}" for row in result.rows if row.other_code)
    if result.tested:
        many = f", together (Bonferroni over {result.tested} rows)" if result.tested > 1 else ""
        lines.append(f"intervals: 95 %{many}, over processes")
    more = [METRICS[row.metric] for row in result.rows if row.more_processes]
    if more:
        sources = dict.fromkeys(f"measure.{metric.source}_processes" for metric in more)
        lines.append(f"more processes: for both cells, by {', '.join(sources)}")
    counts = Counter(row.verdict for row in result.rows)
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return lines


def _make_peaks_table(peaks: PeakComparison) -> Table:
    """Return the groups that differ, the largest differences first, and the sum of all others."""
    large, rest = list(peaks.apart[:_MOST_GROUPS]), peaks.apart[_MOST_GROUPS:]
    alike = [group for group in peaks.groups if group not in peaks.apart]
    more = count_things(len(rest), "smaller difference")
    for groups, name in ((rest, more), (alike, f"{len(alike)} alike"), (peaks.groups, "all")):
        ours = sum(group.candidate_bytes for group in groups)
        theirs = sum(group.baseline_bytes for group in groups)
        if groups or name == "all":
            large.append(PeakGroup(name, "", "", 0, theirs, 0, ours, "", ""))

    def sign(value: int) -> str:
        return f"{'+' if value > 0 else '-' if value < 0 else ''}{format_bytes(abs(value))}"

    columns: list[Column[PeakGroup]] = [
        Column("op", lambda group: group.op or "-"),
        Column("shape", lambda group: group.shape),
        Column("dtype", lambda group: group.dtype),
        Column("count", lambda group: _make_count(group, group.candidate_count), is_figure=True),
        Column("bytes", lambda group: format_bytes(group.candidate_bytes), is_figure=True),
        Column("count", lambda group: _make_count(group, group.baseline_count), is_figure=True),
        Column("baseline", lambda group: format_bytes(group.baseline_bytes), is_figure=True),
        Column("difference", lambda group: sign(group.difference), is_figure=True),
        Column("most of it by", lambda group: group.line),
        Column("most of it in", lambda group: group.scope),
    ]
    return make_table(columns, large)


def _make_count(group: PeakGroup, count: int) -> TableCell | str:
    return make_count_cell(count) if group.shape else ""  # a sum has none
