"""Verdicts from measured cells: the request of a command, and what came of its claims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runner import paths, records
from runner.claims import files, verdicts, words
from runner.claims.cells import ClaimPlan
from runner.claims.page import draw_claims_page
from runner.claims.verdicts import Judgement, Verdict, Words
from runner.compose.words import read_value
from runner.engine import folders
from runner.errors import BadInput, suggest
from runner.overrides import split_override
from runner.records import RECORD_FILE, Record, Status

CLAIMS_FILE = "claims.json"
"""Keeps which claims a folder is about, so that `resume` need not be told again."""
VERDICTS_FILE = "verdicts.json"
PAGE_FILE = "claims.html"

_DEFAULTS = {"measure": "quick", "tracking": "none"}


@dataclass(frozen=True)
class ClaimsRequest:
    """The claims to measure, how, and which of them to print in full."""

    folder: Path | None
    """The folder of an earlier command that is resumed."""
    paths: Sequence[Path]
    settings: Mapping[str, Any]
    in_full: frozenset[str]
    """Ids of claims; no claim in particular where it is empty."""

    def keep(self, folder: Path) -> None:
        kept = {
            "claims": [files.name_claim(path) for path in self.paths],
            "settings": dict(self.settings),
            "in_full": bool(self.in_full),
        }
        if not self.folder:
            (folder / CLAIMS_FILE).write_text(json.dumps(kept, indent=1))


def read_request(names: Sequence[str], settings_words: Sequence[str]) -> ClaimsRequest:
    """Return what the words ask for. Of what is resumed, the claims and settings are those of then,
    and names choose what of it is printed in full."""
    settings: dict[str, Any] = {}
    for word in settings_words:
        key, _ = split_override(word)
        if key in settings:
            raise BadInput(f"{key} is given twice.", "Keep one.")
        settings[key] = read_value(word)
    resume = settings.pop("resume", None)
    if not resume:
        claims = files.find_claim_files(names)
        ids = frozenset(path.stem for path in claims if names)
        return ClaimsRequest(None, claims, {**_DEFAULTS, **settings}, ids)
    folder = folders.find_resumable(str(resume), "claims", "claims run")
    if not folders.is_own(folder):
        raise BadInput(
            f"resume={resume}: comes from elsewhere, and names code to run.",
            "Look at its claims.json, and say the claims and settings yourself.",
        )
    wanted = {"claims": list[str], "settings": dict[str, Any], "in_full": bool}
    kept = folders.read_json(folder / CLAIMS_FILE, wanted)
    claims = files.find_claim_files(kept["claims"])
    known = [path.stem for path in claims]
    chosen = [Path(name).stem for name in names]
    for name in chosen:
        if name not in known:
            raise BadInput(f"{name}: was not measured in {resume}.", suggest(name, known))
    in_full = frozenset(chosen or (known if kept["in_full"] else ()))
    return ClaimsRequest(folder, claims, {**kept["settings"], **settings}, in_full)


@dataclass(frozen=True)
class JudgedClaims:
    """The verdicts, and where they lie; of a measurement that was stopped, those of claims whose
    cells were all measured before."""

    folder: Path
    claims: ClaimPlan
    judgements: Sequence[Judgement] = ()
    made_with: str = ""

    @property
    def page(self) -> Path:
        return self.folder / PAGE_FILE

    @property
    def exit_code(self) -> int:
        """Return 1 if one could not be judged."""
        return int(any(judgement.verdict is Verdict.INCONCLUSIVE for judgement in self.judgements))

    def find_cell(self, cell: Words) -> Path:
        return self.folder / str(self.claims.find_number(cell))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the verdicts as `claims --json` prints them."""
        return [words.to_json(judgement, self.find_cell) for judgement in self.judgements]


def judge_claims(request: ClaimsRequest, plan: ClaimPlan, folder: Path) -> JudgedClaims:
    """Judge the claims whose cells were all measured, and leave verdicts and page in the folder."""

    @cache
    def read(number: int) -> Record:
        return records.read(folder / str(number))

    def look_up(cell: Words) -> Record:
        return read(plan.find_number(cell))

    def is_measured(cell: Words) -> bool:
        file = folder / str(plan.find_number(cell)) / RECORD_FILE
        return file.exists() and look_up(cell).outcome.status is not Status.INTERRUPTED

    claims = [
        claim
        for claim in plan.claims
        if all(is_measured(cell) for case in claim.cases for cell in case.cells)
    ]
    if not claims:
        return JudgedClaims(folder, plan)
    judgements = [verdicts.judge(claim, look_up) for claim in claims]
    first = look_up(claims[0].cases[0].cells[0])
    comparable = first.environment.comparable
    made_with = (
        f"TensorFlow {comparable.get('tensorflow')}, {comparable.get('cpu')}, "
        f"measure={first.spec.measure.name}, {first.started_at[:10]}"
    )
    judged = JudgedClaims(folder, plan, judgements, made_with)
    text = json.dumps(judged.to_json(), indent=1, allow_nan=False)
    paths.write_text(folder / VERDICTS_FILE, text)
    commands = {path.stem: files.name_claim(path) for path in request.paths}
    is_all = list(request.paths) == files.find_claim_files([]) and len(claims) == len(plan.claims)
    page = draw_claims_page(words.group_by_document(judgements), made_with, commands, is_all)
    paths.write_text(judged.page, page)
    return judged
