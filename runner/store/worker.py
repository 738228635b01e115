"""The store's worker process: imports MLflow, prepares the store, then does what it is asked to.

    python -m runner.store.worker PARENT      requests on stdin, answers on stdout: lines of JSON

    ["publish", "/outputs/runs/..."]    ->   {"result": {"run_id": ..., ...}}
                                             {"problem": ..., "remedy": ..., "is_fatal": ...}

A request is the name of a method of the store and its argument.
Between requests it sleeps in a read. The end of its input ends it; the parent's death kills it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runner.errors import RunnerError, StoreError
from runner.processes.process_tree import die_with_parent
from runner.store.location import StoreLocation

if TYPE_CHECKING:
    from runner.store.mlflow_store import MlflowStore


def main() -> None:
    """Answer requests until there are no more: first `open`, then a method of the store each."""
    die_with_parent()
    if os.getppid() != int(sys.argv[1]):  # it had gone already
        return
    # Answers have the pipe to themselves: whatever else is printed goes to the log.
    answers = os.dup(1)
    os.dup2(2, 1)
    store: Any = None
    for line in iter(sys.stdin.buffer.readline, b""):
        name, argument = json.loads(line)
        answer: dict[str, Any] = {"result": None}
        try:
            if name == "open":
                store = _open(*argument)
            elif found := getattr(store, name)(argument):
                answer = {"result": asdict(found)}
        except RunnerError as error:
            # What is wrong with one record, `BadInput`, does not keep the others out.
            is_fatal = isinstance(error, StoreError)
            answer = {"problem": error.problem, "remedy": error.remedy, "is_fatal": is_fatal}
        os.write(answers, json.dumps(answer).encode() + b"\n")
    # Everything is in the store; MLflow's tidying up would take longer than a record.
    os._exit(0)


def _open(location: dict[str, Any], lock_seconds: float) -> MlflowStore:
    gc.disable()  # while it imports: it would look through all that is there again and again
    from runner.store.mlflow_store import MlflowStore  # 1 to 2 s

    gc.freeze()
    gc.enable()
    return MlflowStore(StoreLocation(**location), lock_seconds)


if __name__ == "__main__":
    main()
