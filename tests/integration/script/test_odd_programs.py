"""Programs that fork, trace themselves, leave pools behind, or are edited while they run: as in
plain Python, or they say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import CodeChanged
from tests.conftest import MeasureWords

TAKES_STEPS = """
import keras, os, sys, threading
import tensorflow as tf
from concurrent.futures import ThreadPoolExecutor

weight = keras.Variable(tf.ones([40, 10]))
optimizer = keras.optimizers.SGD(0.1)
kept = []

def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weight ** 2)
    optimizer.apply([tape.gradient(loss, weight.value)], [weight])
    kept.append(tf.ones([1000]))

"""
CHILD_ENDS = {
    "sys.exit(0)": 0,
    "sys.exit(3)": 3,
    "sys.exit('in words')": 1,
    "raise ValueError('of the child')": 1,
    "pass": 7,
    "os._exit(5)": 5,
    "raise KeyboardInterrupt": 1,
}
"""What a forked child does, and the code that Python ends it with."""


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("end", CHILD_ENDS)
@pytest.mark.parametrize("kind", ["memory", "timing"])
def test_the_end_of_a_forked_child_is_not_the_trial_s(
    end: str, kind: str, measure: MeasureWords, tmp_path: Path
) -> None:
    (tmp_path / "forks.py").write_text(
        TAKES_STEPS + "for number in range(12):\n"
        "    step()\n"
        "    if number == 5 and os.fork() == 0:\n"
        f"        {end}\n"
        "        step(); step()\n"
        "        sys.exit(7)\n"
        "    if number == 5:\n"
        "        code = os.waitstatus_to_exitcode(os.wait()[1])\n"
        f"        assert code == {CHILD_ENDS[end]}, code\n"
    )
    words = ("scenario.path=forks.py", "scenario.max_steps=null")
    timing = kind == "timing"
    record = measure("scenario=script", *words, timing=timing, memory=not timing)
    for trial in record.trials:
        assert trial.facts.program
        assert trial.facts.program.steps == 12
    if not timing:
        assert record.metrics["tensor_growth_bytes_per_step"] == 4000


def test_a_forked_child_of_a_callable_reports_nothing(
    measure: MeasureWords, tmp_path: Path
) -> None:
    (tmp_path / "forking.py").write_text(
        "import os, sys\n"
        "def make():\n"
        "    return step\n"
        "def step():\n"
        "    if os.fork() == 0:\n"
        "        sys.exit(4)\n"
        "    assert os.waitstatus_to_exitcode(os.wait()[1]) == 4\n"
    )
    words = ("scenario=callable", "scenario.target=forking:make", "measure.steps=4")
    assert measure(*words).outcome.completed


@pytest.mark.parametrize(
    "line",
    [
        "pool = ThreadPoolExecutor(2); assert pool.submit(len, 'abc').result() == 3",
        "tracer = lambda *_: tracer if kept is not None else None; sys.settrace(tracer)",
        "tracer = lambda *_: tracer if kept is None else None; sys.setprofile(tracer)",
        "tracer = lambda *_: tracer if kept is None else None; threading.settrace(tracer)",
    ],
)
def test_what_a_program_leaves_behind_is_as_in_plain_python(
    line: str, measure: MeasureWords, tmp_path: Path
) -> None:
    (tmp_path / "leaves.py").write_text(f"{TAKES_STEPS}{line}\nfor _ in range(6):\n    step()\n")
    words = ("scenario.path=leaves.py", "scenario.max_steps=null", "measure.timeout_seconds=60")
    record = measure("scenario=script", *words)
    assert record.trials[0].facts.program
    assert record.trials[0].facts.program.steps == 6


EDITS = {
    "the script, in its first trial": ("edited.py", "True"),
    "a module, in its first trial": ("module.py", "True"),
    "a module, in a later trial": ("module.py", "os.path.exists('first')"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_code_that_is_edited_while_it_is_measured_ends_the_run(
    edit: str, measure: MeasureWords, tmp_path: Path
) -> None:
    file, when = EDITS[edit]
    (tmp_path / "module.py").write_text("SIZE = 7\n")
    (tmp_path / "edited.py").write_text(
        f"{TAKES_STEPS}import module\nfor _ in range(3):\n    step()\n"
        f"if {when}:\n    open({file!r}, 'a').write('# edited')\nopen('first', 'w').close()\n"
    )
    words = ("scenario.path=edited.py", "scenario.max_steps=null", "measure.memory_processes=3")
    with pytest.raises(CodeChanged, match=f"{file} changed while it was measured"):
        measure("scenario=script", *words)


def test_a_module_that_the_program_writes_and_imports_is_no_edit(
    measure: MeasureWords, tmp_path: Path
) -> None:
    (tmp_path / "writes.py").write_text(
        f"{TAKES_STEPS}open('made.py', 'w').write('SIZE = 7')\nimport made\n"
        "for _ in range(3):\n    step()\n"
    )
    words = ("scenario.path=writes.py", "scenario.max_steps=null", "measure.memory_processes=2")
    record = measure("scenario=script", *words)
    assert record.environment.code
    assert sorted(record.environment.code.files) == ["made.py", "writes.py"]
