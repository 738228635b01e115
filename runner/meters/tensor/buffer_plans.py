"""Open XLA's one block: read what XLA itself wrote of where it put each buffer, and when it lives.

Core: standard library and NumPy. XLA plans all memory of a compiled function when it compiles it.
With `--xla_dump_to` it writes the plan, the *buffer assignment*, as text: allocations, in each the
values with offset and size, and from which to which instruction each value lives. Up to TensorFlow
2.21 that is one file; since 2.22 it is three, of which the first holds the allocations, the second
the values' instructions with their nodes, the third the live ranges.

    allocation 3: size 1300, preallocated-temp:             instruction   1  2  3  4  5  6
     value: <3 tanh> (size=400,offset=0)                    tanh             [-----------]
     value: <4 fusion> (size=400,offset=448)                fusion              [--]
     value: <7 late> (size=800,offset=448)                  late                      [--]

The temporary block is one allocation; what is live in it at its own fullest moment (5: tanh and
late), and the bytes that no value covers then, sum to it. The assignment is found by the function's
name and the block's size; where none fits, or it does not say when each value lives, nothing is
opened. XLA runs a function's instructions in one order, so what is kept for the gradient is known
here, too, by the nodes' names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from runner.allocations import GRADIENT
from runner.meters.tensor.backward_start import find_turns, is_differentiated, list_differentiated
from runner.meters.tensor.window import Ints

ALIGNMENT = "alignment and gaps"
"""The op of a block's bytes that no buffer covers at its peak."""

ADDRESSES = "addresses of results"
"""The op of the table in which XLA hands on several values."""

_DEEPEST = 8
"""The most instructions in a row that XLA put in."""

_TYPES = {
    "pred": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}  # fmt: skip

_PLAN = "buffer-assignment.txt"
_MORE_OF_PLAN = ("buffer-assignment-values.txt", "live-range.txt")
"""The files of one plan end so: the first, and those that TensorFlow 2.22 put its rest into."""

_ALLOCATION = re.compile(r"^allocation \d+: size (\d+), (.*):$")
_VALUE = re.compile(r"^ value: <(\d+) (\S+)( \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): (.*)$")
_HEAD = re.compile(r"^<(\d+) \S+(?: \(phi\))? @\d+>$")
_RANGE = re.compile(r"^    (\S+\{[\d,]*\}):(\d+)-(\d+)$")

ToPath = Callable[[str], str]
"""From a node to its path of scopes, as in `backward_start`."""


@dataclass(frozen=True)
class Buffer:
    """A value in a block. Of `ALIGNMENT` there is no shape."""

    op: str
    node: str
    """The graph's node that it came from, empty if XLA does not say."""
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

    @property
    def has_range(self) -> bool:
        """Return whether XLA says when it lives."""
        return self.begin <= self.end

    @property
    def place(self) -> tuple[int, int]:
        return self.offset, self.size

    def overlaps(self, other: _Value) -> bool:
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size

    def to_buffer(self) -> Buffer:
        typed = re.match(r"([a-z]+\d*)\[([\d,]*)\]", self.type)
        if typed is None:
            return Buffer(ADDRESSES, self.node, None, "untyped", self.size)
        shape = tuple(int(size) for size in typed[2].split(",") if size)
        op = self.kind or re.sub(r"^wrapped_|[.\d]*(?:\{.*\})?$", "", self.name)
        return Buffer(op, self.node, shape, _TYPES.get(typed[1], typed[1]), self.size)


class _Allocation(NamedTuple):
    what: str
    """`preallocated-temp`, `maybe-live-out`, ..."""
    size: int
    values: list[_Value]


class BufferPlans:
    """The assignments that XLA wrote into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, list[_Allocation]] = {}

    def has_block(self, function: str, size: int) -> bool:
        """Return whether a block of this size is one of this function's."""
        found = itertools.chain.from_iterable(self._list_plans(function))
        return any(whole == size and values for _, whole, values in found)

    def _list_plans(self, function: str) -> Iterator[list[_Allocation]]:
        for file in sorted(self._folder.glob(f"*{function.lstrip('_')}_*{_PLAN}")):
            if file not in self._read:
                self._read[file] = _parse_plan(_read_plan(file))
            yield self._read[file]

    def open(self, function: str, size: int, to_path: ToPath) -> tuple[tuple[Buffer, ...], ...]:
        """Return what a block of this size holds that a call of this function allocated: the
        buffers of the temporary block at its fullest, or one result; they sum to `size`. Of results
        alike in size each call makes one of each; where they are alike in all, one stands for
        them. Nothing is returned where XLA does not say when each value lives: which of them share
        the block at one moment, and which bytes nobody uses, can't be told then."""
        results = []
        for plan in self._list_plans(function):
            for what, whole, values in plan:
                if whole != size or not values:
                    continue
                if "output shape is |(" in what:  # the addresses of several results
                    return ((Buffer(ADDRESSES, "", None, "untyped", whole),),)
                if "temp" not in what and "live-out" not in what:
                    continue
                if not all(value.has_range for value in values):
                    return ()
                if "temp" in what:
                    is_kept = _tell_kept([value for each in plan for value in each.values], to_path)
                    return (_list_buffers(whole, _find_fullest(values), is_kept),)
                results.append(_list_buffers(whole, [max(values, key=lambda value: value.end)]))
            if results:
                break
        return tuple(results) if len(set(results)) > 1 else tuple(results[:1])


def _tell_kept(values: Sequence[_Value], to_path: ToPath) -> Callable[[_Value], bool | None]:
    """Return what tells whether a value is made before the function's backward pass begins, and
    there after that."""
    if not any(value.node for value in values):
        return lambda value: None
    paths = {node: to_path(node) for node in {value.node for value in values} if node}
    backward = {node for node, path in paths.items() if GRADIENT in path.split("/")}
    known = list_differentiated(paths[node] for node in backward)
    forward = {node for node in paths.keys() - backward if is_differentiated([paths[node]], known)}

    def list_begins(nodes: set[str]) -> Ints:
        return np.array([value.begin for value in values if value.node in nodes], np.int64)

    all_born = np.unique([value.begin for value in values])
    turns = find_turns(list_begins(forward), list_begins(backward), all_born).tolist()
    return lambda value: any(value.begin < turn <= value.until for turn in turns)


def _find_fullest(values: list[_Value]) -> list[_Value]:
    """Return what is live at the fullest moment. Of values at one place the youngest is there: an
    op that writes over its input shares the instruction with it."""
    fullest: list[_Value] = []
    for moment in sorted({value.begin for value in values}):
        there: list[_Value] = []
        alive = [value for value in values if value.begin <= moment <= value.end]
        for value in sorted(alive, key=lambda value: -value.begin):
            if not any(value.overlaps(other) for other in there):
                there.append(value)
        if sum(value.size for value in there) > sum(value.size for value in fullest):
            fullest = there
    return fullest


def _list_buffers(
    size: int, values: list[_Value], is_kept: Callable[[_Value], bool | None] = lambda value: False
) -> tuple[Buffer, ...]:
    """Return the buffers of a block of this size, and what is left between them."""
    buffers = [
        replace(value.to_buffer(), is_for_gradient=is_kept(value))
        for value in sorted(values, key=lambda value: value.offset)
    ]
    gap = size - sum(buffer.bytes for buffer in buffers)
    if gap:
        buffers.append(Buffer(ALIGNMENT, "", None, "untyped", gap))
    return tuple(buffers)


def _read_plan(file: Path) -> str:
    """Return the whole text of an assignment, whether XLA wrote one file or several."""
    prefix = file.name.removesuffix(_PLAN)
    more = [file.with_name(f"{prefix}{name}") for name in _MORE_OF_PLAN]
    parts = [file, *(part for part in more if part.exists())]
    return "\n".join(part.read_text(errors="replace") for part in parts)


def _parse_plan(text: str) -> list[_Allocation]:
    """Return each allocation of an assignment: what it is for, its size, its values."""
    instructions, names = dict[str, str](), dict[str, str]()  # name -> text; value's number -> name
    ranges: dict[str, tuple[int, int]] = {}
    current = ""
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = head[1]
        elif line.startswith(" from instruction: "):
            names[current] = line.split("%", 1)[-1].split(" ", 1)[0]
            instructions[names[current]] = line
        elif live := _RANGE.match(line):
            ranges[live[1]] = int(live[2]), int(live[3])
    found: list[_Allocation] = []
    for line in text.partition("\nUsed values:")[0].splitlines():
        if allocation := _ALLOCATION.match(line):
            found.append(_Allocation(allocation[2], int(allocation[1]), []))
        elif value := _VALUE.match(line):
            number, name, phi, size, offset, typed = value.groups()
            begin, end = ranges.get(name if name.endswith("}") else f"{name}{{}}", (0, -1))
            made_by = names.get(number, "")
            found[-1].values.append(
                _Value(
                    name=name,
                    size=int(size),
                    offset=int(offset),
                    type=typed,
                    node=_find_node(instructions, made_by),
                    kind=_find_attribute(instructions.get(made_by, ""), "op_type"),
                    begin=begin,
                    end=end,
                    is_carried=phi is not None,
                )
            )
    return [each._replace(values=_name_carried(each.values)) for each in found]


def _find_attribute(instruction: str, key: str) -> str:
    """Return what XLA says of an instruction under this key, or nothing."""
    found = re.search(rf'{key}="([^"]*)"', instruction)
    return found[1] if found else ""


def _find_node(instructions: Mapping[str, str], name: str) -> str:
    """Return the graph's node of an instruction; of one that XLA put in, as a copy is, the node of
    what goes into it."""
    for _ in range(_DEEPEST):
        instruction = instructions.get(name, "")
        if nodes := _find_attribute(instruction, "op_name"):
            node = nodes.split(";")[0]  # of what is computed once for several
            return "" if node.startswith("XLA_") else node
        fed = re.search(r"\(%([^\s,)]+)", instruction)
        if fed is None:
            break
        name = fed[1]
    return ""


def _name_carried(values: list[_Value]) -> list[_Value]:
    """Give what a loop carries to the node that wrote it last; it goes on for as long as one value
    after the other carries it.

        at one place    init  [---]
                        phi        [--]                named after init
                        next           [----]
                        phi                  [--]      named after next; all four last `until` here
    """
    carried: list[_Value] = []
    latest: dict[tuple[int, int], _Value] = {}
    for value in sorted(values, key=lambda value: (value.begin, value.is_carried)):
        last = latest.get(value.place)
        if value.is_carried and last is not None:
            value = replace(value, name=last.name, node=last.node, kind=last.kind)
        latest[value.place] = value
        carried.append(value)
    latest.clear()
    for at, value in reversed(list(enumerate(carried))):
        until, after = value.end, latest.get(value.place)
        is_followed = after is not None and after.begin <= value.end + 1
        if after is not None and is_followed and (value.is_carried or after.is_carried):
            until = max(until, after.until)
        latest[value.place] = carried[at] = replace(value, until=until)
    return carried
