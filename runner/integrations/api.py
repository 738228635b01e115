"""`runner.measure`: measure a function of the user's own program.

The same plan, processes, record and refusals as on the command line. What is wrong with the input
is raised as `runner.errors.BadInput`; how a measurement ended is data, as everywhere: its `outcome`
says it.
"""

from __future__ import annotations

import signal
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from runner import records
from runner.callables import Target, pickle_function
from runner.cell import Plan
from runner.compose import composition
from runner.engine import folders
from runner.engine.events import Listener
from runner.engine.grid import Grid
from runner.engine.measure import measure as run_source
from runner.engine.preload import preload
from runner.engine.scheduler import LocalExecutor
from runner.errors import BadInput, Interrupted, Unavailable
from runner.integrations.measurement import Measurement
from runner.render.listeners import RecordFilesListener
from runner.render.text.progress import Progress
from runner.script.words import is_program
from runner.store.listener import ActiveRunListener, StoreListener
from runner.trial import loader


def measure(
    step: Target,
    *,
    batch_size: int | None = None,
    execution: str | None = None,
    device: str | None = None,
    measure: str = "quick",
    seed: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    argv: Sequence[str] = (),
    tracking: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Measurement:
    """Measure a function in processes of its own: memory in some, time in others.

    `step` is a function, or the import path of one (`"my_module:make_step"`). It is called once,
    with `arguments` (and `batch_size` and `seed` where it takes them). If that returns something to
    call, this is the step; if not, `step` itself is. The function of a script, a notebook or a REPL
    is copied to those processes with what it uses; what can't be copied is refused. Or it is a
    whole program, `"train.py"`, `"book.ipynb"` or `"-m package.train"`, run as it is with the words
    `argv`.

        def make_step(batch_size):
            model, batch = make_model(), tf.ones([batch_size, 784])
            return lambda: model(batch)

        found = runner.measure(make_step, batch_size=32, execution="graph")
        found["tensor_peak_bytes"]

    `execution`: eager, graph or xla; `device`: auto, cpu or gpu; `measure`: quick, standard or
    rigorous; `tracking`: none, local or server, and where none is given, the MLflow run that is
    active in this program, if one is; `fields`: any other, by the name that it has on the
    command line (`{"device.memory_limit_mb": 512, "measure.steps": 500}`). What is left out is what
    it is there. Raises `runner.errors.BadInput` for what can't be run as it stands.
    """
    _check_process()
    started = time.monotonic()
    own, function = _choose_scenario(step, arguments, argv)
    given = {
        "batch_size": batch_size,
        "execution": execution,
        "device": device,
        "measure": measure,
        "seed": seed,
        "tracking": tracking or "none",
        **(fields or {}),
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    plan = Plan(tuple(composition.compose_cells([{**own, **wanted}], function)), False, None, ())
    folder = folders.name_new_folder("runs")
    store = plan.cells[0].experiment.tracking
    listeners: list[Listener] = [
        Progress(),
        RecordFilesListener(has_page=store.kind != "none"),
        StoreListener(store, folder),
    ]
    if tracking is None:
        listeners.append(ActiveRunListener())
    with preload(False) as server:
        result = run_source(Grid(plan), folder, LocalExecutor(server), listeners)
    if isinstance(result.stopped, Interrupted):
        _stop_program(result.stopped, result.warnings)
    if result.stopped:
        raise result.stopped
    measurement = Measurement(records.read(folder), folder, time.monotonic() - started)
    for problem in result.warnings:
        warnings.warn(problem, stacklevel=2)
    return measurement


def _choose_scenario(
    step: Target, arguments: Mapping[str, Any] | None, argv: Sequence[str]
) -> tuple[dict[str, Any], Any]:
    """Return the scenario's fields, and the function that is sent where one is."""
    if isinstance(step, str) and is_program(step):
        if arguments:
            raise BadInput("arguments: a program takes words.", "Say argv=[...].")
        return {"scenario": "script", "scenario.path": step, "scenario.argv": list(argv)}, None
    if argv:
        raise BadInput("argv: a function takes no words.", "Say arguments={...}.")
    target, function = pickle_function(step)
    own: dict[str, Any] = {"scenario": "callable", "scenario.target": target}
    return own | ({"scenario.arguments": dict(arguments)} if arguments else {}), function


def _stop_program(stop: Interrupted, lacking: Sequence[str]) -> NoReturn:
    """Send the signal to the program itself, after what the store lacks is said."""
    try:
        for problem in lacking:
            warnings.warn(problem, stacklevel=3)
    finally:  # where warnings are errors, too
        signal.raise_signal(stop.exit_code - 128)
        raise KeyboardInterrupt from stop


def _check_process() -> None:
    """Raise where nothing can be measured: on another system, or in a process that measures."""
    if not sys.platform.startswith("linux"):
        raise Unavailable(
            "the runner measures on Linux.", "Run it in a Linux container or machine."
        )
    if loader.is_loaded:
        raise BadInput(
            "runner.measure: was called in a measuring process, by the code that is measured.",
            'Call it under `if __name__ == "__main__":`, so that an import does not call it.',
        )
