"""`script`: a program as it is, its steps found."""

from __future__ import annotations

import argparse

from runner.commands import SETTINGS, Parser
from runner.commands.run import measure_words
from runner.errors import BadInput

_EPILOG = """\
examples:
  python -m runner script train.py --epochs 15 --batch-size 64
  python -m runner script measure=standard device.memory_limit_mb=2048 train.py --batch-size 64
  python -m runner script -m package.train --config small.yaml
  python -m runner script notebook.ipynb

Words before the script are the runner's, words after it the script's. It is run as Python runs it,
and its steps are found: each call of scenario.step=MODULE:NAME, where that is said; else each batch
of Keras' fit; else each update of an optimizer; else each batch of predict or evaluate. What comes
before the first is the build. It is stopped once as many steps were taken as measure.* wants
(scenario.max_steps=N, or null: it runs to its end), by an exception that passes through its
`finally` and `with`.

In a sweep or a comparison it is scenario=script; {batch_size} and {seed} stand for these fields:
  python -m runner -m scenario=script scenario.path=train.py \\
      'scenario.argv=[--batch-size,"{batch_size}"]' batch_size=32,64,128
  python -m runner leak serve.py --port 0
  python -m runner fit vary=batch_size device.memory_limit_mb=512 train.py --batch {batch_size}

Exit codes: 0 completed, 1 it did not, 2 bad input, 130 interrupted."""


def make_parser() -> Parser:
    parser = Parser(
        "script",
        "Measures a program as it is: a script, a notebook, or `-m MODULE`.",
        _EPILOG,
        usage="[--show] [--json] [OVERRIDES] SCRIPT [WORDS OF THE SCRIPT]",
        settings=SETTINGS,
        takes_script=True,
    )
    parser.add_argument(
        "--show", action="store_true", help="pass on what it prints; run.log has that in any case"
    )
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    words = options.settings
    if not any(word.startswith("scenario.path=") for word in words):
        raise BadInput("script: no script is named.", "Say python -m runner script train.py.")
    return measure_words(words, as_json=options.json, shows_log=options.show)
