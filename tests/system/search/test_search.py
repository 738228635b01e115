"""A search as a user starts it: measured for real, cut short, resumed; what ran out of memory is a
result, and the front is what is known to be it."""

from __future__ import annotations

import itertools
import json
import shlex
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from runner import records
from runner.analysis.objective import Objective
from runner.cell import PLAN_FILE
from runner.compose import composition
from runner.engine import folders
from runner.engine.grid import Grid
from runner.engine.run import Run
from runner.errors import BadInput
from runner.render import html
from runner.search.source import SearchSource
from tests.resuming import LONG, only, start, table, trials_kept
from tests.unit.render.pages import parse_page

TRADE = '''
import tensorflow as tf

def make(batch_size, parts, copies):
    """In more parts: less at once, more in all. More copies are worse in both."""
    def step():
        if parts == 1 and copies == 3:
            bytearray(1 << 40)
        for _ in range(parts):
            tf.fill([copies, 64_000 // parts + 1_000], 1.0)
    return step
'''
PARTS, COPIES = (1, 2, 4, 8), (1, 2, 3)
FRONT = {(parts, 1) for parts in PARTS}
CELLS = 9
WORDS = (
    *("-m", "hydra/sweeper=optuna", "hydra/sweeper/sampler=front", "hydra.sweeper.n_jobs=3"),
    *("scenario=callable", "scenario.target=trade:make", f"hydra.sweeper.n_trials={CELLS}"),
    f"+scenario.arguments.parts={','.join(map(str, PARTS))}",
    f"+scenario.arguments.copies={','.join(map(str, COPIES))}",
    *("measure.timing_processes=0", "measure.host_limit_mb=4000", "measure.memory_steps=3"),
    "tracking=none",
    "search.objectives=[tensor_peak_bytes,allocated_bytes_per_step]",
)


@dataclass(frozen=True)
class Searched:
    where: Path
    folder: Path
    stopped: tuple[int, str, str]
    resumed: tuple[int, str, str]
    kept: frozenset[str]
    """The trials that were on the disk when it was stopped."""


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """Stopped by Ctrl-C once a few cells are there, then resumed to its end."""
    where = tmp_path_factory.mktemp("search")
    (where / "trade.py").write_text(TRADE)
    outputs = where / "outputs"
    process = start(outputs, *WORDS, cwd=where)
    deadline = time.monotonic() + LONG
    while len(trials_kept(outputs)) < 4 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=LONG)
    stopped = (process.returncode, shown, said)
    kept = trials_kept(outputs)
    process = start(outputs, *WORDS, "resume=latest", cwd=where)
    shown, said = process.communicate(timeout=LONG)
    return Searched(where, only(outputs), stopped, (process.returncode, shown, said), kept)


def test_ctrl_c_keeps_what_was_finished_and_says_how_to_go_on(searched: Searched) -> None:
    code, shown, said = searched.stopped
    assert code == 130, said
    assert "Traceback" not in said
    assert "resume=" in shown
    assert len(searched.kept) >= 4


def test_a_resumed_search_runs_nothing_twice_and_asks_as_an_unbroken_one_would(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(searched.where)
    assert searched.kept <= trials_kept(searched.where / "outputs")
    there = [records.read_brief(each) for each in records.find(searched.folder)]
    known = {each.cell: each for each in there}
    assert len(known) == len(there) == CELLS
    plan = composition.compose_plan(WORDS)
    source, asked = SearchSource(plan), list[str]()
    while requests := source.ask():
        for cell in (request.cell.experiment for request in requests):
            asked.append(cell.cell)
            run = SimpleNamespace(experiment=cell, get_record=lambda cell=cell: known[cell.cell])
            source.tell(cast(Run, run))
    assert asked == [each.cell for each in there]


def test_a_cell_that_runs_out_of_memory_is_a_row_and_no_end(searched: Searched) -> None:
    code, _, said = searched.resumed
    frame = table(searched.folder)
    assert len(frame) == CELLS
    out = frame[frame.status == "out_of_memory"]
    lost = {(each["arguments.parts"], each["arguments.copies"]) for _, each in out.iterrows()}
    assert lost <= {(1, 3)}
    assert code == (1 if lost else 0), said
    assert set(frame.status) <= {"completed", "out_of_memory"}
    assert "Traceback" not in said
    latest, _, rest = said.partition("\n")
    assert latest.startswith("latest: ")
    assert rest.startswith("a search of 12 cells in 9 at most, 3 at a time: smallest tensor_peak")


def test_the_known_front_is_found_and_shown(searched: Searched) -> None:
    cells = [records.read(each) for each in records.find(searched.folder)]
    objective = Objective(("tensor_peak_bytes", "allocated_bytes_per_step"), {})
    front = [each.spec.parameters["arguments"] for each in objective.find_front(cells)]
    assert {(each["parts"], each["copies"]) for each in front} == FRONT
    assert [each["parts"] for each in front] == [8, 4, 2, 1], "smallest peak first"
    _, shown, _ = searched.resumed
    marked = [line for line in shown.splitlines() if line.startswith("*  ")]
    assert len(marked) == len(FRONT)
    assert f"* the front, {len(FRONT)} cells" in shown
    page = parse_page(html.write_page(searched.folder).read_text())
    section = page.section("What was searched for")
    assert len(section.table()) == 1 + len(FRONT)
    assert "4 cells are the front" in page.all("p", class_="sentence")[0].text
    (command,) = page.section("More").all("pre")
    assert shlex.split(command.text) == ["python", "-m", "runner", *WORDS]


def test_more_of_the_same_search_goes_on_and_another_one_does_not(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(searched.where)

    def opens(*words: str) -> None:
        said = [
            word
            for word in WORDS
            if not word.startswith(tuple(each.partition("=")[0] for each in words))
        ]
        source = SearchSource(composition.compose_plan([*said, *words]))
        with folders.lock_for_measuring(searched.folder, source.question):
            pass

    opens("hydra.sweeper.n_trials=12")
    for word in ("search.objectives=[tensor_peak_bytes]", "hydra.sweeper.sampler.seed=7"):
        with pytest.raises(BadInput, match="another way to search it"):
            opens(word)
    with pytest.raises(BadInput, match="another grid"):
        opens("measure.memory_steps=4")
    grid = Grid(replace(composition.compose_plan(WORDS), search=None))
    with (
        pytest.raises(BadInput, match="another way to search it"),
        folders.lock_for_measuring(searched.folder, grid.question),
    ):
        pass


def test_its_plan_holds_what_was_searched_for(searched: Searched) -> None:
    plan = json.loads((searched.folder / PLAN_FILE).read_text())
    assert plan["search"]["objective"]["objectives"] == [
        *("tensor_peak_bytes", "allocated_bytes_per_step")
    ]
    assert len(plan["cells"]) == len([*itertools.product(PARTS, COPIES)])
