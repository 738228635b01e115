"""Workers as actors of Ray, which end with the command that started them."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from runner.engine.cluster.cell_queue import CellQueue
from runner.engine.cluster.worker import CommandContext, take_cells
from runner.errors import ServerError, Unavailable, get_first_line
from runner.records import LOG_FILE

_END_SECONDS = 10.0
"""The longest that a worker may take to end its server when nothing is left."""


class WorkerActor:
    """A worker, as Ray starts it."""

    def take_cells(self, queue_folder: Path, name: str, context: CommandContext) -> None:
        take_cells(queue_folder, name, context)


@dataclass
class RayCluster:
    """Starts actors on the Ray that is there, or on one of this command's own."""

    options: Mapping[str, Any]
    _actors: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """By name: the actor and its pending result, until the actor has ended."""
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports to its makers otherwise
        try:
            import ray  # noqa: F401
        except ImportError:
            raise Unavailable(
                "hydra/launcher=ray needs Ray, which is not installed here.",
                "Install it: pip install 'tf-memory-runner[ray]'.",
            ) from None

    def start(self, queue: CellQueue, count: int) -> Sequence[str]:
        """Start so many actors, wherever Ray finds room for them, now or later."""
        import ray

        try:
            if not ray.is_initialized():
                init = self.options.get("init", {})
                _choose_token(init.get("address"))
                with _keep_signals():
                    ray.init(**init)
            actor = ray.remote(**{"num_cpus": 1, **self.options.get("remote", {})})(WorkerActor)
            names = [str(next(self._numbers)) for _ in range(count)]
            for name in names:
                worker = actor.remote()
                result = worker.take_cells.remote(queue.folder, name, CommandContext.read())
                self._actors[name] = worker, result
        except Exception as error:  # no Ray at that address, or a field that it does not have
            raise ServerError(
                f"Ray did not take the workers: {get_first_line(error)}",
                "Look at hydra.launcher.ray, all of it.",
            ) from error
        return names

    def find_ended(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the actors that have returned or are dead."""
        import ray

        results = {self._actors[name][1]: name for name in names}
        if not results:
            return {}
        ended = {}
        for result in ray.wait([*results], num_returns=len(results), timeout=0)[0]:
            name, why = results[result], "it has ended"
            try:
                ray.get(result)
            except Exception as error:
                why = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            self.end(name)
            ended[name] = why
        return ended

    def find_log(self, queue: CellQueue, name: str) -> Path:
        """Return the worker's own log; Ray keeps one more on its node."""
        return queue.find_worker_folder(name) / LOG_FILE

    def end(self, name: str) -> None:
        """Kill an actor: else it keeps its place when its work is over, too."""
        import ray

        ray.kill(self._actors.pop(name)[0])

    def close(self, names: Sequence[str]) -> None:
        """End the actors, each when it has ended its server."""
        import ray

        results = [self._actors[name][1] for name in names]
        if results:
            ray.wait(results, num_returns=len(results), timeout=_END_SECONDS)
        ray.shutdown()

    def abandon(self) -> str | None:
        """End all actors at once."""
        import ray

        ray.shutdown()
        return "Ray ends the workers of a command with it: none goes on."


def _choose_token(address: str | None) -> None:
    """Give a Ray of this command's own a token, which it would write into ~/.ray/auth_token."""
    chosen = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    is_own = (address or os.environ.get("RAY_ADDRESS", "local")) == "local"
    if is_own and not chosen and not Path("~/.ray/auth_token").expanduser().exists():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def _keep_signals() -> Iterator[None]:
    """Undo what Ray does to this process's handling of signals."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
