"""Record which line of the user's code is in TensorFlow, at every moment of a memory trial.

Python enters TensorFlow's runtime by few doors. Each gets a wrapper that walks the Python stack and
notes the time, on the clock of the profiler:

    TFE_Py_FastPathExecute, TFE_Py_Execute...    an eager op, or a function's call
    convert_to_eager_tensor                      a value that becomes a tensor
    TFE_Py_TapeGradient, jacobian, ...           a backward pass
    TF_SessionRun_wrapper                        a session's run
    _create_c_op, _create_op_helper              a graph gets a node
    DatasetV2, OwnedIterator                     a data pipeline gets a stage, and is begun
    load_ast                                     AutoGraph runs what it generated

So no line is traced: a debugger or a coverage tool goes on undisturbed, code that calls nothing
costs nothing, and it is the same on every version of Python. (`sys.settrace` copies the locals of
each frame that it sees, library frames too, and so keeps tensors alive that the program let go.)
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from typing import Any

from runner.meters.clock import Clock
from runner.meters.tensor.buffer_plans import BufferPlans
from runner.meters.tensor.python_stacks import CodeLine, PythonStacks
from runner.meters.tensor.recording import (
    BUILDING,
    SESSION,
    CompiledCall,
    Node,
    Recording,
    Site,
    ThreadLog,
)
from runner.meters.tensor.window import CONSTANT, MARKING
from runner.versions import describe_untried

_HANDED_ON = {"EmptyTensorList", "TensorListPushBack", "OptionalFromValue", "OptionalNone"}
"""Ops that a loop or a branch gets when its gradient is asked for, and that run in the forward
pass: they hand on what the backward one needs."""

_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}

_XLA_FLAGS = "XLA_FLAGS"
_DUMP = "--xla_dump_to"

Function = Callable[..., Any]


class CallRecorder:
    """Watches the doors of one process; `recording` holds what was seen."""

    def __init__(self, own: Iterable[Path] = (), scratch: Path | None = None) -> None:
        """`own`: folders of user code wherever they lie; `scratch`: for what XLA writes."""
        self._stacks = PythonStacks(own)
        self._scratch = scratch
        self.recording = Recording(self._stacks)
        self._local = threading.local()
        self._undo = ExitStack()

    def start(self) -> None:
        """Put a wrapper around each door, before the first op, in the thread that makes the marks.
        Where TensorFlow's version was not tried and lacks a door, no line is recorded."""
        self._marking = threading.get_ident()
        try:
            self._wrap_doors()
        except (ImportError, AttributeError):
            import tensorflow as tf

            if not describe_untried("tensorflow", tf.__version__):
                raise
            self.stop()
            self.recording.stacks = None

    def _wrap_doors(self) -> None:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.autograph.pyct import loader
        from tensorflow.python.client import pywrap_tf_session
        from tensorflow.python.data.ops import dataset_ops, iterator_ops
        from tensorflow.python.eager import backprop, context
        from tensorflow.python.framework import constant_op, ops

        # TensorFlow's own names, without a promise: tests/integration/meters/test_lines.py holds
        # them on each version that is supported.
        self._context = context
        self._ask_xla_for_its_plans()
        doors = {"TFE_Py_FastPathExecute": 1, "TFE_Py_Execute": 2, "TFE_Py_ExecuteCancelable": 2}
        for name, argument in doors.items():
            self._replace(pywrap_tfe, name, partial(self._wrap, called=argument))
        self._replace(
            pywrap_tf_session, "TF_SessionRun_wrapper", partial(self._wrap, called=SESSION)
        )
        self._replace(ops, "_create_c_op", partial(self._wrap, called=BUILDING))
        self._replace(constant_op, "convert_to_eager_tensor", self._wrap_conversion)
        self._replace(pywrap_tfe, "TFE_Py_TapeGradient", self._wrap_backward)
        for name in ("jacobian", "batch_jacobian"):  # what they run, they trace or loop over first
            self._replace(backprop.GradientTape, name, self._wrap_backward)
        # The runtime keeps the gradient function that it was given: it is not looked up by name.
        register, plain = pywrap_tfe.TFE_Py_RegisterGradientFunction, backprop._gradient_function
        register(self._wrap_gradient(plain))
        self._undo.callback(register, plain)
        self._replace(ops.Graph, "_create_op_helper", self._wrap_node)
        self._replace(loader, "load_ast", self._wrap_loading)
        pipelines, wrap = self.recording.pipelines, self._wrap_dataset
        make = partial(wrap, note=pipelines.note_stage, argument=0)
        iterate = partial(wrap, note=pipelines.note_iteration, argument=1)
        self._replace(dataset_ops.DatasetV2, "__init__", make)
        self._replace(iterator_ops.OwnedIterator, "_create_iterator", iterate)

    def _ask_xla_for_its_plans(self) -> None:
        flags = os.environ.get(_XLA_FLAGS, "")
        if self._scratch is not None and _DUMP not in flags:  # else the user asked for his own
            self.recording.plans = BufferPlans(self._scratch)
            ours = f"{_DUMP}={self._scratch} --xla_dump_hlo_as_text"
            os.environ[_XLA_FLAGS] = f"{flags} {ours}".strip()

    def _replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        plain = getattr(owner, name)
        setattr(owner, name, wraps(plain)(wrap(plain)))
        self._undo.callback(setattr, owner, name, plain)

    def stop(self) -> None:
        """Take the wrappers away; what was seen stays."""
        self._undo.close()

    def _find_log(self) -> ThreadLog:
        try:
            log: ThreadLog = self._local.log
        except AttributeError:
            is_marking = threading.get_ident() == self._marking
            thread = MARKING if is_marking else threading.get_native_id()
            log = self._local.log = self.recording.logs.setdefault(thread, ThreadLog(thread))
        return log

    def _wrap(self, enter: Function, called: str | int) -> Function:
        """Note each call; `called` is what is behind the door, or which argument says so."""

        def through(*args: Any, **kwargs: Any) -> Any:
            log = self._find_log()
            before = log.site
            name = called if isinstance(called, str) else args[called]
            if type(name) is bytes:
                name = name.decode()
            is_backward = log.backward is not None
            scope = log.forward_scope if is_backward else self._read_scope()
            site = Site(self._stacks.number_stack(sys._getframe(1)), scope, name, is_backward)
            # Two appends to arrays, no lock: a thread writes to its own log alone.
            log.site = now = self.recording.number_site(site)
            log.times.append(Clock.epoch_ns())
            log.sites.append(now)
            try:
                return enter(*args, **kwargs)
            finally:
                log.site = before
                log.times.append(Clock.epoch_ns())
                log.sites.append(before)

        return through

    def _read_scope(self) -> str:
        """Return the name scope of this thread, which is Keras' layer."""
        context = self._context._context
        return context._thread_local_data.scope_name if context is not None else ""

    def _wrap_conversion(self, convert: Function) -> Function:
        """Note also which shape and dtype a value becomes."""
        within = self._wrap(convert, CONSTANT)

        def through(*args: Any, **kwargs: Any) -> Any:
            log = self._find_log()
            at = log.forgotten + len(log.sites)
            tensor = within(*args, **kwargs)
            place = at - log.forgotten
            if place >= 0:  # else a window was closed meanwhile
                site = self.recording.sites[log.sites[place]]
                shaped = site._replace(output=(tensor._shape_tuple(), tensor._datatype_enum()))
                number = self.recording.number_site(shaped)
                # A signal closes windows within the build, and Python may answer it at any call.
                place = at - log.forgotten
                if place >= 0:
                    log.sites[place] = number
            return tensor

        return through

    def _wrap_backward(self, enter: Function) -> Function:
        within = self._wrap(enter, "")

        def through(*args: Any, **kwargs: Any) -> Any:
            log, begin = self._find_log(), Clock.epoch_ns()
            before = log.backward
            is_run = before is None and self._context.executing_eagerly()
            log.backward = self._stacks.number_stack(sys._getframe(1))
            try:
                return within(*args, **kwargs)
            finally:
                log.backward = before
                if is_run:
                    log.passes.append((begin, Clock.epoch_ns()))

        return through

    def _wrap_node(self, create: Function) -> Function:
        def through(graph: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            stack, log = self._stacks.number_stack(sys._getframe(1)), self._find_log()
            is_asked_for, is_own = log.backward is not None, stack != log.backward
            if is_asked_for and log.forward is not None and not is_own:
                stack = log.forward.stack
            node = Node(
                stack,
                is_backward=is_asked_for and op.type not in _HANDED_ON,
                is_known=is_asked_for and (is_own or log.forward is not None),
                type=op.type,
                outputs=tuple(
                    (
                        tuple(each.shape.as_list()) if each.shape.is_fully_defined() else None,
                        each.dtype.as_datatype_enum,
                    )
                    for each in op.outputs
                ),
            )
            name = getattr(graph, "name", "")
            self.recording.nodes.setdefault(op.name, {})[name] = node
            if op.type in _CALLS and op.node_def.attr["_XlaMustCompile"].b:
                called = CompiledCall(name, op.name, op.get_attr("f").name)
                self.recording.compiled_calls.append(called)
            return create(graph, op, *args, **kwargs)

        return through

    def _wrap_gradient(self, differentiate: Function) -> Function:
        def through(op: Any, attrs: Any, count: Any, inputs: Any, outputs: Any, *rest: Any) -> Any:
            log = self._find_log()
            before = log.forward, log.forward_scope
            log.forward = self._find_forward(op, inputs, outputs)
            log.forward_scope = rest[-1] or ""
            try:
                return differentiate(op, attrs, count, inputs, outputs, *rest)
            finally:
                log.forward, log.forward_scope = before

        return through

    def _find_forward(self, op_type: str, inputs: Any, outputs: Any) -> Node | None:
        """Return the node of a graph that is differentiated. A tape keeps of its inputs and its
        outputs only those that the gradient needs."""
        for each in outputs or ():
            if (op := getattr(each, "op", None)) is not None:  # an eager tensor has none
                return self._find_node(op)
        for each in inputs or ():
            if getattr(each, "op", None) is not None:
                fed = map(self._find_node, (op for op in each.consumers() if op.type == op_type))
                nodes = {node for node in fed if node and not node.is_backward}
                if len(nodes) == 1:
                    return nodes.pop()
        return None

    def _find_node(self, op: Any) -> Node | None:
        return self.recording.nodes.get(op.name, {}).get(getattr(op.graph, "name", ""))

    def _wrap_loading(self, load: Function) -> Function:
        """AutoGraph knows which line each line that it generated came from."""

        def through(*args: Any, **kwargs: Any) -> Any:
            module, source, source_map = load(*args, **kwargs)
            for at, origin in (source_map or {}).items():
                self._stacks.sources[at.filename, at.lineno] = CodeLine(
                    origin.loc.filename, origin.loc.lineno, origin.function_name or ""
                )
            return module, source, source_map

        return through

    def _wrap_dataset(
        self, enter: Function, note: Callable[[Any, int], None], argument: int
    ) -> Function:
        """Note the stack that hands over a dataset, as which argument."""

        def through(*args: Any, **kwargs: Any) -> Any:
            note(args[argument], self._stacks.number_stack(sys._getframe(1)))
            return enter(*args, **kwargs)

        return through
