"""What claims want run: every cell once, with only those trials that some claim rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.claims.verdicts import Case, Claim, Words
from runner.composing import composition
from runner.errors import BadInput
from runner.plan import Plan, Planned


@dataclass(frozen=True)
class Work:
    claims: tuple[Claim, ...]
    plan: Plan
    numbers: Mapping[tuple[tuple[str, Any], ...], int]
    """Which cell of the plan a claim's words mean."""

    def number(self, words: Words) -> int:
        return self.numbers[_key(words)]


def _key(words: Words) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(words.items()))


def compose(claims: Sequence[Claim], settings: Words) -> Work:
    """Every cell that some claim wants, once, with the trials that some claim rests on."""
    wanted = {_key(cell): cell for claim in claims for case in claim.cases for cell in case.cells}
    try:
        planned = composition.cells([{**settings, **cell} for cell in wanted.values()])
    except BadInput:
        _blame(claims, settings)
        raise
    cell_of = dict(zip(wanted, planned, strict=True))
    kinds: dict[str, set[str]] = {}
    for claim in claims:
        for case in claim.cases:
            _check_units(claim, case, [cell_of[_key(words)] for words in case.at(case.run)])
            for words in case.cells:
                kinds.setdefault(cell_of[_key(words)].experiment.cell, set()).update(case.kinds)
    cells: dict[str, Planned] = {}
    for cell in planned:
        identity = cell.experiment.cell
        if identity not in cells:
            unused = {
                f"measure.{kind}_processes": 0
                for kind in ("memory", "timing")
                if kind not in kinds[identity]
            }
            cells[identity] = composition.changed(cell, len(cells), unused)
    numbers = {key: cells[cell.experiment.cell].number for key, cell in cell_of.items()}
    return Work(
        tuple(claims), Plan(tuple(cells.values()), is_sweep=True, resume=None, swept=()), numbers
    )


def _blame(claims: Sequence[Claim], settings: Words) -> None:
    """Which claim's cell can't be composed; the settings' own mistakes are nobody's."""
    for claim in claims:
        for number, case in enumerate(claim.cases):
            for words in case.cells:
                try:
                    composition.cells([{**settings, **words}])
                except BadInput as error:
                    if any(error.problem.startswith(key) for key in settings):
                        raise
                    where = f"claim {claim.id}: cases.{number}"
                    raise BadInput(f"{where}: {error.problem}", error.remedy) from None


def _check_units(claim: Claim, case: Case, cells: Sequence[Planned]) -> None:
    for expectation in case.expect:
        for cell in cells:
            try:
                expectation.check_cell(cell.experiment.spec)
            except BadInput as error:
                where = f"claim {claim.id}: {case.when}"
                raise BadInput(f"{where}: {error.problem}", error.remedy) from None
