"""One KEY=VALUE of a command line: taken apart, and written so that Hydra reads the same value.

Core: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any


def split_override(word: str) -> tuple[str, str]:
    """Return the field that a word sets, without Hydra's signs before it, and its value as typed;
    empty where it has none."""
    key, _, value = word.lstrip("+~").partition("=")
    return key, value


def read_overrides(words: Iterable[str]) -> dict[str, str]:
    """Return values as they were typed, by field; of a field that is set twice, the last."""
    return dict(map(split_override, words))


def quote_value(value: Any) -> str:
    """Return a value in Hydra's grammar, so that it is read as the same value: `${` in it is text,
    and nothing that is looked up."""
    if isinstance(value, dict):
        items = (f"{quote_key(key)}:{quote_value(item)}" for key, item in value.items())
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


def quote_key(key: Any) -> str:
    """Return a plain word as it is, and any other key so that Hydra, which can't quote keys, will
    refuse it."""
    text = str(key)
    return text if re.fullmatch(r"[\w.-]+(?: [\w.-]+)*", text) else json.dumps(text)
