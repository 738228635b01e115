"""What a record says of where it was measured."""

from __future__ import annotations

import json

import pytest

from runner.config import Experiment
from runner.running import environment
from scenarios.functions import LargeTensor
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED


def test_flags_are_what_is_known_to_change_a_measurement_and_nobody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "3")
    monkeypatch.setenv("TF_VAR_password", "secret")
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", "/somewhere")
    for name in ("TF_TOKEN_app_terraform_io", "TF_HTTP_PASSWORD", "KERAS_HOME", "CUDA_SECRET"):
        monkeypatch.setenv(name, "hush hush")
    flags = environment.describe()["flags"]
    assert flags["TF_NUM_INTEROP_THREADS"] == "3"
    assert "hush" not in str(environment.describe())
    assert not flags.keys() & {"TF_VAR_password", "TF_CLI_CONFIG_FILE"}


def test_a_run_that_went_on_elsewhere_has_times_that_compare_with_no_one_machine_s() -> None:
    here = environment.describe()
    elsewhere = {**here, "host": "n7", "cpu": "another"}
    alike = json.loads(json.dumps({**here, "host": "n8"}))
    experiment = Experiment(
        "large_tensor",
        LargeTensor(1000, False),
        "eager",
        ANYWHERE,
        BRIEF,
        UNTRACKED,
        batch_size=4,
        seed=0,
    )
    whole = environment.for_record(here, experiment, {})[1]
    assert environment.for_record(environment.together(alike, here), experiment, {})[1] == whole
    mixed = environment.together(elsewhere, here)
    surroundings, fingerprint = environment.for_record(mixed, experiment, {})
    assert fingerprint != whole
    assert surroundings["comparable"]["measured_on"] == ", ".join(sorted([here["host"], "n7"]))
    again = environment.together(json.loads(json.dumps(mixed)), here)
    assert again["measured_on"] == mixed["measured_on"], "it stays so, wherever it goes on"
