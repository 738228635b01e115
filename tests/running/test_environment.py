"""What a record says of where it was measured."""

from __future__ import annotations

import pytest

from runner.running import environment


def test_flags_are_tensorflows_and_not_terraforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "3")
    monkeypatch.setenv("TF_VAR_password", "secret")
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", "/somewhere")
    flags = environment.describe()["flags"]
    assert flags["TF_NUM_INTEROP_THREADS"] == "3"
    assert not flags.keys() & {"TF_VAR_password", "TF_CLI_CONFIG_FILE"}
