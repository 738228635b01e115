"""Cells that are copies of what Hydra composed once are what Hydra composes each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from runner import places
from runner.composing import composition
from runner.composing.copies import Composed, Copies
from runner.errors import BadInput
from runner.plan import Plan

EXPERIMENTS = sorted(path.stem for path in (places.conf() / "experiment").glob("*.yaml"))
NEEDS_MORE = ("callable", "document_example")
SCENARIOS = sorted(
    path.stem for path in (places.conf() / "scenario").glob("*.yaml") if path.stem not in NEEDS_MORE
)
TARGET = ("scenario=callable", "scenario.target=tests.scenarios.theirs:keeps_nothing")

_fast = Copies.cell


def by_hydra(copies: Copies, number: int, words: Sequence[str]) -> Composed:
    return Composed.of(*copies._whole(number, words))


def planned(*words: str) -> Plan:
    return composition.plan(words, Path("/nonexistent"))


@pytest.mark.parametrize("words", [[f"experiment={name}"] for name in EXPERIMENTS], ids=EXPERIMENTS)
def test_a_named_sweep(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its cells are held against Hydra's own."""
    assert held(monkeypatch, lambda number: number % 40 == 3, *words)


def test_every_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("-m", f"scenario={','.join(SCENARIOS)}", "seed=7")
    assert held(monkeypatch, lambda _: True, *words) == len(SCENARIOS)


def held(monkeypatch: pytest.MonkeyPatch, samples: Callable[[int], bool], *words: str) -> int:
    """How many cells were compared."""
    seen = []

    def both(copies: Copies, number: int, said: Sequence[str]) -> Composed:
        composed = _fast(copies, number, said)
        if samples(number):
            seen.append(number)
            assert composed == by_hydra(copies, number, said)
        return composed

    monkeypatch.setattr(Copies, "cell", both)
    planned(*words)
    return len(seen)


@pytest.mark.parametrize(
    "words",
    [
        ["scenario=document_example", "scenario.example=glob(*)"],
        ["scenario=python_loop", "scenario.size=5,6", "scenario.gradient=tape"],
        ["scenario=python_loop,while_loop", "scenario.size=50", "execution=session"],
        ["scenario=tape", "measure=quick,standard", "measure.steps=5", "device=auto,cpu"],
        ["scenario=tape", "measure.max_seconds=0.5,2,1e1", "device.memory_limit_mb=64,null"],
        ["scenario=tape", "batch_size=1,2", "+measure.steps=7"],
        ["scenario=tape", "batch_size=1,2", "++measure.steps=7"],
        ["scenario=tape", "batch_size=1,2", "seed='${batch_size}'"],
        ["scenario=tape", "batch_size=1,2", "'seed=${hydra:job.num}'"],
        ["scenario=tape", "tracking=none", "tracking.experiment='a b','1','true',null_"],
        ["scenario=tape", "batch_size=1,2", "tracking.experiment='${oc.env:HOME}'"],
        ["scenario=tape", "batch_size=1,2", "tracking=server", "tracking.uri=http://here:5000"],
        ["scenario=tape", "seed=sort(3,1,2,reverse=true)", "batch_size=choice(8,16)"],
        ["scenario=tape", "measure.max_seconds=float(2),int(3)", "resume=null", "execution=null"],
        ["scenario=tape", "batch_size=glob(*)", "seed=1,2"],
        ["scenario=tape", "experiment=loops", "seed=3,4"],
        [*TARGET, "scenario.arguments={width: 3, deep: {a: 1, b: [1, x]}}", "seed=1,2"],
        [*TARGET, "scenario.arguments.width=3,4", "scenario.arguments.deep.a=1"],
        [*TARGET, "+scenario.arguments.width=3,4"],
        # What is refused
        ["scenario=tape", "scenario.dept=3,4"],
        ["scenario=tape", "scenario.depth=3,none"],
        ["scenario=tape", "batch_size=1,0"],
        ["scenario=tape", "batch_size=1,2", "measure=quik"],
        ["scenario=tape,nothing", "batch_size=1,2"],
        ["scenario=tape", "batch_size=1,2", "+measure.stps=7"],
        ["scenario=tape", "batch_size=1,2", "~measure.steps"],
        ["scenario=tape", "batch_size=1,2", "~measure.stepps"],
        ["scenario=tape", "batch_size=1,2", "~measure"],
        ["scenario=tape", "batch_size=1,2", "seed='${nothing}'"],
        ["scenario=tape", "batch_size=1,2", "seed='${oc.env:NOBODY_SETS_THIS}'"],
        ["scenario=tape", "batch_size=1,2", "seed=???"],
        ["scenario=tape", "batch_size=1,2", "tracking=local,none"],
        ["scenario=tape", "batch_size=1,2", "scenario@measure=tape"],
        ["scenario=tape", "batch_size=1,[2]", "seed={a: 1}"],
        ["scenario=tape", "batch_size=1,2", "scenario.depth.more=1"],
        ["scenario=tape", "batch_size=1,2", "measure.steps[0]=1"],
        ["batch_size=1,2", "seed=3"],
    ],
    ids=" ".join,
)
def test_every_kind_of_override(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> list[object] | str:
        try:
            return [*planned("-m", *words).cells]
        except BadInput as refused:
            return str(refused)

    ours = told()
    monkeypatch.setattr(Copies, "cell", by_hydra)
    assert ours == told()


def test_a_thousand_cells_ask_hydra_once_for_each_choice_of_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And set plain fields in plain copies, whatever the files ask of the environment."""
    asked = []
    whole = Copies._whole
    monkeypatch.setattr(
        Copies,
        "_whole",
        lambda *words: asked.append(words) or whole(*words),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr(Composed, "of", None)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "123")
    plan = planned("-m", "scenario=tape,python_loop", "seed=range(500)")
    assert {cell.experiment.tracking.experiment for cell in plan.cells} == {"123"}
    assert len({cell.experiment.cell for cell in plan.cells}) == 1000
    assert len(asked) == 2
