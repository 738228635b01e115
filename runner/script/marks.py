"""Turn what is seen of a script into the phases of its trial: where each of its steps begins and
ends, and when it has taken enough of them. The README has the table of what is a step.

Core: standard library only. Of the kinds of steps the first that a script has counts, and none
below it. What a script will do is not known before it does it: where a higher kind comes after a
lower one was counted, the trial starts anew, in a process that knows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from runner.records import Phase
from runner.trial.phases import Answer, Phases, Rest

MaxSteps = Literal["measured"] | int | None
"""The steps after which a script is stopped: as many as the phases want; None: at its own end."""


class StepKind(IntEnum):
    """Kinds of steps; the higher one counts."""

    INFERENCE = 1
    UPDATE = 2
    BATCH = 3
    NAMED = 4


class ScriptStopped(BaseException):
    """Raised in the script once it has taken the steps that were wanted, so that it ends through
    its own `finally` and `with`. No `Exception`, which a script may well catch."""


@dataclass(eq=False)
class StepMarks:
    """Drives the phases of a trial from within the script."""

    _phases: Phases
    _max_steps: MaxSteps = "measured"
    _known: StepKind | None = None
    """The kind that an earlier process has found."""
    _will_train: Callable[[], bool] = lambda: False
    """Guesses from the source, where a batch of predict or evaluate comes first."""
    _at: Phase | Rest = Phase.BUILD
    _pid: int = field(default_factory=os.getpid)
    _thread: int = field(default_factory=threading.get_ident)
    kind: StepKind | None = None
    """Of the step that is open, or of those that were counted."""
    label: str | None = None
    """What a step is, in words."""
    steps: int = 0
    is_begin_unseen: bool = False
    """The first step was seen only as it ended."""
    is_stopped: bool = False
    start_anew: str | None = None
    """What the trial has to know as it begins anew: the name of the kind that counts, where another
    one was counted in this process, or a step as `scenario.step` names it."""
    passed_over: dict[StepKind, str] = field(default_factory=dict)
    """What was seen and did not count, by kind, in words."""
    is_elsewhere: bool = False
    """Steps were taken by another thread than the script's own."""

    @property
    def is_building(self) -> bool:
        """Return whether no step has begun."""
        return self._at is Phase.BUILD

    def begin(self, kind: StepKind, label: str = "") -> None:
        """Begin a step of this kind."""
        if not self._counts(kind, label) or self.is_stopped:
            return
        if self._at in (Phase.FIRST_CALL, Phase.STEPS):
            if kind is StepKind.UPDATE:
                return
            self._advance(Answer.VOID)
        self.kind = kind
        is_at_will = isinstance(self._at, Rest) and self._max_steps != "measured"
        self._advance(Answer.MORE if is_at_will or self._at is Rest.ENOUGH else None)

    def end(self, kind: StepKind, label: str) -> None:
        """End a step of this kind; stop the script if it was the last one that is wanted."""
        if not self._counts(kind, label):
            return
        if self.is_stopped:
            raise ScriptStopped  # it was caught, and the script went on
        if self._at not in (Phase.FIRST_CALL, Phase.STEPS):
            self.is_begin_unseen |= self.is_building
            self.begin(kind, label)
        self.label = self.label or label
        self._advance(None)
        self.steps += 1
        is_measured = self._max_steps == "measured"
        if self._at is Rest.ENOUGH if is_measured else self.steps == self._max_steps:
            self._stop()
        if kind is StepKind.UPDATE:
            self.begin(kind)

    def void_update(self) -> None:
        """Drop what was taken for a step with an update: it did not end, and comes again."""
        is_open = self._at in (Phase.FIRST_CALL, Phase.STEPS)
        if self._is_here() and self.kind is StepKind.UPDATE and is_open:
            self._advance(Answer.VOID)
            if self.is_building:
                self.kind = None

    def resume_update(self) -> None:
        """Go on with a step with an update after what was none."""
        if self._is_here() and self.kind is StepKind.UPDATE and isinstance(self._at, Rest):
            self.begin(StepKind.UPDATE)

    def choose(self, note: str) -> None:
        """Stop the script, for the trial to begin anew with this note."""
        self.start_anew = note
        self._stop()

    def finish(self) -> None:
        """End with the script: what is open is no step."""
        if self.is_stopped:
            return
        seen = max(self.passed_over, default=None)
        if not self.steps and self._known is None and seen is not None:
            self.start_anew = seen.name
        self.is_stopped = True
        self._advance(Answer.OVER)

    def describe(self) -> str | None:
        """Return why nothing is known of steps; None where there were at least two."""
        if self.steps > 1:
            return None
        if self.steps:
            return "the script took one step, its first call"
        where = " by the script's own thread" if self.is_elsewhere else ""
        return (
            f"no step was seen{where}: no Keras fit, update of an optimizer, predict or evaluate; "
            "say scenario.step=MODULE:FUNCTION"
        )

    def _is_here(self) -> bool:
        if os.getpid() != self._pid:
            return False
        if threading.get_ident() != self._thread:
            self.is_elsewhere = True
            return False
        return True

    def _counts(self, kind: StepKind, label: str) -> bool:
        if not self._is_here():
            return False
        if self._known is not None:
            return kind is self._known
        if self.kind is not None and kind < self.kind:
            if not self.steps:
                self.passed_over.setdefault(kind, label)
            return False
        if kind is StepKind.INFERENCE and self.kind is None and self._will_train():
            self.passed_over.setdefault(kind, label)
            return False
        if self.kind is not None and kind > self.kind and self.steps:
            if self.is_stopped:
                return False
            self.choose(kind.name)
        return True

    def _stop(self) -> None:
        self.is_stopped = True
        self._advance(Answer.OVER)
        raise ScriptStopped

    def _advance(self, answer: Answer | None) -> None:
        self._at = self._phases.send(answer)
