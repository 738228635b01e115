"""JSON of files and pipes as typed values: checked here, once, and trusted behind.

Files may be old, cut or changed by hand, and a child's words may be anything. The types say what is
right; msgspec holds the text to them. Numbers of a file are bounded, as NumPy's are.

Core: standard library and msgspec.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")

_quote = json.dumps  # a child encodes its result after the user's code, which may replace it

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
Number: TypeAlias = Whole | Real
"""Integers stay integers, so byte counts are exact."""


class Unreadable(ValueError):
    """The text is not what its type promises; says where in it, in one line."""


def decode(kind: type[T], text: str | bytes) -> T:
    """Return the JSON text as a value of `kind`; raise `Unreadable` where it is none."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        plain = _without_half_characters(text)
        if plain is not None:
            return decode(kind, plain)
        what, _, where = str(error).partition(" - at `")
        place = where.removesuffix("`").removeprefix("$").removeprefix(".")
        line = f"{place}: {what}" if place else what
        raise Unreadable(line.replace("`", "")[:200]) from None


_CHARACTER = re.compile(r"\\\\|\\ud[89ab]..\\ud[c-f]..|\\(ud[89a-f]..)", re.IGNORECASE)


def _without_half_characters(text: str | bytes) -> str | None:
    """Return the text with every `\\udcff` that stands alone as if its backslash were a backslash;
    None where there is none.

    Names of files that are not UTF-8 stand so in older records, and no text can hold them.
    """
    try:
        plain_text = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        return None
    plain = _CHARACTER.sub(lambda match: rf"\\{match[1]}" if match[1] else match[0], plain_text)
    return plain if plain != plain_text else None


def encode(value: Any) -> bytes:
    """Return the value as ASCII JSON: NaN and infinities are null, half a character its code."""
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_encodable(msgspec.to_builtins(value)))
    if text.isascii():
        return text
    return _NOT_ASCII.sub(lambda match: _quote(match[0])[1:-1], text.decode()).encode()


_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def encode_indented(value: Any) -> bytes:
    """Return the same for a person to read."""
    return msgspec.json.format(encode(value), indent=1)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list | tuple) else value
