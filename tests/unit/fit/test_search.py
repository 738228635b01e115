"""The search for the largest value that fits: exact in every world, and cheap in most."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.fit import bfc, search
from runner.fit.bfc import Requests
from runner.fit.search import FoundLimit, LimitSearch, Probe
from tests.unit.fit.bisection import bisection

MEGABYTE = 1_000_000
Sequenced = Callable[[int], Requests]


class World:
    """Where it is known what fits: an allocator under a cap, and what a value asks it for."""

    def __init__(self, asks: Sequenced, cap_bytes: int) -> None:
        self.asks = asks
        self.cap_bytes = cap_bytes

    def __call__(self, value: int, *, whole: bool) -> Probe:
        asked = self.asks(value)
        if not bfc.can_fit(asked, asked.bytes, self.cap_bytes):
            return Probe(value, fits=False, whole=whole)
        return Probe(value, True, most_live(asked), asked, whole)

    def answer(self, near: int) -> tuple[bool, bool]:
        asked, more = self.asks(near), self.asks(near + 1)
        return bfc.can_fit(asked, asked.bytes, self.cap_bytes), bfc.can_fit(
            more, more.bytes, self.cap_bytes
        )


def most_live(asked: Requests) -> int:
    live = most = 0
    there: set[int] = set()
    for number in asked.order:
        there ^= {number}
        live += asked.bytes[number] if number in there else -asked.bytes[number]
        most = max(most, live)
    return most


def training(layers: int, width: int, fixed: int = 512) -> Sequenced:
    """Weights that stay; in each of three steps activations forward, and back again."""

    def asks(batch: int) -> Requests:
        sizes: list[int] = []
        labels: list[str] = []
        order: list[int] = []

        def make(size: int, label: str) -> int:
            sizes.append(size)
            labels.append(label)
            order.append(len(sizes) - 1)
            return len(sizes) - 1

        for layer in range(layers):
            make(4 * fixed * fixed, f"weight {layer}")
        for _ in range(3):
            kept = []
            for layer in range(layers):
                product = make(4 * batch * width * (1 + layer % 3), f"MatMul {layer}")
                kept.append(make(4 * batch * width * (1 + layer % 3), f"Relu {layer}"))
                order.append(product)
            for layer in reversed(range(layers)):
                gradient = make(4 * fixed * fixed, f"gradient {layer}")
                order.append(kept[layer])
                order.append(gradient)
        return Requests(tuple(sizes), tuple(labels), tuple(order))

    return asks


def taped_loop(size: int) -> Sequenced:
    """A state an iteration, all of them kept until the step ends."""

    def asks(iterations: int) -> Requests:
        states = range(1, iterations + 2)
        numbers = (0, *states, *states)
        return Requests(
            (4 * size * size,) * (iterations + 2), ("MatMul",) * (iterations + 2), numbers
        )

    return asks


def square(size: int) -> Requests:
    """Two matrices and their product."""
    return Requests((4 * size * size,) * 3, ("Fill", "Fill", "MatMul"), (0, 1, 2, 2, 1, 0))


def search_with(
    probe: Callable[..., Probe], cap_bytes: int | None, start: int, **options: int
) -> FoundLimit:
    """Have every value that the search asks for probed."""
    attempts = LimitSearch(cap_bytes, **options).run(start)
    try:
        attempt = next(attempts)
        while True:
            attempt = attempts.send(probe(attempt.value, whole=attempt.whole))
    except StopIteration as end:
        result: FoundLimit = end.value
        return result


def found(world: World, start: int = 32, **options: int) -> FoundLimit:
    return search_with(world, world.cap_bytes, start, **options)


def failing(result: FoundLimit) -> int:
    return sum(not probe.fits for probe in result.probes)


WORLDS = {
    "small batches": (World(training(12, 4096), 512 * MEGABYTE), 32),
    "large batches": (World(training(3, 64), 64 * MEGABYTE), 32),
    "one layer": (World(training(1, 1), 64 * MEGABYTE), 32),
    "the allocator's regions matter": (World(training(2, 4000), 64 << 20), 32),
    "iterations of a taped loop": (World(taped_loop(1000), 64 << 20), 4),
    "iterations whose number changes the limit's regions": (World(taped_loop(200), 64 << 20), 100),
    "a square": (World(square, 64 << 20), 100),
    "starts with what does not fit": (World(training(12, 4096), 512 * MEGABYTE), 5000),
    "starts with the answer": (World(training(2, 4000), 64 << 20), 524),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_answer_fits_and_the_next_value_was_seen_to_fail(name: str) -> None:
    world, start = WORLDS[name]
    result = found(world, start)
    assert result.largest is not None
    assert world.answer(result.largest) == (True, False)
    assert result.fails == result.largest + 1
    assert any(p.value == result.fails and not p.fits for p in result.probes)
    assert any(p.value == result.largest and p.fits and p.whole for p in result.probes)


@pytest.mark.parametrize("name", WORLDS)
def test_the_search_takes_few_probes_and_one_that_fails(name: str) -> None:
    world, start = WORLDS[name]
    result = found(world, start)
    assert result.largest is not None
    assert len(result.probes) <= 9
    is_hard = start >= result.largest / 2 or "number" in name
    assert failing(result) == (2 if is_hard else 1)


@pytest.mark.parametrize("name", [name for name in WORLDS if "batches" in name or "one" in name])
def test_the_law_of_two_batches_is_told_and_used_at_once(name: str) -> None:
    """The third value is what two said, or the furthest that is tried: 16 times the second."""
    world, start = WORLDS[name]
    attempts = LimitSearch(world.cap_bytes, is_batch=True).run(start)
    asked = [next(attempts)]
    with contextlib.suppress(StopIteration):
        while True:
            asked.append(attempts.send(world(asked[-1].value, whole=asked[-1].whole)))
    largest = next(attempt.value for attempt in reversed(asked) if attempt.whole)
    first, second, third, *_ = asked
    assert [attempt.foreseen for attempt in (first, second)] == [None, None]
    assert third.runs == 2
    assert third.foreseen == pytest.approx(largest, rel=0.02)
    assert third.value == min(third.foreseen, 16 * second.value)
    assert len(asked) <= len(found(world, start).probes) + 1


def test_a_square_that_is_taken_for_a_batch_costs_no_more_than_two_failures() -> None:
    world, start = WORLDS["a square"]
    result = found(world, start, is_batch=True)
    assert result.largest is not None
    assert world.answer(result.largest) == (True, False)
    assert failing(result) <= 2


def test_the_search_costs_a_third_of_plain_bisection() -> None:
    """Which is told a range that is at most twice too large. A probe that fails takes ten seconds
    more than one that fits."""
    seconds = plain_seconds = 0
    for world, start in WORLDS.values():
        result = found(world, start)
        assert result.largest is not None
        seconds += len(result.probes) + 10 * failing(result)
        probes, fails = bisection(result.largest, 2 ** (result.largest + 1).bit_length() - 1)
        plain_seconds += probes + 10 * fails
    assert seconds <= plain_seconds / 3


def peaks_of_one_scalar(value: int) -> int:
    return 4


def peaks_in_proportion(value: int) -> int:
    return value


def peaks_beyond_the_cap(value: int) -> int:
    return 10**6 * value


def peaks_that_jump(value: int) -> int:
    return value**3 % 97


def peaks_in_steps(value: int) -> int:
    return 4096 * -(-value // 1000)


WRONG = [
    peaks_of_one_scalar,
    peaks_in_proportion,
    peaks_beyond_the_cap,
    peaks_that_jump,
    peaks_in_steps,
]


@settings(max_examples=300, deadline=None)
@given(answer=st.integers(1, 10**6), start=st.integers(1, 10**6), peaks=st.sampled_from(WRONG))
def test_a_model_that_is_wrong_costs_probes_but_never_the_answer(
    answer: int, start: int, peaks: Callable[[int], int]
) -> None:
    def probe(value: int, *, whole: bool) -> Probe:
        return Probe(value, value <= answer, min(peaks(value), 10**8), None, whole)

    result = search_with(probe, 10**8, start)
    assert (result.largest, result.fails) == (answer, answer + 1)
    assert len(result.probes) < 80


@settings(deadline=None)
@given(
    unit=st.integers(1, 10**4),
    power=st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0]),
    step=st.integers(1, 64),
    start=st.integers(1, 1000),
)
def test_curves_and_steps_are_followed_to_their_limit(
    unit: int, power: float, step: int, start: int
) -> None:
    """What a value needs grows with a power of it, a multiple of some step at a time."""
    cap = 64 << 20

    def needs(value: int) -> int:
        return int(unit * (step * -(-value // step)) ** power)

    def probe(value: int, *, whole: bool) -> Probe:
        fits = needs(value) <= cap
        return Probe(value, fits, needs(value) if fits else None, None, whole)

    result = search_with(probe, cap, start, most=10**7)
    assert result.largest is None or needs(result.largest) <= cap
    if result.largest != 10**7:
        assert result.fails == (result.largest or 0) + 1
        assert needs(result.fails) > cap
    assert len(result.probes) < 40


@given(answer=st.integers(1, 10**6), start=st.integers(0, 10**6))
def test_without_a_cap_to_model_it_doubles_and_closes_in_to_two_per_cent(
    answer: int, start: int
) -> None:
    def probe(value: int, *, whole: bool) -> Probe:
        return Probe(value, value <= answer, 1, None, whole)

    result = search_with(probe, None, start)
    assert result.largest is not None
    assert result.fails is not None
    assert result.largest <= answer < result.fails
    assert result.fails - result.largest <= max(1, result.largest // 50)


def test_what_is_no_matter_of_memory_ends_the_search_at_once() -> None:
    tried = []

    def probe(value: int, *, whole: bool) -> Probe:
        tried.append(value)
        if value > 40:
            raise ZeroDivisionError
        return Probe(value, True, 10**6 * value, None, whole)

    with pytest.raises(ZeroDivisionError):
        search_with(probe, 10**8, 32)
    assert tried == [32, 46]


def test_the_largest_value_asked_for_is_not_exceeded() -> None:
    world, start = WORLDS["large batches"]
    result = found(world, start, most=100)
    assert (result.largest, result.fails) == (100, None)
    assert max(probe.value for probe in result.probes) == 100


def test_a_value_that_memory_does_not_depend_on_is_followed_to_the_largest_there_is() -> None:
    result = search_with(lambda value, *, whole: Probe(value, True, 10, None, whole), 1000, 1)
    assert (result.largest, result.fails) == (search.MOST, None)
    assert len(result.probes) < 20


def test_where_nothing_fits_there_is_no_answer() -> None:
    result = search_with(lambda value, *, whole: Probe(value, False), 1000, 32)
    assert (result.largest, result.fails) == (None, 1)


@pytest.mark.parametrize("varies", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_where_memory_varies_the_answer_is_the_safe_end(seed: int, varies: bool) -> None:
    """A step takes its peak or up to a tenth more, by chance; a whole run has 600 steps. The five
    steps of a memory trial show that, or they don't."""
    chance = random.Random(seed)
    cap = 500 * MEGABYTE
    answer = 400

    def peak(value: int, steps: int) -> int:
        most = max(chance.random() for _ in range(steps)) ** 4
        return int(value * cap / answer * (1 + 0.1 * most))

    def probe(value: int, *, whole: bool) -> Probe:
        highest = peak(value, 600 if whole else 5)
        if highest > cap:
            return Probe(value, False, whole=whole)
        return Probe(value, True, highest, None, whole, varies=varies)

    result = search_with(probe, cap, 32)
    assert result.varies
    assert result.largest is not None
    assert result.fails is not None
    assert 0.93 * answer / 1.1 < result.largest < 1.02 * answer / 1.1
    assert result.largest < result.fails <= 1.05 * result.largest
    whole = [p for p in result.probes if p.value == result.largest and p.whole]
    assert whole
    assert all(p.fits for p in whole)
    assert failing(result) <= (8 if varies else 20)


def test_a_line_through_the_peaks_is_told_as_one() -> None:
    probes = [Probe(v, True, 12_400_000 + 830_000 * v) for v in (32, 64, 500)]
    model = search.fit_model([*probes, Probe(501, False)])
    assert model is not None
    assert (round(model.constant), round(model.linear)) == (12_400_000, 830_000)
    assert model.square == 0


def test_a_square_through_the_peaks_is_told_as_one() -> None:
    model = search.fit_model([Probe(v, True, 12 * v * v) for v in (100, 150, 2000)])
    assert model is not None
    assert model.square == pytest.approx(12)
    assert model(1000) == pytest.approx(12e6)


def test_peaks_that_stay_below_the_cap_where_memory_varies_are_no_parabola() -> None:
    peaks = {32: 72e6, 49: 108e6, 66: 143e6, 104: 223e6, 120: 245e6, 128: 247e6}
    model = search.fit_model([Probe(v, True, int(peak)) for v, peak in peaks.items()])
    assert model is not None
    assert model.square == 0
    assert model.linear == pytest.approx(2e6, rel=0.1)
    assert model.instead is not None
    assert model.instead.describe("batch").startswith("no single power")


def test_peaks_that_the_law_calls_flat_are_one_number() -> None:
    model = search.fit_model([Probe(v, True, 4_000_000 + v) for v in (100, 150, 2000)])
    assert model == search.PeakModel(4_002_000.0, 0.0, 0.0)


@pytest.mark.parametrize("values", [[], [7]])
def test_one_peak_makes_no_model(values: Sequence[int]) -> None:
    assert search.fit_model([Probe(value, True, 1) for value in values]) is None


def test_bisection_of_a_thousand_values_takes_ten_probes_and_one_that_fails_a_bit() -> None:
    assert bisection(0b1010111100, 1023) == (10, 4)
