"""Figures and counts in the words that every view has for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from runner.analysis.estimate import find_growth_bound, list_samples
from runner.metrics import METRICS, format_metric, is_telling, join_range
from runner.records import Record, Trial

_KINDS = ("memory", "timing", "host")


def format_exactly(name: str, value: float) -> str:
    """Return a metric's value with every digit that it has."""
    unit = METRICS[name].unit
    if unit in ("bytes", "bytes/step"):
        return f"{value:,.15g} {unit.replace('bytes', 'byte') if value == 1 else unit}"
    if unit in ("seconds", "per second"):
        return f"{value:.9g}{' s' if unit == 'seconds' else '/s'}"
    return f"{value:,.15g}"


def format_exact_bytes(value: float) -> str:
    return count_things(round(value), "byte")


def format_share(share: float) -> str:
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.9995 else f"{100 * share:.0f} %"


def format_times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def find_range(record: Record, name: str) -> tuple[float, float] | None:
    """Return the lowest and the highest that processes had of a figure of memory trials."""
    return None if METRICS[name].source == "timing" else record.intervals.get(name)


def format_figure(record: Record, name: str) -> str:
    """Return a figure as a person reads it; the range, where processes differ."""
    value = record.metrics[name]
    if value is None or (seen := find_range(record, name)) is None:
        return format_metric(name, value)
    return METRICS[name].format_range(*seen)


def describe_interval(record: Record, name: str) -> str:
    """Return the 95 % interval, `1.2 ms to 1.4 ms`; nothing where there is none, both ends read the
    same, or a time's are so far apart that they say nothing."""
    low, high = record.intervals.get(name, (0, 0))
    if find_range(record, name):
        return ""
    if METRICS[name].is_time and not is_telling(low, high):
        return ""
    text = join_range(format_metric(name, low), format_metric(name, high))
    return text if " to " in text else ""


def describe_time(record: Record, name: str) -> str:
    """Return `95 %: 1.2 ms to 1.4 ms` of a time; where that says nothing, what was seen."""
    if words := describe_interval(record, name):
        return f"95 %: {words}"
    seconds = list_samples(record.trials, name, record.spec)
    if not seconds or is_telling(*record.intervals.get(name, (0, 0))):
        return ""
    seen = join_range(*(format_metric(name, end(seconds)) for end in (min, max)))
    return f"unsure: {seen} in {count_things(len(seconds), 'process', 'processes')}"


def describe_bound(record: Record, name: str) -> str:
    """Return what a growth of 0 would have to be to show; nothing where that is not known."""
    bound = None if record.metrics[name] else find_growth_bound(record.trials, name)
    return f"more than {format_metric(name, bound)} would show" if bound else ""


def format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def count_things(number: int, one: str, many: str = "") -> str:
    """Return `1 cell` or `3 cells`; `many` is the plural where it is more than an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def count_trials(trials: Sequence[Trial], one: str = "trial", many: str = "trials") -> str:
    """Return `1 memory and 3 timing trials`."""
    counts = Counter(trial.kind for trial in trials)
    *first, last = [f"{counts[kind]} {kind}" for kind in _KINDS if counts[kind]] or ["no"]
    kinds = f"{', '.join(first)} and {last}" if first else last
    return f"{kinds} {one if len(trials) == 1 else many}"


def join_first(words: Iterable[str], most: int, rest: str) -> str:
    """Return `a, b and 3 more`: so many of the words, and how many are left."""
    words = list(words)
    shown = ", ".join(words[:most])
    return f"{shown} and {len(words) - most} {rest}" if len(words) > most else shown
