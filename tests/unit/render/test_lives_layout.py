"""Where each band lies: the upper edge is the curve of live bytes, and no band jumps needlessly."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from runner.allocations import Curve, Lives, TensorBand
from runner.render.html import lives_layout
from tests.unit.render.lives import KNOWN, KNOWN_PEAK, make_lives

moments = st.integers(0, 12)


@st.composite
def some_lives(draw: st.DrawFn) -> Lives:
    """Bands that are born before or in the step and die in or after it, and a rest."""
    bands = []
    for number in range(draw(st.integers(0, 12))):
        born = draw(st.none() | moments)
        died = draw(st.none() | st.integers((born or 0) + 1, 13))
        size = draw(st.integers(1, 1000))
        bands.append(TensorBand(number % 4, "passing", born, died, draw(st.integers(1, 3)), size))
    times = sorted(draw(st.sets(moments, max_size=5)))
    rest = Curve(tuple(map(float, times)), tuple(draw(st.integers(0, 99)) for _ in times))
    return make_lives(*bands, end=12.0, peak=float(draw(moments)), rest=rest, rest_count=len(times))


def live_bytes(its: Lives, time: float) -> int:
    """By its definition."""
    rest = [size for at, size in its.rest.points if at <= time]
    alive = (
        band.bytes
        for band in its.bands
        if (band.born_seconds is None or band.born_seconds <= time)
        and (band.died_seconds is None or time < band.died_seconds)
    )
    return sum(alive) + (rest[-1] if rest else 0)


@given(some_lives())
def test_at_each_event_the_upper_edge_is_the_live_bytes(its: Lives) -> None:
    stack = lives_layout.stack_bands(its)
    assert stack.sum_levels() == [live_bytes(its, time) for time in stack.events]
    for event, level in enumerate(stack.sum_levels()):
        tops = [(below, below + placed.band.bytes) for placed, below in stack.list_live(event)]
        assert all(one[1] == other[0] for one, other in pairwise(tops))  # no gap, no overlap
        assert (tops[-1][1] if tops else 0) + stack.rest[event] == level


@given(some_lives())
def test_between_two_events_nothing_changes(its: Lives) -> None:
    stack = lives_layout.stack_bands(its)
    levels = stack.sum_levels()
    for (begin, end), level in zip(pairwise(stack.events), levels, strict=False):
        assert live_bytes(its, (begin + end) / 2) == level


@given(some_lives())
def test_a_band_moves_only_for_one_that_its_life_overlaps_and_once(its: Lives) -> None:
    stack = lives_layout.stack_bands(its)
    for low, high in combinations(stack.bands, 2):
        together = range(max(low.born, high.born), min(low.died, high.died))
        crossing = bool(together) and (
            low.born < high.born < low.died < high.died
            or high.born < low.born < high.died < low.died
        )
        # What lies higher moves when what lies lower comes or goes while it is there.
        moves = (high.born < low.born < high.died) + (high.born < low.died < high.died)
        assert moves == crossing


@given(some_lives(), st.integers(0, 12))
def test_fewer_bands_leave_the_upper_edge_as_it_is(its: Lives, most: int) -> None:
    fewer = lives_layout.keep_largest(its, most)
    assert len(fewer.bands) == min(most, len(its.bands))
    tensors = sum(band.tensors for band in its.bands) + its.rest_count
    assert sum(band.tensors for band in fewer.bands) + fewer.rest_count == tensors
    before, after = lives_layout.stack_bands(its), lives_layout.stack_bands(fewer)
    levels = dict(zip(after.events, after.sum_levels(), strict=True))
    for time, level in zip(before.events, before.sum_levels(), strict=True):
        assert levels[max(each for each in levels if each <= time)] == level


def test_bands_that_stay_are_those_that_were_large_for_long() -> None:
    assert [band.bytes for band in lives_layout.keep_largest(KNOWN, 2).bands] == [40_000, 51_200]


def test_what_lives_longest_lies_lowest() -> None:
    stack = lives_layout.stack_bands(KNOWN)
    sizes = [band.bytes for band, _, _ in stack.bands]
    assert sizes == [40_000, 4, 51_200, 51_200, 102_400, 51_200]
    assert stack.sum_levels()[stack.peak] == KNOWN_PEAK
    assert [below for _, below in stack.list_live(stack.peak)] == [0, 40_000, 91_200, 142_400]


def test_a_step_without_any_tensor_is_an_empty_stack() -> None:
    stack = lives_layout.stack_bands(make_lives())
    assert stack.sum_levels() == [0]
    assert list(stack.list_live(0)) == []


def test_layers_are_told_apart_as_deep_as_few_of_them_hold_most() -> None:
    assert lives_layout.find_layer_depth(lives_layout.stack_bands(KNOWN)) == 3
    names = {lives_layout.find_layer(kind, 3) for kind in KNOWN.kinds}
    assert names == {"net/dense/kernel", "net/dense", ""}
