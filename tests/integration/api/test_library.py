"""`import runner` in somebody's own program: the same figures as by an import path, at the same
lines; and what can't be copied is refused before anything runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.engine.events import Result
from runner.errors import BadInput, Interrupted
from runner.integrations import api
from runner.signals import stop_on_signals
from runner.trial import loader
from tests import factories

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What script.py says, which measures its own function and the same one of a module."""
    done = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=HERE,
        env={**os.environ, "RUNNER_OUTPUTS": str(tmp_path_factory.mktemp("outputs"))},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_scripts_function_is_measured_without_running_the_script_again(
    told: dict[str, Any],
) -> None:
    sent = told["sent"]
    assert (sent["outcome"], sent["target"]) == ("completed", "__main__:step"), sent["reason"]
    assert sent["growth"] == 100 * 70 * 4
    assert told["here"] == 0, "the script's own list is untouched"


def test_its_figures_are_those_of_the_same_function_found_by_its_import_path(
    told: dict[str, Any],
) -> None:
    sent, found = told["sent"], told["found"]
    assert found["target"] == "own_module:step"
    assert (sent["peak"], sent["growth"]) == (found["peak"], found["growth"])
    assert told["compared"] == ["same"]


def test_its_lines_are_those_of_the_script_and_what_came_along_is_told_apart(
    told: dict[str, Any],
) -> None:
    first, second = told["sent"]["lines"]
    assert first[:2] == ["script.py", "return tf.matmul(tensor, weight)"]
    assert first == ["script.py", *told["found"]["lines"][0][1:]]
    came_along = 100 * 50 * 4 + 50 * 70 * 4
    assert came_along <= second[2] < came_along + 1000
    assert second[1] == "return bench.load_function()  # with copies of the tensors that it uses"
    assert told["sent"]["code"] == ["script.py"]


def test_a_measurement_reads_as_the_summary_of_a_run_and_its_peak_by_line(
    told: dict[str, Any],
) -> None:
    text = told["sent"]["text"]
    assert text.startswith("callable · eager · CPU:0\n")
    assert "  growth      28.0 kB/step\n" in text
    assert "return tf.matmul(tensor, weight)" in text


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("lock", "uses 'lock', a lock, which can't be sent to the process that measures"),
        ("model", "uses 'model', a Sequential, which can't be sent"),
        ("number", "step: int is not a function."),
        ("needs", "needs 'width'"),
        ("measure", "own_module has no 'no_such_step' at its top level."),
    ],
)
def test_what_cannot_be_measured_is_refused_with_what_to_change(
    told: dict[str, Any], what: str, problem: str
) -> None:
    sentence, remedy = told[what].splitlines()
    assert problem in sentence
    assert remedy.strip()


# Where it may be called.


def test_a_mistyped_group_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'measure'"):
        runner.measure(lambda: 1, fields={"mesure.steps": 500})


def test_measuring_from_within_a_measured_module_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader, "is_loaded", True)
    with pytest.raises(BadInput, match="__main__"):
        runner.measure(lambda: None)


def test_ctrl_c_reaches_the_program_as_such_and_what_the_store_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(_: object, folder: Path, *_others: object) -> Result:
        return Result(
            folder, (), Interrupted(signal.SIGINT), warnings=("the store lacks this run",)
        )

    monkeypatch.setattr(api, "run_source", measure)
    with (
        pytest.warns(UserWarning, match="the store lacks this run"),
        pytest.raises(KeyboardInterrupt),
    ):
        runner.measure("tests.integration.api.own_module:step")


def test_a_program_may_measure_from_another_thread() -> None:
    failed: list[BaseException] = []

    def within() -> None:
        try:
            with stop_on_signals():
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert not failed


# Records.


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    folders = []
    for number, peak in enumerate((1000_000, 3000_000)):
        record = factories.measured(factories.memory_trial(peak), execution="eager")
        folders.append(factories.kept(record, tmp_path / str(number)))
    return folders


def test_a_record_is_opened_from_its_folder_and_knows_its_metrics(runs: list[Path]) -> None:
    found = runner.open(runs[0])
    assert isinstance(found, runner.Measurement)
    assert found["tensor_peak_bytes"] == 1000_000
    assert found.outcome.completed
    with pytest.raises(BadInput, match="did you mean 'tensor_peak_bytes'"):
        found["tensor_peek_bytes"]


def test_many_records_are_a_table_and_not_opened_as_one(runs: list[Path]) -> None:
    with pytest.raises(BadInput, match="holds 2 runs"):
        runner.open(runs[0].parent)


def test_two_records_are_compared_with_a_verdict_a_metric(runs: list[Path]) -> None:
    compared = runner.compare(runner.open(runs[0]), runs[1], ["tensor_peak_bytes"])
    row = compared["tensor_peak_bytes"]
    assert (row.verdict, row.ratio) == ("worse", 3.0)
    assert "worse" in str(compared)
    assert compared._repr_markdown_().startswith("| scenario | cell |")
    with pytest.raises(BadInput, match="no_such"):
        runner.compare(runs[0], runs[1], ["no_such"])


def test_a_sweep_is_compared_within_by_a_field_and_against_budgets(tmp_path: Path) -> None:
    for number, record in enumerate(factories.sweep_of_nine()):
        factories.kept(record, tmp_path / "sweep" / str(number))
    compared = runner.compare(tmp_path / "sweep", metrics=["tensor_peak_bytes"])
    assert [effect.field for effect in compared.effects] == ["scenario", "batch_size"]
    assert compared.sentence.startswith("Peak memory: python_loop needs 16.8 to 26.7 times")
    assert compared.sentence in str(compared)
    assert {row.baseline for row in compared.rows} == {"python_loop"}
    with pytest.raises(BadInput, match="stands in 4 rows"):
        compared["tensor_peak_bytes"]

    asked = {"by": "batch_size", "baseline": "128", "budgets": {"tensor_peak_bytes": "500kB"}}
    compared = runner.compare(tmp_path / "sweep", metrics=["tensor_peak_bytes"], **asked)
    assert {row.baseline for row in compared.rows} == {"batch 128"}
    over = {(figure.held["scenario"], figure.candidate) for figure in compared.over_budget}
    assert over == {
        ("python_loop", "batch 32"),
        ("python_loop", "batch 512"),
        ("while_loop", "batch 512"),
        ("numpy_loop", "batch 512"),
    }
    assert "over budget: batch 32 scenario=python_loop" in str(compared)
    with pytest.raises(BadInput, match="there is no such metric"):
        runner.compare(tmp_path / "sweep", budgets={"tensor_peek_bytes": 1})
    with pytest.raises(BadInput, match="no cell has batch_size=7"):
        runner.compare(tmp_path / "sweep", by="batch_size", baseline="7")


def test_two_sweeps_are_compared_cell_by_cell(tmp_path: Path) -> None:
    for number, record in enumerate(factories.sweep_of_nine()):
        for day in ("yesterday", "today"):
            factories.kept(record, tmp_path / day / str(number))
    compared = runner.compare(tmp_path / "yesterday", tmp_path / "today", ["tensor_peak_bytes"])
    assert [row.verdict for row in compared.rows if row.metric != "outcome"] == ["same"] * 8


def test_importing_the_runner_and_opening_a_record_loads_neither_tensorflow_nor_mlflow(
    runs: list[Path],
) -> None:
    code = (
        "import sys, runner; "
        "light = {'hydra', 'numpy', 'pandas', 'cloudpickle'} & set(sys.modules); "
        f"runner.open({str(runs[0])!r}); "
        "heavy = {'tensorflow', 'mlflow', 'hydra', 'cloudpickle'} & set(sys.modules); "
        "print(light, heavy)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "set() set()\n"


def test_a_record_shows_itself_in_a_notebook_as_a_page_of_its_own_and_as_text(
    runs: list[Path],
) -> None:
    shown = runner.open(runs[0])._repr_html_()
    assert shown.startswith("<div><iframe srcdoc=")
    assert "<summary>As text</summary><pre>" in shown
    assert runner.Measurement.__repr__ is runner.Measurement.__str__
