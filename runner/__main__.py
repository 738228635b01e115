"""The front door: a verb, or Hydra. Errors are printed here and nowhere else."""

from __future__ import annotations

import errno
import importlib
import os
import platform
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Sequence

from runner import places
from runner.errors import BadInput, Interrupted, RunnerError, Unavailable, nearest
from runner.terminal.console import screens
from runner.verbs import names

_RUN = "run"

HELP = """\
Measures what TensorFlow does with memory: exact peaks, honest times, in a process of its own.

  python -m runner scenario=while_loop                      one run
  python -m runner scenario=python_loop scenario.gradient=tape batch_size=128 execution=graph
  python -m runner -m scenario=python_loop,while_loop batch_size=32,128
                                                            a sweep over a grid
  python -m runner experiment=NAME                          a named sweep, or a search
  python -m runner VERB --help                              one of: {verbs}

What can be set: scenario, execution, device, measure, tracking, experiment (groups: NAME=CHOICE),
batch_size, seed, resume, and every field below a group (scenario.size=200, measure.steps=500).
With -m also: hydra/sweeper=optuna search.objectives=[METRIC,...] (few cells of a large grid), and
hydra/launcher=joblib, submitit_slurm or ray (each cell is a job).
`python -m runner list` shows every choice, a line each. Choices of your own, in a folder with the
same groups, are found with --config-dir DIR, before or after any verb.

Exit codes: 0 all completed, 1 a run did not complete, 2 bad input, 3 compare --fail-on or --budget
found what it was asked to fail on, 130 interrupted, 143 terminated."""


def main(words: Sequence[str]) -> int:
    with screens():
        return _answered(words)


def _answered(words: Sequence[str]) -> int:
    """The exit code; whatever goes wrong is one message here, foreseen or not."""
    try:
        _check_platform()
        return _dispatch(list(words))
    except (RunnerError, Interrupted) as error:
        for said in (error, *getattr(error, "__notes__", ())):
            print(f"runner: {said}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _say_no_room(error)
        if isinstance(error, OSError) and error.errno in _NO_WAY and error.filename:
            print(f"runner: {_short(error.filename)}: {error.strerror}.", file=sys.stderr)
            print("  Name a path that can be read, and written to.", file=sys.stderr)
            return BadInput.exit_code
        return _say_unforeseen(error)


_NO_WAY = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EROFS)
"""What a path can be wrong by, whoever asks for it."""


def _short(path: object) -> str:
    text = str(path)
    return text if len(text) <= 200 else f"{text[:100]}...{text[-100:]}"


def _say_no_room(error: OSError) -> int:
    where = f"{error.filename}: " if error.filename else ""
    print(
        f"runner: {where}the disk is full; every trial that had ended before is kept.\n"
        "  Make room, then go on: repeat the words, for a sweep with resume=latest added.",
        file=sys.stderr,
    )
    return 1


def _say_unforeseen(error: Exception) -> int:
    """One message, and the whole story in a file beside nobody's results."""
    story = "".join(traceback.format_exception(error))
    lines = str(error).strip().splitlines() if _can_be_said(error) else []
    what = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    try:
        descriptor, file = tempfile.mkstemp(prefix="runner-error-", suffix=".txt")
        with open(descriptor, "w", errors="backslashreplace") as details:  # noqa: PTH123
            details.write(story)
        where = f"The details are in {file};"
    except OSError as problem:
        where = f"The details could not be written ({problem.strerror});"
    print(
        f"runner: this should not have happened ({what}).\n"
        f"  {where} please report it with them and the words that you typed.",
        file=sys.stderr,
    )
    return 1


def _can_be_said(error: Exception) -> bool:
    try:
        return bool(str(error))
    except Exception:
        return False


def _check_platform() -> None:
    if not sys.platform.startswith("linux"):
        raise Unavailable(
            f"the runner measures on Linux; this is {platform.system()}.",
            "Its meters read the Linux kernel's accounts; run it in a Linux container or machine.",
        )


def _check_words(words: Sequence[str]) -> None:
    """Refuse what no shell can pass on, and no file can be called."""
    for word in words:
        if "\0" in word or any("\ud800" <= each <= "\udbff" for each in word):
            raise BadInput(f"{word}: is not a word of a command line.", "Write it as plain text.")


def _dispatch(words: list[str]) -> int:
    _check_words(words)
    words = places.with_config_dirs(words)
    first = words[0] if words else ""
    if first in ("-h", "--help"):
        print(HELP.format(verbs=", ".join(names())))
        return 0
    if first == "--version":
        print(f"runner {_version()}")
        return 0
    if first and not first.startswith(("-", "+", "~")) and "=" not in first:
        if first not in names():
            raise BadInput(f"{first}: is neither a verb nor KEY=VALUE.", nearest(first, names()))
        return _call(first, words[1:])
    return _call(_RUN, words)


def _version() -> str:
    if clone := places.project():
        told: dict[str, dict[str, str]] = tomllib.loads((clone / "pyproject.toml").read_text())
        return told["project"]["version"]
    from importlib import metadata  # a dozen modules, which nothing else here needs

    return metadata.version("runner")


def _call(verb: str, words: list[str]) -> int:
    code: int = importlib.import_module(f"runner.verbs.{verb}").main(words)
    return code


def command() -> int:
    """The console command `runner`, which pip makes: the same as `python -m runner`."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
