"""Which line made a stage of a data pipeline, by the path that TensorFlow names."""

from __future__ import annotations

from typing import Any

import pytest

from runner.meters.tensor.pipeline_stages import PipelineStages, Stage, get_last_stage


class Dataset:
    def __init__(self, *inputs: Dataset) -> None:
        self.inputs = inputs

    def _inputs(self) -> tuple[Dataset, ...]:
        return self.inputs


def pipeline(*stages: tuple[str, int]) -> tuple[PipelineStages, Any]:
    """Made from its source on, each stage on a line of its own."""
    pipelines = PipelineStages()
    latest: Any = None
    for name, line in stages:
        kind = type(f"_{name}Dataset", (Dataset,), {})
        latest = kind(latest) if latest is not None else kind()
        pipelines.note_stage(latest, line)
    return pipelines, latest


STAGES = (("TensorSlice", 1), ("Map", 2), ("Shuffle", 3), ("Map", 4), ("Batch", 5), ("Repeat", 6))
PATH = "Iterator::Root::Prefetch::ForeverRepeat[0]::BatchV2::ParallelMapV2"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("Iterator::Root::Prefetch", 9),
        ("Iterator::Root::Prefetch::ForeverRepeat[0]", 6),
        ("Iterator::Root::Prefetch::ForeverRepeat[0]::BatchV2", 5),
        ("Iterator::Root::Prefetch::ForeverRepeat[0]::MapAndBatch", 5),
        (PATH, 4),
        (f"{PATH}::Shuffle", 3),
        (f"{PATH}::Shuffle::Map", 2),
        (f"{PATH}::Shuffle::Map::TensorSlice", 1),
        (f"{PATH}::Shuffle::Map::MemoryCacheImpl", 2),
        ("", 9),
    ],
)
def test_a_stage_has_the_line_that_made_it_and_one_that_was_put_in_the_next_one_s(
    path: str, line: int
) -> None:
    pipelines, last = pipeline(*STAGES)
    pipelines.note_iteration(last, 9)
    assert pipelines.find_line(path) == line


def test_of_several_pipelines_the_one_that_fits_best_has_it() -> None:
    pipelines, last = pipeline(*STAGES)
    other = type("_RangeDataset", (Dataset,), {})()
    pipelines.note_stage(other, 7)
    pipelines.note_iteration(last, 9)
    pipelines.note_iteration(other, 10)
    assert pipelines.find_line(PATH) == 4
    assert pipelines.find_line("Iterator::Root::Prefetch::Range") == 7
    assert pipelines.find_line("") is None


@pytest.mark.parametrize(
    ("path", "nodes", "size", "holder"),
    [
        (f"{PATH}::Shuffle::Map::TensorSlice", set(), 0, ("Shuffle", 3)),
        (f"{PATH}::Shuffle", set(), 0, ("Batch", 5)),
        ("Iterator::Root::Prefetch::ForeverRepeat[0]::BatchV2", set(), 0, None),
        ("Iterator::Root::Prefetch", set(), 0, None),
        ("", {"mul"}, 400, ("Shuffle", 3)),
        (f"{PATH}::Shuffle", {"mul"}, 400, ("Shuffle", 3)),
        ("", {"add"}, 800, ("Batch", 5)),
        ("", {"mul"}, 12, None),  # a constant of the function, no element
        ("", {"sub"}, 400, None),
        ("", set(), 400, None),
    ],
)
def test_what_a_stage_makes_is_held_by_the_next_one_that_holds_elements(
    path: str, nodes: set[str], size: int, holder: tuple[str, int] | None
) -> None:
    """The first map returns a hundred numbers of four bytes, the second one as many as it likes."""
    functions = {2: (frozenset({"mul"}), (((100,), 1),)), 4: (frozenset({"add"}), ((None, 1),))}
    its = [Stage(kind, line, *functions.get(line, (frozenset(), ()))) for kind, line in STAGES]
    pipelines = PipelineStages()
    pipelines._begun[tuple(reversed(its))] = 9
    pair = pipelines.find_holder(path, nodes, size)
    assert (pair and pair[0][:2]) == holder


def test_no_pipeline_has_no_line() -> None:
    assert PipelineStages().find_line(PATH) is None


def test_a_stage_is_named_as_tensorflow_names_it() -> None:
    assert get_last_stage(PATH) == "ParallelMapV2"
    assert get_last_stage("Iterator::Root::ForeverRepeat[0]") == "ForeverRepeat"
