"""The protocol between `scenarios/` and the worker that runs them.

A scenario is a frozen dataclass whose fields are the keys of its YAML file (there, not here, are
the defaults). `build` runs once in the child and returns the step; the phase loop calls the step
again and again. TensorFlow is imported inside `build`, because the parent imports the module too,
to check the parameters, and must not load TensorFlow for that.

    @dataclass(frozen=True)
    class Doubling:
        '''Adds a tensor to itself. How much does one addition take?'''

        executions: ClassVar[Executions] = ("eager", "graph")
        size: Count

        def build(self, bench: Bench) -> Step:
            import tensorflow as tf

            tensor = tf.ones([self.size])

            @bench.compile
            def double(tensor):
                return tensor + tensor

            return lambda: double(tensor)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

Step = Callable[[], object]
"""One step of the steady state. What it returns is synchronised, then dropped."""


@dataclass(frozen=True)
class Program:
    """The result of `build` where the user's code calls its own steps: `run` takes it from its top
    to its end, and the trial's phases (`runner/trial/phases.py`) with it."""

    run: Callable[[Any], Any]


Executions = tuple[str, ...]
"""The executions that a scenario supports, its natural one first."""


@dataclass(frozen=True)
class Varies:
    """Figures of memory are not the same in every process; they differ at most by this share of
    the largest. TensorFlow starts a graph's ops in an order that is not fixed; so other tensors are
    there together, and some buffers are passed on that elsewhere had another user left."""

    peak: float
    allocated: float = 0.0
    """The same of the bytes and allocations of a step: above 0 where buffers are passed on."""
    when: Callable[[Any], bool] = lambda _: True
    """Does it vary with these parameters? Takes the scenario."""


Varying = Mapping[str, Varies]
"""Which executions vary; all others repeat to the byte, and the contract suite holds them to it."""


def find_variation(scenario: Scenario, execution: str) -> Varies | None:
    """Return what a scenario declares of one execution with its parameters as they are."""
    declared: Varying = getattr(scenario, "varies", {})
    refusal = declared.get(execution)
    return refusal if refusal and refusal.when(scenario) else None


class StartAnew(Exception):
    """Raised in `build` once it has found out what it had to know before it began.

    Nothing of this process counts, and the trial begins again in a fresh one, whose `bench.note` is
    the note.
    """

    def __init__(self, note: str) -> None:
        super().__init__(note)
        self.note = note


class Bench(Protocol):
    """The worker's offer to a scenario that builds its step."""

    @property
    def batch_size(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def execution(self) -> str: ...

    @property
    def note(self) -> str | None:
        """Return the note of the `StartAnew` of an earlier process of this cell."""

    @property
    def load_function(self) -> Callable[[], Any] | None:
        """Return what makes the user's function, where it came by value."""

    @property
    def tell_calls(self) -> Callable[[Any], None] | None:
        """Return what tells the user which functions a program without a known step calls again and
        again (`runner.records.RepeatedCalls`); None in a trial that looking would disturb."""

    def note_program(self, program: Any) -> None:
        """Keep with the trial what was seen of a program (`runner.facts.ProgramFacts`)."""

    def compile(self, function: Function, *, reduce_retracing: bool = False) -> Function:
        """Return `function` as the execution runs it: itself, a `tf.function`, or under XLA."""


class Scenario(Protocol):
    """A frozen dataclass with this shape; no base class, no registry.

    One may also have `check(self) -> None`, called in the parent before anything runs: it raises
    `BadInput` for what the types of its fields can't tell. (A function that came by value is
    passed to it: `check(self, function)`.) And `varies: ClassVar[Varying]`, where
    not all of its executions have the same peak in every process; `environment`, the variables that
    its processes are started with; `folder`, the one whose code is the user's wherever it lies.
    """

    @property
    def executions(self) -> Executions: ...

    def build(self, bench: Bench) -> Step | Program: ...
