"""An exception whose parts can't be read is a reason that names what could not."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from runner.records import Status, TrialResult
from runner.trial.failure import translate_error


class _Unlucky(Exception):
    """In place of TensorFlow's kinds of errors."""


@pytest.fixture(autouse=True)
def _no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = SimpleNamespace(ResourceExhaustedError=_Unlucky, OpError=_Unlucky)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(errors=errors))


def _raise(*_: object) -> Any:
    raise KeyError("broken")


class BrokenStr(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NumberForText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class BrokenClass(Exception):
    @property
    def __class__(self) -> Any:
        raise KeyError("broken")


class BrokenTraceback(Exception):
    @property
    def __traceback__(self) -> Any:
        raise KeyError("broken")


class BrokenCause(Exception):
    @property
    def __cause__(self) -> Any:
        raise KeyError("broken")


class BrokenStream:
    def write(self, _: str) -> int:
        raise OSError("broken")

    flush = _raise


def explain(error: BaseException) -> TrialResult:
    try:
        raise error
    except BaseException as caught:
        return translate_error(caught)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BrokenStr(), "BrokenStr: its message cannot be read: __str__ raises SystemExit"),
        (NumberForText(), "NumberForText: its message cannot be read: __str__ raises TypeError"),
        (BrokenClass("a word"), "BrokenClass: a word"),
        (BrokenTraceback("a word"), "parts of it cannot be read: __traceback__ raises KeyError"),
        (BrokenCause("a word"), "parts of it cannot be read: __cause__ raises KeyError"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_of_an_exception_is_broken_is_named(error: BaseException, reason: str) -> None:
    result = explain(error)
    assert result.status is Status.FAILED
    assert result.reason
    assert reason in result.reason
    assert result.reason.startswith(type(error).__name__)


def test_a_broken_stream_takes_no_reason_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", BrokenStream())
    result = explain(ValueError("a word"))
    assert result.reason
    assert result.reason.startswith("ValueError: a word")
    assert "read: write raises OSError" in result.reason


def test_streams_that_are_gone_take_no_reason_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdout", None)
    result = explain(ValueError("a word"))
    assert result.reason
    assert result.reason.startswith("ValueError: a word")


def test_an_exception_that_is_whole_says_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    result = explain(ValueError("a word"))
    assert result.reason
    assert result.reason.startswith("ValueError: a word")
    assert "cannot be read" not in result.reason
    assert "Traceback" in capsys.readouterr().err
