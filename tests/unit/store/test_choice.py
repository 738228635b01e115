"""Which store is meant: by words, by the environment, or by neither."""

from __future__ import annotations

import pytest

from runner.commands._store import choose_store
from runner.compose import composition
from runner.compose.tracking import read_tracking
from runner.config import Tracking
from runner.errors import BadInput

SERVER = "http://mlflow.example:5000"


def composed(*words: str) -> Tracking:
    plan = composition.compose_plan(["scenario=tape", *words])
    return plan.cells[0].experiment.tracking


def test_without_a_word_the_store_is_the_embedded_one() -> None:
    assert composed() == read_tracking([]) == Tracking("local", None, "runner")
    assert read_tracking(["tracking.experiment=mine"]).experiment == "mine"


def test_the_environment_names_server_and_experiment_as_for_any_client_of_mlflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "loops of ours")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hush")
    (cell,) = composition.compose_plan(["scenario=tape", "tracking=server"]).cells
    store = cell.experiment.tracking
    assert (store.uri, store.experiment) == ("http://mlflow.example:5000", "loops of ours")
    assert read_tracking(["tracking=server"]) == store
    assert "hush" not in cell.composed
    assert read_tracking([]).experiment == "loops of ours"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([], "server"),
        (["tracking.experiment=mine"], "server"),
        (["tracking=local"], "local"),
        (["tracking=none"], "none"),
        (["tracking=server"], "server"),
    ],
    ids=" ".join,
)
def test_an_address_in_the_environment_is_used_unless_a_word_names_another_store(
    words: list[str],
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", SERVER)
    found = composed(*words)
    assert found == choose_store(words)
    assert (found.kind, found.uri) == (kind, SERVER if kind == "server" else None)
    line = f"runner: MLFLOW_TRACKING_URI is not used (tracking={kind}).\n"
    assert capsys.readouterr().err == ("" if kind == "server" else line)


def test_a_word_s_address_comes_before_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", SERVER)
    assert composed("tracking.uri=http://other:1").uri == "http://other:1"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("sqlite:////data/mlflow.db", "is not a valid address of an MLflow server"),
        ("databricks", "is not a valid address"),
        ("http://me:hush@mlflow.example", "holds a name, a password or a token"),
    ],
)
def test_an_address_that_can_t_be_used_is_one_line_and_the_embedded_store(
    address: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    assert composed() == choose_store([]) == Tracking("local", None, "runner")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("runner: MLFLOW_TRACKING_URI is not used (")
    assert why in line
    assert "hush" not in line
    with pytest.raises(BadInput):
        composed("tracking=server")
