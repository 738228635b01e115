"""How memory follows a swept number: laws that are known, and points drawn from them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.judging.law import Law, Shape, law

SIZES = (10, 25, 50, 100)
WHOLE = st.integers(min_value=1, max_value=10**12)


def of(function: object, sizes: tuple[float, ...] = SIZES) -> Law:
    assert callable(function)
    found = law((x, function(x)) for x in sizes)
    assert found is not None
    return found


def test_two_sizes_tell_no_law() -> None:
    assert law([(10, 100), (20, 200)]) is None
    assert law([(10, 100), (20, 200), (20, 200)]) is None


def test_the_same_bytes_at_every_size_are_flat() -> None:
    found = of(lambda x: 91_204)
    assert found.words("iterations") == "flat"
    assert found.exact
    assert found.exponent == 0


def test_what_differs_by_less_than_compare_tells_apart_is_flat_but_not_exactly() -> None:
    found = of(lambda x: 10_000_000 + 100 * x)
    assert found.words("iterations") == "flat"
    assert not found.exact


def test_a_constant_and_a_slope_are_linear_to_the_byte_though_the_logarithms_slope_is_less() -> (
    None
):
    found = of(lambda x: 5_000_000 + 12_800 * x)
    assert found.words("iterations") == "linear in iterations"
    assert found.formula("iterations") == "5.00 MB + 12.8 kB · iterations"
    assert found.polynomial == (5_000_000, 12_800)
    assert found.exact
    assert found.exponent is not None
    assert 0 < found.exponent < 0.2


def test_one_byte_off_a_line_is_linear_but_not_exactly() -> None:
    found = of(lambda x: 1_000 + 12_800 * x + (x == 50))
    assert found.words("batch") == "linear in batch"
    assert not found.exact


def test_a_straight_line_downwards_falls() -> None:
    assert of(lambda x: 2_000_000 - 12_800 * x).words("block") == "falls, linear in block"


@pytest.mark.parametrize("power", [2, 1.5, 3, 0.5])
def test_a_pure_power_has_its_exponent(power: float) -> None:
    found = of(lambda x: 4_096 * x**power, (16, 64, 256))
    assert found.shape is Shape.POWER
    assert found.exponent == pytest.approx(power)
    assert found.words("size") == f"size^{power:g}"


def test_four_sizes_tell_a_quadratic_with_all_its_parts() -> None:
    found = of(lambda x: 40_000 + 12_800 * x + 4 * x**2)
    assert found.words("size") == "quadratic in size"
    assert found.polynomial == (40_000, 12_800, 4)
    assert found.formula("size") == "40.0 kB + 12.8 kB · size + 4 B · size²"


def test_three_sizes_do_not_tell_a_quadratic_that_always_fits_three() -> None:
    assert of(lambda x: 40_000 + 400 * x**2, (10, 100, 1000)).polynomial == ()


def test_a_step_up_is_no_power_and_says_between_which() -> None:
    found = law([(1, 1_000), (10, 1_000), (100, 1_000_000), (1000, 1_000_000)])
    assert found is not None
    assert found.words("batch") == "no single power: batch^0 to batch^3"


def test_a_size_of_zero_has_no_logarithm_and_may_still_be_linear() -> None:
    found = of(lambda x: 1_000 + 4_000 * x, (0, 1, 2))
    assert found.exponent is None
    assert found.words("depth") == "linear in depth"


def test_zero_bytes_everywhere_are_flat() -> None:
    assert of(lambda x: 0).words("batch") == "flat"


@given(st.lists(WHOLE, min_size=3, max_size=8, unique=True), WHOLE, WHOLE)
def test_every_line_of_whole_numbers_is_found_to_the_byte(
    sizes: list[int], constant: int, slope: int
) -> None:
    found = law((x, constant + slope * x) for x in sizes)
    assert found is not None
    if found.shape is not Shape.FLAT:
        assert (found.shape, found.exact) == (Shape.LINEAR, True)
        assert found.polynomial == (Fraction(constant), Fraction(slope))


@given(st.lists(st.tuples(WHOLE, WHOLE), min_size=3, max_size=8, unique_by=lambda point: point[0]))
def test_any_points_at_all_have_words_and_the_order_does_not_matter(
    points: list[tuple[int, int]],
) -> None:
    found = law(points)
    assert found is not None
    assert found.words("x")
    assert found.formula("x") == "" or found.polynomial
    assert law(reversed(points)) == found
