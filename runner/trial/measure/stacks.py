"""What a stack says of an allocation that stayed: what kind of memory, whose line, of what.

Core: standard library only; whose code a file is (`owner`) is passed in.

The kind is told by evidence, the most telling first: XLA's or LLVM's functions on the native stack
made an executable; what makes tensors made a tensor; a Python frame of the machinery
that builds graphs made part of a graph. What is left is native memory where TensorFlow's Python
code, or no Python code at all, asked for it, and Python's else: objects, and the memory of
extensions that the user's line called by itself, NumPy's arrays above all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.records import THREAD_START

Frame = tuple[str, str, int]
"""Function, file, line."""

_EXECUTABLE = re.compile(r"\b(xla|llvm|mlir)::|\bXla(Compil|Device|Context)\w*::")
_TENSOR = re.compile(
    r"\bAllocator::AllocateRaw\b|^tensorflow::Tensor::Tensor\(|\bTensorHandle::Create|TensorBuffer"
    r"|^EagerTensor(FromHandle|_init)|^tensorflow::ConvertToEagerTensor"
)
"""Its bytes, its handle in C++, and its object in Python: all three are there while it is."""
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


def place(
    python: Sequence[Frame],
    native: Sequence[str],
    of_python: bool,
    owner: Callable[[str], str],
) -> Place | None:
    """`python` and `native` frames, the innermost first; `of_python` where Python's own allocator
    was asked. None for what the runner itself allocated, and for names in Python's cache."""
    owners = [owner(file) for _, file, _ in python]
    if owners[:1] == ["runner"] or (of_python and _is_cached_name(native)):
        return None
    at = _theirs(owners)
    inside = python[:at] if at is not None else python
    kind = _kind(inside, native, of_python, at is not None)
    what = _what(kind, inside, native)
    if at is None:
        started = kind == "python" and _in_a_python_thread(native)
        return Place(kind, None, None, THREAD_START if started else what)
    _, file, line = python[at]
    return Place(kind, file, line, what)


def _is_cached_name(native: Sequence[str]) -> bool:
    """A name that C++ looks an attribute up by is a new string each time, and Python's cache of
    attributes holds the last 4,096 of them: 262 kB at most, but it takes thousands of steps."""
    return next(iter(native), "") == "PyUnicode_New" and any(
        "AttrString" in name for name in native[:6]
    )


def _theirs(owners: Sequence[str]) -> int | None:
    """The innermost frame of the user; else of a scenario; else of the installed package that the
    runner called."""
    for wanted in ("the user", "scenarios"):
        if wanted in owners:
            return owners.index(wanted)
    packages = [at for at, name in enumerate(owners) if name not in ("runner", "Python")]
    return packages[-1] if packages and owners[packages[-1]] not in _TENSORFLOWS else None


_TENSORFLOWS = ("tensorflow", "keras", "numpy")


def _kind(inside: Sequence[Frame], native: Sequence[str], of_python: bool, known: bool) -> str:
    if any(_EXECUTABLE.search(name) for name in native):
        return "executable"
    if any(_TENSOR.search(name) for name in native):
        return "tensor"
    if any(_TRACING.search(file) or name in _MAKES_OPS for name, file, _ in inside):
        return "graph"
    if of_python or (not known and _in_a_python_thread(native)):
        return "python"
    return "native" if not known or _through_tensorflow(inside, native) else "python"


def _through_tensorflow(inside: Sequence[Frame], native: Sequence[str]) -> bool:
    """An op has Python frames of TensorFlow's; its objects' methods (`tensor + 1`) may not."""
    return any("/tensorflow/" in file for _, file, _ in inside) or any(
        name.startswith(("tensorflow::", "TFE_", "TF_")) for name in native
    )


def _in_a_python_thread(native: Sequence[str]) -> bool:
    """What Python itself takes for a thread, before any line of it runs."""
    return any(name.startswith(("thread_run", "_PyEval", "PyThread")) for name in native) and not (
        _through_tensorflow((), native)
    )


def _what(kind: str, inside: Sequence[Frame], native: Sequence[str]) -> str:
    called = _called(inside) if kind != "graph" or not _of_a_function(inside) else None
    op = next((name for name, file, _ in inside if _GENERATED.search(file)), None)
    op = op and op.removesuffix("_eager_fallback")
    under = f" under {called}" if called else ""
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
    by = next((_short(name) for name in native if not _BY_THE_WAY.search(name)), None)
    named = f", op {op}" if op and op != called else ""
    return f"C++ memory{under}{named}{f' ({by})' if by else ''}"


def _called(inside: Sequence[Frame]) -> str | None:
    """The library's function that the user's line called."""
    return next((name for name, _, _ in reversed(inside) if not _NO_NAME.search(name)), None)


def _of_a_function(inside: Sequence[Frame]) -> bool:
    """Whether a `tf.function` is traced, which is told by its name where it is known."""
    return any("/polymorphic_function/" in file for _, file, _ in inside)


def _short(function: str) -> str:
    """`Graph::Clone` of `tensorflow::Graph::Clone()`."""
    name = re.sub(r"\(anonymous namespace\)::", "", function).partition("(")[0]
    return re.sub(r"<.*", "", name).removeprefix("tensorflow::").strip()
