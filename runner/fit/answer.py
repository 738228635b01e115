"""The answer of `fit`: the largest value of each strategy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from runner.cell import Plan
from runner.config import Tracking
from runner.engine import folders
from runner.engine.answers import Answer
from runner.engine.events import Result
from runner.fit.fitting import FitSearch
from runner.fit.strategies import Strategy
from runner.fit.summary import FitProgress, summarize_fit


class FitAnswer(Answer):
    """The limits of all strategies, searched side by side."""

    def __init__(
        self,
        plan: Plan,
        strategies: Sequence[Strategy],
        asked: tuple[str, int | None, Sequence[str]],
        tracking: Tracking | None,
        as_json: bool,
    ) -> None:
        """`asked` is the field that varies, the most that it may be, and all other words."""
        folder = folders.choose_folder("fits", plan.resume, "fit")
        self._search = FitSearch(*asked, strategies, folder)
        super().__init__(self._search, folder, tracking)
        self.progress = FitProgress(self._search)
        self._as_json = as_json
        self._picture: Path | None = None

    def finish(self, result: Result) -> int:
        if result.stopped:
            self._search.stop(result.stopped)
        self._picture = self._search.keep()
        return int(any(limit.largest is None for limit in self._search.limits))

    def render(self, result: Result, seconds: float) -> str:
        limits = self._search.limits
        if self._as_json:
            return json.dumps([limit.to_json() for limit in limits], indent=1)
        return summarize_fit(limits, self.folder, self._picture, seconds)
