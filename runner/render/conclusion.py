"""The sentences to take away from a sweep or a comparison: the terminal, the pages and the store
begin or end with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from runner.analysis.comparison import OUTCOME, Comparison, ComparisonRow
from runner.analysis.effects import Effect, find_effects, group_rows, has_more
from runner.analysis.selection import CellGrid, shorten_field
from runner.metrics import HEADLINES, METRICS, Metric, join_range
from runner.records import Record
from runner.render.words import count_things

_TWICE = 1.95
"""From this ratio on `2 times as much` is said, below it `90 % more`."""


def describe_sweep(records: Sequence[Record]) -> str:
    """Return what a sweep found, a sentence a metric: the effect of each swept field, the largest
    first. The records need their trials; it is empty where they are one cell."""
    grid = CellGrid(records)
    return " ".join(list_sentences(grid, find_effects(grid)))


def list_sentences(grid: CellGrid, effects: Sequence[Effect]) -> list[str]:
    """Return the sentences of cells whose effects are known."""
    sentences = _write_sentences(effects) or _describe_replicates(grid)
    ended = Counter(cell.outcome.words for cell in grid.cells if not cell.outcome.completed)
    cells = count_things(len(grid.cells), "cell")
    return [*sentences, *(f"{count} of {cells}: {words}." for words, count in ended.items())]


def conclude(comparison: Comparison) -> str:
    """Return what the rows of a comparison say, a sentence a metric."""
    ended = [row for row in comparison.rows if row.metric == OUTCOME]
    figures = [row for row in comparison.rows if row.metric != OUTCOME]
    sentences = _write_sentences(group_rows(figures))
    if ended:
        pairs = len({row.pair_key for row in comparison.rows})
        count = f"In {len(ended)} of {pairs} pairs a cell did not complete; " * (pairs > 1)
        sentences.append(f"{count}{ended[0].reason}.")
    return " ".join(sentences)


def _describe_replicates(grid: CellGrid) -> list[str]:
    """Return the headline figures of the one cell that there is, where it had several seeds."""
    if not grid.has_replicates or len(grid.records) > 1:
        return []
    (record,) = grid.records
    sentences = []
    for name in HEADLINES:
        value = record.metrics.get(name)
        if value is not None:
            low, high = record.intervals.get(name, (value, value))
            seeds = f"over {count_things(len(grid.cells), 'seed')}"
            sentences.append(f"{_name_metric(name)}: {_write_range(name, [low, high])} {seeds}.")
    return sentences


def choose_headlines(effects: Sequence[Effect]) -> list[str]:
    """Return the metrics that speak: peak memory and the steady step, or else the first of their
    kind, and what grows."""
    names = [name for name in METRICS if any(effect.metric == name for effect in effects)]
    sizes = [n for n in names if METRICS[n].is_memory and not METRICS[n].is_growth]
    times = [n for n in names if METRICS[n].is_time]
    chosen = [*sizes[:1], *(name for name in HEADLINES if name in times)] or times[:1]
    for effect in effects:
        if METRICS[effect.metric].is_growth and effect.has_figures:
            chosen.append(effect.metric)
    return [name for name in names if name in chosen] or names[:1]


def _write_sentences(effects: Sequence[Effect]) -> list[str]:
    return [
        f"{_name_metric(name)}: {_join_effects([e for e in effects if e.metric == name])}."
        for name in choose_headlines(effects)
    ]


def _join_effects(effects: Sequence[Effect]) -> str:
    """Return the effects of one metric: those that there are, those that are none, the unclear."""
    none = [effect for effect in effects if effect.is_none]
    unclear = [effect for effect in effects if effect.is_unclear]
    clauses = [
        describe_effect(effect)
        for effect in effects
        if not effect.field or not (effect.is_none or effect.is_unclear)
    ]
    for what, alike in (("no difference", none), ("unclear", unclear)):
        if fields := [shorten_field(effect.field) for effect in alike if effect.field]:
            clauses.append(f"{what} by {', '.join(fields)}")
    counts = [effect.more_processes for effect in unclear if effect.field]
    if counts and all(counts):
        most = max(count or 0 for count in counts)
        clauses[-1] += (
            f" ({count_things(most, 'more process', 'more processes')} a cell would tell)"
        )
    return "; ".join(clauses)


def describe_effect(effect: Effect) -> str:
    """Return `eager needs 12 to 16 times as much as graph with tape, as much with none`."""
    verb = _choose_verb(METRICS[effect.metric])
    subject, other = f"{effect.candidate} {verb} ", name_without_field(effect, effect.baseline)
    if effect.is_unclear:
        reason = effect.rows[0].explanation if len(effect.rows) == 1 else "unclear"
        return f"{effect.candidate} against {other}: {reason}"
    if effect.trend and effect.trend.ratio:
        ratios = [row.ratio for row in effect.rows if row.ratio]
        amount, than = _describe_ratios([effect.trend.ratio])
        cells = f"{_write_times(min(ratios))} to {_write_times(max(ratios))}" + " times" * (
            than == "than"
        )
        against = effect.less if has_more(effect.trend) else effect.more
        parts = [f"{amount} {than} {other} on average ({cells})"]
        parts += (
            [f"{_describe_ratios(_list_ratios(against))[0]}{_write_place(effect, against)}"]
            if against
            else []
        )
        return subject + ", ".join(parts)
    if effect.is_none:
        return f"{subject}as much as {other}"
    parts = []
    for rows in (effect.more, effect.less, effect.same):
        if rows:
            parts.append(_describe_rows(effect, rows, "" if parts else other))
    if effect.unsettled:
        parts.append(f"unclear{_write_place(effect, effect.unsettled)}")
    return subject + ", ".join(parts)


def _choose_verb(metric: Metric) -> str:
    if metric.is_memory and not metric.is_growth:
        return "needs"
    return "takes" if metric.is_time else "has"


def name_without_field(effect: Effect, name: str) -> str:
    """Return `32` for `batch 32`, where the field is said already."""
    return name.removeprefix(f"{shorten_field(effect.field)} ") if effect.field else name


def describe_size(effect: Effect) -> str:
    """Return `11.6 to 16.2×`, the ratios of all pairs or of their average; `same` or `unclear`."""
    if effect.is_none or effect.is_unclear:
        return "same" if effect.is_none else "unclear"
    rows = [effect.trend] if effect.trend else effect.rows
    ratios = [row.ratio for row in rows if row.ratio]
    return f"{join_range(*map(_write_times, (min(ratios), max(ratios))))}×" if ratios else ""


def _write_place(effect: Effect, rows: Sequence[ComparisonRow]) -> str:
    if len(rows) == len(effect.rows):
        return ""
    place = effect.find_place(rows)
    return f" with {place}" if place else f" in {len(rows)} of {len(effect.rows)}"


def _describe_rows(effect: Effect, rows: Sequence[ComparisonRow], other: str) -> str:
    """Return `12 to 16 times as much as graph with tape`; where no other is named, without it."""
    ratios = _list_ratios(rows)
    if rows is effect.same:
        words = "as much" + f" as {other}" * bool(other)
    elif len(ratios) < len(rows):  # of nothing there is no multiple
        theirs = _write_range(effect.metric, [row.baseline_value for row in rows])
        words = _write_range(effect.metric, [row.candidate_value for row in rows])
        words += f", {effect.baseline} {theirs}"
    else:
        amount, than = _describe_ratios(ratios)
        words = amount + f" {than} {other}" * bool(other)
    return words + _write_place(effect, rows)


def _list_ratios(rows: Sequence[ComparisonRow]) -> list[float]:
    return [row.ratio for row in rows if row.ratio]


def _describe_ratios(ratios: Sequence[float]) -> tuple[str, str]:
    """Return `12 to 16 times as much` and `as`, or `10 to 20 % more` and `than`."""
    low, high = min(ratios), max(ratios)
    if high >= _TWICE:
        return f"{join_range(_write_times(low), _write_times(high))} times as much", "as"
    shares = sorted((abs(low - 1), abs(high - 1)))
    words = join_range(*map(_write_share, shares))
    return f"{words} % {'more' if high > 1 else 'less'}", "than"


def _write_times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"


def _write_share(share: float) -> str:
    percent = f"{100 * share:.2g}"
    return percent if float(percent) < 100 else "99.9"


def _write_range(name: str, values: Sequence[float | str | None]) -> str:
    known = [value for value in values if isinstance(value, int | float)]
    return METRICS[name].format_range(min(known), max(known))


def _name_metric(name: str) -> str:
    metric = METRICS[name]
    noun = metric.noun or metric.label
    return noun[0].upper() + noun[1:]
