"""The result of a sweep: one table, then where everything is and what to type next.

The table has its best cells first: the smallest tensor peak, and of equal ones the fastest; what
did not complete comes last, with its reason. Piped, it holds no control codes.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.analysis import selection
from runner.analysis.objective import Objective
from runner.analysis.replicates import group_replicates, pool_replicates
from runner.cell import Plan
from runner.engine.events import Result
from runner.metrics import (
    EXAMPLES_PER_SECOND,
    HEADLINES,
    METRICS,
    TENSOR_PEAK,
    Rank,
    format_metric,
    list_shown,
)
from runner.paths import shorten
from runner.records import LOG_FILE, Cells, Record
from runner.render.files import table
from runner.render.text.run_summary import warn_of_load
from runner.render.text.table import align_columns
from runner.render.words import count_things, format_duration, format_figure

MOST_ROWS = 40
"""More cells that completed are not listed: the table is a file to open."""

MOST_SEEDS = 4
"""More seeds of a row are counted, not listed."""

MOST_REASONS = 5
"""So many reasons that are too long for the table are printed whole below it."""

_LONGEST_REASON = 120


def summarize_sweep(
    plan: Plan, result: Result, cells: Cells, seconds: float, report: Path | None
) -> str:
    """Return the table, then where everything is and what to type next."""
    search = plan.search
    objective = Objective(search.metrics, search.limits) if search else None
    readable, unreadable = cells
    every = [record for _, record in readable]
    completed = [cell for cell in every if cell.outcome.completed]
    seeds = {group[0].cell: group for group in group_replicates(completed)}
    rows = [pool_replicates(group) for group in seeds.values()]
    front = objective.find_front(rows) if objective else []

    def order(record: Record) -> list[float]:
        values = (record.metrics.get(name) for name in HEADLINES)
        is_apart = not any(record is other for other in front)
        return [is_apart, *(math.inf if value is None else value for value in values)]

    best = sorted(rows, key=order)
    failed = [(folder.name, cell) for folder, cell in readable if not cell.outcome.completed]
    ended = [cell for _, cell in failed]
    lines = ["", *_list_cells(plan, best, seeds, ended, objective, front), ""]
    if busy := next(filter(None, map(warn_of_load, every)), ""):
        lines.append(f"times are unsure: {busy} when it began")
    if "batch_size" in plan.swept and best and not any(map(_counts_examples, best)):
        lines.append("batch_size was swept, and no cell read it")
    count = f"{len(completed)} of {count_things(len(every), 'cell')} completed"
    launcher = plan.cluster.launcher if plan.cluster else None
    apart = f" under {launcher}: not in rounds, so times are less sure to be comparable"
    lines.append(f"{count} in {format_duration(seconds)}{apart if launcher else ''}")
    if objective:
        lines.append(_describe_front(objective, front, every))
    lines += [problem.sentence for problem in unreadable]
    folder = shorten(result.folder)
    lines.append(f"  table    {folder}/{table.CSV_FILE}, {table.PARQUET_FILE}")
    if report:
        lines.append(f"  report   {shorten(report)}")
    if failed:
        lines.append(f"  log      {folder}/{failed[0][0] if len(failed) == 1 else 'N'}/{LOG_FILE}")
    if result.stopped:
        lines.append(f"  go on    the same command with resume={shlex.quote(folder)}")
    elif len(completed) > 1 and plan.swept:
        lines.append(f"  compare  python -m runner compare {shlex.quote(folder)}")
    return "\n".join(lines)


def _counts_examples(record: Record) -> bool:
    return EXAMPLES_PER_SECOND in record.metrics


def _describe_front(objective: Objective, front: Sequence[Record], cells: Sequence[Record]) -> str:
    """Return which cells a search was for, or why there is none."""
    if not front:
        why = next(filter(None, map(objective.explain_exclusion, cells)), "none was run")
        return f"no cell has the {objective.words}: {why}"
    if len(objective.metrics) == 1:
        return f"* {objective.words}"
    cells_on_it = count_things(len(front), "cell")
    return f"* the front, {cells_on_it} that no other cell beats: {objective.words}"


def _list_cells(
    plan: Plan,
    best: Sequence[Record],
    seeds: Mapping[str, Sequence[Record]],
    failed: Sequence[Record],
    objective: Objective | None,
    front: Sequence[Record],
) -> list[str]:
    """List cells that have figures, those that differ in the seed alone as one with their range;
    then those that have none, each with its reason, then the reasons that are too long for that,
    each once. Those on the front of a search are marked."""

    def read_field(record: Record, name: str) -> str:
        group = seeds.get(record.cell, ())
        if name == "seed" and len(group) > 1:
            words = [str(cell.spec.seed) for cell in group]
            return ", ".join(words) if len(words) <= MOST_SEEDS else f"{len(words)} seeds"
        swept = record.sweep.swept if record.sweep else {}
        return selection.list_words(record).get(name) or swept.get(name) or ""

    def read_names(record: Record) -> list[str]:
        mark = ["*" * any(record is other for other in front)] if objective else []
        return [*mark, *(read_field(record, name) for name in fields)]

    def read_figure(record: Record, name: str) -> str:
        value = record.metrics.get(name)
        if value == 0 and METRICS[name].is_growth:
            return "none"
        if name in HEADLINES and len(seeds.get(record.cell, ())) > 1 and name in record.intervals:
            return METRICS[name].format_range(*record.intervals[name])
        return format_figure(record, name) if name in record.metrics else format_metric(name, None)

    def cut_reason(record: Record) -> str:
        reason = "" if record.outcome.completed else record.outcome.brief
        is_long = len(reason) > _LONGEST_REASON
        return f"{reason[: _LONGEST_REASON - 3]}..." if is_long else reason

    # What was swept; and the execution, where scenarios that were swept bring their own.
    fields = list(plan.swept or ("scenario",))
    executions = {read_field(cell, "execution") for cell in (*best, *failed)}
    if len(executions) > 1 and "execution" not in fields:
        fields.append("execution")
    searched = objective.names if objective else ()
    metrics = list(dict.fromkeys((*searched, *list_shown(Rank.TABLE))))
    # A cell that was interrupted between two trials may have figures, although it did not complete.
    measured = [cell for cell in failed if cell.metrics.get(TENSOR_PEAK) is not None]
    lost = [cell for cell in failed if cell.metrics.get(TENSOR_PEAK) is None]
    heads = [*([""] if objective else []), *map(selection.shorten_field, fields)]
    rows = [[*heads, *(METRICS[name].heading for name in metrics), ""]]
    for cell in (*best[:MOST_ROWS], *measured):
        figures = (read_figure(cell, name) for name in metrics)
        rows.append([*read_names(cell), *figures, cut_reason(cell)])
    others = [[*read_names(cell), cut_reason(cell)] for cell in lost]
    names = [row[: len(heads)] for row in (*rows, *others)]
    widths = [max(map(len, column)) for column in zip(*names, strict=True)]
    figures_at = range(len(heads), len(heads) + len(metrics))
    lines = align_columns(rows, figures_at, widths, head_style="bold", last_style="red")
    if len(best) > MOST_ROWS:
        more = f"... and {len(best) - MOST_ROWS} more that completed: see the table's file"
        lines.insert(1 + MOST_ROWS, more)
    lines += align_columns(others, (), widths, last_style="red") if others else []
    reasons = dict.fromkeys(cell.outcome.brief for cell in failed)
    if long := [reason for reason in reasons if len(reason) > _LONGEST_REASON]:
        lines += ["", *long[:MOST_REASONS]]
        if len(long) > MOST_REASONS:
            lines.append(f"... and {len(long) - MOST_REASONS} more: see the log")
    return lines
