"""The source behind `fit`: searches every strategy at its own pace, trials side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from runner import paths
from runner.compose.words import mask_override
from runner.engine.dialogues import Dialogues
from runner.engine.events import Stop
from runner.engine.run import Run
from runner.fit import search
from runner.fit.picture import draw_limits
from runner.fit.probes import PROBES_FILE, Limit, Prober, search_limit
from runner.fit.strategies import Strategy

RESULT_FILE = "fit.json"
PICTURE_FILE = "fit.svg"


class FitSearch(Dialogues):
    """Finds the largest value of each strategy."""

    must_have_device = True

    def __init__(
        self,
        vary: str,
        most: int | None,
        overrides: Sequence[str],
        strategies: Sequence[Strategy],
        folder: Path,
    ) -> None:
        self.limits = [Limit(strategy, vary) for strategy in strategies]
        self.seed = strategies[0].cell.experiment.seed
        self._asked = {
            "vary": vary,
            "max": most,
            "overrides": [mask_override(word) for word in overrides],
        }
        self.question = {
            "cells": [strategy.cell.experiment.cell for strategy in strategies],
            **self._asked,
        }
        self._folder = folder
        self._probers = [Prober(limit, folder) for limit in self.limits]
        super().__init__([search_limit(prober, most or search.MOST) for prober in self._probers])
        (folder / PROBES_FILE).unlink(missing_ok=True)  # a resumed search notes them again

    def find_probe(self, run: Run) -> tuple[Limit, int] | None:
        """Return the strategy and the value that a run tries; None of an answer that is kept."""
        place = run.request.place
        probers = (prober for prober in self._probers if place in prober.places)
        return next(((prober.limit, prober.places[place]) for prober in probers), None)

    def stop(self, stopped: Stop) -> None:
        """Say of strategies without an answer what had completed; leave out those not begun."""
        for limit in self.limits:
            if not limit.is_over:
                limit.stop(str(stopped.args[0]).rstrip("."))
        self.limits = [each for each in self.limits if each.trials or each.found] or self.limits

    def keep(self) -> Path | None:
        """Write what was found, and draw the way to it; return where the picture is."""
        strategies = [limit.to_json() for limit in self.limits]
        content = {"schema": 1, **self._asked, "strategies": strategies}
        paths.write_text(self._folder / RESULT_FILE, json.dumps(content, indent=1))
        if not any(limit.probes for limit in self.limits):
            return None
        return paths.write_text(self._folder / PICTURE_FILE, draw_limits(self.limits))
