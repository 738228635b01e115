"""Prepare what all kinds of trial have in common: the device, the scenario's bench, and a meter
that tells the parent which phase begins."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.allocations import Allocations
from runner.cell import TrialSpec
from runner.facts import ProgramFacts, TrialFacts
from runner.meters.clock import Clock
from runner.meters.host import malloc
from runner.processes.protocol import Channel
from runner.records import ChildMessage, Phase, RepeatedCalls, TrialResult
from runner.scenario import Program, Step
from runner.trial import host_limit
from runner.trial.phases import Meter


@dataclass(frozen=True)
class Salvage:
    """The figures of a memory trial that failed or was late, as far as they are known."""

    live_bytes: int | None = None
    allocations: Allocations | None = None


@dataclass(frozen=True)
class PreparedTrial:
    """A trial that is ready to go."""

    go: Callable[[], Any]
    """Takes it through its phases. A partial, so that the worker's is the last frame above them:
    TensorFlow walks the Python stack for every op, and half a per cent of a small step is spent on
    each frame that a user's own script would not have."""
    finish: Callable[[Any], TrialResult]
    """Makes its result of what `go` has returned."""
    salvage: Callable[[], Salvage] | None = None
    """Tells what is known so far; another thread may call it while `go` is under way."""


class TrialSetup:
    """The device and the execution of a trial; no op has run yet."""

    def __init__(self, spec: TrialSpec, channel: Channel, facts: TrialFacts) -> None:
        """Choose the device; `facts` takes what is known of it."""
        from runner.trial.devices import choose_device  # here, so that a TensorFlow that can't be
        from runner.trial.execution import Execution  # loaded is told by the worker

        self.spec = spec
        self.experiment = spec.experiment
        self.facts = facts
        self.device = choose_device(self.experiment.device, exact=spec.kind == "memory")
        facts.update(self.device.facts)
        self.execution = Execution(self.experiment.execution)
        self._channel = channel

    def build(self) -> Step | Program:
        """Build the scenario's step."""
        import tensorflow as tf

        if self.execution.name != "own":  # a program sets its seeds itself
            tf.random.set_seed(self.experiment.seed)
        return self.experiment.scenario.build(ScenarioBench(self))

    def tell_calls(self, calls: RepeatedCalls) -> None:
        self._channel.send(ChildMessage(calls=calls))

    def announce(
        self, meter: Meter, before_step: Callable[[int], None] = lambda step: None
    ) -> AnnouncedMeter:
        """Return the meter so that the parent hears of each phase, and the cell's remedy
        (`measure.between_steps`) and `before_step` happen between two steps."""
        remedy = _REMEDIES[self.experiment.measure.between_steps]
        return AnnouncedMeter(meter, self._channel, remedy, before_step)

    def find_scenario_folder(self) -> Path:
        """Return the folder of the scenario: what stands beside it is user code, wherever it is."""
        if folder := getattr(self.experiment.scenario, "folder", None):
            return Path(folder)
        module = sys.modules[type(self.experiment.scenario).__module__]
        return Path(str(module.__file__)).parent


class ScenarioBench:
    """The `Bench` that a scenario builds on."""

    def __init__(self, setup: TrialSetup) -> None:
        experiment = setup.experiment
        self.seed, self.note = experiment.seed, setup.spec.note
        self.load_function = experiment.function.load if experiment.function else None
        self.execution, self.compile = setup.execution.name, setup.execution.compile
        self.tell_calls = setup.tell_calls if setup.spec.kind == "memory" else None
        self._setup = setup

    @property
    def batch_size(self) -> int:
        """A scenario that never asks has no examples to count."""
        self._setup.facts.batched = True
        return self._setup.experiment.batch_size

    def note_program(self, program: ProgramFacts) -> None:
        self._setup.facts.program = program


def _clear_session() -> None:
    import keras

    keras.backend.clear_session()


_NEWS_SECONDS = 1.0
"""The least time between two messages that say that steps go on."""

_REMEDIES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "gc_collect": gc.collect,
    "clear_session": _clear_session,
    "malloc_trim": malloc.trim,
}
"""What a person would call between two steps of their own loop."""


@dataclass
class AnnouncedMeter:
    """A meter behind which the parent is told of phases; see `TrialSetup.announce`."""

    _meter: Meter
    _channel: Channel
    _remedy: Callable[[], object]
    _before_step: Callable[[int], None]
    _phase: Phase | None = None
    _announced_at: float = 0.0

    def begin(self, phase: Phase, step: int) -> None:
        is_new = phase not in (self._phase, Phase.COLLECTION)  # the collection is part of the steps
        if is_new or (self._phase and Clock.seconds() > self._announced_at + _NEWS_SECONDS):
            self._phase = phase if is_new else self._phase
            self._announced_at = Clock.seconds()
            self._channel.send(ChildMessage(phase=self._phase))
        if phase is Phase.STEPS:
            self._remedy()
            self._before_step(step)
        if phase is Phase.COLLECTION:
            host_limit.lift()  # the steps are over, and finding out what they kept takes memory
        self._meter.begin(phase, step)

    def end(self, phase: Phase, step: int) -> None:
        self._meter.end(phase, step)

    def drop(self, phase: Phase, step: int) -> None:
        self._meter.drop(phase, step)
