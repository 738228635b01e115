"""How many memory trials a peak needs: what the trials that there are say."""

from __future__ import annotations

import numpy
import pytest

from runner.analysis.repeatability import (
    ALIKE,
    LEAST,
    MOST,
    bound_higher_peaks,
    count_more_trials,
    needs_more_trials,
)
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


# Where time is bounded, as in `quick`.


def costly(seconds: float, *peaks: float) -> list[Trial]:
    return [
        memory_trial(peak, index=i, graph_ops=True, course=str(i), seconds=seconds)
        for i, peak in enumerate(peaks)
    ]


def test_three_costly_trials_within_one_per_cent_are_enough() -> None:
    assert needs_more_trials(costly(2.0, 1e6, 1e6), "graph", 30.0)
    assert not needs_more_trials(costly(2.0, 1e6, 1.009e6, 1e6), "graph", 30.0)
    assert not needs_more_trials(costly(2.0, 1_000, 1_200, 1_000), "graph", 30.0), "256 bytes are"
    assert needs_more_trials(costly(2.0, 1e6, 1.012e6, 1e6), "graph", 30.0)


def test_cheap_trials_go_on_until_the_peak_is_known() -> None:
    assert needs_more_trials(costly(0.1, 1e6, 1e6, 1e6), "graph", 30.0)


def test_without_a_bound_costly_trials_go_on() -> None:
    assert needs_more_trials(costly(60.0, 1e6, 1e6, 1e6), "graph")


def test_no_trial_is_added_that_would_take_them_beyond_the_bound() -> None:
    assert not needs_more_trials(costly(31.0, 1e6), "graph", 30.0)
    assert needs_more_trials(costly(14.0, 1e6, 1.5e6), "graph", 30.0)
    assert not needs_more_trials(costly(14.0, 1e6, 1.5e6, 1e6), "graph", 30.0)


def test_how_many_more_there_will_be_follows_from_the_last_one() -> None:
    assert count_more_trials(graph(1e6), "graph") == ALIKE - 1
    assert count_more_trials(costly(2.0, 1e6), "graph", 30.0) == 2
    assert count_more_trials(costly(2.0, 1e6, 1.5e6), "graph", 30.0) == LEAST - 2
    assert count_more_trials([memory_trial(graph_ops=False)], "eager", 30.0) == 0


@pytest.mark.parametrize("processes", [1, 3, 4, 7, 12, 50])
def test_the_share_of_higher_peaks_is_bounded_in_19_of_20_tries(processes: int) -> None:
    """Peaks of no particular distribution: what counts is how many lie above the highest seen."""
    generator = numpy.random.default_rng(1)
    bound = 1 / bound_higher_peaks(processes)
    # The quantile of the highest of n uniform draws is the share that lies below it.
    above = 1 - generator.random((20_000, processes)).max(axis=1)
    assert (above <= bound).mean() >= 0.945


def test_few_processes_bound_nothing_and_many_do() -> None:
    assert [bound_higher_peaks(count) for count in (1, 4, 5, 7, 11, 12)] == [1, 1, 2, 2, 4, 4]
