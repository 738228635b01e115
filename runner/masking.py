"""Values that look like secrets, taken out of whatever is kept or shown.

A value is one where its field is called so (`password`, `token`, `api_key`, `secret`), where it
follows such a flag (`--token VALUE`), or where an address carries it (`https://me:VALUE@host/`,
`?token=VALUE`). Numbers are none: `key_dim=64` decides a measurement. What refers to the
environment (`${oc.env:TOKEN}`) stands as it is written.

Core: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

MASK = "***"

SHORTEST = 4
"""Characters of a secret that is looked for in other texts: shorter ones are part of any word."""

_SECRET_WORDS = frozenset(
    (
        *("apikey", "credential", "credentials", "key", "passphrase", "passwd", "password", "pwd"),
        *("secret", "secrets", "token"),
    )
)
_HINT = re.compile("cred|key|pass|pwd|secret|token|://", re.IGNORECASE)
"""In every text that may hold a secret; most hold none, and are answered at once."""
_REFERENCE = re.compile(r"\$\{oc\.env:[^,{}]*\}")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ADDRESS_USER = re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://)[^/\s@'\"]+@", re.IGNORECASE)
_ADDRESS_WORD = re.compile(r"([?&])([\w.-]+)=([^&#\s'\"]+)")
_SETTING = re.compile(r"([+~]*(?:--?)?([\w.-]+)=)(.+)", re.DOTALL)
_QUOTED = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_ENTRY = re.compile(r"""[{,]\s*["']?([\w.-]+)["']?\s*:\s*""")
_VALUE = re.compile(
    rf"""{_QUOTED}|\[(?:{_QUOTED}|[^\[\]"'])*\]|{{(?:{_QUOTED}|[^{{}}"'])*}}|[^,{{}}\[\]]+"""
)
"""An entry's value in a mapping in a word: quoted, a list, a mapping, or plain."""
_FLAG = re.compile(r"""[\[,]\s*(["']?)--?([\w.-]+)(=|\1\s*,\s*)""")
"""A flag in a list in a word, before its value."""
_REST = {
    "": re.compile(r"[^,\[\]{}]+"),
    "'": re.compile(r"(?:\\.|[^'\\])+"),
    '"': re.compile(r'(?:\\.|[^"\\])+'),
}
"""The value behind `--flag=`, by the flag's quotes."""


@lru_cache(maxsize=10_000)
def is_secret_name(name: str) -> bool:
    """Return whether a field of that name holds a secret: `api_key` does, `tokenizer` does not."""
    last = name.rpartition(".")[2]
    return any(part.lower() in _SECRET_WORDS for part in _NAME_PARTS.findall(last))


def may_hold_secrets(text: str) -> bool:
    """Return False of a text that holds none for sure: of nearly all."""
    return bool(_HINT.search(text))


def mask_value(value: Any, name: str = "", *, is_secret: bool = False) -> Any:
    """Return a field's value with what looks like a secret in it masked, at any depth."""
    is_secret = is_secret or is_secret_name(name)
    if isinstance(value, dict):
        return {key: mask_value(each, str(key), is_secret=is_secret) for key, each in value.items()}
    if isinstance(value, list | tuple):
        follows_flag = [False, *(_is_secret_flag(each) for each in value)]
        masked = [
            mask_value(
                mask_word(each) if isinstance(each, str) else each, is_secret=is_secret or follows
            )
            for each, follows in zip(value, follows_flag, strict=False)
        ]
        return tuple(masked) if isinstance(value, tuple) else masked
    if not isinstance(value, str) or not value or _REFERENCE.fullmatch(value):
        return value
    return MASK if is_secret else _mask_address(value)


def mask_word(word: str) -> str:
    """Return an override, `KEY=VALUE`, or a flag of a script's with its secrets masked."""
    if not may_hold_secrets(word):
        return word
    setting = _SETTING.fullmatch(word)
    if setting and is_secret_name(setting[2]) and not _is_plain(setting[3]):
        return f"{setting[1]}{MASK}"
    kept, begin = [], 0
    for start, end, mask in sorted(_find_secret_parts(word)):
        if start >= begin:
            kept += [word[begin:start], mask]
            begin = end
    return _mask_address("".join([*kept, word[begin:]]))


def _find_secret_parts(word: str) -> Iterator[tuple[int, int, str]]:
    """Yield where secrets stand in the mappings and lists in a word, and what to write there."""
    for entry in _ENTRY.finditer(word):
        value = _VALUE.match(word, entry.end())
        if value and is_secret_name(entry[1]) and not _is_plain(value[0]):
            yield *value.span(), f"'{MASK}'"
    for flag in _FLAG.finditer(word):
        is_next = not flag[3].endswith("=")
        value = (_VALUE if is_next else _REST[flag[1]]).match(word, flag.end())
        if value and is_secret_name(flag[2]) and not _is_plain(value[0]):
            yield *value.span(), f"'{MASK}'" if is_next else MASK


def find_secrets(value: Any, masked: Any) -> list[str]:
    """Return the masked texts, the longest first, of those that can be looked for elsewhere."""
    found: list[str] = []
    if isinstance(value, dict):
        found = [each for key in value for each in find_secrets(value[key], masked[key])]
    elif isinstance(value, list | tuple):
        found = [each for pair in zip(value, masked, strict=True) for each in find_secrets(*pair)]
    elif isinstance(value, str) and value != masked:
        pattern = "(.*?)".join(map(re.escape, masked.split(MASK)))
        match = re.fullmatch(pattern, value, re.DOTALL)
        for each in match.groups() if match else ():
            texts = (each, each.partition(":")[2])  # of `user:password`
            found += [each for t in texts for each in (t, repr(t)[1:-1], json.dumps(t)[1:-1])]
    known = {each for each in found if len(each) >= SHORTEST}
    return sorted(known, key=lambda each: (-len(each), each))


def hide_secrets(value: Any, secrets: Sequence[str]) -> Any:
    """Return a value without these texts, wherever in it they stand."""
    if isinstance(value, dict):
        return {key: hide_secrets(each, secrets) for key, each in value.items()}
    if isinstance(value, list | tuple):
        hidden = [hide_secrets(each, secrets) for each in value]
        return tuple(hidden) if isinstance(value, tuple) else hidden
    if isinstance(value, str):
        for each in secrets:
            value = value.replace(each, MASK)
    return value


def hide_secrets_in_file(path: Path, secrets: Sequence[str]) -> None:
    """Write asterisks over these texts in a file, which keeps its length: others may append."""
    with path.open("r+b") as file:
        content = file.read()
        for each in secrets:
            for found in re.finditer(re.escape(each.encode(errors="surrogateescape")), content):
                file.seek(found.start())
                file.write(b"*" * len(found[0]))


def _is_secret_flag(value: object) -> bool:
    """Return whether what comes next on a command line is a secret: `--token`."""
    return (
        isinstance(value, str)
        and value.startswith("-")
        and "=" not in value
        and is_secret_name(value)
    )


def _is_plain(text: str) -> bool:
    """Return whether a typed value is a number, a truth, nothing, or of the environment."""
    text = text.strip().strip("'\"")
    is_number = re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", text, re.IGNORECASE)
    return bool(is_number or _REFERENCE.fullmatch(text)) or text.lower() in (
        *("", "true", "false", "null"),
    )


def _mask_address(text: str) -> str:
    if "://" not in text:
        return text
    text = _ADDRESS_USER.sub(rf"\1{MASK}@", text)
    return _ADDRESS_WORD.sub(
        lambda each: f"{each[1]}{each[2]}={MASK if is_secret_name(each[2]) else each[3]}", text
    )
