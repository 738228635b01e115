"""Is every leak found, is anything else accused, do the kinds add up, and what does it cost?

Ten runs of each planted leak and of each that is none, on a server of their own: how often the
kind and the line were right, what the kinds add up to against the growth that the timing trials
measured without a tracer (so by how much the tracer disturbs what it explains), and how many times
as long a traced step takes as a timed one. `TIMES=1` in the environment makes it a quick look.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from runner.composing import composition
from runner.isolation.server import Server
from runner.judging.leak import Leak, judge
from runner.leak import cells
from runner.metrics import readable_bytes
from runner.records import Record
from runner.running import environment, lifecycle
from tests.leak import planted
from tests.leak.test_planted import leaking_line

TIMES = int(os.environ.get("TIMES", "10"))


def main() -> None:
    found = accused = 0
    print(f"{'planted':<18}{'right':>7} {'measured':>10} {'explained':>10}   share   traced step")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "log")
        server.start()
        machine = environment.describe()
        for name in (*planted.LEAKS, *planted.NO_LEAKS):
            seen = [_sought(server, machine, name, Path(folder)) for _ in range(TIMES)]
            leaks = [leak for _, leak, _ in seen]
            if name in planted.LEAKS:
                right = sum(_is_right(name, leak) for leak in leaks)
                found += right
            else:
                right = sum(leak.verdict in ("flat", "fills") for leak in leaks)
                accused += TIMES - right
            _row(name, right, seen)
        server.stop()
    print(f"line and kind right: {found} of {TIMES * len(planted.LEAKS)}")
    print(f"accused without cause: {accused} of {TIMES * len(planted.NO_LEAKS)}")


def _row(name: str, right: int, seen: list[tuple[Record, Leak, float]]) -> None:
    measured = [leak.host_growth_bytes_per_step for _, leak, _ in seen]
    known = [each for each in measured if each is not None]
    explained = [leak.explained_bytes_per_step or 0.0 for _, leak, _ in seen]
    growth = statistics.median(known) if known else None
    amount = statistics.median(explained)
    share = f"{amount / growth:.0%}" if growth else ""
    cost = statistics.median(cost for _, _, cost in seen)
    told = readable_bytes(growth) if growth is not None else "unknown"
    print(
        f"{name:<18}{right:>3}/{TIMES:<3} {told:>10} {readable_bytes(amount):>10} {share:>7}"
        f"   {cost:.1f}x",
        flush=True,
    )


def _is_right(name: str, leak: Leak) -> bool:
    kind = planted.LEAKS[name]
    first = leak.holders[0] if leak.holders else None
    right = first is not None and (first.kind, first.line) == (kind, leaking_line(name, kind))
    if not right:
        print(f"  {name}: {leak.sentence}", file=sys.stderr)
    return right


def _sought(
    server: Server, machine: dict[str, object], name: str, folder: Path
) -> tuple[Record, Leak, float]:
    """The record, what it says, and how many times as long a traced step took."""
    words = ["scenario=callable", f"scenario.target=tests.leak.planted:{name}", "tracking=none"]
    few = ["measure.timing_processes=1", "measure.max_seconds=2", "measure.memory_processes=0"]
    cell = composition.plan([*words, *few], folder / "sweep").cells[0]
    run = lifecycle.open_run(cells.to_measure(cell), Path(tempfile.mkdtemp(dir=folder)))
    while (assignment := run.next) is not None:
        lifecycle.add_trial(run, server.run(assignment, 300))
    record = lifecycle.close_run(run, machine)
    held = next(each.facts["held"] for each in record.trials if "held" in each.facts)
    timed = record.metrics.get("step_seconds")
    cost = held["traced_seconds_per_step"] / timed if timed else float("nan")
    return record, judge(record), cost
