"""A run asks for as many memory trials as its peak needs, and decides alike when opened again."""

from __future__ import annotations

from pathlib import Path

from runner.composing import composition
from runner.records import Trial
from runner.running import lifecycle
from runner.running.lifecycle import Run
from tests.factories import memory_trial, timing_trial


def opened(folder: Path) -> Run:
    words = ["scenario=python_loop", "execution=graph", "tracking=none"]
    return lifecycle.open_run(composition.plan(words, folder).cells[0], folder)


def trial(index: int, peaks: list[float]) -> Trial:
    return memory_trial(peaks[index], index=index, graph_ops=True, course=str(peaks[index]))


def gone_through(run: Run, peaks: list[float], most: int = 99) -> list[tuple[str, int]]:
    asked: list[tuple[str, int]] = []
    while (assignment := run.next) is not None and len(asked) < most:
        asked.append((assignment.kind, assignment.index))
        done = trial(assignment.index, peaks) if assignment.kind == "memory" else timing_trial()
        lifecycle.add_trial(run, done)
    return asked


MOVES = [1e6, 1.1e6, 1e6, 1.2e6, *[1e6] * 8]


def test_a_peak_that_moves_is_looked_at_until_nothing_new_comes_and_before_any_timing(
    tmp_path: Path,
) -> None:
    asked = gone_through(opened(tmp_path), MOVES)
    assert asked[:8] == [("memory", number) for number in range(8)]
    assert {kind for kind, _ in asked[8:]} == {"timing"}


def test_a_run_that_was_cut_short_asks_for_the_same_when_it_is_opened_again(tmp_path: Path) -> None:
    whole = gone_through(opened(tmp_path / "whole"), MOVES)
    for cut in (1, 5, 8, 9):
        folder = tmp_path / str(cut)
        before = gone_through(opened(folder), MOVES, most=cut)
        assert before + gone_through(opened(folder), MOVES) == whole


def test_a_peak_that_does_not_move_takes_the_one_trial_that_was_planned(tmp_path: Path) -> None:
    run = opened(tmp_path)
    lifecycle.add_trial(run, memory_trial(graph_ops=False, course="a"))
    assert run.next is not None
    assert run.next.kind == "timing"
