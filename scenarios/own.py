"""The user's own code, by nothing but an import path."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from runner.callables import PickledFunction
from runner.errors import BadInput
from runner.scenario import Bench, Executions, StartAnew, Step, Varies, Varying
from scenarios import imports

_IS_THE_STEP = "the target is the step itself"


@dataclass(frozen=True)
class OwnCode:
    """The user's own code: a function, class or object that makes a step, or that is one.

    How much memory and time does a step take, and does it leak?

    The target is called once in `build`. If what it returns can be called, that is the step. If
    not, the target is the step and that call was its first; a first call is no part of the build,
    and is compiled as every other one. So the trial then starts anew, in a process that knows.
    """

    executions: ClassVar[Executions] = ("eager", "graph", "xla")
    varies: ClassVar[Varying] = {
        "graph": Varies(peak=0.95, allocated=0.95)
    }  # as anybody's graph may

    target: str
    arguments: dict[str, Any]

    def check(self, function: PickledFunction | None = None) -> None:
        """As much as can be told without running any of it."""
        for name in self.arguments:
            if not isinstance(name, str) or not name.isidentifier():
                raise BadInput(
                    f"scenario.arguments: {name!r} can't be the name of an argument.",
                    "Write 'scenario.arguments={name: VALUE}'.",
                )
        try:
            json.dumps(self.arguments, allow_nan=False, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"scenario.arguments: can't be kept in a record ({error}).",
                "Give numbers, texts, lists and mappings of them.",
            ) from None
        signature = function.signature if function else imports.check_import_path(self.target)
        if signature is not None:
            self._fitting(signature, batch_size=int, seed=int)

    def build(self, bench: Bench) -> Step:
        import tensorflow as tf

        target = self._target(bench)
        if not callable(target):
            raise BadInput(f"{self.target} can't be called, being of type {_kind(target)}.")
        arguments = self._arguments(target, bench)
        if isinstance(target, tf.types.experimental.PolymorphicFunction):
            # It returns tensors, so it is the step; compiled as it is, it counts its own traces.
            return functools.partial(bench.compile(target), **arguments)
        call = functools.partial(target, **arguments)
        if bench.note == _IS_THE_STEP:
            return bench.compile(call)
        self._check_runs(target, self.target)
        step = call()
        if inspect.isgenerator(step) or inspect.iscoroutine(step):
            raise BadInput(f"{self.target} returned a {_kind(step)}: none of it has run.")
        if not callable(step):
            raise StartAnew(_IS_THE_STEP)
        self._check_runs(step, f"the step {_named(step)!r} that {self.target} returned")
        self._check_takes_nothing(step)
        compiled: Step = bench.compile(step)
        return compiled

    def _target(self, bench: Bench) -> Any:
        if bench.load_function:
            return bench.load_function()  # with copies of the tensors that it uses
        return imports.load(self.target)

    def _arguments(self, target: Any, bench: Bench) -> dict[str, Any]:
        signature = _signature(target)
        if signature is None:
            return self.arguments
        return self._fitting(
            signature, batch_size=lambda: bench.batch_size, seed=lambda: bench.seed
        )

    def _check_runs(self, function: Any, which: str) -> None:
        """Refuse one that is asynchronous, or a generator: a call runs nothing of it."""
        called = getattr(function, "func", function)
        kinds = (
            (inspect.iscoroutinefunction, "an `async def`", "`asyncio.run` it in a plain function"),
            (inspect.isasyncgenfunction, "an asynchronous generator", "consume it in a function"),
            (inspect.isgeneratorfunction, "a generator function", "return instead of `yield`"),
        )
        for is_one, kind, remedy in kinds:
            if is_one(called) or is_one(type(called).__call__):
                raise BadInput(f"{which} is {kind}: calling it runs none of it.", f"{remedy}.")

    def _check_takes_nothing(self, step: Any) -> None:
        signature = _signature(step)
        if signature is None:
            return
        try:
            signature.bind()
        except TypeError as error:
            raise BadInput(
                f"{self.target} returned a {_kind(step)} that can't be called without arguments "
                f"({error}).",
                "Return a step that takes none, as in `return lambda: model(batch)`.",
            ) from None

    def _fitting(
        self, signature: inspect.Signature, **offered: Callable[[], int]
    ) -> dict[str, Any]:
        return imports.fitting(signature, self.target, self.arguments, offered)


def _named(function: Any) -> str:
    return getattr(function, "__name__", _kind(function))


def _kind(value: Any) -> str:
    return type(value).__name__


def _signature(function: Any) -> inspect.Signature | None:
    """None where Python can't read one. A Keras model takes anything, and hands it to `call`."""
    if not inspect.isclass(function):
        function = getattr(function, "call", function)
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
