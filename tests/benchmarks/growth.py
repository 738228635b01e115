"""How often growth is said where there is none, and missed where there is: made series and real
cells, of tensors and of the host.

    python -m tests.benchmarks growth
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from runner.analysis import estimate
from runner.cell import TrialSpec
from runner.compose import composition
from runner.processes.server import TrialServer
from runner.records import Trial
from tests.unit.analysis import made_series as made

_EACH = 500
_TENSOR, _HOST = "tensor_growth_bytes_per_step", "host_growth_bytes_per_step"


def main() -> None:
    _made()
    _real()


def _made() -> None:
    for meter in made.STEPS:
        print(f"{meter}, {made.STEPS[meter]} steps: shares of {_EACH} made series each")
        for kind, rate in made.rates(meter, _EACH, seed=3).items():
            print(
                f"  {kind:24} false {rate.false:6.1%}   missed {rate.missed:6.1%}   "
                f"unknown {rate.unknown:6.1%}"
            )


def _real() -> None:
    """The cells of `growing_steps`, each judged for tensors and for the host."""
    wrong, unknown, judged = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        server = TrialServer(Path(folder) / "server.log")
        server.start()
        try:
            for name, size, tensor, host in CELLS:
                found = _measured(server, name, size, Path(folder))
                for metric, expected in ((_TENSOR, tensor), (_HOST, host)):
                    value = found.metrics.get(metric)
                    judged += 1
                    says = "unknown" if value is None else f"{value:,.0f} B/step"
                    is_wrong = value is not None and bool(value) != bool(expected)
                    if is_wrong:
                        wrong.append(f"{name} {size}: {metric} {says}, made to grow {expected}")
                    if value is None:
                        unknown.append(f"{name} {size}: {metric}: {found.unavailable.get(metric)}")
        finally:
            server.stop()
    print(
        f"{len(CELLS)} real cells, {judged} judgements: {len(wrong)} wrong, {len(unknown)} unknown"
    )
    for line in (*wrong, *unknown):
        print(f"  {line}")


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
    return estimate.estimate_metrics(trials, {"batch_size": 1, "measure": {"name": "standard"}})


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
)
CELLS = [(name, size, tensor, host) for name, tensor, host in _STEPS for size in _SIZES]
