"""What is said, and what is lost, with versions that were not tried."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from runner import versions
from runner.allocations import TraceChecks
from runner.meters.tensor import call_recorder
from runner.meters.tensor.call_recorder import CallRecorder
from runner.meters.tensor.replay import NoAllocations, Replay
from runner.meters.tensor.tracing import distrust_untried

CLEAN = TraceChecks(
    events=4,
    windows=1,
    live_before_bytes=0,
    unmatched_frees=0,
    reused_addresses=0,
    disagreements=0,
)


@pytest.mark.parametrize("version", ["2.20.0", "2.21.0", "2.22.0-rc0", "2.22.0rc0"])
def test_a_version_that_was_tried_is_nothing_to_speak_of(version: str) -> None:
    assert versions.describe_untried("tensorflow", version) is None


@pytest.mark.parametrize(("package", "version"), [("tensorflow", "2.19.1"), ("mlflow", "3.99.0")])
def test_a_version_that_was_not_tried_is_named(package: str, version: str) -> None:
    said = versions.describe_untried(package, version)
    assert said is not None
    assert said.startswith(f"{package} {version} was not tried")


@pytest.mark.parametrize(
    "gap", [{"events": 0}, {"unmatched_frees": 1}, {"reused_addresses": 1}, {"disagreements": 1}]
)
def test_gaps_in_the_trace_of_an_untried_version_leave_no_figure(gap: dict[str, int]) -> None:
    result = replace(Replay("cpu").result(), checks=replace(CLEAN, **gap))
    found = distrust_untried(result, "2.99.0")
    assert isinstance(found, NoAllocations)
    assert "tensorflow 2.99.0 was not tried" in found.reason
    assert distrust_untried(result, "2.21.0") is result


def test_a_trace_of_an_untried_version_that_adds_up_is_believed() -> None:
    result = replace(Replay("cpu").result(), checks=CLEAN)
    assert distrust_untried(result, "2.99.0") is result


def test_a_missing_door_of_an_untried_version_loses_the_lines_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def miss(self: CallRecorder) -> None:
        raise AttributeError("TFE_Py_FastPathExecute")

    tensorflow: Any = type("module", (), {"__version__": "2.21.0"})
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    monkeypatch.setattr(call_recorder.CallRecorder, "_wrap_doors", miss)
    recorder = CallRecorder()
    with pytest.raises(AttributeError):
        recorder.start()
    tensorflow.__version__ = "2.99.0"
    recorder.start()
    assert recorder.recording.stacks is None
