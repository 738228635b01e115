"""End a process that the user's code has forked, and that came back into ours, as Python ends it.
Child side.

Only the process that began a trial may report: the other one's end is no end of the trial.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

getpid, _exit = os.getpid, os._exit  # as they were before the user's code


def end(error: BaseException | None, run_exit_functions: Callable[[], object]) -> NoReturn:
    """Wait for threads, call the exit functions, and end with the code that Python makes of the
    error."""
    code: object = None
    if isinstance(error, SystemExit):
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
    elif error is not None:
        code = 1
        with suppress(BaseException):
            traceback.print_exception(error)
    for act in (join_threads, run_exit_functions, atexit._run_exitfuncs):
        with suppress(BaseException):
            act()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # the user's code may have put anything in its place
            stream.flush()
    _exit((code if isinstance(code, int) else code is not None) & 0xFF)


def join_threads() -> None:
    """Wait for threads as Python does at the end of a script; hold none after that."""
    # What tells an idle pool of `concurrent.futures` to end, called by Python before it waits.
    for function in reversed(getattr(threading, "_threading_atexits", [])):
        function()
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
