"""The stand-in GPU, for the tests in this folder."""

from __future__ import annotations

import os

import pytest

from tests.standin_gpu.standin import environment


@pytest.fixture(scope="session")
def with_standin_gpu() -> dict[str, str]:
    """The environment of a process that sees the stand-in GPU; what isn't there yet is built."""
    return {**os.environ, **environment()}
