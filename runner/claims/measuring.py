"""From claims to verdicts: their cells run as a sweep's do, each once, however many claims want
it, with only those trials that some claim rests on; then each claim is judged by the records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runner import places, records
from runner.claims import shelf, verdicts, words
from runner.claims.cells import Work, compose
from runner.claims.page import claims_page
from runner.claims.verdicts import Judgement, Verdict, Words
from runner.errors import BadInput, Interrupted, nearest
from runner.records import Record
from runner.running import folders, session
from runner.running.session import Audience

CLAIMS_FILE = "claims.json"
"""Which claims a folder is about, so that `resume` need not be told again."""

VERDICTS_FILE = "verdicts.json"
PAGE_FILE = "claims.html"

_DEFAULTS = {"measure": "quick", "tracking": "none"}


@dataclass(frozen=True)
class Asked:
    """What is to be measured, where, and what of it is to be told in full."""

    folder: Path | None
    """Of an earlier command that is gone on with."""
    paths: Sequence[Path]
    settings: Mapping[str, Any]
    in_full: frozenset[str]
    """Ids of claims; of no claim in particular where it is empty."""

    @staticmethod
    def of(names: Sequence[str], settings: Mapping[str, Any], resume: str | None) -> Asked:
        if resume:
            return Asked._again(resume, names, settings)
        paths = shelf.paths(names)
        ids = frozenset(path.stem for path in paths) if names else frozenset[str]()
        return Asked(None, paths, {**_DEFAULTS, **settings}, ids)

    @staticmethod
    def _again(resume: str, names: Sequence[str], settings: Mapping[str, Any]) -> Asked:
        """The claims and settings of then. Names choose what of it is told in full."""
        folder = folders.earlier(resume, "claims", CLAIMS_FILE, "claims run")
        then = json.loads((folder / CLAIMS_FILE).read_text())
        paths = shelf.paths(then["claims"])
        known = [path.stem for path in paths]
        ids = [Path(name).stem for name in names]
        for name in ids:
            if name not in known:
                raise BadInput(f"{name}: was not measured in {resume}.", nearest(name, known))
        in_full = frozenset(ids or (known if then["in_full"] else ()))
        return Asked(folder, paths, {**then["settings"], **settings}, in_full)

    def remember(self, folder: Path) -> None:
        then = {
            "claims": [shelf.said(path) for path in self.paths],
            "settings": dict(self.settings),
            "in_full": bool(self.in_full),
        }
        if not self.folder:
            (folder / CLAIMS_FILE).write_text(json.dumps(then, indent=1))


@dataclass(frozen=True)
class Judged:
    """What came of it, and where it lies; no judgements where the user stopped it."""

    folder: Path
    work: Work
    judgements: Sequence[Judgement] = ()
    made_with: str = ""
    problem: str | None = None
    interrupted: Interrupted | None = None

    @property
    def page(self) -> Path:
        return self.folder / PAGE_FILE

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return self.interrupted.exit_code
        return int(any(each.verdict is Verdict.INCONCLUSIVE for each in self.judgements))

    def cell_of(self, cell: Words) -> Path:
        return self.folder / str(self.work.number(cell))

    def to_json(self) -> list[dict[str, Any]]:
        return [words.to_json(each, self.cell_of) for each in self.judgements]


def measured(asked: Asked, audience: Audience) -> Judged:
    """Measure what is missing, judge, and leave the verdicts and the page in the folder."""
    work = compose([shelf.load(path) for path in asked.paths], asked.settings)
    folder = asked.folder or folders.new_folder("claims")
    folders.make(folder)
    asked.remember(folder)
    with session.measured(work.plan, folder, audience) as done:
        pass
    problem = str(done.publishing.problem) if done.publishing.problem else None
    if done.result.interrupted:
        return Judged(folder, work, problem=problem, interrupted=done.result.interrupted)

    @cache
    def record(number: int) -> Record:
        return records.read(folder / str(number))

    def lookup(cell: Words) -> Record:
        return record(work.number(cell))

    judgements = [verdicts.judge(claim, lookup) for claim in work.claims]
    judged = Judged(folder, work, judgements, _made_with(record(0)), problem)
    told = json.dumps(judged.to_json(), indent=1, allow_nan=False)
    places.write(folder / VERDICTS_FILE, told)
    commands = {path.stem: shelf.said(path) for path in asked.paths}
    every = list(asked.paths) == shelf.paths([])
    page = claims_page(by_document(judgements), judged.made_with, commands, every)
    places.write(judged.page, page)
    return judged


def _made_with(one: Record) -> str:
    seen = one.environment.get("comparable", {})
    return (
        f"TensorFlow {seen.get('tensorflow')}, {seen.get('cpu')}, "
        f"measure={one.spec['measure']['name']}, {one.started_at[:10]}"
    )


def by_document(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    documents: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        documents.setdefault(judgement.claim.document, []).append(judgement)
    return documents
