"""Find which containers grow from step to step, with which lines' objects, and who holds them.

    look, some steps under Python's own tracer of allocations, look again

    a container that was there and is longer by an    its newest elements name the lines, and
    element every other step at least                 `ReferenceChains` the way to it
    else a type with one object more every other      the way to one of the newest: a chain of
    step                                              objects, each of which holds the next

The tracer says of any object which lines made it. Child side.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import types
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Any

from runner.facts import Container, GrowingFunction
from runner.meters.code_owner import SCENARIO, USERS, find_owner
from runner.meters.host.function_traces import TraceCounter
from runner.meters.host.reference_chains import CONTAINERS, ReferenceChains, describe_function

_MAPPINGS = {dict, OrderedDict, defaultdict, Counter}
_MOST_FRAMES = 100
"""A traceback's length: Keras and TensorFlow lie between the user's line and an object."""
_MOST_HOLDERS = 12
_MOST_INSIDE = 3000
"""Objects that are looked through for the lines that made an element."""
_NEWEST = 5
"""Elements of a container that stand for all that it gained."""

_RUNNING: dict[int, threading.Thread] = vars(threading)["_active"]
"""Python's list of running threads."""

Line = tuple[str, int]


class HolderSearch:
    """`begin`, some steps, `end`."""

    def begin(self) -> None:
        """Note what there is, and trace what is made from now on."""
        gc.unfreeze()  # what TensorFlow made as it was imported may hold things, too
        self._functions = TraceCounter(gc.get_objects())
        gc.collect()
        objects = gc.get_objects()
        self._lengths = {id(each): _count_elements(each) for each in _list_containers(objects)}
        self._known = frozenset(map(id, objects))
        self._types = Counter(map(type, objects))
        del objects
        tracemalloc.start(_MOST_FRAMES)  # last: under it the look takes four times as long

    def end(
        self, steps: int, step: Any
    ) -> tuple[tuple[Container, ...], tuple[GrowingFunction, ...]]:
        """Return what grew in those steps, with the way to it, and which functions were traced
        again; `step` is the step itself."""
        gc.collect()
        objects = gc.get_objects()
        chains = ReferenceChains(step)
        containers = list(self._find_grown(objects, steps, chains))
        functions = self._functions.find_retraced(objects, steps)
        if not containers:
            containers = list(self._find_multiplied(objects, steps, chains))
        tracemalloc.stop()
        return tuple(containers), tuple(functions)

    def _find_grown(
        self, objects: list[Any], steps: int, chains: ReferenceChains
    ) -> Iterator[Container]:
        """Yield the containers that were there before and are longer by an element every other
        step; not those that hold weak references alone, or to which nobody knows the way."""
        longer = []
        for each in _list_containers(objects):
            grown = _count_elements(each) - self._lengths.get(id(each), sys.maxsize)
            if grown >= max(2, steps / 2):
                longer.append((grown, each))
        longer.sort(key=lambda pair: -pair[0])
        for grown, container in longer[:_MOST_HOLDERS]:
            values = list(dict.values(container) if isinstance(container, dict) else container)
            newest = list(islice(reversed(values), min(grown, _NEWEST)))  # sets have no order
            chain = chains.find(container)
            if container is _RUNNING:  # what they run is closer to a person than Python's list
                target = getattr(newest[0], "_target", None)
                function = f" of {describe_function(target)}" if target else ""
                chain = [f"running threads{function}"]
            if chain is None or all(isinstance(each, weakref.ref) for each in newest):
                continue
            kinds = Counter(type(each).__name__ for each in newest).most_common(2)
            made_at = next(filter(None, map(self._find_birth, newest)), None)
            yield self._describe(
                " and ".join(name for name, _ in kinds), grown / steps, newest, chain, made_at
            )

    def _find_multiplied(
        self, objects: list[Any], steps: int, chains: ReferenceChains
    ) -> Iterator[Container]:
        """Yield, for each type of which there is one more every other step, one of the newest."""
        more = Counter(map(type, objects))
        more.subtract(self._types)
        for kind, count in more.most_common(_MOST_HOLDERS):
            if count < max(2, steps / 2):
                break
            made = [
                each
                for each in objects
                if type(each) is kind and id(each) not in self._known and self._find_birth(each)
            ]
            ends = made[-1:] + made[:1]  # in a chain of them, one end is near to what has a name
            chain = min(filter(None, map(chains.find, ends)), key=len, default=None)
            if chain is not None:
                yield self._describe(kind.__name__, count / steps, made[-3:], chain)

    def _describe(
        self,
        what: str,
        per_step: float,
        newest: list[Any],
        chain: list[str],
        made_at: Line | None = None,
    ) -> Container:
        return Container(
            grows_by=per_step,
            of=what,
            lines=tuple(sorted(self._find_lines(newest))),
            made_at=made_at,
            chain=(*chain, f"{per_step:.3g} {what} a step"),
        )

    def _find_lines(self, elements: list[Any]) -> set[Line]:
        """Return the user's lines that made these, or what they hold and nobody held before."""
        lines: set[Line] = set()
        seen: set[int] = set()
        level = elements
        while level and len(seen) < _MOST_INSIDE:
            below: list[Any] = []
            for each in level:
                if id(each) in seen or id(each) in self._known:
                    continue
                if isinstance(each, type | types.ModuleType):
                    continue
                seen.add(id(each))
                if line := _find_line(each):
                    lines.add(line)
                below.extend(gc.get_referents(each))
            level = below[:_MOST_INSIDE]
        return lines

    def _find_birth(self, value: Any) -> Line | None:
        """Return the line where it was made; or what it holds and nobody held before: an object
        whose attributes lie before it in memory, as Python 3.11 has them, tracemalloc does not
        find."""
        inside = (each for each in gc.get_referents(value) if id(each) not in self._known)
        return _find_line(value) or next(filter(None, map(_find_line, inside)), None)


def _list_containers(objects: list[Any]) -> list[Any]:
    """Return those that the collector knows, and the mappings that they refer to: one of names to
    arrays or numbers it needn't know."""
    kinds = {each for each in set(map(type, objects)) if issubclass(each, CONTAINERS)}
    found = {id(each): each for each in objects if type(each) in kinds}
    for each in gc.get_referents(*objects):
        if type(each) in _MAPPINGS and id(each) not in found:
            found[id(each)] = each
    return list(found.values())


def _count_elements(container: Any) -> int:
    """Return its length; a class derived from a container may count otherwise."""
    base = next(each for each in CONTAINERS if isinstance(container, each))
    return base.__len__(container)


def _find_line(value: Any) -> Line | None:
    """Return the innermost line of the user's that made it; else of a scenario."""
    trace = tracemalloc.get_object_traceback(value)
    lines = [(frame.filename, frame.lineno) for frame in reversed(trace or ())]
    for wanted in (USERS, SCENARIO):
        for file, line in lines:
            if find_owner(file) == wanted:
                return file, line
    return None
