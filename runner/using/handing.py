"""A function in the user's process -> how the child gets it: by its import path wherever that finds
it, or else by value (`cloudpickle`), with the text of the cells that it was written in.

What holds state that a copy would not share is refused, and what can't be copied, by the name that
the function knows it by. TensorFlow is never imported for that: where it is not loaded, nothing of
it can be there.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import linecache
import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle

from runner.errors import BadInput
from runner.sent import Sent
from runner.trial import received

Step = Callable[..., Any] | str
"""A function, or an import path of one: `my_module:my_step`."""

_MAKE_INSIDE = (
    "Make it in a function that returns the step, and measure that function: "
    "def make_step(): {name} = ...; return lambda: ..."
)


def handed(step: Step) -> tuple[str, Sent | None]:
    """What the record calls it, and what is to be sent; None where its import path is enough."""
    if isinstance(step, str):
        return step, None
    if not callable(step):
        raise BadInput(
            f"step: {type(step).__name__} is not a function.",
            "Give a function that does one step, or one that returns such a function.",
        )
    path = _import_path(step)
    if path is not None and _is_found(path):
        return path, None
    return _named(step), _by_value(step)


def _import_path(step: Any) -> str | None:
    """`module:name`, if that is where it stands."""
    module, name = getattr(step, "__module__", None), getattr(step, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    there = getattr(sys.modules.get(module), name, None)
    return f"{module}:{name}" if there is step and name.isidentifier() else None


def _is_found(path: str) -> bool:
    """Whether another process finds the module, too: below a folder of `sys.path`."""
    module = path.partition(":")[0]
    file = getattr(sys.modules[module], "__file__", None)
    if not file:
        return False
    source = Path(file).resolve()
    above = source.parent if source.name == "__init__.py" else source
    root = above.parents[module.count(".")]
    known = {Path(each or ".").resolve() for each in [*sys.path, os.getcwd()]}  # noqa: PTH109
    return root in known


def _named(step: Any) -> str:
    inner = step.func if isinstance(step, functools.partial) else step
    module = getattr(inner, "__module__", None) or "__main__"
    return f"{module}:{getattr(inner, '__qualname__', type(inner).__name__)}"


def _by_value(step: Any) -> Sent:
    name = _named(step)
    with _as_values(step):
        try:
            pickled, sources, files = _pickled(step)
        except Exception as error:
            raise _refused(name, step, error) from None
    return Sent(name, pickled, _signature(step), sources, files)


@contextlib.contextmanager
def _as_values(step: Any) -> Iterator[None]:
    """A module that no other process finds goes with its function."""
    module = sys.modules.get(str(getattr(step, "__module__", "")))
    known = module is None or module.__name__ == "__main__"
    if known or module is None or _is_found(f"{module.__name__}:"):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


class _NotSent(Exception):
    """Of something that could be copied, and should not be."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Notes where each piece of code comes from, and looks at what TensorFlow has made."""

    def __init__(self, file: io.BytesIO) -> None:
        self.sources: dict[str, str] = {}
        self.files: dict[str, None] = {}
        known = cloudpickle.Pickler.dispatch_table
        self._reduce_code = known[CodeType]
        self.dispatch_table = ChainMap({CodeType: self._code}, known)  # which `__init__` reads
        super().__init__(file)

    def reducer_override(self, obj: Any) -> Any:
        if reduced := _of_tensorflow(obj):
            return reduced
        return super().reducer_override(obj)

    def _code(self, code: CodeType) -> Any:
        file = code.co_filename
        if Path(file).is_file():
            whole = str(Path(file).resolve())
            self.files[whole] = None
            return self._reduce_code(code.replace(co_filename=whole))
        name = cell_name(file)
        self.sources[name] = "".join(linecache.getlines(file))
        return self._reduce_code(code.replace(co_filename=name))


def _pickled(value: Any) -> tuple[bytes, dict[str, str], tuple[str, ...]]:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    pickler.dump(value)
    return buffer.getvalue(), pickler.sources, tuple(pickler.files)


def _of_tensorflow(obj: Any) -> Any:
    """How to make a tensor, a variable or a `tf.function` again; None for anything else."""
    tf = sys.modules.get("tensorflow")
    if tf is None or isinstance(obj, FunctionType | type | ModuleType):
        return None
    if _is_of_keras(type(obj)):
        raise _NotSent("a copy has weights of its own")
    if isinstance(obj, tf.Variable):
        return received.variable, (obj.numpy(), obj.trainable, obj.name.partition(":")[0])
    if isinstance(obj, tf.Tensor) and hasattr(obj, "numpy"):
        return received.tensor, (obj.numpy(),)
    kind = tf.types.experimental.PolymorphicFunction
    if isinstance(obj, kind) and hasattr(obj, "_clone"):
        return obj._clone(None).__reduce_ex__(4)  # without its traces
    return None


def _is_of_keras(kind: type) -> bool:
    """Something with weights or a state of its own; a loss has none."""
    names = {base.__name__ for base in kind.__mro__ if base.__module__.startswith("keras.")}
    return bool(names & {"KerasSaveable", "KerasVariable", "Variable"}) and "Loss" not in names


def _refused(name: str, step: Any, error: Exception) -> BadInput:
    for known, value in _used(step):
        try:
            _pickled(value)
        except Exception as reason:
            kind = type(value).__name__
            return BadInput(
                f"{name}: uses {known!r}, a {kind}, which can't be sent to the process that "
                f"measures ({_first_line(reason)}).",
                _MAKE_INSIDE.format(name=known),
            )
    return BadInput(
        f"{name}: can't be sent to the process that measures ({_first_line(error)}).",
        "Put it into a module of its own, or make what it uses in a function that returns the "
        "step, and measure that function.",
    )


def _used(step: Any) -> Iterator[tuple[str, Any]]:
    """What a function uses from around it, by name."""
    function = inspect.unwrap(getattr(step, "python_function", getattr(step, "func", step)))
    if (owner := getattr(function, "__self__", None)) is not None:
        yield from getattr(owner, "__dict__", {}).items()
    with contextlib.suppress(TypeError, ValueError):
        found = inspect.getclosurevars(function)
        yield from {**found.globals, **found.nonlocals}.items()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _signature(step: Any) -> inspect.Signature | None:
    try:
        known = inspect.signature(step)
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            each.replace(default=empty if each.default is empty else None, annotation=empty)
            for each in known.parameters.values()
        ]
    )


def cell_name(file: str) -> str:
    """A notebook's cell as the notebook calls it, `In[3]`; IPython gives each a file name that no
    disk has."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"In[{numbers[file]}]" if file in numbers else file
