"""`again`: a recorded run once more, from its folder alone, and what differs now."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from runner import records
from runner.commands import _again, call
from runner.compose import composition
from runner.errors import BadInput
from tests.conftest import Cli
from tests.factories import completed, failed, kept

BRIEF = ("measure=quick", "measure.timing_processes=0", "tracking=none")
STEP = "import tensorflow as tf\n\ndef step(width):\n    return lambda: tf.ones([width])\n"


def test_a_run_is_repeated_as_it_was_asked_for_and_its_figures_stand_beside_it(
    warm_cli: Cli, outputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "wide.py").write_text(STEP)
    words = ("scenario=callable", "scenario.target=wide:step", "scenario.arguments.width=64000")
    assert warm_cli(*words, "batch_size=7", *BRIEF, cwd=tmp_path).returncode == 0
    (before,) = outputs.glob("runs/*/*")
    (tmp_path / "wide.py").write_text(STEP.replace("[width]", "[2, width]"))

    done = warm_cli("again", "latest", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    old, new = (records.read(Path(told[name])) for name in ("then", "now"))
    assert Path(told["then"]) == before.resolve()
    assert old.cell == new.cell
    peak = next(row for row in told["rows"] if row["metric"] == "tensor_peak_bytes")
    figures = (peak["baseline_value"], peak["candidate_value"])
    assert figures == pytest.approx((256_000, 512_000), abs=16)  # the shape is a few bytes
    assert peak["verdict"] == "worse"
    assert peak["other_code"].startswith("wide.py differs")
    assert list(told["differs"]) == ["code.file.wide.py"]
    assert not (outputs / "mlflow.db").exists(), "it was not tracked then"

    elsewhere = warm_cli("again", told["then"])
    assert elsewhere.returncode == 2
    assert f"It was run from {tmp_path}: go there." in elsewhere.stderr


def test_what_is_not_one_measured_run_is_refused(tmp_path: Path) -> None:
    for number in range(2):
        kept(completed(batch_size=number + 1), tmp_path / "sweep" / str(number))
    with pytest.raises(BadInput, match=r"holds 2 runs, and one is repeated at a time") as refused:
        call("again", [str(tmp_path / "sweep")])
    assert refused.value.remedy.endswith("sweep/0.")
    with pytest.raises(BadInput, match="there is no such folder"):
        call("again", [str(tmp_path / "nowhere")])
    never = failed(status=records.Status.UNSUPPORTED, reason="it has: eager")
    kept(never, tmp_path / "never")
    with pytest.raises(BadInput, match="was never measured"):
        call("again", [str(tmp_path / "never"), "--yes"])


def test_a_scenario_that_is_not_there_any_more_is_named(tmp_path: Path) -> None:
    gone = completed()
    gone = dataclasses.replace(gone, spec=dataclasses.replace(gone.spec, scenario="while_lop"))
    kept(gone, tmp_path / "gone")
    with pytest.raises(BadInput, match="can't be repeated") as refused:
        call("again", [str(tmp_path / "gone"), "--yes"])
    assert "while_loop" in str(refused.value)


def test_a_record_from_elsewhere_is_shown_and_runs_only_with_yes(
    outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "done"
    theirs = completed(
        scenario="callable", target="subprocess:getoutput", arguments={"cmd": f"touch {done}"}
    )
    folder = kept(theirs, tmp_path / "theirs")
    with pytest.raises(BadInput, match="so nothing was run") as refused:
        call("again", [str(folder)])
    assert "--yes" in refused.value.remedy
    shown = capsys.readouterr().err
    assert "scenario.target=subprocess:getoutput" in shown
    assert f"touch {done}" in shown
    assert not done.exists()
    assert not outputs.exists()


def test_a_record_whose_secrets_were_masked_says_so(tmp_path: Path) -> None:
    masked = completed(scenario="callable", target="os:getcwd", arguments={"token": "***"})
    kept(masked, tmp_path / "masked")
    with pytest.raises(BadInput, match="holds no secrets") as refused:
        call("again", [str(tmp_path / "masked"), "--yes"])
    assert "scenario.target=os:getcwd" in refused.value.remedy


@pytest.mark.parametrize("named", ["", "ours"])
def test_a_repeat_goes_to_the_experiment_that_the_run_went_to(
    named: str, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(outputs))
    if named:
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", named)
    (cell,) = composition.compose_plan(["scenario=while_loop", "tracking=local"]).cells
    mine = kept(completed(), outputs / "runs" / "2026-01-31" / "12-00-00-ab12")
    (mine / "config.yaml").write_text(cell.composed)
    (again_cell,) = _again._compose_again(completed(), mine, []).cells
    assert again_cell.experiment.tracking == cell.experiment.tracking
    assert again_cell.experiment.tracking.experiment == (named or "runner")


def test_a_record_from_elsewhere_names_no_store(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(outputs))
    server = "tracking: {kind: server, uri: 'http://theirs:5000', experiment: runner}\n"
    kinds = {}
    mine = outputs / "runs" / "2026-01-31" / "12-00-00-ab12"
    for folder in (mine, tmp_path / "theirs"):
        record = completed()
        (kept(record, folder) / "config.yaml").write_text(server)
        (cell,) = _again._compose_again(record, folder, []).cells
        kinds[folder.name] = cell.experiment.tracking.kind
    assert kinds == {mine.name: "server", "theirs": "local"}
