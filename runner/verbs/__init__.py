"""The verbs, one file each: what stands behind a first word that is no KEY=VALUE."""

from __future__ import annotations

import argparse
import textwrap
from typing import NoReturn

from runner.errors import BadInput


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
