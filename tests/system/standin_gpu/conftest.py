"""The stand-in GPU, for the tests in this folder."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.system.standin_gpu.standin import environment


@pytest.fixture(scope="session")
def with_standin_gpu() -> dict[str, str]:
    """The environment of a process that sees the stand-in GPU; what isn't there yet is built.
    Without a compiler its tests are skipped, in CI they fail."""
    if shutil.which("g++") is None:
        why = "g++ is missing, which builds the stand-in GPU: apt install g++"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return {**os.environ, **environment()}
