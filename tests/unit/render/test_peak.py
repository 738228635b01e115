"""A peak as text, and for other tools, from a record of which every line's bytes are known."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import msgspec
import pytest

from runner import records
from runner.allocations import Allocations, Group, Scope, Split
from runner.records import Outcome, Status
from runner.render import peak
from runner.render.files.allocations import fold_stacks, write_files
from runner.render.text.peak_listing import list_peak, list_record
from tests.factories import ALLOCATIONS, completed, kept


def list_rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_peak_begins_with_the_lines_that_made_it_and_their_source_text() -> None:
    text = list_rows(list_peak(ALLOCATIONS, most=10))
    assert text[0] == "900 B at the peak, in step 2: gradient 300 B · passing 600 B"
    assert "870 B (870) 96.7 % model.py:7 return tf.matmul(x, self.weight)" in text
    assert (
        "gradient 270 B · passing 600 B · 1 MatMul 3 x 50 float32, 1 Mul 75 float32 (gradient)"
        in text
    )
    assert "900 B (900) 100 % sum" in text


def test_where_no_line_is_known_it_says_why() -> None:
    text = list_rows(list_peak(ALLOCATIONS, most=10))
    assert "30 B (30) 3.3 % no line no call into TensorFlow was under way" in text


def test_where_the_gradient_s_part_is_not_known_it_says_why() -> None:
    found = dataclasses.replace(
        ALLOCATIONS, split=Split(0, 0, None, 900), gradient_why="XLA does not say"
    )
    assert list_rows(list_peak(found, most=10))[:2] == [
        "900 B at the peak, in step 2: passing 900 B",
        "Bytes kept for the gradient are counted among the others: XLA does not say.",
    ]


def test_the_layers_and_what_leaks_follow() -> None:
    text = list_rows(list_peak(ALLOCATIONS, most=10))
    assert "900 B (900) 100 % 2 model/dense (of its gradient 300 B)" in text
    assert "Each step leaves 28 B that are still live when the next step has ended:" in text
    assert "28 B 1 Square 7 float32 train.py:3 loss = model(x)" in text


def test_by_op_it_is_by_op_shape_and_dtype() -> None:
    text = list_rows(list_peak(ALLOCATIONS, most=10, by="op"))
    assert "MatMul 3 x 50 float32 1 600 B (600) 66.7 % model/dense" in text


def test_a_record_without_lines_is_told_by_op() -> None:
    record = completed()
    assert record.allocations is not None
    assert list_rows(list_peak(record.allocations, most=3))[2].startswith("op shape dtype count")


def test_folded_stacks_are_the_user_s_whole_stack_then_layers_and_at_its_end_the_tensors() -> None:
    assert fold_stacks(ALLOCATIONS) == (
        "no line;Mul float32[75] 30\n"
        "step train.py:3;Model.call model.py:7;model;dense;MatMul float32[3,50] 600\n"
        "step train.py:3;Model.call model.py:7;model;dense;Mul float32[75] (gradient) 270\n"
    )


def test_the_table_has_a_row_for_what_one_line_made(tmp_path: Path) -> None:
    import dataclasses

    folder = kept(dataclasses.replace(completed(), allocations=ALLOCATIONS), tmp_path / "run")
    write_files(records.read(folder), folder)
    with (folder / "allocations.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["file"], row["line"], row["op"], row["bytes"]) for row in table] == [
        ("model.py", "7", "MatMul", "600"),
        ("model.py", "7", "Mul", "270"),
        ("", "", "Mul", "30"),
    ]


def test_a_record_keeps_its_lines_to_the_letter(tmp_path: Path) -> None:
    assert msgspec.convert(msgspec.to_builtins(ALLOCATIONS), Allocations) == ALLOCATIONS


def test_the_latest_run_or_sweep_can_be_named_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from runner.commands import call
    from runner.errors import BadInput

    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # a folder is spelled as it is seen from where one stands
    with pytest.raises(BadInput, match="no run and no sweep"):
        call("report", ["latest", "--peak"])
    kept(completed(), tmp_path / "runs" / "2026-01-01" / "10-00-00-aaaa")
    kept(
        completed(scenario="python_loop"), tmp_path / "sweeps" / "2026-01-01" / "11-00-00-bb" / "0"
    )
    call("report", ["latest", "--peak"])
    said = capsys.readouterr()
    assert "python_loop" in said.out
    assert said.err == "latest: sweeps/2026-01-01/11-00-00-bb\n"


def test_a_peak_says_whose_memory_the_allocator_never_sees() -> None:
    counted = (("VarHandleOp", "resource"), ("TensorListReserve", "variant"), ("Mul", "float32"))
    pipeline = (("AnonymousIteratorV3", "resource"), ("ShuffleDatasetV3", "variant"))
    reader = ("TFRecordDatasetV2", "variant")
    not_counted = (("tf.constant", "string"), ("MutableHashTableV2", "untyped"), reader)
    ops = (*counted, *pipeline, *not_counted)
    made = [Group(op, (2,), dtype, 1, 48, 0.2) for op, dtype in ops]
    of_all = dataclasses.replace(ALLOCATIONS, groups=tuple(made))
    assert list_peak(of_all, most=10).splitlines()[1] == (
        "not counted: the text of 1 string tensor, lookup tables, what tf.data has read of files; "
        "the host peak has them"
    )
    of_counted = dataclasses.replace(ALLOCATIONS, groups=tuple(made[:5]))
    assert "not counted" not in list_peak(of_counted, most=10)


def test_the_peak_of_a_run_that_failed_says_so_first() -> None:
    ended = Outcome(Status.FAILED, "first_call", "boom")
    record = dataclasses.replace(completed(), outcome=ended, allocations=ALLOCATIONS)
    assert list_record(record, most=10).startswith(
        "This run ended early: failed in first_call. Its figures are of what ran until then, and "
        "not those of a whole run.\n900 B at the peak"
    )
    assert list_record(dataclasses.replace(completed(), allocations=ALLOCATIONS), 10).startswith(
        "900 B at the peak"
    )


def test_without_a_peak_of_ours_the_allocator_s_own_is_said() -> None:
    metrics = {"tensor_peak_bytes": None, "allocator_peak_bytes": 5_120}
    why = {"tensor_peak_bytes": "the trace was cut short"}
    record = dataclasses.replace(completed(), metrics=metrics, unavailable=why, allocations=None)
    assert list_record(record, most=10) == (
        "unknown: the trace was cut short; TensorFlow's own figure, its rounding included, is "
        "5.12 kB"
    )


def test_a_step_without_tensors_is_zero_bytes() -> None:
    nothing = Allocations(total_bytes=0, phase=None, step=None, groups=())
    record = dataclasses.replace(completed(), allocations=nothing)
    assert list_record(record, most=10) == "0 B: the step makes no tensors"


@pytest.mark.parametrize(
    ("op", "is_gradient", "plain"),
    [
        (
            "__inference_multi_step_on_iterator_4064",
            False,
            "function multi_step_on_iterator",
        ),
        ("__inference_step_2_17", True, "function step_2"),
        ("MakeIterator", False, "start of a tf.data iterator"),
        ("Conv2DBackpropInput", True, "Conv2DBackpropInput"),
        (
            "Conv3DBackpropInputV2",
            False,
            "Conv3DBackpropInputV2 (a transposed convolution, forward)",
        ),
        ("MatMul", False, "MatMul"),
        ("", False, ""),
    ],
)
def test_an_op_has_a_plain_name(op: str, is_gradient: bool, plain: str) -> None:
    assert peak.name_op_plainly(op, is_gradient) == plain


@pytest.mark.parametrize(
    ("scopes", "is_forward"),
    [((), False), (("net/up",), True), (("net/conv/(gradient)",), False)],
)
def test_only_a_forward_layer_is_called_a_transposed_convolution(
    scopes: tuple[str, ...], is_forward: bool
) -> None:
    made = tuple(Scope(scope, 1, 400) for scope in scopes)
    group = Group("Conv2DBackpropInput", (10, 10), "float32", 1, 400, 1.0, scopes=made)
    live = Allocations(total_bytes=400, phase="steps", step=0, groups=(group,))
    (row,) = peak.slice_by_op(live)
    assert ("transposed" in row.name) is is_forward
