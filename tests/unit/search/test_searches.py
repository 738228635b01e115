"""A search in the loop, with made-up trials: failures are results, and what it found is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import records
from runner.cell import Plan, TrialSpec
from runner.compose import composition
from runner.engine.events import Event, RecordWritten, Result
from runner.engine.measure import measure
from runner.errors import BadInput
from runner.records import Status, Trial
from runner.render import html
from runner.render.text.sweep_summary import summarize_sweep
from runner.search.source import SearchSource
from tests.factories import ended_trial, memory_trial
from tests.unit.engine.conftest import Recorder, executor_on
from tests.unit.render.pages import parse_page


class Scripted(Recorder):
    """In place of the server and of the store: cells of odd seeds fail; each record is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[Path] = []

    def run(self, spec: TrialSpec, *_: object, **__: object) -> Trial:
        if spec.experiment.seed % 2:
            return ended_trial(spec.kind, Status.KILLED, "steps", "by a test")
        return memory_trial(500_000 - 1_000 * spec.experiment.seed)

    def on(self, event: Event) -> None:
        if isinstance(event, RecordWritten):
            self.published.append(event.run.folder)

    def close(self) -> None:
        """There is nothing to let go of."""


def search(words: list[str], world: Scripted, folder: Path) -> tuple[Plan, Result]:
    plan = composition.compose_plan(words)
    return plan, measure(SearchSource(plan, words), folder, executor_on(world), [world])


def test_failures_are_told_and_the_search_goes_on_and_each_cell_is_published_once(
    tmp_path: Path,
) -> None:
    words = [
        *("-m", "hydra/sweeper=optuna", "scenario=tape", "seed=range(0,12)", "tracking=none"),
        *("measure.timing_processes=0", "measure.side_by_side=1", "hydra.sweeper.n_trials=30"),
        "search.objectives=[tensor_peak_bytes]",
    ]
    world, folder = Scripted(), tmp_path / "day" / "time"
    _, result = search(words, world, folder)
    cells = records.find(folder)
    published = sorted(world.published)
    assert published == sorted(cells), "a cell that is asked for again is there already"
    assert 2 < len(cells) <= 12 < 30
    assert result.exit_code == 1
    assert {each.status for each in result.outcomes} == {Status.COMPLETED, Status.KILLED}
    assert not [path for path in folder.iterdir() if path.suffix == ".yaml"]


def test_a_search_is_resumed_by_its_own_words_only(tmp_path: Path) -> None:
    words = [
        *("-m", "hydra/sweeper=optuna", "scenario=tape", "seed=2,4,6", "tracking=none"),
        *("measure.timing_processes=0", "measure.side_by_side=1", "hydra.sweeper.n_trials=2"),
        *("search.objectives=[tensor_peak_bytes]",),
    ]
    folder = tmp_path / "day" / "time"
    search(words, Scripted(), folder)
    before = records.find(folder)
    search([*words, f"resume={folder}"], Scripted(), folder)
    assert records.find(folder) == before
    other = [word.replace("tensor_peak_bytes", "allocated_bytes_per_step") for word in words]
    with pytest.raises(BadInput, match="another way to search it"):
        search([*other, f"resume={folder}"], Scripted(), folder)


def test_a_search_that_finds_nothing_says_why(tmp_path: Path) -> None:
    words = [
        *("-m", "hydra/sweeper=optuna", "scenario=tape", "seed=2,4", "tracking=none"),
        *("measure.timing_processes=0", "measure.side_by_side=1", "hydra.sweeper.n_trials=2"),
        *("search.objectives=[tensor_peak_bytes]", "search.limits.tensor_peak_bytes=8"),
    ]
    folder = tmp_path / "day" / "time"
    plan, result = search(words, Scripted(), folder)
    shown = summarize_sweep(plan, result, html.read_cells(folder), 1.0, None)
    assert "no cell has the smallest tensor_peak_bytes, with tensor_peak_bytes up to 8 B" in shown
    assert "outside the limit of tensor_peak_bytes" in shown
    page = parse_page(html.write_page(folder).read_text())
    assert "none has it" in page.all("p", class_="sentence")[0].text
