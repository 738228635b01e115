"""`callable` against truth: what is the step, when it is first called, what leaks, whose line."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

from runner.analysis import estimate
from runner.errors import BadInput
from runner.records import Phase, Record, Status
from runner.render.peak import describe_uncounted
from tests.conftest import Cli
from tests.integration.scenarios.conftest import Measure

THEIRS = Path(__file__).with_name("theirs.py").read_text()
"""Not imported here: that would load TensorFlow into the process of the tests."""

VECTOR = int(re.findall(r"^SIZE = (\d+)", THEIRS, re.M)[0]) * 4
SCALAR = 4
"""A float given to an op becomes a tensor of its own."""
HANDLE = 200
"""A variable has a handle besides its value."""


def run(measure: Measure, name: str, *words: str, **how: bool) -> Record:
    target = f"scenario.target=tests.integration.scenarios.theirs:{name}"
    return measure("scenario=callable", target, *words, **how)


class TestTheStep:
    def test_is_the_function_itself_where_that_returns_nothing_to_call(
        self, measure: Measure
    ) -> None:
        found = run(measure, "plain_step").metrics
        assert found["tensor_peak_bytes"] == VECTOR + SCALAR
        assert found["allocations_per_step"] == 2
        assert found["tensor_live_bytes"] == 0

    def test_takes_the_arguments_every_time(self, measure: Measure) -> None:
        found = run(measure, "step_with_arguments", "scenario.arguments={size: 11}").metrics
        assert found["allocated_bytes_per_step"] == 11 * 4 + SCALAR

    def test_has_examples_where_it_takes_a_batch_and_only_there(self, measure: Measure) -> None:
        words = ("scenario.arguments.size=11", "seed=5")
        for target, batched in (("make", True), ("step_with_arguments", False)):
            found = run(measure, target, *words, timing=True, memory=False)
            assert ("examples_per_second" in found.metrics) is batched

    def test_is_what_the_function_returns_where_that_can_be_called(self, measure: Measure) -> None:
        words = ("scenario.arguments.size=11", "batch_size=7", "seed=5")
        found = run(measure, "make", *words).metrics
        batch = 7 * 11 * 4
        assert found["allocated_bytes_per_step"] == batch
        assert found["tensor_live_bytes"] == batch
        assert found["tensor_peak_bytes"] == 2 * batch
        assert found["tensor_retained_bytes"] == 0

    def test_may_be_a_keras_model_with_its_batch(self, measure: Measure) -> None:
        found = run(measure, "make_keras", "batch_size=13").metrics
        weights = 7 * 3 * 4 + 3 * 4 + 2 * HANDLE
        product = 13 * 3 * 4
        assert found["tensor_live_bytes"] == weights + 13 * 7 * 4
        assert found["tensor_step_peak_bytes"] == 2 * product  # the bias is added to another one

    def test_may_be_an_object_that_a_class_makes(self, measure: Measure) -> None:
        found = run(measure, "Module", "scenario.arguments.size=11").metrics
        assert found["allocated_bytes_per_step"] == 11 * 4

    def test_may_be_a_tf_function_whose_traces_are_counted_where_it_is_not_wrapped(
        self, measure: Measure
    ) -> None:
        for execution in ("eager", "graph", "xla"):
            found = run(measure, "make_traced", f"execution={execution}").metrics
            assert found["graph_traces"] == 1
            assert found["graph_nodes_per_step"] == 0
            assert found["allocated_bytes_per_step"] == VECTOR
            assert found["tensor_retained_bytes"] == 0

    @pytest.mark.parametrize(
        ("execution", "peak"),
        [("eager", 11 * 4 + 4), ("graph", 11 * 4 + 4), ("xla", 2 * 11 * 4 + 12)],
    )
    def test_a_tf_function_itself_is_known_for_the_step(
        self, execution: str, peak: int, measure: Measure
    ) -> None:
        """Its graph keeps the shape, an int32; XLA computes the constant while it compiles, too."""
        words = ("scenario.arguments.size=11", f"execution={execution}")
        found = run(measure, "traced_step_with_arguments", *words).metrics
        assert found["graph_traces"] == 1
        assert found["tensor_peak_bytes"] == peak

    @pytest.mark.parametrize("execution", ["graph", "xla"])
    def test_is_compiled_as_the_execution_says(self, execution: str, measure: Measure) -> None:
        words = ("scenario.arguments.size=11", f"execution={execution}")
        found = run(measure, "Module", *words).metrics
        assert found["graph_traces"] == 1
        assert found["tensor_step_peak_bytes"] == 11 * 4


class TestTheFirstCall:
    def test_of_a_step_that_sets_itself_up_is_what_pays_for_it(self, measure: Measure) -> None:
        record = run(measure, "first_call_is_large")
        ten = 10 * 4 + SCALAR
        assert record.metrics["first_call_tensor_peak_bytes"] == 4_000_000 + ten
        assert record.metrics["tensor_step_peak_bytes"] == ten
        assert record.trials[0].figures(Phase.BUILD).allocated_bytes == 0

    def test_is_the_only_call_before_the_steady_steps(self, measure: Measure) -> None:
        found = run(measure, "keep_a_tensor", "measure.memory_steps=4").metrics
        assert found["tensor_live_bytes"] == (1 + 4) * VECTOR
        assert found["tensor_growth_bytes_per_step"] == VECTOR
        assert found["tensor_retained_bytes"] == (1 + 4) * VECTOR

    @pytest.mark.parametrize(
        ("execution", "peak"), [("graph", VECTOR + 4), ("xla", 2 * VECTOR + 12)]
    )
    def test_is_compiled_so_that_no_eager_one_is_in_the_peak(
        self, execution: str, peak: int, measure: Measure
    ) -> None:
        """Plain Python under the profiler needs the same: 4,952 and 9,908 bytes."""
        found = run(measure, "eager_only_peak", f"execution={execution}").metrics
        assert found["tensor_peak_bytes"] == peak


LONG = ("measure=standard", "measure.timing_processes=1")

PAGES_OF_CHANCE = 16  # Python, malloc and the kernel move a few pages in 200 steps; 5 were seen


class TestGarbage:
    def test_that_pythons_collector_frees_is_no_growth_and_no_leak(self, measure: Measure) -> None:
        record = run(measure, "make_a_cycle", "measure.memory_steps=10")
        assert record.metrics["tensor_growth_bytes_per_step"] == 0
        assert record.allocations is not None
        assert not record.allocations.leaks
        assert record.trials[0].steps.tensor_collected_bytes[-1] >= 10 * 4_000


def test_a_meter_that_the_step_disarmed_says_so(measure: Measure) -> None:
    record = run(measure, "clear_the_environment")
    for name in ("tensor_peak_bytes", "tensor_growth_bytes_per_step", "allocator_peak_bytes"):
        assert record.metrics[name] is None
        assert "TF_CPU_ALLOCATOR_USE_BFC was gone" in record.unavailable[name]


def test_there_is_one_cpu(measure: Measure) -> None:
    with pytest.raises(BadInput, match="there is one CPU, number 0"):
        run(measure, "plain_step", "device=cpu", "device.index=7")


class TestTheHostsFloor:
    """What `measure=standard` sees of leaks that once vanished in memory that was free already."""

    @pytest.mark.parametrize("size", [100, 1_000, 8_000])
    @pytest.mark.parametrize("name", ["array_that_stays", "bytes_that_stay", "malloc_that_stays"])
    def test_a_leak_is_seen_however_small_it_is(
        self, name: str, size: int, measure: Measure
    ) -> None:
        words = (
            "scenario=callable", f"scenario.target=tests.benchmarks._growing_steps:{name}",
            f"scenario.arguments={{size: {size}}}", *LONG,
        )  # fmt: skip
        record = measure(*words, timing=True, memory=False)
        growth = record.metrics["host_growth_bytes_per_step"]
        assert growth == pytest.approx(size, rel=0.1, abs=150)  # a list, and what objects take
        assert growth > 0

    def test_where_nothing_stays_nothing_moves(self, measure: Measure) -> None:
        target = "scenario.target=tests.benchmarks._growing_steps:nothing"
        words = ("scenario=callable", target, "scenario.arguments={size: 1}", *LONG)
        record = measure(*words, timing=True, memory=False)
        assert not record.metrics["host_growth_bytes_per_step"]
        resident = record.trials[0].steps.host_bytes
        assert max(resident) - min(resident) <= PAGES_OF_CHANCE * 4096

    @pytest.mark.parametrize(
        ("name", "size", "processes"),
        [
            ("array_that_goes", 100_000, 3),
            ("array_that_goes", 500_000, 3),
            ("array_that_goes", 2_000_000, 3),
            ("mapping_that_goes", 100_000, 5),  # whose pages go back to the kernel at once
            ("mapping_that_goes", 2_000_000, 5),
        ],
    )
    def test_a_peak_is_seen_within_64_kb(
        self, name: str, size: int, processes: int, measure: Measure
    ) -> None:
        """In the first call and in the steps: each above what was there before it."""
        for above in peaks(name, size, processes, measure):
            assert above == pytest.approx(size, abs=65_536)

    def test_compiling_a_module_is_not_in_the_peak(
        self, measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        many = "\n".join(
            f"def f{number}(a, b):\n    return a * b + {number}" for number in range(900)
        )
        (tmp_path / "long_module.py").write_text(f"{many}\n\ndef step():\n    pass\n")
        few = ("measure.timing_processes=1", "measure.steps=5")
        words = ("scenario=callable", "scenario.target=long_module:step", *few)
        build = measure(*words, timing=True, memory=False).trials[0].figures(Phase.BUILD)
        assert build.host_peak_bytes < 1.5 * build.host_bytes


def peaks(name: str, size: int, processes: int, measure: Measure) -> list[float]:
    """Of the first call and of the steps, above what was resident when they began; of several
    processes the median, as in any figure, because one may be moved to another CPU meanwhile."""
    target = f"scenario.target=tests.benchmarks._growing_steps:{name}"
    few = ("measure.steps=5", f"measure.timing_processes={processes}")
    words = ("scenario=callable", target, f"scenario.arguments={{size: {size}}}", *few)
    trials = measure(*words, timing=True, memory=False).trials
    return [
        statistics.median(
            trial.figures(phase).host_peak_bytes - trial.figures(before).host_bytes
            for trial in trials
        )
        for before, phase in ((Phase.BUILD, Phase.FIRST_CALL), (Phase.FIRST_CALL, Phase.STEPS))
    ]


class TestSlowLeaks:
    @pytest.mark.parametrize(
        ("name", "least", "most"),
        [
            ("keep_bytes", 19_000, 21_500),
            ("keep_entries", 15_000, 30_000),
            ("make_layers_per_call", 30_000, 150_000),
        ],
    )
    def test_of_about_20_kb_a_call_on_the_host_are_caught(
        self, name: str, least: int, most: int, measure: Measure
    ) -> None:
        record = run(measure, name, *LONG, timing=True, memory=False)
        growth = record.metrics["host_growth_bytes_per_step"]
        assert growth is not None
        assert least < growth < most

    @pytest.mark.parametrize("name", ["plain_step", "drop_all", "make_nothing_to_drop"])
    def test_are_not_seen_where_there_are_none(self, name: str, measure: Measure) -> None:
        """A page or three come in 200 steps, as with a leak of 100 bytes: unknown, but bounded."""
        words = ("seed=5", *LONG)
        record = run(measure, name, *words, timing=True, memory=False)
        growth = "host_growth_bytes_per_step"
        assert not record.metrics[growth]
        if record.metrics[growth] is None:
            bound = estimate.find_growth_bound(record.trials, growth)
            assert bound is not None
            assert bound < 1_000


def line_of(text: str) -> str:
    """`theirs.py:LINE`, of the one line in it that holds the text."""
    lines = enumerate(THEIRS.splitlines(), 1)
    [number] = [number for number, line in lines if text in line]
    return f"theirs.py:{number} in "


class TestAnException:
    @pytest.mark.parametrize(
        ("name", "says", "where"),
        [
            ("wrong_shape", "InvalidArgumentError: Matrix size-incompatible", "ones([3, 4])"),
            ("wrong_shape_traced", "ValueError: Dimensions must be equal", "ones([3, 4])"),
            ("not_a_number", "InvalidArgumentError: no number", "check_numerics"),
            ("make_keras_wrong", "expected axis -1", "ones([2, 9])"),
            ("import_error", "No module named 'no_such_dependency'", "import no_such"),
        ],
    )
    def test_is_a_failure_that_points_at_their_line(
        self, name: str, says: str, where: str, measure: Measure
    ) -> None:
        outcome = run(measure, name, fails=True).outcome
        assert outcome.status is Status.FAILED
        assert outcome.reason is not None
        assert says in outcome.reason
        assert line_of(where) in outcome.reason
        assert "in user code" not in outcome.reason
        assert "Detected at node" not in outcome.reason

    def test_in_a_package_of_theirs_that_is_installed_points_there_too(
        self, measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "site-packages" / "theirs_installed"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from .deep import step\n")
        (package / "deep.py").write_text(
            "import tensorflow as tf\n\ndef step():\n    return tf.reshape(tf.ones([3]), [2])\n"
        )
        monkeypatch.syspath_prepend(package.parent)
        words = ("scenario=callable", "scenario.target=theirs_installed:step")
        outcome = measure(*words, fails=True).outcome
        assert outcome.reason is not None
        assert "deep.py:4 in step" in outcome.reason

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("make_model_alone", "returned a Sequential that can't be called without arguments"),
            ("make_needy", "missing a required argument: 'x'"),
            ("generator", "is a generator function: calling it runs none of it"),
            ("make_generator", "the step 'steps' that"),
            ("make_async", "is an `async def`: calling it runs none of it"),
            ("NUMBER", "can't be called, being of type int"),
        ],
    )
    def test_what_only_the_child_can_tell_is_a_failure_that_says_so(
        self, name: str, says: str, measure: Measure
    ) -> None:
        outcome = run(measure, name, fails=True).outcome
        assert (outcome.status, outcome.phase) == (Status.FAILED, "build")
        assert outcome.reason is not None
        assert says in outcome.reason


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plain_stepp",), "did you mean 'plain_step'"),
        (("step_with_arguments",), "needs 'size'"),
        (("make", "scenario.arguments={sise: 3}"), "did you mean 'size'"),
        (("make", "scenario.arguments={batch_size: 3}"), "a field of its own"),
        (("make", "scenario.arguments={1: 3}"), "can't be the name of an argument"),
        (("make", "scenario.arguments={size: nan}"), "can't be kept in a record"),
        (("make", "scenario.arguments=3"), "not a mapping"),
    ],
)
def test_bad_input_is_found_before_anything_runs(
    words: tuple[str, ...], says: str, measure: Measure
) -> None:
    with pytest.raises(BadInput) as refused:
        run(measure, *words)
    assert says in str(refused.value)


def test_without_a_target_it_is_said_what_to_say(measure: Measure) -> None:
    with pytest.raises(BadInput, match=r"Say scenario\.target=VALUE"):
        measure("scenario=callable")


def test_texts_are_known_as_such_at_the_peak_and_the_host_s_has_them(measure: Measure) -> None:
    record = run(measure, "three_texts", "measure.steps=5", timing=True)
    assert record.metrics["tensor_peak_bytes"] == 3 * 1_000 * 24
    assert record.allocations is not None
    assert "3 string tensors" in describe_uncounted(record.allocations)
    assert record.metrics["host_peak_bytes"] > 3 * 5_000_000


def test_processes_that_a_step_has_beside_it_are_counted(measure: Measure) -> None:
    few = ("measure.steps=5", "measure.timing_processes=1")
    facts = {
        name: run(measure, name, *few, timing=True, memory=False).trials[0].facts
        for name in ("two_processes", "plain_step")
    }
    assert facts["two_processes"].child_processes == 2
    assert facts["plain_step"].child_processes is None


def test_code_is_found_from_the_folder_where_the_user_stands(warm_cli: Cli, tmp_path: Path) -> None:
    stand = tmp_path / "stand"
    stand.mkdir()
    (stand / "mine_here.py").write_text(
        "import tensorflow as tf\n\ndef make(batch_size):\n"
        "    x = tf.ones([batch_size, 3])\n    return lambda: x + 1.0\n"
    )
    words = ("scenario=callable", "scenario.target=mine_here:make", "tracking=none")
    few = ("measure.timing_processes=1", "measure.steps=5")
    done = warm_cli("-m", *words, *few, "batch_size=2,5", cwd=stand)
    assert done.returncode == 0, done.stdout + done.stderr
    missing = warm_cli(*words, cwd=tmp_path)
    assert missing.returncode == 2
    assert "no module 'mine_here'" in missing.stderr
