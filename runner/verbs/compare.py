"""`compare`: two cells side by side, a row a metric; the last line says what to take away."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.errors import BadInput, nearest
from runner.metrics import METRICS, Metric, bytes_of, readable, readable_bytes
from runner.verbs import Parser

if TYPE_CHECKING:
    from runner.judging.comparison import Comparison, Peaks, Row
    from runner.judging.selection import Pair

FOUND_WORSE = 3
_FAILING = ("worse", "unclear")
_PEAK = "tensor_peak_bytes"
_MOST_GROUPS = 12

_EPILOG = """\
examples:
  python -m runner compare outputs/sweeps/2026-01-31/12-00-00
      between the values of the field that was swept first
  python -m runner compare SWEEP --by batch_size --baseline 32 --metric step_seconds
  python -m runner compare YESTERDAY TODAY --fail-on worse
      the same cells in two sweeps or runs, the first the baseline
  python -m runner compare RUN OTHER_RUN --allocations
      and what the one holds at its peak that the other doesn't

A verdict is better, worse, same, unclear (and how many processes more would settle it) or not
comparable (and which part of the environment differs). Exit code 3: --fail-on or --budget found
what it was asked to fail on.
"""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    # Imported late, so that --help and a mistyped option are answered at once.
    from runner.judging import comparison, selection
    from runner.judging.tolerance import Tolerance
    from runner.running import folders

    options.paths = [str(folders.named(path)) for path in options.paths]
    groups = _read(options.paths)
    if len(groups) == 1 or options.by is not None:
        everything = [record for group in groups.values() for record in group]
        selected = selection.by_field(everything, options.by, options.baseline)
    else:
        baseline = options.baseline and _names(options.paths).get(options.baseline)
        selected = selection.by_path(groups, baseline or options.baseline)
    metrics = options.metrics
    if options.allocations and metrics and _PEAK not in metrics:
        metrics = [_PEAK, *metrics]
    allowed = Tolerance(*options.tolerance) if options.tolerance else None
    result = comparison.compare(selected.pairs, metrics, options.threshold, allowed)
    peaks = [comparison.peaks(pair) for pair in selected.pairs] if options.allocations else []
    over = _over_budget(options.budgets, selected.pairs)
    failing = [row for row in result.rows if _fails(row, options.fail_on)]
    if options.json:
        rows = plain(result, selected.pairs, peaks)
        for row, each in zip(result.rows, rows, strict=True):
            each["fails"] = row in failing
        rows += [one.to_json() for one in over]
        print(json.dumps(rows, indent=1, allow_nan=False))
    else:
        for line in lines(result, selected.pairs, peaks, options.markdown):
            print(line)
    for note in selected.notes:
        print(note, file=sys.stderr)
    if not options.json:
        sys.stderr.flush()
        print(f"\n{comparison.sentence(result)}")
        if options.fail_on or options.budgets:
            print(f"\n{_gate(failing, over, options.markdown)}")
    for one in over:
        print(f"over budget: {one.words}", file=sys.stderr)
    return FOUND_WORSE if failing or over else 0


def _fails(row: Row, fail_on: str | None) -> bool:
    return fail_on is not None and row.verdict in ("worse", fail_on)


def _gate(failing: Sequence[Row], over: Sequence[_Over], markdown: bool) -> str:
    """What the exit code says, for whoever reads the comment and not the code."""
    counts = {verdict: sum(row.verdict == verdict for row in failing) for verdict in _FAILING}
    why = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    why += [f"over budget: {one.words}" for one in over]
    result = f"gate: {'failed' if why else 'passed'}"
    return (f"**{result}**" if markdown else result) + (f" ({'; '.join(why)})" if why else "")


@dataclass(frozen=True)
class _Over:
    """A figure of a candidate that is more than was allowed, or can't be told to be within."""

    pair: Pair
    metric: str
    most: float
    highest: float | None
    words: str

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "baseline": None,
            "candidate": self.pair.candidate_name,
            "held": self.pair.held,
            "candidate_value": self.highest,
            "budget": self.most,
            "verdict": "over budget",
            "reason": self.words,
            "candidate_id": self.pair.candidate.id,
            "fails": True,
        }


def _over_budget(budgets: Sequence[tuple[str, float]], pairs: Sequence[Pair]) -> list[_Over]:
    """What of the candidates is more than was allowed; the highest that was seen counts, and what
    is not known can't be told to be within."""
    found = []
    for pair in pairs:
        place = "".join(f" {name}={value}" for name, value in pair.held.items())
        for name, most in budgets:
            value = pair.candidate.metrics.get(name)
            high = None
            if value is None:
                why = pair.candidate.unavailable.get(name, "does not apply")
                said = f"can't be told ({why})"
            else:
                high = max(value, pair.candidate.intervals.get(name, (value, value))[1])
                if high <= most:
                    continue
                said = f"{readable(name, high)}, above {readable(name, most)}"
            words = f"{pair.candidate_name}{place}: {name} {said}"
            found.append(_Over(pair, name, most, high, words))
    return found


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        "compare",
        description="Ratios with 95 % intervals and a verdict a row: between the values of a field "
        "in one sweep, or between two sweeps or runs.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a sweep's folder, or a run's, or latest"
    )
    parser.add_argument(
        "--by",
        metavar="FIELD",
        help="compare between its values: scenario, batch_size, scenario.iterations, device, ...; "
        "by default the field that was swept first",
    )
    parser.add_argument(
        "--baseline",
        metavar="VALUE",
        help="the value, or the path, to compare with; by default the first",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        dest="metrics",
        action="append",
        help="compare this one (repeatable), or 'all'; by default tensor peak and growth, host "
        "peak, step time",
    )
    parser.add_argument(
        "--threshold",
        metavar="SHARE",
        type=_share,
        default=0.05,
        help="differences in time and host memory up to this are noise; 5%% by default",
    )
    parser.add_argument(
        "--tolerance",
        metavar="AMOUNT",
        type=_tolerance,
        help="differences in tensor memory up to this are the same: 1%% or 64kB; by default 256 B "
        "or 0.5%%, whichever is more; growth keeps its own bound, 0",
    )
    parser.add_argument(
        "--fail-on",
        choices=_FAILING,
        help="exit with 3 if any row is worse; with 'unclear', also if any can't be told",
    )
    parser.add_argument(
        "--budget",
        metavar="METRIC=AMOUNT",
        type=_budget,
        dest="budgets",
        action="append",
        default=[],
        help="exit with 3 if a candidate takes more (repeatable): tensor_peak_bytes=120MB, in kB, "
        "MB, GB, KiB, MiB; of a peak that varies the highest that was seen counts, and what is not "
        "known is over it",
    )
    parser.add_argument(
        "--allocations",
        action="store_true",
        help="also what the one holds at its peak that the other doesn't",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of rows, machine-readable")
    form.add_argument("--markdown", action="store_true", help="tables for a pull request")
    options = parser.parse_intermixed_args(arguments)
    options.metrics = _metrics(options.metrics)
    return options


def _share(text: str) -> float:
    try:
        share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 5% or 0.05")
    return share


_UNITS = {"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
          "s": 1, "ms": 1e-3, "us": 1e-6}  # fmt: skip


def _budget(text: str) -> tuple[str, float]:
    name, _, amount = text.partition("=")
    if name not in METRICS:
        raise BadInput(f"--budget {name}: there is no such metric.", nearest(name, METRICS))
    metric = METRICS[name]
    if not metric.smaller_is_better:
        raise BadInput(f"--budget {name}: more of it is not worse.", "Name one that is.")
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", amount)
    if not found or found[2] not in _UNITS or not _suits(found[2], metric):
        raise BadInput(
            f"--budget {text}: {amount!r} is not a valid amount.",
            f"Write --budget {name}=120MB, in kB, MB, GB, KiB, MiB; seconds in s, ms, us.",
        )
    return name, float(found[1]) * _UNITS[found[2]]


def _suits(unit: str, metric: Metric) -> bool:
    return not unit or unit.endswith("s") == metric.is_time


def _tolerance(text: str) -> tuple[float, float]:
    """Bytes, and a share."""
    if text.endswith("%"):
        return 0.0, _share(text)
    amount = bytes_of(text)
    if amount is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid amount; write 1% or 64kB")
    return amount, 0.0


def _metrics(names: list[str] | None) -> list[str] | None:
    if not names:
        return None
    if "all" in names:
        return list(METRICS)
    for name in names:
        if name not in METRICS:
            raise BadInput(f"--metric {name}: there is no such metric.", nearest(name, METRICS))
    return list(dict.fromkeys(names))


def _read(paths: Sequence[str]) -> dict[str, Any]:
    """The records of each path, under its name."""
    from runner import records

    for path in paths:
        if not Path(path).exists():
            raise BadInput(
                f"{path}: there is no such folder.",
                "Name the folder of a run or a sweep; options are --by, --baseline, --metric.",
            )
    names = _names(paths)
    if len(set(names.values())) < len(paths):
        raise BadInput("a folder is named twice.", "Name two different ones, or one and --by.")
    return {
        name: [records.read(folder) for folder in records.find(Path(path))]
        for path, name in names.items()
    }


def _names(paths: Sequence[str]) -> dict[str, str]:
    """As few of each path's last parts as tell them all apart."""
    parts = {path: Path(path).resolve().parts for path in paths}
    length = 1
    while length < max(map(len, parts.values())):
        if len({each[-length:] for each in parts.values()}) == len(parts):
            break
        length += 1
    return {path: "/".join(each[-length:]) for path, each in parts.items()}


# For programs.


def plain(result: Comparison, pairs: Sequence[Pair], peaks: Sequence[Peaks | str]) -> list[Any]:
    found = {id(pair): peak for pair, peak in zip(pairs, peaks, strict=False)}
    rows = []
    for row in result.rows:
        told = {
            "metric": row.metric,
            "baseline": row.pair.baseline_name,
            "candidate": row.pair.candidate_name,
            "held": row.pair.held,
            "baseline_value": _value(row, row.baseline, row.pair.baseline.outcome.status),
            "candidate_value": _value(row, row.candidate, row.pair.candidate.outcome.status),
            "ratio": row.ratio,
            "interval": row.interval,
            "verdict": row.verdict,
            "reason": row.reason,
            "more_processes": row.more_processes,
            "same_within": row.same_within,
            "baseline_id": row.pair.baseline.id,
            "candidate_id": row.pair.candidate.id,
            "other_code": row.pair.other_code,
        }
        if row.metric == _PEAK and id(row.pair) in found:
            told["allocations"] = _plain_peaks(found[id(row.pair)])
        rows.append(told)
    return rows


def _value(row: Row, value: float | None, status: str) -> float | str | None:
    """A row of outcomes has a status in the place of a figure."""
    return value if row.metric in METRICS else str(status)


def _plain_peaks(peaks: Peaks | str) -> dict[str, Any]:
    if isinstance(peaks, str):
        return {"unavailable": peaks}
    return {
        "baseline_bytes": peaks.baseline_bytes,
        "candidate_bytes": peaks.candidate_bytes,
        "groups": [vars(group) | {"difference": group.difference} for group in peaks.groups],
    }


# For people.


def lines(
    result: Comparison, pairs: Sequence[Pair], peaks: Sequence[Peaks | str], markdown: bool
) -> list[str]:
    drawn = _markdown if markdown else _aligned
    lines = [*drawn(_table(result.rows)), "", *_footnotes(result)]
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
    from runner.judging.selection import short

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
        statuses = (row.pair.candidate.outcome.status, row.pair.baseline.outcome.status)
        words = [status.replace("_", " ") for status in statuses]
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
    counts = {str(row.verdict): 0 for row in result.rows}
    for row in result.rows:
        counts[row.verdict] += 1
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


def _aligned(table: Table) -> list[str]:
    """Plain text: words to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.lines, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if number in table.figures else text.ljust(width)
            for number, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [table.head, *table.lines]
    ]


def _markdown(table: Table) -> list[str]:
    rule = ["--:" if number in table.figures else ":--" for number in range(len(table.head))]
    escaped = [[text.replace("|", "\\|") for text in line] for line in table.lines]
    return [f"| {' | '.join(line)} |" for line in (table.head, rule, *escaped)]
