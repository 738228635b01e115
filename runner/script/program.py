"""Run a script as Python runs it, in the child of a trial: as `__main__`, with its own words, from
its top to its end or to the last step that is wanted. Child side.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import functools
import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from runner import user_code
from runner.facts import ProgramFacts
from runner.meters import code_owner
from runner.records import RepeatedCalls
from runner.scenario import StartAnew
from runner.script import source
from runner.script.hooks import ScriptHooks, after_import
from runner.script.marks import MaxSteps, ScriptStopped, StepKind, StepMarks
from runner.script.repeated_calls import CallSearch
from runner.script.source import LIKELIEST, CodePiece, Script, list_changed
from runner.trial import forked
from runner.trial.phases import Phases

_LONGEST_LINE = 60
"""Characters of a statement that was not reached."""
_MOST_STATEMENTS = 100

_STEP = "__runner_step__"
"""What the named step is decorated by, where the script itself defines it."""
_METHOD_KINDS = ("property", "staticmethod", "classmethod")
"""Decorators that make what can't be called: they stay outermost."""


@dataclass(frozen=True)
class ScriptRun:
    """A script, and what is wanted of it."""

    script: Script
    words: Sequence[str]
    max_steps: MaxSteps
    step: str | None
    """`MODULE:FUNCTION`: what the user says is a step; or `LIKELIEST`."""
    note: str | None
    """The kind of step that an earlier process has found, or a step as `scenario.step` names it."""
    tell: Callable[[ProgramFacts], None]
    tell_calls: Callable[[RepeatedCalls], None] | None
    """Called with what a script without a step calls again and again; None: don't look."""

    def run(self, phases: Phases) -> Any:
        """Take the script through the phases of its trial, and return what they return."""
        kinds = StepKind.__members__
        step = self.note if self.note and self.note not in kinds else self.step
        is_named = step not in (None, LIKELIEST)
        known = kinds.get(self.note or "") or (StepKind.NAMED if is_named else None)
        will_train = functools.cache(self._will_train)
        marks = StepMarks(phases, self.max_steps, known, will_train)
        hooks = ScriptHooks(marks)
        main = self._make_main()
        codes = self._compile(hooks, main, step if is_named else None)
        end_search = self._begin_search(hooks, marks) if known is None else lambda: None
        exits = _ExitFunctions()
        environment = dict(os.environ)
        not_reached: tuple[str, ...] = ()
        try:
            _execute(codes, main.__dict__, exits)
        except ScriptStopped as end:
            not_reached = self._list_not_reached(end.__traceback__)
        except SystemExit as end:
            if end.code not in (None, 0) and not marks.is_stopped:
                raise
        except BaseException:
            if not marks.is_stopped:
                raise
            traceback.print_exc()  # on its way out, after all that was wanted
        finally:
            end_search()
            for set_tracer in (sys.settrace, sys.setprofile):
                set_tracer(None)  # it may need names of the script's, which are cleared
        marks.finish()
        if marks.start_anew is not None:
            raise StartAnew(marks.start_anew)
        set_late = list_changed(environment, os.environ)
        left_out = self.script.left_out
        self.tell(
            ProgramFacts(
                marks.steps,
                marks.label,
                marks.describe(),
                set_late,
                left_out,
                not_reached,
                step if is_named else None,
                marks.is_begin_unseen,
            )
        )
        exits.run()
        main.__dict__.clear()
        main.__file__ = str(self.script.path)  # the record names the code that was run
        del main, codes
        try:
            phases.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a phase after the release")

    def _list_not_reached(self, stopped_at: TracebackType | None) -> tuple[str, ...]:
        """Return the parts of Keras' `fit`, and the statements of the script after those, that it
        was stopped before."""
        files = [piece.file for piece in self.script.pieces]
        lines = traceback.walk_tb(stopped_at)
        reached = [(frame.f_code.co_filename, line) for frame, line in lines]
        own = [(files.index(file), line) for file, line in reached if file in files]
        if not own:
            return ()
        under_way, (inner, line) = own[0][0], own[-1]
        innermost = f"{Path(files[inner]).name}:{line}"
        parts = [f"{part} at {innermost}" for part in _list_parts_of_fit(stopped_at)]
        for number, (piece, tree) in enumerate(
            zip(self.script.pieces, self.script.parse(), strict=True)
        ):
            after = [
                statement
                for file, line in own
                if file == number
                for statement in source.list_statements_after(tree, line)
            ]
            if number > under_way:  # a notebook's later cell
                after = list(filter(source.calls_something, tree.body))
            for statement in sorted(after, key=lambda statement: statement.lineno):
                place = f"{Path(piece.file).name}:{statement.lineno}"
                parts.append(f"{place} {ast.unparse(statement).splitlines()[0][:_LONGEST_LINE]}")
        return tuple(dict.fromkeys(parts))[:_MOST_STATEMENTS]

    def _begin_search(self, hooks: ScriptHooks, marks: StepMarks) -> Callable[[], None]:
        """Look for functions that are called again and again, and return what ends that."""
        if self.tell_calls is None:
            return lambda: None

        def may_choose() -> bool:
            may_have_step = hooks.has_optimizer or self._will_train()
            return self.step == LIKELIEST and not may_have_step

        def has_step() -> bool:
            return marks.kind is not None

        tell, find = self.tell_calls, hooks.find_called
        return CallSearch(has_step, find, tell, may_choose, marks.choose).end

    def _will_train(self) -> bool:
        """Guess from the text of the script and of the user's modules that it has imported."""
        if self.script.trains:
            return True
        for file in code_owner.list_user_files():
            text = "".join(linecache.getlines(file))
            if Script(Path(file), None, (CodePiece(file, text),)).trains:
                return True
        return False

    def _make_main(self) -> ModuleType:
        """Return the module that the script runs as, in the place of the runner's."""
        script = self.script
        main = ModuleType("__main__")
        main.__builtins__ = builtins  # type: ignore[attr-defined]
        file = script.pieces[0].file if script.pieces else str(script.path)
        if script.is_notebook:
            main.__dict__["display"] = print
            sys.path[0] = str(Path.cwd())
        elif script.module is None:
            main.__file__ = file
            main.__dict__["__cached__"] = None
            main.__loader__ = SourceFileLoader("__main__", file)
            sys.path[0] = str(Path(file).resolve().parent)
        else:
            name = script.module if Path(file).stem != "__main__" else f"{script.module}.__main__"
            spec = importlib.util.spec_from_file_location(name, file)
            main.__spec__, main.__file__ = spec, file
            main.__loader__ = spec.loader if spec else None
            main.__package__ = name.rpartition(".")[0]
            sys.path[0] = str(Path.cwd())
            if main.__package__:
                importlib.import_module(main.__package__)
        sys.argv[:] = [str(script.path) if script.module is None else file, *self.words]
        sys.modules.pop("__main__", None)  # so that it is among what was loaded last
        sys.modules["__main__"] = main
        return main

    def _compile(self, hooks: ScriptHooks, main: ModuleType, step: str | None) -> list[CodeType]:
        user_code.note_loading(str(self.script.path))
        trees = self.script.parse()
        if step is not None:
            module, _, name = step.partition(":")
            mark = functools.partial(hooks.mark_calls, name=step)
            own = ("__main__", self.script.path.stem, self.script.module)
            if module in own:
                main.__dict__[_STEP] = mark
                for tree in trees:
                    _decorate(tree, name.split("."))
            else:
                after_import(module, functools.partial(_wrap_named, name.split("."), mark))
        for piece in self.script.pieces:
            if self.script.is_notebook:
                lines = piece.text.splitlines(keepends=True)
                linecache.cache[piece.file] = len(piece.text), None, lines, piece.file
        return [
            compile(tree, piece.file, "exec", dont_inherit=True)
            for tree, piece in zip(trees, self.script.pieces, strict=True)
        ]


def _decorate(tree: ast.AST, names: list[str]) -> None:
    """Have a definition in the script decorated; lines stay what they are."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name == names[0] and len(names) > 1:
                _decorate(node, names[1:])
            elif node.name == names[0] and isinstance(node, ast.FunctionDef):
                mark = ast.copy_location(ast.Name(_STEP, ast.Load()), node)
                kinds = [
                    ast.unparse(decorator) in _METHOD_KINDS for decorator in node.decorator_list
                ]
                node.decorator_list.insert(kinds.count(True), mark)
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            _decorate(node, names)


def _wrap_named(names: list[str], mark: Callable[[Any], Any], module: ModuleType) -> None:
    owner: Any = functools.reduce(getattr, names[:-1], module)
    setattr(owner, names[-1], mark(getattr(owner, names[-1])))


def _list_parts_of_fit(stopped_at: TracebackType | None) -> Iterator[str]:
    """Yield what Keras' `fit` had not come to when it was stopped: its validation, and the user's
    callbacks at the end of its first epoch. It is read from `fit`'s own variables."""
    for frame, _ in traceback.walk_tb(stopped_at):
        names = frame.f_locals
        if frame.f_code.co_name != "fit" or "validation_data" not in names:
            continue
        if names["validation_data"] is not None and "val_logs" not in names:
            yield "the validation of fit"
        if names.get("training_logs") is None:  # it was in its first epoch
            for callback in getattr(names.get("callbacks"), "callbacks", ()):
                method = getattr(type(callback), "on_epoch_end", None)
                package = str(getattr(method, "__module__", "keras")).partition(".")[0]
                if package not in ("keras", "tf_keras"):
                    yield f"{type(callback).__name__}.on_epoch_end in fit"


def _execute(codes: Sequence[CodeType], names: dict[str, Any], exits: _ExitFunctions) -> None:
    """Run the code to its end, and wait for its threads. A process that it has forked ends here."""
    began_as = forked.getpid()
    try:
        for code in codes:
            exec(code, names)
        if forked.getpid() == began_as:
            forked.join_threads()
    finally:
        if forked.getpid() != began_as:
            forked.end(sys.exc_info()[1], exits.run)


class _ExitFunctions:
    """Calls at its end what the script asked for. The process ends without Python's own end."""

    def __init__(self) -> None:
        self._functions: list[Callable[[], object]] = []
        atexit.register = self._register

    def _register(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._functions.append(functools.partial(function, *args, **kwargs))
        return function

    def run(self) -> None:
        while self._functions:
            try:
                self._functions.pop()()
            except BaseException:
                traceback.print_exc()
