"""How memory follows a swept number: laws that are known, and points drawn from them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.analysis.law import Law, Shape, find_law
from runner.analysis.tolerance import Tolerance, find_tolerance
from runner.metrics import METRICS

SIZES = (10, 25, 50, 100)
PEAKS = find_tolerance(METRICS["tensor_peak_bytes"])
WHOLE = st.integers(min_value=1, max_value=10**12)


def of(function: object, sizes: tuple[float, ...] = SIZES) -> Law:
    assert callable(function)
    found = find_law(((x, function(x)) for x in sizes), PEAKS)
    assert found is not None
    return found


def test_two_sizes_tell_no_law() -> None:
    assert find_law([(10, 100), (20, 200)], PEAKS) is None
    assert find_law([(10, 100), (20, 200), (20, 200)], PEAKS) is None


def test_the_same_bytes_at_every_size_are_flat() -> None:
    found = of(lambda x: 91_204)
    assert found.describe("iterations") == "flat"
    assert found.exact
    assert found.exponent == 0


def test_what_differs_by_less_than_compare_tells_apart_is_flat_but_not_exactly() -> None:
    found = of(lambda x: 10_000_000 + 100 * x)
    assert found.describe("iterations") == "flat"
    assert not found.exact


def test_a_constant_and_a_slope_are_linear_to_the_byte_though_the_logarithms_slope_is_less() -> (
    None
):
    found = of(lambda x: 5_000_000 + 12_800 * x)
    assert found.describe("iterations") == "linear in iterations"
    assert found.write_formula("iterations") == "5.00 MB + 12.8 kB · iterations"
    assert found.polynomial == (5_000_000, 12_800)
    assert found.exact
    assert found.exponent is not None
    assert 0 < found.exponent < 0.2


def test_one_byte_off_a_line_is_linear_but_not_exactly() -> None:
    found = of(lambda x: 1_000 + 12_800 * x + (x == 50))
    assert found.describe("batch") == "linear in batch"
    assert not found.exact


def test_a_straight_line_downwards_falls() -> None:
    assert of(lambda x: 2_000_000 - 12_800 * x).describe("block") == "falls, linear in block"


@pytest.mark.parametrize("power", [1.5, 3, 0.5])
def test_a_pure_power_has_its_exponent(power: float) -> None:
    found = of(lambda x: 4_096 * x**power, (16, 64, 256))
    assert found.shape is Shape.POWER
    assert found.exponent == pytest.approx(power)
    assert found.describe("size") == f"size^{power:g}"


def test_four_sizes_tell_a_quadratic_with_all_its_parts() -> None:
    found = of(lambda x: 40_000 + 12_800 * x + 4 * x**2)
    assert found.describe("size") == "quadratic in size"
    assert found.polynomial == (40_000, 12_800, 4)
    assert found.write_formula("size") == "40.0 kB + 12.8 kB · size + 4 B · size²"


def test_three_sizes_tell_a_square_with_a_constant_part_but_no_parabola() -> None:
    found = of(lambda x: 40_000 + 400 * x**2, (10, 100, 1000))
    assert (found.shape, found.exact) == (Shape.QUADRATIC, True)
    assert found.write_formula("size") == "40.0 kB + 400 B · size²"
    assert of(lambda x: 12_800 * x + 100 * x**2, (10, 100, 1000)).polynomial == ()


def test_a_step_up_is_no_power_and_says_between_which() -> None:
    found = find_law([(1, 1_000), (10, 1_000), (100, 1_000_000), (1000, 1_000_000)], PEAKS)
    assert found is not None
    assert found.describe("batch") == "no single power: batch^0 to batch^3"


def test_a_size_of_zero_has_no_logarithm_and_may_still_be_linear() -> None:
    found = of(lambda x: 1_000 + 4_000 * x, (0, 1, 2))
    assert found.exponent is None
    assert found.describe("depth") == "linear in depth"


def test_zero_bytes_everywhere_are_flat() -> None:
    assert of(lambda x: 0).describe("batch") == "flat"


@given(st.lists(WHOLE, min_size=3, max_size=8, unique=True), WHOLE, WHOLE)
def test_every_line_of_whole_numbers_is_found_to_the_byte(
    sizes: list[int], constant: int, slope: int
) -> None:
    found = find_law(((x, constant + slope * x) for x in sizes), PEAKS)
    assert found is not None
    if found.shape is not Shape.FLAT:
        assert (found.shape, found.exact) == (Shape.LINEAR, True)
        assert found.polynomial == (Fraction(constant), Fraction(slope))


@given(st.lists(st.tuples(WHOLE, WHOLE), min_size=3, max_size=8, unique_by=lambda point: point[0]))
def test_any_points_at_all_have_words_and_the_order_does_not_matter(
    points: list[tuple[int, int]],
) -> None:
    found = find_law(points, PEAKS)
    assert found is not None
    assert found.describe("x")
    assert found.write_formula("x") == "" or found.polynomial
    assert find_law(reversed(points), PEAKS) == found


@pytest.mark.parametrize(
    ("shape", "figures"),
    [
        (Shape.FLAT, [70_000, 70_008, 70_004]),
        (Shape.LINEAR, [10_000 + 400 * size for size in (100, 200, 400)]),
        (Shape.QUADRATIC, [10_000 + 4 * size**2 for size in (100, 200, 400)]),
        (Shape.EXPONENTIAL, [10_000 * 1.02**size for size in (100, 200, 400)]),
        (Shape.POWER, [40 * size**1.5 for size in (100, 200, 400)]),
    ],
)
def test_each_law_is_told_from_the_others(shape: Shape, figures: list[float]) -> None:
    found = find_law(zip((100, 200, 400), figures, strict=True), PEAKS)
    assert found is not None
    assert found.shape is shape
    assert found.rises == (shape is not Shape.FLAT)


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        # Where three laws used to answer: flat, and size^0.032.
        ([1_000_000, 1_030_000, 1_045_000], "no single power: size^0.021 to size^0.043"),
        # Grows, and flat: the difference is within 256 bytes.
        ([1_000, 1_100, 1_240], "flat"),
        # Exponential for claims, as any line is that has a large constant; linear for the report.
        ([1_100_000, 1_200_000, 1_400_000], "linear in size"),
        # Linear for claims, whose slopes agreed within a tenth; a power for the report.
        ([100**1.13 * 1e4, 200**1.13 * 1e4, 400**1.13 * 1e4], "size^1.1"),
    ],
)
def test_where_three_laws_contradicted_each_other_one_answers(
    figures: list[float], words: str
) -> None:
    found = find_law(zip((100, 200, 400), figures, strict=True), PEAKS)
    assert found is not None
    assert found.describe("size") == words


@pytest.mark.parametrize(("off", "shape"), [(0.9, Shape.LINEAR), (2.5, Shape.UNCLEAR)])
def test_a_point_may_be_off_the_line_by_a_hundredth_of_the_rise(off: float, shape: Shape) -> None:
    figures = [10e6, 20e6 + off * 0.01 * 30e6, 30e6, 40e6]
    found = find_law(zip((1, 2, 3, 4), figures, strict=True), Tolerance(0.0, 0.0))
    assert found is not None
    assert found.shape is shape


def test_what_is_flat_is_what_compare_calls_the_same() -> None:
    figures = [1_000_000.0, 1_004_000.0, 1_005_000.0]
    for name, metric in METRICS.items():
        found = find_law(zip((1, 2, 3), figures, strict=True), find_tolerance(metric))
        assert found is not None
        assert (found.shape is Shape.FLAT) == find_tolerance(metric).same(figures), name
    assert not find_tolerance(METRICS["graph_nodes"]).same([57, 58])
    assert find_tolerance(METRICS["host_peak_bytes"]).same([20e6, 20.9e6])
