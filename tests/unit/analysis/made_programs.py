"""Programs whose growth is known, because they are made: what each step keeps, what is garbage and
when the collector frees it, what malloc keeps free of that; and what a timing trial would have read
after each step.

They are such as a trial can tell: growth is two megabytes and more in all its steps, a cache is
full within 400 of them, garbage of a program that does not grow is less than the meter's floor a
step. Where malloc has no books it gives back what was freed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.analysis.growth import (
    HOST,
    ProcessGrowth,
    RiseWatch,
    judge_resident,
)
from runner.facts import MallocBooks
from runner.meters.host.clean import CleanLog
from runner.meters.host.timing import LeastSeries

Random = np.random.Generator
PAGE = 4096
ASKED_STEPS, LEAST_STEPS = 200, 30
"""Of a timing trial in `leak`: so many, or as many as fit in the time, and never fewer."""
_HIGHEST_TOOTH = 50e6
"""Python's collector counts objects: the more garbage, the sooner it goes."""
_OFF = 0.1
"""Of a rate: what is further from the truth is off."""

KINDS = ("level", "leak", "sawtooth", "rising sawtooth")

Array = Any


@dataclass(frozen=True)
class Program:
    """One program, for as many steps as its trial has time for."""

    kind: str
    rate: float
    """The bytes that a step keeps, once it is warm: the truth."""
    kept: Array
    """Bytes that are kept after each step, the warm-up and what fills among them."""
    garbage: Array
    """Bytes after each step that wait for Python's collector, or for their cache to be emptied."""
    is_collectable: bool
    """Python's collector frees the garbage, at the end, too."""
    returned: float
    """Share of freed garbage that malloc gives back at once."""
    in_books: float
    """Share of all that malloc has in its books; 0: there are none."""
    holes: Array
    """Share of what malloc has free that it can't give back when asked, at each step: parts of
    pages and of arenas, beside what is in use."""
    noise: Array
    """Pages that come and go, and arenas that malloc takes."""
    step_seconds: float

    @property
    def steps(self) -> int:
        return len(self.kept)


def make_program(random: Random) -> Program:
    """Return a program of any kind."""
    seconds = 10 ** random.uniform(-4, -0.5)
    steps = int(np.clip(10 / seconds, LEAST_STEPS, 20_000))
    step = np.arange(steps)
    kind = str(random.choice(KINDS, p=[0.2, 0.25, 0.2, 0.35]))
    grows = kind in ("leak", "rising sawtooth")
    rate = 10 ** random.uniform(math.log10(max(20.0, 2e6 / steps)), 6.7) if grows else 0.0
    kept = rate * _spread(random, step) + _start(random, step)
    garbage, is_collectable = np.zeros(steps), bool(random.random() < 0.7)
    in_books = float(random.choice([0, 0.6, 0.85, 1]))
    returned = float(random.choice([0, 0.3, 0.8, 1] if in_books else [0.8, 1]))
    if kind.endswith("sawtooth"):
        size = rate * 10 ** random.uniform(-0.5, 1) if grows else 10 ** random.uniform(3, 5.4)
        garbage = _pile_up(random, step, size, is_collectable)
    noise = PAGE * (
        random.integers(0, 3, size=steps) + (random.random(steps) < 0.002).cumsum()
    ).astype(float)
    if random.random() < 0.15:
        noise += random.choice([132, 256, 528, 1024]) * 1024 * (step >= random.integers(steps))
    if random.random() < 0.2:  # beside others, a thread's block is freed later now and then
        noise += 10 ** random.uniform(4, 6) * (random.random(steps) < 0.05)
    (apart,) = random.spawn(1)
    holes = apart.choice([0, 0.02, 0.1, 0.3]) * apart.uniform(0.5, 1.5, size=steps)
    return Program(
        kind, rate, kept, garbage, is_collectable, returned, in_books, holes, noise, seconds,
    )  # fmt: skip


def _spread(random: Random, step: Array) -> Array:
    """Return how often a step has kept something, after each: in every one, in every few, or by
    different amounts."""
    every = int(random.integers(1, 6)) if random.random() < 0.3 else 1
    if random.random() < 0.3:
        amounts = random.uniform(0.5, 1.5, size=step.size)
        return amounts.cumsum() / amounts.mean()
    return every * (step // every)


def _start(random: Random, step: Array) -> Array:
    """Return what is kept from the start: nothing, a warm-up that levels off, or a cache that is
    full before 0.4 of the steps."""
    kind, size = random.integers(3), 10 ** random.uniform(4, 7.5)
    if kind == 0:
        return np.zeros(step.size)
    if kind == 1:
        return size * (1 - np.exp(-step / (random.uniform(0.02, 0.08) * min(1000, step.size))))
    return size * np.minimum(1, step / random.integers(1, max(2, int(0.4 * min(1000, step.size)))))


def _pile_up(random: Random, step: Array, size: float, is_collectable: bool) -> Array:
    """Return garbage after each step: freed at a period of steps that varies a little, or rises as
    the collector's third generation; some never before the end."""
    longest = (1.5 if is_collectable else 0.3) * step.size
    period = random.uniform(3, max(4, min(longest, 400, _HIGHEST_TOOTH / size)))
    widens = random.choice([1.0, 1.0, 1.1]) if is_collectable else 1.0
    left, waiting, garbage = period * random.random(), 0.0, np.zeros(step.size)
    for number in range(step.size):
        left -= 1
        waiting += size
        if left <= 0:
            period *= widens
            left += max(2.0, period * random.uniform(0.9, 1.1))
            waiting = size * random.random()  # part of the step's own is younger
        garbage[number] = waiting
    return garbage


class Process:
    """The process of a program, which its trial may collect and trim between two steps."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._collected = self._free = self._holes = self._held = 0.0
        """Garbage that was freed before its time; what malloc keeps free; what is in use."""

    def take_step(self, number: int) -> int:
        """Return what is resident after it, in pages."""
        garbage = self._program.garbage
        if number and garbage[number] < garbage[number - 1]:
            self._collected = 0.0
        self._hold(self._program.kept[number] + garbage[number] - self._collected)
        return self._read(number)

    def collect(self, number: int) -> int:
        """Return what is resident before it, once garbage is collected and malloc trimmed."""
        program = self._program
        if program.is_collectable:
            self._collected = program.garbage[number - 1]
            self._hold(program.kept[number - 1])
        return self.trim(number)

    def trim(self, number: int) -> int:
        """Return what is resident before a step, once malloc has given back what it has free."""
        self._holes += self._program.holes[number - 1] * self._free
        self._free = 0.0
        return self._read(number - 1)

    def _hold(self, held: float) -> None:
        taken, self._held = held - self._held, held
        if taken >= 0:
            of_holes = min(taken, self._holes)
            self._holes -= of_holes
            self._free = max(0.0, self._free - (taken - of_holes))
        else:
            self._free += (1 - self._program.returned) * -taken

    def _read(self, number: int) -> int:
        bytes_ = self._held + self._free + self._holes + self._program.noise[number]
        return PAGE * math.floor(bytes_ / PAGE)


def read_books(program: Program, steps: int) -> MallocBooks | None:
    """Return malloc's books of the first steps: a row before each of the first 32, then of each
    eighth or less."""
    if not program.in_books:
        return None
    every = 8
    while steps / every > 128:
        every *= 2
    rows = [*range(min(32, steps)), *range(32, steps, every)]
    in_use = program.in_books * (program.kept + program.garbage)
    before = [0, *in_use.astype(int).tolist()]
    free = (0,) * len(rows)
    collected = (
        round(program.in_books * program.garbage[steps - 1]) if program.is_collectable else 0
    )
    return MallocBooks(tuple(rows), tuple(before[row] for row in rows), free, collected)


def judge_program(program: Program, cleans: bool = True) -> tuple[ProcessGrowth, int]:
    """Return what a timing trial says of it, and of how many steps: cheap ones are repeated until
    they tell, or the time is over. One that `cleans` reads without garbage from half of the steps
    that `leak` asks for, or of the time, on."""
    process = Process(program)
    kept, watch, steps = LeastSeries(), RiseWatch(), 0
    clean = CleanLog(lambda: process.trim(steps), lambda: process.collect(steps))
    while steps < program.steps and (steps < ASKED_STEPS or watch.needs_more):
        if cleans and steps >= min(ASKED_STEPS, program.steps) / 2:
            clean.note(steps)
        resident = process.take_step(steps)
        steps += 1
        kept.add(process.trim(steps) if clean.has_begun and steps % kept.stride == 0 else resident)
        if steps >= ASKED_STEPS and watch.is_due(steps):
            readings, books = clean.to_facts(), read_books(program, steps)
            seen = judge_resident(kept.values, kept.stride, readings, books)
            watch.look(steps, steps * program.step_seconds, seen)
    collected = resident - process.collect(steps) if program.is_collectable else 0
    readings, books = clean.to_facts(), read_books(program, steps)
    return judge_resident(kept.values, kept.stride, readings, books, collected), steps


def grade(rate: float, answer: ProcessGrowth, steps: int) -> Iterator[str]:
    """Yield what is wrong with an answer: `false verdict`, `false bound`, `off`, `unknown`."""
    said, bound = answer.bytes_per_step, answer.at_most_bytes_per_step
    if said and not rate:
        yield "false verdict"
    elif said and abs(said - rate) > _OFF * rate:
        yield "off"
    if said == 0 and rate * steps / 2 > HOST.floor_bytes:
        yield "false verdict"
    if said is None:
        yield "unknown"
    if not said and bound is not None and bound < rate:
        yield "false bound"


def count_faults(count: int, seed: int, cleans: bool = True) -> dict[str, Counter[str]]:
    """Return by kind how many of so many programs had which fault, and how many there were."""
    random = np.random.default_rng(seed)
    faults: dict[str, Counter[str]] = {}
    for _ in range(count):
        program = make_program(random)
        answer, steps = judge_program(program, cleans)
        of_kind = faults.setdefault(program.kind, Counter())
        of_kind.update(["programs", *grade(program.rate, answer, steps)])
    return faults
