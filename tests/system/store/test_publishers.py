"""Several publishers at once, and publishers that are killed: nothing is lost and nothing twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from runner.store.location import StoreLocation
from tests.factories import completed, kept
from tests.stores import Runs, make_anew


def test_killed_at_any_moment_publishing_again_completes_everything(
    location: StoreLocation, outputs: Path, runs: Runs
) -> None:
    make_anew(location)
    for number in range(20):
        kept(completed(f"r{number}"), outputs / "runs" / str(number))
    words = [sys.executable, "-m", "runner", "publish", str(outputs / "runs")]
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    for after in (0.05, 0.2, 0.45):
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as publisher:
            assert publisher.stdout is not None
            publisher.stdout.readline()
            time.sleep(after)
            publisher.send_signal(signal.SIGKILL)
    subprocess.run(words, check=True, capture_output=True, env=environment)
    found = runs()
    assert sorted(run.data.tags["record"] for run in found) == sorted(f"r{n}" for n in range(20))
    assert {run.info.status for run in found} == {"FINISHED"}
    assert len({run.info.run_id for run in found}) == 20


def test_four_publishers_on_a_fresh_store_lose_nothing(
    outputs: Path, location: StoreLocation, runs: Runs
) -> None:
    make_anew(location)
    environment = {**os.environ, "RUNNER_OUTPUTS": str(outputs)}
    publishers = []
    for owner in range(4):
        for number in range(6):
            kept(completed(f"r{owner}-{number}"), outputs / f"sweep{owner}" / str(number))
        # Each brings its own records in, and one that all four have.
        words = ["publish", str(outputs / f"sweep{owner}"), str(outputs / "sweep0" / "0")]
        publishers.append(
            subprocess.Popen(
                [sys.executable, "-m", "runner", *words], stdout=subprocess.PIPE, env=environment
            )
        )
    for publisher in publishers:
        publisher.communicate()
        assert publisher.returncode == 0
    found = runs()
    expected = sorted(f"r{owner}-{number}" for owner in range(4) for number in range(6))
    assert sorted(run.data.tags["record"] for run in found) == expected
    assert {run.info.status for run in found} == {"FINISHED"}
    with closing(sqlite3.connect(str(location.database))) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
