"""The command that measures a record's cell again."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import yaml

from runner import places
from runner.records import Record

_OTHER_THAN_TEXT = ("true", "false", "null", "nan", "inf")


def reproduce(record: Record) -> str:
    """The command that measures this cell again."""
    spec = record.spec
    words = [
        f"scenario={spec['scenario']}",
        f"execution={spec['execution']}",
        f"device={spec['device']['kind']}",
        f"batch_size={spec['batch_size']}",
        f"seed={spec['seed']}",
        f"measure={spec['measure']['name']}",
    ]
    words += [f"scenario.{name}={word(value)}" for name, value in spec["parameters"].items()]
    words += [
        f"device.{name}={word(value)}"
        for name, value in spec["device"].items()
        if name != "kind" and value not in (None, 0)
    ]
    usual = _usual_measure(spec["measure"]["name"])
    words += [
        f"measure.{name}={word(value)}"
        for name, value in spec["measure"].items()
        if value != usual.get(name)
    ]
    own = record.environment.get("config_dirs") or []
    flags = [word for folder in own for word in ("--config-dir", str(folder))]
    return shlex.join(["python", "-m", "runner", *flags, *words])


def word(value: Any) -> str:
    """A value in Hydra's grammar: a plain word where that is read as the same text."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{word(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(word, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if re.fullmatch(r"[A-Za-z_][\w./:-]*", value) and value.lower() not in _OTHER_THAN_TEXT:
        return value
    return "'" + re.sub(r"(\\*)'", r"\1\1\\'", value) + "'"


def _usual_measure(name: str) -> dict[str, Any]:
    """The fields that need not be said; all must where that measure has been renamed since."""
    file = places.choices("measure").get(name)
    return (yaml.safe_load(file.read_text()) or {}) if file else {}
