"""`claims`: measures what the documents claim, and prints a verdict for each."""

from __future__ import annotations

import argparse
import json
import sys
import time

from runner import paths
from runner.commands import Parser
from runner.errors import BadInput, suggest

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
    from runner.engine.preload import preload  # not for --help

    started = time.monotonic()
    if wrong := next((word for word in options.claims if "=" in word), None):
        key = wrong.partition("=")[0]
        raise BadInput(
            f"{key} cannot be set here: the claim's file sets what it runs.",
            suggest(key, _SETTINGS),
        )
    is_resumed = any(word.startswith("resume=") for word in options.settings)
    with preload(not is_resumed) as server:  # where it is resumed, nothing may be missing
        # Imported late: TensorFlow is loading meanwhile.
        from runner.claims import cells, files, judging, summary
        from runner.commands._measurement import measure_and_print
        from runner.engine import folders
        from runner.engine.events import Result
        from runner.engine.scheduler import LocalExecutor
        from runner.render.text.progress import Progress

        request = judging.read_request(options.claims, options.settings)
        claims = [files.load_claim(path) for path in request.paths]
        plan = cells.compose_cells(claims, request.settings)
        folder = request.folder or folders.name_new_folder("claims")
        folders.make_folder(folder)
        request.keep(folder)
        judged = judging.JudgedClaims(folder, plan)

        def render(result: Result) -> str:
            nonlocal judged
            judged = judging.judge_claims(request, plan, folder)
            if options.json:
                found = judged.to_json()
                in_full = request.in_full or {each["id"] for each in found}
                return json.dumps([each for each in found if each["id"] in in_full], indent=1)
            if result.stopped and not judged.judgements:
                return ""
            return summary.summarize_claims(judged, request.in_full, time.monotonic() - started)

        result = measure_and_print(
            cells.ClaimGrid(plan),
            folder,
            LocalExecutor(server),
            render,
            progress=Progress(plan.plan),
            tracking=plan.plan.cells[0].experiment.tracking,
        )
        if result.stopped:
            again = f"python -m runner claims resume={paths.shorten(folder)}"
            print(f"  Continue with: {again}", file=sys.stderr)
            return result.exit_code
        return judged.exit_code
