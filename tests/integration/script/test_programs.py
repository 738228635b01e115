"""Programs that were not made for it, run as they are: their peaks against plain Python's, byte by
byte, and what was taken for a step of theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.records import Record
from tests.conftest import MeasureWords

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"


def as_words(program: str, *argv: str) -> tuple[str, ...]:
    quoted = ",".join(f"'{word}'" for word in argv)
    return "scenario=script", f"scenario.path={PROGRAMS / program}", f"scenario.argv=[{quoted}]"


def seen(record: Record) -> tuple[int, str | None]:
    program = record.trials[0].facts.program
    assert program is not None
    return program.steps, program.step_is


def test_a_program_is_stopped_after_the_steps_that_are_wanted(measure: MeasureWords) -> None:
    record = measure(*as_words("tape_loop.py"), "scenario.max_steps=4", timing=True)
    for trial in record.trials:
        assert trial.facts.program is not None
        assert (trial.facts.program.steps, len(trial.steps)) == (4, 3)
    assert record.metrics["tensor_growth_bytes_per_step"] in (0, None)


def test_a_program_that_is_stopped_says_what_it_did_not_reach(
    measure: MeasureWords, tmp_path: Path
) -> None:
    script = tmp_path / "late.py"
    script.write_text(
        "import tensorflow as tf\n"
        "def step():\n    return tf.ones([9])\n"
        "def train():\n    for _ in range(1000):\n        step()\n    print('later')\n"
        "train()\n"
        "tf.zeros([5])\n"
        "x = 1\n"
    )
    words = ("scenario=script", f"scenario.path={script}", "scenario.step=late:step")
    facts = measure(*words).trials[0].facts.program
    assert facts is not None
    assert facts.not_reached == ("late.py:7 print('later')", "late.py:9 tf.zeros([5])")
    whole = measure(*words, "scenario.max_steps=null").trials[0].facts.program
    assert whole is not None
    assert (whole.steps, whole.not_reached) == (1000, ())


def test_a_fit_that_is_stopped_says_what_of_it_was_not_reached(
    measure: MeasureWords, tmp_path: Path
) -> None:
    """Its validation and a callback of the user's, but not Keras' own; and a notebook's next cell,
    though nothing follows in the cell that was stopped."""
    cells = [
        "import keras\nimport tensorflow as tf",
        "class Draws(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None):\n"
        "        pass\n",
        "def train(model):\n    model.fit(data, validation_data=data.take(2), epochs=3, verbose=0,"
        " callbacks=[Draws()])",
        "model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])\n"
        "model.compile('sgd', 'mse')\n"
        "data = tf.data.Dataset.from_tensors((tf.ones([16, 8]), tf.ones([16, 4]))).repeat(9)\n"
        "train(model)",
        "import json\nmodel.summary()",
    ]
    made = [{"cell_type": "code", "source": cell, "metadata": {}} for cell in cells]
    book = tmp_path / "book.ipynb"
    book.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4}))
    words = ("scenario=script", f"scenario.path={book}")
    first, second = (
        measure(*words, f"scenario.max_steps={steps}").trials[0].facts.program for steps in (9, 10)
    )
    assert first is not None
    assert second is not None
    later = "book.ipynb[cell 5]:2 model.summary()"
    assert first.not_reached == (
        "the validation of fit at book.ipynb[cell 3]:2",
        "Draws.on_epoch_end in fit at book.ipynb[cell 3]:2",
        later,
    )
    assert second.not_reached == (later,)


def test_a_program_without_steps_says_why_nothing_is_known_of_them(measure: MeasureWords) -> None:
    record = measure(*as_words("generate.py"))
    assert set(record.trials[0].phases) == {"build", "release"}
    for name in ("tensor_growth_bytes_per_step", "tensor_step_peak_bytes"):
        assert record.metrics[name] is None
        assert "say scenario.step=MODULE:FUNCTION" in record.unavailable[name]


def test_a_function_that_is_named_is_a_step(measure: MeasureWords) -> None:
    record = measure(*as_words("generate.py"), "scenario.step=generate:next_token")
    assert seen(record) == (6, "each call of generate:next_token")
    assert record.metrics["tensor_growth_bytes_per_step"] == 4 * 4  # a token more of each text


@pytest.mark.parametrize("learns_from_its_first_call", [True, False])
def test_a_first_call_has_the_tracing_of_its_step_or_is_unknown(
    learns_from_its_first_call: bool, measure: MeasureWords, tmp_path: Path
) -> None:
    """Other functions are called before, an evaluation or the step itself without its update."""
    script = tmp_path / "evaluates_first.py"
    before = "evaluate()" if learns_from_its_first_call else "step(learns=False)"
    script.write_text(
        "import time, keras, tensorflow as tf\n"
        "weight = keras.Variable(tf.ones([1000]))\n"
        "optimizer = keras.optimizers.SGD(0.1)\n"
        "optimizer.build([weight])\n"
        "@tf.function\n"
        "def evaluate():\n"
        "    return tf.reduce_sum(weight.value)\n"
        "@tf.function\n"
        "def step(learns):\n"
        "    time.sleep(0.3)\n"
        "    gradient = 2.0 * weight.value\n"
        "    if learns:\n"
        "        optimizer.apply([gradient], [weight])\n"
        "    return gradient\n"
        f"for _ in range(30):\n    {before}\n"
        "for _ in range(9):\n    step(learns=True)\n"
    )
    record = measure("scenario=script", f"scenario.path={script}", timing=True)
    needing = ("build_seconds", "first_call_seconds", "first_call_tensor_peak_bytes")
    if learns_from_its_first_call:
        assert record.metrics["first_call_seconds"] > 0.3  # it is traced then
        assert record.metrics["first_call_tensor_peak_bytes"] >= 4000
    else:
        assert [record.metrics[name] for name in needing] == [None] * 3
        assert all("was not seen" in record.unavailable[name] for name in needing)
    assert record.metrics["step_seconds"] < 0.3


def test_an_exception_and_a_bad_exit_are_failures_with_their_line(
    measure: MeasureWords, tmp_path: Path
) -> None:
    script = tmp_path / "fails.py"
    for text, reason in (
        ("import sys\nsys.exit(3)\n", "sys.exit(3)"),
        ("import argparse\nargparse.ArgumentParser().parse_args(['--no'])\n", "argparse refused"),
        ("def f():\n    return 1 // 0\n\nf()\n", f"{script}:2 in f"),
    ):
        script.write_text(text)
        record = measure("scenario=script", f"scenario.path={script}", fails=True)
        assert record.outcome.status == "failed"
        assert reason in str(record.outcome.reason)
