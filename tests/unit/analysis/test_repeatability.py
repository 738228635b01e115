"""How many memory trials a peak needs: what the trials that there are say."""

from __future__ import annotations

from runner.analysis.repeatability import MOST, needs_more_trials
from runner.records import Trial
from tests.factories import memory_trial


def graph(*peaks: float, courses: str = "abcdefghijklmnop") -> list[Trial]:
    return [
        memory_trial(peak, index=i, graph_ops=True, course=courses[i])
        for i, peak in enumerate(peaks)
    ]


def test_where_no_graph_runs_one_trial_is_enough() -> None:
    assert not needs_more_trials([memory_trial(graph_ops=False, course="a")], "eager")


def test_under_xla_one_trial_is_enough() -> None:
    assert not needs_more_trials(graph(1e6), "xla")


def test_a_graph_that_takes_the_same_course_in_six_processes_repeats() -> None:
    assert needs_more_trials(graph(*[1e6] * 5, courses="aaaaa"), "graph")
    assert not needs_more_trials(graph(*[1e6] * 6, courses="aaaaaa"), "graph")


def test_a_graph_in_an_eager_step_is_a_graph() -> None:
    assert needs_more_trials(graph(1e6), "eager")


def test_it_goes_on_until_four_in_a_row_bring_nothing_new() -> None:
    assert needs_more_trials(graph(*[1e6] * 6), "graph")
    assert not needs_more_trials(graph(*[1e6] * 7), "graph")
    assert needs_more_trials(graph(*[1e6] * 6, 1.1e6), "graph")
    assert not needs_more_trials(graph(*[1e6] * 3, 1.1e6, *[1e6] * 4), "graph")


def test_it_ends() -> None:
    peaks = [1e6 * 1.1**number for number in range(MOST)]
    assert needs_more_trials(graph(*peaks[:-1]), "graph")
    assert not needs_more_trials(graph(*peaks), "graph")


def test_an_older_record_says_nothing_of_its_course_and_is_let_be() -> None:
    assert not needs_more_trials([memory_trial()], "graph")
