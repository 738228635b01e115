"""The cells that claims want: each once, with only those trials that some claim rests on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from runner.cell import Cell, Plan
from runner.claims.verdicts import Claim, Words
from runner.compose import composition
from runner.config import format_word
from runner.engine.grid import Grid
from runner.engine.requests import Request
from runner.errors import BadInput

_Key = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class ClaimPlan:
    """Claims, and the cells that they want."""

    claims: tuple[Claim, ...]
    plan: Plan
    numbers: Mapping[_Key, int]
    """The number of a cell in the plan, by the words that a claim has for it."""

    def find_number(self, words: Words) -> int:
        """Return the number of the cell that a claim's words mean."""
        return self.numbers[_make_key(words)]


class ClaimGrid(Grid):
    """Every cell that claims want; each record says by which words it differs from the others."""

    def __init__(self, claims: ClaimPlan) -> None:
        super().__init__(claims.plan)
        values = defaultdict[str, set[Any]](set)
        for name, value in chain.from_iterable(claims.numbers):
            values[name].add(value)
        self._words = {
            number: {name: format_word(value) for name, value in key if len(values[name]) > 1}
            for key, number in claims.numbers.items()
        }

    def ask(self) -> Sequence[Request]:
        return [
            replace(request, swept=self._words[request.cell.number]) for request in super().ask()
        ]


def compose_cells(claims: Sequence[Claim], settings: Words) -> ClaimPlan:
    """Return the plan of every cell that some claim wants; raise `BadInput` that names the claim of
    a cell that can't be."""
    wanted = {
        _make_key(cell): cell for claim in claims for case in claim.cases for cell in case.cells
    }
    try:
        composed = composition.compose_cells([{**settings, **cell} for cell in wanted.values()])
    except BadInput:
        _blame_claim(claims, settings)
        raise
    cell_of = dict(zip(wanted, composed, strict=True))
    kinds = defaultdict[str, set[str]](set)
    for claim in claims:
        for case in claim.cases:
            for words in case.list_sizes(case.run):
                with _name_place(f"claim {claim.id}: {case.when}"):
                    for expectation in case.expect:
                        expectation.check_cell(cell_of[_make_key(words)].experiment.spec)
            for words in case.cells:
                kinds[cell_of[_make_key(words)].experiment.cell] |= case.kinds
    cells: dict[str, Cell] = {}
    for cell in composed:
        identity = cell.experiment.cell
        if identity not in cells:
            unused = sorted({"memory", "timing"} - kinds[identity])
            none = {f"measure.{kind}_processes": 0 for kind in unused}
            cells[identity] = composition.change_cell(cell, len(cells), none)
    numbers = {key: cells[cell.experiment.cell].number for key, cell in cell_of.items()}
    plan = Plan(tuple(cells.values()), is_sweep=True, resume=None, swept=())
    return ClaimPlan(tuple(claims), plan, numbers)


def _make_key(words: Words) -> _Key:
    return tuple(sorted(words.items()))


def _blame_claim(claims: Sequence[Claim], settings: Words) -> None:
    """Raise `BadInput` that names the claim whose cell can't be composed; a mistake in the settings
    is no claim's."""
    for claim in claims:
        for number, case in enumerate(claim.cases):
            for words in case.cells:
                with _name_place(f"claim {claim.id}: cases.{number}", except_for=settings):
                    composition.compose_cells([{**settings, **words}])


@contextmanager
def _name_place(where: str, except_for: Iterable[str] = ()) -> Iterator[None]:
    """Put the place before the message of a mistake, unless it is one of these fields'."""
    try:
        yield
    except BadInput as error:
        if any(error.problem.startswith(key) for key in except_for):
            raise
        raise BadInput(f"{where}: {error.problem}", error.remedy) from None
