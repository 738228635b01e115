"""`claims`: measures what the documents claim, and prints a verdict for each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from runner import paths
from runner.commands import Parser
from runner.commands._measuring import find_answer
from runner.errors import BadInput, suggest

if TYPE_CHECKING:
    from runner.engine.answers import Answer

_SETTINGS = ("measure", "device", "tracking", "seed", "resume")

_EPILOG = """\
examples:
  python -m runner claims
      all claims, with measure=quick: some minutes
  python -m runner claims 000-04 001-12
      these, with the evidence: cells, figures, the rule that decided
  python -m runner claims my_claim.yaml
      a claim of your own, in the form of the files in conf/claim/; those are found by their id
  python -m runner claims resume=latest
      goes on where the last one stopped; where nothing is missing, judges it anew

Also: measure=standard, device=gpu, seed=1, and fields such as measure.timing_processes=7.
tracking is none by default, as the cells would be hundreds of runs; `publish PATH` brings them in.
Exit codes: 0 all judged, 1 one could not be judged, 2 bad input, 130 interrupted."""


def make_parser() -> Parser:
    parser = Parser(
        "claims",
        "Measures what the documents claim and prints a verdict for each: supported, refuted, "
        "depends, inconclusive. Writes claims.html.",
        _EPILOG,
        settings=_SETTINGS,
        offers=paths.find_choices("claim"),
    )
    parser.add_argument("claims", nargs="*", metavar="WORD", help="an id, a path, KEY=VALUE")
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    """Measure what the claims want, and judge them; return 1 if one could not be judged."""
    if wrong := next((word for word in options.claims if "=" in word), None):
        key = wrong.partition("=")[0]
        raise BadInput(
            f"{key} cannot be set here: the claim's file sets what it runs.",
            suggest(key, _SETTINGS),
        )

    def open_answer() -> Answer:
        from runner.claims.answer import ClaimsAnswer

        return ClaimsAnswer(options.claims, options.settings, options.json)

    # Where it is resumed, nothing may be missing.
    is_resumed = any(word.startswith("resume=") for word in options.settings)
    return find_answer(open_answer, is_likely=not is_resumed)
