"""A function of the user's that no module has, of a script, a notebook or a REPL, on its way to the
child. Core: standard library only.

It travels by value, in the pipe that starts the child, and nowhere else: no record and no store
holds one, and none is ever read from a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sent:
    """Made by `using.handing`, opened by `trial.received`."""

    target: str
    """What a record calls it: `__main__:step`."""
    pickled: bytes = field(repr=False)
    signature: inspect.Signature | None
    """Which arguments it takes, without their defaults; None where Python can't read one."""
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The text of what no file has: `In[3]` -> the cell."""
    files: tuple[str, ...] = ()
    """The files that its code comes from, where it does."""
