"""Python's compiler, left out of the host's peak.

Compiling a module takes some ten times what the module then holds, and whether it is compiled is a
matter of where bytecode can be kept. It says nothing about the user's step.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any


def leave_out(before: Callable[[], None], after: Callable[[], None]) -> None:
    """From now on, in this process, these two are called around each module's compiling."""
    compile_source = SourceFileLoader.source_to_code

    def apart(self: SourceFileLoader, data: Any, path: Any, **options: Any) -> Any:
        before()
        try:
            return compile_source(self, data, path, **options)
        finally:
            after()

    SourceFileLoader.source_to_code = apart  # type: ignore[assignment,method-assign]
