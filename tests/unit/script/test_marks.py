"""What is seen of a script, and which steps that makes; without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from runner.records import Phase
from runner.script.marks import MaxSteps, ScriptStopped, StepKind, StepMarks
from runner.trial.phases import StepLimits, take_phases

FEW = StepLimits(warmup_steps=0, steps=3, min_steps=3, max_seconds=100.0)


class Spans:
    """Notes the spans that count."""

    def __init__(self) -> None:
        self.open: str | None = None
        self.done: list[str] = []

    def begin(self, phase: Phase, step: int) -> None:
        self.open = f"{phase} {step}"

    def end(self, phase: Phase, step: int) -> None:
        assert self.open == f"{phase} {step}"
        self.done.append(self.open)
        self.open = None

    def drop(self, phase: Phase, step: int) -> None:
        self.open = None


def run(
    script: Callable[[StepMarks], None],
    max_steps: MaxSteps = "measured",
    known: StepKind | None = None,
    will_train: bool = False,
) -> tuple[StepMarks, list[str]]:
    spans = Spans()
    phases = take_phases(spans, FEW, lambda: None)
    phases.send(None)
    marks = StepMarks(phases, max_steps, known, lambda: will_train)
    with suppress(ScriptStopped):
        script(marks)
    marks.finish()
    if marks.start_anew is None:
        assert next(phases, None) is None
    return marks, [each for each in spans.done if "collection" not in each]


def batches(marks: StepMarks, kind: StepKind, count: int) -> None:
    for _ in range(count):
        marks.begin(kind)
        marks.end(kind, f"each {kind.name}")


def updates(marks: StepMarks, count: int) -> None:
    for _ in range(count):
        marks.end(StepKind.UPDATE, "each update")


STEPS = ["build 0", "first_call 0", "steps 0", "steps 1", "steps 2", "release 0"]


@pytest.mark.parametrize("kind", [StepKind.BATCH, StepKind.NAMED, StepKind.INFERENCE])
def test_a_script_is_stopped_once_the_phases_have_enough(kind: StepKind) -> None:
    marks, spans = run(lambda marks: batches(marks, kind, 100))
    assert spans == STEPS
    assert (marks.steps, marks.is_stopped, marks.label) == (4, True, f"each {kind.name}")


def test_each_update_ends_a_step_and_begins_the_next() -> None:
    marks, spans = run(lambda marks: updates(marks, 100))
    assert spans == STEPS
    assert marks.steps == 4


def test_a_number_of_steps_is_kept_to_below_and_above_what_is_wanted() -> None:
    for most in (2, 7):
        marks, _ = run(lambda marks: batches(marks, StepKind.BATCH, 100), max_steps=most)
        assert marks.steps == most


def test_a_script_that_may_run_to_its_end_does() -> None:
    marks, spans = run(lambda marks: batches(marks, StepKind.BATCH, 9), max_steps=None)
    assert marks.steps == 9
    assert spans[-2:] == ["steps 7", "release 0"]


def test_batches_of_fit_count_and_the_updates_within_do_not() -> None:
    def script(marks: StepMarks) -> None:
        for _ in range(20):
            marks.begin(StepKind.BATCH)
            updates(marks, 1)
            marks.end(StepKind.BATCH, "each batch")

    marks, spans = run(script)
    assert spans == STEPS
    assert marks.label == "each batch"


def test_evaluation_between_two_updates_is_in_no_step() -> None:
    def script(marks: StepMarks) -> None:
        updates(marks, 2)
        marks.void_update()
        batches(marks, StepKind.INFERENCE, 3)
        marks.resume_update()
        updates(marks, 9)

    marks, spans = run(script)
    assert spans == STEPS
    assert marks.label == "each update"


def test_predictions_before_the_training_are_no_steps_where_the_source_trains() -> None:
    def script(marks: StepMarks) -> None:
        batches(marks, StepKind.INFERENCE, 5)
        batches(marks, StepKind.BATCH, 9)

    marks, spans = run(script, will_train=True)
    assert spans == STEPS
    assert marks.label == "each BATCH"


def test_a_higher_kind_after_counted_steps_starts_the_trial_anew() -> None:
    def script(marks: StepMarks) -> None:
        batches(marks, StepKind.INFERENCE, 2)
        updates(marks, 1)

    assert run(script)[0].start_anew == StepKind.UPDATE.name
    marks, spans = run(script, known=StepKind.UPDATE)
    assert (marks.start_anew, marks.steps) == (None, 1)
    assert spans == ["build 0", "first_call 0", "release 0"]


def test_predictions_that_were_passed_over_count_where_no_training_came() -> None:
    def script(marks: StepMarks) -> None:
        batches(marks, StepKind.INFERENCE, 2)

    assert run(script, will_train=True)[0].start_anew == StepKind.INFERENCE.name
    assert run(script, known=StepKind.INFERENCE)[0].steps == 2


def test_a_candidate_for_the_first_step_that_is_none_is_part_of_no_phase() -> None:
    def script(marks: StepMarks) -> None:
        marks.begin(StepKind.UPDATE)
        marks.void_update()
        assert marks.is_building
        batches(marks, StepKind.BATCH, 9)

    assert run(script)[1] == ["build 0", *STEPS]  # taken up again


def test_a_first_step_that_was_seen_only_as_it_ended_is_told() -> None:
    assert run(lambda marks: updates(marks, 9))[0].is_begin_unseen

    def begun(marks: StepMarks) -> None:
        marks.begin(StepKind.UPDATE)
        updates(marks, 9)

    assert not run(begun)[0].is_begin_unseen


def test_a_tape_without_an_update_does_not_hide_the_predictions() -> None:
    def script(marks: StepMarks) -> None:
        marks.begin(StepKind.UPDATE)
        batches(marks, StepKind.INFERENCE, 2)

    assert run(script)[0].start_anew == StepKind.INFERENCE.name

    def called(marks: StepMarks) -> None:
        marks.begin(StepKind.UPDATE)
        marks.void_update()
        batches(marks, StepKind.INFERENCE, 9)

    assert run(called)[0].steps == 4


def test_a_script_without_steps_is_one_phase_and_says_why() -> None:
    marks, spans = run(lambda marks: None)
    assert spans == ["build 0", "release 0"]
    assert "say scenario.step=MODULE:FUNCTION" in str(marks.describe())


def test_a_script_that_catches_its_stop_is_stopped_again() -> None:
    caught = []

    def script(marks: StepMarks) -> None:
        while True:
            try:
                batches(marks, StepKind.BATCH, 100)
            except ScriptStopped:
                caught.append(1)
                if len(caught) == 3:
                    raise

    assert run(script)[1] == STEPS
    assert len(caught) == 3
