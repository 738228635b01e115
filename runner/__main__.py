"""The front door: a verb, or Hydra. Errors are printed here and nowhere else."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Sequence
from contextlib import suppress

from runner import masking, paths
from runner.commands import call, list_verbs
from runner.errors import (
    BadInput,
    Interrupted,
    RunnerError,
    Unavailable,
    suggest,
    translate_system_error,
)
from runner.render.text.console import sanitize_streams
from runner.script.words import is_script


@sanitize_streams()
def main(words: Sequence[str]) -> int:
    """Return the exit code of a command line; whatever goes wrong is one message here."""
    try:
        return _dispatch(list(words))
    except (RunnerError, Interrupted) as error:
        for message in (error, *getattr(error, "__notes__", ())):
            print(f"runner: {_hide_secrets(str(message), words)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        known = translate_system_error(error)
        if known is not None:
            print(f"runner: {_hide_secrets(str(known), words)}", file=sys.stderr)
            return known.exit_code
        return _report_unforeseen(error, words)


def _hide_secrets(text: str, words: Sequence[str]) -> str:
    """Return a text without what looks like a secret among the words that were typed."""
    secrets = masking.find_secrets(list(words))
    return str(masking.hide_secrets(text, secrets))


def _report_unforeseen(error: Exception, words: Sequence[str]) -> int:
    """Print one message, and keep the whole story in a temporary file."""
    story = _hide_secrets("".join(traceback.format_exception(error)), words)
    lines: list[str] = []
    with suppress(Exception):  # whose own text can't be had
        lines = _hide_secrets(str(error), words).strip().splitlines()
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


def _dispatch(words: list[str]) -> int:
    if not sys.platform.startswith("linux"):
        raise Unavailable(
            f"the runner measures on Linux; this is {platform.system()}.",
            "Its meters read the Linux kernel's accounts; run it in a Linux container or machine.",
        )
    for word in words:  # what no shell can pass on, and no file can be called
        if "\0" in word or any("\ud800" <= each <= "\udbff" for each in word):
            raise BadInput(
                f"{word}: contains a character that cannot be used.", "Write it as plain text."
            )
    words = paths.take_config_dirs(words)
    if folders := paths.list_own_confs():
        from runner import yaml_files  # with PyYAML, which nothing else here needs

        for folder in folders:
            yaml_files.check_folder(folder)
    first = words[0] if words else ""
    if first == "--version":
        print(f"runner {_read_version()}")
        return 0
    if is_script(first):
        print(f"runner: {first} is a script: python -m runner script {first} ...", file=sys.stderr)
        return call("script", words)
    if first and not first.startswith(("-", "+", "~")) and "=" not in first:
        if first not in (verbs := list_verbs()):
            raise BadInput(f"{first}: is neither a verb nor KEY=VALUE.", suggest(first, verbs))
        return call(first, words[1:])
    return call("run", words)


def _read_version() -> str:
    if clone := paths.find_clone():
        project: dict[str, dict[str, str]] = tomllib.loads((clone / "pyproject.toml").read_text())
        return project["project"]["version"]
    from importlib import metadata  # a dozen modules, which nothing else here needs

    return metadata.version("tf-memory-runner")


def command() -> int:
    """Run the console command `runner`, which pip makes: the same as `python -m runner`."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
