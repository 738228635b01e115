"""Eight planted leaks, one of each kind, are found at their line; five that look like one are none.

Here all in one step, which takes one trial; each alone, ten times: `python -m tests.benchmarks
leak`.
"""

from __future__ import annotations

from pathlib import Path

from runner.composing import composition
from runner.isolation.server import Server
from runner.judging.leak import Leak, judge
from runner.leak import cells
from runner.running import environment, lifecycle
from tests.leak import planted

PLANTED = "tests/leak/planted.py"


def sought(server: Server, name: str, folder: Path) -> Leak:
    """What `leak` says of a planted one, by one timing and one host trial."""
    words = ["scenario=callable", f"scenario.target=tests.leak.planted:{name}", "tracking=none"]
    few = [
        *("measure.timing_processes=1", "measure.memory_processes=0"),
        *("measure.max_seconds=2", "measure.min_steps=30"),
    ]
    cell = composition.plan([*words, *few], folder / "sweep").cells[0]
    run = lifecycle.open_run(cells.to_measure(cell), folder / "run")
    while (assignment := run.next) is not None:
        trial = server.run(assignment, 300)
        assert trial.outcome.completed, trial.outcome
        lifecycle.add_trial(run, trial)
    return judge(lifecycle.close_run(run, environment.describe()))


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
    server: Server, tmp_path: Path
) -> None:
    leak = sought(server, "all_leaks", tmp_path)
    assert leak.verdict == "grows", leak.sentence
    found = {(each.kind, each.line) for each in leak.holders if each.file == PLANTED}
    planted_ones = {(kind, leaking_line(name, kind)) for name, kind in planted.LEAKS.items()}
    assert planted_ones <= found
    assert leak.holders[0].where in leak.sentence


def test_what_only_looks_like_a_leak_is_not_accused(server: Server, tmp_path: Path) -> None:
    leak = sought(server, "no_leaks", tmp_path)
    assert leak.verdict != "grows", leak.sentence
    assert not [each for each in leak.holders if each.kind != "malloc"]


def test_what_was_taken_past_the_tracer_is_not_called_flat(server: Server, tmp_path: Path) -> None:
    leak = sought(server, "past_the_tracer", tmp_path)
    assert leak.verdict == "unclear", leak.sentence
