"""What a record says of where it was measured."""

from __future__ import annotations

import pytest

from runner.running import environment


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
