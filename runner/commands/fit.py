"""`fit`: the largest value of an integer field that completes under a memory cap."""

from __future__ import annotations

import argparse
import json
import time

from runner.commands import SETTINGS, Parser
from runner.errors import BadInput

_EPILOG = """\
words of its own:
  vary=FIELD  any integer field: batch_size, scenario.size, scenario.arguments.layers, ...
  max=N       look no further than N

examples:
  python -m runner fit vary=batch_size device.memory_limit_mb=512 scenario=keras_training \\
      scenario.model=transformer scenario.recompute=true,false
  python -m runner fit vary=scenario.iterations max=1000 device.memory_limit_mb=64 \\
      scenario=python_loop scenario.size=1000 batch_size=1000 scenario.gradient=tape

The answer completes as a plain run, and the next value is out of memory. The search starts from the
value that the field has, and takes few trials, guided by what the smaller ones asked their
allocator for. A comma list among the overrides makes strategies, which are searched side by side
(one by one with measure.side_by_side=1) and compared.

The cap is device.memory_limit_mb (the device's tensors) or measure.host_limit_mb (the process).
A failing value costs ten seconds: TensorFlow's allocator keeps trying for as long. Any other
failure stops the search of its strategy, and it says so. In outputs/fits/DATE/TIME/ it leaves
fit.json, fit.svg (the way to the limit), probes.jsonl, and of each strategy the run at its answer.
These runs go into a tracking store with tracking=local or tracking=server; `publish` brings them in
later.

Exit codes: 0 every strategy has its answer, 1 one has not, 2 bad input, 130 interrupted."""


def make_parser() -> Parser:
    parser = Parser(
        "fit",
        "Finds the largest value of an integer field that completes under a memory cap, by real "
        "runs.",
        _EPILOG,
        usage="vary=FIELD [max=N] [--json] [OVERRIDES] [SCRIPT [ITS WORDS]]",
        settings=SETTINGS,
        takes_script=True,
        own=("vary", "max"),
    )
    parser.add_json("[{strategy, vary, largest, metric_at_largest, trials, ...}], one a strategy")
    # A comma list makes strategies with and without it.
    parser.add_argument("-m", "--multirun", action="store_true", help=argparse.SUPPRESS)
    return parser


def run(options: argparse.Namespace) -> int:
    """Search the limit of each strategy; return 1 if one has no answer."""
    # Not for --help.
    from runner.engine.preload import find_environment, is_likely_to_measure, preload

    started = time.monotonic()
    words = tuple(options.settings)
    if not options.vary:
        raise BadInput("vary: has no value.", "Say vary=batch_size, or another integer field.")
    most = None
    if (word := options.max) is not None:
        if not word.isdecimal() or len(word) > 18 or int(word) < 1:
            raise BadInput(f"max: {word!r} is not a whole number from 1.", "Write max=1000.")
        most = int(word)
    with preload(is_likely_to_measure(words), find_environment(words)) as server:
        # Imported late: TensorFlow is loading meanwhile.
        from runner.commands._planning import compose_plan, find_tracking
        from runner.fit.strategies import list_strategies

        plan = compose_plan(["-m", *words], alone="fit")
        strategies = list_strategies(plan, options.vary)

        # And these once there is something to measure: a mistake is answered without them.
        from runner.commands._measurement import measure_and_print
        from runner.engine import folders
        from runner.engine.events import Result
        from runner.engine.scheduler import LocalExecutor
        from runner.fit import summary
        from runner.fit.fitting import FitSearch

        folder = folders.choose_folder("fits", plan.resume, "fit")
        search = FitSearch(options.vary, most, words, strategies, folder)

        def render(result: Result) -> str:
            if result.stopped:
                search.stop(result.stopped)
            picture = search.keep()
            if options.json:
                return json.dumps([limit.to_json() for limit in search.limits], indent=1)
            return summary.summarize_fit(search.limits, folder, picture, time.monotonic() - started)

        result = measure_and_print(
            search,
            folder,
            LocalExecutor(server),
            render,
            progress=summary.FitProgress(search),
            tracking=find_tracking(plan.cells[0]),
        )
        if result.stopped:
            return result.exit_code
        return int(any(limit.largest is None for limit in search.limits))
