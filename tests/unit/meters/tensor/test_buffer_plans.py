"""XLA's buffer assignment, as XLA writes it with TensorFlow 2.21 and 2.22, shortened by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.meters.tensor.buffer_plans import ADDRESSES, ALIGNMENT, Buffer, BufferPlans
from runner.meters.tensor.names import to_path

ASSIGNMENT = """\
BufferAssignment:
allocation 0: size 400, parameter 0, shape |f32[100]| at ShapeIndex {}:
 value: <1 arg0.1 @0> (size=400,offset=0): f32[100]{0}
allocation 1: size 400, maybe-live-out:
 value: <2 first @0> (size=400,offset=0): f32[100]{0}
 value: <5 copy.1 @0> (size=400,offset=0): f32[100]{0}
allocation 2: size 16, output shape is |(f32[100])|, maybe-live-out:
 value: <6 XLA_Retvals.5{} @0> (size=16,offset=0): (f32[100]{0})
allocation 3: size 1300, preallocated-temp:
 value: <3 tanh @0> (size=400,offset=0): f32[10,10]{1,0}
 value: <4 fusion @0> (size=400,offset=448): s32[100]{0}
 value: <7 late @0> (size=800,offset=448): f32[200]{0}

Total bytes used: 2500 (2.4KiB)

Used values:
<2 first @0>
 positions:
  first
 from instruction: %first = f32[100] add(%arg0.1, %arg0.1), metadata={op_type="AddV2" op_name="a/add"}
<3 tanh @0>
 from instruction: %tanh = f32[10,10] tanh(%first), metadata={op_type="Tanh" op_name="a/Tanh"}
<4 fusion @0>
 from instruction: %fusion = s32[100] fusion(%tanh), kind=kLoop
<5 copy.1 @0>
 from instruction: %copy.1 = f32[100] copy(%first)
<7 late @0>
 from instruction: %late = f32[200] dot(%tanh), metadata={op_type="MatMul" op_name="b/MatMul"}

HloLiveRange (max 9):
  BufferLiveRange:
    first{}:1-3
    tanh{}:2-6
    fusion{}:3-4
    late{}:5-6
    copy.1{}:7-9
"""  # noqa: E501


@pytest.fixture
def plans(tmp_path: Path) -> BufferPlans:
    name = "module_0000.a_inference_step_12__XlaMustCompile_true.cpu-buffer-assignment.txt"
    (tmp_path / name).write_text(ASSIGNMENT)
    return BufferPlans(tmp_path)


def test_a_temporary_block_holds_what_lives_at_its_fullest_moment_and_sums_to_it(
    plans: BufferPlans,
) -> None:
    (held,) = plans.open("__inference_step_12", 1300, to_path)
    assert held == (
        Buffer("Tanh", "a/Tanh", (10, 10), "float32", 400),
        Buffer("MatMul", "b/MatMul", (200,), "float32", 800),
        Buffer(ALIGNMENT, "", None, "untyped", 100),
    )
    assert sum(buffer.bytes for buffer in held) == 1300


def test_a_result_is_what_was_last_written_there_and_a_copy_is_of_what_was_copied(
    plans: BufferPlans,
) -> None:
    assert plans.open("__inference_step_12", 400, to_path) == (
        (Buffer("copy", "a/add", (100,), "float32", 400),),
    )


def test_the_addresses_of_the_results_are_named_so(plans: BufferPlans) -> None:
    assert plans.open("__inference_step_12", 16, to_path) == (
        (Buffer(ADDRESSES, "", None, "untyped", 16),),
    )


LOOP = """\
allocation 0: size 1004, preallocated-temp:
 value: <1 zeros @0> (size=1000,offset=0): f32[5,50]{1,0}
 value: <2 inputs.1{1} (phi) @0> (size=1000,offset=0): f32[5,50]{1,0}
 value: <3 write @0> (size=1000,offset=0): f32[5,50]{1,0}
 value: <4 while.1{1} (phi) @0> (size=1000,offset=0): f32[5,50]{1,0}
 value: <5 grad @0> (size=4,offset=1000): f32[]

Used values:
<1 zeros @0>
 from instruction: %zeros = f32[5,50] broadcast(), metadata={op_type="EmptyTensorList" op_name="while/zeros"}
<2 inputs.1{1} (phi) @0>
 from instruction: %inputs.1 = (s32[], f32[5,50]) parameter(0)
<3 write @0>
 from instruction: %write = f32[5,50] fusion(%inputs.1), metadata={op_type="TensorListPushBack" op_name="while/body/while/push;while/body/while/Tanh"}
<4 while.1{1} (phi) @0>
 from instruction: %while.1 = (s32[], f32[5,50]) while(%tuple)
<5 grad @0>
 from instruction: %grad = f32[] add(%while.1), metadata={op_type="TanhGrad" op_name="gradient_tape/while/TanhGrad"}

HloLiveRange (max 9):
  BufferLiveRange:
    zeros{}:1-2
    inputs.1{1}:2-4
    write{}:4-5
    while.1{1}:5-9
    grad{}:7-8
"""  # noqa: E501


def test_what_a_loop_carries_is_of_the_op_that_wrote_it_and_there_until_it_is_used(
    tmp_path: Path,
) -> None:
    name = "module_0000.a_inference_step_12__XlaMustCompile_true.cpu-buffer-assignment.txt"
    (tmp_path / name).write_text(LOOP)
    (held,) = BufferPlans(tmp_path).open("__inference_step_12", 1004, to_path)
    kept, made = held
    assert (kept.op, kept.node) == ("TensorListPushBack", "while/body/while/push")
    assert (kept.shape, kept.is_for_gradient) == ((5, 50), True)
    assert (made.op, made.is_for_gradient) == ("TanhGrad", False)


def test_nothing_is_opened_that_fits_no_size_or_no_function(plans: BufferPlans) -> None:
    assert plans.open("__inference_step_12", 77, to_path) == ()
    assert plans.open("__inference_other_12", 1300, to_path) == ()


def test_what_is_there_when_the_backward_pass_begins_is_kept_for_the_gradient(
    tmp_path: Path,
) -> None:
    """Its `late` op is made the gradient of `a/Tanh`: the tanh is from before, and still there."""
    name = "module_0000.a_inference_step_12__XlaMustCompile_true.cpu-buffer-assignment.txt"
    text = ASSIGNMENT.replace("b/MatMul", "gradient_tape/a/Tanh/TanhGrad")
    (tmp_path / name).write_text(text)
    (held,) = BufferPlans(tmp_path).open("__inference_step_12", 1300, to_path)
    assert [each.is_for_gradient for each in held] == [True, False, False]


def test_without_a_node_s_name_it_is_not_known_what_is_kept_for_the_gradient(
    tmp_path: Path,
) -> None:
    name = "module_0000.a_inference_step_12__XlaMustCompile_true.cpu-buffer-assignment.txt"
    (tmp_path / name).write_text(ASSIGNMENT.replace("op_name", "of"))
    (held,) = BufferPlans(tmp_path).open("__inference_step_12", 1300, to_path)
    assert [each.is_for_gradient for each in held] == [None, None, False]


OF_2_22 = {
    "buffer-assignment.txt": """\
BufferAssignment:
allocation 0: size 12800, page 0, parameter 0, shape |f32[32,100]| at ShapeIndex {}:
 value: <67 arg0.1 @0> (size=12800,offset=0): f32[32,100]{1,0}
allocation 1: size 12900, page 0, maybe-live-out:
 value: <70 wrapped_tanh @0> (size=12800,offset=0): f32[32,100]{1,0}
 value: <84 wrapped_negate.1 @0> (size=12900,offset=0): f32[3225]{0}
allocation 4: size 16, page 0, output shape is |(f32[32,100], f32[32,100])|, maybe-live-out:
 value: <85 XLA_Retvals.5{} @0> (size=16,offset=0): (f32[32,100]{1,0}, f32[32,100]{1,0})
allocation 16: size 51200, page 0, preallocated-temp:
 value: <73 ynn_fusion.3 @0> (size=12800,offset=38400): f32[32,100]{1,0}
 value: <74 wrapped_tanh.2 @0> (size=12800,offset=38400): f32[32,100]{1,0}
 value: <75 subtract_multiply_fusion.2 @0> (size=12800,offset=12800): f32[32,100]{1,0}
 value: <76 ynn_fusion.2 @0> (size=12800,offset=0): f32[32,100]{1,0}
 value: <78 ynn_fusion.1 @0> (size=12800,offset=12800): f32[32,100]{1,0}
""",
    "buffer-assignment-values.txt": """\

Total bytes used: 129651 (126.6KiB)

Used values:
<67 arg0.1 @0>
 positions:
  arg0.1
 uses:
  ynn_fusion.5, operand 0
 from instruction: %arg0.1 = f32[32,100]{1,0} parameter(0), parameter_replication={false}, metadata={op_name="XLA_Args"}
<70 wrapped_tanh @0>
 from instruction: %wrapped_tanh = f32[32,100]{1,0} fusion(%ynn_fusion.5), kind=kLoop, calls=%wrapped_tanh_computation, metadata={op_type="Tanh" op_name="Tanh"}
<73 ynn_fusion.3 @0>
 from instruction: %ynn_fusion.3 = f32[32,100]{1,0} fusion(%wrapped_tanh.1, %arg1.1), kind=kCustom, calls=%fused_computation.3, frontend_attributes={grad_x="false",grad_y="false"}, metadata={op_type="MatMul" op_name="mm2" source_file="/lib/tensorflow/python/framework/ops.py" source_line=1278}, backend_config={"outer_dimension_partitions":[],"fusion_config":{"kind":"__ynn_fusion"}}
<74 wrapped_tanh.2 @0>
 from instruction: %wrapped_tanh.2 = f32[32,100]{1,0} fusion(%ynn_fusion.3), kind=kLoop, calls=%wrapped_tanh_computation.2, metadata={op_type="Tanh" op_name="Tanh_2"}
<75 subtract_multiply_fusion.2 @0>
 from instruction: %subtract_multiply_fusion.2 = f32[32,100]{1,0} fusion(%wrapped_tanh.2, %arg0.1), kind=kLoop, calls=%fused_computation.9, metadata={op_type="TanhGrad" op_name="gradient_tape/TanhGrad"}
<76 ynn_fusion.2 @0>
 from instruction: %ynn_fusion.2 = f32[32,100]{1,0} fusion(%subtract_multiply_fusion.2, %arg1.1), kind=kCustom, calls=%fused_computation.2, frontend_attributes={grad_x="true",grad_y="false"}, metadata={op_type="MatMul" op_name="gradient_tape/mm2/MatMul"}, backend_config={"fusion_config":{"kind":"__ynn_fusion"}}
<78 ynn_fusion.1 @0>
 from instruction: %ynn_fusion.1 = f32[32,100]{1,0} fusion(%ynn_fusion.2, %arg1.1), kind=kCustom, calls=%fused_computation.1, metadata={op_type="MatMul" op_name="gradient_tape/mm1/MatMul"}
<84 wrapped_negate.1 @0>
 positions:
  wrapped_negate.1
  XLA_Retvals.5 {1}
 uses:
  XLA_Retvals.5, operand 1
 from instruction: %wrapped_negate.1 = f32[3225]{0} fusion(%TopKV2.0), kind=kLoop, calls=%wrapped_negate_computation.1, metadata={op_type="Neg" op_name="sort/Neg_1"}
<85 XLA_Retvals.5{} @0>
 positions:
  XLA_Retvals.5 {}
 uses:
  (none)
 from instruction: %XLA_Retvals.5 = (f32[32,100]{1,0}, f32[32,100]{1,0}) tuple(%multiply_add_fusion, %wrapped_negate.1), metadata={op_name="XLA_Retvals"}
""",  # noqa: E501
    "live-range.txt": """\
HloLiveRange (max 19):
  InstructionSequence:
    0:arg0.1
    7:wrapped_tanh.2
  BufferLiveRange:
    arg0.1{}:0-19
    wrapped_tanh{}:3-15
    ynn_fusion.3{}:6-7
    wrapped_tanh.2{}:7-17
    subtract_multiply_fusion.2{}:8-10
    ynn_fusion.2{}:10-12
    ynn_fusion.1{}:14-15
    wrapped_negate.1{}:13-19
    XLA_Retvals.5{}:18-19
  Live ranges at 11 (peak):
    arg1.1{}: 40000 bytes (cumulative: 40000 bytes)
""",
}
"""As TensorFlow 2.22 writes it: three files, and the page of each allocation."""


def write_plan(folder: Path, plan: dict[str, str]) -> BufferPlans:
    """Write the files of one plan, by what their names end in."""
    stem = "module_0000.a_inference_step_12__XlaMustCompile_true_.3.cpu_after_optimizations"
    for name, text in plan.items():
        (folder / f"{stem}-{name}").write_text(text)
    return BufferPlans(folder)


def test_a_plan_in_three_files_is_read_as_one(tmp_path: Path) -> None:
    plans = write_plan(tmp_path, OF_2_22)
    (held,) = plans.open("__inference_step_12", 51_200, to_path)
    assert held == (
        Buffer("MatMul", "gradient_tape/mm2/MatMul", (32, 100), "float32", 12_800),
        Buffer("TanhGrad", "gradient_tape/TanhGrad", (32, 100), "float32", 12_800),
        Buffer("Tanh", "Tanh_2", (32, 100), "float32", 12_800, is_for_gradient=True),
        Buffer(ALIGNMENT, "", None, "untyped", 12_800),
    )
    assert plans.open("__inference_step_12", 12_900, to_path) == (
        (Buffer("Neg", "sort/Neg_1", (3_225,), "float32", 12_900),),
    )
    assert plans.open("__inference_step_12", 16, to_path) == (
        (Buffer(ADDRESSES, "", None, "untyped", 16),),
    )


@pytest.mark.parametrize("size", [51_200, 12_900])
def test_a_block_is_not_opened_without_the_live_ranges_of_its_values(
    tmp_path: Path, size: int
) -> None:
    """None of its bytes is called alignment, which would say that nobody uses them."""
    plan = {name: text for name, text in OF_2_22.items() if name != "live-range.txt"}
    plans = write_plan(tmp_path, plan)
    assert plans.has_block("__inference_step_12", size)
    assert plans.open("__inference_step_12", size, to_path) == ()


def test_one_value_without_a_live_range_leaves_its_block_unopened(tmp_path: Path) -> None:
    text = ASSIGNMENT.replace("    fusion{}:3-4\n", "")
    plans = write_plan(tmp_path, {"buffer-assignment.txt": text})
    assert plans.open("__inference_step_12", 1300, to_path) == ()
    assert plans.open("__inference_step_12", 400, to_path) != ()


def test_a_block_is_opened_without_the_file_that_names_its_nodes(tmp_path: Path) -> None:
    plan = {name: text for name, text in OF_2_22.items() if "values" not in name}
    (held,) = write_plan(tmp_path, plan).open("__inference_step_12", 51_200, to_path)
    assert [buffer.op for buffer in held] == [
        "ynn_fusion", "subtract_multiply_fusion", "tanh", ALIGNMENT,
    ]  # fmt: skip
    assert [buffer.is_for_gradient for buffer in held] == [None, None, None, False]
