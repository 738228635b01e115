"""A whole fit: each strategy is searched on one warm server, and what came of it is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runner import places
from runner.errors import Interrupted
from runner.fit import picture, probes, search
from runner.fit.probes import Limit, Strategy
from runner.fit.strategies import strategies
from runner.running import folders, session
from runner.running.interruption import interruptible

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
    interrupted: Interrupted | None

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return self.interrupted.exit_code
        return 0 if all(limit.largest is not None for limit in self.limits) else 1


def fitted(asked: Asked, onlooker: Onlooker) -> Fitted:
    folder = folders.new_folder("fits")
    with interruptible():
        sought = strategies(asked.vary, asked.overrides, folder)
        session.require_devices([strategy.cell.experiment for strategy in sought])
        with folders.held(folder):
            limits, interrupted = _searched(asked, sought, folder, onlooker)
    return Fitted(folder, limits, _keep(asked, limits, folder), interrupted)


def _searched(
    asked: Asked, sought: Sequence[Strategy], folder: Path, onlooker: Onlooker
) -> tuple[list[Limit], Interrupted | None]:
    found: list[Limit] = []
    most = asked.most or search.MOST
    try:
        with session.opened(folder) as opened:
            for strategy in sought:
                found.append(Limit(strategy, asked.vary))
                probes.search(
                    found[-1], most, opened.server, folder, opened.machine, onlooker.trial
                )
    except Interrupted as stop:
        for limit in found[-1:]:
            limit.stop(str(stop))
        return found, stop
    finally:
        onlooker.close()
    return found, None


def _keep(asked: Asked, limits: Sequence[Limit], folder: Path) -> Path | None:
    """The result as a file, and the picture, if there is anything to draw."""
    told = {
        "schema": 1,
        "vary": asked.vary,
        "max": asked.most,
        "overrides": asked.overrides,
        "strategies": [limit.to_json() for limit in limits],
    }
    places.write(folder / RESULT_FILE, json.dumps(told, indent=1))
    if not any(limit.probes for limit in limits):
        return None
    picture.draw(limits, folder / PICTURE_FILE)
    return folder / PICTURE_FILE
