"""Eight planted leaks, one of each kind, are found at their line; five that look like one are none.

Ten times each: `python -m tests.benchmarks leak`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.composing import composition
from runner.isolation.server import Server
from runner.judging.leak import Leak, judge
from runner.leak import cells
from runner.running import environment, lifecycle
from tests.leak import planted


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


@pytest.mark.parametrize(("name", "kind"), planted.LEAKS.items())
def test_a_planted_leak_is_found_at_its_line_and_called_by_its_kind(
    name: str, kind: str, server: Server, tmp_path: Path
) -> None:
    leak = sought(server, name, tmp_path)
    assert leak.verdict == "grows", leak.sentence
    first = leak.holders[0]
    assert first.kind == kind
    assert first.file is not None
    assert first.file.endswith("tests/leak/planted.py")
    assert first.line == leaking_line(name, kind)
    assert str(first.line) in leak.sentence


@pytest.mark.parametrize("name", planted.NO_LEAKS)
def test_what_only_looks_like_a_leak_is_not_accused(
    name: str, server: Server, tmp_path: Path
) -> None:
    leak = sought(server, name, tmp_path)
    assert leak.verdict in ("flat", "fills"), leak.sentence
    assert not [each for each in leak.holders if each.kind != "malloc"]
