"""Code that eats the host's memory until somebody stops it, for `scenario=callable`."""

from __future__ import annotations

import numpy as np

kept = []


def eat() -> None:
    """16 MB at a time, every page of them touched."""
    while True:
        kept.append(np.ones(2_000_000))
