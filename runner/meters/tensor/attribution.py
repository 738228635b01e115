"""Give each allocation its label: its op, its layer or scope, its shape, and the lines it is from.

`origins` knows the line, the layer, and forward from backward, `names` what TensorFlow calls it:

    where                                               the label takes
    the origin knows the node, TensorFlow not its type  op and scope of the node as it was made
    XLA allocated a block                               the call of the compiled function
    TensorFlow names no scope                           the layer that Python was in
    TensorFlow says no shape                            the output that has the event's size
    TensorFlow names nothing                            "for" what was being called
    a stage of a data pipeline, or one holds it         "tf.data" and the stage
    the origin knows forward from backward              its word, whatever the name says

Core: standard library and NumPy. Events that are alike in all that a label depends on share one,
and are asked about once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from runner.allocations import GRADIENT
from runner.meters.tensor import names
from runner.meters.tensor.backward_start import find_turns, is_differentiated, list_differentiated
from runner.meters.tensor.buffer_plans import Buffer
from runner.meters.tensor.lifetimes import Lifetimes
from runner.meters.tensor.origins import PIPELINE, UNRECORDED, AllocationEvent, OriginFinder
from runner.meters.tensor.pipeline_stages import get_last_stage
from runner.meters.tensor.recording import BUILDING, Origin, Recording
from runner.meters.tensor.window import EAGER_OP, ITERATOR, NONE, Bools, Ints, Mark, Window


class Label(NamedTuple):
    """The common properties of allocations that are counted together."""

    op: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str
    origin: Origin
    block_bytes: int = 0
    """The size of a block that XLA allocates in one piece."""
    is_run: bool = True
    """An op allocated it as it ran. A constant that is folded, or kept, while a graph is made ready
    is not run."""

    @property
    def is_backward(self) -> bool:
        return self.scope.endswith(GRADIENT)


class Piece(NamedTuple):
    """A buffer in a block of XLA's. It comes and goes with the block."""

    label: Label
    bytes: int
    is_for_gradient: bool | None
    """None where XLA does not say of which node it is."""


class Attribution:
    """Takes windows in order of time; `labels` are those of all allocations so far."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._origins = OriginFinder(recording)
        self._numbers: dict[Label, int] = {}
        self._paths: list[set[str]] = []
        """The nodes of each label, with their scopes."""
        self.op_types: dict[str, str] = {}
        """A graph's node -> its type, where the profiler named both."""

    @property
    def labels(self) -> list[Label]:
        return list(self._numbers)

    def number_labels(self, made: Window) -> Ints:
        """Return the place in `labels` of each of these allocations."""
        self.op_types.update(made.op_types)
        called = np.where(made.op == NONE, made.within, made.op).tolist()
        ops = [made.text(code).removeprefix(EAGER_OP) for code in called]
        sites = self._recording.find_sites(made.thread, made.time_ns, ops)
        shapeless = np.where(made.shape == NONE, made.requested_bytes, 0)  # then the size tells
        columns = (made.on_data_thread, made.op, made.shape, made.dtype, made.within, shapeless)
        known: dict[tuple[int, ...], int] = {}
        numbers = []
        for row, key in enumerate(zip(sites.tolist(), *(c.tolist() for c in columns), strict=True)):
            if key not in known:
                label, node = self._make_label(made, row, site=key[0])
                known[key] = number = self._numbers.setdefault(label, len(self._numbers))
                if number == len(self._paths):
                    self._paths.append(set())
                self._paths[number].add(names.to_path(node))
            numbers.append(known[key])
        return np.array(numbers, np.int64)

    def _make_label(self, window: Window, row: int, site: int) -> tuple[Label, str]:
        """Return one allocation's label, by the table above, and TensorFlow's name of its node."""
        op, within = window.text(window.op[row]), window.text(window.within[row])
        stages = within if within.startswith(ITERATOR) else ""
        within = "" if stages else within
        node = op or within.removeprefix(EAGER_OP).rpartition(":")[0]
        size = int(window.requested_bytes[row])
        event = AllocationEvent(site, node, stages, bool(window.on_data_thread[row]), size)
        origin = self._origins.find(event)

        name, scope = names.name_op(op, within, self.op_types)
        if origin.op and node not in self.op_types:  # a node as it was made
            made = origin.node or node
            name, scope = names.name_op(made, "", {made: origin.op})
        if name == names.XLA:
            origin = self._origins.find_compiled(origin, size)
            scope = scope or names.name_op(origin.called, "", {})[1]
        if name == names.UNKNOWN and origin.called:
            name = origin.called if origin.called == BUILDING else f"for {origin.called}"
        if origin.called.startswith(f"{PIPELINE} "):
            name, scope = origin.called, ""
        elif stages and not node:
            name = f"{PIPELINE} {get_last_stage(stages)}"

        shape = names.parse_shape(window.text(window.shape[row]))
        dtype = names.name_dtype(int(window.dtype[row]))
        is_run = shape is not None  # TensorFlow says the shape of what an op asks for
        if not is_run and (output := origin.find_output(size)) is not None:
            shape, dtype = output[0], names.name_dtype(output[1])
        label = Label(
            op=name,
            scope=_choose_scope(scope or origin.scope, origin),
            shape=shape,
            dtype=dtype,
            origin=origin._replace(outputs=(), node="", op=""),
            block_bytes=size if name == names.XLA else 0,
            is_run=is_run,
        )
        return label, node

    def find_turns(self, found: Lifetimes, born: Ints, labels: Ints, mark: Mark) -> Ints:
        """Return the events with which backward passes begin. Python says when it runs one; those
        within a graph are told by its nodes."""
        passes = self._recording.find_backward_passes(mark.begin_ns, mark.end_ns)
        spans = np.searchsorted(found.events.time_ns, passes)
        in_graph = np.ones(born.size, bool)
        for begin, end in spans:
            in_graph &= (born < begin) | (born >= end)
        forward, backward = (born[in_graph & of[labels]] for of in self._split_passes())
        return np.union1d(spans[:, 0], find_turns(forward, backward, born))

    def _split_passes(self) -> tuple[Bools, Bools]:
        """Return which labels are of a graph's forward pass, and which of its backward one."""
        labels = self.labels
        backward = [label.is_backward and label.is_run for label in labels]
        known = list_differentiated(
            label.scope for label, is_backward in zip(labels, backward, strict=True) if is_backward
        )
        forward = [
            not label.is_backward
            and not label.origin.is_eager
            and is_differentiated(paths | {label.scope}, known)
            for label, paths in zip(labels, self._paths, strict=True)
        ]
        return np.array(forward, bool), np.array(backward, bool)

    def open_block(self, label: Label) -> list[list[Piece]]:
        """Return what the blocks of a label hold, one after the other; nothing if it is not a block
        of XLA's, or one whose plan could not be read."""
        plans, called = self._recording.plans, label.origin.called
        if plans is None or not label.block_bytes:
            return []
        to_path = partial(self._origins.find_path, function=called)
        blocks = plans.open(called, label.block_bytes, to_path)
        return [[self._describe_piece(buffer, label) for buffer in block] for block in blocks]

    def _describe_piece(self, buffer: Buffer, block: Label) -> Piece:
        origin, op, scope = block.origin, buffer.op, block.scope
        if buffer.node:
            if found := self._origins.find_node(buffer.node, origin.called):
                origin = found._replace(called=origin.called)
            op, scope = names.name_op(buffer.node, "", {buffer.node: buffer.op})
            scope = _choose_scope(scope, origin)
        label = Label(op, scope, buffer.shape, buffer.dtype, origin, block.block_bytes)
        return Piece(label, buffer.bytes, buffer.is_for_gradient)

    def explain_unknown_gradient(self, labels: Sequence[Label]) -> str | None:
        """Return why what is kept for a gradient can't be told from the rest, where it can't: a
        backward pass is seen where lines are recorded, but within what XLA compiled."""
        for label in labels:
            if label.origin == UNRECORDED:
                return UNRECORDED.why
            if not label.block_bytes:
                continue
            held = [piece for block in self.open_block(label) for piece in block]
            if not held or any(piece.is_for_gradient is None for piece in held):
                return (
                    f"XLA does not say which node of {label.scope or 'the function'} each buffer "
                    f"is of in its block of {label.block_bytes:,} bytes"
                )
        return None


def _choose_scope(scope: str, origin: Origin) -> str:
    """Return the scope in the pass that the origin knows."""
    if origin.is_backward:
        return names.to_gradient(scope)
    return names.to_forward(scope) if origin.node else scope
