"""A function of the user's program, measured: `runner.measure`.

The same plan, processes, record and refusals as on the command line. What is wrong with the input
is raised as `runner.errors.BadInput`; how a measurement ended is data, as everywhere: its `outcome`
says it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from runner import records
from runner.composing import composition
from runner.errors import BadInput, Interrupted, StoreError, Unavailable
from runner.plan import Plan
from runner.running import folders, session
from runner.terminal.progress import Progress
from runner.tracking import active
from runner.trial import warm
from runner.using import handing
from runner.using.handing import Step
from runner.using.opened import Measurement


def measure(
    step: Step,
    *,
    batch_size: int | None = None,
    execution: str | None = None,
    device: str | None = None,
    measure: str = "quick",
    seed: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    tracking: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Measurement:
    """Measure a function in processes of its own: memory in some, time in others.

    `step` is a function, or the import path of one (`"my_module:make_step"`). It is called once,
    with `arguments` (and `batch_size` and `seed` where it takes them). If that returns something to
    call, this is the step; if not, `step` itself is. The function of a script, a notebook or a REPL
    is copied to those processes with what it uses; what can't be copied is refused.

        def make_step(batch_size):
            model, batch = make_model(), tf.ones([batch_size, 784])
            return lambda: model(batch)

        found = runner.measure(make_step, batch_size=32, execution="graph")
        found["tensor_peak_bytes"]

    `execution`: eager, graph or xla; `device`: auto, cpu or gpu; `measure`: quick, standard or
    rigorous; `tracking`: none, local or server, and where nothing is said, the MLflow run that is
    active in this program, if one is; `fields`: any other, by the name that it has on the
    command line (`{"device.memory_limit_mb": 512, "measure.steps": 500}`). What is left out is what
    it is there. Raises `runner.errors.BadInput` for what can't be run as it stands.
    """
    _check_place()
    started = time.monotonic()
    target, sent = handing.handed(step)
    said = {
        "batch_size": batch_size,
        "execution": execution,
        "device": device,
        "measure": measure,
        "seed": seed,
        "tracking": tracking or "none",
        **(fields or {}),
    }
    wanted = {name: value for name, value in said.items() if value is not None}
    own: dict[str, Any] = {"scenario": "callable", "scenario.target": target}
    own |= {"scenario.arguments": dict(arguments)} if arguments else {}
    plan = Plan(tuple(composition.cells([{**own, **wanted}], sent)), False, None, ())
    folder = folders.new_folder("runs")
    try:
        with session.measured(plan, folder, Progress()) as done:
            pass
    except Interrupted as stop:  # while the store was waited for
        _stop_the_program(stop, getattr(stop, "__notes__", ()))
    if stopped := done.result.interrupted:
        lacking = done.publishing.problem
        _stop_the_program(stopped, [str(lacking)] if lacking else ())
    found = Measurement(records.read(folder), folder, time.monotonic() - started)
    problem: object = done.publishing.problem
    if tracking is None and (run := active.run_id()):
        try:
            active.log(found.record, folder, run)
        except StoreError as error:  # the record is safe, and is what was asked for
            problem = error
    if problem:
        warnings.warn(str(problem), stacklevel=2)
    return found


def _stop_the_program(stop: Interrupted, lacking: Sequence[str]) -> NoReturn:
    """As the signal would have reached the program itself; what the store lacks is said first."""
    try:
        for problem in lacking:
            warnings.warn(problem, stacklevel=3)
    finally:  # where warnings are errors, too
        signal.raise_signal(stop.exit_code - 128)
        raise KeyboardInterrupt from stop


def _check_place() -> None:
    """Where nothing can be measured: on another system, or in a process that measures."""
    if not sys.platform.startswith("linux"):
        raise Unavailable(
            "the runner measures on Linux.", "Run it in a Linux container or machine."
        )
    if warm.LOG_VARIABLE in os.environ:
        raise BadInput(
            "runner.measure: was called in a measuring process, by the code that is measured.",
            'Call it under `if __name__ == "__main__":`, so that an import does not call it.',
        )
