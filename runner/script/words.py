"""The words of a command that names a script: those before it are the runner's, those after it its
own. Core: standard library only.

    script measure=standard train.py --epochs 2      leak serve.py --port 0
    script -m package.train --config small.yaml      fit vary=batch_size ... train.py {batch_size}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.overrides import quote_value, split_override
from runner.script.source import MODULE

SUFFIXES = (".py", ".ipynb")
_VALUED_FLAGS = ("--cfg", "-c", "--info", "-i", "--package", "-p")
"""Flags of Hydra's whose value is the word after them."""


def is_script(word: str) -> bool:
    """Return whether a word is the path of a script that exists."""
    return word.endswith(SUFFIXES) and Path(word).is_file()


def is_program(name: str) -> bool:
    """Return whether a name is that of a program: a file of code, or `-m MODULE`."""
    return name.startswith(MODULE) or name.endswith(SUFFIXES)


def split_words(words: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """Return the words before a script, the script (None where there is none), and its own."""
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word == "-m" and following and "=" not in following and following[0] != "-":
            return list(words[:at]), f"{MODULE}{following}", list(words[at + 2 :])
        is_value = at > 0 and words[at - 1] in _VALUED_FLAGS
        is_override = word.startswith(("-", "+", "~")) or "=" in word
        if is_script(word) or not (is_override or is_value):
            return list(words[:at]), word, list(words[at + 1 :])
    return list(words), None, []


def to_overrides(words: Sequence[str]) -> list[str]:
    """Return the words as overrides, a script and its words among them as fields of the scenario
    that runs it; without a script, as they are."""
    before, script, own = split_words(words)
    if script is None:
        return before
    argv = ",".join(map(quote_value, own))
    return [
        *before,
        "scenario=script",
        f"scenario.path={quote_value(script)}",
        f"scenario.argv=[{argv}]",
    ]


def from_overrides(overrides: Sequence[str], path: str, argv: Sequence[str]) -> list[str]:
    """Return the words of a command that names a script, from what `to_overrides` made of them: the
    runner's first, then the script at `path` and its own."""
    made = ("scenario", "scenario.path", "scenario.argv")
    before = [word for word in overrides if split_override(word)[0] not in made]
    script = ["-m", path.removeprefix(MODULE)] if path.startswith(MODULE) else [path]
    return [*before, *script, *argv]
