"""Who holds what stays: containers that grow from step to step, and how a person reaches them.

Between two looks some steps are taken, under Python's own tracer of allocations, which says of any
object which lines made it. A container that is longer by an element every other step at least has
kept something; its newest elements name the lines. From it the referrers are followed upwards to
something that has a name: a variable of a module or of a running function, an attribute of a class,
a variable that the step closes over, a thread. Where nothing grows, as in a chain of objects each
of which holds the next, it is the objects of the type that multiplies whose referrers are followed.
"""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import sys
import threading
import tracemalloc
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from runner.trial.owners import SCENARIO, USERS, owner

_CONTAINERS = (list, dict, set, deque)
"""And what is derived from them."""
_MOST_FRAMES = 100
"""Of a traceback: Keras and TensorFlow lie between the user's line and an object."""
_MOST_HOLDERS = 12
_MOST_LEVELS = 14
_MOST_IN_LEVEL = 40
_MOST_INSIDE = 3000

Line = tuple[str, int]


@dataclass(frozen=True)
class _Look:
    """What there was at one moment: how long each container was, by its identity, and how many
    objects of each type."""

    lengths: dict[int, int]
    known: frozenset[int]
    types: Counter[type]


@dataclass
class Holders:
    """`begin`, some steps, `end`."""

    _before: _Look | None = None
    _traces: dict[int, int] = field(default_factory=dict)

    def begin(self) -> None:
        gc.unfreeze()  # what TensorFlow made as it was imported may hold things, too
        self._traces = {id(each): _traced(each) for each in _functions(gc.get_objects())}
        self._before = _look()
        tracemalloc.start(_MOST_FRAMES)  # last: under it the look takes four times as long

    def end(self, steps: int, step: Any) -> dict[str, Any]:
        """What grew in those steps, and through what it is reached. `step` is the step itself."""
        before = self._before
        assert before is not None
        gc.collect()
        objects = gc.get_objects()
        chains = _Chains(step)
        told = (
            _told(each, grown, steps, before, chains)
            for each, grown in _grown(objects, before, steps)
        )
        found = [each for each in told if each is not None]
        functions = list(_retraced(objects, self._traces, steps))
        if not found:
            found = list(_multiplied(objects, before, steps, chains))
        tracemalloc.stop()
        return {"containers": found, "functions": functions}


def _look() -> _Look:
    gc.collect()
    objects = gc.get_objects()
    return _Look(
        {id(each): _length(each) for each in _containers(objects)},
        frozenset(map(id, objects)),
        Counter(map(type, objects)),
    )


def _containers(objects: list[Any]) -> list[Any]:
    """Of those that the collector knows, and the mappings that they refer to: one of names to
    arrays or numbers it needn't know."""
    kinds = {each for each in set(map(type, objects)) if issubclass(each, _CONTAINERS)}
    found = {id(each): each for each in objects if type(each) in kinds}
    for each in gc.get_referents(*objects):
        if type(each) in _MAPPINGS and id(each) not in found:
            found[id(each)] = each
    return list(found.values())


_MAPPINGS = {dict, OrderedDict, defaultdict, Counter}


def _length(container: Any) -> int:
    """A class derived from one may count otherwise."""
    base = next(each for each in _CONTAINERS if isinstance(container, each))
    return base.__len__(container)


def _grown(objects: list[Any], before: _Look, steps: int) -> list[tuple[Any, int]]:
    """The containers that were there before and are longer by an element every other step."""
    longer = [
        (each, _length(each) - before.lengths[id(each)])
        for each in _containers(objects)
        if id(each) in before.lengths
    ]
    kept = [(each, grown) for each, grown in longer if grown >= max(2, steps / 2)]
    return sorted(kept, key=lambda pair: -pair[1])[:_MOST_HOLDERS]


def _told(
    container: Any, grown: int, steps: int, before: _Look, chains: _Chains
) -> dict[str, Any] | None:
    """None where only weak references are kept, or where nobody knows the way to it."""
    newest = list(_newest(container, grown))
    chain = _threads(newest) if container is _RUNNING else chains.to(container)
    if chain is None or all(isinstance(each, weakref.ref) for each in newest):
        return None
    kinds = Counter(type(each).__name__ for each in newest).most_common(2)
    what = " and ".join(name for name, _ in kinds)
    rate = f"{grown / steps:.3g}"
    return {
        "grows_by": grown / steps,
        "of": what,
        "lines": sorted(_lines_within(newest, before)),
        "made_at": next(filter(None, (_born_at(each, before) for each in newest)), None),
        "chain": [*chain, f"{rate} {what} a step"],
    }


_RUNNING: dict[int, threading.Thread] = vars(threading)["_active"]


def _threads(newest: list[Any]) -> list[str]:
    """What a running thread runs is closer to a person than Python's own list of them."""
    target = getattr(newest[0], "_target", None)
    return [f"running threads of {_function(target)}" if target else "running threads"]


def _newest(container: Any, count: int) -> Iterator[Any]:
    """Of a mapping the values; sets have no order."""
    values = list(dict.values(container) if isinstance(container, dict) else container)
    return islice(reversed(values), min(count, 5))


def _lines_within(elements: list[Any], before: _Look) -> set[Line]:
    """The user's lines that made these, or what they hold and nobody held before."""
    lines: set[Line] = set()
    seen: set[int] = set()
    level = elements
    while level and len(seen) < _MOST_INSIDE:
        below: list[Any] = []
        for each in level:
            if id(each) in seen or id(each) in before.known or isinstance(each, type | _MODULE):
                continue
            seen.add(id(each))
            if line := _made_at(each):
                lines.add(line)
            below.extend(gc.get_referents(each))
        level = below[:_MOST_INSIDE]
    return lines


_MODULE = types.ModuleType


def _born_at(value: Any, before: _Look) -> Line | None:
    """Where it was made; or what it holds and nobody held before: an object whose attributes lie
    before it in memory, as Python 3.11 has them, tracemalloc does not find."""
    inside = (each for each in gc.get_referents(value) if id(each) not in before.known)
    return _made_at(value) or next(filter(None, map(_made_at, inside)), None)


def _made_at(value: Any) -> Line | None:
    """The innermost line of the user's that made it; else of a scenario."""
    trace = tracemalloc.get_object_traceback(value)
    if trace is None:
        return None
    lines = [(frame.filename, frame.lineno) for frame in reversed(trace)]
    for wanted in ("the user", "scenarios"):
        for file, line in lines:
            if owner(file) == wanted:
                return file, line
    return None


def _multiplied(
    objects: list[Any], before: _Look, steps: int, chains: _Chains
) -> Iterator[dict[str, Any]]:
    """For each type of which there is one more every other step: one of the newest."""
    more = Counter(map(type, objects))
    more.subtract(before.types)
    ranked = [(kind, count) for kind, count in more.most_common() if count >= max(2, steps / 2)]
    for kind, count in ranked[:_MOST_HOLDERS]:
        newest = [each for each in objects if type(each) is kind and id(each) not in before.known]
        made = [each for each in newest if _born_at(each, before)]
        ends = made[-1:] + made[:1]  # in a chain of them, one end is near to what has a name
        chain = min(filter(None, map(chains.to, ends)), key=len, default=None)
        if chain is not None:
            what = f"{count / steps:.3g} {kind.__name__} a step"
            yield {
                "grows_by": count / steps,
                "of": kind.__name__,
                "lines": sorted(_lines_within(made[-3:], before)),
                "chain": [*chain, what],
            }


# Function traces.


def _functions(objects: list[Any]) -> list[Any]:
    import tensorflow as tf

    functions = tf.types.experimental.PolymorphicFunction
    kinds = {each for each in set(map(type, objects)) if issubclass(each, functions)}
    return [each for each in objects if type(each) in kinds]


def _traced(function: Any) -> int:
    return int(function.experimental_get_tracing_count())


def _retraced(objects: list[Any], before: dict[int, int], steps: int) -> Iterator[dict[str, Any]]:
    """Functions that were traced again every other step, and those made anew that often."""
    anew: Counter[tuple[str, str | None, int | None]] = Counter()
    for each in _functions(objects):
        name, file, line = _function_name(each)
        if id(each) not in before:
            anew[name, file, line] += 1
            continue
        traces = _traced(each) - before[id(each)]
        if traces >= max(2, steps / 2):
            yield {
                "name": name,
                "file": file,
                "line": line,
                "traces_per_step": traces / steps,
                "differs": _what_differs(each),
            }
    for (name, file, line), count in anew.items():
        if count >= max(2, steps / 2):
            yield {
                "name": name,
                "file": file,
                "line": line,
                "made_per_step": count / steps,
                "differs": None,
            }


def _function_name(function: Any) -> tuple[str, str | None, int | None]:
    python = inspect.unwrap(function.python_function)
    code = getattr(python, "__code__", None)
    name = getattr(python, "__qualname__", repr(python)).rpartition(".")[2]
    return (name, _short(code.co_filename), code.co_firstlineno) if code else (name, None, None)


def _what_differs(function: Any) -> str | None:
    """The first argument that the last two traces don't have in common: `factor: 3.0, then 4.0`."""
    try:
        traces = function._list_all_concrete_functions()
        one, other = (each.function_type.parameters for each in traces[-2:])
    except (AttributeError, ValueError):  # TensorFlow's own, without a promise
        return None
    for name in one:
        if name in other and str(one[name].type_constraint) != str(other[name].type_constraint):
            return f"{name}: {_type(one[name])}, then {_type(other[name])}"
    return None


def _type(parameter: Any) -> str:
    text = str(parameter.type_constraint)
    text = text.replace(", name=None", "")
    return text.removeprefix("Literal[").removesuffix("]") if text.startswith("Literal[") else text


# Chains.


class _Chains:
    """Ways from something that has a name down to an object."""

    def __init__(self, step: Any) -> None:
        self._step = step
        spaces = [(name, getattr(each, "__dict__", None)) for name, each in sys.modules.items()]
        self._spaces = [names for _, names in spaces]  # kept, so that no other takes their identity
        self._modules = {id(names): name for name, names in spaces if type(names) is dict}
        self._names = {each.ident: each.name for each in threading.enumerate()}
        self._frames = {
            id(frame): (frame, self._names.get(thread))
            for thread, top in sys._current_frames().items()
            for frame in _stack(top)
        }
        self._ours = {id(frame) for frame, _ in self._frames.values() if _is_ours(frame)}

    def to(self, target: Any) -> list[str] | None:
        """What a person knows first; None where nothing with a name was found."""
        above: dict[int, tuple[Any, Any]] = {id(target): (target, None)}
        level = [target]
        for _ in range(_MOST_LEVELS):
            if not level:
                break
            for each in level:
                root = self._root(each, above)
                if root:
                    return [root, *self._down(each, above)]
            level = self._level_above(level, above)
        return None

    def _level_above(self, level: list[Any], above: dict[int, tuple[Any, Any]]) -> list[Any]:
        wanted = {id(each): each for each in level}
        found = []
        for referrer in gc.get_referrers(*level):
            if id(referrer) in above or self._is_mine(referrer, level, above):
                continue
            held = next(
                (wanted[id(e)] for e in gc.get_referents(referrer) if id(e) in wanted), None
            )
            if held is None:
                continue
            above[id(referrer)] = (referrer, held)
            found.append(referrer)
            if len(found) >= _MOST_IN_LEVEL:
                break
        return found

    def _is_mine(self, referrer: Any, level: list[Any], above: Any) -> bool:
        """This search's own frames and containers, and the runner's, which hold all there is."""
        return (
            referrer is level
            or referrer is above
            or referrer is self._frames
            or id(referrer) in self._ours
            or (isinstance(referrer, types.FrameType) and _is_ours(referrer))
            or (isinstance(referrer, list) and len(referrer) > 10_000)
        )

    def _root(self, each: Any, above: Mapping[int, tuple[Any, Any]]) -> str | None:
        """What it is to a person, where it is something that has a name by itself."""
        held = above[id(each)][1]
        if id(each) in self._modules and held is not None:
            return _in_module(self._modules[id(each)], each, held)
        if isinstance(each, types.FrameType):
            return self._local(each, held)
        if isinstance(each, threading.Thread):
            return f"thread {each.name!r}"
        if isinstance(each, type) and held is not None:
            return _of_class(each, _below(each, held, above))
        if each is self._step:
            return "the step"
        return None

    def _local(self, frame: types.FrameType, held: Any) -> str:
        code = frame.f_code
        name = _key_of(dict(frame.f_locals), held)
        thread = self._frames.get(id(frame), (None, None))[1]
        kind = f", a {type(held).__name__}" if name else ""
        where = f"{code.co_name} ({_short(code.co_filename)}:{code.co_firstlineno})"
        main = thread in (None, threading.main_thread().name)
        return f"`{name or '?'}`{kind} in {where}{'' if main else f', running in thread {thread}'}"

    def _down(self, root: Any, above: Mapping[int, tuple[Any, Any]]) -> list[str]:
        """How each holds the next; what has no name of its own is left out."""
        links = []
        each, held = above[id(root)]
        if isinstance(each, types.FrameType | type) or id(each) in self._modules:
            each, held = above[id(_below(each, held, above))]  # the root has named it already
        while held is not None:
            if isinstance(each, types.FunctionType) and held is each.__closure__:
                cell = above[id(held)][1]
                links.append(_closed_over(each, cell))
                each, held = above[id(cell)]
            else:
                held = _below(each, held, above)
                if link := _link(each, held):
                    links.append(link)
            each, held = above[id(held)]
        return links


def _below(holder: Any, held: Any, above: Mapping[int, tuple[Any, Any]]) -> Any:
    """What it holds by a name: between an object or a class and that lies its dict of names."""
    names = isinstance(held, dict) and (
        isinstance(holder, type) or held is getattr(holder, "__dict__", None)
    )
    below = above[id(held)][1] if names else None
    return held if below is None else below


def _link(holder: Any, held: Any) -> str | None:
    if isinstance(holder, types.FunctionType):
        return _function(holder)
    if isinstance(holder, functools._lru_cache_wrapper):
        most = holder.cache_parameters()["maxsize"]
        return f"the cache of {_function(holder)}, maxsize={most}"
    if isinstance(holder, dict):
        key = _key_of(holder, held)
        return f"{_item(key)}{_kind(held)}" if key is not None else None
    if isinstance(holder, list | tuple | set | deque):
        return f"in a {type(holder).__name__}"
    if isinstance(holder, types.CellType | types.MethodType | types.FrameType):
        return None
    name = _key_of(getattr(holder, "__dict__", {}), held)
    return f".{name}{_kind(held)} of {_type_name(holder)}" if name else _type_name(holder)


def _kind(held: Any) -> str:
    return f", a {type(held).__name__}" if isinstance(held, _CONTAINERS) else ""


def _type_name(each: Any) -> str:
    """`tensorflow.Graph`, and `Keeper` of the user's own."""
    module = type(each).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    theirs = file is None or owner(file) in (USERS, SCENARIO)
    return f"{'' if theirs else module.partition('.')[0] + '.'}{type(each).__name__}"


def _item(key: Any) -> str:
    """An address would be another one each time."""
    told = repr(key)
    return f"[a {type(key).__name__}]" if " at 0x" in told else f"[{told:.40}]"


def _of_class(holder: type, held: Any) -> str:
    name = _key_of(dict(vars(holder)), held)
    if name is None:
        return f"class {holder.__qualname__}"
    return f"`{holder.__qualname__}.{name}`, a {type(held).__name__} of the class"


def _closed_over(function: types.FunctionType, cell: types.CellType) -> str:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    name = next((name for name, each in cells if each is cell), "?")
    return f"`{name}`, a {type(_content(cell)).__name__} that {_function(function)} closes over"


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _key_of(mapping: Any, value: Any) -> Any:
    """Objects may answer to `__dict__` with anything."""
    if not isinstance(mapping, dict):
        return None
    return next((key for key, each in list(dict.items(mapping)) if each is value), None)


def _function(function: Any) -> str:
    python = inspect.unwrap(getattr(function, "python_function", function))
    code = getattr(python, "__code__", None)
    name = getattr(python, "__name__", type(python).__name__)
    return f"{name} ({_short(code.co_filename)}:{code.co_firstlineno})" if code else str(name)


def _in_module(module: str, names: dict[str, Any], held: Any) -> str:
    name = _key_of(names, held)
    file = names.get("__file__")
    if file and owner(file) not in (USERS, SCENARIO):
        return f"`{name}`, a {type(held).__name__} of {module}"
    line = _assigned_at(file, name) if file and name else None
    where = f"{_short(file)}:{line}" if file and line else f"module {module}"
    return f"`{name}`, a {type(held).__name__} in {where}"


@functools.cache
def _assigned_at(file: str, name: str) -> int | None:
    """The first line of a module that gives this name a value."""
    try:
        tree = ast.parse(Path(file).read_text())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            return node.lineno
        if getattr(node, "name", None) == name:
            return node.lineno
    return None


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name


def _stack(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_ours(frame: types.FrameType) -> bool:
    return owner(frame.f_code.co_filename) == "runner"
