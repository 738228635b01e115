"""Values that look like secrets, taken out of whatever is kept or shown.

A value is one where its field is called so (`password`, `token`, `api_key`, `secret`), where it
follows such a flag (`--token VALUE`), where a text that is a mapping, a header or a list of
settings has such a name in it, or where an address carries it (`https://me:VALUE@host/`,
`?token=VALUE`). Numbers are none: `key_dim=64` decides a measurement. What refers to the
environment (`${oc.env:TOKEN}`) stands as it is written. `SECURITY.md` lists the names;
`RUNNER_SECRET_NAMES` adds some.

Core: standard library only.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

MASK = "***"

SHORTEST = 4
"""Characters of a secret that is looked for in other texts: shorter ones are part of any word."""

OWN_NAMES = "RUNNER_SECRET_NAMES"
"""The variable with more names that count as secret, with commas between them."""

_SECRET_WORDS = frozenset(
    (
        *("apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials"),
        *("jwt", "key", "passphrase", "passwd", "password", "passwords", "pw", "pwd", "secret"),
        *("secrets", "token"),
    )
)
"""A name is a secret's if one of its parts is one of these."""
_SECRET_NAMES = frozenset(("pass", "passcode", "tokens"))
"""These are, as whole names: `max_pass` and `special_tokens` are none."""
_ADDRESS_NAMES = frozenset(("sig", "signature"))
"""So are these, as the last part of a name in an address."""
_LISTS = frozenset(("credentials", "passwords", "secrets", "tokens"))
"""Flags that several values may follow."""
_HINT = re.compile("auth|bearer|cookie|cred|jwt|key|pass|pw|secret|token|-p|://", re.IGNORECASE)
"""In every text that may hold a secret; most hold none, and are answered at once."""
_REFERENCE = re.compile(r"\$\{oc\.env:[^,{}]*\}")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ADDRESS_USER = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://([^/\s@'\"]+)@", re.IGNORECASE)
_ADDRESS_WORD = re.compile(r"[?&]([\w.-]+)=([^&#\s'\"]+)")
_SETTING = re.compile(r"([+~]*(?:--?)?([\w.-]+)(?:=|:(?!\s)))(.+)", re.DOTALL)
_QUOTED = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_ENTRY = re.compile(r"""[{,]\s*["']?([\w.-]+)["']?\s*:\s*""")
_VALUE = re.compile(
    rf"""{_QUOTED}|\[(?:{_QUOTED}|[^\[\]"'])*\]|{{(?:{_QUOTED}|[^{{}}"'])*}}|[^,{{}}\[\]]+"""
)
"""An entry's value in a mapping in a word: quoted, a list, a mapping, or plain."""
_FLAG = re.compile(r"""[\[,]\s*(["']?)--?([\w.-]+)([=:]|\1\s*,\s*)""")
"""A flag in a list in a word, before its value."""
_REST = {
    "": re.compile(r"[^,\[\]{}]+"),
    "'": re.compile(r"(?:\\.|[^'\\])+"),
    '"': re.compile(r'(?:\\.|[^"\\])+'),
}
"""The value behind `--flag=`, by the flag's quotes."""
_PAIR = re.compile(
    r"""(?:^|[\s;,&'"])([\w.-]+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^;,&\s'"]+)"""
)
"""A setting in a text of several, as `Server=x;Password=y`."""
_HEADER = re.compile(
    r"""(?:^|[\s'"])([\w-]+):\s+(?:(?:bearer|basic|digest|token)\s+)?([^\n'"]+)""", re.IGNORECASE
)
_BEARER = re.compile(r"\bbearer\s+([\w.~+/=-]+)", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether a field of that name holds a secret: `api_key` does, `tokenizer` does not."""
    return _is_secret_name(name, os.environ.get(OWN_NAMES, ""))


@lru_cache(maxsize=10_000)
def _is_secret_name(name: str, own: str) -> bool:
    last = name.rpartition(".")[2].lstrip("-+~")
    parts = [part.lower() for part in _NAME_PARTS.findall(last)]
    own_names = {name.strip().lower() for name in own.split(",") if name.strip()}
    return (
        any(part in _SECRET_WORDS for part in parts)
        or last.lower() in _SECRET_NAMES
        or last.lower() in own_names
    )


def may_hold_secrets(text: str) -> bool:
    """Return False of a text that holds none for sure: of nearly all."""
    return OWN_NAMES in os.environ or bool(_HINT.search(text))


def mask_value(value: Any, name: str = "", *, is_secret: bool = False) -> Any:
    """Return a field's value with what looks like a secret in it masked, at any depth."""
    return _mask(value, [], is_secret or is_secret_name(name))


def find_secrets(value: Any) -> list[str]:
    """Return the texts that `mask_value` masks, the longest first, as far as they can be looked for
    elsewhere."""
    taken: list[str] = []
    _mask(value, taken, is_secret=False)
    texts = [*taken, *(text.partition(":")[2] for text in taken)]  # of `user:password`
    known = {form for text in texts for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1])}
    return sorted((form for form in known if len(form) >= SHORTEST), key=lambda t: (-len(t), t))


def mask_word(word: str) -> str:
    """Return an override, `KEY=VALUE`, or a word of a script's with its secrets masked."""
    return _mask_text(word, [])


def _mask(value: Any, taken: list[str], is_secret: bool) -> Any:
    """Return a value with its secrets masked; add them to `taken`."""
    if isinstance(value, dict):
        return {
            key: _mask(item, taken, is_secret or is_secret_name(str(key)))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        masked = [
            _mask(item, taken, is_secret or follows)
            for item, follows in zip(value, _follow_flags(value), strict=True)
        ]
        return tuple(masked) if isinstance(value, tuple) else masked
    if not isinstance(value, str) or not value or _REFERENCE.fullmatch(value):
        return value
    if is_secret:
        taken.append(value)
        return MASK
    return _mask_text(value, taken)


def _follow_flags(words: Sequence[Any]) -> Iterator[bool]:
    """Yield of each word whether it is the value of a flag of a secret's: `--token VALUE`."""
    flag, follows, is_list = "", False, False
    for word in words:
        is_flag = isinstance(word, str) and bool(re.match("--?[A-Za-z]", word))
        is_value = follows and not (is_flag and is_list)
        yield is_value and not (flag == "-p" and _is_plain(str(word)))  # most likely a port
        if is_flag and not is_value:
            flag, follows = word, "=" not in word and _is_secret_flag(word)
            is_list = follows and word.lstrip("-").lower() in _LISTS
        else:
            follows = follows and is_list


def _is_secret_flag(name: str) -> bool:
    return name.lstrip("-") == "p" or is_secret_name(name)


def _mask_text(text: str, taken: list[str]) -> str:
    """Return a text with the secrets in it masked; add them to `taken`."""
    if not may_hold_secrets(text):
        return text
    if text.lstrip()[:1] in ("{", "["):
        parsed = _parse(text)
        if isinstance(parsed, dict | list):
            masked = _mask(parsed, taken, is_secret=False)
            return text if masked == parsed else json.dumps(masked, default=repr)
    kept, begin = [], 0
    for start, end, mask in sorted(_find_parts(text), key=lambda part: (part[0], -part[1])):
        secret = text[start:end]
        if start < begin or MASK in (secret, secret[1:-1]):
            continue
        is_quoted = len(secret) > 1 and secret[0] == secret[-1] and secret[0] in "'\""
        taken += [secret, re.sub(r"\\(.)", r"\1", secret[1:-1])] if is_quoted else [secret]
        kept += [text[begin:start], f"{secret[0]}{MASK}{secret[0]}" if is_quoted else mask]
        begin = end
    return "".join([*kept, text[begin:]])


def _parse(text: str) -> Any:
    """Return the mapping or the list in a text, of JSON or of Python; None where it is none."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            return read(text)
    return None


def _find_parts(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where secrets stand in a text, and what to write there."""
    setting = _SETTING.fullmatch(text)
    if setting and is_secret_name(setting[2]) and not _is_plain(setting[3]):
        yield *setting.span(3), MASK
    for entry in _ENTRY.finditer(text):
        value = _VALUE.match(text, entry.end())
        if value and is_secret_name(entry[1]) and not _is_plain(value[0]):
            yield *value.span(), f"'{MASK}'"
    for flag in _FLAG.finditer(text):
        is_next = flag[3][:1] not in ("=", ":")
        value = (_VALUE if is_next else _REST[flag[1]]).match(text, flag.end())
        if value and _is_secret_flag(flag[2]) and not _is_plain(value[0]):
            yield *value.span(), f"'{MASK}'" if is_next else MASK
    for pattern in (_PAIR, _HEADER):
        for pair in pattern.finditer(text):
            if is_secret_name(pair[1]) and not _is_plain(pair[2]):
                yield *pair.span(2), MASK
    for bearer in _BEARER.finditer(text):
        yield *bearer.span(1), MASK
    for user in _ADDRESS_USER.finditer(text):
        yield *user.span(1), MASK
    for word in _ADDRESS_WORD.finditer(text):
        last = (_NAME_PARTS.findall(word[1]) or [""])[-1].lower()
        if is_secret_name(word[1]) or last in _ADDRESS_NAMES:
            yield *word.span(2), MASK


def hide_secrets(value: Any, secrets: Sequence[str]) -> Any:
    """Return a value without these texts, wherever in it they stand."""
    if isinstance(value, dict):
        return {key: hide_secrets(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        hidden = [hide_secrets(item, secrets) for item in value]
        return tuple(hidden) if isinstance(value, tuple) else hidden
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
    return value


def hide_secrets_in_file(path: Path, secrets: Sequence[str]) -> None:
    """Write asterisks over these texts in a file, which keeps its length: others may append."""
    with path.open("r+b") as file:
        content = file.read()
        for secret in secrets:
            for place in re.finditer(re.escape(secret.encode(errors="surrogateescape")), content):
                file.seek(place.start())
                file.write(b"*" * len(place[0]))


def _is_plain(text: str) -> bool:
    """Return whether a typed value is a number, a truth, nothing, or of the environment."""
    text = text.strip().strip("'\"")
    is_number = re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", text, re.IGNORECASE)
    return bool(is_number or _REFERENCE.fullmatch(text)) or text.lower() in (
        *("", "true", "false", "null", MASK),
    )
