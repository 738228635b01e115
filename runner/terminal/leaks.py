"""What `leak` found, as a terminal shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from runner.judging.leak import Holder, Leak
from runner.metrics import readable_bytes
from runner.places import relative
from runner.terminal.console import readable_duration

_MOST_HOLDERS = 6


def of_leak(leaks: Mapping[str, Leak], folder: Path, seconds: float) -> str:
    """One answer after the other; `leaks` by the name of its cell, of a run the scenario's."""
    parts = ["\n".join(_one(name, leak)) for name, leak in leaks.items()]
    where = f"  records  {relative(folder)}   ({readable_duration(seconds)} in all)"
    return "\n\n".join([*parts, where])


def _one(name: str, leak: Leak) -> Iterator[str]:
    yield f"{name} {leak.sentence}"
    for note in leak.notes:
        yield f"  {note}"
    if leak.holders:
        yield from _holders(leak)
    tried = [each for each in leak.remedies if each.command]
    if tried:
        yield ""
        yield "  tried                                          grows by      "
    for each in tried:
        grows = _amount(each.growth_bytes_per_step)
        yield f"  {each.change:<46} {grows:<13} {each.verdict}"
        yield f"      {each.command}"
    written = [each for each in leak.remedies if not each.command]
    if written:
        yield ""
        yield "  to write"
    for each in written:
        yield f"  {each.change}"


def _holders(leak: Leak) -> Iterator[str]:
    yield ""
    yield "  a step       kind        times   where"
    for each in leak.holders[:_MOST_HOLDERS]:
        times = _times(each.count_per_step)
        yield f"  {_amount(each.bytes_per_step):<12} {each.kind:<11} {times:<7} {_where(each)}"
        yield from (f"{'':35}{line}" for line in _more(each))
    if len(leak.holders) > _MOST_HOLDERS:
        rest = sum(each.bytes_per_step for each in leak.holders[_MOST_HOLDERS:])
        yield f"  {_amount(rest):<12} {len(leak.holders) - _MOST_HOLDERS} more (--json has them)"
    measured, left = leak.host_growth_bytes_per_step, leak.unexplained_bytes_per_step
    if measured is not None and left is not None:
        share = f" ({abs(left) / measured:.0%})" if measured else ""
        yield (
            f"  {_amount(leak.explained_bytes_per_step)} in all; resident memory grows "
            f"{_amount(measured)} a step: {_amount(abs(left))}{share} "
            f"{'is not explained' if left >= 0 else 'more was taken than has become resident'}"
        )


def _times(count: float | None) -> str:
    if count is None:
        return ""
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}"


def _where(holder: Holder) -> str:
    return f"{holder.where}   {holder.code}" if holder.code else holder.where


def _more(holder: Holder) -> Iterator[str]:
    yield holder.what
    if holder.chain:
        yield f"held by {' > '.join(holder.chain)}"


def _amount(value: float | None) -> str:
    return "unknown" if value is None else readable_bytes(value)
