"""The findings of `leak`, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from runner.leak.findings import Leak
from runner.metrics import format_bytes
from runner.paths import shorten
from runner.render.html import REPORT_FILE
from runner.render.text.table import align_columns
from runner.render.words import format_duration

_MOST_HOLDERS = 6


def list_leaks(leaks: Mapping[str, Leak], folder: Path, seconds: float) -> str:
    """Return one answer after the other, by the name of the cell, of a run the scenario's."""
    parts = ["\n".join(_list_leak(name, leak)) for name, leak in leaks.items()]
    where = f"  records  {shorten(folder)}   ({format_duration(seconds)} in all)"
    report = f"  report   {shorten(folder / REPORT_FILE)}\n" if leaks else ""
    return "\n\n".join([*parts, f"{report}{where}"])


def _list_leak(name: str, leak: Leak) -> Iterator[str]:
    yield f"{name} {leak.sentence}"
    if leak.seen:
        yield f"  seen in {leak.seen} steps"
    yield from (f"  {note}" for note in leak.notes)
    if leak.holders:
        yield from _list_holders(leak)
    if tried := [remedy for remedy in leak.remedies if remedy.command]:
        yield from ("", f"  {'tried':<46} grows by")
        for remedy in tried:
            grows = _format_size(remedy.growth_bytes_per_step)
            yield f"  {remedy.change:<46} {grows:<13} {remedy.verdict}"
            yield f"      {remedy.command}"
    if written := [remedy for remedy in leak.remedies if not remedy.command]:
        yield from ("", "  to write", *(f"  {remedy.change}" for remedy in written))


def _list_holders(leak: Leak) -> Iterator[str]:
    rows = [["a step", "kind", "times", "where"]]
    for holder in leak.holders[:_MOST_HOLDERS]:
        count = holder.count_per_step
        times = "" if count is None else f"{count:,.0f}" if count >= 100 else f"{count:.3g}"
        place = f"{holder.where}   {holder.code}" if holder.code else holder.where
        how = "held by" if holder.is_held else "reached by"
        chain = f"{how} {' > '.join(holder.chain)}" if holder.chain else ""
        where = "\n".join(filter(None, (place, holder.what, holder.how_often, chain)))
        rows.append([_format_size(holder.bytes_per_step), holder.kind, times, where])
    yield ""
    yield from (f"  {line}" for line in align_columns(rows, widths=[11, 10, 6]))
    if rest := leak.holders[_MOST_HOLDERS:]:
        size = _format_size(sum(holder.bytes_per_step for holder in rest))
        yield f"  {size:<12} {len(rest)} more (--json has them)"
    measured, left = leak.host_growth_bytes_per_step, leak.unexplained_bytes_per_step
    if measured is not None and left is not None:
        in_all = f"{_format_size(leak.explained_bytes_per_step)} in all; resident memory grows"
        bound = leak.host_bound_bytes_per_step or 0
        if not measured and -left < bound:
            yield f"  {in_all} 0 B a step: more than {_format_size(bound)} would show"
            return
        share = f" ({abs(left) / measured:.0%})" if measured else ""
        yield (
            f"  {in_all} {_format_size(measured)} a step: {_format_size(abs(left))}{share} "
            f"{'is not explained' if left >= 0 else 'more was taken than has become resident'}"
        )


def _format_size(size: float | None) -> str:
    return "unknown" if size is None else format_bytes(size)
