"""`fit`: the largest value of an integer field that completes under a memory cap."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from runner.commands import SETTINGS, Parser
from runner.commands._measuring import find_answer
from runner.errors import BadInput

if TYPE_CHECKING:
    from runner.engine.answers import Answer

_EPILOG = """\
words of its own:
  vary=FIELD  an integer field that is given no value: batch_size, scenario.size, ...; or an
              argument of your function, from its value on: +scenario.arguments.layers=4
  max=N       look no further than N

examples:
  python -m runner fit vary=batch_size device.memory_limit_mb=512 scenario=keras_training \\
      scenario.model=transformer scenario.recompute=true,false
  python -m runner fit vary=scenario.iterations max=1000 device.memory_limit_mb=64 \\
      scenario=python_loop scenario.size=1000 batch_size=1000 scenario.gradient=tape

The answer completes as a plain run, and the next value is out of memory. The search starts from the
field's default, and takes few trials, guided by what the smaller ones asked their
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
    from runner.engine.preload import is_likely_to_measure  # not for --help

    words = tuple(options.settings)
    if not options.vary:
        raise BadInput("vary: has no value.", "Say vary=batch_size, or another integer field.")
    most = None
    if (word := options.max) is not None:
        if not word.isdecimal() or len(word) > 18 or int(word) < 1:
            raise BadInput(f"max: {word!r} is not a whole number from 1.", "Write max=1000.")
        most = int(word)

    def open_answer() -> Answer:
        from runner.commands._planning import compose_plan, find_tracking
        from runner.fit.strategies import list_strategies

        plan = compose_plan(["-m", *words], alone="fit")
        strategies = list_strategies(plan, options.vary)
        from runner.fit.answer import FitAnswer

        asked = (options.vary, most, words)
        return FitAnswer(plan, strategies, asked, find_tracking(plan.cells[0]), options.json)

    return find_answer(open_answer, is_likely=is_likely_to_measure(words), words=words)
