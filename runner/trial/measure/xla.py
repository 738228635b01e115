"""XLA's one block, opened: what XLA itself wrote of where it put each buffer, and when it lives.

    os.environ["XLA_FLAGS"] += blocks.flags            # before the first op
    blocks.opened("__inference_step_12", size, path)   # what a block of this size holds

XLA plans all memory of a compiled function when it compiles it. With `--xla_dump_to` it writes the
plan, the *buffer assignment*, as text: allocations, in each the values with offset and size, and
from which to which instruction each value lives. The temporary block is one allocation; what is
live in it at its own fullest moment, and the bytes that no value covers then, sum to it. The
assignment is found by the function's name and the block's size; where none fits, nothing is opened.

XLA runs a function's instructions in one order, and each value says of which to which it is there,
so what is kept for the gradient is known here, too: by the nodes' names, as in any graph.

Core: standard library and NumPy.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from runner.allocations import GRADIENT
from runner.trial.measure.turns import differentiated, is_differentiated, turns
from runner.trial.measure.xplane import Ints

ALIGNMENT = "alignment and gaps"
"""The op of a block's bytes that no buffer covers at its peak."""

ADDRESSES = "addresses of results"
"""The op of the table in which XLA hands on several values."""

_DEEPEST = 8
"""Of instructions that XLA put in, one after another."""

_TYPES = {
    "pred": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}  # fmt: skip

_ALLOCATION = re.compile(r"^allocation \d+: size (\d+), (.*):$")
_VALUE = re.compile(r"^ value: <(\d+) (\S+)( \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): (.*)$")
_HEAD = re.compile(r"^<(\d+) \S+(?: \(phi\))? @\d+>$")
_RANGE = re.compile(r"^    (\S+\{[\d,]*\}):(\d+)-(\d+)$")


@dataclass(frozen=True)
class Buffer:
    """A value in a block; `node` is the graph's node that it came from, empty if XLA does not say.
    Of `ALIGNMENT` there is no shape."""

    op: str
    node: str
    shape: tuple[int, ...] | None
    dtype: str
    bytes: int
    is_for_gradient: bool | None = False
    """Made before the function's backward pass begins, there after that; `None` where XLA names no
    node at all."""


@dataclass(frozen=True)
class _Value:
    name: str
    size: int
    offset: int
    type: str
    node: str
    kind: str
    begin: int
    end: int
    is_carried: bool = False
    """By a loop or a branch, from what was there before it: XLA calls it a phi."""
    until: int = -1
    """When the last one ends that carries it on."""

    def covers(self, other: _Value) -> bool:
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size

    @property
    def buffer(self) -> Buffer:
        typed = re.match(r"([a-z]+\d*)\[([\d,]*)\]", self.type)
        shape = tuple(int(size) for size in typed[2].split(",") if size) if typed else None
        dtype = _TYPES.get(typed[1], typed[1]) if typed else "untyped"
        op = self.kind or re.sub(r"^wrapped_|[.\d]*(?:\{.*\})?$", "", self.name)
        return Buffer(op if typed else ADDRESSES, self.node, shape, dtype, self.size)


class _Instructions:
    """What XLA says of each instruction: the node that it is of, and its type."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, line: str) -> str:
        name = line.split("%", 1)[-1].split(" ", 1)[0]
        self._texts[name] = line
        return name

    def said(self, name: str, key: str) -> str:
        found = re.search(rf'{key}="([^"]*)"', self._texts.get(name, ""))
        return found[1] if found else ""

    def node(self, name: str) -> str:
        """Of one that XLA put in, as a copy, the node of what goes into it."""
        for _ in range(_DEEPEST):
            if nodes := self.said(name, "op_name"):
                node = nodes.split(";")[0]  # of what is computed once for several
                return "" if node.startswith("XLA_") else node
            fed = re.search(r"\(%([^\s,)]+)", self._texts.get(name, ""))
            if fed is None:
                break
            name = fed[1]
        return ""


class _Allocation(NamedTuple):
    what: str
    size: int
    values: list[_Value]


class Blocks:
    """The assignments that XLA wrote into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, list[_Allocation]] = {}

    @property
    def flags(self) -> str:
        return f"--xla_dump_to={self._folder} --xla_dump_hlo_as_text"

    def hold(self, function: str, size: int) -> bool:
        """Whether a block of this size is one of this function's."""
        found = itertools.chain.from_iterable(self._of(function))
        return any(whole == size and values for _, whole, values in found)

    def _of(self, function: str) -> Iterator[list[_Allocation]]:
        for file in sorted(self._folder.glob(f"*{function.lstrip('_')}_*buffer-assignment.txt")):
            if file not in self._read:
                self._read[file] = list(_allocations(file.read_text(errors="replace")))
            yield self._read[file]

    def opened(
        self, function: str, size: int, path: Callable[[str], str]
    ) -> tuple[tuple[Buffer, ...], ...]:
        """What a block of this size holds that a call of this function allocated: the buffers of
        the temporary block at its fullest, or one result; they sum to `size`. Of results alike in
        size each call makes one of each; where they are alike in all, one stands for them. `path`
        says of a node where it is, as in `turns`."""
        results = []
        for found in self._of(function):
            for what, whole, values in found:
                if whole != size or not values:
                    continue
                if "temp" in what:
                    kept = _for_gradient([value for each in found for value in each.values], path)
                    return (_at_the_fullest(whole, values, kept),)
                if "output shape is |(" in what:  # the addresses of several results
                    return ((Buffer(ADDRESSES, "", None, "untyped", whole),),)
                if "live-out" in what:
                    results.append(_whole(whole, [max(values, key=lambda value: value.end)]))
            if results:
                break
        return tuple(results) if len(set(results)) > 1 else tuple(results[:1])


def _for_gradient(
    values: Sequence[_Value], path: Callable[[str], str]
) -> Callable[[_Value], bool | None]:
    """Whether a value is made before the function's backward pass begins, and there after that."""
    if not any(value.node for value in values):
        return lambda value: None
    paths = {node: path(node) for node in {value.node for value in values} if node}
    backward = {node for node, named in paths.items() if GRADIENT in named.split("/")}
    known = differentiated(paths[node] for node in backward)
    forward = {node for node in paths.keys() - backward if is_differentiated([paths[node]], known)}

    def begins(nodes: set[str]) -> Ints:
        return np.array([value.begin for value in values if value.node in nodes], np.int64)

    all_born = np.unique([value.begin for value in values])
    turned = turns(begins(forward), begins(backward), all_born).tolist()
    return lambda value: any(value.begin < turn <= value.until for turn in turned)


def _allocations(text: str) -> Iterator[_Allocation]:
    """Each allocation: what it is for, its size, its values."""
    instructions, names = _Instructions(), dict[str, str]()
    ranges: dict[str, tuple[int, int]] = {}
    current = ""
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = head[1]
        elif line.startswith(" from instruction: "):
            names[current] = instructions.add(line)
        elif live := _RANGE.match(line):
            ranges[live[1]] = int(live[2]), int(live[3])
    what, size, values = "", 0, list[_Value]()
    for line in text.splitlines():
        if allocation := _ALLOCATION.match(line):
            if what:
                yield _Allocation(what, size, _named(values))
            what, size, values = allocation[2], int(allocation[1]), []
        elif value := _VALUE.match(line):
            number, name = value[1], value[2]
            begin, end = ranges.get(name if name.endswith("}") else f"{name}{{}}", (0, -1))
            of = names.get(number, "")
            values.append(
                _Value(
                    *(name, int(value[4]), int(value[5]), value[6]),
                    *(instructions.node(of), instructions.said(of, "op_type"), begin, end),
                    is_carried=value[3] is not None,
                )
            )
        elif line.startswith("Used values:"):
            break
    if what:
        yield _Allocation(what, size, _named(values))


def _named(values: list[_Value]) -> list[_Value]:
    """What a loop carries is of the node that wrote it last, and goes on for as long as one value
    after the other carries it."""
    named: list[_Value] = []
    latest: dict[tuple[int, int], _Value] = {}
    ordered = sorted(values, key=lambda value: (value.begin, value.is_carried))
    for value in ordered:
        last = latest.get((value.offset, value.size))
        if value.is_carried and last is not None:
            value = replace(value, name=last.name, node=last.node, kind=last.kind)
        latest[value.offset, value.size] = value
        named.append(value)
    latest.clear()
    for at, value in reversed(list(enumerate(named))):
        after = latest.get((value.offset, value.size))
        is_carried_on = (
            after is not None
            and after.begin <= value.end + 1
            and (value.is_carried or after.is_carried)
        )
        until = max(value.end, after.until if after is not None and is_carried_on else -1)
        latest[value.offset, value.size] = named[at] = replace(value, until=until)
    return named


def _at_the_fullest(
    size: int, values: list[_Value], kept: Callable[[_Value], bool | None]
) -> tuple[Buffer, ...]:
    """Of values at one place the youngest is the one that is there: an op that writes over its
    input shares the instruction with it."""
    fullest: list[_Value] = []
    for moment in sorted({value.begin for value in values}):
        there: list[_Value] = []
        alive = [value for value in values if value.begin <= moment <= value.end]
        for value in sorted(alive, key=lambda value: -value.begin):
            if not any(value.covers(other) for other in there):
                there.append(value)
        if sum(value.size for value in there) > sum(value.size for value in fullest):
            fullest = there
    return _whole(size, fullest, kept)


def _whole(
    size: int, values: list[_Value], kept: Callable[[_Value], bool | None] = lambda value: False
) -> tuple[Buffer, ...]:
    buffers = [
        replace(value.buffer, is_for_gradient=kept(value))
        for value in sorted(values, key=lambda value: value.offset)
    ]
    gap = size - sum(buffer.bytes for buffer in buffers)
    if gap:
        buffers.append(Buffer(ALIGNMENT, "", None, "untyped", gap))
    return tuple(buffers)
