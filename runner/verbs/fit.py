"""`fit`: the largest value of an integer field that completes under a memory cap."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from runner import places
from runner.errors import BadInput, Interrupted, nearest
from runner.judging import selection
from runner.terminal.console import in_place

if TYPE_CHECKING:
    from runner.fit.probes import Limit, Strategy
    from runner.plan import Planned

HELP = """\
python -m runner fit vary=FIELD [max=N] [--json] [OVERRIDES]

Finds the largest value of an integer field that completes under a memory cap, by real runs: the
answer completes as a plain run, and the next value is out of memory. It starts from the value that
the field has, and takes few trials, guided by what the smaller ones asked their allocator for. A
comma list among the overrides makes strategies, which are compared.

  python -m runner fit vary=batch_size device.memory_limit_mb=512 scenario=keras_training \\
      scenario.model=transformer scenario.recompute=true,false
  python -m runner fit vary=scenario.iterations max=1000 device.memory_limit_mb=64 \\
      scenario=python_loop scenario.size=1000 batch_size=1000 scenario.gradient=tape

vary=FIELD    any integer field: batch_size, scenario.size, scenario.arguments.layers, ...
max=N         look no further than N
--json        [{strategy, vary, largest, metric_at_largest, trials, ...}], one a strategy

The cap is device.memory_limit_mb (the device's tensors) or measure.host_limit_mb (the process).
A failing value costs ten seconds: TensorFlow's allocator keeps trying for as long. Any other
failure stops the search of its strategy, and it says so. In outputs/fits/DATE/TIME/ it leaves
fit.json, fit.svg (the way to the limit), probes.jsonl, and of each strategy the run at its answer
(`python -m runner publish` takes that folder).

Exit codes: 0 every strategy has its answer, 1 one has not, 2 bad input, 130 interrupted."""

RESULT_FILE = "fit.json"
PICTURE_FILE = "fit.svg"


def main(words: Sequence[str]) -> int:
    if "-h" in words or "--help" in words:
        print(HELP)
        return 0
    asked = _Asked.of(words)

    # Imported late, so that --help and a mistyped word are answered at once.
    from runner.fit import summary
    from runner.running import folders, session
    from runner.running.interruption import interruptible

    started = time.monotonic()
    folder = folders.new_folder("fits")
    strategies = _strategies(asked, folder)
    with interruptible():
        session.require_devices([strategy.cell.experiment for strategy in strategies])
        with folders.held(folder):
            probes, interrupted = _search(asked, strategies, folder)
    picture = _keep(asked, probes, folder)
    if asked.as_json:
        print(json.dumps([limit.to_json() for limit in probes], indent=1))
    else:
        print(summary.of_fit(probes, folder, picture, time.monotonic() - started))
    if interrupted:
        print(f"runner: {interrupted}; what was finished is kept.", file=sys.stderr)
        return interrupted.exit_code
    return 0 if all(limit.largest is not None for limit in probes) else 1


# What was asked for.


@dataclass(frozen=True)
class _Asked:
    """The verb's own words, and the rest."""

    vary: str
    most: int | None
    as_json: bool
    overrides: tuple[str, ...]

    @staticmethod
    def of(words: Sequence[str]) -> _Asked:
        own: dict[str, str] = {}
        rest = []
        for word in words:
            key, _, value = word.partition("=")
            if key not in ("vary", "max"):
                rest.append(word)
            elif key in own:
                raise BadInput(f"{key}: said twice.", "Keep one.")
            else:
                own[key] = value
        if not own.get("vary"):
            raise BadInput("vary: has no value.", "Say vary=batch_size, or another integer field.")
        most = own.get("max")
        if most is not None and (not most.isdecimal() or int(most) < 1):
            raise BadInput(f"max: {most!r} is no whole number from 1.", "Write max=1000.")
        return _Asked(
            vary=own["vary"],
            most=None if most is None else int(most),
            as_json="--json" in rest,
            overrides=tuple(word for word in rest if word not in ("--json", "-m", "--multirun")),
        )


def _strategies(asked: _Asked, folder: Path) -> list[Strategy]:
    """Every cell that the words make, once it is clear that the field can be varied in it."""
    from runner.composing import composition
    from runner.fit.probes import Strategy

    plan = composition.plan(["-m", *asked.overrides], folder)
    if plan.launcher:
        raise BadInput(f"hydra/launcher={plan.launcher}: a fit runs here.", "Leave it out.")
    if plan.resume:
        raise BadInput("resume: a fit can't be resumed.", "Leave it out.")
    if asked.vary in plan.swept:
        raise BadInput(
            f"vary={asked.vary}: several values of it were given.",
            "Give it one, to start from, or none.",
        )
    strategies = []
    for cell in plan.cells:
        words = cell.said
        swept = {key: _spelled(words[key]) for key in plan.swept if key in words}
        name = " ".join(f"{key}={value}" for key, value in swept.items())
        name = name or f"scenario={cell.experiment.scenario_name}"
        strategies.append(Strategy(cell.number, name, cell, swept))
        _check(asked, cell)
    if not any(strategy.cell.experiment.supported for strategy in strategies):
        experiment = strategies[0].cell.experiment
        raise BadInput(
            f"execution={experiment.execution}: {experiment.unsupported_reason}.",
            f"Say execution={experiment.scenario.executions[0]}, or leave it out.",
        )
    return strategies


def _spelled(value: str) -> str:
    """As a user types it; Hydra says True."""
    return value.lower() if value in ("True", "False") else value


def _check(asked: _Asked, cell: Planned) -> None:
    experiment = cell.experiment
    if experiment.device.memory_limit_mb is None and experiment.measure.host_limit_mb is None:
        raise BadInput(
            "no cap is set, so nothing ever runs out.",
            "Say device.memory_limit_mb=512, or measure.host_limit_mb=2000.",
        )
    known = selection.fields(experiment.spec)
    whole = [name for name, value in known.items() if _is_whole(value) and name not in _CAPS]
    if asked.vary in _CAPS:
        raise BadInput(f"vary={asked.vary}: that is the cap.", nearest("", whole))
    if asked.vary not in known:
        raise BadInput(f"vary={asked.vary}: there is no such field.", nearest(asked.vary, whole))
    value = known[asked.vary]
    if value is None:
        raise BadInput(
            f"vary={asked.vary}: has no value to start from.", f"Say {asked.vary}=1 as well."
        )
    if not _is_whole(value):
        raise BadInput(f"vary={asked.vary}: {value!r} is no whole number.", nearest("", whole))


_CAPS = ("device.memory_limit_mb", "measure.host_limit_mb")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# The search.


def _search(
    asked: _Asked, strategies: Sequence[Strategy], folder: Path
) -> tuple[list[Limit], Interrupted | None]:
    from runner.fit import probes, search
    from runner.running import session

    progress = _Progress()
    found: list[probes.Limit] = []
    try:
        with session.opened(folder) as opened:
            for strategy in strategies:
                found.append(probes.Limit(strategy, asked.vary))
                most = asked.most or search.MOST
                probes.search(
                    found[-1], most, opened.server, folder, opened.machine, progress.trial
                )
    except Interrupted as stop:
        for limit in found[-1:]:
            limit.stop(str(stop))
        return found, stop
    finally:
        progress.close()
    return found, None


@dataclass
class _Progress:
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


def _keep(asked: _Asked, limits: Sequence[Limit], folder: Path) -> Path | None:
    """The result as a file, and the picture, if there is anything to draw."""
    from runner.fit import picture

    told = {
        "schema": 1,
        "vary": asked.vary,
        "max": asked.most,
        "overrides": asked.overrides,
        "strategies": [limit.to_json() for limit in limits],
    }
    with places.whole(folder / RESULT_FILE) as scratch:
        scratch.write_text(json.dumps(told, indent=1))
    if not any(limit.probes for limit in limits):
        return None
    picture.draw(limits, folder / PICTURE_FILE)
    return folder / PICTURE_FILE
