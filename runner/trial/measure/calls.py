"""Which line of the user's code is in TensorFlow, at every moment of a memory trial. Child side.

    calls = Calls(own=folder_of_the_scenario)
    calls.watch()                      # before the first op
    sites = calls.sites(threads, times)    # who was calling, for each allocation of a window
    origin = calls.origin(site, node)      # its lines, its layer, whether it is a gradient's

Python enters TensorFlow's runtime by few doors: one for an eager op, one for a function's call,
one for a value that becomes a tensor, one for a tape's backward pass, one for a session's run. Each
gets a wrapper that walks the Python stack and notes the time, on the clock of the profiler; and so
does the one place where a graph gets a node. So no line is traced: a debugger or a coverage tool
goes on undisturbed, code that calls nothing costs nothing, and it is the same on every version of
Python. (`sys.settrace` copies the locals of each frame that it sees, library frames too, and so
keeps tensors alive that the program has let go.) No frame is kept, only code objects.

What is user code: everything outside the standard library, site-packages and the runner itself;
the folder of the scenario counts as the user's wherever it lies.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
import sysconfig
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import time_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import runner
from runner.trial.measure.names import of_forward, of_gradient, path, plain
from runner.trial.measure.origins import (
    BUILDING,
    PIPELINE,
    SESSION,
    Frame,
    Origin,
    Output,
    Site,
    around,
    original_names,
    spellings,
)
from runner.trial.measure.stages import Pipelines
from runner.trial.measure.xla import Blocks, Buffer
from runner.trial.measure.xplane import CONSTANT, MARKING, NONE, Ints

AMBIGUOUS = -2
"""Several threads of the program were in TensorFlow when another of TensorFlow's allocated."""

_USER, _LIBRARY, _OURS, _GENERATED = range(4)
_GENERATED_NAME = "__autograph_generated_file"


class _Log:
    """What one thread did: from each time on, the site that it was at, or `NONE`."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.times = array("q")
        self.sites = array("q")
        self.site = NONE
        self.backward: int | None = None
        """Within a backward pass: the stack that asked for it."""
        self.passes: list[tuple[int, int]] = []
        """Begin and end of each backward pass that ran eagerly."""
        self.forward: _Node | None = None
        """Within an op's gradient: the op, where its graph is known."""
        self.forward_scope = ""


class _Node(NamedTuple):
    stack: int
    """Of a backward pass: that of the op which it differentiates, if that is known; or its own,
    where a line of the user's made it, as in a custom gradient."""
    is_backward: bool
    is_known: bool
    """That its line is this one, whatever its name says."""
    type: str
    outputs: tuple[Output, ...]


class _Compiled(NamedTuple):
    """A node that calls a function which XLA compiles."""

    graph: str
    node: str
    function: str


_HANDED_ON = {"EmptyTensorList", "TensorListPushBack", "OptionalFromValue", "OptionalNone"}
"""Ops that a loop or a branch gets when its gradient is asked for, and that run in the forward
pass: they hand on what the backward one needs."""

_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}

_IN_PIPELINES = "Dataset_"
"""How TensorFlow names the graphs of a data pipeline's functions."""


class Calls:
    """Watches the doors of one process, and answers for each window of the profiler's."""

    def __init__(self, own: Iterable[Path] = (), scratch: Path | None = None) -> None:
        """`own`: folders of user code wherever they lie; `scratch`: for what XLA writes."""
        self._own = tuple(f"{each.resolve()}{os.sep}" for each in own)
        self._ours = f"{Path(runner.__file__).resolve().parent}{os.sep}"
        standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
        standard |= {os.path.realpath(path) for path in standard}
        self._library = ("<frozen ", *(f"{path}{os.sep}" for path in standard))
        self._blocks = Blocks(scratch) if scratch else None
        self._kinds: dict[int, int] = {}
        self._codes: list[CodeType] = []  # alive, so that no id is used again
        self._stack_of: dict[tuple[Any, ...], int] = {}
        self._stacks: list[tuple[tuple[CodeType, int], ...]] = []
        self._is_library: list[bool] = []
        self._site_of: dict[Site, int] = {}
        self._sites: list[Site] = []
        self._logs: dict[int, _Log] = {}
        """By thread: where TensorFlow's own call Python, each call looks like a new one."""
        self._local = threading.local()
        self._numbering = (
            threading.Lock()
        )  # a number is a place in a list; threads must not share one
        self._nodes: dict[str, dict[str, _Node]] = {}
        """By node, by the graph's name."""
        self._compiled: list[_Compiled] = []
        self._pipelines = Pipelines()
        self._sources: dict[tuple[str, int], Frame] = {}
        """Of a generated line: the line that it was made from."""
        self._undo: list[Callable[[], object]] = []

    # Watching.

    def watch(self) -> None:
        """Put a wrapper around each door. To be called by the thread that makes the marks."""
        self._marking = threading.get_ident()
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.autograph.pyct import loader
        from tensorflow.python.client import pywrap_tf_session
        from tensorflow.python.data.ops import dataset_ops, iterator_ops
        from tensorflow.python.eager import backprop, context
        from tensorflow.python.framework import constant_op, ops

        self._context = context
        if self._blocks is not None:
            said = os.environ.get("XLA_FLAGS", "")
            if "--xla_dump_to" in said:  # the user's own
                self._blocks = None
            else:
                os.environ["XLA_FLAGS"] = f"{said} {self._blocks.flags}".strip()
        doors = {"TFE_Py_FastPathExecute": 1, "TFE_Py_Execute": 2, "TFE_Py_ExecuteCancelable": 2}
        for name, called in doors.items():
            self._replace(pywrap_tfe, name, functools.partial(self._door, called=called))
        self._replace(constant_op, "convert_to_eager_tensor", self._converting)
        self._replace(pywrap_tfe, "TFE_Py_TapeGradient", self._backward_door)
        for name in ("jacobian", "batch_jacobian"):  # what they run, they trace or loop over first
            self._replace(backprop.GradientTape, name, self._asking_for_gradients)
        register, plain = pywrap_tfe.TFE_Py_RegisterGradientFunction, backprop._gradient_function
        register(self._noting_forward(plain))
        self._undo.append(lambda: register(plain))
        in_session = functools.partial(self._door, called=SESSION)
        self._replace(pywrap_tf_session, "TF_SessionRun_wrapper", in_session)
        self._replace(ops, "_create_c_op", functools.partial(self._door, called=BUILDING))
        self._replace(ops.Graph, "_create_op_helper", self._noting_node)
        self._replace(loader, "load_ast", self._noting_sources)
        self._replace(dataset_ops.DatasetV2, "__init__", self._noting_stage)
        self._replace(iterator_ops.OwnedIterator, "_create_iterator", self._noting_pipeline)

    def _asking_for_gradients(self, own: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(own)(self._backward_door(own))

    def _replace(self, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
        plain = getattr(owner, name)
        setattr(owner, name, wrapped(plain))
        self._undo.append(lambda: setattr(owner, name, plain))

    def unwatch(self) -> None:
        """Take the wrappers away; what was seen stays."""
        while self._undo:
            self._undo.pop()()

    def _log(self) -> _Log:
        try:
            log: _Log = self._local.log
        except AttributeError:
            is_marking = threading.get_ident() == self._marking
            thread = MARKING if is_marking else threading.get_native_id()
            log = self._local.log = self._logs.setdefault(thread, _Log(thread))
        return log

    def _door(self, enter: Callable[..., Any], called: str | int) -> Callable[..., Any]:
        """`called`: what is behind the door, or which argument says so."""

        def through(*args: Any, **kwargs: Any) -> Any:
            log = self._log()
            before = log.site
            name = called if isinstance(called, str) else args[called]
            if type(name) is bytes:
                name = name.decode()
            log.site = now = self._site(sys._getframe(1), log, name)
            log.times.append(time_ns())
            log.sites.append(now)
            try:
                return enter(*args, **kwargs)
            finally:
                log.site = before
                log.times.append(time_ns())
                log.sites.append(before)

        return through

    def _converting(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        """The door for a value that becomes a tensor, of which the result says shape and dtype."""
        within = self._door(convert, CONSTANT)

        def through(*args: Any, **kwargs: Any) -> Any:
            log = self._log()
            at = len(log.sites)
            tensor = within(*args, **kwargs)
            plain = self._sites[log.sites[at]]
            shaped = plain._replace(output=(tensor._shape_tuple(), tensor._datatype_enum()))
            log.sites[at] = self._number(shaped)
            return tensor

        return through

    def _backward_door(self, enter: Callable[..., Any]) -> Callable[..., Any]:
        within = self._door(enter, "")

        def through(*args: Any, **kwargs: Any) -> Any:
            log, begin = self._log(), time_ns()
            before = log.backward
            is_run = before is None and self._context.executing_eagerly()
            log.backward = self._stack(sys._getframe(1))
            try:
                return within(*args, **kwargs)
            finally:
                log.backward = before
                if is_run:
                    log.passes.append((begin, time_ns()))

        return through

    def _noting_node(self, create: Callable[..., Any]) -> Callable[..., Any]:
        def creating(graph: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            stack, log = self._stack(sys._getframe(1)), self._log()
            is_asked_for, is_own = log.backward is not None, stack != log.backward
            if is_asked_for and log.forward is not None and not is_own:
                stack = log.forward.stack
            kind, named = op.type, getattr(graph, "name", "")
            node = _Node(
                stack,
                is_backward=is_asked_for and kind not in _HANDED_ON,
                is_known=is_asked_for and (is_own or log.forward is not None),
                type=kind,
                outputs=tuple((_shape(each), each.dtype.as_datatype_enum) for each in op.outputs),
            )
            self._nodes.setdefault(op.name, {})[named] = node
            if kind in _CALLS and _is_compiled(op):
                self._compiled.append(_Compiled(named, op.name, op.get_attr("f").name))
            return create(graph, op, *args, **kwargs)

        return creating

    def _noting_forward(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        def differentiating(
            op: Any, attrs: Any, count: Any, inputs: Any, outputs: Any, *rest: Any
        ) -> Any:
            log = self._log()
            before = log.forward, log.forward_scope
            log.forward = self._forward(op, inputs, outputs)
            log.forward_scope = rest[-1] or ""
            try:
                return differentiate(op, attrs, count, inputs, outputs, *rest)
            finally:
                log.forward, log.forward_scope = before

        return differentiating

    def _forward(self, op_type: str, inputs: Any, outputs: Any) -> _Node | None:
        """The node of a graph that is differentiated. A tape keeps of its inputs and its outputs
        only those that the gradient needs."""
        for each in outputs or ():
            if (op := _op(each)) is not None:
                return self._node(op)
        for each in inputs or ():
            if _op(each) is not None:
                fed = [op for op in each.consumers() if op.type == op_type]
                nodes = {node for node in map(self._node, fed) if node and not node.is_backward}
                if len(nodes) == 1:
                    return nodes.pop()
        return None

    def _node(self, op: Any) -> _Node | None:
        return self._nodes.get(op.name, {}).get(getattr(op.graph, "name", ""))

    def _noting_sources(self, load: Callable[..., Any]) -> Callable[..., Any]:
        """AutoGraph runs what it generated, and knows which line each one came from."""

        def loading(*args: Any, **kwargs: Any) -> Any:
            module, source, source_map = load(*args, **kwargs)
            for at, origin in (source_map or {}).items():
                self._sources[at.filename, at.lineno] = Frame(
                    origin.loc.filename, origin.loc.lineno, origin.function_name or ""
                )
            return module, source, source_map

        return loading

    def _noting_stage(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def making(dataset: Any, *args: Any, **kwargs: Any) -> Any:
            self._pipelines.made(dataset, self._stack(sys._getframe(1)))
            return make(dataset, *args, **kwargs)

        return making

    def _noting_pipeline(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def beginning(iterator: Any, dataset: Any) -> Any:
            self._pipelines.begun(dataset, self._stack(sys._getframe(1)))
            return begin(iterator, dataset)

        return beginning

    def _site(self, frame: FrameType, log: _Log, called: str) -> int:
        context = self._context._context
        scope = context._thread_local_data.scope_name if context is not None else ""
        if log.backward is not None:
            scope = log.forward_scope
        return self._number(Site(self._stack(frame), scope, called, log.backward is not None))

    def _number(self, site: Site) -> int:
        number = self._site_of.get(site)
        if number is None:
            with self._numbering:
                number = self._site_of[site] = len(self._sites)
                self._sites.append(site)
        return number

    def _stack(self, frame: FrameType | None) -> int:
        """A number for the lines of the user's on the stack."""
        innermost, kinds = frame, self._kinds
        key: list[int] = []
        while frame is not None:
            code = frame.f_code
            kind = kinds.get(id(code))
            if kind is None:
                kind = self._kind(code)
            if kind is _USER or kind is _GENERATED:
                key += (id(code), frame.f_lineno)
            frame = frame.f_back
        number = self._stack_of.get(tuple(key))
        if number is None or not key:
            return self._new_stack(tuple(key), innermost)
        return number

    def _new_stack(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        """With no line of the user's: the innermost one outside TensorFlow, or else in it."""
        found = []
        while frame is not None:
            kind = self._kinds[id(frame.f_code)]
            if kind in (_USER, _GENERATED) or (not key and kind is _LIBRARY):
                found.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        if not key:
            outside = [
                one for one in found if f"{os.sep}tensorflow{os.sep}" not in one[0].co_filename
            ]
            found = (outside or found)[:1]
            key = tuple(part for code, line in found for part in (id(code), line))
            if key in self._stack_of:
                return self._stack_of[key]
            is_library = True
        else:
            is_library = False
        with self._numbering:
            number = self._stack_of[key] = len(self._stacks)
            self._stacks.append(tuple(reversed(found)))
            self._is_library.append(is_library)
        return number

    def _kind(self, code: CodeType) -> int:
        file = code.co_filename
        if os.path.basename(file).startswith(_GENERATED_NAME):  # noqa: PTH119
            kind = _GENERATED
        else:
            kind = self._kind_of_file(file)
        self._codes.append(code)
        self._kinds[id(code)] = kind
        return kind

    def _kind_of_file(self, file: str) -> int:
        whole = file if file.startswith("<") else os.path.abspath(file)  # noqa: PTH100
        if whole.startswith(self._own):
            return _USER
        if whole.startswith(self._ours):
            return _OURS
        is_installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(whole).parts)
        return _LIBRARY if is_installed or whole.startswith(self._library) else _USER

    # Answering.

    def sites(self, threads: Ints, times: Ints, ops: Sequence[str]) -> Ints:
        """The site of each thread at each time. Where it has none, as threads of TensorFlow's own
        pools, the site of the one thread that is in TensorFlow then; of several, of the one that
        called this op."""
        found = np.full(times.size, NONE, np.int64)
        others = np.full(times.size, NONE, np.int64)
        everywhere = []
        for log in list(self._logs.values()):
            size = min(len(log.times), len(log.sites))
            when = np.array(log.times[:size], np.int64)
            where = np.append(np.array(log.sites[:size], np.int64), NONE)  # the last: before all
            at = where[np.searchsorted(when, times, "right") - 1]
            own = threads == log.thread
            found[own & (at != NONE)] = at[own & (at != NONE)]
            free = at != NONE
            clash = free & (others != NONE) & (others != at)
            others[free] = at[free]
            others[clash] = AMBIGUOUS
            everywhere.append(at)
        for row in np.flatnonzero((found == NONE) & (others == AMBIGUOUS)).tolist():
            there = {int(at[row]) for at in everywhere if at[row] != NONE}
            fitting = [each for each in there if self._sites[each].called == plain(ops[row])]
            others[row] = fitting[0] if len(fitting) == 1 else AMBIGUOUS
        for row in np.flatnonzero((found == NONE) & (others >= 0)).tolist():
            if not self._sites[others[row]].may_run(plain(ops[row])):
                others[row] = NONE
        return np.where(found == NONE, others, found)

    def backward(self, begin_ns: int, end_ns: int) -> Ints:
        """Those of all threads, in order; one within another is a part of that."""
        found = [
            (begin, end)
            for log in list(self._logs.values())
            for begin, end in list(log.passes)
            if begin_ns <= begin < end_ns
        ]
        return np.array(sorted(found), np.int64).reshape(-1, 2)

    def forget(self, before_ns: int) -> None:
        """Drop what no later window asks for: all but where each thread is."""
        for log in list(self._logs.values()):
            del log.passes[: sum(end <= before_ns for _, end in log.passes)]
            keep = max(
                int(np.searchsorted(np.array(log.times, np.int64), before_ns, "right")) - 1, 0
            )
            del log.times[:keep], log.sites[:keep]

    def origin(self, number: int, op: str) -> Origin:
        """Where an allocation comes from: of a site, and in a graph of its node."""
        at = self._sites[number] if number >= 0 else None
        if at is None or at.function:
            found = self._of_node(op, at.function if at else "")
            if found is not None:
                is_backward = found.is_backward or (at is not None and at.is_backward)
                return found._replace(is_backward=is_backward, called=at.called if at else "")
        elif at.called and plain(op) != at.called and self._is_of_pipeline(op):
            return self.in_pipeline("", op)  # run by the thread that asks for an element
        if at is None:
            why = (
                "several threads were in TensorFlow at that time"
                if number == AMBIGUOUS
                else "no call into TensorFlow was under way"
            )
            return Origin((), "", False, False, why)
        scope = "" if at.function else at.scope.rstrip("/")
        found = self._lines(at.stack, scope, at.is_backward)
        if found.is_library and at.function:
            found = self._of_function(at.function) or found
        return found._replace(called=at.called, outputs=(at.output,) if at.output else ())

    def _is_of_pipeline(self, op: str) -> bool:
        graphs = itertools.chain.from_iterable(self._nodes.get(name, ()) for name in spellings(op))
        return any(graph.startswith(_IN_PIPELINES) for graph in graphs)

    def in_pipeline(self, stages: str, op: str) -> Origin:
        """Where what a data pipeline allocates comes from: the line of a node of its functions', or
        else of the stage that allocates."""
        found = self._of_node(op, _IN_PIPELINES) if op else None
        if found is not None:
            return found._replace(called=PIPELINE)
        stack = self._pipelines.line(stages)
        if stack is None:
            why = "a data pipeline allocated it, and which one TensorFlow doesn't say"
            return Origin((), "", False, False, why, PIPELINE)
        return self._lines(stack, "", is_backward=False)._replace(called=PIPELINE)

    def compiled(self, call: Origin, size: int) -> Origin:
        """Of a block that XLA allocated: the call of the function that it is of."""
        if self._blocks is None or self._blocks.hold(call.called, size):
            return call
        graph = _graph(call.called)
        for each in sorted(self._compiled, key=lambda each: each.graph != graph):
            if self._blocks.hold(each.function, size):
                at = self._of_node(each.node, each.graph) or call
                return at._replace(called=each.function, node="", op="", outputs=())
        return call

    def _of_function(self, function: str) -> Origin | None:
        """Of one that no line of the user's calls, as a step that the runner calls: where it makes
        its first node."""
        graph = _graph(function)
        stacks = (graphs[graph].stack for graphs in self._nodes.values() if graph in graphs)
        stack = next((stack for stack in stacks if not self._is_library[stack]), None)
        return None if stack is None else self._lines(stack, "", is_backward=False)

    def opened(self, function: str, size: int) -> tuple[tuple[Buffer, ...], ...]:
        """What XLA put into a block; see `Blocks`."""
        if self._blocks is None:
            return ()
        return self._blocks.opened(function, size, lambda node: self._path(node, function))

    def _path(self, node: str, function: str) -> str:
        """A node with its scopes, those of a gradient where it is one by who made it."""
        found, named = self._of_node(node, function), path(node)
        scope, _, leaf = named.rpartition("/")
        if found is None or (not found.node and not found.is_backward):
            return named
        scope = of_gradient(scope) if found.is_backward else of_forward(scope)
        return f"{scope}/{leaf}" if scope else leaf

    def node(self, name: str, call: Origin) -> Origin:
        """Of a node of the function that was called, or else the call."""
        found = self._of_node(name, call.called)
        return call if found is None else found._replace(called=call.called)

    def _of_node(self, op: str, function: str) -> Origin | None:
        graph = _graph(function)
        spelled = ((name, self._named(name, graph)) for name in spellings(op))
        named, own = next(((name, node) for name, node in spelled if node is not None), ("", None))
        found = None
        if own is not None and own.is_known:
            found = self._lines(own.stack, "", own.is_backward)
        else:
            differentiated = ((self._named(name, graph), back) for name, back in original_names(op))
            wider = ((self._named(name, graph), False) for name in around(op))
            for node, is_backward in itertools.chain(differentiated, wider):
                if node is not None:
                    found = self._lines(node.stack, "", is_backward or node.is_backward)
                    break
        if found is not None and own is not None:
            return found._replace(node=named, op=own.type, outputs=own.outputs)
        return found

    def _named(self, name: str, graph: str) -> _Node | None:
        """In this graph or, of a function that was put into it, in the latest that has it."""
        graphs = self._nodes.get(name)
        if not graphs:
            return None
        if graph == _IN_PIPELINES:
            graph = next((each for each in reversed(graphs) if each.startswith(graph)), "")
        return graphs.get(graph) or next(reversed(graphs.values()))

    def _lines(self, stack: int, scope: str, is_backward: bool) -> Origin:
        frames: list[Frame] = []
        for code, line in self._stacks[stack]:
            frame = Frame(code.co_filename, line, code.co_qualname)
            if self._kinds[id(code)] is _GENERATED:
                source = self._sources.get((code.co_filename, line))
                if source is None or self._kind_of_file(source.file) is not _USER:
                    continue
                frame = source
            if not frames or frames[-1] != frame:
                frames.append(frame)
        why = None if frames else "no line of Python's was on the stack but the runner's own"
        return Origin(tuple(frames), scope, is_backward, self._is_library[stack], why)


def _graph(function: str) -> str:
    """What TensorFlow calls the graph of the function that it calls so."""
    called = re.fullmatch(r"__(?:inference|forward|backward)_(.+)_\d+", function)
    return called[1] if called else function


def _shape(tensor: Any) -> tuple[int, ...] | None:
    shape = tensor.shape
    return tuple(shape) if shape.is_fully_defined() else None


def _is_compiled(call: Any) -> bool:
    try:
        return bool(call.get_attr("_XlaMustCompile"))
    except ValueError:  # has no such attribute
        return False


def _op(tensor: Any) -> Any:
    """The node of a graph that makes it; an eager tensor has none, and says so by an exception."""
    try:
        return tensor.op
    except AttributeError:
        return None
