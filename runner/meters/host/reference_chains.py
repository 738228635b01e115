"""Find how a person reaches an object: from something that has a name down to it.

    the step > `state`, a dict that link (train.py:7) closes over > ['head'] > .before of Kept > ...
    (root)     (a cell, by the function's name for it)              (a key)    (an attribute)

Referrers are followed upwards, a level at a time, until one has a name by itself: a variable of a
module or of a running function, an attribute of a class, a thread, the step. What this search and
the runner hold themselves is left out. Child side.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import inspect
import linecache
import re
import sys
import threading
import traceback
import types
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.meters.code_owner import PYTHON, RUNNER, SCENARIO, USERS, find_owner, make_relative

CONTAINERS = (list, dict, set, deque)
"""And what is derived from them."""

_USERS = (USERS, SCENARIO)

_OF_ERRORS = (types.FrameType, types.TracebackType, BaseException)
"""What kept errors consist of: each of them refers to all that its frames knew."""

_MOST_LEVELS = 14
_MOST_IN_LEVEL = 40
_OF_THE_SEARCH = 10_000
"""Elements of a list that holds all the objects there are, as only this search has them."""

_Above = dict[int, tuple[Any, Any]]
"""By an object's identity: itself, and what it holds on the way down."""


@dataclass(frozen=True)
class Chain:
    """A way down to an object."""

    links: list[str]
    """In words."""
    is_users: bool = True
    """No link of it is a library's."""
    links_to_cut: list[tuple[Any, Any]] = field(default_factory=list)
    """What `cut_link` takes: who holds, and what it holds."""
    holder: Any = None
    """What holds the object itself."""


class ReferenceChains:
    """Ways to objects, as they are at the moment that this is made."""

    def __init__(self, step: Any) -> None:
        """`step`: has a name by itself."""
        self._step = step
        self.own: list[list[Any]] = []
        """Lists of whoever searches: they are no way."""
        spaces = [(name, getattr(each, "__dict__", None)) for name, each in sys.modules.items()]
        self._spaces = [names for _, names in spaces]  # kept, so that no other takes their identity
        self._modules = {id(names): name for name, names in spaces if type(names) is dict}
        threads = {each.ident: each.name for each in threading.enumerate()}
        self._frames = {
            id(frame): (frame, threads.get(thread))
            for thread, top in sys._current_frames().items()
            for frame, _ in traceback.walk_stack(top)
        }
        """With the name of the thread that runs each."""
        # Since Python 3.11 a frame that runs is no referrer of what its variables hold.
        self._locals = {
            id(value): frame
            for frame, _ in self._frames.values()
            if not _is_runners(frame) and frame.f_locals is not frame.f_globals
            for value in frame.f_locals.values()
        }

    def find(self, target: Any) -> Chain | None:
        """Return the way to an object, what a person knows first; None where nothing with a name
        was found."""
        above: _Above = {id(target): (target, None)}
        level = [target]
        for _ in range(_MOST_LEVELS):
            for each in level:
                if root := self._describe_root(each, above):
                    return self._make_chain(root, each, target, above)
            level = self._find_level_above(level, above)
        return None

    def _find_level_above(self, level: list[Any], above: _Above) -> list[Any]:
        """Return what refers to objects of this level, and note which."""
        wanted = {id(each): each for each in level}
        pairs = set(map(id, above.values()))
        found: list[Any] = []
        referrers = gc.get_referrers(*level)
        referrers.sort(key=lambda each: isinstance(each, _OF_ERRORS))  # may be many
        for referrer in referrers:
            if id(referrer) in above or id(referrer) in pairs or referrer is wanted:
                continue
            if self._is_own(referrer, level, above):
                continue
            held = (wanted[id(e)] for e in gc.get_referents(referrer) if id(e) in wanted)
            if (first := next(held, None)) is None:
                continue
            above[id(referrer)] = (referrer, first)
            found.append(referrer)
            if len(found) >= _MOST_IN_LEVEL:
                break
        return found

    def _is_own(self, referrer: Any, level: list[Any], above: _Above) -> bool:
        """Return whether it is of this search or the runner, which hold all there is."""
        return (
            any(referrer is each for each in (level, above, self._frames, *self.own))
            or (isinstance(referrer, types.FrameType) and _is_runners(referrer))
            or _find_owner_of_module(type(referrer).__module__) == RUNNER
            or (isinstance(referrer, list) and len(referrer) > _OF_THE_SEARCH)
        )

    def _describe_root(self, each: Any, above: _Above) -> str | None:
        """Return what it is to a person, where it is something that has a name by itself."""
        held = above[id(each)][1]
        if id(each) in self._modules and held is not None:
            return _describe_global(self._modules[id(each)], each, held)
        if id(each) in self._frames:
            return self._describe_local(each, held)
        if isinstance(each, contextvars.Context):
            found = ((var.name, value) for var, value in each.items() if id(value) in above)
            name, value = next(found, (None, None))
            return name and f"`{name}`, a {type(value).__name__} in a context variable"
        if isinstance(each, threading.Thread):
            return f"thread {each.name!r}"
        if isinstance(each, type) and held is not None:
            attribute = _skip_dict(each, held, above)
            name = _find_key(dict(vars(each)), attribute)
            if name is None:
                return f"class {each.__qualname__}"
            return f"`{each.__qualname__}.{name}`, a {type(attribute).__name__} of the class"
        if each is self._step:
            return "the step"
        frame = self._locals.get(id(each))
        return None if frame is None else self._describe_local(frame, each)

    def _describe_local(self, frame: types.FrameType, held: Any) -> str:
        name = _find_key(dict(frame.f_locals), held)
        kind = f", a {type(held).__name__}" if name else ""
        where = _describe_code(frame.f_code)
        thread = self._frames.get(id(frame), (None, None))[1]
        is_main = thread in (None, threading.main_thread().name)
        running = "" if is_main else f", running in thread {thread}"
        return f"`{name or '?'}`{kind} in {where}{running}"

    def _make_chain(self, root: str, named: Any, target: Any, above: _Above) -> Chain:
        """Return how each holds the next, from what has a name by itself; what has none of its own
        is left out."""
        path = [above[id(named)]]
        while (held := path[-1][1]) is not None:
            path.append(above[id(held)])
        holders = [each for each, _ in path[:-1]]
        if frame := self._locals.get(id(named)):
            holders.insert(0, frame)
        is_users = all(_is_users(each, self._modules.get(id(each))) for each in holders)
        cuts = [(each, held) for each, held in path[:-1] if _can_be_cut(each)]

        links = [root]
        each, held = path[0]
        if isinstance(each, types.FrameType | type) or id(each) in self._modules:
            each, held = above[id(_skip_dict(each, held, above))]  # the root has named it already
        while held is not None:
            if isinstance(each, types.FunctionType) and held is each.__closure__ is not target:
                held = above[id(held)][1]
                links.append(_describe_cell(each, held))
            else:
                held = _skip_dict(each, held, above)
                if link := _describe_link(each, held):
                    links.append(link)
            each, held = above[id(held)]
        return Chain(links, is_users, cuts, holders[-1] if holders else None)


def _skip_dict(holder: Any, held: Any, above: Mapping[int, tuple[Any, Any]]) -> Any:
    """Return what it holds by a name: between an object or a class and that lies its dict."""
    is_dict = isinstance(held, dict) and (
        isinstance(holder, type) or held is getattr(holder, "__dict__", None)
    )
    below = above[id(held)][1] if is_dict else None
    return held if below is None else below


def _describe_link(holder: Any, held: Any) -> str | None:
    """Return how one object holds the next.

    holder                          to a person
    a function                      link (train.py:7)
    a function's cache              the cache of link (train.py:7), maxsize=128
    a dict                          ['head'], a list
    a list, tuple, set, deque       in a list
    a cell, a method, a context     nothing: the next link says it
    a generator, a frame            `seen`, a list in collect (train.py:9)
    anything else                   .before, a list of Kept
    """
    kind = f", a {type(held).__name__}" if isinstance(held, CONTAINERS) else ""
    if isinstance(holder, types.FunctionType):
        return describe_function(holder)
    if isinstance(holder, functools._lru_cache_wrapper):
        most = holder.cache_parameters()["maxsize"]
        return f"the cache of {describe_function(holder)}, maxsize={most}"
    if isinstance(holder, dict):
        key = _find_key(holder, held)
        text = f"a {type(key).__name__}" if " at 0x" in repr(key) else f"{key!r:.40}"
        return None if key is None else f"[{text}]{kind}"
    if isinstance(holder, list | tuple | set | deque):
        return f"in a {type(holder).__name__}"
    is_of_context = isinstance(holder, contextvars.Context) or type(holder).__name__[:4] == "hamt"
    if is_of_context or isinstance(holder, types.CellType | types.MethodType):
        return None
    if frame := _get_frame(holder):
        name = _find_key(dict(frame.f_locals), held)
        return f"`{name or '?'}`{kind} in {_describe_code(frame.f_code)}"
    module = type(holder).__module__
    owner = type(holder).__name__
    if _find_owner_of_module(module) not in _USERS:
        owner = f"{module.partition('.')[0]}.{owner}"
    name = _find_key(getattr(holder, "__dict__", {}), held)
    return f".{name}{kind} of {owner}" if name else owner


def _describe_cell(function: types.FunctionType, cell: types.CellType) -> str:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    name = next((name for name, each in cells if each is cell), "?")
    try:
        content = cell.cell_contents
    except ValueError:  # empty
        content = None
    return f"`{name}`, a {type(content).__name__} that {describe_function(function)} closes over"


def _get_frame(holder: Any) -> types.FrameType | None:
    """Return a frame that is kept: itself, or of what waits to go on."""
    if isinstance(holder, types.FrameType):
        return holder
    if isinstance(holder, types.GeneratorType):
        return holder.gi_frame
    if isinstance(holder, types.CoroutineType):
        return holder.cr_frame
    return holder.ag_frame if isinstance(holder, types.AsyncGeneratorType) else None


def _is_users(holder: Any, module: str | None) -> bool:
    """Return False for a library's, and for what holds weakly; `module` where these are the names
    of one. Python's own may be anybody's."""
    frame = _get_frame(holder)
    code = frame.f_code if frame else getattr(holder, "__code__", None)
    if isinstance(code, types.CodeType):
        return find_owner(code.co_filename) in _USERS
    name = module or (holder if isinstance(holder, type) else type(holder)).__module__
    if "weakref" in name:
        return False
    return _find_owner_of_module(name) in (*_USERS, *(() if module else (PYTHON,)))


def _find_owner_of_module(name: str) -> str:
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:  # the user's main program may have none
        return PYTHON if name in sys.builtin_module_names else USERS
    return find_owner(file)


# Cuts: of what a way is made of, in a fork alone, as nothing is put back.


def empty(container: Any, holder: Any = None, newest: int | None = None) -> list[Any]:
    """Take out all its elements, whatever a class derived from it does; `holder` has it. Returns
    those that are to stay: all but the `newest`, where it has an order."""
    stay: list[Any] = []
    if newest is not None and isinstance(container, list | dict):
        items: Any = dict.items(container) if isinstance(container, dict) else container
        stay = list(items)
        del stay[len(stay) - newest :], items
    if isinstance(holder, functools._lru_cache_wrapper):  # it has each in a list of its own, too
        holder.cache_clear()
    kinds = (OrderedDict, *CONTAINERS)
    next(each for each in kinds if isinstance(container, each)).clear(container)
    return stay


def _can_be_cut(holder: Any) -> bool:
    return isinstance(holder, (*CONTAINERS, types.CellType)) or isinstance(
        getattr(holder, "__dict__", None), dict
    )


def cut_link(holder: Any, held: Any) -> None:
    """Let what holds let go, by the one name or place that it has it under."""
    if isinstance(holder, types.CellType):
        del holder.cell_contents
    elif isinstance(holder, CONTAINERS) and not isinstance(holder, dict):
        empty(holder)
    else:
        names = holder if isinstance(holder, dict) else holder.__dict__
        kind = OrderedDict if isinstance(names, OrderedDict) else dict
        kind.pop(names, _find_key(names, held), None)


def _find_key(mapping: Any, value: Any) -> Any:
    """Return the key of a value, or None; objects may answer to `__dict__` with anything."""
    if not isinstance(mapping, dict):
        return None
    return next((key for key, each in list(dict.items(mapping)) if each is value), None)


def describe_function(function: Any) -> str:
    """Return its name, and where it begins: `link (train.py:7)`."""
    python = inspect.unwrap(getattr(function, "python_function", function))
    code = getattr(python, "__code__", None)
    name = getattr(python, "__name__", type(python).__name__)
    return _describe_code(code, name) if code else str(name)


def _describe_code(code: types.CodeType, name: str | None = None) -> str:
    return f"{name or code.co_name} ({shorten(code.co_filename)}:{code.co_firstlineno})"


def _describe_global(module: str, names: dict[str, Any], held: Any) -> str:
    name, file = _find_key(names, held), names.get("__file__")
    if file and find_owner(file) not in _USERS:
        return f"`{name}`, a {type(held).__name__} of {module}"
    where = f"module {module}"
    gives_value = re.compile(rf"({name}\s*(:.*)?=(?!=)|(async )?(def|class)\s+{name}\b)")
    for number, line in enumerate(linecache.getlines(file) if file and name else (), 1):
        if gives_value.match(line):
            where = f"{shorten(str(file))}:{number}"
            break
    return f"`{name}`, a {type(held).__name__} in {where}"


def shorten(file: str) -> str:
    """Return a file as seen from the folder where the user stands, or its name."""
    relative = make_relative(file)
    return relative if relative != file else Path(file).name


def _is_runners(frame: types.FrameType) -> bool:
    return find_owner(frame.f_code.co_filename) == RUNNER
