"""A peak as text, and for other tools, from a record of which every line's bytes are known."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest

from runner import report
from runner.allocations import Allocations, Group, Split
from runner.export.allocations import folded
from runner.terminal import peak
from tests.factories import ALLOCATIONS, completed, kept


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_peak_begins_with_the_lines_that_made_it_and_their_source_text() -> None:
    text = rows(peak.of(ALLOCATIONS, most=10))
    assert text[0] == "900 B at the peak, in step 2: gradient 300 B · passing 600 B"
    assert "870 B (870) 96.7 % model.py:7 return tf.matmul(x, self.weight)" in text
    assert (
        "gradient 270 B · passing 600 B · 1 MatMul 3 x 50 float32, 1 Mul 75 float32 (gradient)"
        in text
    )
    assert "900 B (900) 100 % sum" in text


def test_where_no_line_is_known_it_says_why() -> None:
    text = rows(peak.of(ALLOCATIONS, most=10))
    assert "30 B (30) 3.3 % no line no call into TensorFlow was under way" in text


def test_where_the_gradient_s_part_is_not_known_it_says_why() -> None:
    found = dataclasses.replace(
        ALLOCATIONS, split=Split(0, 0, None, 900), gradient_why="XLA does not say"
    )
    assert rows(peak.of(found, most=10))[:2] == [
        "900 B at the peak, in step 2: passing 900 B",
        "What is kept for the gradient counts among the rest: XLA does not say.",
    ]


def test_the_layers_and_what_leaks_follow() -> None:
    text = rows(peak.of(ALLOCATIONS, most=10))
    assert "900 B (900) 100 % 2 model/dense (of its gradient 300 B)" in text
    assert "28 B a step stay and are still live when the next step has ended:" in text
    assert "28 B 1 Square 7 float32 train.py:3 loss = model(x)" in text


def test_by_op_it_is_by_op_shape_and_dtype() -> None:
    text = rows(peak.of(ALLOCATIONS, most=10, by="op"))
    assert "MatMul 3 x 50 float32 1 600 B (600) 66.7 % model/dense" in text


def test_a_record_without_lines_is_told_by_op() -> None:
    record = completed()
    assert record.allocations is not None
    assert rows(peak.of(record.allocations, most=3))[2].startswith("op shape dtype count")


def test_folded_stacks_are_the_user_s_whole_stack_then_layers_and_at_its_end_the_tensors() -> None:
    assert folded(ALLOCATIONS) == (
        "no line;Mul float32[75] 30\n"
        "step train.py:3;Model.call model.py:7;model;dense;MatMul float32[3,50] 600\n"
        "step train.py:3;Model.call model.py:7;model;dense;Mul float32[75] (gradient) 270\n"
    )


def test_the_table_has_a_row_for_what_one_line_made(tmp_path: Path) -> None:
    import dataclasses

    folder = kept(dataclasses.replace(completed(), allocations=ALLOCATIONS), tmp_path / "run")
    report.views(folder)
    with (folder / "allocations.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["file"], row["line"], row["op"], row["bytes"]) for row in table] == [
        ("model.py", "7", "MatMul", "600"),
        ("model.py", "7", "Mul", "270"),
        ("", "", "Mul", "30"),
    ]


def test_a_record_keeps_its_lines_to_the_letter(tmp_path: Path) -> None:
    assert Allocations.from_json(ALLOCATIONS.to_json()) == ALLOCATIONS


def test_the_latest_run_or_sweep_can_be_named_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from runner.errors import BadInput
    from runner.verbs.report import main

    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path))
    with pytest.raises(BadInput, match="no run and no sweep"):
        main(["latest", "--peak"])
    kept(completed(), tmp_path / "runs" / "2026-01-01" / "10-00-00-aaaa")
    kept(
        completed(scenario="python_loop"), tmp_path / "sweeps" / "2026-01-01" / "11-00-00-bb" / "0"
    )
    main(["latest", "--peak"])
    assert "python_loop" in capsys.readouterr().out


def test_a_peak_says_whose_memory_the_allocator_never_sees() -> None:
    counted = (("VarHandleOp", "resource"), ("TensorListReserve", "variant"), ("Mul", "float32"))
    not_counted = (("tf.constant", "string"), ("MutableHashTableV2", "untyped"))
    made = [Group(op, (2,), dtype, 1, 48, 0.2) for op, dtype in (*counted, *not_counted)]
    of_all = dataclasses.replace(ALLOCATIONS, groups=tuple(made))
    said = (
        "without the memory behind 1 string tensor and lookup tables: the host peak has that, too"
    )
    assert peak.of(of_all, most=10).splitlines()[1] == said
    of_counted = dataclasses.replace(ALLOCATIONS, groups=tuple(made[:3]))
    assert "without" not in peak.of(of_counted, most=10)
