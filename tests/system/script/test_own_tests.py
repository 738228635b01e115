"""NumPy's and pandas' own tests, as the packages ship them, pass in a trial as without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.conftest import MeasureWords

FILES = (
    "numpy._core.tests.test_errstate",
    "numpy.linalg.tests.test_deprecations",
    "pandas.tests.series.methods.test_map",
)


def write_words(report: Path) -> list[str]:
    own = ["-q", "-c", os.devnull, "--rootdir", str(report.parent), "-p", "no:cacheprovider"]
    return [*own, f"--junitxml={report}", "--pyargs", *FILES]


def read_outcomes(report: Path) -> dict[tuple[str, str], list[str]]:
    """Return what each test came to: nothing stands below one that passed."""
    cases = ElementTree.parse(report).iter("testcase")
    return {
        (case.get("classname", ""), case.get("name", "")): [part.tag for part in case]
        for case in cases
    }


def test_numpy_s_and_pandas_own_tests_end_as_without_a_trial(
    measure: MeasureWords, tmp_path: Path
) -> None:
    alone, here = tmp_path / "alone.xml", tmp_path / "here.xml"
    subprocess.run([sys.executable, "-m", "pytest", *write_words(alone)], timeout=300)
    words = ",".join(f"'{word}'" for word in write_words(here))
    measure("scenario=script", "scenario.path='-m pytest'", f"scenario.argv=[{words}]")
    assert len(read_outcomes(alone)) > 100
    assert read_outcomes(here) == read_outcomes(alone)
