"""Find how a person reaches an object: from something that has a name down to it.

    the step > `state`, a dict that link (train.py:7) closes over > ['head'] > .before of Kept > ...
    (root)     (a cell, by the function's name for it)              (a key)    (an attribute)

Referrers are followed upwards, a level at a time, until one has a name by itself: a variable of a
module or of a running function, an attribute of a class, a thread, the step. What this search and
the runner hold themselves is left out. Child side.
"""

from __future__ import annotations

import functools
import gc
import inspect
import linecache
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.meters.code_owner import RUNNER, SCENARIO, USERS, find_owner, make_relative

CONTAINERS = (list, dict, set, deque)
"""And what is derived from them."""

_MOST_LEVELS = 14
_MOST_IN_LEVEL = 40
_OF_THE_SEARCH = 10_000
"""Elements of a list that holds all the objects there are, as only this search has them."""

_Above = dict[int, tuple[Any, Any]]
"""By an object's identity: itself, and what it holds on the way down."""


class ReferenceChains:
    """Ways to objects, as they are at the moment that this is made."""

    def __init__(self, step: Any) -> None:
        """`step`: has a name by itself."""
        self._step = step
        spaces = [(name, getattr(each, "__dict__", None)) for name, each in sys.modules.items()]
        self._spaces = [names for _, names in spaces]  # kept, so that no other takes their identity
        self._modules = {id(names): name for name, names in spaces if type(names) is dict}
        threads = {each.ident: each.name for each in threading.enumerate()}
        self._frames = {
            id(frame): (frame, threads.get(thread))
            for thread, top in sys._current_frames().items()
            for frame in _list_frames(top)
        }
        """With the name of the thread that runs each."""
        # Since Python 3.11 a frame that runs is no referrer of what its variables hold.
        self._locals = {
            id(value): frame
            for frame, _ in self._frames.values()
            if not _is_runners(frame) and frame.f_locals is not frame.f_globals
            for value in frame.f_locals.values()
        }

    def find(self, target: Any) -> list[str] | None:
        """Return the way to an object, what a person knows first; None where nothing with a name
        was found."""
        above: _Above = {id(target): (target, None)}
        level = [target]
        for _ in range(_MOST_LEVELS):
            for each in level:
                root = self._describe_root(each, above)
                if root:
                    return [root, *self._describe_links(each, above)]
            level = self._find_level_above(level, above)
        return None

    def _find_level_above(self, level: list[Any], above: _Above) -> list[Any]:
        """Return what refers to objects of this level, and note which."""
        wanted = {id(each): each for each in level}
        found: list[Any] = []
        for referrer in gc.get_referrers(*level):
            if id(referrer) in above or self._is_own(referrer, level, above):
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
            any(referrer is each for each in (level, above, self._frames))
            or (isinstance(referrer, types.FrameType) and _is_runners(referrer))
            or (isinstance(referrer, list) and len(referrer) > _OF_THE_SEARCH)
        )

    def _describe_root(self, each: Any, above: _Above) -> str | None:
        """Return what it is to a person, where it is something that has a name by itself."""
        held = above[id(each)][1]
        if id(each) in self._modules and held is not None:
            return _describe_global(self._modules[id(each)], each, held)
        if isinstance(each, types.FrameType):
            return self._describe_local(each, held)
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
        code = frame.f_code
        name = _find_key(dict(frame.f_locals), held)
        kind = f", a {type(held).__name__}" if name else ""
        where = f"{code.co_name} ({shorten(code.co_filename)}:{code.co_firstlineno})"
        thread = self._frames.get(id(frame), (None, None))[1]
        is_main = thread in (None, threading.main_thread().name)
        running = "" if is_main else f", running in thread {thread}"
        return f"`{name or '?'}`{kind} in {where}{running}"

    def _describe_links(self, root: Any, above: _Above) -> list[str]:
        """Return how each holds the next; what has no name of its own is left out."""
        links = []
        each, held = above[id(root)]
        if isinstance(each, types.FrameType | type) or id(each) in self._modules:
            each, held = above[id(_skip_dict(each, held, above))]  # the root has named it already
        while held is not None:
            if isinstance(each, types.FunctionType) and held is each.__closure__:
                held = above[id(held)][1]
                links.append(_describe_cell(each, held))
            else:
                held = _skip_dict(each, held, above)
                if link := _describe_link(each, held):
                    links.append(link)
            each, held = above[id(held)]
        return links


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
    a cell, a method, a frame       nothing: the next link says it
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
    if isinstance(holder, types.CellType | types.MethodType | types.FrameType):
        return None
    module = type(holder).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    is_users = file is None or find_owner(file) in (USERS, SCENARIO)
    owner = f"{'' if is_users else module.partition('.')[0] + '.'}{type(holder).__name__}"
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
    return f"{name} ({shorten(code.co_filename)}:{code.co_firstlineno})" if code else str(name)


def _describe_global(module: str, names: dict[str, Any], held: Any) -> str:
    name, file = _find_key(names, held), names.get("__file__")
    if file and find_owner(file) not in (USERS, SCENARIO):
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


def _list_frames(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_runners(frame: types.FrameType) -> bool:
    return find_owner(frame.f_code.co_filename) == RUNNER
