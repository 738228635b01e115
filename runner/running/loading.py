"""TensorFlow loads while it is still read what is to be measured.

Imports little, so that it begins at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.isolation import server


@contextmanager
def ahead(is_wanted: bool = True) -> Iterator[None]:
    """Where it will be, as far as a look at the words can tell. Whatever comes of them, nothing is
    left running."""
    try:
        if is_wanted:
            server.Server(Path(os.devnull)).start()
        yield
    finally:
        server.end_all()


def wanted_by(words: Sequence[str]) -> bool:
    """Not where Hydra is only to tell something, or to run it elsewhere."""
    chosen = any(word.startswith(("scenario=", "experiment=")) for word in words)
    flags = {word for word in words if word.startswith("-")}
    return chosen and flags <= {"-m", "--multirun"} and not any("launcher=" in w for w in words)
