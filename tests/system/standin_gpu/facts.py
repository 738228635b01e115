"""What TensorFlow does on the stand-in GPU, as plain scripts: no line of the product is in here.

Each function is one fact. It runs in a child of its own, forked from a server that has TensorFlow
loaded and has run no op, as the product's trials are. Printed at the end: {name: what it returned}.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
KERNEL_SECONDS = 0.05


def card(index: int = 0, *, growth: bool = True, limit_mb: int | None = None) -> Any:
    """TensorFlow, with one card to see; it is GPU:0 then, whatever its index was."""
    import tensorflow as tf

    chosen = tf.config.list_physical_devices("GPU")[index]
    tf.config.set_visible_devices([chosen], "GPU")
    if limit_mb is not None:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=limit_mb)
        tf.config.set_logical_device_configuration(chosen, [limit])
    elif growth:
        tf.config.experimental.set_memory_growth(chosen, True)
    return tf


def in_use(tf: Any) -> int:
    return int(tf.config.experimental.get_memory_info("GPU:0")["current"])


def status(field: str) -> int:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def mapped_from_cards() -> int:
    """What the cards have given away: this process's anonymous shared memory."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/dev/zero (deleted)"):
            begin, end = line.split()[0].split("-")
            total += int(end, 16) - int(begin, 16)
    return total


def devices() -> Facts:
    import tensorflow as tf

    return {"seen": [device.name for device in tf.config.list_physical_devices()]}


def counting() -> Facts:
    tf = card()
    tf.ones([1])  # TensorFlow keeps the constant that it fills from
    before = in_use(tf)
    tensor = tf.ones([1000])
    during = in_use(tf)
    device = tensor.device
    del tensor
    return {"device": device, "added": during - before, "left": in_use(tf) - before}


def second_card() -> Facts:
    tf = card(1)
    return {
        "device": tf.ones([1]).device,
        "logical": [device.name for device in tf.config.list_logical_devices("GPU")],
    }


def growing() -> Facts:
    tf = card()
    tf.ones([1])
    return {"mapped": mapped_from_cards()}


def not_growing() -> Facts:
    tf = card(growth=False)
    tf.ones([1])
    return {"mapped": mapped_from_cards()}


def card_memory() -> Facts:
    tf = card()
    tf.ones([1])
    anonymous, shared, data = (status(name) for name in ("RssAnon", "RssShmem", "VmData"))
    tensor = tf.ones([25_000_000])
    return {
        "tensor": 4 * int(tensor.shape[0]),
        "anonymous": status("RssAnon") - anonymous,
        "shared": status("RssShmem") - shared,
        "data": status("VmData") - data,
    }


def capped() -> Facts:
    """A second card's cap. Raises after the 10 s that TensorFlow's allocator keeps trying."""
    tf = card(1, limit_mb=64)
    kept: list[Any] = []
    try:
        while len(kept) < 100:
            kept.append(tf.ones([1000, 1000]))
    except tf.errors.ResourceExhaustedError as error:
        return {"kept": len(kept), "message": error.message}
    return {"kept": len(kept), "message": ""}


def events() -> Facts:
    """The allocation events of a loop of three multiplications of a state by a weight."""
    tf = card()
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options=options)
        state, weight = tf.ones([10, 100]), tf.ones([100, 100])
        for _ in range(3):
            state = state @ weight
        tf.profiler.experimental.stop()
        (file,) = Path(folder).rglob("*.xplane.pb")
        changes = list(_memory_events(file.read_bytes()))
    live = peak = 0
    for name, change in changes:
        if name == "PluggableDevice_0_bfc":
            live += change
            peak = max(peak, live)
    return {
        "allocators": sorted({name for name, _ in changes}),
        "requested_peak": peak,
        "allocator_peak": tf.config.experimental.get_memory_info("GPU:0")["peak"],
    }


def _memory_events(content: bytes) -> Any:
    """(allocator, requested bytes, negative where freed), in order of time."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    found = []
    for plane in xplane_pb2.XSpace.FromString(content).planes:
        events = {key: value.name for key, value in plane.event_metadata.items()}
        stats = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                sign = {"MemoryAllocation": 1, "MemoryDeallocation": -1}.get(
                    events[event.metadata_id]
                )
                if sign is None:
                    continue
                values = {stats[stat.metadata_id]: stat for stat in event.stats}
                allocator = stats[values["allocator_name"].ref_value]
                requested = values["requested_bytes"]
                bytes_ = requested.int64_value or requested.uint64_value
                at = line.timestamp_ns * 1000 + event.offset_ps
                found.append((at, allocator, sign * bytes_))
    return [(allocator, change) for _, allocator, change in sorted(found)]


def synchronising() -> Facts:
    os.environ["STANDIN_GPU_KERNEL_US"] = str(round(KERNEL_SECONDS * 1e6))
    tf = card()
    matrix = tf.ones([2, 2])
    tf.test.experimental.sync_devices()
    start = time.perf_counter()
    for _ in range(5):
        matrix @ matrix
    called = time.perf_counter()
    tf.test.experimental.sync_devices()
    done = time.perf_counter()
    matrix @ matrix
    asked = time.perf_counter()
    (matrix @ matrix).numpy()
    return {
        "all": done - start,
        "synchronising": done - called,
        "fetching": time.perf_counter() - asked,
    }


PLUMBING = {
    *("_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "_EagerConst", "Const", "Placeholder"),
    *("_Send", "_Recv", "_HostSend", "_HostRecv", "Identity", "IdentityN", "NoOp"),
    *("Enter", "Exit", "Merge", "Switch", "_SwitchN", "NextIteration", "LoopCond"),
}
"""Nodes that compute nothing: they go where their inputs or their readers are."""


def falling_back() -> Facts:
    """Which ops ran on the CPU, eager ones and those of graphs, with the devices they were given.

    TensorFlow keeps the placed graph of every function that it instantiates, and wraps an eager op
    in a function of its own when it meets it for the first time.
    """
    tf = card()
    from tensorflow.python.eager import context

    context.context().enable_graph_collection()  # makes the devices: only after they are set up
    found = {}

    def collect(name: str) -> None:
        metadata = context.context().export_run_metadata()  # and forgets it
        ops: dict[str, Counter[str]] = {"CPU": Counter(), "GPU": Counter()}
        for graph in metadata.partition_graphs:
            for node in graph.node:
                if node.op not in PLUMBING:
                    ops[node.device.split(":")[-2]][node.op] += 1
        found[name] = {device: sorted(names) for device, names in ops.items()}

    state, weight = tf.random.normal([4, 8]), tf.random.normal([8, 8])
    collect("random input")
    tf.reduce_sum(tf.sin(state @ weight))
    collect("eager")

    def three_times(state: Any, weight: Any) -> Any:
        def body(step: Any, state: Any) -> Any:
            return step + 1, tf.sin(state @ weight)

        return tf.while_loop(lambda step, _: step < 3, body, (0, state))[1]

    loop = tf.function(three_times)
    loop(state, weight)
    collect("graph")
    loop(state, weight)
    collect("again")
    return found


def placement() -> Facts:
    """Soft placement off refuses an op without a kernel, but only one whose device was named."""
    tf = card()
    tf.config.set_soft_device_placement(False)
    unnamed = tf.sin([1.0]).device
    try:
        with tf.device("/GPU:0"):
            tf.sin([1.0])
    except tf.errors.InvalidArgumentError as error:
        return {"unnamed": unnamed, "named": error.message}
    return {"unnamed": unnamed, "named": ""}


def results() -> Facts:
    """Every kernel's largest difference from the CPU's, eagerly and in a graph, relative to the
    largest number there."""
    tf = card()

    def everything(a: Any, b: Any, variable: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            product = a @ b
            looped = tf.while_loop(
                lambda step, _: step < 3,
                lambda step, x: (step + 1, x @ tf.matmul(a, a, transpose_b=True)),
                (0, tf.ones([2, 5])),
            )[1]
            total = product * product + product * 2.0 - tf.ones([5, 1])
        of_a, of_b = tape.gradient([total, looped], [a, b])
        variable.assign(a)
        variable.assign_add(variable * 2.0)
        return {
            "turned": tf.matmul(b, a, transpose_a=True, transpose_b=True),
            "looped": looped,
            "broadcast": total,
            "gradient of a": of_a,
            "gradient of b": of_b,
            "sum": tf.add_n([a, a, a]),
            "negative": 0.0 - a,
            "zeros": tf.zeros_like(a),
            "ones": tf.ones_like(a),
            "variable": variable.read_value(),
        }

    def on(device: str, run: Any) -> dict[str, Any]:
        with tf.device(device):
            a = tf.identity(tf.random.stateless_normal([5, 7], seed=[1, 2]))
            b = tf.identity(tf.random.stateless_normal([7, 3], seed=[3, 4]))
            answers: dict[str, Any] = run(a, b, tf.Variable(a))
        return answers

    expected = on("/CPU:0", everything)
    differences = {}
    for way, run in {"eager": everything, "graph": tf.function(everything)}.items():
        for name, value in on("/GPU:0", run).items():
            assert value.device.endswith("GPU:0"), (name, way, value.device)
            right = expected[name].numpy()
            difference = abs(value.numpy() - right).max() / max(1, abs(right).max())
            differences[f"{name}, {way}"] = float(difference)
    return differences


def compiling() -> Facts:
    tf = card()
    try:
        tf.function(tf.sin, jit_compile=True)(tf.ones([2]))
    except tf.errors.UnimplementedError as error:
        return {"message": error.message}
    return {"message": ""}


FACTS = (capped, devices, counting, second_card, growing, not_growing, card_memory, events,
         synchronising, falling_back, placement, results, compiling)  # fmt: skip


def _child(fact: Callable[[], Facts], pipe: Connection) -> None:
    try:
        pipe.send(fact())
    except BaseException:
        pipe.send({"raised": traceback.format_exc()})


def main() -> None:
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["tensorflow"])
    answers = {}
    for fact in FACTS:
        ours, theirs = forkserver.Pipe(duplex=False)
        forkserver.Process(target=_child, args=(fact, theirs)).start()
        theirs.close()
        answers[fact.__name__] = ours
    json.dump({name: answer.recv() for name, answer in answers.items()}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
