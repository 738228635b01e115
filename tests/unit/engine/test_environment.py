"""What a record says of where it was measured."""

from __future__ import annotations

import msgspec
import pytest

from runner import schema
from runner.config import Experiment
from runner.engine import environment
from runner.facts import TrialFacts
from runner.machine import Machine
from scenarios.functions import LargeTensor
from tests.conftest import ANYWHERE, BRIEF, UNTRACKED


def test_only_variables_that_change_measurements_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "3")
    monkeypatch.setenv("TF_VAR_password", "secret")
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", "/somewhere")
    for name in ("TF_TOKEN_app_terraform_io", "TF_HTTP_PASSWORD", "KERAS_HOME", "CUDA_SECRET"):
        monkeypatch.setenv(name, "hush hush")
    flags = environment.describe_machine().flags
    assert flags["TF_NUM_INTEROP_THREADS"] == "3"
    assert "hush" not in str(environment.describe_machine())
    assert not flags.keys() & {"TF_VAR_password", "TF_CLI_CONFIG_FILE"}


def test_times_from_two_machines_compare_with_neither() -> None:
    here = environment.describe_machine()
    elsewhere = msgspec.structs.replace(here, host="n7", cpu="another")
    alike = schema.decode(Machine, schema.encode(msgspec.structs.replace(here, host="n8")))
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
    whole = environment.make_environment(here, experiment, TrialFacts())[1]
    assert (
        environment.make_environment(
            environment.merge_machines(alike, here), experiment, TrialFacts()
        )[1]
        == whole
    )
    mixed = environment.merge_machines(elsewhere, here)
    surroundings, fingerprint = environment.make_environment(mixed, experiment, TrialFacts())
    assert fingerprint != whole
    assert surroundings.comparable["measured_on"] == ", ".join(sorted([here.host, "n7"]))
    again = environment.merge_machines(schema.decode(Machine, schema.encode(mixed)), here)
    assert again.measured_on == mixed.measured_on, "it stays so, wherever it goes on"
