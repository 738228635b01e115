"""See what a script does, without a change of it: Keras' fit, predict and evaluate, the updates of
optimizers, sessions and functions that contain one. Child side.

    door                                   what is seen there
    CallbackList.on_train_batch_begin ...  batches of fit, predict and evaluate
    Optimizer.apply, apply_gradients       an update: now, or in the graph that is made now
    Function.__call__                      a call of the function whose graph has an update
    BaseSession.run                        a run that fetches an update
    GradientTape.__enter__                 the begin of the first step of a loop in Python

Each door gets a wrapper of a few instructions: what a step of a script pays for being seen.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from runner.script.marks import StepKind, StepMarks
from runner.script.repeated_calls import CalledFunction, name_function

_MOST_CANDIDATES = 20
"""Functions and tapes between the making of an optimizer and its first update that may be the begin
of the first step; after so many the search for it is given up."""


class _SteppingFunction(NamedTuple):
    """A tf.function of which each call is a step."""

    function: Any
    kind: StepKind
    label: str


@dataclass
class _UpdatedGraph:
    """A graph with an update in it."""

    optimizer: str
    runs_update: dict[str, bool] = field(default_factory=dict)
    """Of each op that was asked for: whether it is an update, or needs one."""


class ScriptHooks:
    """Watches one process on behalf of its marks, to its end."""

    def __init__(self, marks: StepMarks) -> None:
        """Put a wrapper around each door; of what is imported later, as it is imported."""
        from tensorflow.python.client.session import BaseSession
        from tensorflow.python.eager import backprop, context
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
        from tensorflow.python.framework import ops
        from tensorflow.python.training import optimizer as first_optimizers

        self._marks = marks
        self.has_optimizer = False
        self._is_updating = False
        self._outermost: Any = None
        """The function that the script has called, and that runs or is traced now."""
        self._stepping: dict[int, _SteppingFunction] = {}
        """By identity."""
        self._graphs: WeakKeyDictionary[Any, _UpdatedGraph] = WeakKeyDictionary()
        """Those of TensorFlow 1 in which an optimizer has put an update."""
        self._named: dict[CodeType, str] = {}
        """What a step is, in words, by the code of a named function: as a tf.function that is made
        of it, or bound to an object, is another one than the name stands for."""
        self._candidates = 0
        self._without_update: WeakSet[Any] = WeakSet()
        """Functions that were called and had no update, as one that evaluates: no candidates."""
        self._executing_eagerly = context.executing_eagerly
        self._default_graph = ops.get_default_graph
        self._replace(Function, "__call__", self._wrap_function)
        self._call_code = vars(Function)["__call__"].__code__
        self._replace(BaseSession, "run", self._wrap_session)
        note_tape = partial(_call_first, self._note_tape)
        self._replace(backprop.GradientTape, "__enter__", note_tape)
        self._replace(first_optimizers.Optimizer, "apply_gradients", self._wrap_update)
        for keras in ("keras", "tf_keras"):
            after_import(f"{keras}.src.callbacks", self._watch_batches)
            after_import(f"{keras}.src.callbacks.callback_list", self._watch_batches)
            after_import(f"{keras}.src.optimizers.base_optimizer", self._watch_optimizers)
            after_import(f"{keras}.src.optimizers.optimizer", self._watch_optimizers)
            after_import(f"{keras}.src.optimizers.legacy.optimizer_v2", self._watch_optimizers)

    def mark_calls(self, function: Any, name: str) -> Any:
        """Return the function so that each call of it is a step."""
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

        label = f"each call of {name}"
        if (code := _find_code(function)) is not None:
            self._named[code] = label
        if isinstance(function, Function):  # whose other methods a program may want
            return function
        marks = self._marks

        @wraps(function)
        def through(*args: Any, **kwargs: Any) -> Any:
            if self._outermost is not None:  # it is traced
                return function(*args, **kwargs)
            marks.begin(StepKind.NAMED)
            result = function(*args, **kwargs)
            marks.end(StepKind.NAMED, label)
            return result

        return through

    def _replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        plain = vars(owner).get(name)
        if callable(plain):
            setattr(owner, name, wraps(plain)(wrap(plain)))

    def _watch_batches(self, module: ModuleType) -> None:
        owner = getattr(module, "CallbackList", None)
        if owner is None or owner.__module__ != module.__name__:  # a package names it, too
            return
        marks = self._marks
        batches = {
            "train": (StepKind.BATCH, "each batch of Keras' fit"),
            "test": (StepKind.INFERENCE, "each batch of Keras' evaluate"),
            "predict": (StepKind.INFERENCE, "each batch of Keras' predict"),
        }
        for mode, (kind, label) in batches.items():
            begin, end = (partial(mark, kind, label) for mark in (marks.begin, marks.end))
            self._replace(owner, f"on_{mode}_batch_begin", partial(_call_first, begin))
            self._replace(owner, f"on_{mode}_batch_end", partial(_call_last, end))
        for mode in ("test", "predict"):  # evaluation within a loop is no part of its steps
            self._replace(owner, f"on_{mode}_begin", partial(_call_first, marks.void_update))
            self._replace(owner, f"on_{mode}_end", partial(_call_last, marks.resume_update))

    def _watch_optimizers(self, module: ModuleType) -> None:
        for owner in [kind for kind in vars(module).values() if isinstance(kind, type)]:
            if owner.__module__ != module.__name__:
                continue
            for name in ("apply", "apply_gradients"):
                self._replace(owner, name, self._wrap_update)
            if "apply" in vars(owner) or "apply_gradients" in vars(owner):
                note = partial(setattr, self, "has_optimizer", True)
                self._replace(owner, "__init__", partial(_call_first, note))

    def _wrap_update(self, apply: Any) -> Any:
        def through(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_updating:  # apply_gradients calls apply, one optimizer another
                return apply(optimizer, *args, **kwargs)
            self._is_updating = True
            try:
                result = apply(optimizer, *args, **kwargs)
            finally:
                self._is_updating = False
            self._note_update(optimizer, result)
            return result

        return through

    def _note_update(self, optimizer: Any, result: Any) -> None:
        name = type(optimizer).__name__
        if (function := self._outermost) is not None:
            if id(function) not in self._stepping:
                label = f"each call of {_describe_function(function)}, which updates by {name}"
                stepping = _SteppingFunction(function, StepKind.UPDATE, label)
                self._stepping[id(function)] = stepping
        elif self._executing_eagerly():
            self._marks.end(StepKind.UPDATE, f"each update by {name}")
        elif (op := getattr(result, "name", None)) is not None:
            graph = self._graphs.setdefault(self._default_graph(), _UpdatedGraph(name))
            graph.runs_update[op.partition(":")[0]] = True

    def _wrap_function(self, call: Any) -> Any:
        marks, stepping = self._marks, self._stepping

        def through(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self._outermost is not None:
                return call(function, *args, **kwargs)
            known = stepping.get(id(function)) or self._adopt(function)
            is_candidate = False
            if known is not None:
                marks.begin(known.kind)
            elif marks.is_building and function not in self._without_update and self._may_begin():
                is_candidate = True
                marks.begin(StepKind.UPDATE)
            self._outermost = function
            try:
                result = call(function, *args, **kwargs)
            finally:
                self._outermost = None
            if known is None:
                known = stepping.get(id(function))
            if known is not None:
                marks.end(known.kind, known.label)
            elif is_candidate:
                marks.void_update()
                self._without_update.add(function)
            return result

        return through

    def _adopt(self, function: Any) -> _SteppingFunction | None:
        """Return a tf.function as a step, if the one in Python that it was made of is named."""
        code = _find_code(function) if self._named else None
        if code is None or (label := self._named.get(code)) is None:
            return None
        known = _SteppingFunction(function, StepKind.NAMED, label)
        self._stepping[id(function)] = known
        return known

    def find_called(self, frame: FrameType) -> CalledFunction | None:
        """Return the user's function that a frame calls; a tf.function is the one in Python that it
        was made of."""
        if frame.f_code is not self._call_code:
            return name_function(frame.f_code, frame.f_globals.get("__name__", ""))
        function = _unwrap(frame.f_locals["function"])
        code = getattr(function, "__code__", None)
        return name_function(code, function.__module__) if code else None

    def _may_begin(self) -> bool:
        """Return whether what is called now may be the first step of a loop that trains."""
        self._candidates += self.has_optimizer
        is_possible = self.has_optimizer and self._candidates <= _MOST_CANDIDATES
        return is_possible and bool(self._executing_eagerly())

    def _note_tape(self) -> None:
        if self._marks.is_building and self._outermost is None and self._may_begin():
            self._marks.begin(StepKind.UPDATE)

    def _wrap_session(self, run: Any) -> Any:
        def through(session: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
            graph = self._graphs.get(session.graph) if self._graphs else None
            if graph is None or not any(
                _runs_update(op, graph.runs_update) for op in _list_ops(session.graph, fetches)
            ):
                return run(session, fetches, *args, **kwargs)
            self._marks.begin(StepKind.UPDATE)
            result = run(session, fetches, *args, **kwargs)
            label = f"each session.run that updates by {graph.optimizer}"
            self._marks.end(StepKind.UPDATE, label)
            return result

        return through


def _call_first(mark: Callable[[], None], plain: Any) -> Any:
    def through(*args: Any, **kwargs: Any) -> Any:
        mark()
        return plain(*args, **kwargs)

    return through


def _call_last(mark: Callable[[], None], plain: Any) -> Any:
    def through(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        mark()
        return result

    return through


def _unwrap(function: Any) -> Any:
    """Return the function in Python that a tf.function, a bound or a wrapped one is made of."""
    plain = inspect.unwrap(getattr(function, "python_function", function))
    return getattr(plain, "__func__", plain)


def _find_code(function: Any) -> CodeType | None:
    return getattr(_unwrap(function), "__code__", None)


def _describe_function(function: Any) -> str:
    plain = function.python_function
    code = getattr(plain, "__code__", None)
    name = getattr(plain, "__name__", "a tf.function")
    if code is None:
        return str(name)
    return f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def _list_ops(graph: Any, fetches: Any) -> Iterator[Any]:
    """Yield the ops that a session is asked for, whatever structure they come in."""
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    if isinstance(fetches, list | tuple):
        for fetch in fetches:
            yield from _list_ops(graph, fetch)
        return
    try:
        element = graph.as_graph_element(fetches)
    except (TypeError, ValueError, KeyError):
        return
    yield getattr(element, "op", element)


def _runs_update(op: Any, known: dict[str, bool]) -> bool:
    """Return whether an op is an update, or needs one; what was found is kept."""
    waiting, seen = [op], set()
    while waiting:
        op = waiting.pop()
        holds_optimizer = known.get(op.name)
        if holds_optimizer:
            known[op.name] = True
            return True
        if holds_optimizer is None and op.name not in seen:
            seen.add(op.name)
            waiting += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    known.update(dict.fromkeys(seen, False))
    return False


def after_import(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call `change` with a module: now if it is loaded, else when it is."""
    module = sys.modules.get(name)
    if module is not None:
        change(module)
        return
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    _FINDER.changes[name] = change


class _Finder(MetaPathFinder):
    """Finds what the others find, and changes it once it is loaded."""

    def __init__(self) -> None:
        self.changes: dict[str, Callable[[ModuleType], None]] = {}

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self.changes.pop(fullname, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(fullname)
        self.changes[fullname] = change  # who looks for a module may not load it
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, change)
        return spec


_FINDER = _Finder()


class _Loader(Loader):
    """Loads as another one does, and then calls what waits for the module."""

    def __init__(self, loader: Any, change: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _FINDER.changes.pop(module.__name__, None)
        self._change(module)
