"""A run asks for as many memory trials as its peak needs, and decides alike when opened again."""

from __future__ import annotations

from pathlib import Path

from runner.compose import composition
from runner.engine.run import Run
from runner.records import Trial
from tests.factories import memory_trial, timing_trial
from tests.runs import open_whole


def opened(folder: Path) -> Run:
    words = ["scenario=python_loop", "execution=graph", "tracking=none"]
    return open_whole(composition.compose_plan(words).cells[0], folder)


def trial(index: int, peaks: list[float]) -> Trial:
    return memory_trial(peaks[index], index=index, graph_ops=True, course=str(peaks[index]))


def gone_through(run: Run, peaks: list[float], most: int = 99) -> list[tuple[str, int]]:
    asked: list[tuple[str, int]] = []
    while (spec := run.next) is not None and len(asked) < most:
        asked.append((spec.kind, spec.index))
        done = trial(spec.index, peaks) if spec.kind == "memory" else timing_trial()
        run.add_trial(done)
    return asked


MOVES = [1e6, 1.1e6, 1e6, 1.2e6, *[1e6] * 8]


def test_a_moving_peak_is_settled_before_any_timing(
    tmp_path: Path,
) -> None:
    asked = gone_through(opened(tmp_path), MOVES)
    assert asked[:8] == [("memory", number) for number in range(8)]
    assert {kind for kind, _ in asked[8:]} == {"timing"}


def test_a_run_cut_short_asks_for_the_same_again(tmp_path: Path) -> None:
    whole = gone_through(opened(tmp_path / "whole"), MOVES)
    for cut in (1, 5, 8, 9):
        folder = tmp_path / str(cut)
        before = gone_through(opened(folder), MOVES, most=cut)
        assert before + gone_through(opened(folder), MOVES) == whole


def test_a_steady_peak_takes_one_trial(tmp_path: Path) -> None:
    run = opened(tmp_path)
    run.add_trial(memory_trial(graph_ops=False, course="a"))
    assert run.next is not None
    assert run.next.kind == "timing"
