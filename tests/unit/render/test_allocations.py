"""Views of a record's allocations, on a record written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from xml.etree.ElementTree import Element

import msgspec

from runner.allocations import Allocations
from runner.render.files.allocations import fold_stacks, make_timeline
from runner.render.html.peak_sections import draw_layers


def make_group(op: str, shape: list[int] | None, **scopes: int) -> dict[str, Any]:
    parts = [
        {"scope": scope.replace("__", "/"), "count": 2, "bytes": size}
        for scope, size in scopes.items()
    ]
    size = sum(scopes.values())
    known = {"op": op, "shape": shape, "dtype": "float32", "count": 2 * len(parts), "share": 0}
    return {**known, "bytes": size, "scopes": parts}


ALLOCATIONS = msgspec.convert(
    {
        "total_bytes": 177,
        "phase": "steps",
        "step": 0,
        "groups": [
            make_group("MatMul", [2, 3], model__a=100, model__b=40),
            make_group("Tanh", [4], model__a=30),
            {**make_group("XLA", None), "scopes": [{"scope": "", "count": 1, "bytes": 7}]},
        ],
        "marks": [["build", 0, 0.0, 1.0], ["steps", 0, 2.0, 4.0], ["release", 0, 5.0, 6.0]],
        "curve": {"seconds": [0.5, 2.5, 5.5], "bytes": [50, 177, 0]},
        "peak_curve": {"seconds": [2.0, 2.25, 2.5, 2.75, 4.0], "bytes": [50, 60, 177, 55, 55]},
    },
    Allocations,
)


def list_branches(branches: Element, depth: int = 0) -> Iterator[str]:
    """The name and the bytes of each branch, those below it indented."""
    for branch in branches:
        line = branch[0] if branch.tag == "details" else branch
        yield f"{'  ' * depth}{line[0].text} {line[1].get('title')}"
        if branch.tag == "details":
            yield from list_branches(branch[1], depth + 1)


def test_the_tree_opens_by_scope_largest_first_and_sums_at_every_branch() -> None:
    (tree,) = draw_layers(ALLOCATIONS)
    assert isinstance(tree, Element)
    assert list(list_branches(tree)) == [
        "model 170 bytes",
        "  a 130 bytes",
        "    MatMul float32[2,3] 100 bytes",
        "    Tanh float32[4] 30 bytes",
        "  b 40 bytes",
        "    MatMul float32[2,3] 40 bytes",
        "XLA 7 bytes",
    ]


def test_folded_stacks_have_a_line_a_path_and_its_bytes_last() -> None:
    assert fold_stacks(ALLOCATIONS) == (
        "XLA 7\n"
        "model;a;MatMul float32[2,3] 100\n"
        "model;a;Tanh float32[4] 30\n"
        "model;b;MatMul float32[2,3] 40\n"
    )


def test_the_chrome_trace_has_the_curve_as_a_counter_and_phases_and_steps_as_slices() -> None:
    events = make_timeline(ALLOCATIONS)["traceEvents"]

    slices = [(event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert slices == [("build", 0, 1e6), ("step 0", 2e6, 2e6), ("release", 5e6, 1e6)]
    counter = [(event["ts"], event["args"]["bytes"]) for event in events if event["ph"] == "C"]
    assert counter == [
        (0.5e6, 50), (2e6, 50), (2.25e6, 60), (2.5e6, 177), (2.75e6, 55), (4e6, 55), (5.5e6, 0),
    ]  # fmt: skip
    (peak,) = [event for event in events if event["ph"] == "i"]
    assert (peak["name"], peak["ts"], peak["args"]["bytes"]) == ("peak", 2.5e6, 177)


def test_each_event_of_the_chrome_trace_has_what_the_format_asks_of_its_kind() -> None:
    """Times are in microseconds; those of a kind come in order, and slices do not overlap."""
    asked = {
        "M": {"ph", "pid", "name", "args"},
        "X": {"ph", "pid", "tid", "name", "ts", "dur"},
        "C": {"ph", "pid", "tid", "name", "ts", "args"},
        "i": {"ph", "pid", "tid", "name", "ts", "s"},
    }
    trace = json.loads(json.dumps(make_timeline(ALLOCATIONS), allow_nan=False))

    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert {event["ph"] for event in trace["traceEvents"]} == set(asked)
    for event in trace["traceEvents"]:
        assert asked[event["ph"]] <= set(event)
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in pairwise(slices))


def test_without_allocations_there_is_an_empty_tree_and_an_empty_trace() -> None:
    empty = Allocations(total_bytes=0, phase=None, step=None, groups=())

    assert list(draw_layers(empty)) == []
    assert fold_stacks(empty) == ""
    assert {event["ph"] for event in make_timeline(empty)["traceEvents"]} == {"M"}
