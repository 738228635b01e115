"""Load TensorFlow while the words are still read. Imports little, so that it begins at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from runner.errors import BadInput
from runner.overrides import read_overrides
from runner.processes.server import TrialServer
from runner.script.source import choose_environment, read_environment, read_script


@contextmanager
def preload(
    is_wanted: bool = True, environment: Mapping[str, str] | None = None
) -> Iterator[TrialServer]:
    """Yield a server that is loading TensorFlow, if it is wanted; end it afterwards."""
    server = TrialServer()
    try:
        if is_wanted:
            server.start(environment)
        yield server
    finally:
        server.stop()


def is_likely_to_measure(words: Sequence[str]) -> bool:
    """Guess from the command line whether trials will run on this machine; no configuration is
    read. Hydra's own flags only show something, and a launcher runs its trials elsewhere."""
    said = read_overrides(words)
    flags = {word for word in words if word.startswith("-")}
    is_here = flags <= {"-m", "--multirun"} and "hydra/launcher" not in said
    return is_here and not said.keys().isdisjoint(("scenario", "experiment"))


def find_environment(words: Sequence[str]) -> dict[str, str]:
    """Guess what the server must be started with; a mistake is answered once all is read."""
    path = read_overrides(words).get("scenario.path")
    try:
        script = read_script(path.strip("'\"")) if path else None
        changes = read_environment(script) if script else []
        return choose_environment(changes, os.environ)
    except BadInput:
        return {}
