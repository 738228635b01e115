"""One contract for every scenario and every execution it names, found by what is in conf/scenario.

Each cell is run twice, in small, and the tests below read the two records.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from runner import paths
from runner.analysis import repeatability
from runner.cell import TrialSpec
from runner.compose import composition
from runner.config import Experiment
from runner.errors import BadInput
from runner.processes.server import TrialServer
from runner.records import Record, Status
from runner.render.files.allocations import make_timeline
from runner.scenario import Scenario, Varies, find_variation
from tests.integration.scenarios.conftest import Measure
from tests.runs import compose_cell, open_whole

YAML = {path.stem: path for path in sorted((paths.find_conf() / "scenario").glob("*.yaml"))}
EXECUTIONS = ("eager", "graph", "xla", "session")

SMALL: dict[str, object] = {
    "iterations": 7,
    "size": 33,
    "elements": 501,
    "depth": 4,
    "width": 17,
    "block": 2,
    "distinct": 3,
}
"""Sizes that make a cell cheap, for every scenario that has a parameter of that name."""

NEEDED = {
    "callable": ("scenario.target=tests.integration.scenarios.theirs:plain_step",),
    "script": ("scenario.path=tests/integration/script/programs/tape_loop.py",),
}
"""What can have no default."""

MEANT_TO_FAIL = ("document_example",)
"""Its default is an example that TensorFlow refuses; which fail, and how, is in test_documents."""

CONTRACT = """
python_loop         iterations=100 size=100 gradient=none|tape stop_gradient=false watch=true
                    : eager graph xla
while_loop          iterations=100 size=100 gradient=none|tape stop_gradient=false
                    parallel_iterations=10 swap_memory=false shape_invariants=false
                    : graph eager xla
numpy_loop          iterations=100 size=100 dtype=float64|float32 : eager
variable_loop       iterations=100 size=100 update=assign|assign_add : eager graph
session_loop        elements=10000 graph=grown|fixed|fresh session=per_step|shared delete=false
                    : session
tensor_per_step     elements=10000 release=rebind|delete|numpy|keep : eager
variable_per_step   size release=rebind|delete|keep|reuse : eager
large_tensor        size=1000 keep_previous=false : eager graph xla
chained_ops         size=1000 depth=3 style=named|nested|fan_out : eager graph xla
conditional         size=1000 predicate=python|tensor heavy=false alternate=true : graph xla
retracing           size=1000 argument=tensor|python_scalar|numpy_scalar|shape
                    reduce_retracing=false distinct=10 : graph
dense_batch         width=784 layers=outside|inside keep_activations=false gradient=none|tape
                    depth=2 : eager graph xla
tape                depth=2 width=784 persistent=false release=delete|scope|keep : eager
gradient_method     depth=20 width=512 method=plain|custom|custom_stop_recording|recompute block=5
                    : eager graph
op_allocation       op size=1000 : eager graph
deferred_allocation elements=10000 holds=placeholder|constant|variable : session
variable_scope      size scopes=2 close_session=true : eager session
optimizer_slots     size=1000
  optimizer=sgd|momentum|rmsprop|adagrad|adam|adamw|nadam|amsgrad|adafactor|lion : eager graph
keras_training      model=mlp mixed_precision=false recompute=false accumulate=1 : eager graph xla
document_example    example :
callable            target arguments={} : eager graph xla
script              path argv=[] max_steps=measured step=null : own
"""
"""Section 6: parameters with default and choices, then executions, the natural one first. A bare
name has a default that is the scenario's own affair; so have the executions of an example."""


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    parameters: dict[str, list[Any] | None]
    executions: tuple[str, ...]


def rows() -> Iterator[Row]:
    """A row of the table begins where a line does."""
    for text in re.split(r"\n(?=\S)", CONTRACT.strip()):
        yield row(text.split())


def row(words: list[str]) -> Row:
    at = words.index(":")
    parameters = {}
    for word in words[1:at]:
        name, _, values = word.partition("=")
        parameters[name] = [yaml.safe_load(each) for each in values.split("|")] if values else None
    return Row(words[0], parameters, tuple(words[at + 1 :]))


ROWS = list(rows())


@cache
def composed(name: str) -> Experiment:
    """The scenario as its YAML alone makes it, with a target where there can be none."""
    return compose_cell(f"scenario={name}", *NEEDED.get(name, ())).experiment


def build_scenario(name: str) -> Scenario:
    """The same without Hydra, which takes three seconds for all of them, in every worker."""
    fields = yaml.safe_load(YAML[name].read_text())
    module, _, kind = fields.pop("_target_").rpartition(".")
    for word in NEEDED.get(name, ()):
        field, _, value = word.removeprefix("scenario.").partition("=")
        fields[field] = value
    scenario: Scenario = getattr(importlib.import_module(module), kind)(**fields)
    return scenario


BUILT = {name: build_scenario(name) for name in YAML}
CELLS = [(name, execution) for name in YAML for execution in BUILT[name].executions]
WORKING = [(name, execution) for name, execution in CELLS if name not in MEANT_TO_FAIL]
REFUSED = {name: [each for each in EXECUTIONS if (name, each) not in CELLS] for name in YAML}

VARIANTS = [
    ("python_loop", "eager", "scenario.gradient=tape"),
    ("python_loop", "graph", "scenario.gradient=tape"),
    ("python_loop", "xla", "scenario.gradient=tape"),
    ("while_loop", "eager", "scenario.gradient=tape"),
    ("while_loop", "graph", "scenario.gradient=tape"),
    ("conditional", "graph", "scenario.heavy=true"),
    ("dense_batch", "eager", "scenario.gradient=tape"),
    ("dense_batch", "graph", "scenario.gradient=tape"),
    ("gradient_method", "eager", "scenario.method=recompute"),
    ("gradient_method", "graph", "scenario.method=recompute"),
    ("optimizer_slots", "graph", "scenario.optimizer=adam"),
]
"""Where others than the default parameters decide whether an execution varies."""

scenarios = pytest.mark.parametrize("name", YAML)


def in_cells(cells: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("name", "execution"), cells, ids=map("-".join, cells))


def words(name: str, execution: str) -> list[str]:
    small = [
        f"scenario.{field}={SMALL[field]}" for field in composed(name).parameters if field in SMALL
    ]
    needed = NEEDED.get(name, ())
    run = (f"scenario={name}", f"execution={execution}", "batch_size=5", "measure.memory_steps=3")
    return [*run, *needed, *small]


def declared(name: str, execution: str) -> Varies | None:
    return find_variation(BUILT[name], execution)


def assert_same_peak(one: Record, other: Record, spread: Varies | None) -> None:
    assert_same(one, other, "tensor_peak_bytes", spread.peak if spread else 0.0)


def assert_same_allocations(one: Record, other: Record, spread: Varies | None) -> None:
    for metric in ("allocated_bytes_per_step", "allocations_per_step"):
        assert_same(one, other, metric, spread.allocated if spread else 0.0)


def assert_same(one: Record, other: Record, metric: str, share: float) -> None:
    """To the byte, or to within a share of the larger one."""
    low, high = sorted(numbers(one, other, metric))
    assert high - low <= share * high, f"{metric}: {low:,.0f} and {high:,.0f}"


def numbers(one: Record, other: Record, metric: str) -> list[float]:
    found = [record.metrics[metric] for record in (one, other)]
    assert None not in found
    return [float(each) for each in found if each is not None]


def docstring(name: str) -> str:
    return " ".join(str(inspect.getdoc(type(composed(name).scenario))).split())


_run_already: dict[tuple[str, ...], tuple[Record, Record]] = {}


def two_runs(measure: Measure, name: str, execution: str, *also: str) -> tuple[Record, Record]:
    """Two records of a cell. Of a graph they have six processes together: as many as show that it
    repeats."""
    cell = (name, execution, *also)
    if cell not in _run_already:
        processes = repeatability.ALIKE // 2 if execution == "graph" else 1
        said = [*words(name, execution), *also, f"measure.memory_processes={processes}"]
        fails = name in MEANT_TO_FAIL
        _run_already[cell] = measure(*said, fails=fails), measure(*said, fails=fails)
    return _run_already[cell]


class TestTheFiles:
    @scenarios
    def test_a_scenario_composes_from_its_yaml_alone(self, name: str) -> None:
        assert composed(name).scenario_name == name
        assert composed(name).scenario == BUILT[name]

    @scenarios
    def test_the_keys_of_the_yaml_are_the_fields(self, name: str) -> None:
        keys = list(yaml.safe_load(YAML[name].read_text()))
        assert keys == ["_target_", *composed(name).parameters]

    @scenarios
    def test_the_header_says_what_it_costs_and_what_to_compare(self, name: str) -> None:
        lines = YAML[name].read_text().splitlines()
        header = [line for line in lines[: lines.index(target_line(lines))] if line.startswith("#")]
        text = " ".join(line.lstrip("# ") for line in header)
        assert text[0].isupper()
        assert ". " in text, "the first sentence is its line in `python -m runner list`"
        assert "Costs" in text
        assert re.search(rf"Compare: .*(scenario=|experiment=|,){name}\b", text)

    @scenarios
    def test_the_docstring_says_which_pattern_and_asks_a_question(self, name: str) -> None:
        assert "?" in docstring(name)

    @scenarios
    def test_what_it_declares_to_vary_are_executions_of_its_own(self, name: str) -> None:
        scenario = composed(name).scenario
        for execution, spread in getattr(scenario, "varies", {}).items():
            assert execution in scenario.executions
            assert spread.when(scenario) in (True, False)
            assert 0 < spread.peak <= 1
            assert 0 <= spread.allocated <= 1

    @scenarios
    def test_it_is_a_frozen_dataclass_that_imports_no_tensorflow_by_itself(self, name: str) -> None:
        scenario: Any = composed(name).scenario
        assert type(scenario).__dataclass_params__.frozen
        module = inspect.getmodule(type(scenario))
        assert module is not None
        assert not {"tf", "tensorflow", "keras"} & set(vars(module))


def target_line(lines: list[str]) -> str:
    return next(line for line in lines if line.startswith("_target_:"))


class TestTheContract:
    @pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
    def test_a_scenario_is_there_with_its_parameters_defaults_and_choices(self, row: Row) -> None:
        scenario = composed(row.name).scenario
        found = yaml.safe_load(YAML[row.name].read_text())
        del found["_target_"]
        assert set(found) == set(row.parameters)
        for name, values in row.parameters.items():
            if values is not None:
                assert found[name] == values[0], name
            if values is not None and len(values) > 1:
                assert choices(scenario, name) == set(values)

    @pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
    def test_it_has_the_executions_that_it_is_to_have_its_natural_one_first(self, row: Row) -> None:
        found = composed(row.name).scenario.executions
        assert set(found) == set(row.executions or found)
        assert found[:1] == (row.executions or found)[:1]
        assert composed(row.name).execution == found[0]


def choices(scenario: Scenario, name: str) -> set[Any]:
    hint = typing.get_type_hints(type(scenario))[name]
    assert typing.get_origin(hint) is Literal
    return set(typing.get_args(hint))


class TestARun:
    @in_cells(WORKING)
    def test_completes(self, name: str, execution: str, measure: Measure) -> None:
        for record in two_runs(measure, name, execution):
            assert record.outcome.completed, record.outcome.reason
            assert record.spec.execution == execution

    @in_cells(WORKING)
    def test_holds_no_more_at_its_end_than_at_its_peak(
        self, name: str, execution: str, measure: Measure
    ) -> None:
        for record in two_runs(measure, name, execution):
            found = record.metrics
            peak, live, retained = (
                found[f"tensor_{each}_bytes"] for each in ("peak", "live", "retained")
            )
            assert isinstance(peak, int)
            assert isinstance(live, int)
            assert isinstance(retained, int)
            assert peak >= live >= retained >= 0

    @in_cells(WORKING)
    def test_says_of_every_byte_at_the_peak_what_it_is(
        self, name: str, execution: str, measure: Measure
    ) -> None:
        for record in two_runs(measure, name, execution):
            assert record.allocations is not None
            sizes = [group.bytes for group in record.allocations.groups]
            assert sum(sizes) == record.allocations.total_bytes
            assert sum(sizes) == record.metrics["tensor_peak_bytes"]
            assert sizes == sorted(sizes, reverse=True)

    @in_cells(WORKING)
    def test_gives_every_byte_at_the_peak_to_a_line_of_the_user_s_code(
        self, name: str, execution: str, measure: Measure
    ) -> None:
        """All but 1 % of them, or 64 bytes in these small cells: what TensorFlow's own threads make
        while no call is under way."""
        for record in two_runs(measure, name, execution):
            assert record.allocations is not None
            lines, total = record.allocations.lines, record.allocations.total_bytes
            assert sum(line.bytes for line in lines) == total
            assert all(sum(part.bytes for part in line.parts) == line.bytes for line in lines)
            assert all(line.code and not line.why for line in lines if line.file)
            assert all(line.why for line in lines if not line.file)
            unknown = sum(line.bytes for line in lines if not line.file or line.is_library)
            assert unknown <= max(64, 0.01 * total)

    @in_cells([cell for cell in WORKING if declared(*cell) is None])
    def test_has_the_same_figures_with_lines_as_without(
        self, name: str, execution: str, measure: Measure, server: TrialServer
    ) -> None:
        record, _ = two_runs(measure, name, execution)
        spec = TrialSpec(compose_cell(*words(name, execution)).experiment, "memory", 0)
        other = server.run(dataclasses.replace(spec, with_lines=False), 120)
        assert other.outcome.completed
        for one in record.trials:
            assert one.steps == other.steps
            assert one.phases == other.phases
        assert record.allocations is not None
        assert other.allocations is not None
        assert record.allocations.lines != other.allocations.lines
        assert record.allocations.total_bytes == other.allocations.total_bytes

    @in_cells(WORKING)
    def test_has_its_peak_as_the_maximum_of_its_curves(
        self, name: str, execution: str, measure: Measure
    ) -> None:
        for record in two_runs(measure, name, execution):
            assert record.allocations is not None
            for curve in (record.allocations.curve, record.allocations.peak_curve):
                assert max(curve.bytes, default=0) == record.metrics["tensor_peak_bytes"]
            counter = [
                (event["ts"], event["args"]["bytes"])
                for event in make_timeline(record.allocations)["traceEvents"]
                if event["ph"] == "C"
            ]
            assert [time for time, _ in counter] == sorted(time for time, _ in counter)
            assert (
                max((size for _, size in counter), default=0) == record.metrics["tensor_peak_bytes"]
            )

    @in_cells(WORKING)
    def test_asks_for_the_same_as_another_one_unless_it_is_declared_to_vary(
        self, name: str, execution: str, measure: Measure
    ) -> None:
        one, other = two_runs(measure, name, execution)
        assert_same_allocations(one, other, declared(name, execution))
        assert one.cell == other.cell

    @in_cells(WORKING)
    def test_has_the_same_peak_as_another_one_unless_it_is_declared_to_vary(
        self, name: str, execution: str, measure: Measure
    ) -> None:
        assert_same_peak(*two_runs(measure, name, execution), declared(name, execution))

    @pytest.mark.parametrize(("name", "execution", "also"), VARIANTS)
    def test_of_other_parameters_repeats_unless_they_are_declared_to_vary(
        self, name: str, execution: str, also: str, measure: Measure
    ) -> None:
        one, other = two_runs(measure, name, execution, also)
        scenario = compose_cell(*words(name, execution), also).experiment.scenario
        spread = find_variation(scenario, execution)
        assert_same_allocations(one, other, spread)
        assert_same_peak(one, other, spread)

    @in_cells([cell for cell in CELLS if cell[0] in MEANT_TO_FAIL])
    def test_that_is_meant_to_fail_says_what_tensorflow_said(
        self, name: str, execution: str, measure: Measure
    ) -> None:
        for record in two_runs(measure, name, execution):
            assert record.outcome.status is Status.FAILED
            assert record.outcome.reason


@pytest.mark.parametrize("name", [name for name, refused in REFUSED.items() if refused])
def test_an_unsupported_execution_is_refused_with_the_list_of_those_that_work(
    name: str, tmp_path: Path
) -> None:
    supported = composed(name).scenario.executions
    for execution in REFUSED[name]:
        with pytest.raises(BadInput) as refused:
            compose_cell(*words(name, execution))
        assert f"it has: {', '.join(supported)}" in str(refused.value)
        assert f"execution={supported[0]}" in refused.value.remedy

    swept = composition.compose_plan(["-m", *words(name, ",".join(REFUSED[name]))]).cells
    assert [cell.experiment.execution for cell in swept] == REFUSED[name]
    for cell in swept:
        run = open_whole(cell, tmp_path / str(cell.number))
        assert run.next is None, "nothing of it is run"
        record = run.close()
        assert record.outcome.status is Status.UNSUPPORTED
        assert record.outcome.reason is not None
        assert ", ".join(supported) in record.outcome.reason
