"""What a stack says of an allocation that stayed."""

from __future__ import annotations

from runner import paths
from runner.meters.host.stacks import Frame, Place, find_place

SITE = "/env/lib/python3.11/site-packages"
RUNNER: Frame = ("_once", f"{paths.find_package()}/trial/hold.py", 90)
USER: Frame = ("step", "/home/me/service.py", 22)
NORMAL: Frame = ("random_normal", f"{SITE}/tensorflow/python/ops/random_ops.py", 90)
OP: Frame = (
    "random_standard_normal",
    f"{SITE}/tensorflow/python/ops/gen_random_ops.py",
    500,
)
TRACING: Frame = (
    "func_graph_from_py_func",
    f"{SITE}/tensorflow/python/framework/func_graph.py",
    1000,
)


def of(*python: Frame, native: tuple[str, ...] = (), of_python: bool = False) -> Place | None:
    """The innermost frame first."""
    return find_place([*python, RUNNER], native, of_python)


def kind(*python: Frame, native: tuple[str, ...] = (), of_python: bool = False) -> str:
    found = of(*python, native=native, of_python=of_python)
    assert found is not None
    return found.kind


def test_the_line_is_the_users_innermost() -> None:
    found = of(OP, NORMAL, USER)
    assert found is not None
    assert (found.file, found.line) == ("/home/me/service.py", 22)


def test_memory_that_an_op_took_in_cpp_is_native_and_named_by_function_and_op() -> None:
    native = ("operator new(unsigned long)", "tensorflow::Graph::Clone()", "TFE_Execute")
    found = of(OP, NORMAL, USER, native=native)
    assert found is not None
    assert found.kind == "native"
    assert found.what == "C++ memory under random_normal, op random_standard_normal (Graph::Clone)"


def test_a_hook_of_the_runners_around_what_the_user_calls_is_not_named() -> None:
    hook: Frame = ("through", f"{paths.find_package()}/script/hooks.py", 180)
    native = ("tensorflow::BFCAllocator", "TFE_Py_Execute")
    assert of(OP, NORMAL, hook, USER, native=native) == of(OP, NORMAL, USER, native=native)


def test_a_tensors_bytes_its_handle_and_its_object_are_a_tensor() -> None:
    for name in (
        "tensorflow::Tensor::Tensor(tsl::Allocator*, tensorflow::DataType)",
        "tensorflow::TensorHandle::CreateLocalHandle(tensorflow::Tensor&&)",
        "EagerTensorFromHandle(TFE_TensorHandle*, bool)",
    ):
        assert kind(OP, NORMAL, USER, native=(name,), of_python="Eager" in name) == "tensor"


def test_what_xla_or_llvm_made_is_an_executable_on_any_thread() -> None:
    assert kind(USER, native=("llvm::sys::Memory::allocateMappedMemory(unsigned long)",)) == (
        "executable"
    )
    found = find_place([], ["xla::cpu::JitCompiler::Create()"], False)
    assert found == Place("executable", None, None, "XLA's executables")


def test_what_onednn_keeps_is_no_executable_of_xlas() -> None:
    native = (
        "Xbyak::MmapAllocator::alloc(unsigned long)",
        "dnnl::impl::cpu::x64::jit_generator::jit_generator(char const*)",
        "tensorflow::MklConvFwdPrimitive<float>::Setup(tensorflow::MklConvFwdParams const&)",
    )
    found = of(OP, NORMAL, USER, native=native)
    assert found is not None
    assert found.kind == "native"
    assert found.what.startswith("oneDNN's kernels and buffers under random_normal")


def test_the_output_of_an_op_of_onednns_is_a_tensor() -> None:
    native = (
        "tsl::port::AlignedMalloc(unsigned long, std::align_val_t)",
        "tensorflow::Tensor::Tensor(tsl::Allocator*, tensorflow::DataType)",
        "tensorflow::OpKernelContext::allocate_output(int, tensorflow::TensorShape const&)",
        "tensorflow::MklMatMulOp<Eigen::ThreadPoolDevice, float, false>::Compute()",
    )
    assert kind(USER, native=native) == "tensor"
    assert kind(USER, native=native[-1:]) == "native"


def test_what_grappler_makes_with_mlir_is_a_graph() -> None:
    native = (
        "mlir::StorageUniquer::StorageUniquer()",
        "mlir::tfg::TFGGrapplerOptimizer::Impl::Impl(std::function<void ()>)",
        "tensorflow::grappler::MetaOptimizer::Optimize()",
    )
    assert kind(USER, native=native) == "graph"


def test_what_is_made_while_a_function_is_traced_is_a_graph() -> None:
    assert kind(OP, TRACING, USER) == "graph"
    assert kind(OP, TRACING, USER, of_python=True) == "graph"


def test_what_the_users_line_asks_of_python_or_of_an_extension_is_pythons() -> None:
    assert kind(USER, of_python=True) == "python"
    assert kind(USER, native=("PyDataMem_UserNEW",)) == "python"


def test_an_op_without_python_frames_of_its_own_is_native() -> None:
    assert kind(USER, native=("tensorflow::EagerOperation::Execute()",)) == "native"


def test_what_the_runner_itself_took_is_nobodys() -> None:
    assert find_place([RUNNER, USER], [], True) is None


def test_a_thread_that_python_starts_is_pythons_and_has_no_line() -> None:
    found = find_place([], ["allocate_chunk", "_PyEval_EvalFrameDefault", "thread_run"], False)
    assert found is not None
    assert (found.kind, found.line) == ("python", None)


def test_a_name_in_pythons_cache_of_attributes_is_nobodys() -> None:
    native = ("PyUnicode_New", "unicode_decode_utf8", "PyObject_GetAttrString", "EagerTensor_init")
    assert of(OP, NORMAL, USER, native=native, of_python=True) is None
