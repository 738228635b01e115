"""The verbs, one file each: what stands behind a first word that is no KEY=VALUE."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from runner.errors import BadInput


def names() -> list[str]:
    """A verb is a file in this folder; a run has none to say."""
    files = Path(__file__).parent.glob("*.py")
    return sorted(path.stem for path in files if path.stem not in ("__init__", "run"))


def apart(words: Sequence[str]) -> tuple[list[str], list[Path]]:
    """The words that name a store, `tracking=...`, and the others, which are folders."""
    said = [word for word in words if word.startswith(("tracking=", "tracking."))]
    return said, [Path(word) for word in words if word not in said]


class Parser(argparse.ArgumentParser):
    """A verb's words and flags. Its errors are the runner's: one message, and what to do."""

    def __init__(self, verb: str, description: str, epilog: str) -> None:
        self.verb = verb
        super().__init__(
            prog=f"python -m runner {verb}",
            description=textwrap.fill(description, 96),
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,  # an epilog's lines are examples
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{self.verb}: {message}.", f"See {self.prog} --help.")
