"""The command that measures a record's cell again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import yaml

from runner import paths
from runner.overrides import quote_key, quote_value
from runner.records import Record


def write_command(record: Record) -> str:
    spec = record.spec
    # The fields that need not be said: none where that measure has been renamed since.
    file = paths.find_choices("measure").get(spec.measure.name)
    usual: dict[str, Any] = (yaml.safe_load(file.read_text()) or {}) if file else {}
    device, measure = asdict(spec.device), asdict(spec.measure)
    fields = {
        **{"scenario": spec.scenario, "execution": spec.execution, "device": spec.device.kind},
        **{"batch_size": spec.batch_size, "seed": spec.seed, "measure": spec.measure.name},
        **{f"scenario.{quote_key(name)}": value for name, value in spec.parameters.items()},
        **{f"device.{name}": value for name, value in device.items()
           if name != "kind" and value not in (None, 0)},
        **{f"measure.{name}": value for name, value in measure.items()
           if value != usual.get(name)},
    }  # fmt: skip
    words = [f"{name}={quote_value(value)}" for name, value in fields.items()]
    return join_command(words, record.environment.config_dirs)


def join_command(words: Iterable[str], config_dirs: Iterable[str]) -> str:
    """Return a command line of these words that finds the user's own scenarios and experiments."""
    flags = [word for folder in config_dirs for word in ("--config-dir", folder)]
    return shlex.join(["python", "-m", "runner", *flags, *words])
