"""Choose the device, cap it, and wait for it. Child side, before the first op.

Memory trials need an allocator that counts every byte. A GPU's always does. On the CPU that is BFC,
which TensorFlow takes when told by the environment before its first op; the default one counts
nothing under 262,144 bytes. A cap on the CPU needs BFC as well, so a capped timing trial runs on it
too.

On a GPU, TensorFlow runs an op that has no kernel there on the CPU and says nothing. A memory trial
says which those were: TensorFlow is asked to keep the placed graph of every function, and of every
eager op when it meets it for the first time, which costs host memory, and no step anything.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from runner.config import Device
from runner.errors import Unavailable
from runner.facts import TrialFacts
from runner.meters.tensor import numpy_alignment
from runner.meters.tensor.allocator import EXACT_ALLOCATOR, name_allocator, unite_allocators
from runner.processes import nvml

_PLUMBING = frozenset(
    """_Arg _Retval _DeviceArg _DeviceRetval _EagerConst Const Placeholder _Send _Recv _HostSend
    _HostRecv Identity IdentityN NoOp SyncDevice Enter Exit Merge Switch _SwitchN NextIteration
    LoopCond""".split()  # noqa: SIM905
)
"""Nodes that compute nothing: they are where their inputs or their readers are."""

DISARMED = (
    f"{EXACT_ALLOCATOR} was gone from os.environ before TensorFlow's first op, so that nothing "
    "was counted: the step's code cleared or replaced the environment; leave that variable in it"
)


@dataclass(frozen=True)
class ChosenDevice:
    """A device as TensorFlow names it, and what is known of it."""

    name: str
    allocator: str
    """A pattern for the name of its allocator."""
    facts: TrialFacts
    _fallbacks_in_sessions: set[tuple[str, str]] = field(default_factory=set)
    """Names and types of nodes."""

    @property
    def is_gpu(self) -> bool:
        return self.name.startswith("GPU")

    @property
    def is_disarmed(self) -> bool:
        """The choice of the exact allocator was taken back; maybe too late to matter."""
        return not self.is_gpu and os.environ.get(EXACT_ALLOCATOR) != "1"

    def settle(self) -> None:
        """Wait until the device has done all that it was given. The CPU runs in line."""
        if self.is_gpu:
            tf.test.experimental.sync_devices()

    def read_allocator_peak(self) -> int:
        return int(tf.config.experimental.get_memory_info(self.name)["peak"])

    def describe_use(self, *, exact: bool) -> TrialFacts:
        """Return what is known of a GPU once it has been used: its memory that the process has
        taken and, of a memory trial, the types of the ops that fell back to the CPU and at how many
        places each did. Bodies of functions that TensorFlow does not inline stay unseen."""
        if not self.is_gpu:
            return TrialFacts()
        taken, reason = nvml.read_process_bytes()
        facts = TrialFacts(device_process_bytes=taken, device_process_reason=reason)
        if exact:
            from tensorflow.python.eager import context

            graphs = _list_fallbacks(context.context().export_run_metadata())
            fallbacks = Counter(op for _, op in (*self._fallbacks_in_sessions, *graphs))
            facts.fallback_ops = dict(sorted(fallbacks.items()))
        return facts


def choose_device(device: Device, *, exact: bool) -> ChosenDevice:
    """Choose and limit the device; `exact` for a memory trial. Runs no op. Raise `Unavailable`
    where it is not there."""
    if device.intra_op_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(device.intra_op_threads)
    if device.inter_op_threads is not None:
        tf.config.threading.set_inter_op_parallelism_threads(device.inter_op_threads)
    cards = tf.config.list_physical_devices("GPU")
    names = (physical.name for physical in tf.config.list_physical_devices())
    seen = tuple(name.removeprefix("/physical_device:") for name in names)
    facts = TrialFacts(devices=seen)
    if exact:
        os.environ[EXACT_ALLOCATOR] = "1"
        unite_allocators()
        try:
            numpy_alignment.install()
        except RuntimeError as error:
            facts.arrays_vary = str(error)
    if device.kind == "gpu" or (device.kind == "auto" and cards):
        return _choose_gpu(device, cards, facts, exact=exact)
    if device.index:
        raise Unavailable(
            f"device.index={device.index}: there is one CPU, number 0, and TensorFlow sees no GPU "
            f"here; it sees {', '.join(seen)}.",
            "Leave device.index out.",
        )
    tf.config.set_visible_devices([], "GPU")
    if device.memory_limit_mb is not None:
        os.environ[EXACT_ALLOCATOR] = "1"
        os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(device.memory_limit_mb)
        unite_allocators()
    facts.device = "CPU:0"
    return ChosenDevice("CPU:0", name_allocator("cpu"), facts)


def _choose_gpu(
    device: Device, cards: list[Any], facts: TrialFacts, *, exact: bool
) -> ChosenDevice:
    """Choose the one card that was asked for; alone visible, it is TensorFlow's GPU:0 whatever its
    index."""
    if device.index >= len(cards):
        raise Unavailable(
            f"device={device.kind}: TensorFlow sees no GPU:{device.index} here; "
            f"it sees {', '.join(facts.devices or ())}.",
            f"Say device.index={' or '.join(map(str, range(len(cards))))}, or device=cpu."
            if cards
            else "Install the driver and the extra [gpu] (see README.md), or say device=auto.",
        )
    card = cards[device.index]
    tf.config.set_visible_devices([card], "GPU")
    if device.memory_limit_mb is None:  # take what is needed, not the whole card
        tf.config.experimental.set_memory_growth(card, True)
    else:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=device.memory_limit_mb)
        tf.config.set_logical_device_configuration(card, [limit])
    details = tf.config.experimental.get_device_details(card)
    capability = details.get("compute_capability")
    facts.device, facts.card = f"GPU:{device.index}", details.get("device_name")
    facts.compute_capability = capability and ".".join(map(str, capability))
    chosen = ChosenDevice("GPU:0", name_allocator("gpu"), facts)
    if exact:
        from tensorflow.python.eager import context

        _watch_sessions(chosen._fallbacks_in_sessions)
        context.context().enable_graph_collection()  # makes the devices: nothing is set after it
    return chosen


def _watch_sessions(fallbacks: set[tuple[str, str]]) -> None:
    """Ask every run of a session how it placed its graph: it says so only to who asks."""
    from tensorflow.python.client.session import BaseSession

    run = BaseSession.run

    def run_with_metadata(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        options = options or tf.compat.v1.RunOptions()
        options.output_partition_graphs = True
        metadata = run_metadata or tf.compat.v1.RunMetadata()
        result = run(self, fetches, feed_dict, options, metadata)
        fallbacks.update(_list_fallbacks(metadata))
        return result

    BaseSession.run = run_with_metadata


def _list_fallbacks(metadata: Any) -> Iterator[tuple[str, str]]:
    """Yield name and type of each node that computes something, and was placed on the CPU."""
    for graph in metadata.partition_graphs:
        for node in graph.node:
            if "device:CPU" in node.device and node.op not in _PLUMBING:
                yield node.name, node.op
