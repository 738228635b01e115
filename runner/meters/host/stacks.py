"""Tell from a stack what an allocation is that stayed: what kind of memory, whose line, of what.
Core: standard library only.

The kind is told by evidence, the most telling first:

    on the native stack    functions of oneDNN's, which makes code  native
                           (a tensor that its op asks for is none)
    on the native stack    of Grappler's, which uses MLIR           graph
    on the native stack    of XLA's, LLVM's or MLIR's               executable
    on the native stack    what makes tensors                       tensor
    on the Python stack    the machinery that builds graphs         graph
    either                 Python's own allocator was asked, or     python
                           Python started a thread
    either                 TensorFlow, or no line at all            native
    else                   what the line called by itself: NumPy    python
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runner.meters.code_owner import LIBRARIES, PYTHON, RUNNER, SCENARIO, USERS, find_owner
from runner.records import ONEDNN, THREAD_START

Frame = tuple[str, str, int]
"""Function, file, line."""

_ONEDNN = re.compile(r"\b(dnnl|Xbyak)::|\bdnnl_|\bMkl[A-Z]\w*(Primitive|Op)\b")
_GRAPPLER = re.compile(r"\bmlir::tfg::|\bgrappler::")
_EXECUTABLE = re.compile(r"\b(xla|llvm|mlir)::|\bXla(Compil|Device|Context)\w*::")
_TENSOR = re.compile(
    r"\bAllocator::AllocateRaw\b|^tensorflow::Tensor::Tensor\(|\bTensorHandle::Create|TensorBuffer"
    r"|^EagerTensor(FromHandle|_init)|^tensorflow::ConvertToEagerTensor"
)
"""Its bytes, its handle in C++, and its object in Python: all three are there while it is."""
_KINDS = {_GRAPPLER: "graph", _EXECUTABLE: "executable", _TENSOR: "tensor"}
_TRACING = re.compile(
    r"/tensorflow/python/(framework/(func_graph|op_def_library)\.py"
    r"|eager/polymorphic_function/(tracing_compilation|concrete_function|function_type_utils)\.py"
    r"|client/session\.py)$"
)
_MAKES_OPS = ("_create_c_op", "_create_op_internal", "create_op")
_GENERATED = re.compile(r"/gen_\w+_ops\.py$")
_NO_NAME = re.compile(r"^(_|error_handler$|op_dispatch_handler$|wrapper$|wrapped|fn$|<)")
"""Functions that a call passes through, and that nobody calls by name."""

_BY_THE_WAY = re.compile(
    r"^(operator new|std::|absl::|google::|(tsl|tensorflow)::(port|core)::|__gnu|malloc|calloc|"
    r"realloc|posix_memalign|aligned_alloc|_?PyObject|_?PyMem|\?|<|char\*|void )"
    r"|Allocat|::vector<|::basic_string"
)
"""Native functions that take memory for whoever called them."""


@dataclass(frozen=True)
class Place:
    """One answer to "who holds it": allocations with the same are added up."""

    kind: str
    file: str | None
    line: int | None
    what: str


def find_place(python: Sequence[Frame], native: Sequence[str], of_python: bool) -> Place | None:
    """Return the place of an allocation; None for what the runner itself allocated, and for names
    in Python's cache.

    `python` and `native` frames, the innermost first; `of_python` where Python's own allocator was
    asked.
    """
    owners = [find_owner(file) for _, file, _ in python]
    # A name that C++ looks an attribute up by is a new string each time, of which Python's cache of
    # attributes holds the last 4,096: 262 kB at most, but it takes thousands of steps.
    is_cached_name = next(iter(native), "") == "PyUnicode_New" and any(
        "AttrString" in name for name in native[:6]
    )
    if owners[:1] == [RUNNER] or (of_python and is_cached_name):
        return None
    at = _find_users(owners)
    # What a script calls may be wrapped by a hook of the runner's, which is no name of the user's.
    called = zip(python[:at], owners, strict=False)
    inside = python if at is None else [frame for frame, of in called if of != RUNNER]
    kind = _tell_kind(inside, native, of_python, at is not None)
    what = _describe(kind, inside, native)
    if at is None:
        is_start = kind == "python" and _is_in_python_thread(native)
        return Place(kind, None, None, THREAD_START if is_start else what)
    _, file, line = python[at]
    return Place(kind, file, line, what)


def _find_users(owners: Sequence[str]) -> int | None:
    """Return the innermost frame of the user; else of a scenario; else of the installed package
    that the runner called."""
    for wanted in (USERS, SCENARIO):
        if wanted in owners:
            return owners.index(wanted)
    packages = [at for at, name in enumerate(owners) if name not in (RUNNER, PYTHON)]
    return packages[-1] if packages and owners[packages[-1]] not in LIBRARIES else None


def _tell_kind(inside: Sequence[Frame], native: Sequence[str], of_python: bool, known: bool) -> str:
    if _is_of_onednn(native):
        return "native"
    for pattern, kind in _KINDS.items():
        if any(map(pattern.search, native)):
            return kind
    if any(_TRACING.search(file) or name in _MAKES_OPS for name, file, _ in inside):
        return "graph"
    if of_python or (not known and _is_in_python_thread(native)):
        return "python"
    return "native" if not known or _is_through_tensorflow(inside, native) else "python"


def _is_of_onednn(native: Sequence[str]) -> bool:
    """Return whether oneDNN took it; a tensor for which its op asks TensorFlow is a tensor."""
    for name in native:
        if _TENSOR.search(name):
            return False
        if _ONEDNN.search(name):
            return True
    return False


def _is_through_tensorflow(inside: Sequence[Frame], native: Sequence[str]) -> bool:
    """Return whether TensorFlow was called: an op has Python frames of TensorFlow's; its objects'
    methods (`tensor + 1`) may not."""
    return any("/tensorflow/" in file for _, file, _ in inside) or any(
        name.startswith(("tensorflow::", "TFE_", "TF_")) for name in native
    )


def _is_in_python_thread(native: Sequence[str]) -> bool:
    """Return whether Python itself took it for a thread, before any line of it runs."""
    return any(name.startswith(("thread_run", "_PyEval", "PyThread")) for name in native) and not (
        _is_through_tensorflow((), native)
    )


def _describe(kind: str, inside: Sequence[Frame], native: Sequence[str]) -> str:
    is_function = any("/polymorphic_function/" in file for _, file, _ in inside)  # has a name
    names = (name for name, _, _ in reversed(inside) if not _NO_NAME.search(name))
    called = None if kind == "graph" and is_function else next(names, None)  # the user's line calls
    op = next((name for name, file, _ in inside if _GENERATED.search(file)), None)
    op = op and op.removesuffix("_eager_fallback")
    under = f" under {called}" if called else ""
    named = f", op {op}" if op and op != called else ""
    if kind == "tensor" and any("ConvertToEagerTensor" in name for name in native):
        return f"tensors made of Python values{under}"
    if kind == "tensor":
        return f"tensors of {op or called or 'an op'}"
    if kind == "graph":
        return f"graph built{under}"
    if kind == "executable":
        return f"XLA's executables{under}"
    if kind == "python":
        return f"Python objects made{under}" if called else "Python objects"
    if _is_of_onednn(native):  # for a kernel that it keeps, one for each shape
        return f"{ONEDNN}{under}{named}"
    by = next((_shorten(name) for name in native if not _BY_THE_WAY.search(name)), None)
    return f"C++ memory{under}{named}{f' ({by})' if by else ''}"


def _shorten(function: str) -> str:
    """Return `Graph::Clone` of `tensorflow::Graph::Clone()`."""
    name = re.sub(r"\(anonymous namespace\)::", "", function).partition("(")[0]
    return re.sub(r"<.*", "", name).removeprefix("tensorflow::").strip()
