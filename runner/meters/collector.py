"""Know Python's collector as the program has set it: who has switched it off keeps its garbage.

Core: standard library only.
"""

from __future__ import annotations

import gc

from runner.facts import CollectorState


def read_state() -> CollectorState | None:
    """Return the setting under which garbage stays; None where it is freed."""
    if gc.get_debug() & gc.DEBUG_SAVEALL:
        return CollectorState.SAVES_ALL
    if not gc.isenabled():
        return CollectorState.DISABLED
    return None if gc.get_threshold()[0] else CollectorState.NO_THRESHOLD


def collect() -> None:
    """Free garbage, where the program would have it freed sooner or later."""
    if read_state() is None:
        gc.collect()


def empty_free_lists() -> None:
    """Empty Python's lists of free objects, 2,000 tuples of each length among them, as a look
    through all objects does; and free no garbage. What they held would look like garbage."""
    if read_state() is not None:
        return
    kept, flags = len(gc.garbage), gc.get_debug()
    gc.set_debug(flags | gc.DEBUG_SAVEALL)  # garbage is listed and stays
    gc.collect()
    gc.set_debug(flags)
    del gc.garbage[kept:]  # garbage once more
