"""`leak`: what grows from step to step, which line makes it, what holds it, which remedies help."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import BadInput, Interrupted

if TYPE_CHECKING:
    from runner.judging.leak import Leak
    from runner.leak.search import Search

HELP = """\
python -m runner leak [--json] [OVERRIDES]

Says what grows from step to step, which line makes it and what holds it, and tries remedies.

  python -m runner leak scenario=callable scenario.target=service:handle
  python -m runner leak scenario=retracing scenario.argument=python_scalar --json
  python -m runner leak experiment=reported

How much grows is measured as in a run, with steps enough for slow growth (200 of them, or 10 s).
What it consists of is found in a trial of its own, which traces every allocation on the host: its
line, its kind (tensor, python, graph, executable, native) and, of what Python holds, the way to it
from a variable that you know. What is free but kept by malloc is no leak, and is said apart. Then
the remedies that need no change of your code are run, each with the command that repeats it; those
that need one are shown as what to write. Several cells are answered one after the other.

--json        {verdict, sentence, tensor_growth_bytes_per_step, host_growth_bytes_per_step,
              interval, explained_bytes_per_step, holders, remedies}; of a sweep a list of them,
              each with its cell
--no-remedies measures and explains, and tries nothing

Verdicts: grows, flat, fills (rises and stops), unclear; of a sweep's cell whose scenario, execution
and device don't go together, unsupported. A traced step may take ten times as long.
The records are in outputs/leaks/DATE/TIME/: 0 the run itself, then one for each remedy.

Exit codes: 0 every cell has its answer, 1 one has not, 2 bad input, 130 interrupted."""

RESULT_FILE = "leak.json"


def main(words: Sequence[str]) -> int:
    if "-h" in words or "--help" in words:
        print(HELP)
        return 0
    own = ("--json", "--no-remedies")
    overrides = [word for word in words if word not in own]

    started = time.monotonic()
    # Imported late, so that --help is answered at once.
    from runner.running import loading

    with loading.ahead(loading.wanted_by(overrides)):
        return _answer(overrides, "--no-remedies" not in words, "--json" in words, started)


def _answer(overrides: Sequence[str], with_remedies: bool, as_json: bool, started: float) -> int:
    from runner.composing import composition
    from runner.running import folders
    from runner.running.interruption import interruptible

    folder = folders.new_folder("leaks")
    with interruptible():
        plan = composition.plan(overrides, folder)
    if plan.search:
        raise BadInput("hydra/sweeper: leak measures every cell; it can't search.", "Leave it out.")
    if plan.launcher:
        raise BadInput(
            f"hydra/launcher={plan.launcher}: leak runs on this machine only.", "Leave it out."
        )
    if plan.resume:
        raise BadInput("resume: a search for leaks can't be resumed.", "Leave it out.")
    if not plan.cells:
        return 0  # Hydra was asked to tell something, and has

    # And these once there is something to measure: a mistake is answered without them.
    from runner.leak.search import Search
    from runner.running import session

    search = Search(plan, folder, with_remedies)
    interrupted: Interrupted | None = None
    with interruptible():
        session.require_devices([cell.experiment for cell in plan.cells])
    with interruptible(), folders.held(folder):
        try:
            search.run()
        except Interrupted as stop:
            interrupted = stop
    _keep(search.leaks, folder)
    _print(search, plan.is_sweep, as_json, time.monotonic() - started)
    if interrupted:
        print(f"runner: {interrupted}; what was finished is kept.", file=sys.stderr)
        return interrupted.exit_code
    judged = len(search.leaks) == len(plan.cells)
    return 0 if judged and all(each.verdict != "unclear" for each in search.leaks.values()) else 1


def _keep(leaks: dict[str, Leak], folder: Path) -> None:
    from runner import places

    told = [{"cell": name, **leak.to_json()} for name, leak in leaks.items()]
    places.write(folder / RESULT_FILE, json.dumps({"schema": 1, "leaks": told}, indent=1))


def _print(search: Search, is_sweep: bool, as_json: bool, seconds: float) -> None:
    from runner.terminal import leaks

    if not as_json:
        print(leaks.of_leak(search.leaks, search.folder, seconds))
        return
    told = [{"cell": name, **leak.to_json()} for name, leak in search.leaks.items()]
    if is_sweep:
        print(json.dumps(told, indent=1))
    elif told:
        print(json.dumps({key: value for key, value in told[0].items() if key != "cell"}, indent=1))
