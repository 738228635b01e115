"""What devices there are, their caps, their synchronisation. Child side, before the first op.

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

from runner.config import Device
from runner.errors import Unavailable
from runner.machine import nvml
from runner.trial.measure.replay import allocator_of

_PLUMBING = frozenset(
    {
        *("_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "_EagerConst", "Const", "Placeholder"),
        *(
            "_Send",
            "_Recv",
            "_HostSend",
            "_HostRecv",
            "Identity",
            "IdentityN",
            "NoOp",
            "SyncDevice",
        ),
        *("Enter", "Exit", "Merge", "Switch", "_SwitchN", "NextIteration", "LoopCond"),
    }
)
"""Nodes that compute nothing: they are where their inputs or their readers are."""


EXACT_ALLOCATOR = "TF_CPU_ALLOCATOR_USE_BFC"

DISARMED = (
    f"{EXACT_ALLOCATOR} was gone from os.environ before TensorFlow's first op, so that nothing "
    "was counted: the step's code cleared or replaced the environment; leave that variable in it"
)


@dataclass(frozen=True)
class Placed:
    """The device that was chosen, as TensorFlow names it, and what is known of it."""

    name: str
    allocator: str
    facts: dict[str, Any]
    _fallen_in_sessions: set[tuple[str, str]] = field(default_factory=set)
    """Names and types of nodes."""

    def settle(self) -> None:
        """Wait until the device has done all that it was given. The CPU runs in line."""
        if self.on_gpu:
            import tensorflow as tf

            tf.test.experimental.sync_devices()

    @property
    def is_disarmed(self) -> bool:
        """Whether the choice of the exact allocator was taken back; maybe too late to matter."""
        return not self.on_gpu and os.environ.get(EXACT_ALLOCATOR) != "1"

    @property
    def on_gpu(self) -> bool:
        return self.name.startswith("GPU")

    def allocator_peak_bytes(self) -> int:
        import tensorflow as tf

        return int(tf.config.experimental.get_memory_info(self.name)["peak"])

    def findings(self, *, exact: bool) -> dict[str, Any]:
        """What is known of a GPU once it has been used: its memory that the process has taken and,
        of a memory trial, the types of the ops that fell back to the CPU and at how many places
        each did. Bodies of functions that TensorFlow does not inline stay unseen."""
        if not self.on_gpu:
            return {}
        taken, reason = nvml.process_bytes()
        found: dict[str, Any] = {"device_process_bytes": taken, "device_process_reason": reason}
        if exact:
            from tensorflow.python.eager import context

            fallen = Counter(kind for _, kind in self._fallen_in_sessions)
            fallen.update(kind for _, kind in _on_the_cpu(context.context().export_run_metadata()))
            found["fallback_ops"] = dict(sorted(fallen.items()))
        return found


def _on_the_cpu(metadata: Any) -> Iterator[tuple[str, str]]:
    for graph in metadata.partition_graphs:
        for node in graph.node:
            if "device:CPU" in node.device and node.op not in _PLUMBING:
                yield node.name, node.op


def prepare(device: Device, *, exact: bool) -> Placed:
    """Choose and limit the device; `exact` for a memory trial. Runs no op."""
    import tensorflow as tf

    if device.intra_op_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(device.intra_op_threads)
    if device.inter_op_threads is not None:
        tf.config.threading.set_inter_op_parallelism_threads(device.inter_op_threads)
    if exact:
        os.environ[EXACT_ALLOCATOR] = "1"
    seen = tf.config.list_physical_devices()
    cards = tf.config.list_physical_devices("GPU")
    facts = {"devices": [each.name.removeprefix("/physical_device:") for each in seen]}
    if device.kind == "gpu" or (device.kind == "auto" and cards):
        return _gpu(device, cards, facts, exact=exact)
    if device.index:
        raise Unavailable(
            f"device.index={device.index}: there is one CPU, number 0, and TensorFlow sees no GPU "
            f"here; it sees {', '.join(facts['devices'])}.",
            "Leave device.index out.",
        )
    return _cpu(device, facts)


def _cpu(device: Device, facts: dict[str, Any]) -> Placed:
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    if device.memory_limit_mb is not None:
        os.environ[EXACT_ALLOCATOR] = "1"
        os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(device.memory_limit_mb)
    return Placed("CPU:0", allocator_of("cpu"), {"device": "CPU:0", **facts})


def _gpu(device: Device, cards: list[Any], facts: dict[str, Any], *, exact: bool) -> Placed:
    """The one card that was asked for; alone visible, it is TensorFlow's GPU:0 whatever its
    index."""
    import tensorflow as tf

    if device.index >= len(cards):
        raise Unavailable(
            f"device={device.kind}: TensorFlow sees no GPU:{device.index} here; "
            f"it sees {', '.join(facts['devices'])}.",
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
    facts = {
        **facts,
        "device": f"GPU:{device.index}",
        "card": details.get("device_name"),
        "compute_capability": capability and ".".join(map(str, capability)),
    }
    placed = Placed("GPU:0", allocator_of("gpu"), facts)
    if exact:
        from tensorflow.python.eager import context

        _watch_sessions(placed._fallen_in_sessions)
        context.context().enable_graph_collection()  # makes the devices: nothing is set after it
    return placed


def _watch_sessions(fallen: set[tuple[str, str]]) -> None:
    """A session says how it placed its graph in its answer, to who asks: here, to every run."""
    import tensorflow as tf
    from tensorflow.python.client.session import BaseSession

    run = BaseSession.run

    def asking(
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
        fallen.update(_on_the_cpu(metadata))
        return result

    BaseSession.run = asking
