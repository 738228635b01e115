"""What `tf.function` does to memory, in units of M, the bytes of one [size, size] tensor.

A number that an op is given beside its tensors becomes a tensor too: a few bytes in all, kept by a
graph, gone after the op in eager mode. `units` takes them off.
"""

from __future__ import annotations

import pytest

from tests.conftest import MeasureWords

SIZE = 97
M = SIZE * SIZE * 4


def units(value: float | None, aside: int = 64) -> int:
    """Whole tensors in so many bytes, with no more than `aside` bytes left over."""
    assert value is not None
    count, left = divmod(int(value), M)
    assert left <= aside, f"{count} M and {left} bytes"
    return count


class TestLargeTensor:
    def large(self, measure: MeasureWords, *words: str) -> dict[str, float | None]:
        return measure("scenario=large_tensor", f"scenario.size={SIZE}", *words).metrics

    @pytest.mark.parametrize("execution", ["eager", "graph", "xla"])
    def test_the_first_call_takes_no_more_tensor_memory_than_the_next(
        self, measure: MeasureWords, execution: str
    ) -> None:
        found = self.large(measure, f"execution={execution}")

        assert units(found["first_call_tensor_peak_bytes"]) == 1
        assert units(found["tensor_step_peak_bytes"]) == 1
        assert units(found["tensor_live_bytes"]) == 0

    @pytest.mark.parametrize("execution", ["eager", "graph", "xla"])
    def test_holding_the_previous_result_makes_it_two(
        self, measure: MeasureWords, execution: str
    ) -> None:
        found = self.large(measure, "scenario.keep_previous=true", f"execution={execution}")

        assert units(found["tensor_peak_bytes"]) == 2
        assert units(found["tensor_live_bytes"]) == 1
        assert found["tensor_growth_bytes_per_step"] == 0
        assert found["tensor_retained_bytes"] == 0

    def test_in_eager_mode_a_step_asks_for_the_tensor_and_its_shape(
        self, measure: MeasureWords
    ) -> None:
        two_sides = 8
        assert self.large(measure)["allocated_bytes_per_step"] == M + two_sides


class TestChainedOps:
    def chain(
        self, measure: MeasureWords, style: str, execution: str, depth: int = 7
    ) -> dict[str, float | None]:
        words = (f"scenario.style={style}", f"scenario.depth={depth}", f"execution={execution}")
        return measure("scenario=chained_ops", f"scenario.size={SIZE}", *words).metrics

    def test_in_eager_mode_names_hold_every_result(self, measure: MeasureWords) -> None:
        found = self.chain(measure, "named", "eager")

        assert found["tensor_peak_bytes"] == (1 + 7) * M  # the input, and seven results
        assert found["allocated_bytes_per_step"] == 7 * M

    @pytest.mark.parametrize("depth", [2, 12])
    def test_in_eager_mode_nested_calls_hold_two_results_at_any_depth(
        self, measure: MeasureWords, depth: int
    ) -> None:
        found = self.chain(measure, "nested", "eager", depth)

        assert found["tensor_peak_bytes"] == (1 + 2) * M  # an op's argument is held while it runs
        assert found["allocated_bytes_per_step"] == depth * M

    @pytest.mark.parametrize("style", ["named", "nested"])
    def test_a_graph_hands_one_buffer_down_the_chain(
        self, measure: MeasureWords, style: str
    ) -> None:
        found = self.chain(measure, style, "graph")

        assert units(found["tensor_peak_bytes"]) == 1 + 1
        assert found["allocated_bytes_per_step"] == M

    def test_names_and_nested_calls_make_the_same_graph(self, measure: MeasureWords) -> None:
        named, nested = (self.chain(measure, style, "graph") for style in ("named", "nested"))

        for metric in ("tensor_peak_bytes", "allocations_per_step", "graph_nodes"):
            assert named[metric] == nested[metric]

    @pytest.mark.parametrize("style", ["named", "nested", "fan_out"])
    def test_xla_fuses_them_all_into_the_result(self, measure: MeasureWords, style: str) -> None:
        found = self.chain(measure, style, "xla")

        assert found["tensor_peak_bytes"] == (1 + 1) * M
        assert found["allocated_bytes_per_step"] == M

    def test_results_that_are_all_needed_at_the_end_are_all_held(
        self, measure: MeasureWords
    ) -> None:
        """Eager mode adds the sum; a graph adds up in the first of them."""
        eager, graph = (self.chain(measure, "fan_out", each) for each in ("eager", "graph"))

        assert eager["tensor_peak_bytes"] == (1 + 7 + 1) * M
        assert units(graph["tensor_peak_bytes"]) == 1 + 7


class TestConditional:
    def chosen(
        self, measure: MeasureWords, predicate: str, execution: str = "graph", **fields: str
    ) -> dict[str, float | None]:
        """Heavy, and only the light branch taken, unless said otherwise."""
        fields = {"predicate": predicate, "heavy": "true", "alternate": "false", **fields}
        words = [f"scenario.{name}={value}" for name, value in fields.items()]
        return measure(
            "scenario=conditional", f"scenario.size={SIZE}", f"execution={execution}", *words
        ).metrics

    def test_each_value_of_a_python_condition_has_a_graph_with_its_own_branch(
        self, measure: MeasureWords
    ) -> None:
        one = self.chosen(measure, "python", heavy="false")
        both = self.chosen(measure, "python", heavy="false", alternate="true")

        assert (one["graph_traces"], both["graph_traces"]) == (1, 2)
        assert one["graph_nodes"] == 3  # the argument, the op, the result
        assert both["graph_nodes"] == 2 * 3

    def test_a_tensor_condition_has_one_graph_with_both_branches(
        self, measure: MeasureWords
    ) -> None:
        one = self.chosen(measure, "tensor")
        both = self.chosen(measure, "tensor", alternate="true")

        assert one["graph_traces"] == both["graph_traces"] == 1
        assert one["graph_nodes"] == both["graph_nodes"]

    @pytest.mark.parametrize("predicate", ["python", "tensor"])
    def test_the_heavy_branch_costs_three_products_when_it_is_taken(
        self, measure: MeasureWords, predicate: str
    ) -> None:
        found = self.chosen(measure, predicate, alternate="true")

        assert units(found["tensor_step_peak_bytes"]) == 3
        assert units(found["allocated_bytes_per_step"]) == 1 + 3

    @pytest.mark.parametrize("predicate", ["python", "tensor"])
    def test_in_a_graph_a_branch_that_is_not_taken_costs_nothing(
        self, measure: MeasureWords, predicate: str
    ) -> None:
        found = self.chosen(measure, predicate)

        assert found["tensor_step_peak_bytes"] == M
        assert found["allocated_bytes_per_step"] == M

    def test_under_xla_a_branch_that_is_not_taken_costs_its_products(
        self, measure: MeasureWords
    ) -> None:
        """XLA allocates at once what either branch may need."""
        light = self.chosen(measure, "tensor", "xla", heavy="false")
        heavy = self.chosen(measure, "tensor", "xla")

        assert units(light["tensor_step_peak_bytes"]) == 1
        assert units(heavy["tensor_step_peak_bytes"], aside=256) == 3

    def test_under_xla_a_python_condition_leaves_the_other_branch_out(
        self, measure: MeasureWords
    ) -> None:
        assert units(self.chosen(measure, "python", "xla")["tensor_step_peak_bytes"]) == 1


class TestRetracing:
    DISTINCT = 6

    def calls(
        self, measure: MeasureWords, argument: str, reduce_retracing: bool = False
    ) -> dict[str, float | None]:
        return measure(
            "scenario=retracing",
            f"scenario.size={SIZE}",
            f"scenario.argument={argument}",
            f"scenario.distinct={self.DISTINCT}",
            f"scenario.reduce_retracing={str(reduce_retracing).lower()}",
        ).metrics

    @pytest.mark.parametrize(
        ("argument", "traces", "traces_when_reduced"),
        [
            ("tensor", 1, 1),
            ("numpy_scalar", 1, 1),  # is made a tensor first
            ("python_scalar", DISTINCT, DISTINCT),  # a value is part of the function's type
            ("shape", DISTINCT, 2),  # the second shape makes it trace for any
        ],
    )
    def test_the_kind_of_argument_decides_how_often_it_is_traced(
        self, measure: MeasureWords, argument: str, traces: int, traces_when_reduced: int
    ) -> None:
        plain = self.calls(measure, argument)
        reduced = self.calls(measure, argument, reduce_retracing=True)

        assert plain["graph_traces"] == traces
        assert reduced["graph_traces"] == traces_when_reduced

    def test_every_trace_adds_its_graph_and_none_is_made_twice(self, measure: MeasureWords) -> None:
        once = self.calls(measure, "tensor")
        each = self.calls(measure, "python_scalar")

        nodes = once["graph_nodes"]
        assert nodes is not None
        assert each["graph_nodes"] == self.DISTINCT * nodes  # a constant for an argument
        assert each["graph_nodes_per_step"] == 0

    def test_a_step_calls_once_for_each_value(self, measure: MeasureWords) -> None:
        """Of shapes, the first has two rows more than the others' size, and each one more."""
        rows = sum(range(SIZE + 2, SIZE + 2 + self.DISTINCT))

        assert self.calls(measure, "tensor")["allocated_bytes_per_step"] == self.DISTINCT * M
        assert self.calls(measure, "shape")["allocated_bytes_per_step"] == rows * SIZE * 4

    def test_a_numpy_scalar_is_a_tensor_of_its_own_or_lies_where_numpy_put_it(
        self, measure: MeasureWords
    ) -> None:
        """By its alignment in memory, which is chance."""
        found = self.calls(measure, "numpy_scalar")

        assert found["allocated_bytes_per_step"] is not None
        beside = found["allocated_bytes_per_step"] - self.DISTINCT * M
        assert beside in range(0, self.DISTINCT * 4 + 1, 4)
