"""Have TensorFlow copy every array of NumPy's that becomes a tensor, so that each counts once.

TensorFlow takes an array over, and asks its allocator for nothing, where the array's memory begins
at a multiple of 64 bytes (`EIGEN_MAX_ALIGN_BYTES`, in `TF_NewTensor`); else it copies it. Where
malloc puts an array is chance: four arrays of 400 kB that a step held were read as 0.4 to 1.6 MB,
and differed from command to command. So each block of NumPy's begins 16 bytes beyond a multiple:

    multiples of 64    |               |               |               |
    malloc's block          [-----------------------------------------]
    NumPy's array                          [---------------------]         TensorFlow copies it

NumPy asks a data handler for memory (NEP 49, https://numpy.org/neps/nep-0049.html). Which one is a
matter of the thread's context, and threads of TensorFlow's that call Python have a new one: so the
functions of NumPy's default handler are replaced, where every thread finds them. Arrays that were
there before go back to the function that they came from.

What is not a block of NumPy's may begin anywhere: a slice, a mapped file, an array that was there
before. Such a one is copied at the doors where Python hands it over. Host memory then holds some
arrays twice, for a moment or for good; the tensors of the trial have each once, and host figures
come from other trials.

It is for a whole process, to its end.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

ALIGNMENT = 64
_BEYOND = 16
"""The alignment of malloc's blocks, and of the widest of NumPy's types."""

_DEFAULT_HANDLER = 306
"""The place of `PyDataMem_DefaultHandler` in NumPy's C API, since 1.22."""

_Malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_Calloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Realloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", _Malloc),
        ("calloc", _Calloc),
        ("realloc", _Realloc),
        ("free", _Free),
    )


_installed: list[object] = []
"""The functions that C calls, kept for as long as the process lives."""


def install() -> None:
    """Have every array copied from now on, on every thread. Raise `RuntimeError` where this NumPy's
    memory can't be had; then arrays count or not as it happens."""
    if not _installed:
        _installed.extend(_replace_functions(_find_handler()))
        _guard_doors()


def _find_handler() -> _Handler:
    core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    module = importlib.import_module(f"{core}._multiarray_umath")
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    functions = ctypes.cast(get_pointer(module._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    place = ctypes.cast(functions[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))
    handler = _Handler.from_address(get_pointer(place[0], b"mem_handler"))
    if (handler.name, handler.version) != (b"default_allocator", 1):
        raise RuntimeError(f"NumPy {np.__version__} keeps its memory in a way that is not known")
    return handler


def _replace_functions(handler: _Handler) -> tuple[object, ...]:
    """Put blocks between multiples of the alignment; return what must stay alive for that.

    The functions are called under Python's lock. They must not raise, nor make an array.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.calloc.restype = libc.realloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    # Functions of their own: fields of the structure read what it has now.
    old_realloc, old_free = (
        kind(ctypes.cast(function, ctypes.c_void_p).value or 0)
        for kind, function in ((_Realloc, handler.realloc), (_Free, handler.free))
    )
    blocks: dict[int, int] = {}
    """By where NumPy's array begins, where malloc's block does."""

    def place(block: int | None) -> int | None:
        if not block:
            return None  # no memory is left
        # Up to the next multiple of 64, then 16 more: 64 + 16 bytes more than asked for always do.
        at = -(-block // ALIGNMENT) * ALIGNMENT + _BEYOND
        blocks[at] = block
        return at

    def malloc(context: int | None, size: int) -> int | None:
        return place(libc.malloc(size + ALIGNMENT + _BEYOND))

    def calloc(context: int | None, count: int, size: int) -> int | None:
        return place(libc.calloc(1, count * size + ALIGNMENT + _BEYOND))

    def realloc(context: int | None, at: int, size: int) -> int | None:
        block = blocks.pop(at, None)
        if block is None:
            moved = old_realloc(context, at, size)
            return int(moved) if moved else None
        moved = libc.realloc(block, size + ALIGNMENT + _BEYOND)
        if not moved:
            blocks[at] = block
            return None
        offset, now = at - block, place(moved)
        assert now is not None
        if now - moved != offset:  # realloc has kept the distance to its block, not to 64
            ctypes.memmove(now, moved + offset, size)
        return now

    def free(context: int | None, at: int, size: int) -> None:
        block = blocks.pop(at, None)
        if block is None:
            old_free(context, at, size)
        else:
            libc.free(block)

    new = (_Malloc(malloc), _Calloc(calloc), _Realloc(realloc), _Free(free))
    handler.malloc, handler.calloc, handler.realloc, handler.free = new
    # When Python is taken down, nothing of its can be called: what then goes is left to the kernel.
    nothing = _Free(ctypes.cast(libc.getpid, ctypes.c_void_p).value or 0)
    atexit.register(setattr, handler, "free", nothing)
    return (*new, old_realloc, old_free, nothing)


def copy_if_aligned(value: Any) -> Any:
    """Return a copy that TensorFlow will copy, of an array of numbers that it may take over; else
    the value itself."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufcV":
        return value
    is_aligned = value.__array_interface__["data"][0] % ALIGNMENT == 0
    return value.copy(order="K") if is_aligned and value.size else value


def _guard_doors() -> None:
    """Wrap the functions by which Python hands arrays to TensorFlow's runtime."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.framework import constant_op
    from tensorflow.python.ops import script_ops

    def wrap(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        plain = getattr(owner, name)
        setattr(owner, name, functools.wraps(plain)(make(plain)))

    def guard_arguments(enter: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: enter(*map(copy_if_aligned, args), **kwargs)

    def guard_result(make: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: copy_if_aligned(make(*args, **kwargs))

    def guard_feeds(run: Any) -> Callable[..., Any]:
        def through(session: Any, options: Any, feeds: dict[Any, Any], *rest: Any) -> Any:
            copied = {key: copy_if_aligned(value) for key, value in feeds.items()}
            return run(session, options, copied, *rest)

        return through

    wrap(constant_op, "convert_to_eager_tensor", guard_arguments)
    wrap(pywrap_tfe, "TFE_Py_FastPathExecute", guard_arguments)
    wrap(pywrap_tf_session, "TF_SessionRun_wrapper", guard_feeds)
    plain = script_ops.FuncRegistry._convert
    script_ops.FuncRegistry._convert = staticmethod(guard_result(plain))
