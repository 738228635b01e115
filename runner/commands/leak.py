"""`leak`: what grows from step to step, which line makes it, what holds it, which remedies help."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING

from runner.commands import SETTINGS, Parser
from runner.commands._measuring import find_answer
from runner.errors import BadInput

if TYPE_CHECKING:
    from runner.engine.answers import Answer

_EPILOG = """\
examples:
  python -m runner leak scenario=callable scenario.target=service:handle
  python -m runner leak scenario=retracing scenario.argument=python_scalar --json
  python -m runner leak serve.py --port 0
  python -m runner leak experiment=reported

How much grows is measured as in a run, with steps enough for slow growth (200 of them, or 10 s).
What it consists of is found in a trial of its own, which traces every allocation on the host: its
line, its kind (tensor, python, graph, executable, native) and, of what Python holds, the way to it
from a variable that you know. "Held by" was tried: emptied, in a fork of the trial, it gave the
memory back; "reached by" was not, or something else holds it, too. Steps are traced for
measure.max_seconds of computing, three at least. What is known is shown after each kind of trial,
and stays when it is stopped. What is free but kept by malloc is no leak, and is shown apart. Then
the remedies that need no change of your code are run, each with the command that repeats it; those
that need one are shown as what to write. The cells of a named sweep (experiment=NAME) are answered
one after the other; -m is refused.

Of a script without a known step the functions that it calls again and again are shown within ten
seconds, and the likeliest is taken; scenario.step=MODULE:FUNCTION names another.

Verdicts: grows, flat, fills (rises and stops), unclear; of a sweep's cell whose scenario, execution
and device don't go together, unsupported. A traced step may take ten times as long.
The records are in outputs/leaks/DATE/TIME/: 0 the run itself, then one for each remedy. They go
into a tracking store with tracking=local or tracking=server; `publish` brings them in later.

Exit codes: 0 every cell has its answer, 1 one has not, 2 bad input, 130 interrupted."""


def make_parser() -> Parser:
    parser = Parser(
        "leak",
        "Says what grows from step to step, which line makes it and what holds it, and tries "
        "remedies.",
        _EPILOG,
        usage="[--json] [--no-remedies] [OVERRIDES] [SCRIPT [ITS WORDS]]",
        settings=SETTINGS,
        takes_script=True,
    )
    parser.add_json(
        "{verdict, sentence, tensor_growth_bytes_per_step, host_growth_bytes_per_step, interval, "
        "explained_bytes_per_step, holders, remedies, notes}; of a sweep a list, each with its "
        "cell"
    )
    parser.add_argument(
        "--no-remedies", action="store_true", help="measure and explain, and try nothing"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Measure each cell and its remedies; return 1 if one has no clear answer."""
    from runner.engine.preload import is_likely_to_measure  # not for --help

    words = options.settings
    if not {"-m", "--multirun"}.isdisjoint(words):
        raise BadInput(
            "leak: -m makes a sweep, and leak looks at one cell.",
            "Give each field one value, without -m; or name a sweep with experiment=NAME.",
        )
    if importlib.util.find_spec("memray") is None:
        raise BadInput(
            "leak needs memray, which is not installed here.",
            "Install it: pip install 'tf-memory-runner[leak]', or '.[leak]' in a clone.",
        )

    def open_answer() -> Answer | None:
        from runner.commands._planning import compose_plan, find_tracking

        plan = compose_plan(words, alone="leak")
        if not plan.cells:
            return None
        from runner.leak.answer import LeakAnswer

        tracking = find_tracking(plan.cells[0])
        return LeakAnswer(plan, tracking, options.json, tries_remedies=not options.no_remedies)

    return find_answer(open_answer, is_likely=is_likely_to_measure(words), words=words)
