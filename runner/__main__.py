"""The front door: a verb, or Hydra. Errors are printed here and nowhere else."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from runner.errors import BadInput, Interrupted, RunnerError, Unavailable, nearest

_VERBS = Path(__file__).parent / "verbs"
_RUN = "run"

HELP = """\
Measures what TensorFlow does with memory: exact peaks, honest times, in a process of its own.

  python -m runner scenario=while_loop                      one run
  python -m runner scenario=python_loop scenario.gradient=tape batch_size=128 execution=graph
  python -m runner -m scenario=python_loop,while_loop batch_size=32,128
                                                            a sweep over a grid
  python -m runner experiment=NAME                          a named sweep
  python -m runner VERB --help                              one of: {verbs}

What can be set: scenario, execution, device, measure, tracking, experiment (groups: NAME=CHOICE),
batch_size, seed, resume, and every field below a group (scenario.size=200, measure.steps=500).
`python -m runner list` shows every choice, a line each.

Exit codes: 0 all completed, 1 a run did not complete, 2 bad input, 3 compare found worse,
130 interrupted, 143 terminated."""


def verbs() -> list[str]:
    """A verb is a file in runner/verbs/."""
    return sorted(path.stem for path in _VERBS.glob("*.py") if path.stem not in ("__init__", _RUN))


def main(words: Sequence[str]) -> int:
    try:
        _check_platform()
        return _dispatch(list(words))
    except (RunnerError, Interrupted) as error:
        print(f"runner: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _check_platform() -> None:
    if not sys.platform.startswith("linux"):
        raise Unavailable(
            f"the runner measures on Linux; this is {platform.system()}.",
            "Its meters read the Linux kernel's accounts; run it in a Linux container or machine.",
        )


def _dispatch(words: list[str]) -> int:
    first = words[0] if words else ""
    if first in ("-h", "--help"):
        print(HELP.format(verbs=", ".join(verbs())))
        return 0
    if first and not first.startswith(("-", "+", "~")) and "=" not in first:
        if first not in verbs():
            raise BadInput(f"{first}: is neither a verb nor KEY=VALUE.", nearest(first, verbs()))
        return _call(first, words[1:])
    return _call(_RUN, words)


def _call(verb: str, words: list[str]) -> int:
    code: int = importlib.import_module(f"runner.verbs.{verb}").main(words)
    return code


def command() -> int:
    """The console command `runner`, which pip makes: the same as `python -m runner`."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
