"""The first half of every verb that measures: its words are read while TensorFlow is loading.

Imports nothing that only a measurement needs, so that a mistake in the words is answered at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.engine.answers import Answer


def find_answer(
    open_answer: Callable[[], Answer | None],
    *,
    is_likely: bool,
    words: Sequence[str] = (),
) -> int:
    """Open an answer, measure what it asks for, print it, and return the exit code.

    `open_answer` reads the words and checks them; it returns None where nothing is to be measured.
    If trials are likely, TensorFlow begins to load before, as the words (`scenario.path=`) want it.
    """
    # Not for --help.
    from runner.engine.preload import find_environment, preload

    started = time.monotonic()
    with preload(is_likely, find_environment(words)) as server:
        answer = open_answer()
        if answer is None:
            return 0
        from runner.commands._measurement import measure_and_print

        return measure_and_print(answer, server, started)
