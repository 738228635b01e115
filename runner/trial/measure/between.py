"""Remedies (`measure.between_steps`): what a person would call between two steps of their own loop,
and what is done there, outside of every span."""

from __future__ import annotations

import gc
from collections.abc import Callable

from runner.trial.measure import malloc


def remedy(name: str) -> Callable[[], object]:
    known: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "gc_collect": gc.collect,
        "clear_session": _clear_session,
        "malloc_trim": malloc.trim,
    }
    return known[name]


def _clear_session() -> None:
    import keras

    keras.backend.clear_session()
