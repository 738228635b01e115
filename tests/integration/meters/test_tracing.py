"""Tracing real TensorFlow, against known truth. One child process does all of it, once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

CHILD = """
import contextlib, itertools, json, os, tempfile, time
from pathlib import Path

import msgspec
from tests import lean_tensorflow
import tensorflow as tf
from tensorflow.python.profiler import profiler_v2

from runner.meters.host import malloc
from runner.meters.tensor import samples
from runner.meters.tensor.allocator import name_allocator
from runner.meters.tensor.replay import NoAllocations
from runner.meters.tensor.tracing import AllocationTracing
from runner.records import Phase

STATE = (57, 123)
tf.config.threading.set_inter_op_parallelism_threads(1)  # or a graph's peak varies


def trial(build, steps=4, between=lambda: None, **bounds):
    tracing = AllocationTracing(name_allocator("cpu"), **bounds)
    tracing.start()
    tracing.begin(Phase.BUILD)
    step = build()
    tracing.end(Phase.BUILD)
    tracing.begin(Phase.FIRST_CALL)
    step()
    tracing.end(Phase.FIRST_CALL)
    for number in range(steps):
        tracing.begin(Phase.STEPS, number)
        step()
        between()
        tracing.end(Phase.STEPS, number)
    tracing.begin(Phase.RELEASE)
    del step
    tracing.end(Phase.RELEASE)
    found = tracing.finish()
    if isinstance(found, NoAllocations):
        return {"reason": found.reason}
    stretches = [one._asdict() | one.span._asdict() for one in found.stretches]
    kept = msgspec.to_builtins(samples.pick_allocations(found))
    return kept | {"retained_bytes": found.retained_bytes, "stretches": stretches}


def keeping():
    kept = []
    return lambda: kept.append(tf.zeros([7777]))


def taped(iterations):
    def build():
        state, weight = tf.random.normal(STATE), tf.random.normal([STATE[1], STATE[1]])

        def step():
            with tf.GradientTape() as tape:
                tape.watch(state)
                now = state
                for _ in range(iterations):
                    now = now @ weight
            tape.gradient(now, state)

        return step

    return build


def layers():
    weights = [tf.Variable(tf.random.normal([64, 64])) for _ in range(3)]
    batch = tf.random.normal([32, 64])

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            now = batch
            for number, weight in enumerate(weights):
                with tf.name_scope(f"layer_{number}"):
                    now = tf.tanh(now @ weight)
            loss = tf.reduce_sum(now)
        return tape.gradient(loss, weights)

    return train


def fused():
    state = tf.ones([64, 64])
    return tf.function(lambda: tf.tanh(state @ state) @ state, jit_compile=True)


def eager_steps(count):
    def build():
        one = tf.ones([4, 4])

        def step():
            now = one
            for _ in range(count):
                now = one @ one
        return step
    return build


def compiled(when):
    # As a compiler does: 40 MB of malloc's heap while it is at work.
    def build():
        held, kept, calls = tf.ones([1000]), [], itertools.count()

        def step():
            if next(calls) == when:
                kept.append(held * 2.0)
                blocks = [malloc.take(4_000) for _ in range(10_000)]
                time.sleep(0.5)
                del blocks
                kept.append(held * 2.0)
            return held + 1.0
        return step
    return build


def while_steps(count):
    def build():
        one = tf.ones([4, 4])

        @tf.function
        def step():
            body = lambda number, now: (number + 1, tf.matmul(now, now))
            return tf.while_loop(lambda number, now: number < count, body, [0, one])[1]

        return step
    return build


def profiled():
    tf.profiler.experimental.start(tempfile.gettempdir())
    try:
        tf.profiler.experimental.start(tempfile.gettempdir())
    except tf.errors.AlreadyExistsError:
        with contextlib.suppress(tf.errors.UnavailableError):
            tf.profiler.experimental.stop()
            tf.profiler.experimental.stop()
            raise AssertionError("two were stopped")
    with tf.profiler.experimental.Profile(tempfile.gettempdir()):
        pass


def lose_profiler():
    profiler_v2._profiler = None


found = {"keeping": trial(keeping)}  # first: the allocator's own peak is the process's
found["own_peak"] = tf.config.experimental.get_memory_info("CPU:0")["peak"]
found["windows"] = trial(keeping, window_bytes=0)
for iterations in (100, 117):
    found[f"taped_{iterations}"] = trial(taped(iterations), steps=2)
found["layers"] = trial(layers)
found["fused"] = trial(fused)
found["long_eager"] = trial(eager_steps(30_000), steps=1, most_bytes=8_000_000)
found["long_while"] = trial(while_steps(30_000), steps=1, most_bytes=8_000_000)
found["compiled_0"] = trial(compiled(0), most_bytes=8_000_000)  # in the first call
found["compiled_2"] = trial(compiled(2), most_bytes=8_000_000)  # in step 1
found["full"] = trial(eager_steps(2_000), between=lambda: time.sleep(0.2), window_bytes=1_000_000)
found["after"] = trial(keeping)
folder = tempfile.mkdtemp()
tf.profiler.experimental.start(folder)
found["occupied"] = trial(keeping)
tf.profiler.experimental.stop(save=False)
found["lost"] = trial(lambda: lambda: None, between=lose_profiler)
found["profiled"] = trial(keeping, between=profiled)
with tf.profiler.experimental.Profile(folder):
    pass
found["own_files"] = len(list(Path(folder).rglob("*.xplane.pb")))
found["left_over"] = [name for name in os.listdir(tempfile.gettempdir())
                      if name.startswith(f"runner-trace-{os.getpid()}")]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "TF_CPU_ALLOCATOR_USE_BFC": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "stderr": done.stderr}


REAL = ("keeping", "windows", "taped_100", "layers", "fused", "after", "full")


def steps(trial: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in trial["stretches"] if one["phase"] == "steps"]


def test_a_kept_vector_of_7777_floats_grows_by_exactly_its_bytes(found: dict[str, Any]) -> None:
    for step in steps(found["keeping"]):
        assert step["end_bytes"] - step["begin_bytes"] == 31_108
        assert step["peak_bytes"] - step["end_bytes"] <= 8  # the zero that it is filled with

    (leak,) = found["keeping"]["leaks"]
    assert (leak["op"], leak["shape"], leak["dtype"]) == ("Fill", [7777], "float32")
    assert (leak["count_per_step"], leak["bytes_per_step"]) == (1, 31_108)


def test_everything_is_gone_after_release(found: dict[str, Any]) -> None:
    assert found["keeping"]["retained_bytes"] == 0


def test_the_replayed_peak_with_rounding_is_the_allocators_own(found: dict[str, Any]) -> None:
    trial = found["keeping"]

    assert trial["checks"]["live_before_bytes"] == 0
    assert trial["checks"]["disagreements"] == 0
    assert trial["allocator_peak_bytes"] == found["own_peak"]


@pytest.mark.parametrize("name", REAL)
def test_no_event_is_lost_or_out_of_order(found: dict[str, Any], name: str) -> None:
    checks = found[name]["checks"]

    assert checks["events"] > 0
    assert checks["disagreements"] == checks["reused_addresses"] == 0
    if not checks["live_before_bytes"]:
        assert checks["unmatched_frees"] == 0


@pytest.mark.parametrize("name", REAL)
def test_the_groups_sum_to_the_peak_to_the_byte(found: dict[str, Any], name: str) -> None:
    trial = found[name]

    assert sum(group["bytes"] for group in trial["groups"]) == trial["total_bytes"]
    assert sum(size or 0 for size in trial["split"].values()) == trial["total_bytes"]
    assert max(trial["curve"]["bytes"]) == trial["total_bytes"]
    for group in trial["groups"]:
        assert sum(scope["bytes"] for scope in group["scopes"]) == group["bytes"]


def test_seventeen_more_iterations_under_the_tape_keep_seventeen_more_states(
    found: dict[str, Any],
) -> None:
    state = 57 * 123 * 4
    short, long = found["taped_100"], found["taped_117"]

    assert long["total_bytes"] - short["total_bytes"] == 17 * state
    assert short["groups"][0]["op"] == "MatMul"
    assert short["groups"][0]["shape"] == [57, 123]


def test_a_window_a_span_gives_what_one_window_gives(found: dict[str, Any]) -> None:
    one, many = dict(found["keeping"]), dict(found["windows"])

    spans = 2 + 4 + 1  # build, first call, steps, release
    assert (one["checks"]["windows"], many["checks"]["windows"]) == (1, spans + 1)
    assert many["leaks"] == one["leaks"]
    assert many["groups"] == one["groups"]
    assert [step["end_bytes"] for step in steps(many)] == [step["end_bytes"] for step in steps(one)]


def test_a_full_window_is_closed_between_steps(found: dict[str, Any]) -> None:
    assert found["full"]["checks"]["windows"] > 1


def test_in_a_graph_the_layers_that_make_the_peak_are_named(found: dict[str, Any]) -> None:
    trial = found["layers"]
    scopes = {scope["scope"] for group in trial["groups"] for scope in group["scopes"]}

    assert {"layer_0", "layer_1", "layer_2"} <= scopes
    assert trial["phase"] == "steps"
    assert trial["split"]["gradient_bytes"] >= 2 * 32 * 64 * 4
    assert trial["split"]["held_bytes"] >= (3 * 64 * 64 + 32 * 64) * 4


def test_what_xla_allocates_is_named_xla_with_its_function(found: dict[str, Any]) -> None:
    (lump,) = [group for group in found["fused"]["groups"] if group["op"] == "XLA"]

    assert lump["bytes"] >= 64 * 64 * 4
    assert lump["shape"] is None


@pytest.mark.parametrize("name", ["long_eager", "long_while"])
def test_a_step_past_the_bound_ends_the_tracing_and_nothing_else(
    found: dict[str, Any], name: str
) -> None:
    assert set(found[name]) == {"reason"}
    assert "makes more events than can be traced" in found[name]["reason"]
    least = re.search(r"its tensors take at least (\d+) B$", found[name]["reason"])
    assert least is not None
    assert 2 * 64 <= int(least[1]) <= 64 * 64  # 4 x 4 floats each; a loop has some under way
    assert found["after"]["leaks"][0]["bytes_per_step"] == 31_108  # and so can a later one be


@pytest.mark.parametrize("call", [0, 2])
def test_what_a_compiler_takes_of_the_heap_ends_no_tracing(
    found: dict[str, Any], call: int
) -> None:
    trial = found[f"compiled_{call}"]
    assert trial["total_bytes"] == 4 * 4_000
    assert trial["checks"]["disagreements"] == 0
    assert trial["checks"]["windows"] > 1
    calls = [one for one in trial["stretches"] if one["phase"] in ("first_call", "steps")]
    sizes = [4_000 if number != call else 3 * 4_000 for number in range(5)]
    assert [one["allocated_bytes"] for one in calls] == sizes
    assert [one["end_bytes"] - one["begin_bytes"] for one in calls] == [
        size - 4_000 for size in sizes
    ]


@pytest.mark.parametrize(
    ("name", "reason"), [("occupied", "could not be started"), ("lost", "could not be written")]
)
def test_a_profiler_that_is_not_ours_takes_the_figures_away_and_nothing_else(
    found: dict[str, Any], name: str, reason: str
) -> None:
    assert set(found[name]) == {"reason"}
    assert reason in found[name]["reason"]


def test_a_programs_own_profiler_is_put_off_and_told_so(found: dict[str, Any]) -> None:
    assert found["profiled"]["leaks"] == found["keeping"]["leaks"]
    assert found["profiled"]["groups"] == found["keeping"]["groups"]
    assert "the program's own profiler does not run here" in found["stderr"]
    assert found["own_files"] == 1, "after the trial it runs"


def test_the_files_are_removed(found: dict[str, Any]) -> None:
    assert found["left_over"] == []
