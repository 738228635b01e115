"""Find which containers grow from step to step, and which of them holds what stays.

    look, some steps under Python's own tracer of allocations, look again

    a container that was there and is longer by an    is emptied, in a fork (`counterfactual`)
    element every other step at least
    a line whose objects are in none of these         the way to an object that it made is cut, at
                                                      one link after the other, the nearest first

What then goes, by the user's line that made it, the container holds: alone, or with others where
each of them is needed. Where nothing can be emptied, or something else holds it too, the way is
kept as one that reaches it. Child side.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import types
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from runner.facts import Container, GrowingFunction, Survivor
from runner.meters import collector
from runner.meters.host.counterfactual import Kept, Line, find_birth, measure_without
from runner.meters.host.function_traces import count_traces, find_retraced
from runner.meters.host.reference_chains import (
    CONTAINERS,
    Chain,
    ReferenceChains,
    cut_link,
    describe_function,
    empty,
)

_MAPPINGS = {dict, OrderedDict, defaultdict, Counter}
_MOST_FRAMES = 100
"""A traceback's length: Keras and TensorFlow lie between the user's line and an object."""
_MOST_HOLDERS = 12
_MOST_INSIDE = 3000
"""Objects that are looked through for the lines that made an element."""
_NEWEST = 5
"""Elements of a container that stand for all that it gained."""
_MOST_LINES, _MOST_LINKS = 3, 4
"""Lines whose objects are looked for one by one, and links of the way to one that are cut."""
_MOST_MADE = 500
"""Objects at either end of those that were made, among which one of a line is looked for."""
_PARTS = (tuple, types.CellType, types.FrameType)
"""Parts of something else, which has a name sooner."""
_MOST_OF = 0.6
"""Share of what a line leaves behind: what gives as much back has held it. The survivors' tracer
counts blocks as malloc rounds them."""
_POOLED_BYTES = 262_144
"""A step: tensors that large come from regions that TensorFlow keeps."""
_LEAST_BYTES, _LEAST_SHARE = 32, 0.02
"""A step, of a line, and of what all lines leave: nobody asks who holds less."""

_RUNNING: dict[int, threading.Thread] = vars(threading)["_active"]
"""Python's list of running threads."""


@dataclass
class _Way:
    """A container that grows, the way to it, and what stays without its elements."""

    found: Container
    empty: Callable[[], object] | None
    """None: it can't be emptied."""
    is_users: bool
    without: Kept | None = None


class HolderSearch:
    """`begin`, some steps, `end`."""

    def begin(self, is_traced: bool = True) -> None:
        """Note what there is; trace what is made from now on, as `end` needs it."""
        gc.unfreeze()  # what TensorFlow made as it was imported may hold things, too
        self._traces = count_traces(gc.get_objects())
        collector.collect()
        objects = gc.get_objects()
        containers = _list_containers(objects)
        self._lengths = dict(zip(map(id, containers), _count_elements(containers), strict=True))
        self._known = frozenset(map(id, objects))
        del objects, containers
        if is_traced:  # last: under it the look takes four times as long
            tracemalloc.start(_MOST_FRAMES)

    def end(
        self, steps: int, step: Any, survivors: Sequence[Survivor] = ()
    ) -> tuple[tuple[Container, ...], tuple[GrowingFunction, ...]]:
        """Return what grew in those steps, with the way to it, and which functions were traced
        again; `step` is the step itself. `survivors` are to be explained: without them nothing is
        emptied, and every way only reaches what grows."""
        collector.collect()
        functions = find_retraced(gc.get_objects(), self._traces, steps)
        # Nothing here may hold an element of them: it would not go when it is let go.
        ways = self._list_grown(steps, step)
        containers = list(self._judge(ways, _sum_rates(survivors), steps, step))
        tracemalloc.stop()
        return tuple(containers), tuple(functions)

    def list_grown(self, steps: int) -> list[Container]:
        """Return the user's containers that grew in those steps, for a process of somebody else's:
        which of them holds what stays is not tried, as that takes forks."""
        return [way.found for way in self._list_grown(steps, None) if way.is_users]

    def _list_grown(self, steps: int, step: Any) -> list[_Way]:
        """Return the containers that were there before and are longer by an element every other
        step; not those that hold weak references alone, or to which nobody knows the way."""
        objects, chains = gc.get_objects(), ReferenceChains(step)
        ways, least = list[_Way](), max(2, steps / 2)
        containers = _list_containers(objects)
        rises = [
            count - self._lengths.get(id(each), sys.maxsize)
            for each, count in zip(containers, _count_elements(containers), strict=True)
        ]
        grown = [number for number, more in enumerate(rises) if more >= least]
        grown.sort(key=lambda number: -rises[number])
        chains.own.append(containers)
        for number in grown[:_MOST_HOLDERS]:
            container, more = containers[number], rises[number]
            values = list(dict.values(container) if isinstance(container, dict) else container)
            newest = list(islice(reversed(values), min(more, _NEWEST)))  # sets have no order
            chain, made_at = chains.find(container), None
            is_running = container is _RUNNING
            if is_running:  # what they run is closer to a person than Python's list
                target = getattr(newest[0], "_target", None)
                function = f" of {describe_function(target)}" if target else ""
                chain = Chain([f"running threads{function}"])
                made_at = next(filter(None, map(self._find_birth, newest)), None)
            if chain is None or all(isinstance(each, weakref.ref) for each in newest):
                continue
            kinds = Counter(type(each).__name__ for each in newest).most_common(2)
            what = " and ".join(name for name, _ in kinds)
            lines = tuple(sorted(self._find_lines(newest)))
            found = _describe(what, more / steps, chain, lines, made_at)
            emptying = partial(empty, container, chain.holder, more)
            ways.append(_Way(found, None if is_running else emptying, chain.is_users))
        return ways

    def _judge(
        self, ways: list[_Way], rates: Mapping[Line, _Rate], steps: int, step: Any
    ) -> Iterator[Container]:
        """Yield what holds the memory of which lines, then what only reaches some."""
        collector.collect()  # what the search has left would go in the first fork, and in no other
        whole = measure_without([]) if rates else None
        if whole is None:
            yield from (way.found for way in ways)
            return
        if garbage := _find_garbage(whole, rates, steps):
            yield garbage
            rates = {line: rate for line, rate in rates.items() if line not in garbage.frees}
        tests = _Tests(whole, rates, steps, ways)
        held: dict[tuple[int, ...], list[Line]] = defaultdict(list)
        for line in rates:
            if numbers := tests.find_holding(line):
                held[numbers].append(line)
        for (first, *others), lines in held.items():
            yield replace(
                ways[first].found,
                frees=tuple(lines),
                frees_native=tests.measure_native(tests.measure((first, *others))),
                also=tuple(" > ".join(ways[each].found.chain[:-1]) for each in others),
            )
        firsts = {numbers[0] for numbers in held}
        yield from (way.found for number, way in enumerate(ways) if number not in firsts)
        known = {line for lines in held.values() for line in lines}
        known.update(line for way in ways for line in way.found.lines)
        for line in [line for line in rates if line not in known][:_MOST_LINES]:
            if found := self._find_by_links(line, tests, step):
                yield found

    def _find_by_links(self, line: Line, tests: _Tests, step: Any) -> Container | None:
        """Return the way to an object that a line made; with the line's memory, if that goes when a
        link of the way is cut."""
        sample = self._find_sample(line, step)
        if sample is None or sample[1] < tests.steps / 2:
            return None
        what, count, chain = sample
        found = _describe(what, count / tests.steps, chain, (line,))
        links = len(chain.links_to_cut)
        del sample, chain  # they hold what is to go
        for number in reversed(range(max(0, links - _MOST_LINKS), links)):  # the nearest first
            without = measure_without([partial(self._cut_link, line, step, number)])
            if tests.gives_back(without, line):
                return replace(found, frees=(line,), frees_native=tests.measure_native(without))
        return found

    def _cut_link(self, line: Line, step: Any, number: int) -> None:
        """Cut a link of the way that is found once more: to keep it would be to hold its end."""
        if sample := self._find_sample(line, step):
            holder, held = sample[2].links_to_cut[number]
            cut_link(holder, held)

    def _find_sample(self, line: Line, step: Any) -> tuple[str, int, Chain] | None:
        """Return the type of which a line has made most, how many there are, and the way to one."""
        made = [each for each in gc.get_objects() if id(each) not in self._known]
        if len(made) > 2 * _MOST_MADE:
            made = made[:_MOST_MADE] + made[-_MOST_MADE:]
        made = [each for each in made if not isinstance(each, _PARTS)]
        lines = {id(each): self._find_birth(each) for each in made}
        # Of a class with attributes Python 3.11 doesn't say where they were made.
        made = [each for each in made if lines[id(each)] == line] or [
            each for each in made if lines[id(each)] is not None
        ]
        if not made:
            return None
        ((kind, count),) = Counter(map(type, made)).most_common(1)
        of_kind = [each for each in made if type(each) is kind]
        chains = ReferenceChains(step)
        ends = (of_kind[-1], of_kind[0])  # in a chain of them, one end is near to what has a name
        found = [chain for each in ends if (chain := chains.find(each))]
        chain = min(found, key=lambda chain: len(chain.links), default=None)
        return None if chain is None else (kind.__name__, count, chain)

    def _find_lines(self, elements: list[Any]) -> set[Line]:
        """Return the user's lines that made these, or what they hold and nobody held before."""
        lines: set[Line] = set()
        seen: set[int] = set()
        level = elements
        while level and len(seen) < _MOST_INSIDE:
            below: list[Any] = []
            for each in level:
                is_old = id(each) in seen or id(each) in self._known
                if is_old or isinstance(each, type | types.ModuleType):
                    continue
                seen.add(id(each))
                if line := find_birth(each):
                    lines.add(line)
                below.extend(gc.get_referents(each))
            level = below[:_MOST_INSIDE]
        return lines

    def _find_birth(self, value: Any) -> Line | None:
        """Return the line where it was made; or what it holds and nobody held before: an object
        whose attributes lie before it in memory, as Python 3.11 has them, tracemalloc does not
        find."""
        inside = (each for each in gc.get_referents(value) if id(each) not in self._known)
        return find_birth(value) or next(filter(None, map(find_birth, inside)), None)


def _find_garbage(whole: Kept, rates: Mapping[Line, _Rate], steps: int) -> Container | None:
    """Return what the collector would free, had the program not switched it off; `whole` is what
    stays once it has."""
    state = collector.read_state()
    with_garbage = measure_without([], collects=False) if state else None
    if state is None or with_garbage is None:
        return None
    tests = _Tests(with_garbage, rates, steps, [])
    lines = tuple(line for line in rates if tests.gives_back(whole, line))
    if not lines:
        return None
    return Container(
        0.0,
        "garbage",
        lines,
        chain=(f"garbage, as Python's collector is off: {state}",),
        frees=lines,
        frees_native=tests.measure_native(whole),
        collector=state,
    )


@dataclass(frozen=True)
class _Rate:
    """The bytes that a line leaves behind in a step, by the survivors' tracer: it knows what only
    takes the place of something older."""

    python: float
    whole: float
    """With its tensors and graphs, which are C++'s in part."""


def _sum_rates(survivors: Sequence[Survivor]) -> dict[Line, _Rate]:
    """Return the lines that leave enough to ask who holds it, the largest first."""
    rates: dict[Line, _Rate] = defaultdict(lambda: _Rate(0.0, 0.0))
    for each in survivors:
        if each.file is None or each.line is None or each.kind not in ("python", "tensor", "graph"):
            continue
        half = (len(each.bytes) - 1) // 2
        rate = (each.bytes[-1] - each.bytes[half]) / (len(each.bytes) - 1 - half)
        before = rates[each.file, each.line]
        python = rate if each.kind == "python" else 0.0
        rates[each.file, each.line] = _Rate(before.python + python, before.whole + rate)
    ranked = sorted(rates.items(), key=lambda item: -item[1].whole)
    least = max(_LEAST_BYTES, _LEAST_SHARE * sum(rate.whole for _, rate in ranked))
    return {line: rate for line, rate in ranked if rate.whole >= least}


class _Tests:
    """The bytes that stay without some of the ways, which it sorts: of those that give back the
    same, the user's, and the one that gives more, is first."""

    def __init__(
        self, whole: Kept, rates: Mapping[Line, _Rate], steps: int, ways: list[_Way]
    ) -> None:
        self._whole, self._rates, self.steps = whole, rates, steps
        for way in ways:
            if way.empty:
                way.without = measure_without([way.empty])

        def rank(way: _Way) -> tuple[bool, int]:
            left = way.without.total if way.without else sys.maxsize
            return not way.is_users, left // (_LEAST_BYTES * steps)  # less comes and goes

        ways.sort(key=rank)
        self._ways = ways

    def find_holding(self, line: Line) -> tuple[int, ...]:
        """Return the numbers of the ways that hold a line's memory: of one that holds it alone,
        else of several that each are needed; none where something else holds it, too."""
        for number, way in enumerate(self._ways):
            if self.gives_back(way.without, line):
                return (number,)
        reaching = (number for number, way in enumerate(self._ways) if line in way.found.lines)
        needed = tuple(number for number in reaching if self._ways[number].without)
        if len(needed) < 2 or not self.gives_back(self.measure(needed), line):
            return ()
        for number in reversed(needed):
            fewer = tuple(each for each in needed if each != number)
            if fewer and self.gives_back(self.measure(fewer), line):
                needed = fewer
        return needed

    def measure(self, numbers: Sequence[int]) -> Kept | None:
        if len(numbers) == 1:
            return self._ways[numbers[0]].without
        return measure_without([cut for each in numbers if (cut := self._ways[each].empty)])

    def gives_back(self, without: Kept | None, line: Line) -> bool:
        """Return True if most of what a line leaves behind went."""
        rate, before = self._rates[line], self._whole.lines.get(line, 0)
        freed = (before - without.lines.get(line, 0)) / self.steps if without else 0.0
        # What an extension takes of malloc by itself, as SQLite does, is none of `before`.
        if freed < max(_LEAST_BYTES, _MOST_OF * min(rate.python, before / self.steps)):
            return False
        is_pooled = rate.whole - rate.python >= _POOLED_BYTES
        return is_pooled or freed + self.measure_native(without) >= _MOST_OF * rate.whole

    def measure_native(self, without: Kept | None) -> float:
        """Return the bytes a step of C++ that went."""
        went = self._whole.native - without.native if without else 0
        return max(0, went) / self.steps


def _describe(
    what: str, per_step: float, chain: Chain, lines: tuple[Line, ...], made_at: Line | None = None
) -> Container:
    last = f"{per_step:.3g} {what} a step"
    return Container(per_step, what, lines, made_at, (*chain.links, last))


def _list_containers(objects: list[Any]) -> list[Any]:
    """Return those that the collector knows, and the mappings that they refer to: one of names to
    arrays or numbers it needn't know."""
    kinds = {each for each in set(map(type, objects)) if issubclass(each, CONTAINERS)}
    below = gc.get_referents(*objects)
    unknown = [each for each in below if type(each) in _MAPPINGS and not gc.is_tracked(each)]
    return [
        *(each for each in objects if type(each) in kinds),
        *{id(each): each for each in unknown}.values(),
    ]


def _count_elements(containers: list[Any]) -> Iterator[int]:
    """Yield their lengths; a class derived from a container may count otherwise."""
    kinds = set(map(type, containers))
    counts = {
        kind: next(each for each in CONTAINERS if issubclass(kind, each)).__len__ for kind in kinds
    }
    return (counts[type(each)](each) for each in containers)
