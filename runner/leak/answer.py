"""The answer of `leak`: what grows in each cell, what makes it, what would stop it."""

from __future__ import annotations

import json

from runner.cell import Plan
from runner.config import Tracking
from runner.engine import folders
from runner.engine.answers import Answer
from runner.engine.events import Result
from runner.leak.hunt import LeakHunt
from runner.leak.page import is_leak_hunt, write_leak_page
from runner.leak.summary import list_leaks
from runner.render.text.progress import Progress


class LeakAnswer(Answer):
    """Every cell of a plan, one after the other, and its remedies."""

    def __init__(
        self, plan: Plan, tracking: Tracking | None, as_json: bool, *, tries_remedies: bool
    ) -> None:
        folder = folders.choose_folder("leaks", plan.resume, "search for leaks")
        self._hunt = LeakHunt(plan, folder, tries_remedies)
        super().__init__(self._hunt, folder, tracking)
        self.progress = Progress(count_likely=self._hunt.count_likely)
        self.listeners = [self._hunt]
        self._as_json, self._is_sweep = as_json, plan.is_sweep

    def finish(self, result: Result) -> int:
        if is_leak_hunt(self.folder):
            write_leak_page(self.folder)
        return int(not self._hunt.is_answered)

    def render(self, result: Result, seconds: float) -> str:
        if not self._as_json:
            return list_leaks(self._hunt.leaks, self.folder, seconds)
        if self._is_sweep:
            return json.dumps(self._hunt.to_json(), indent=1)
        return "".join(json.dumps(leak.to_json(), indent=1) for leak in self._hunt.leaks.values())
