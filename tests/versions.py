"""Which TensorFlow the tests run under: some of what is true of a program changed with it."""

from __future__ import annotations

from importlib.metadata import version

TENSORFLOW = tuple(int(part) for part in version("tensorflow").split(".")[:2])
"""As (2, 21)."""
