"""Keep Python's clocks as they were before the user's code ran.

Core: standard library only. A program may freeze time or turn it back, as freezegun does: it
replaces the functions of `time`, and the same functions under any name in any module that is
loaded. It does not look into classes.
"""

from __future__ import annotations

import time


class Clock:
    """The real clocks; the zygote loads them before any trial does."""

    seconds = staticmethod(time.perf_counter)
    """Never goes back: for spans."""
    computed_seconds = staticmethod(time.process_time)
    """Of this process on any core: the same on a busy machine."""
    epoch_seconds = staticmethod(time.time)
    """As memray's snapshots have it."""
    epoch_ns = staticmethod(time.time_ns)
    """As the events of TensorFlow's profiler have it."""
    sleep = staticmethod(time.sleep)
