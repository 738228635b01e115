"""The answer of `claims`: a verdict for each."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runner import paths
from runner.claims import cells, files, judging
from runner.claims.summary import summarize_claims
from runner.engine import folders
from runner.engine.answers import Answer
from runner.engine.events import Result
from runner.render.text.progress import Progress


class ClaimsAnswer(Answer):
    """The cells of all claims, measured once each, and what they say of them."""

    def __init__(self, names: Sequence[str], settings: Sequence[str], as_json: bool) -> None:
        self._request = judging.read_request(names, settings)
        claims = [files.load_claim(path) for path in self._request.paths]
        self._plan = cells.compose_cells(claims, self._request.settings)
        folder = self._request.folder or folders.name_new_folder("claims")
        folders.make_folder(folder)
        self._request.keep(folder)
        tracking = self._plan.plan.cells[0].experiment.tracking
        super().__init__(cells.ClaimGrid(self._plan), folder, tracking)
        self.progress = Progress(self._plan.plan)
        self._judged = judging.JudgedClaims(folder, self._plan)
        self.resume_command = f"python -m runner claims resume={paths.shorten(folder)}"
        self._as_json = as_json

    def finish(self, result: Result) -> int:
        self._judged = judging.judge_claims(self._request, self._plan, self.folder)
        return self._judged.exit_code

    def render(self, result: Result, seconds: float) -> str:
        if self._as_json:
            verdicts = self._judged.to_json()
            in_full = self._request.in_full or {verdict["id"] for verdict in verdicts}
            return json.dumps([row for row in verdicts if row["id"] in in_full], indent=1)
        if result.stopped and not self._judged.judgements:
            return ""
        return summarize_claims(self._judged, self._request.in_full, seconds)
