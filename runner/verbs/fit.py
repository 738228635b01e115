"""`fit`: the largest value of an integer field that completes under a memory cap."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from runner.errors import BadInput

HELP = """\
python -m runner fit vary=FIELD [max=N] [--json] [OVERRIDES]

Finds the largest value of an integer field that completes under a memory cap, by real runs: the
answer completes as a plain run, and the next value is out of memory. It starts from the value that
the field has, and takes few trials, guided by what the smaller ones asked their allocator for. A
comma list among the overrides makes strategies, which are searched side by side (one by one with
measure.side_by_side=1) and compared.

  python -m runner fit vary=batch_size device.memory_limit_mb=512 scenario=keras_training \\
      scenario.model=transformer scenario.recompute=true,false
  python -m runner fit vary=scenario.iterations max=1000 device.memory_limit_mb=64 \\
      scenario=python_loop scenario.size=1000 batch_size=1000 scenario.gradient=tape

vary=FIELD    any integer field: batch_size, scenario.size, scenario.arguments.layers, ...
max=N         look no further than N
--json        [{strategy, vary, largest, metric_at_largest, trials, ...}], one a strategy

The cap is device.memory_limit_mb (the device's tensors) or measure.host_limit_mb (the process).
A failing value costs ten seconds: TensorFlow's allocator keeps trying for as long. Any other
failure stops the search of its strategy, and it says so. In outputs/fits/DATE/TIME/ it leaves
fit.json, fit.svg (the way to the limit), probes.jsonl, and of each strategy the run at its answer
(`python -m runner publish` takes that folder).

Exit codes: 0 every strategy has its answer, 1 one has not, 2 bad input, 130 interrupted."""


def main(words: Sequence[str]) -> int:
    if "-h" in words or "--help" in words:
        print(HELP)
        return 0
    own, rest = _apart(words)
    if not own.get("vary"):
        raise BadInput("vary: has no value.", "Say vary=batch_size, or another integer field.")
    most = own.get("max")
    if most is not None and (not most.isdecimal() or len(most) > 18 or int(most) < 1):
        raise BadInput(f"max: {most!r} is not a whole number from 1.", "Write max=1000.")
    overrides = tuple(word for word in rest if word not in ("--json", "-m", "--multirun"))

    started = time.monotonic()
    # Imported late, so that --help and a mistyped word are answered at once.
    from runner.running import loading

    with loading.ahead(loading.wanted_by(overrides)):
        from runner.fit import fitting, summary

        asked = fitting.Asked(own["vary"], None if most is None else int(most), overrides)
        fitted = fitting.fitted(asked, summary.Progress())
    if "--json" in rest:
        print(json.dumps([limit.to_json() for limit in fitted.limits], indent=1))
    else:
        seconds = time.monotonic() - started
        print(summary.of_fit(fitted.limits, fitted.folder, fitted.picture, seconds))
    if fitted.stopped:
        print(f"runner: {fitted.stopped}", file=sys.stderr)
        print("  What was finished is kept.", file=sys.stderr)
    return fitted.exit_code


def _apart(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The verb's own words, and the rest."""
    own: dict[str, str] = {}
    rest = []
    for word in words:
        key, _, value = word.partition("=")
        if key not in ("vary", "max"):
            rest.append(word)
        elif key in own:
            raise BadInput(f"{key}: said twice.", "Keep one.")
        else:
            own[key] = value
    return own, rest
