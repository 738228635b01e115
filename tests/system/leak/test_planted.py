"""Eight planted leaks, one of each kind, are found at their line; five that look like one are none.

Here all in one step, which takes one trial; each alone, ten times: `python -m tests.benchmarks
leak`.
"""

from __future__ import annotations

from pathlib import Path

from runner.compose import composition
from runner.leak import hunt
from runner.leak.findings import Leak
from runner.leak.judgement import judge
from runner.processes.server import TrialServer
from tests.integration.leak import planted
from tests.runs import measure_run, open_whole

PLANTED = "tests/integration/leak/planted.py"


def sought(server: TrialServer, name: str, folder: Path, module: str = planted.__name__) -> Leak:
    """What `leak` says of a planted one, by one timing and one host trial."""
    words = [
        "scenario=callable",
        f"scenario.target={module}:{name}",
        "tracking=none",
    ]
    few = [
        *("measure.timing_processes=1", "measure.memory_processes=0"),
        *("measure.max_seconds=2", "measure.min_steps=30"),
    ]
    cell = composition.compose_plan([*words, *few]).cells[0]
    run = open_whole(hunt.prepare_cell(cell), folder / "run", settles_peak=False)
    measure_run(run, server)
    return judge(run.close())


def leaking_line(name: str, kind: str) -> int:
    """The first line with the comment after the function's own."""
    text = Path(planted.__file__).read_text().splitlines()
    began = next(number for number, line in enumerate(text) if line.startswith(f"def {name}("))
    if name == "callback_cycle":
        began = 0
    return next(
        number + 1
        for number, line in enumerate(text)
        if number > began and line.endswith(f"# leak: {kind}") and (began or "state" in line)
    )


def test_every_planted_leak_is_found_at_its_line_and_called_by_its_kind(
    server: TrialServer, tmp_path: Path
) -> None:
    leak = sought(server, "all_leaks", tmp_path)
    assert leak.verdict == "grows", leak.sentence
    found = {(each.kind, each.line) for each in leak.holders if each.file == PLANTED}
    planted_ones = {(kind, leaking_line(name, kind)) for name, kind in planted.LEAKS.items()}
    assert planted_ones <= found
    assert leak.holders[0].where in leak.sentence


def test_what_only_looks_like_a_leak_is_not_accused(server: TrialServer, tmp_path: Path) -> None:
    leak = sought(server, "no_leaks", tmp_path)
    assert leak.verdict != "grows", leak.sentence
    assert not [each for each in leak.holders if each.kind != "malloc"]


def test_what_was_taken_past_the_tracer_is_not_called_flat(
    server: TrialServer, tmp_path: Path
) -> None:
    leak = sought(server, "past_the_tracer", tmp_path)
    assert leak.verdict == "unclear", leak.sentence
