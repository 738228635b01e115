"""`compare`: two cells side by side, a row a metric; the last line says what to take away."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.errors import BadInput, nearest
from runner.metrics import METRICS, Metric, bytes_of
from runner.verbs import Parser

if TYPE_CHECKING:
    from runner.judging.budget import Over
    from runner.judging.comparison import Row

FOUND_WORSE = 3
_FAILING = ("worse", "unclear")
_PEAK = "tensor_peak_bytes"

_EPILOG = """\
examples:
  python -m runner compare outputs/sweeps/2026-01-31/12-00-00
      between the values of the field that was swept first
  python -m runner compare SWEEP --by batch_size --baseline 32 --metric step_seconds
  python -m runner compare YESTERDAY TODAY --fail-on worse
      the same cells in two sweeps or runs, the first the baseline
  python -m runner compare RUN OTHER_RUN --allocations
      and what the one holds at its peak that the other doesn't

A verdict is better, worse, same, unclear (and how many more processes would settle it) or not
comparable (and which part of the environment differs). Exit code 3: --fail-on or --budget found
what it was asked to fail on.
"""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    # Imported late, so that --help and a mistyped option are answered at once.
    from runner.judging import comparison, peaks, selection, sentence
    from runner.judging.budget import over_budget
    from runner.judging.tolerance import Tolerance
    from runner.running import folders
    from runner.terminal import comparisons

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
    held = [peaks.of(pair) for pair in selected.pairs] if options.allocations else []
    over = over_budget(options.budgets, selected.pairs)
    failing = [row for row in result.rows if _fails(row, options.fail_on)]
    if options.json:
        rows = [{**row.to_json(), "fails": row in failing} for row in result.rows]
        found = {id(pair): peak for pair, peak in zip(selected.pairs, held, strict=False)}
        for row, told in zip(result.rows, rows, strict=True):
            if row.metric == _PEAK and (peak := found.get(id(row.pair))):
                told["allocations"] = (
                    {"unavailable": peak} if isinstance(peak, str) else peak.to_json()
                )
        rows += [one.to_json() for one in over]
        print(json.dumps(rows, indent=1, allow_nan=False))
    else:
        print("\n".join(comparisons.lines(result, selected.pairs, held, options.markdown)))
    for note in selected.notes:
        print(note, file=sys.stderr)
    if not options.json:
        sys.stderr.flush()
        print(f"\n{sentence.sentence(result)}")
        if options.fail_on or options.budgets:
            print(f"\n{_gate(failing, over, options.markdown)}")
    for one in over:
        print(f"over budget: {one.words}", file=sys.stderr)
    return FOUND_WORSE if failing or over else 0


def _fails(row: Row, fail_on: str | None) -> bool:
    return fail_on is not None and row.verdict in ("worse", fail_on)


def _gate(failing: Sequence[Row], over: Sequence[Over], markdown: bool) -> str:
    """What the exit code says, for whoever reads the comment and not the code."""
    counts = {verdict: sum(row.verdict == verdict for row in failing) for verdict in _FAILING}
    why = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    why += [f"over budget: {one.words}" for one in over]
    result = f"gate: {'failed' if why else 'passed'}"
    return (f"**{result}**" if markdown else result) + (f" ({'; '.join(why)})" if why else "")


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
        "MB, GB, KiB, MiB; of a peak that varies the highest counts; an unknown figure is over "
        "budget",
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
        raise BadInput(
            f"--budget {name}: a budget is an upper limit, and more of this is better.",
            "Name a metric that should be small, such as tensor_peak_bytes.",
        )
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
