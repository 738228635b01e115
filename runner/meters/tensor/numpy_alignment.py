"""Have TensorFlow copy every array of NumPy's that becomes a tensor, so that each counts once.

TensorFlow takes an array over, and asks its allocator for nothing, where the array's memory begins
at a multiple of 64 bytes (`EIGEN_MAX_ALIGN_BYTES`, in `TF_NewTensor`); else it copies it. Where
malloc puts an array is chance: four arrays of 400 kB that a step held were read as 0.4 to 1.6 MB,
and differed from command to command.

So what begins at a multiple of 64 is copied at the doors where Python hands it over; and what a
door makes of an array (another dtype, another order) begins elsewhere, too. For that NumPy has
another data handler within a door (NEP 49, https://numpy.org/neps/nep-0049.html):

    the program                                          NumPy's own memory, as in plain Python
      a door: TensorFlow converts an array               blocks that begin between multiples of 64
        the program, called from there (py_function)     NumPy's own again

Of the handler only `malloc` is Python. The others are CPython's own functions: NumPy calls `free`
while an exception is pending, which Python that ran then would swallow.

Host memory then holds some arrays twice, for a moment or for good; the tensors of the trial have
each once, and host figures come from other trials. It is for a whole process, to its end.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

ALIGNMENT = 64

_SET_HANDLER, _DEFAULT_HANDLER = 304, 306
"""The places of `PyDataMem_SetHandler` and `PyDataMem_DefaultHandler` in NumPy's C API, since 1.22.
"""

_MOST_TRIES = 256
"""Of glibc's blocks one in four is aligned; those that are given back come first the next time. Of
jemalloc's large blocks each is."""

# PYFUNCTYPE keeps Python's lock, which NumPy's own functions do as well.
_Malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_Free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class _Allocator(ctypes.Structure):
    """CPython's `PyMemAllocatorEx`, and the end of NumPy's `PyDataMem_Handler`. NumPy hands `free`
    the block's size as well, which CPython's does not read."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")
    )


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", _Allocator),
    )


class UnalignedMemory:
    """NumPy's memory while TensorFlow converts arrays: blocks begin between multiples of 64."""

    def __init__(self) -> None:
        """Raise `RuntimeError` where this NumPy keeps its memory in a way that is not known."""
        core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
        api = importlib.import_module(f"{core}._multiarray_umath")._ARRAY_API
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype = ctypes.c_void_p
        get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        make_capsule = ctypes.pythonapi.PyCapsule_New
        make_capsule.restype = ctypes.py_object
        make_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

        entries = ctypes.cast(get_pointer(api, None), ctypes.POINTER(ctypes.c_void_p))
        place = ctypes.cast(entries[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))
        self._numpys: object = place[0]
        default = _Handler.from_address(get_pointer(self._numpys, b"mem_handler"))
        if (default.name, default.version) != (b"default_allocator", 1):
            raise RuntimeError(
                f"NumPy {np.__version__} keeps its memory in a way that is not known"
            )

        raw = _Allocator()
        raw_domain = 0  # PYMEM_DOMAIN_RAW: malloc, or what watches it (PYTHONMALLOC, tracemalloc)
        ctypes.pythonapi.PyMem_GetAllocator(raw_domain, ctypes.byref(raw))
        # Python may end with arrays that are freed by this: so it must never go.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        self._malloc = _Malloc(_make_malloc(_Malloc(raw.malloc), _Free(raw.free)))
        malloc = ctypes.cast(self._malloc, ctypes.c_void_p).value
        own = _Allocator(raw.context, malloc, raw.calloc, raw.realloc, raw.free)
        self._handler = _Handler(b"between_multiples_of_64", 1, own)
        self._ours = make_capsule(ctypes.addressof(self._handler), b"mem_handler", None)
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(entries[_SET_HANDLER])

    @contextmanager
    def use(self, *, numpys: bool = False) -> Iterator[None]:
        """Have this thread's arrays in this memory; or in NumPy's own, within such a block."""
        before = self._set(self._numpys if numpys else self._ours)
        try:
            yield
        finally:
            self._set(before)


def _make_malloc(malloc: Any, free: Any) -> Callable[[int | None, int], int | None]:
    def malloc_unaligned(context: int | None, size: int) -> int | None:
        aside: list[int] = []
        block: int | None = malloc(context, size)
        while block and block % ALIGNMENT == 0 and len(aside) < _MOST_TRIES:
            aside.append(block)
            # Of four sizes in turn: blocks of one size may all lie a multiple of 64 apart.
            block = malloc(context, size + 16 * (len(aside) % 4))
        for unused in aside:
            free(context, unused)
        return block

    return malloc_unaligned


_memories: list[UnalignedMemory] = []
"""The one of the process, once it is installed."""


def install() -> None:
    """Have every array copied from now on, on every thread. Raise `RuntimeError` where this NumPy's
    memory can't be had; then arrays count or not as it happens."""
    if not _memories:
        _memories.append(UnalignedMemory())
        _guard_doors(_memories[0])


def copy_if_aligned(value: Any) -> Any:
    """Return a copy, of an array of numbers that TensorFlow may take over, or would bring in order
    first; else the value itself."""
    array = value
    if _has_array(value) and not isinstance(value, np.ndarray | np.generic):
        with suppress(Exception):  # it is TensorFlow's to say what is wrong with it
            array = value.__array__()
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufcV" or not array.size:
        return value
    is_aligned = array.__array_interface__["data"][0] % ALIGNMENT == 0
    return array.copy() if is_aligned or not array.flags.c_contiguous else value


def _has_array(value: Any) -> bool:
    """Return whether TensorFlow would read an array out of it: out of a pandas series, say."""
    return hasattr(value, "__array__") and not hasattr(value, "__tf_tensor__")


def _guard_doors(memory: UnalignedMemory) -> None:
    """Wrap the functions by which Python hands arrays to TensorFlow's runtime."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.framework import constant_op
    from tensorflow.python.ops import script_ops

    def wrap(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        plain = getattr(owner, name)
        setattr(owner, name, functools.wraps(plain)(make(plain)))

    def guard_conversion(convert: Any) -> Callable[..., Any]:
        def through(*args: Any, **kwargs: Any) -> Any:
            with memory.use():
                return convert(*map(copy_if_aligned, args), **kwargs)

        return through

    def guard_op(execute: Any) -> Callable[..., Any]:
        def through(*args: Any) -> Any:
            if not any(map(_is_numpys, args)):
                return execute(*args)
            with memory.use():
                return execute(*map(_copy_arrays, args))

        return through

    def guard_feeds(run: Any) -> Callable[..., Any]:
        def through(session: Any, options: Any, feeds: Any, *rest: Any) -> Any:
            with memory.use():
                copied = _copy_arrays(feeds)
            return run(session, options, copied, *rest)

        return through

    def leave_memory(call: Any) -> Callable[..., Any]:
        def through(*args: Any) -> Any:
            with memory.use(numpys=True):
                return call(*args)

        return through

    def guard_result(convert: Any) -> Callable[..., Any]:
        def through(*args: Any, **kwargs: Any) -> Any:
            with memory.use():
                return copy_if_aligned(convert(*args, **kwargs))

        return through

    wrap(constant_op, "convert_to_eager_tensor", guard_conversion)
    wrap(pywrap_tfe, "TFE_Py_FastPathExecute", guard_op)
    for name in ("TF_SessionRun_wrapper", "TF_SessionPRun_wrapper", "TF_SessionRunCallable"):
        wrap(pywrap_tf_session, name, guard_feeds)
    wrap(script_ops.FuncRegistry, "__call__", leave_memory)
    plain = script_ops.FuncRegistry._convert
    script_ops.FuncRegistry._convert = staticmethod(guard_result(plain))


def _is_numpys(argument: Any) -> bool:
    """Return whether an op's argument has an array or is NumPy's number; or a list with such."""
    if isinstance(argument, list | tuple):
        return any(map(_has_array, argument))
    return _has_array(argument)


def _copy_arrays(argument: Any) -> Any:
    if isinstance(argument, dict):
        return {key: copy_if_aligned(value) for key, value in argument.items()}
    if type(argument) in (list, tuple):
        return type(argument)(map(copy_if_aligned, argument))
    return copy_if_aligned(argument)
