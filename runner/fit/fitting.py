"""A whole fit: each strategy is searched in a thread of its own, all on one warm server, so that
their memory trials run side by side; and what came of it is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runner import places
from runner.errors import Interrupted, ServerError
from runner.fit import probes, search
from runner.fit.probes import Limit, Strategy
from runner.fit.strategies import strategies
from runner.running import company, folders, session
from runner.running.interruption import interruptible, uncut

RESULT_FILE = "fit.json"
PICTURE_FILE = "fit.svg"


class Onlooker(Protocol):
    def trial(self, limit: Limit, value: int, kind: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Asked:
    """What is to be varied, how far, in what."""

    vary: str
    most: int | None
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Fitted:
    """What came of it; the rest is in its folder."""

    folder: Path
    limits: Sequence[Limit]
    picture: Path | None
    stopped: Interrupted | ServerError | None
    """What ended all searches before each had its answer."""

    @property
    def exit_code(self) -> int:
        if self.stopped:
            return self.stopped.exit_code
        return 0 if all(limit.largest is not None for limit in self.limits) else 1


def fitted(asked: Asked, onlooker: Onlooker) -> Fitted:
    folder = folders.new_folder("fits")
    with interruptible():
        sought = strategies(asked.vary, asked.overrides, folder)
        session.require_devices([strategy.cell.experiment for strategy in sought])
        # matplotlib takes its time: a mistake is answered before, and TensorFlow loads meanwhile.
        with uncut():
            from runner.fit import picture
        with folders.held(folder):
            limits, stopped = _searched(asked, sought, folder, onlooker)
    _keep(asked, limits, folder)
    drawn = folder / PICTURE_FILE if any(limit.probes for limit in limits) else None
    if drawn:
        picture.draw(limits, drawn)
    return Fitted(folder, limits, drawn, stopped)


def _searched(
    asked: Asked, sought: Sequence[Strategy], folder: Path, onlooker: Onlooker
) -> tuple[list[Limit], Interrupted | ServerError | None]:
    limits = [Limit(strategy, asked.vary) for strategy in sought]
    most = asked.most or search.MOST
    searches: list[Future[None]] = []
    try:
        with session.opened(folder) as opened:
            at_once = sought[0].cell.experiment.measure.side_by_side
            turns = company.Turns(opened.server, at_once)
            with ThreadPoolExecutor(turns.size) as threads:
                look, machine = onlooker.trial, opened.machine
                try:
                    for limit in limits:
                        searches.append(
                            threads.submit(probes.search, limit, most, turns, folder, machine, look)
                        )
                    for each in wait(searches, return_when=FIRST_EXCEPTION).done:
                        each.result()
                except BaseException:
                    threads.shutdown(wait=False, cancel_futures=True)
                    opened.server.cut()
                    raise
    except (Interrupted, ServerError) as stop:
        whole = {n for n, each in enumerate(searches) if _is_whole(each)}
        for number, limit in enumerate(limits):
            if number not in whole:
                limit.stop(str(stop.args[0]).rstrip("."))
        begun = [limit for n, limit in enumerate(limits) if limit.trials or n in whole]
        return begun or limits, stop
    finally:
        onlooker.close()
    return limits, None


def _is_whole(search: Future[None]) -> bool:
    """Whether it came to its own end; all of them are over."""
    return not search.cancelled() and search.exception() is None


def _keep(asked: Asked, limits: Sequence[Limit], folder: Path) -> None:
    told = {
        "schema": 1,
        "vary": asked.vary,
        "max": asked.most,
        "overrides": asked.overrides,
        "strategies": [limit.to_json() for limit in limits],
    }
    places.write(folder / RESULT_FILE, json.dumps(told, indent=1))
