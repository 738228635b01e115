"""`compare`: two cells side by side, a row a metric; the last line says what to take away."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.commands import Parser
from runner.errors import BadInput, suggest
from runner.metrics import COMPARED, METRICS, TENSOR_PEAK, parse_bytes

FOUND_WORSE = 3
_FAILING = ("worse", "unclear")

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


def run(options: argparse.Namespace) -> int:
    """Print the comparison; return 3 if it holds what it was asked to fail on."""
    # Imported late, so that --help and a mistyped option are answered at once.
    import msgspec

    from runner.analysis import comparison, selection
    from runner.analysis.budget import list_over_budget
    from runner.analysis.effects import find_effects
    from runner.analysis.peak_comparison import compare_peaks
    from runner.analysis.tolerance import Tolerance
    from runner.engine import folders
    from runner.render.comparison import list_comparison, list_effects, list_gate
    from runner.render.conclusion import conclude, list_sentences

    metrics = _choose_metrics(options.metrics)
    options.paths = [str(folders.find_folder(path)) for path in options.paths]
    groups = _read_records(options.paths)
    if len(groups) == 1 or options.by is not None:
        everything = [record for group in groups.values() for record in group]
        selected = selection.pair_by_field(everything, options.by, options.baseline)
    else:
        baseline = options.baseline and _name_paths(options.paths).get(options.baseline)
        selected = selection.pair_by_path(groups, baseline or options.baseline)
    if options.allocations and metrics and TENSOR_PEAK not in metrics:
        metrics = [TENSOR_PEAK, *metrics]
    allowed = Tolerance(*options.tolerance) if options.tolerance else None
    result = comparison.compare(selected.pairs, metrics, options.threshold, allowed)
    held = [compare_peaks(pair) for pair in selected.pairs] if options.allocations else []
    over = list_over_budget(options.budgets, selected.pairs)
    fail_on = options.fail_on and {"worse", options.fail_on}
    failing = [row for row in result.rows if fail_on and row.verdict in fail_on]
    if options.json:
        pairs = {pair.key: pair for pair in selected.pairs}
        rows = [msgspec.to_builtins(row) for row in result.rows]
        peaks = {pair.key: peak for pair, peak in zip(selected.pairs, held, strict=False)}
        for row, printed in zip(result.rows, rows, strict=True):
            printed |= {"held": pairs[row.pair_key].held_values, "fails": row in failing}
            if row.metric == TENSOR_PEAK and (peak := peaks.get(row.pair_key)):
                printed["allocations"] = (
                    {"unavailable": peak} if isinstance(peak, str) else msgspec.to_builtins(peak)
                )
        print(json.dumps([*rows, *msgspec.to_builtins(over)], indent=1, allow_nan=False))
    else:
        print("\n".join(list_comparison(result, selected.pairs, held, options.markdown)))
    for note in selected.notes:
        print(note, file=sys.stderr)
    if not options.json:
        sys.stderr.flush()
        if len(groups) == 1 and options.by is None:
            grid = selection.CellGrid(everything)
            effects = find_effects(grid, metrics, options.threshold, allowed)
            print("\n".join(list_effects(effects, options.markdown)))
            print("\n" + "\n".join(list_sentences(grid, effects)))
        else:
            print(f"\n{conclude(result)}")
        if options.fail_on or options.budgets:
            print()
            print("\n".join(list_gate(failing, over, selected.pairs, options.markdown)))
    else:
        for figure in over:
            print(f"over budget: {figure.reason}", file=sys.stderr)
    return FOUND_WORSE if failing or over else 0


def make_parser() -> Parser:
    parser = Parser(
        "compare",
        "Ratios with 95 % intervals and a verdict a row: between the values of a field "
        "in one sweep, or between two sweeps or runs.",
        _EPILOG,
        offers=["latest"],
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
        help="compare this one (repeatable), or 'all'; by default "
        + ", ".join(METRICS[name].heading for name in COMPARED),
    )
    parser.add_argument(
        "--threshold",
        metavar="SHARE",
        type=_parse_share,
        default=0.05,
        help="differences in time and host memory up to this are noise; 5%% by default",
    )
    parser.add_argument(
        "--tolerance",
        metavar="AMOUNT",
        type=_parse_tolerance,
        help="differences in tensor memory up to this are the same: 1%% or 64kB; by default 256 B "
        "or 0.5%%, whichever is more; growth keeps its own bound, 0",
    )
    parser.add_argument(
        "--fail-on",
        choices=_FAILING,
        help="exit with 3 if any row is worse; with 'unclear', also if any is unclear",
    )
    parser.add_argument(
        "--budget",
        metavar="METRIC=AMOUNT",
        type=_parse_budget,
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
    parser.flag_offers = {
        "--metric": ["all", *METRICS],
        "--budget": [f"{name}=" for name in METRICS if METRICS[name].smaller_is_better],
    }
    return parser


def _parse_share(text: str) -> float:
    try:
        share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 5% or 0.05")
    return share


def _parse_budget(text: str) -> tuple[str, float]:
    from runner.analysis.budget import read_budget

    name, _, amount = text.partition("=")
    return read_budget(name, amount)


def _parse_tolerance(text: str) -> tuple[float, float]:
    """Return bytes, and a share."""
    if text.endswith("%"):
        return 0.0, _parse_share(text)
    amount = parse_bytes(text)
    if amount is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid amount; write 1% or 64kB")
    return amount, 0.0


def _choose_metrics(names: list[str] | None) -> list[str] | None:
    if not names:
        return None
    if "all" in names:
        return list(METRICS)
    for name in names:
        if name not in METRICS:
            raise BadInput(f"--metric {name}: there is no such metric.", suggest(name, METRICS))
    return list(dict.fromkeys(names))


def _read_records(paths: Sequence[str]) -> dict[str, Any]:
    from runner import records

    for path in paths:
        if not Path(path).exists():
            raise BadInput(
                f"{path}: there is no such folder.",
                "Name the folder of a run or a sweep; options are --by, --baseline, --metric.",
            )
    names = _name_paths(paths)
    if len(set(names.values())) < len(paths):
        raise BadInput("a folder is named twice.", "Name two different ones, or one and --by.")
    cells = {}
    for path, name in names.items():
        readable, unreadable = records.read_each(records.find(Path(path)))
        cells[name] = [record for _, record in readable]
        for problem in unreadable:
            print(f"runner: {problem.sentence}", file=sys.stderr)
    return cells


def _name_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return as few of each path's last parts as tell them all apart."""
    parts = {path: Path(path).resolve().parts for path in paths}
    length = 1
    while length < max(map(len, parts.values())):
        if len({path_parts[-length:] for path_parts in parts.values()}) == len(parts):
            break
        length += 1
    return {path: "/".join(path_parts[-length:]) for path, path_parts in parts.items()}
