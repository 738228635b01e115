"""As Python runs it: a module, a notebook, its environment, its end; and a trial of its host."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from runner import paths
from runner.cell import TrialSpec
from runner.compose import composition
from runner.processes.server import TrialServer
from runner.records import RepeatedCalls, Trial
from tests.conftest import MeasureWords

LOOP = """
import keras
import tensorflow as tf

weight = keras.Variable(tf.ones([40, 10]))
optimizer = keras.optimizers.SGD(0.1)
kept = []

def step(number):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weight ** 2)
    optimizer.apply([tape.gradient(loss, weight.value)], [weight])
"""
RUNS = "for number in range(100_000):\n    step(number)\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_module_is_run_as_python_runs_it(measure: MeasureWords, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("SIZE = 7\n")
    (package / "train.py").write_text(
        "import os, sys\n"
        "from .sizes import SIZE\n"
        "assert __name__ == '__main__' and __spec__.name == 'package.train'\n"
        "assert (sys.path[0], sys.argv[1:]) == (os.getcwd(), ['--size', '32'])\n"
        f"assert sys.argv[0] == {str(package / 'train.py')!r}\n" + LOOP + RUNS
    )
    words = ("scenario.path='-m package.train'", "scenario.argv=[--size,'{batch_size}']")
    record = measure("scenario=script", *words)
    assert record.trials[0].facts.program
    assert record.trials[0].facts.batched


def test_a_notebook_runs_cell_by_cell_and_its_lines_name_the_cell(
    measure: MeasureWords, tmp_path: Path
) -> None:
    sources = ["%matplotlib inline\n" + LOOP, "!ls\n" + RUNS]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    (tmp_path / "book.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    record = measure("scenario=script", "scenario.path=book.ipynb")
    assert record.allocations is not None
    lines = {(line.file, line.line, line.code) for line in record.allocations.lines}
    made = "weight = keras.Variable(tf.ones([40, 10]))"
    assert ("book.ipynb[cell 1]", 6, made) in lines


def test_what_a_script_sets_before_tensorflow_reaches_the_server(
    measure: MeasureWords, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(
        "import os\n"
        "os.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'\n"
        "import tensorflow as tf\n"
        "with open(f'/proc/{os.getppid()}/environ') as file:\n"
        "    assert 'TF_ENABLE_ONEDNN_OPTS=0' in file.read().split(chr(0))\n" + LOOP + RUNS
    )
    assert measure("scenario=script", "scenario.path=script.py").outcome.completed


def test_cleaning_up_is_run_through_when_the_script_is_stopped(
    measure: MeasureWords, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(
        LOOP + "import atexit, pathlib\n"
        "atexit.register(pathlib.Path('exit').touch)\n"
        "try:\n"
        "    for number in range(10**6):\n"
        "        try:\n"
        "            step(number)\n"
        "        except Exception:\n"
        "            pathlib.Path('caught').touch()\n"
        "finally:\n"
        "    pathlib.Path('finally').touch()\n"
    )
    assert measure("scenario=script", "scenario.path=script.py").outcome.completed
    assert {each.name for each in tmp_path.iterdir()} >= {"exit", "finally"}
    assert not Path("caught").exists()


_MADE = "import tensorflow as tf\nweight = tf.ones([64, 64])\nkept = []\n"
_MULTIPLY = "return tf.matmul(tensor, weight)\n"
NO_KNOWN_STEP = {
    "a function": (
        f"{_MADE}def handle(tensor):\n    {_MULTIPLY}"
        "while True:\n    kept.append(handle(tf.ones([8, 64])))\n",
        "__main__:handle",
    ),
    "a tf.function within main": (
        f"{_MADE}def main():\n    @tf.function\n    def handle(tensor):\n        {_MULTIPLY}"
        "    while True:\n        kept.append(handle(tf.ones([8, 64])))\n"
        "if __name__ == '__main__':\n    main()\n",
        "__main__:main.handle",
    ),
    "a tf.function that is a method": (
        f"{_MADE}class Server:\n"
        f"    @tf.function\n    def handle(self, tensor):\n        {_MULTIPLY}"
        "server = Server()\nwhile True:\n    kept.append(server.handle(tf.ones([8, 64])))\n",
        "__main__:Server.handle",
    ),
    "a tf.function made of a function": (
        f"{_MADE}def handle(tensor):\n    {_MULTIPLY}score = tf.function(handle)\n"
        "while True:\n    kept.append(score(tf.ones([8, 64])))\n",
        "__main__:handle",
    ),
    "a static method": (
        f"{_MADE}class Server:\n    @staticmethod\n    def handle(tensor):\n        {_MULTIPLY}"
        "while True:\n    kept.append(Server.handle(tf.ones([8, 64])))\n",
        "__main__:Server.handle",
    ),
}


def measure_loop(
    kind: str, step: str, server: TrialServer, folder: Path
) -> tuple[Trial, list[RepeatedCalls]]:
    """Return the memory trial of a loop, and what was told of its calls."""
    name = f"{kind.replace(' ', '_')}.py"  # the server remembers the step of a cell, by its path
    (folder / name).write_text(NO_KNOWN_STEP[kind][0])
    words = ["scenario=script", f"scenario.path={name}", f"scenario.step={step}"]
    plan = composition.compose_plan(words)
    news: list[object] = []
    trial = server.run(TrialSpec(plan.cells[0].experiment, "memory", 0), 120, news.append)
    return trial, [calls for calls in news if isinstance(calls, RepeatedCalls)]


@pytest.mark.parametrize("kind", NO_KNOWN_STEP)
def test_a_step_may_be_any_kind_of_function(kind: str, server: TrialServer, tmp_path: Path) -> None:
    trial, calls = measure_loop(kind, NO_KNOWN_STEP[kind][1], server, tmp_path)
    assert trial.outcome.completed, trial.outcome
    assert calls == []
    live = trial.steps.tensor_live_bytes
    assert [after - before for before, after in pairwise(live)] == [8 * 64 * 4] * 4


def test_a_loop_without_a_known_step_is_measured_by_its_likeliest(
    server: TrialServer, tmp_path: Path
) -> None:
    trial, (calls,) = measure_loop("a tf.function within main", "likeliest", server, tmp_path)
    assert trial.outcome.completed, trial.outcome
    assert (calls.steps, calls.goes_on) == (("__main__:main.handle",), True)
    assert trial.facts.program is not None
    assert (trial.facts.program.step, trial.facts.program.steps) == ("__main__:main.handle", 6)


def test_scripts_of_one_name_in_two_folders_have_steps_of_their_own(
    server: TrialServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    for name in ("handle", "answer"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        text = NO_KNOWN_STEP["a tf.function within main"][0].replace("handle", name)
        (folder / "serve.py").write_text(text)
        words = ["scenario=script", "scenario.path=serve.py", "scenario.step=likeliest"]
        experiment = composition.compose_plan(words).cells[0].experiment
        trial = server.run(TrialSpec(experiment, "memory", 0), 120)
        assert trial.outcome.completed, trial.outcome
        assert trial.facts.program is not None
        steps.append(trial.facts.program.step)
    assert steps == ["__main__:main.handle", "__main__:main.answer"]


def test_a_host_trial_says_who_holds_what_a_script_keeps(
    server: TrialServer, tmp_path: Path
) -> None:
    kept = "    kept.append([loss, number])\n"
    (tmp_path / "script.py").write_text(LOOP + kept + RUNS)
    plan = composition.compose_plan(["scenario=script", "scenario.path=script.py"])
    trial = server.run(TrialSpec(plan.cells[0].experiment, "host", 0), 120)
    assert trial.outcome.completed, trial.outcome
    assert trial.facts.held is not None
    chains = [" > ".join(each.chain) for each in trial.facts.held.containers]
    assert any("`kept`" in chain for chain in chains), chains


@pytest.mark.parametrize(
    ("runs", "steps"), [("", 0), ("step(0)", 0), ("for number in range(3): step(number)", 2)]
)
def test_a_host_trial_of_a_script_of_few_steps_says_how_many_it_takes(
    runs: str, steps: int, server: TrialServer, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(LOOP + runs)
    plan = composition.compose_plan(["scenario=script", "scenario.path=script.py"])
    trial = server.run(TrialSpec(plan.cells[0].experiment, "host", 0), 120)
    assert f"the program ended after {steps} steps; to say who holds" in str(trial.outcome.reason)


def test_the_readmes_training_on_an_iterator_runs_as_it_stands(
    measure: MeasureWords, tmp_path: Path
) -> None:
    text = (paths.find_scenarios() / "README.md").read_text()
    found = re.search(r"^def make_training.*?^```", text, re.M | re.S)
    assert found
    (tmp_path / "my_training.py").write_text(
        "import keras\nimport tensorflow as tf\n\n"
        "def make_model():\n"
        "    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])\n\n"
        "def make_data():\n"
        "    return tf.data.Dataset.from_tensor_slices((tf.ones([64, 8]), tf.ones([64, 4])))\n\n"
        + found[0].removesuffix("```")
    )
    words = ("scenario=callable", "scenario.target=my_training:make_training", "execution=graph")
    record = measure(*words, "batch_size=16")
    assert record.metrics["graph_traces"] == 1
    assert record.trials[0].facts.batched
