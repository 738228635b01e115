"""How often growth is said where there is none, and missed where there is: made series and real
cells, of tensors and of the host. And of a thousand made programs, of which no answer may be false,
how many are: a rate or a 0 where the other is true, or a bound below the truth; how many rates are
more than 10 % off, and how many answers are unknown.

    python -m tests.benchmarks growth
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.analysis import estimate
from runner.cell import TrialSpec
from runner.compose import composition
from runner.processes.server import TrialServer
from runner.records import Trial
from tests.unit.analysis import made_programs
from tests.unit.analysis import made_series as made

_EACH = 500
_PROGRAMS = 1000
_BUSY = 4
_TENSOR, _HOST = "tensor_growth_bytes_per_step", "host_growth_bytes_per_step"


def main() -> None:
    _made()
    _made_programs()
    _real()


def _made() -> None:
    for meter in made.STEPS:
        print(f"{meter}, {made.STEPS[meter]} steps: shares of {_EACH} made series each")
        for kind, rate in made.rates(meter, _EACH, seed=3).items():
            print(
                f"  {kind:24} false {rate.false:6.1%}   missed {rate.missed:6.1%}   "
                f"unknown {rate.unknown:6.1%}"
            )


def _made_programs() -> None:
    for seed, cleans in ((30, True), (7, True), (30, False)):
        how = "of `leak`" if cleans else "without clean readings"
        print(f"{_PROGRAMS} made programs (seed {seed}), as a timing trial {how} judges them")
        _print_faults(made_programs.count_faults(_PROGRAMS, seed, cleans))


def _print_faults(faults: dict[str, Counter[str]]) -> None:
    for kind, count in {**faults, "in all": sum(faults.values(), Counter())}.items():
        print(
            f"  {kind:16} of {count['programs']:4}: {count['false verdict']} false verdicts, "
            f"{count['false bound']} false bounds, {count['off']} rates off, "
            f"{count['unknown']} unknown"
        )


def _real() -> None:
    """The cells of `growing_steps`, each judged for tensors and for the host, on a machine that is
    idle (as far as this one is) and beside busy processes."""
    with tempfile.TemporaryDirectory() as folder:
        server = TrialServer(Path(folder) / "server.log")
        server.start()
        try:
            idle = _judge_cells(server, Path(folder))
            _print_judgements("idle", idle)
            with _busy_processes():
                busy = _judge_cells(server, Path(folder))
            _print_judgements(f"beside {_BUSY} busy processes", busy)
        finally:
            server.stop()
    others = [f"  {cell}: {idle[cell].says}; {busy[cell].says}" for cell in idle
              if idle[cell].verdict != busy[cell].verdict]  # fmt: skip
    print("\n".join([f"{len(others)} verdicts differ between the two", *others]))


@dataclass(frozen=True)
class _Judgement:
    """One cell's growth, of tensors or of the host."""

    expected: bool
    rate: float | None
    reason: str | None

    @property
    def verdict(self) -> bool | None:
        return None if self.rate is None else bool(self.rate)

    @property
    def says(self) -> str:
        return f"unknown ({self.reason})" if self.rate is None else f"{self.rate:,.0f} B/step"


def _judge_cells(server: TrialServer, folder: Path) -> dict[str, _Judgement]:
    judged = {}
    for name, size, tensor, host in CELLS:
        found = _measured(server, name, size, folder)
        for metric, expected in ((_TENSOR, tensor), (_HOST, host)):
            judged[f"{name} {size} {metric.partition('_')[0]}"] = _Judgement(
                expected, found.metrics.get(metric), found.unavailable.get(metric)
            )
    return judged


def _print_judgements(where: str, judged: dict[str, _Judgement]) -> None:
    false = [name for name, each in judged.items() if each.verdict and not each.expected]
    missed = [name for name, each in judged.items() if each.verdict is False and each.expected]
    unknown = [name for name, each in judged.items() if each.verdict is None]
    print(
        f"{len(CELLS)} real cells, {where}, load {os.getloadavg()[0]:.1f}: {len(judged)} "
        f"judgements, {len(false)} false, {len(missed)} missed, {len(unknown)} unknown"
    )
    for kind, names in (("false", false), ("missed", missed), ("unknown", unknown)):
        for name in names:
            print(f"  {kind}: {name}: {judged[name].says}")


@contextmanager
def _busy_processes() -> Iterator[None]:
    """Have some processes that never rest."""
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(_BUSY)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def _measured(server: TrialServer, name: str, size: int, folder: Path) -> estimate.Estimate:
    words = (
        "scenario=callable", f"scenario.target=tests.benchmarks._growing_steps:{name}",
        f"scenario.arguments={{size: {size}}}", "measure=standard", "tracking=none",
    )  # fmt: skip
    experiment = composition.compose_plan(list(words)).cells[0].experiment
    trials: list[Trial] = [
        server.run(TrialSpec(experiment, kind, 0), 120) for kind in ("memory", "timing")
    ]
    for trial in trials:
        assert trial.outcome.completed, (name, trial.outcome)
    return estimate.estimate_metrics(trials, experiment.spec)


_SIZES = (100, 1_000, 8_000, 50_000)
_STEPS = (
    # name, whether tensors grow, whether the host does
    ("nothing", False, False),
    ("tensor_that_goes", False, False),
    ("tensor_that_stays", True, True),
    ("array_that_stays", False, True),
    ("bytes_that_stay", False, True),
    ("malloc_that_stays", False, True),
    ("warm_up", False, False),
    ("cache_that_is_emptied", False, False),
    ("tensors_in_a_cache_that_is_emptied", False, False),
    ("cycle_with_a_tensor", False, False),
    ("stairs", True, True),
    ("dict_that_stays", False, True),
    ("ring_of_16", False, False),
    ("ring_of_100", False, False),
    ("ring_of_250", False, False),
)
CELLS = [(name, size, tensor, host) for name, tensor, host in _STEPS for size in _SIZES]
