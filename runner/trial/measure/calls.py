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
import os
import re
import sys
import sysconfig
import threading
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import runner
from runner.allocations import GRADIENT
from runner.trial.measure.names import of_gradient, path
from runner.trial.measure.origins import (
    BUILDING,
    SESSION,
    Frame,
    Origin,
    Site,
    original_names,
    spellings,
)
from runner.trial.measure.xla import Blocks, Buffer
from runner.trial.measure.xplane import CONSTANT, NONE, Ints

AMBIGUOUS = -2
"""Several threads of the program were in TensorFlow when another of TensorFlow's allocated."""

_USER, _LIBRARY, _OURS, _GENERATED = range(4)
_GENERATED_NAME = "__autograph_generated_file"


class _Log:
    """What one thread did: from each time on, the site that it was at, or `NONE`."""

    def __init__(self) -> None:
        self.thread = threading.get_native_id()
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
        self._logs: list[_Log] = []
        self._local = threading.local()
        self._numbering = (
            threading.Lock()
        )  # a number is a place in a list; threads must not share one
        self._nodes: dict[str, dict[str, _Node]] = {}
        """By node, by the graph's name."""
        self._sources: dict[tuple[str, int], Frame] = {}
        """Of a generated line: the line that it was made from."""
        self._undo: list[Callable[[], object]] = []

    # Watching.

    def watch(self) -> None:
        """Put a wrapper around each door."""
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.autograph.pyct import loader
        from tensorflow.python.client import pywrap_tf_session
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
            log = self._local.log = _Log()
            self._logs.append(log)
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
            shaped = plain._replace(shape=tensor._shape_tuple(), dtype=tensor._datatype_enum())
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
            node = _Node(stack, is_backward=False, is_known=True)
            if log.backward is not None:
                is_own = stack != log.backward
                if log.forward is not None and not is_own:
                    stack = log.forward.stack
                node = _Node(stack, is_backward=True, is_known=is_own or log.forward is not None)
            self._nodes.setdefault(op.name, {})[getattr(graph, "name", "")] = node
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

    def sites(self, threads: Ints, times: Ints) -> Ints:
        """The site of each thread at each time. Where it has none, as threads of TensorFlow's own
        pools, the site of the one thread that is in TensorFlow then."""
        found = np.full(times.size, NONE, np.int64)
        others = np.full(times.size, NONE, np.int64)
        for log in list(self._logs):
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
        return np.where(found == NONE, others, found)

    def backward(self, begin_ns: int, end_ns: int) -> Ints:
        """Those of all threads, in order; one within another is a part of that."""
        found = [
            (begin, end)
            for log in list(self._logs)
            for begin, end in list(log.passes)
            if begin_ns <= begin < end_ns
        ]
        return np.array(sorted(found), np.int64).reshape(-1, 2)

    def forget(self, before_ns: int) -> None:
        """Drop what no later window asks for: all but where each thread is."""
        for log in list(self._logs):
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
        if at is None:
            why = (
                "several threads were in TensorFlow at that time"
                if number == AMBIGUOUS
                else "no call into TensorFlow was under way"
            )
            return Origin((), "", False, False, why)
        scope = "" if at.function else at.scope.rstrip("/")
        found = self._lines(at.stack, scope, at.is_backward)
        return found._replace(called=at.called, shape=at.shape, dtype=at.dtype)

    def opened(self, function: str, size: int) -> tuple[tuple[Buffer, ...], ...]:
        """What XLA put into a block; see `Blocks`."""
        if self._blocks is None:
            return ()
        return self._blocks.opened(function, size, lambda node: self._path(node, function))

    def _path(self, node: str, function: str) -> str:
        """A node with its scopes, those of a gradient where it is one by who made it."""
        found, named = self._of_node(node, function), path(node)
        if found is None or not found.is_backward or GRADIENT in named.split("/"):
            return named
        scope, _, leaf = named.rpartition("/")
        return f"{of_gradient(scope)}/{leaf}"

    def node(self, name: str, call: Origin) -> Origin:
        """Of a node of the function that was called, or else the call."""
        found = self._of_node(name, call.called)
        return call if found is None else found._replace(called=call.called)

    def _of_node(self, op: str, function: str) -> Origin | None:
        called = re.fullmatch(r"__(?:inference|forward|backward)_(.+)_\d+", function)
        graph = called[1] if called else function
        spelled = (self._named(name, graph) for name in spellings(op))
        own = next((node for node in spelled if node is not None), None)
        if own is not None and own.is_backward and own.is_known:
            return self._lines(own.stack, "", is_backward=True)
        for name, is_backward in original_names(op):
            node = self._named(name, graph)
            if node is not None:
                return self._lines(node.stack, "", is_backward or node.is_backward)
        return None

    def _named(self, name: str, graph: str) -> _Node | None:
        """In this graph or, of a function that was put into it, in the latest that has it."""
        graphs = self._nodes.get(name)
        if not graphs:
            return None
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


def _op(tensor: Any) -> Any:
    """The node of a graph that makes it; an eager tensor has none, and says so by an exception."""
    try:
        return tensor.op
    except AttributeError:
        return None
