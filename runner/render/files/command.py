"""The command that measures a record's cell again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import yaml

from runner import paths
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
        **{f"scenario.{_quote_key(name)}": value for name, value in spec.parameters.items()},
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


def quote_value(value: Any) -> str:
    """Return a value in Hydra's grammar, so that it is read as the same value: `${` in it is text,
    and nothing that is looked up."""
    if isinstance(value, dict):
        items = (f"{_quote_key(key)}:{quote_value(item)}" for key, item in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(quote_value, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    is_other = value.lower() in ("true", "false", "null", "nan", "inf")
    if re.fullmatch(r"[A-Za-z_][\w./:-]*", value) and not is_other:
        return value
    literal = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    quoted = re.sub(r"(\\*)'", r"\1\1\\'", literal)
    at_end = quoted[len(quoted.rstrip("\\")) :]
    return f"'{quoted}{at_end}'"


def _quote_key(key: Any) -> str:
    """Return a plain word as it is, and any other key so that Hydra, which can't quote keys, will
    refuse it."""
    text = str(key)
    return text if re.fullmatch(r"[\w.-]+(?: [\w.-]+)*", text) else json.dumps(text)
