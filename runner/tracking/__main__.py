"""The background process: imports MLflow, prepares the store, then publishes what it is asked to.

What draws the pictures is imported before it says that it is ready, so that no record waits for it.

    python -m runner.tracking PARENT      requests on stdin, answers on stdout, a line of JSON each

Between requests it sleeps in a read. The end of its input ends it; the parent's death kills it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runner.errors import RunnerError
from runner.machine.lifeline import die_with_parent
from runner.tracking import AT_HOME_SECONDS, READY, Place


def main() -> None:
    die_with_parent()
    gc.disable()  # while it imports: it would look through all that is there again and again
    if os.getppid() != int(sys.argv[1]):  # it had gone already
        return
    # Answers have the pipe to themselves: whatever else is printed goes to the log.
    answers = os.dup(1)
    os.dup2(2, 1)

    def answer(number: int, act: Callable[[], dict[str, Any]]) -> None:
        try:
            reply: dict[str, Any] = {"result": act()}
        except RunnerError as error:
            reply = {"problem": error.problem}
        os.write(answers, json.dumps({"number": number, **reply}).encode() + b"\n")

    requests = iter(sys.stdin.buffer.readline, b"")
    place = Place(**json.loads(next(requests)))

    from runner.tracking.store import Store  # 1 to 2 s

    store = Store(place, lock_seconds=AT_HOME_SECONDS / 2)

    def draw_soon() -> dict[str, Any]:
        import runner.report.drawings  # noqa: F401  half a second

        gc.freeze()
        gc.enable()
        return {}

    acts: dict[str, Callable[[Any], dict[str, Any]]] = {
        "publish": lambda folder: asdict(store.publish(Path(folder))),
        "publish_sweep": lambda folder: asdict(store.publish_sweep(Path(folder))),
        "links": lambda sweep: asdict(store.links(sweep)),
    }
    answer(0, store.prepare)
    answer(READY, draw_soon)
    for number, line in enumerate(requests, start=READY + 1):
        ((act, argument),) = json.loads(line).items()
        answer(number, lambda: acts[act](argument))  # noqa: B023
    # Everything is in the store; MLflow's tidying up would take longer than a record.
    os._exit(0)


if __name__ == "__main__":
    main()
