"""A program's NumPy and pandas say and do in a trial what they do in plain Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MeasureWords
from tests.integration.meters import numpy_errors

NAMES = tuple(numpy_errors.CASES)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    file = tmp_path_factory.mktemp("alone") / "answers.json"
    subprocess.run([sys.executable, numpy_errors.__file__, str(file)], check=True)
    answers: dict[str, list[str]] = json.loads(file.read_text())
    return answers


def test_errors_warnings_and_modes_are_those_of_plain_python(
    measure: MeasureWords, tmp_path: Path, alone: dict[str, list[str]]
) -> None:
    file = tmp_path / "answers.json"
    words = (f"scenario.target={numpy_errors.__name__}:make", f"+scenario.arguments.file={file}")
    measure("scenario=callable", *words)
    assert len(NAMES) >= 50
    assert json.loads(file.read_text()) == alone
