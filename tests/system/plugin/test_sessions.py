"""A project's own tests under the plugin: limits, blocks, baselines, workers, and what a failure
says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib import metadata
from pathlib import Path

import pytest

from runner.integrations.pytest_plugin.baseline import Baseline, BaselineEntry

_INSTALLED = any(
    each.value == "runner.integrations.pytest_plugin"
    for each in metadata.entry_points(group="pytest11")
)


PLUGIN = () if _INSTALLED else ("-p", "runner.integrations.pytest_plugin")


THEIRS = """
import unittest

import numpy as np
import pytest
import tensorflow as tf

with tf.Graph().as_default():  # before there is a device
    tf.reshape(tf.ones([6]), tf.constant([2, 3]) + 0)

KEPT = []


@pytest.mark.tf_memory(growth="0 B", steps=5)
def test_keeps_a_tensor_of_each_call():
    KEPT.append(tf.ones([1000, 10]))


@pytest.mark.tf_memory(growth="0 B", steps=5)
def test_keeps_nothing():
    tf.ones([1000, 10]) + 1


@pytest.mark.tf_memory(peak="2 MB")
def test_doubles_a_large_tensor():
    large = tf.fill([1000, 1000], 1.0)
    large = large * 2


@pytest.mark.tf_memory(peak="1 B")
def test_makes_no_tensor():
    pass


@pytest.fixture(scope="module")
def shared():
    return tf.ones([500, 500])


@pytest.fixture
def own():
    return tf.ones([300, 300])


@pytest.mark.tf_memory
def test_has_fixtures(shared, own):
    pass


def test_is_measured_in_blocks(tf_memory):
    before = tf.ones([4000])
    with tf_memory(peak="9 kB", growth="0 B") as block:
        for number in block.steps(range(6)):
            tf.fill([1000], 1.0) * 2
    assert block.peak_bytes >= 8000
    assert block.growth_bytes_per_step == 0
    assert "test_theirs.py" in block.table()
    with tf_memory(peak="20 kB") as block:
        tf.ones([4000])


class TestCase(unittest.TestCase):
    @pytest.mark.tf_memory(growth="0 B", steps=2)
    def test_of_unittest(self):
        tf.ones([10]) + 1

    @pytest.mark.tf_memory
    def test_of_unittest_that_fails(self):
        self.fail("by itself")


@pytest.mark.tf_memory
def test_runs_a_graph():
    tf.function(lambda x: tf.reduce_sum(x * 2))(tf.ones([100, 100]))


@pytest.mark.tf_memory
def test_is_skipped():
    pytest.skip("not here")


def test_that_nobody_measures():
    tf.ones([10])


@pytest.mark.tf_memory(peak="1 kB")
def test_feeds_an_array():
    odd = np.zeros(25_001, np.float32)[1:]  # at no multiple of 64, so TensorFlow copies it
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = tf.compat.v1.placeholder(tf.float32, [None])
        session.run(given[0] + 1, {given: odd})
"""


class Ran:
    """A session of theirs that has ended."""

    def __init__(self, folder: Path, *words: str) -> None:
        (folder / "test_theirs.py").write_text(THEIRS)
        report = folder / "junit.xml"
        self.process = subprocess.run(
            [*(sys.executable, "-m", "pytest", "-q", *PLUGIN, f"--junitxml={report}", *words)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=500,
            env={**os.environ, "PYTHONPATH": os.getcwd()},  # noqa: PTH109
        )
        assert report.exists(), self.process.stdout + self.process.stderr
        self.cases = {case.attrib["name"]: case for case in ET.parse(report).iter("testcase")}

    def failure(self, test: str) -> str | None:
        found = self.cases[test].find("failure")
        return None if found is None else str(found.text)

    def noted(self, test: str) -> dict[str, str]:
        return {each.attrib["name"]: each.attrib["value"] for each in
                self.cases[test].iter("property")}  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """One process; its figures are saved."""
    folder = tmp_path_factory.mktemp("alone")
    return Ran(folder, "--tf-memory-save"), folder


def test_a_test_that_keeps_a_tensor_of_each_call_fails_with_its_line(
    alone: tuple[Ran, Path],
) -> None:
    said = alone[0].failure("test_keeps_a_tensor_of_each_call")
    assert said is not None
    assert said.startswith("tf_memory: it grows by 40.0 kB (40,000 bytes) a step, above 0 B.")
    assert re.search(r"40\.0 kB +1 +Fill 1000 x 10 float32 +test_theirs.py:16 +KEPT.append", said)
    assert "Longer after each call: `KEPT`, a list in test_theirs.py:11" in said
    assert alone[0].failure("test_keeps_nothing") is None


def test_saving_says_what_it_left_out(alone: tuple[Ran, Path]) -> None:
    lines = alone[0].process.stdout.splitlines()
    (line,) = (each for each in lines if "tf_memory.yaml holds" in each)
    assert "tf_memory.yaml holds 7 figures, 7 of them new and 0 changed; left out: " in line
    assert (
        "1 test without a limit, or without TensorFlow, 4 tests that failed, 1 skipped test" in line
    )


def test_a_peak_above_its_limit_is_shown_by_line(alone: tuple[Ran, Path]) -> None:
    said = alone[0].failure("test_doubles_a_large_tensor")
    assert said is not None
    assert "its peak of 8.00 MB (8,000,0" in said
    assert re.search(r"4\.00 MB +\(4,000,0\d\d\).*test_theirs.py:27 +large = large \* 2", said)
    assert "profiler_session" not in said


def test_an_array_counts_though_a_graph_was_made_before_there_was_a_device(
    alone: tuple[Ran, Path],
) -> None:
    assert "its peak of 100 kB (100,0" in str(alone[0].failure("test_feeds_an_array"))


def test_a_limit_that_is_kept_fails_nothing(alone: tuple[Ran, Path]) -> None:
    assert alone[0].failure("test_makes_no_tensor") is None
    assert alone[0].noted("test_makes_no_tensor")["tf_memory_peak_bytes"] == "0"


def test_a_tests_own_fixtures_count_and_shared_ones_do_not(alone: tuple[Ran, Path]) -> None:
    peak = int(alone[0].noted("test_has_fixtures")["tf_memory_peak_bytes"])
    assert 300 * 300 * 4 <= peak < 300 * 300 * 4 + 100


def test_blocks_are_measured_each_by_itself(alone: tuple[Ran, Path]) -> None:
    assert alone[0].failure("test_is_measured_in_blocks") is None
    noted = alone[0].noted("test_is_measured_in_blocks")
    assert 8000 <= int(noted["tf_memory_peak_bytes"]) < 8100
    assert 16000 <= int(noted["tf_memory_peak_bytes #2"]) < 16100


def test_a_test_of_unittest_is_measured_and_fails_for_its_own_reason(
    alone: tuple[Ran, Path],
) -> None:
    assert "tf_memory_peak_bytes" in alone[0].noted("test_of_unittest")
    assert "by itself" in str(alone[0].failure("test_of_unittest_that_fails"))


def test_a_skipped_test_and_an_unmarked_one_have_no_figures(alone: tuple[Ran, Path]) -> None:
    assert not alone[0].noted("test_is_skipped")
    assert not alone[0].noted("test_that_nobody_measures")


def test_the_baseline_holds_what_passed_and_says_what_is_a_graph(
    alone: tuple[Ran, Path],
) -> None:
    tests = Baseline.read(alone[1] / "tf_memory.yaml").tests
    names = [name.partition("::")[2] for name in tests]
    assert names == sorted(names)
    assert set(names) == {
        "TestCase::test_of_unittest",
        "test_has_fixtures",
        "test_is_measured_in_blocks",
        "test_is_measured_in_blocks #2",
        "test_keeps_nothing",
        "test_makes_no_tensor",
        "test_runs_a_graph",
    }
    assert [name for name, entry in tests.items() if entry.sessions] == [
        "test_theirs.py::test_runs_a_graph"
    ]


def test_two_workers_save_the_same_and_fail_what_takes_more_than_the_baseline(
    alone: tuple[Ran, Path], tmp_path: Path
) -> None:
    baseline = Baseline.read(alone[1] / "tf_memory.yaml")
    name = "test_theirs.py::test_has_fixtures"
    lower = Baseline("2.0.0", {**baseline.tests, name: BaselineEntry(300_000)})
    lower.write(tmp_path / "old.yaml")
    shared = ("-n", "2", "--tf-memory-save=new.yaml", "--tf-memory-compare=old.yaml")
    ran = Ran(tmp_path, *shared)
    said = ran.failure("test_has_fixtures")
    assert said is not None
    assert "is above the 300 kB (300,000 bytes) of" in said
    assert "by 20% (written with TensorFlow 2.0.0)" in said
    assert ran.failure("test_is_measured_in_blocks") is None
    saved = Baseline.read(tmp_path / "new.yaml").tests
    graph = "test_theirs.py::test_runs_a_graph"
    expected = {key: one for key, one in baseline.tests.items() if key not in (name, graph)}
    assert {key: one for key, one in saved.items() if key != graph} == expected
