"""`claims`: measures what the documents claim, and prints a verdict for each."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from runner import places
from runner.errors import BadInput, nearest
from runner.verbs import Parser

_GROUPS = ("measure", "device", "tracking")
_FIELDS = ("seed", "resume")

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
tracking is none unless said, as the cells would be hundreds of runs; `publish PATH` brings them in.
Exit codes: 0 all judged, 1 one could not be judged, 2 bad input, 130 interrupted."""


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "claims",
        description="Measures what the documents claim and prints a verdict for each: supported, "
        "refuted, depends, inconclusive. Writes claims.html.",
        epilog=_EPILOG,
    )
    parser.add_argument("word", nargs="*", metavar="WORD", help="an id, a path, KEY=VALUE")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)

    started = time.monotonic()
    names = [word for word in options.word if "=" not in word]
    settings = _settings([word for word in options.word if "=" in word])
    resume = settings.pop("resume", None)

    # Imported late, so that --help and a mistyped word are answered at once.
    from runner.running import loading

    with loading.ahead(not resume):  # of what is gone on with, nothing may be missing
        from runner.claims import measuring, summary
        from runner.terminal.progress import Progress

        asked = measuring.Asked.of(names, settings, resume and str(resume))
        judged = measuring.measured(asked, Progress())
    if judged.problem:
        print(f"runner: {judged.problem}", file=sys.stderr)
    if judged.interrupted:
        print(f"runner: {judged.interrupted}; what was finished is kept:", file=sys.stderr)
        print(f"  python -m runner claims resume={places.relative(judged.folder)}", file=sys.stderr)
        return judged.exit_code
    if options.json:
        told = [
            each for each in judged.to_json() if each["id"] in asked.in_full or not asked.in_full
        ]
        print(json.dumps(told, indent=1))
    else:
        print(summary.of_claims(judged, asked.in_full, time.monotonic() - started))
    return judged.exit_code


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """What all cells are run with. What they are is the claims' to say."""
    from runner.composing import words as hydras

    settings: dict[str, Any] = {}
    for word in words:
        key = word.partition("=")[0]
        if key.partition(".")[0] not in (*_GROUPS, *_FIELDS):
            raise BadInput(
                f"{key}: is not to be set here; a claim says what it runs.",
                nearest(key, (*_GROUPS, *_FIELDS)),
            )
        if key in settings:
            raise BadInput(f"{key}: said twice.", "Keep one.")
        settings[key] = hydras.value_of(word)
    return settings
