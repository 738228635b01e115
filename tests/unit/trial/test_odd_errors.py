"""An error of which nothing can be read costs neither its status nor its reason."""

from __future__ import annotations

from pathlib import Path

from runner.records import Status
from tests.attacks import exceptions


class _NoMessage(MemoryError):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_memory_that_ran_out_without_a_message_stays_so() -> None:
    result = exceptions.explain_error(_NoMessage())
    assert result.status is Status.OUT_OF_MEMORY
    assert "_NoMessage: its message cannot be read: __str__ raises" in (result.reason or "")


def test_a_long_argument_of_sys_exit_is_cut() -> None:
    reason = exceptions.explain_error(SystemExit("x" * 100_000)).reason or ""
    assert reason.startswith("the code called sys.exit('xxx")
    assert len(reason) < 2000


def test_no_broken_exception_is_lost(tmp_path: Path) -> None:
    assert [each for each in exceptions.explain(tmp_path, 400) if each] == []
