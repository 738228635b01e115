"""What a scenario is: the protocol between `scenarios/` and the worker that runs them.

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

Executions = tuple[str, ...]
"""The executions that a scenario supports, its natural one first."""


@dataclass(frozen=True)
class Varies:
    """That figures of memory are not the same in every process, and by how much at most: a share of
    the largest. TensorFlow starts a graph's ops in an order that is not fixed; so other tensors are
    there together, and some buffers are passed on that elsewhere had another user left. And it
    takes a small NumPy array over, instead of copying it, where that happens to begin at a multiple
    of 64 bytes."""

    peak: float
    allocated: float = 0.0
    """Of what a step allocates, in bytes and in number: more than 0 where buffers are passed on."""
    when: Callable[[Any], bool] = lambda _: True
    """Of the scenario, with its parameters: whether it does with these."""


Varying = Mapping[str, Varies]
"""Which executions vary; all others are to repeat to the byte, and the contract suite holds them
to that."""


def varies(scenario: Scenario, execution: str) -> Varies | None:
    """What a scenario declares of one execution with its parameters as they are."""
    declared: Varying = getattr(scenario, "varies", {})
    found = declared.get(execution)
    return found if found and found.when(scenario) else None


class StartAnew(Exception):
    """Raised in `build` once it has found out what it had to know before it began: nothing of this
    process counts, and the trial begins again in a fresh one, whose `bench.note` is the note."""

    def __init__(self, note: str) -> None:
        super().__init__(note)
        self.note = note


class Bench(Protocol):
    """What the worker offers to a scenario that builds its step."""

    @property
    def batch_size(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def execution(self) -> str: ...

    @property
    def note(self) -> str | None:
        """What `StartAnew` said in an earlier process of this cell."""
        ...

    @property
    def sent(self) -> Callable[[], Any] | None:
        """What gives the user's function, where it came by value and no import path finds it."""
        ...

    def compile(self, function: Function, *, reduce_retracing: bool = False) -> Function:
        """`function` as the chosen execution runs it: itself, a `tf.function`, or one under XLA."""
        ...


class Scenario(Protocol):
    """A frozen dataclass with this shape; no base class, no registry.

    One may also have `check(self) -> None`, called in the parent before anything runs: it raises
    `BadInput` for what the types of its fields can't tell. (Of a function that came by value it is
    told: `check(self, sent)`.) And `varies: ClassVar[Varying]`, where
    not all of its executions have the same peak in every process.
    """

    @property
    def executions(self) -> Executions: ...

    def build(self, bench: Bench) -> Step: ...
