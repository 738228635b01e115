"""A run or a sweep: the command without a verb."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from runner.commands import SETTINGS, Parser, list_verbs
from runner.errors import BadInput

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
    # Not for --help.
    from runner.engine.preload import find_environment, is_likely_to_measure, preload

    started = time.monotonic()
    with preload(is_likely_to_measure(words), find_environment(words)) as server:
        # Imported late: TensorFlow is loading meanwhile.
        from runner.commands._planning import compose_plan

        plan = compose_plan(words)
        if not plan.cells:
            return 0

        # Imported only now, so that a mistake in the words is answered fast.
        from runner.commands._measurement import measure_and_print
        from runner.engine import folders
        from runner.engine.events import Result
        from runner.engine.grid import Grid
        from runner.engine.requests import Executor, Source
        from runner.engine.scheduler import LocalExecutor
        from runner.render.listeners import LogEcho, SweepFilesListener, has_records
        from runner.render.text.progress import Progress
        from runner.render.text.run_summary import summarize_run
        from runner.render.text.sweep_summary import summarize_sweep

        if plan.resume and not plan.is_sweep:
            raise BadInput("resume: only a sweep can be resumed.", "Add -m, or leave it out.")
        folder = folders.choose_folder("sweeps" if plan.is_sweep else "runs", plan.resume, "sweep")
        files = SweepFilesListener() if plan.is_sweep else None

        def render(result: Result) -> str:
            if not has_records(folder):  # the server was lost at once, or the disk is full
                return ""
            if as_json:
                return _write_json(folder, plan.is_sweep)
            seconds = time.monotonic() - started
            if files:
                return summarize_sweep(plan, result, seconds, files.report)
            return summarize_run(folder, seconds)

        source: Source = Grid(plan)
        executor: Executor = LocalExecutor(server)
        if plan.cluster:
            from runner.engine.cluster.executor import ClusterExecutor  # with Dask

            executor = ClusterExecutor(plan.cluster)
        if plan.search:
            from runner.compose.words import mask_override
            from runner.search.source import SearchSource  # with Optuna

            source = SearchSource(plan, [mask_override(word) for word in words])
            executor.check([cell.experiment for cell in plan.cells], source.must_have_device)
        return measure_and_print(
            source,
            folder,
            executor,
            render,
            progress=Progress(plan),
            tracking=plan.cells[0].experiment.tracking,
            files=files,
            echo=LogEcho() if shows_log else None,
            shows_store=not as_json,
        ).exit_code


def _write_json(folder: Path, is_sweep: bool) -> str:
    """Return the record of a run, or a list of a sweep's, each with its folder and without what
    only `record.json` has: the trials, and what was live at the peak."""
    import msgspec

    from runner import records

    readable, _ = records.read_each(records.find(folder), records.read_brief)
    rows = []
    for path, record in readable:
        row = {"folder": str(path.resolve()), **msgspec.to_builtins(record)}
        del row["trials"], row["allocations"]
        rows.append(row)
    return json.dumps(rows if is_sweep else rows[0], indent=1, allow_nan=False)
