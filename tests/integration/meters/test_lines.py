"""Lines of code against known truth: functions of which every line's bytes are known by hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from runner import paths
from tests.versions import TENSORFLOW

SHOWS_XLA_IN_GRAPHS = TENSORFLOW >= (2, 21)
"""TensorFlow 2.20's trace does not say of a block that XLA took it for a function in a graph."""

HELPER = """
import tensorflow as tf

def squared(x):
    return tf.square(x)  # helper
"""

MINE = """
import contextlib, functools, threading

import keras
import numpy as np
import tensorflow as tf

import helper

NAMES = (
    "plain", "nested", "comprehension", "lambda", "decorator", "generator", "method", "helper",
    "recursion", "layer", "closure", "with", "thread",
)
SIZES = {name: 1_000 + 111 * number for number, name in enumerate(NAMES)}


def inner(x):
    return tf.square(x)  # nested

def outer(x):
    y = inner(x)
    return y

def doubled(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x)
    return wrapper

@doubled
def decorated(x):
    return tf.square(x)  # decorator

def generated(x):
    for _ in range(2):
        yield tf.square(x)  # generator

class Thing:
    def method(self, x):
        return tf.square(x)  # method

def recursive(x, depth):
    if depth == 0:
        return [tf.square(x)]  # recursion
    return recursive(x, depth - 1) + recursive(x, depth - 1)

class Layer(keras.layers.Layer):
    def call(self, x):
        return tf.square(x)  # layer

def closure(x):
    def within():
        return tf.square(x)  # closure
    return within

by_lambda = lambda x: tf.square(x)  # lambda
layer = Layer(name="squaring")


def inputs():
    xs = {name: tf.zeros([size]) for name, size in SIZES.items()}  # inputs
    return {**xs, "square": tf.zeros([1_000, 1_000])}

def step(xs):
    kept = [tf.square(xs["plain"])]  # plain
    kept.append(outer(xs["nested"]))
    kept += [tf.square(xs["comprehension"]) for _ in range(3)]  # comprehension
    kept.append(by_lambda(xs["lambda"]))
    kept.append(decorated(xs["decorator"]))
    for each in generated(xs["generator"]):
        kept.append(each)
    kept.append(Thing().method(xs["method"]))
    kept.append(helper.squared(xs["helper"]))
    kept += recursive(xs["recursion"], 2)
    kept.append(layer(xs["layer"]))
    kept.append(closure(xs["closure"])())
    with contextlib.nullcontext():
        kept.append(tf.square(xs["with"]))  # with
    return kept

def threaded(xs):
    kept = step(xs)
    def work():
        kept.append(tf.square(xs["thread"]))  # thread
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return kept


@tf.custom_gradient
def with_own_gradient(x):
    y = tf.square(x)  # forward
    def gradient(upstream):
        factor = tf.exp(x)  # own
        return upstream * factor
    return y, gradient

def differentiated(xs):
    x = xs["plain"]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = with_own_gradient(x)
    first = tape.gradient(y, x)  # gradient
    return y, first


def twice(xs):
    for name in ("thread", "plain"):  # the larger one first: the peak is in its backward pass
        x = xs[name]
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.square(tf.square(x))  # taped
        tape.gradient(y, x)
        del y


def looped_jacobian(xs, experimental_use_pfor=False):
    x = tf.ones([10, 100])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.square(x)  # early
        z = tf.reduce_sum(tf.sin(y), 1)
    return tape.jacobian(z, x, experimental_use_pfor=experimental_use_pfor)  # jacobian

def vectorised_jacobian(xs):
    return looped_jacobian(xs, experimental_use_pfor=True)

def batch_jacobian(xs):
    x = tf.ones([10, 100])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(tf.square(x))  # batched
    return tape.batch_jacobian(y, x)

def second_order(xs):
    x = xs["plain"]
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.sin(x)  # inmost
        first = inner.gradient(y, x)  # first order
    return outer.gradient(first, x)  # second order

def deep(xs):
    x = xs["plain"][None]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(4):
            y = tf.tanh(tf.matmul(y, xs["square"]))  # deep
    return tape.gradient(y, x)


def looped(xs):
    x, w = xs["plain"][None, :100], xs["square"][:100, :100]
    with tf.GradientTape() as tape:
        tape.watch(x)
        def body(i, y):
            return i + 1, tf.tanh(tf.matmul(y, w))  # body
        most = {"maximum_iterations": 7}
        _, y = tf.while_loop(lambda i, y: i < 7, body, (0, x), **most)  # loop
    return tape.gradient(y, x)

@tf.function(jit_compile=True)
def compiled(x):
    return tf.matmul(x, x, name="product")  # compiled

def calling(xs):
    return tf.square(compiled(tf.sin(xs["square"])))

@tf.autograph.experimental.do_not_convert
def composed(xs):
    y = tf.exp(xs["plain"])
    return tf.sin(y) + 2.0 * tf.zeros([7, 143])[:, :1]  # composed

def hosted(xs):
    def host(x):
        return tf.square(x)  # host
    return tf.py_function(host, [xs["plain"]], tf.float32)


class Piped:
    def __init__(self):
        data = tf.data.Dataset.range(100)
        data = data.map(lambda at: tf.fill([500], tf.cast(at, tf.float32)))  # mapped
        data = data.shuffle(2)
        data = data.batch(8)  # batched pipeline
        self.batches = iter(data)

    def step(self):
        return tf.square(next(self.batches))  # fed


class Buffered:
    def __init__(self):
        cached = tf.data.Dataset.range(100)
        cached = cached.map(lambda at: 2.0 * tf.fill([500], tf.cast(at, tf.float32)) + 1.0)
        cached = cached.cache()  # cached
        self.cached = iter(cached.repeat())
        for _ in range(100):
            next(self.cached)
        drawn = tf.data.Dataset.from_generator(
            # Not aligned: TensorFlow takes over some of the arrays that are, without a copy.
            lambda: (np.full([601], 1.0, np.float32)[1:] for _ in range(10_000)),
            output_signature=tf.TensorSpec([600]),
        )
        drawn = drawn.shuffle(50)  # shuffled
        drawn = drawn.batch(4)
        drawn = drawn.prefetch(3)  # ahead
        self.drawn = iter(drawn)

    def step(self):
        return tf.square(next(self.drawn)), next(self.cached)


def fitting():
    inputs = keras.Input([64])
    model = keras.Model(inputs, keras.layers.Dense(333, name="wide")(inputs))  # model
    how = {"run_eagerly": EAGER, "jit_compile": COMPILED}
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", **how)
    x, y = tf.zeros([32, 64]), tf.zeros([32, 333])
    def fit():
        model.fit(x, y, batch_size=32, verbose=0)  # fit
        return model
    return fit
"""

CHILD = """
import json, os, sys, tempfile
from pathlib import Path

import msgspec

os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
from tests import lean_tensorflow
import tensorflow as tf

from runner.records import Phase
from runner.meters.tensor import samples
from runner.meters.tensor.call_recorder import CallRecorder
from runner.meters.tensor.allocator import name_allocator
from runner.meters.tensor.tracing import AllocationTracing

recorder = CallRecorder(scratch=Path(tempfile.mkdtemp()))
recorder.start()
import mine


def trial(build):
    tracing = AllocationTracing(name_allocator("cpu"), recording=recorder.recording)
    tracing.start()
    tracing.begin(Phase.BUILD)
    run = build()
    tracing.end(Phase.BUILD)
    tracing.begin(Phase.FIRST_CALL)
    run()
    tracing.end(Phase.FIRST_CALL)
    for number in range(2):
        tracing.begin(Phase.STEPS, number)
        result = run()
        del result
        tracing.end(Phase.STEPS, number)
    tracing.begin(Phase.RELEASE)
    del run
    tracing.end(Phase.RELEASE)
    return msgspec.to_builtins(samples.pick_allocations(tracing.finish()))


def stepping(function, **how):
    def build():
        xs = mine.inputs()
        compiled = tf.function(function, **how) if how else function
        return lambda: compiled(xs)
    return build


def piped():
    pipeline = mine.Piped()
    return pipeline.step


def buffered():
    pipelines = mine.Buffered()
    return pipelines.step


def fitting(eagerly, compiled=False):
    def build():
        mine.EAGER, mine.COMPILED = eagerly, compiled
        return mine.fitting()
    return build


found = {
    "eager": trial(stepping(mine.threaded)),
    "graph": trial(stepping(mine.step, autograph=True)),
    "xla": trial(stepping(mine.step, jit_compile=True)),
    "twice": trial(stepping(mine.twice)),
    "looped_jacobian": trial(stepping(mine.looped_jacobian)),
    "vectorised_jacobian": trial(stepping(mine.vectorised_jacobian)),
    "batch_jacobian": trial(stepping(mine.batch_jacobian)),
    "second_order": trial(stepping(mine.second_order)),
    "deep_eager": trial(stepping(mine.deep)),
    "deep_graph": trial(stepping(mine.deep, autograph=True)),
    "deep_xla": trial(stepping(mine.deep, jit_compile=True)),
    "own_eager": trial(stepping(mine.differentiated)),
    "own_graph": trial(stepping(mine.differentiated, autograph=True)),
    "fit_eager": trial(fitting(True)),
    "fit_graph": trial(fitting(False)),
    "fit_xla": trial(fitting(False, compiled=True)),
    "looped_graph": trial(stepping(mine.looped, autograph=True)),
    "looped_xla": trial(stepping(mine.looped, jit_compile=True)),
    "calling_graph": trial(stepping(mine.calling, autograph=True)),
    "composed_graph": trial(stepping(mine.composed, autograph=False)),
    "hosted_graph": trial(stepping(mine.hosted, autograph=True)),
    "piped": trial(piped),
    "buffered": trial(buffered),
}
seen = []
sys.settrace(lambda frame, event, arg: seen.append(event) or None)
found["traced"] = trial(stepping(mine.threaded))
sys.settrace(None)
found["events"] = len(seen)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "helper.py").write_text(HELPER)
    (folder / "mine.py").write_text(MINE)
    path = os.pathsep.join([str(folder), str(paths.find_clone())])
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    whole: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return whole


TIMES = {"comprehension": 3, "generator": 2, "recursion": 4}
NAMES = [
    *("plain", "nested", "comprehension", "lambda", "decorator", "generator", "method", "helper"),
    *("recursion", "layer", "closure", "with", "thread"),
]
BYTES = {name: 4 * (1_000 + 111 * number) * TIMES.get(name, 1) for number, name in enumerate(NAMES)}


def place(name: str) -> tuple[str, int]:
    """Where the source says `# name`."""
    for file, text in (("mine.py", MINE), ("helper.py", HELPER)):
        for number, line in enumerate(text.splitlines(), 1):
            if line.endswith(f"# {name}"):
                return file, number
    raise LookupError(name)


def bytes_at(allocations: Any, name: str, **like: Any) -> int:
    """Of the line that is marked so: all, or of the parts that are like this."""
    return sum(
        part["bytes"]
        for line in allocations["lines"]
        if (line["file"], line["line"]) == place(name)
        for part in line["parts"]
        if all(part[key] == value for key, value in like.items())
    )


def list_blocks(allocations: Any, op: str) -> list[int]:
    """The bytes of what has no shape, and an op of this pattern, over all lines and beside them."""
    return [
        group["bytes"]
        for group in allocations["groups"]
        if group["shape"] is None and re.fullmatch(op, group["op"])
    ]


@pytest.mark.parametrize("name", NAMES)
def test_eagerly_every_line_has_the_bytes_that_it_makes(found: Any, name: str) -> None:
    assert bytes_at(found["eager"], name) == BYTES[name]


@pytest.mark.parametrize("name", NAMES[:-1])
@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_in_a_graph_and_under_xla_too(found: Any, execution: str, name: str) -> None:
    """A graph computes what is asked for twice once; XLA copies it for each result."""
    times = TIMES.get(name, 1) if execution == "graph" else 1
    assert bytes_at(found[execution], name) == BYTES[name] // times


@pytest.mark.parametrize("execution", ["eager", "graph", "xla"])
def test_the_lines_sum_to_the_peak_and_none_is_unknown(found: Any, execution: str) -> None:
    allocations = found[execution]
    assert sum(line["bytes"] for line in allocations["lines"]) == allocations["total_bytes"]
    known = sum(line["bytes"] for line in allocations["lines"] if line["file"])
    assert known >= 0.999 * allocations["total_bytes"]


def test_a_line_has_its_callers_and_its_source_text(found: Any) -> None:
    file, number = place("nested")
    (line,) = (
        each for each in found["eager"]["lines"] if (each["file"], each["line"]) == (file, number)
    )
    assert line["code"] == "return tf.square(x)  # nested"
    stack = [found["eager"]["frames"][at] for at in line["parts"][0]["stack"]]
    assert [frame[2] for frame in stack if frame[0] == "mine.py"] == [
        *("threaded", "step", "outer", "inner"),
    ]


def test_keras_layer_is_the_scope_of_what_it_makes(found: Any) -> None:
    for execution in ("eager", "graph", "xla"):
        allocations = found[execution]
        (line,) = (
            each for each in allocations["lines"] if (each["file"], each["line"]) == place("layer")
        )
        assert [part["scope"].startswith("squaring") for part in line["parts"]] == [True]


@pytest.mark.parametrize("execution", ["own_eager", "own_graph"])
def test_a_custom_gradient_s_own_line_has_what_it_makes(found: Any, execution: str) -> None:
    assert bytes_at(found[execution], "own", op="Exp") == 4 * 1_000


@pytest.mark.parametrize("execution", ["looped_graph", "looped_xla"])
def test_what_a_loop_hands_to_its_gradient_is_kept_for_it(found: Any, execution: str) -> None:
    """A state for each turn; under XLA in a tensor that is there from before the loop."""
    name, shape = ("body", [1, 100]) if execution == "looped_graph" else ("loop", [7, 1, 100])
    kept = [
        part["split"]["gradient_bytes"]
        for part in line_of(found[execution], name)["parts"]
        if part["shape"] == shape and not is_gradient(part)
    ]
    assert sum(kept) == 7 * 4 * 100


def test_a_function_that_xla_compiled_is_opened_within_a_graph(found: Any) -> None:
    """The product, and nothing else: a product needs no room but for its result."""
    size = 4 * 1_000 * 1_000
    if not SHOWS_XLA_IN_GRAPHS:
        assert list_blocks(found["calling_graph"], r"for __inference_\w+") == [size]
        return
    assert bytes_at(found["calling_graph"], "compiled", op="MatMul", shape=[1_000, 1_000]) == size


def test_a_block_of_keras_own_compiled_step_is_opened(found: Any) -> None:
    assert not list_blocks(found["fit_xla"], "XLA")
    if not SHOWS_XLA_IN_GRAPHS:
        assert max(list_blocks(found["fit_xla"], r"for __inference_\w+")) >= 4 * 64 * 333
        return
    assert bytes_at(found["fit_xla"], "fit", op="MatMul", shape=[64, 333]) == 4 * 64 * 333


def test_what_the_optimiser_composed_has_the_line_of_its_last_op(found: Any) -> None:
    assert bytes_at(found["composed_graph"], "composed") >= 4 * 1_000 * 7


@pytest.mark.parametrize("execution", ["graph", "looped_graph", "composed_graph", "fit_graph"])
def test_a_constant_in_a_graph_has_an_op_a_shape_and_a_dtype(found: Any, execution: str) -> None:
    for line in found[execution]["lines"]:
        for part in line["parts"]:
            assert "_cf_" not in part["op"]
            assert part["dtype"] != "untyped" or part["op"] == "building a graph"


def test_what_a_graph_calls_back_python_for_has_python_s_line(found: Any) -> None:
    assert bytes_at(found["hosted_graph"], "host", op="Square") == 4 * 1_000


def test_what_a_data_pipeline_prepares_has_the_line_of_the_stage_that_does(found: Any) -> None:
    """How many there are at the peak is chance: they are prepared ahead, while the step runs."""
    allocations, batch = found["piped"], 4 * 8 * 500
    assert bytes_at(allocations, "fed") == bytes_at(allocations, "fed", op="Square")
    batches = bytes_at(allocations, "batched pipeline", op="tf.data BatchV2")
    assert batches % batch == 0
    assert batches >= batch
    assert sum(line["bytes"] for line in allocations["lines"] if not line["file"]) == 0


def test_what_a_data_pipeline_holds_has_the_line_of_the_stage_that_holds_it(found: Any) -> None:
    """A cache all that it has read; a shuffle its buffer, and what is on its way into a batch or
    out of the generator."""
    allocations = found["buffered"]
    assert bytes_at(allocations, "cached", op="tf.data Cache") == 100 * 4 * 500
    shuffled = bytes_at(allocations, "shuffled", op="tf.data Shuffle") / (4 * 600)
    assert 50 - 1 <= shuffled <= 50 + 2 * 4
    ahead = bytes_at(allocations, "ahead", op="tf.data Prefetch") / (4 * 4 * 600)
    assert 1 <= ahead <= 3 + 2
    assert sum(line["bytes"] for line in allocations["lines"] if not line["file"]) == 0


@pytest.mark.parametrize("execution", ["fit_eager", "fit_graph"])
def test_keras_fit_holds_the_momentum_and_the_model_its_kernel(found: Any, execution: str) -> None:
    kernel = 4 * 64 * 333
    assert bytes_at(found[execution], "model", shape=[64, 333]) == kernel
    (line,) = (
        each for each in found[execution]["lines"] if (each["file"], each["line"]) == place("fit")
    )
    # Held from the first step on; where that one has the peak, as it may in a graph, made and kept.
    assert line["split"]["held_bytes"] + line["split"]["kept_bytes"] >= kernel
    assert bytes_at(found[execution], "fit", shape=[64, 333]) >= kernel


def test_what_a_forward_pass_leaves_for_an_eager_backward_pass_is_the_gradient_s(
    found: Any,
) -> None:
    split = found["fit_eager"]["split"]
    assert split["gradient_bytes"] >= 4 * 32 * 333


def test_each_of_two_backward_passes_in_a_step_has_what_is_kept_for_it(found: Any) -> None:
    (line,) = (
        each for each in found["twice"]["lines"] if (each["file"], each["line"]) == place("taped")
    )
    assert line["split"]["gradient_bytes"] == line["bytes"] == 2 * BYTES["thread"]


def line_of(allocations: Any, name: str) -> Any:
    (line,) = (each for each in allocations["lines"] if (each["file"], each["line"]) == place(name))
    return line


def test_a_jacobian_that_loops_has_what_is_kept_for_it(found: Any) -> None:
    line = line_of(found["looped_jacobian"], "early")
    assert line["bytes"] == line["split"]["gradient_bytes"] == 4 * 10 * 100
    own = line_of(found["looped_jacobian"], "jacobian")
    assert own["split"]["gradient_bytes"] == 0


@pytest.mark.parametrize(
    ("name", "marked"), [("vectorised_jacobian", "early"), ("batch_jacobian", "batched")]
)
def test_a_vectorised_jacobian_outlives_its_step_with_all_that_it_needs(
    found: Any, name: str, marked: str
) -> None:
    """It traces a function each time, which holds what it reads until Python's collector comes."""
    split, tensors = line_of(found[name], marked)["split"], {"early": 1, "batched": 2}[marked]
    assert split["passing_bytes"] == 0
    assert split["gradient_bytes"] + split["kept_bytes"] == tensors * 4 * 10 * 100


def test_what_a_gradient_leaves_for_the_gradient_of_it_is_that_one_s(found: Any) -> None:
    """Of sin(x) first ones, cos(x) and their product; all three are there for the second order."""
    allocations, size = found["second_order"], 4 * 1_000
    assert line_of(allocations, "inmost")["split"]["gradient_bytes"] == size
    assert line_of(allocations, "first order")["split"]["gradient_bytes"] == 3 * size
    assert line_of(allocations, "second order")["split"]["gradient_bytes"] == 0
    assert allocations["split"]["gradient_bytes"] == 4 * size


@pytest.mark.parametrize("execution", ["eager", "graph"])
def test_each_layer_s_activation_is_kept_for_the_gradient(found: Any, execution: str) -> None:
    """Four of them, in a graph where nothing has a scope, too."""
    allocations = found[f"deep_{execution}"]
    forward = [part for part in line_of(allocations, "deep")["parts"] if not is_gradient(part)]
    assert sum(part["split"]["gradient_bytes"] for part in forward) == 4 * 4 * 1_000


def test_in_a_block_of_xla_s_the_gradient_s_are_what_the_forward_pass_left(found: Any) -> None:
    allocations = found["deep_xla"]
    parts = line_of(allocations, "deep")["parts"]
    kept = [part for part in parts if part["op"] == "Tanh"]
    assert kept
    for part in parts:
        assert part["split"]["gradient_bytes"] == (part["bytes"] if part in kept else 0)
    assert allocations["gradient_why"] is None


def is_gradient(part: Any) -> bool:
    return bool(part["scope"].endswith("(gradient)"))


def test_under_a_debugger_the_lines_are_the_same_and_the_debugger_goes_on(found: Any) -> None:
    assert found["events"] > 100
    for name in NAMES:
        assert bytes_at(found["traced"], name) == BYTES[name]


@pytest.mark.parametrize(
    "execution", ["eager", "graph", "own_graph", "fit_graph", "xla", "deep_xla"]
)
def test_the_lives_sum_to_the_live_bytes_at_every_moment(found: Any, execution: str) -> None:
    allocations = found[execution]
    lives, curve = allocations["lives"], allocations["peak_curve"]
    assert lives["rest_count"] == 0
    for seconds, level in list(zip(curve["seconds"], curve["bytes"], strict=True))[1:]:
        alive = sum(
            size
            for _, _, born, died, _, size in lives["bands"]
            if (born is None or born <= seconds) and (died is None or died > seconds)
        )
        assert alive == level
