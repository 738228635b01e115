"""A run or a sweep: the command without a verb."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runner.commands import SETTINGS, Parser, list_verbs
from runner.commands._measuring import find_answer
from runner.errors import BadInput

if TYPE_CHECKING:
    from runner.engine.answers import Answer

_HELP = """\
Measures what TensorFlow does with memory: exact peaks, honest times, in a process of its own.

  python -m runner scenario=while_loop                      one run
  python -m runner scenario=python_loop scenario.gradient=tape batch_size=128 execution=graph
  python -m runner -m scenario=python_loop,while_loop batch_size=32,128
                                                            a sweep over a grid
  python -m runner experiment=NAME                          a named sweep, or a search
  python -m runner scenario=while_loop --json               the record, machine-readable
  python -m runner VERB --help                              one of: {verbs}

What can be set: scenario, execution, device, measure, tracking, experiment (groups: NAME=CHOICE),
batch_size, seed, resume, and every field below a group (scenario.size=200, measure.steps=500).
With -m also: hydra/sweeper=optuna search.objectives=[METRIC,...] (few cells of a large grid), and
hydra/launcher=dask or slurm (workers of a cluster take the cells).
`python -m runner list` shows every choice, a line each. Choices of your own, in a folder with the
same groups, are found with --config-dir DIR, before or after any verb.

Exit codes: 0 all completed, 1 a run did not complete, 2 bad input, 3 compare --fail-on or --budget
found what it was asked to fail on, 130 interrupted, 143 terminated.
"""


class _RunParser(Parser):
    def format_help(self) -> str:
        """Return the help of the whole: a run is what has no verb."""
        return _HELP.format(verbs=", ".join(list_verbs()))


def make_parser() -> Parser:
    """Return the parser: every word is a setting (KEY=VALUE) or a flag of Hydra's."""
    parser = _RunParser("run", "", "", settings=SETTINGS)
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    return measure_words(options.settings, as_json=options.json)


def measure_words(words: Sequence[str], *, as_json: bool = False, shows_log: bool = False) -> int:
    """Measure what the words ask for, print what came of it, and return the exit code; `shows_log`
    passes on what the first trial prints."""
    from runner.engine.preload import is_likely_to_measure  # not for --help

    def open_answer() -> Answer | None:
        from runner.commands._planning import compose_plan

        plan = compose_plan(words)
        if not plan.cells:
            return None
        if plan.resume and not plan.is_sweep:
            raise BadInput("resume: only a sweep can be resumed.", "Add -m, or leave it out.")
        from runner.commands._runs import RunAnswer, SweepAnswer

        if plan.is_sweep:
            return SweepAnswer(plan, words, as_json=as_json)
        return RunAnswer(plan, as_json=as_json, shows_log=shows_log)

    return find_answer(open_answer, is_likely=is_likely_to_measure(words), words=words)
