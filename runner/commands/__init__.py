"""The verbs, one file each: what stands behind a first word that is no KEY=VALUE.

A verb is a module with `make_parser() -> Parser`, the words that it takes, and `run(options)`,
which returns the exit code. Help, the check of the words and completion are made from the parser.
"""

from __future__ import annotations

import argparse
import importlib
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from runner.errors import BadInput
from runner.script.words import to_overrides

GROUPS = ("scenario", "execution", "device", "measure", "tracking", "experiment")
SETTINGS = (*GROUPS, "batch_size", "seed", "resume")
"""All that KEY=VALUE may set for a measurement: groups, with the fields below them, and fields."""


def list_verbs() -> list[str]:
    """Return the verbs: each is a file in this folder. A run is what has no verb."""
    files = Path(__file__).parent.glob("[a-z]*.py")
    return sorted(path.stem for path in files if path.stem != "run")


def make_parser(verb: str) -> Parser:
    parser: Parser = importlib.import_module(f"{__name__}.{verb}").make_parser()
    return parser


def call(verb: str, words: Sequence[str]) -> int:
    """Run a verb with its words; return the exit code. Raises `BadInput` for words it can't take,
    and `SystemExit` after it has printed its help."""
    options = make_parser(verb).parse(words)
    code: int = importlib.import_module(f"{__name__}.{verb}").run(options)
    return code


class Parser(argparse.ArgumentParser):
    """The words of a verb. Its errors are the runner's: one message, and what to do.

    `settings` names what KEY=VALUE words may set (SETTINGS: whatever a measurement takes, and then
    every word that is not the verb's own is Hydra's); they are `options.settings`. `own` names
    KEY=VALUE words of the verb's own. `offers` is what completion offers as a plain word. With
    `takes_script` a script may stand among the words; those after it are its own.
    """

    def __init__(
        self,
        verb: str,
        description: str,
        epilog: str,
        *,
        usage: str | None = None,
        settings: Sequence[str] = (),
        own: Sequence[str] = (),
        offers: Iterable[str] = (),
        takes_script: bool = False,
    ) -> None:
        self.takes_script = takes_script
        self.verb, self.settings, self.own, self.offers = verb, settings, own, offers
        self.flag_offers: dict[str, Iterable[str]] = {}
        """What completion offers after a flag that has no choices."""
        prog = f"python -m runner {verb}"
        super().__init__(
            prog=prog,
            usage=usage and f"{prog} {usage}",
            description=textwrap.fill(description, 96),
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,  # an epilog's lines are examples
            allow_abbrev=False,
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the options; raise `BadInput` for words that the verb can't take."""
        words = to_overrides(words) if self.takes_script else words
        own: dict[str, str] = {}
        settings, others = [], []
        for word in words:
            key, equals, value = word.partition("=")
            if equals and key in self.own:
                if key in own:
                    raise BadInput(f"{key} is given twice.", "Keep one.")
                own[key] = value
            elif equals and self.settings != SETTINGS and key.partition(".")[0] in self.settings:
                settings.append(word)
            else:
                others.append(word)
        if self.settings == SETTINGS:
            options, settings = self.parse_known_args(others)
        else:
            options = self.parse_intermixed_args(others)
        vars(options).update({key: own.get(key) for key in self.own}, settings=settings)
        return options

    def add_json(self, help: str = "machine-readable output") -> None:
        """Add the flag that all verbs have which print a table."""
        self.add_argument("--json", action="store_true", help=help)

    def list_flags(self) -> dict[str, list[str]]:
        """Return every long flag that the help names, with the values to offer for it."""
        return {
            flag: [str(value) for value in action.choices or self.flag_offers.get(flag, ())]
            for flag, action in self._option_string_actions.items()
            if flag.startswith("--") and action.help != argparse.SUPPRESS
        }

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{self.verb}: {message}.", f"See {self.prog} --help.")
