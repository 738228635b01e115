"""A fit in the terminal: a line while it searches; then on stdout a table of strategies, their
models, the sentence that decides. Piped, it holds no control codes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from runner.fit.probes import Limit, spelled
from runner.metrics import readable, readable_bytes
from runner.places import relative
from runner.records import LOG_FILE, RECORD_FILE
from runner.terminal.console import in_place, readable_duration, styled
from runner.terminal.tables import aligned

_COLUMNS = ("examples_per_second", "step_seconds", "tensor_peak_bytes")
_HEADS = ["strategy", "largest", "examples", "step", "tensor peak", "trials", ""]


def of_fit(limits: Sequence[Limit], folder: Path, picture: Path | None, seconds: float) -> str:
    out = sys.stdout
    lines = ["", styled(_title(limits), "1", out), *_table(limits)]
    models = [
        f"{limit.strategy.name}: {spelled(model, limit.vary)}"
        for limit in limits
        if (model := limit.model) is not None
    ]
    lines += ["", *models] if models else []
    if sentence := decision(limits):
        lines += ["", styled(sentence, "1", out)]
    trials = sum(limit.trials for limit in limits)
    lines += ["", f"{trials} trials, {readable_duration(seconds)}"]
    if picture:
        lines.append(f"  picture  {relative(picture)}")
    for limit in limits:
        if limit.folder:
            lines.append(f"  record   {relative(limit.folder / RECORD_FILE)}")
    lines.append(f"  log      {relative(folder / LOG_FILE)}")
    return "\n".join(lines)


def _title(limits: Sequence[Limit]) -> str:
    experiments = [limit.strategy.cell.experiment for limit in limits]
    caps = {each.device.memory_limit_mb or 0 for each in experiments} - {0}
    hosts = {each.measure.host_limit_mb or 0 for each in experiments} - {0}
    under = [f"device.memory_limit_mb={cap} ({_size(cap)})" for cap in sorted(caps)]
    under += [f"measure.host_limit_mb={host} ({_size(host)})" for host in sorted(hosts)]
    return f"largest {limits[0].vary} under {', '.join(under)}"


def _size(mebibytes: int) -> str:
    return readable_bytes(mebibytes * 2**20)


def _table(limits: Sequence[Limit]) -> list[str]:
    rows = [_HEADS]
    for limit in limits:
        figures = [
            readable(name, limit.metrics[name]) if name in limit.metrics else "-"
            for name in _COLUMNS
        ]
        largest = "-" if limit.largest is None else f"{limit.largest:,}"
        rows.append([limit.strategy.name, largest, *figures, str(limit.trials), _remark(limit)])
    return aligned(rows, range(1, len(_HEADS) - 1))


def _remark(limit: Limit) -> str:
    if limit.problem or limit.found is None:
        return limit.problem or ""
    if limit.found.fails is None:
        return "as many as were asked for; more may fit"
    if limit.found.varies:
        return (
            f"{limit.found.fails:,} ran out once; memory varies from step to step, "
            "so this is the safe end"
        )
    return f"{limit.found.fails:,} is out of memory"


def decision(limits: Sequence[Limit]) -> str | None:
    """The sentence that decides: who fits most, how much more than who fits least, at what cost."""
    known = [(limit.largest, limit) for limit in limits if limit.largest is not None]
    if len(known) < 2:
        return None
    largest, most = max(known, key=lambda one: one[0])
    smallest, least = min(known, key=lambda one: one[0])
    noun = "batch" if most.vary == "batch_size" else most.vary.rpartition(".")[2]
    if largest == smallest:
        return f"all of them fit the same {noun}, {largest:,}{_fastest(limits)}"
    than = f" of {_short(least, most)}" if len(limits) > 2 else ""
    # Where even the largest value that was asked for fits, more may.
    at_least = "at least " if most.found and most.found.fails is None else ""
    text = f"{_short(most, least)} fits {at_least}{_factor(largest / smallest)} times the {noun}"
    return f"{text}{than}{_cost(most, least)}"


def _cost(most: Limit, least: Limit) -> str:
    """Examples count where it is they that are varied; else a step does more, and takes longer."""
    metric = "examples_per_second" if most.vary == "batch_size" else "step_seconds"
    ours, theirs = (limit.metrics.get(metric) for limit in (most, least))
    if not ours or not theirs:
        return ""
    if most.vary == "batch_size":
        return f" at {_factor(ours / theirs)} times the throughput"
    return f", with a step that takes {_factor(ours / theirs)} times as long"


def _fastest(limits: Sequence[Limit]) -> str:
    timed = [
        (seconds, limit.strategy.name)
        for limit in limits
        if (seconds := limit.metrics.get("step_seconds"))
    ]
    return f"; {min(timed)[1]} is the fastest there" if len(timed) > 1 else ""


def _factor(ratio: float) -> str:
    """Two digits."""
    return f"{ratio:,.{max(0, 1 - math.floor(math.log10(ratio)))}f}"


def _short(one: Limit, other: Limit) -> str:
    """A strategy by what tells it from the other: `recompute` for scenario.recompute=true."""
    words = []
    for key, value in one.strategy.swept.items():
        if other.strategy.swept.get(key) != value:
            name = key.rpartition(".")[2]
            words.append(name if value.lower() == "true" else f"{name}={value}")
    return " ".join(words)


@dataclass
class Progress:
    """One line, redrawn before each trial, on a terminal only."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def trial(self, limit: Limit, value: int, kind: str) -> None:
        fitting = max((probe.value for probe in limit.probes if probe.fits), default=None)
        failing = min((probe.value for probe in limit.probes if not probe.fits), default=None)
        parts = [f"{limit.strategy.name} · trial {limit.trials}: {limit.vary}={value:,}, {kind}"]
        if fitting is not None:
            parts.append(f"{fitting:,} fits")
        if failing is not None:
            parts.append(f"{failing:,} does not")
        in_place(" · ".join(parts), self.stream)

    def close(self) -> None:
        in_place("", self.stream)
