"""Is every leak found, is anything else accused, do the kinds add up, and what does it cost?

Ten runs of each planted leak and of each that is none, on a server of their own: how often the
kind and the line were right, what the kinds add up to against the growth that the timing trials
measured without a tracer (so by how much the tracer disturbs what it explains), and how many times
as long a traced step and a host trial take as a timed one. The difference between explained and
measured is what no kind accounts for, the tracer's disturbance included.

Then twelve holders that are hard to see: how often the right one was named, nobody, or another, and
how many answers there were: one, if all runs agree. In the environment `TIMES=1` makes it a quick
look, and `ONLY=native_op,generator` a part of it.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from runner.compose import composition
from runner.leak import hunt
from runner.leak.findings import Leak
from runner.leak.judgement import judge
from runner.metrics import format_bytes
from runner.processes.server import TrialServer
from tests.integration.leak import planted, planted_holders
from tests.runs import measure_run, open_whole
from tests.system.leak.test_planted import leaking_line

TIMES = int(os.environ.get("TIMES", "10"))
ONLY = [name for name in os.environ.get("ONLY", "").split(",") if name]


def main() -> None:
    found, innocent = 0, Counter[str]()
    hard = [*planted_holders.HOLDERS, planted_holders.NO_HOLDER]
    names = ONLY or [*planted.LEAKS, *planted.NO_LEAKS]
    names = [name for name in names if name not in hard]
    leaks = sum(name in planted.LEAKS for name in names)
    print(
        f"{'planted':<18}{'right':>7} {'measured':>10} {'explained':>10}   share"
        f"{'traced step':>13}{'host trial':>12}"
    )
    with tempfile.TemporaryDirectory() as folder:
        server = TrialServer(Path(folder) / "log")
        server.start()
        for name in names:
            seen = [_sought(server, planted, name, Path(folder)) for _ in range(TIMES)]
            if name in planted.LEAKS:
                right = sum(_is_right(name, each.leak) for each in seen)
                found += right
            else:
                right = sum(_is_acquitted(name, each.leak) for each in seen)
                innocent.update(each.leak.verdict for each in seen)
            _row(name, right, seen)
        print(f"\n{'holder':<18}{'right':>7}{'unclear':>9}{'wrong':>7}{'answers':>9}", flush=True)
        total = Counter[str]()
        for name in [name for name in hard if not ONLY or name in ONLY]:
            total += _grade_holder(server, name, Path(folder))
        server.stop()
    print(f"holders right: {total['right']}, unclear: {total['unclear']}, wrong: {total['wrong']}")
    print(f"line and kind right: {found} of {TIMES * leaks}")
    print(f"accused without cause: {innocent['grows']} of {innocent.total()}")
    print(f"no answer where nothing leaks: {innocent['unclear']} of {innocent.total()}")


def _grade_holder(server: TrialServer, name: str, folder: Path) -> Counter[str]:
    """Print and return how often the holder was right, and how many answers there were."""
    leaks = [_sought(server, planted_holders, name, folder).leak for _ in range(TIMES)]
    grades = Counter(planted_holders.grade(name, leak) for leak in leaks)
    answers = {
        (leak.verdict, *(leak.main_holders[0].chain[:-1] if leak.main_holders else ()))
        for leak in leaks
    }
    counts = f"{grades['right']:>7}{grades['unclear']:>9}{grades['wrong']:>7}{len(answers):>9}"
    print(f"{name:<18}{counts}", flush=True)
    for leak in leaks:
        if planted_holders.grade(name, leak) != "right":
            held = [(each.is_held, planted_holders.describe(each)) for each in leak.main_holders]
            print(f"  {name}: {leak.sentence}: {held}", file=sys.stderr)
    return grades


@dataclass(frozen=True)
class Seen:
    """One run: what it says, and how many times as long a traced step took as a timed one, and the
    host trial as the timing trial."""

    leak: Leak
    step_cost: float
    trial_cost: float


def _row(name: str, right: int, seen: list[Seen]) -> None:
    measured = [each.leak.host_growth_bytes_per_step for each in seen]
    known = [each for each in measured if each is not None]
    growth = statistics.median(known) if known else None
    amount = statistics.median(each.leak.explained_bytes_per_step or 0.0 for each in seen)
    share = f"{amount / growth:.0%}" if growth else ""
    told = format_bytes(growth) if growth is not None else "unknown"
    step_cost = statistics.median(each.step_cost for each in seen)
    trial_cost = statistics.median(each.trial_cost for each in seen)
    print(
        f"{name:<18}{right:>3}/{TIMES:<3} {told:>10} {format_bytes(amount):>10} {share:>7}"
        f"{step_cost:>12.1f}x{trial_cost:>11.1f}x",
        flush=True,
    )


def _is_acquitted(name: str, leak: Leak) -> bool:
    """`unclear` accuses nobody, but isn't an answer."""
    right = leak.verdict in ("flat", "fills")
    if not right:
        print(f"  {name}: {leak.sentence}", file=sys.stderr)
    return right


def _is_right(name: str, leak: Leak) -> bool:
    kind = planted.LEAKS[name]
    first = leak.holders[0] if leak.holders else None
    right = first is not None and (first.kind, first.line) == (kind, leaking_line(name, kind))
    if not right:
        print(f"  {name}: {leak.sentence}", file=sys.stderr)
    return right


def _sought(server: TrialServer, module: ModuleType, name: str, folder: Path) -> Seen:
    words = [
        "scenario=callable",
        f"scenario.target={module.__name__}:{name}",
        "tracking=none",
    ]
    few = ["measure.timing_processes=1", "measure.memory_processes=0"]
    cell = composition.compose_plan([*words, *few]).cells[0]
    place = Path(tempfile.mkdtemp(dir=folder))
    run = open_whole(hunt.prepare_cell(cell), place, settles_peak=False)
    took = measure_run(run, server)
    record = run.close()
    held = next(each.facts.held for each in record.trials if each.facts.held)
    timed = record.metrics.get("step_seconds")
    cost = held.traced_seconds_per_step / timed if timed else math.nan
    return Seen(judge(record), cost, took["host"] / took["timing"])
