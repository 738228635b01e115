"""A function of the user's, on its way to the processes that measure it.

It goes by its import path wherever another process finds that, or else by value (`cloudpickle`),
with the text of the cells that it was written in: in the pipe that starts a child, and nowhere
else. No record and no store holds one, and none is ever read from a file.

What a copy would not share is refused, as are things that can't be copied, by the name that the
function knows them by. Neither cloudpickle nor TensorFlow is imported before it is needed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import linecache
import os
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

from runner.errors import BadInput, get_first_line

Target = Callable[..., Any] | str
"""A function, or an import path of one: `my_module:my_step`."""

_MAKE_INSIDE = (
    "Make it in a function that returns the step, and measure that function: "
    "def make_step(): {name} = ...; return lambda: ..."
)


@dataclass(frozen=True)
class PickledFunction:
    """A function by value, of a script, a notebook or a REPL: no module has it."""

    target: str
    """The name that a record calls it by: `__main__:step`."""
    pickled: bytes = field(repr=False)
    signature: inspect.Signature | None
    """Its arguments, without their defaults; None where Python can't read them."""
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The text of code that no file has: `In[3]` -> the cell."""
    files: tuple[str, ...] = ()
    """The files that its code comes from."""

    def load(self) -> Any:
        """Return the function, in the child; raise `BadInput` where it can't be made there.

        Its tensors are made anew, on the device and under the meter that it is measured with. Its
        lines are known as if they stood in files.
        """
        for name, text in self.sources.items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            return pickle.loads(self.pickled)
        except Exception as error:
            raise BadInput(
                f"{self.target}: can't be made again in the process that measures "
                f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}).",
                "Make what it uses in a function that returns the step, and measure that function.",
            ) from error


def make_tensor(value: Any) -> Any:
    """Return a tensor with this value, in memory that the allocator was asked for.

    TensorFlow takes over an array's own memory where that is aligned by chance, and then counts
    nothing; a copy is always counted.
    """
    import tensorflow as tf

    tensor = tf.constant(value)
    return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)


def make_variable(value: Any, trainable: bool, name: str) -> Any:
    import tensorflow as tf

    return tf.Variable(make_tensor(value), trainable=trainable, name=name)


def pickle_function(step: Target) -> tuple[str, PickledFunction | None]:
    """Return the name that a record calls the function by, and its copy where no import path finds
    it; raise `BadInput` where it can't be copied."""
    if isinstance(step, str):
        return step, None
    if not callable(step):
        raise BadInput(
            f"step: {type(step).__name__} is not a function.",
            "Give a function that does one step, or one that returns such a function.",
        )
    path = _import_path(step)
    if path is not None and _is_importable(path):
        return path, None
    inner = step.func if isinstance(step, functools.partial) else step
    module = getattr(inner, "__module__", None) or "__main__"
    name = f"{module}:{getattr(inner, '__qualname__', type(inner).__name__)}"
    with _copy_module(step):
        try:
            pickled, sources, files = _pickle(step)
        except Exception as error:
            raise _explain_refusal(name, step, error) from None
    return name, PickledFunction(name, pickled, _read_signature(step), sources, files)


def _import_path(step: Any) -> str | None:
    """Return `module:name` if the function stands there."""
    module, name = getattr(step, "__module__", None), getattr(step, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    there = getattr(sys.modules.get(module), name, None)
    return f"{module}:{name}" if there is step and name.isidentifier() else None


def _is_importable(path: str) -> bool:
    """Return whether another process finds the module, too: below a folder of `sys.path`."""
    module = path.partition(":")[0]
    file = getattr(sys.modules[module], "__file__", None)
    if not file:
        return False
    source = Path(file).resolve()
    above = source.parent if source.name == "__init__.py" else source
    root = above.parents[module.count(".")]
    known = {Path(entry or ".").resolve() for entry in [*sys.path, os.getcwd()]}  # noqa: PTH109
    return root in known


@contextlib.contextmanager
def _copy_module(step: Any) -> Iterator[None]:
    """Have a module that no other process finds copied with its function."""
    import cloudpickle

    module = sys.modules.get(str(getattr(step, "__module__", "")))
    if module is None or module.__name__ == "__main__" or _is_importable(module.__name__):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


class _NotCopied(Exception):
    """Something could be copied, and should not be."""


def _pickle(value: Any) -> tuple[bytes, dict[str, str], tuple[str, ...]]:
    """Return a value by value, the text of its code that no file has, and the files of the rest."""
    import cloudpickle

    sources: dict[str, str] = {}
    files: dict[str, None] = {}
    known = cloudpickle.Pickler.dispatch_table

    def reduce_code(code: CodeType) -> Any:
        file = code.co_filename
        if Path(file).is_file():
            name = str(Path(file).resolve())
            files[name] = None
        else:
            name = _cell_name(file)
            sources[name] = "".join(linecache.getlines(file))
        return known[CodeType](code.replace(co_filename=name))

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar[Any] = ChainMap({CodeType: reduce_code}, known)

        def reducer_override(self, obj: Any) -> Any:
            return _reduce_tensorflow(obj) or super().reducer_override(obj)

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue(), sources, tuple(files)


def _reduce_tensorflow(obj: Any) -> Any:
    """Return how to make a tensor, a variable or a `tf.function` again; None for anything else."""
    tf = sys.modules.get("tensorflow")
    if tf is None or isinstance(obj, FunctionType | type | ModuleType):
        return None
    names = {base.__name__ for base in type(obj).__mro__ if base.__module__.startswith("keras.")}
    if names & {"KerasSaveable", "KerasVariable", "Variable"} and "Loss" not in names:
        raise _NotCopied("a copy has weights of its own")
    if isinstance(obj, tf.Variable):
        return make_variable, (obj.numpy(), obj.trainable, obj.name.partition(":")[0])
    if isinstance(obj, tf.Tensor) and hasattr(obj, "numpy"):
        return make_tensor, (obj.numpy(),)
    kind = tf.types.experimental.PolymorphicFunction
    if isinstance(obj, kind) and hasattr(obj, "_clone"):
        return obj._clone(None).__reduce_ex__(4)  # without its traces
    return None


def _explain_refusal(name: str, step: Any, error: Exception) -> BadInput:
    for used, value in _list_used(step):
        try:
            _pickle(value)
        except Exception as reason:
            return BadInput(
                f"{name}: uses {used!r}, a {type(value).__name__}, which can't be sent to the "
                f"process that measures ({get_first_line(reason)[:200]}).",
                _MAKE_INSIDE.format(name=used),
            )
    return BadInput(
        f"{name}: can't be sent to the process that measures ({get_first_line(error)[:200]}).",
        "Put it into a module of its own, or make what it uses in a function that returns the "
        "step, and measure that function.",
    )


def _list_used(step: Any) -> Iterator[tuple[str, Any]]:
    """Yield everything that a function uses from around it, by name."""
    function = inspect.unwrap(getattr(step, "python_function", getattr(step, "func", step)))
    if (owner := getattr(function, "__self__", None)) is not None:
        yield from getattr(owner, "__dict__", {}).items()
    with contextlib.suppress(TypeError, ValueError):
        closure = inspect.getclosurevars(function)
        yield from {**closure.globals, **closure.nonlocals}.items()


def _read_signature(step: Any) -> inspect.Signature | None:
    try:
        known = inspect.signature(step)
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            parameter.replace(
                default=empty if parameter.default is empty else None, annotation=empty
            )
            for parameter in known.parameters.values()
        ]
    )


def _cell_name(file: str) -> str:
    """Return a notebook's cell as the notebook calls it, `In[3]`.

    IPython gives each cell a file name that no disk has.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"In[{numbers[file]}]" if file in numbers else file
