"""What grows, who holds it, and what it means: from a run's trials to one verdict.

Core: standard library and NumPy. How much grows is what the timing trials measured; a host trial
says of what that growth consists. A place that took memory counts where it goes on: where the least
that it holds rises from each quarter of the traced steps to the next. What rises and stops in them
was warm-up, or a buffer that fills. Resident memory grows by what is taken, less what of it came
out of memory that malloc had free, or more by what malloc keeps: its books tell that part.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from runner.judging import buffers
from runner.judging.growth import HOST, of_host
from runner.metrics import readable_bytes
from runner.records import THREAD_STACKS, THREAD_START, Record, Status, Trial

LEAST_BYTES = 64
"""A step: below it nobody is accused. A leak of that rate takes half a year to fill 1 GB at a step
a second."""

_LITTLE = 0.1
"""Of what resident memory grows by: where no more was found than that, it isn't what grows."""

_MUCH = 0.2
"""Of what resident memory grows by: where malloc keeps more, and nothing else was found, it is
that."""

_POOLED_BYTES = 262_144
"""Tensors from here on come from such regions, on a CPU."""

_KEPT = "memory that is free but kept by malloc"


@dataclass(frozen=True)
class Holder:
    """One answer to "who holds it"."""

    kind: str
    bytes_per_step: float
    count_per_step: float | None
    file: str | None
    line: int | None
    code: str | None
    what: str
    chain: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "no line of Python"


@dataclass(frozen=True)
class Remedy:
    """What was tried, or, with no figures, what to write."""

    change: str
    command: str | None = None
    growth_bytes_per_step: float | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Leak:
    """The whole answer, as `leak --json` prints it."""

    verdict: str
    sentence: str
    tensor_growth_bytes_per_step: float | None
    host_growth_bytes_per_step: float | None
    interval: tuple[float, float] | None
    explained_bytes_per_step: float | None
    holders: tuple[Holder, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What belongs to no holder: when memory will be full, what could not be had."""

    def to_json(self) -> dict[str, Any]:
        told = asdict(self)
        del told["notes"]
        return told

    @property
    def was_measured(self) -> bool:
        """Whether any trial said anything of growth: else nothing tells whether a remedy helps."""
        return any(
            each is not None
            for each in (
                self.tensor_growth_bytes_per_step,
                self.host_growth_bytes_per_step,
                self.explained_bytes_per_step,
            )
        )

    @property
    def main_holders(self) -> list[Holder]:
        """Those worth a word: a twentieth of what was found, or more."""
        least = (self.explained_bytes_per_step or 0) / 20
        return [
            each for each in self.holders if each.kind != "malloc" and each.bytes_per_step >= least
        ]

    @property
    def unexplained_bytes_per_step(self) -> float | None:
        if self.host_growth_bytes_per_step is None or self.explained_bytes_per_step is None:
            return None
        return self.host_growth_bytes_per_step - self.explained_bytes_per_step


def unsupported(reason: str | None) -> Leak:
    """Of a cell of a sweep that can't be run: no verdict on growth."""
    return Leak("unsupported", f"unsupported: {reason}", None, None, None, None)


def judge(record: Record) -> Leak:
    """Of a run with timing trials and, for the holders, a host trial."""
    if record.outcome.status is Status.UNSUPPORTED:
        return unsupported(record.outcome.reason)
    host = record.metrics.get("host_growth_bytes_per_step")
    tensor = record.metrics.get("tensor_growth_bytes_per_step")
    held = next((each.facts["held"] for each in record.trials if "held" in each.facts), None)
    holders, stopped = _holders(held) if held else ((), ())
    little: tuple[Holder, ...] = ()
    if sum(each.bytes_per_step for each in holders) < LEAST_BYTES:
        holders, little = (), holders
    kinds = {each.kind for each in holders} | {each.kind for each in stopped}
    if tensor and tensor > 0 and "tensor" not in kinds:
        what = "tensors, as the memory trial counted them"
        holders = (*holders, Holder("tensor", tensor, None, None, None, None, what))
    holders = _as_counted(holders, tensor or 0.0)
    explained = sum(_of_host(record, holders))
    if held and host and (by_malloc := _by_malloc(record, host, explained)):
        holders = (*holders, by_malloc)
        explained += by_malloc.bytes_per_step
    holders = tuple(sorted(holders, key=lambda each: -each.bytes_per_step))
    leak = Leak(
        verdict="",
        sentence="",
        tensor_growth_bytes_per_step=tensor,
        host_growth_bytes_per_step=host,
        interval=record.intervals.get("host_growth_bytes_per_step"),
        explained_bytes_per_step=_whole(explained) if held else None,
        holders=holders,
    )
    verdict = _verdict(record, leak, stopped)
    sentence = _sentence(record, replace(leak, verdict=verdict), stopped)
    return replace(
        leak,
        verdict=verdict,
        sentence=sentence,
        notes=tuple(_notes(record, replace(leak, verdict=verdict), little)),
    )


def _of_host(record: Record, holders: Iterable[Holder]) -> Iterable[float]:
    """Their bytes a step; tensors on a card are none of the host's."""
    on_card = str(record.environment.get("device") or "CPU").startswith("GPU")
    return (each.bytes_per_step for each in holders if not (on_card and each.kind == "tensor"))


# Holders.


@dataclass(frozen=True)
class Stopped:
    """What rose in the first steps that were traced, and no more in the last."""

    kind: str
    where: str
    what: str
    bytes: float


def _holders(held: Mapping[str, Any]) -> tuple[tuple[Holder, ...], tuple[Stopped, ...]]:
    by_line: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for each in _with_their_lines(_of_threads(held)):
        by_line[each["kind"], each["file"], each["line"]].append(each)
    found, stopped = [], []
    for (kind, file, line), places in by_line.items():
        bytes_ = _sum(each["bytes"] for each in places)
        counts = _sum(each["count"] for each in places)
        largest = max(places, key=lambda each: abs(_rate(each["bytes"])))
        if goes_on(bytes_) and _rate(bytes_) >= LEAST_BYTES / 4:
            rate, count = _whole(_rate(bytes_)), round(_rate(counts), 3)
            what = largest["what"]
            found.append(Holder(kind, rate, count, file, line, largest["code"], what))
        elif _rose_and_stopped(bytes_):
            where = f"{file}:{line}" if file else "no line of Python"
            stopped.append(Stopped(kind, where, largest["what"], bytes_[-1]))
    with_chains = _with_chains(found, held)
    return with_chains, tuple(sorted(stopped, key=lambda each: -each.bytes))


def goes_on(series: Sequence[float]) -> bool:
    """Whether the least that is held in each quarter rises from one quarter to the next, in none by
    much less than in the others."""
    if len(series) < 8:
        return False
    bounds = [round(len(series) * quarter / 4) for quarter in range(5)]
    least = [min(series[begin:end]) for begin, end in pairwise(bounds)]
    rises = [later - earlier for earlier, later in pairwise(least)]
    return min(rises) > max(0.0, statistics.median(rises) / 4)


def _rose_and_stopped(series: Sequence[float]) -> bool:
    half = series[len(series) // 2]
    return half > 100_000 and abs(series[-1] - half) < 0.02 * half


def _rate(series: Sequence[float]) -> float:
    """A step, over the second half: the first may still warm up. Of few steps, over three of four
    quarters."""
    steps = len(series) - 1
    half = steps // (2 if steps >= 16 else 4)
    return (series[-1] - series[half]) / (steps - half)


def _sum(series: Iterable[Sequence[float]]) -> list[float]:
    return [sum(values) for values in zip(*series, strict=True)]


def _of_threads(held: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a thread takes by being there is its line's that makes it."""
    made = next(
        (each["made_at"] for each in held["containers"] if each["chain"][0].startswith(_THREADS)),
        None,
    )
    place = next(
        (
            {key: each[key] for key in ("file", "line", "code")}
            for each in held["survivors"]
            if made and each["line"] == made[1] and _same(made[0], each["file"])
        ),
        {},
    )
    theirs = (THREAD_STACKS, THREAD_START)
    return [{**each, **place} if each["what"] in theirs else each for each in held["survivors"]]


_THREADS = "running threads"


def _with_their_lines(survivors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """XLA compiles on threads of its own, and ops of a graph run on TensorFlow's, which have no
    line. Where nearly all executables (or tensors) that have one have the same, that line made the
    others, too; and where no executable has one, the line that nearly all graphs were traced at,
    since a graph is what XLA compiles."""
    lines = {
        "executable": _line_of_nearly_all(survivors, "executable", "graph"),
        "tensor": _line_of_nearly_all(survivors, "tensor"),
    }
    return [
        {**each, **lines.get(each["kind"], {})} if not each["file"] else each for each in survivors
    ]


def _line_of_nearly_all(survivors: Sequence[Mapping[str, Any]], *kinds: str) -> dict[str, Any]:
    """Of the first of these kinds that has any lines."""
    by_line = next(filter(None, (_by_line(survivors, kind) for kind in kinds)), {})
    line = max(by_line, key=lambda each: by_line[each], default=None)
    if line is None or by_line[line] < 0.8 * sum(by_line.values()):
        return {}
    return dict(zip(("file", "line", "code"), line, strict=True))


def _by_line(survivors: Sequence[Mapping[str, Any]], kind: str) -> dict[tuple[Any, ...], float]:
    found: dict[tuple[Any, ...], float] = defaultdict(float)
    for each in survivors:
        if each["kind"] == kind and each["file"] and (rate := _rate(each["bytes"])) > 0:
            found[each["file"], each["line"], each["code"]] += rate
    return found


def _with_chains(found: Sequence[Holder], held: Mapping[str, Any]) -> tuple[Holder, ...]:
    """Each with what holds it: a container whose newest elements were made at its line; else one
    that grows by things of its kind. And graphs with the function that was traced."""
    told = []
    for holder in found:
        chain = next(iter(_chains_for(holder, held["containers"])), ())
        what = holder.what
        if holder.kind in ("graph", "executable") and held["functions"]:
            what = "; ".join([what, *_traces(held["functions"])])
            chain = chain or _function(held["functions"][0])
        told.append(replace(holder, chain=tuple(chain), what=what))
    return tuple(told)


def _as_counted(holders: Sequence[Holder], tensor: float) -> tuple[Holder, ...]:
    """Large tensors come from regions that TensorFlow takes ahead, each twice as large as the last,
    which is what the tracer sees; how much of them is taken, the memory trial has counted."""
    found = sum(each.bytes_per_step for each in holders if each.kind == "tensor")
    if tensor < _POOLED_BYTES or not found or abs(found - tensor) <= _LITTLE * tensor:
        return tuple(holders)
    return tuple(
        replace(each, bytes_per_step=_whole(each.bytes_per_step * tensor / found))
        if each.kind == "tensor"
        else each
        for each in holders
    )


def _function(told: Mapping[str, Any]) -> tuple[str, ...]:
    where = f" at {told['file']}:{told['line']}" if told["file"] else ""
    return (f"`{told['name']}`, a tf.function{where}",)


def _chains_for(holder: Holder, containers: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    at_line = [
        each["chain"]
        for each in containers
        if any(line == holder.line and _same(file, holder.file) for file, line in each["lines"])
    ]
    of_kind = [
        each["chain"]
        for each in containers
        if not each["lines"] and _KIND_OF.get(each["of"], "python") == holder.kind
    ]
    return at_line or of_kind


_KIND_OF = {"EagerTensor": "tensor", "ResourceVariable": "tensor", "FuncGraph": "graph"}


def _same(one: str, other: str | None) -> bool:
    return other is not None and (one == other or one.endswith(f"/{other}"))


def _traces(functions: Sequence[Mapping[str, Any]]) -> list[str]:
    told = []
    for each in functions:
        rate = each.get("traces_per_step")
        if rate is not None:
            why = f": its argument differed ({each['differs']})" if each["differs"] else ""
            told.append(f"`{each['name']}` is traced {rate:.3g} times a step{why}")
        else:
            told.append(f"`{each['name']}` is made anew {each['made_per_step']:.3g} times a step")
    return told


def _by_malloc(record: Record, host: float, explained: float) -> Holder | None:
    """What of the difference malloc's own books show: kept where its free memory grows, taken from
    it where that shrinks (then below 0, as resident memory grows by less than was taken)."""
    unexplained, free = host - explained, _books_rise(record, "free_bytes")
    if free * unexplained <= 0:
        return None
    part = min(free, unexplained) if free > 0 else max(free, unexplained)
    if abs(part) < LEAST_BYTES:
        return None
    what = _KEPT if part > 0 else "came out of memory that malloc had kept free"
    return Holder("malloc", _whole(part), None, None, None, None, what)


def _books_rise(record: Record, name: str) -> float:
    """A step, over the timing trials whose malloc has books; else 0."""
    slopes = [
        _slope(books["steps"], books[name])
        for trial in record.trials
        if (books := trial.facts.get("malloc")) and len(books["steps"]) >= 8
    ]
    return statistics.median(slopes) if slopes else 0.0


def _slope(steps: Sequence[int], values: Sequence[float]) -> float:
    """Over the second half."""
    half = len(steps) // 2
    return (values[-1] - values[half]) / (steps[-1] - steps[half])


# The verdict.


def _verdict(record: Record, leak: Leak, stopped: Sequence[Stopped]) -> str:
    host, tensor = leak.host_growth_bytes_per_step, leak.tensor_growth_bytes_per_step
    holding = [each for each in leak.holders if each.kind != "malloc"]
    if holding and _would_have_shown(record, leak):
        return "fills"
    if tensor and tensor > 0 and not any(each.kind == "tensor" for each in stopped):
        return "grows"
    if host is None:
        if leak.explained_bytes_per_step is None:
            return "unclear"
        if holding:
            return "grows"
        return "unclear" if _stays_in_use(record) else "flat"
    if leak.explained_bytes_per_step is not None:
        if sum(each.bytes_per_step for each in holding) > _LITTLE * host:
            return "grows"
        if host <= 0:
            return "fills" if stopped else "flat"
        kept = sum(each.bytes_per_step for each in leak.holders if each.kind == "malloc")
        return "flat" if kept > _MUCH * host else "unclear"
    return "grows" if host > 0 else "flat"


def _stays_in_use(record: Record) -> bool:
    """Whether malloc has more in use late than early, without the garbage that was found at the
    end: whatever was garbage early only makes the difference smaller."""
    return any(
        _least_that_stays(books) > HOST.floor_bytes
        for trial in record.trials
        if (books := trial.facts.get("malloc"))
    )


def _least_that_stays(books: Mapping[str, Any]) -> float:
    last, read = books["steps"][-1], list(zip(books["steps"], books["in_use_bytes"], strict=True))
    early = [in_use for step, in_use in read if last / 4 <= step < last / 2]
    late = [in_use for step, in_use in read if step >= last * 3 / 4]
    if not early:
        return 0.0
    return float(min(*late, late[-1] - books.get("collected_bytes", 0)) - min(early))


def _would_have_shown(record: Record, leak: Leak) -> bool:
    """Whether the timing trials, which take more steps than can be traced, would have had to see
    what still rose while it was traced, and saw nothing: then it stops, or comes and goes."""
    host = leak.host_growth_bytes_per_step
    rate = sum(_of_host(record, [each for each in leak.holders if each.kind != "malloc"]))
    timed = [each for each in record.trials if each.steps.get("host_bytes")]
    if host is None:
        courses = [course for trial in timed for course in _courses(trial)]
        return bool(courses) and all(_ends(*course, rate) for course in courses)
    steps = max((len(each.steps["host_bytes"]) for each in timed), default=0)
    return host == 0 and rate * steps / 2 > 4 * HOST.floor_bytes


def _courses(trial: Trial) -> Iterable[tuple[Sequence[int], Sequence[float]]]:
    """What grows shows in one of them: malloc doesn't see what is mapped, and what was free and
    resident is filled unseen."""
    resident = trial.steps["host_bytes"]
    yield range(len(resident)), resident
    if books := trial.facts.get("malloc"):
        yield books["steps"], books["in_use_bytes"]


def _ends(steps: Sequence[int], values: Sequence[float], rate: float) -> bool:
    """Whether what rises by that rate is level in the last quarter, or comes back in the second
    half to where it was in the first."""
    last = steps[-1]
    if rate * last / 4 < HOST.floor_bytes:
        return False
    early = [value for step, value in zip(steps, values, strict=True) if step < last / 2]
    late = [value for step, value in zip(steps, values, strict=True) if step >= last / 2]
    latest = [value for step, value in zip(steps, values, strict=True) if step >= last * 3 / 4]
    is_level = max(latest) - min(latest) < _LITTLE * rate * last / 4
    return is_level or min(late) - min(early) < rate * last / 4


def _sentence(record: Record, leak: Leak, stopped: Sequence[Stopped]) -> str:
    rate = leak.host_growth_bytes_per_step
    if leak.verdict == "grows":
        holding = leak.main_holders
        total = rate or leak.explained_bytes_per_step or leak.tensor_growth_bytes_per_step or 0
        parts = [
            f"{readable_bytes(each.bytes_per_step)} {_held_as(each)} at {each.where}"
            for each in holding[:2]
        ]
        more = f", and {len(holding) - 2} more" if len(holding) > 2 else ""
        told = f": {', '.join(parts)}{more}" if parts else ""
        return f"grows {readable_bytes(total)} a step{told}"
    if leak.verdict == "fills" and not stopped:
        first_holder = leak.holders[0]
        return (
            f"rises and stops: {_held_as(first_holder)[3:]} at {first_holder.where} rose while it "
            "was traced, and not over all the steps that were timed"
        )
    if leak.verdict == "fills":
        first = stopped[0]
        buffer = next(
            (each for each in buffers.held_by(record) if each.is_most_of(first.bytes)), None
        )
        told = str(buffer) if buffer else f"{readable_bytes(first.bytes)}, {first.what}"
        return f"rises and stops: a buffer that fills ({told}, at {first.where})"
    if leak.verdict == "flat":
        malloc = next((each for each in leak.holders if each.kind == "malloc"), None)
        if malloc:
            kept = readable_bytes(malloc.bytes_per_step)
            return (
                f"does not grow: what you saw is malloc's: {kept} a step are free but kept, and "
                "what is in use stays the same"
            )
        if garbage := _garbage(record):
            return (
                "does not grow: garbage waits for Python's collector, and "
                f"{readable_bytes(garbage)} came back when it ran"
            )
        return "does not grow"
    if rate is None:
        return f"unclear: {record.unavailable.get('host_growth_bytes_per_step', 'not measured')}"
    if _books_rise(record, "in_use_bytes") > rate / 2:
        return (
            f"unclear: resident memory grows {readable_bytes(rate)} a step and is in use, Python's "
            "collector did not give it back, and nothing that stays was found: it was taken past "
            "the tracer (as by ctypes)"
        )
    return (
        f"unclear: resident memory grows {readable_bytes(rate)} a step, and nothing that stays "
        "was found: run it with more steps (measure=standard), or it was taken past the tracer"
    )


def _garbage(record: Record) -> float:
    """What Python's collector gave back after the last step, where it had looked like growth."""
    found = [of_host(trial) for trial in record.trials if trial.kind == "timing"]
    return max((each.collected_bytes for each in found if each is not None), default=0.0)


def _held_as(holder: Holder) -> str:
    if holder.kind == "native":  # the table names the op and the function, too
        what = holder.what.partition(" (")[0].partition(", op ")[0]
        return f"in C++{what.removeprefix('C++ memory')}" if "C++" in what else f"of {what}"
    what = holder.what.partition("; ")[0]  # why it is traced again is the table's, too
    return f"in {what}" if holder.kind == "graph" else f"of {what}"


def _notes(record: Record, leak: Leak, little: Sequence[Holder]) -> Iterable[str]:
    for each in little:
        amount = readable_bytes(each.bytes_per_step)
        yield f"{amount} a step stay at {each.where}, {each.what}: too little to call it a leak"
    growth = leak.host_growth_bytes_per_step or leak.explained_bytes_per_step or 0
    if growth > 0 and leak.verdict == "grows":
        yield _full(record, growth)
    if held := buffers.held_by(record):
        yield f"tf.data holds {'; '.join(map(str, held))}"
    for trial in record.trials:
        if not trial.outcome.completed:
            yield f"the {trial.kind} trial ended {trial.outcome.status}: {_first(trial)}"


def _full(record: Record, growth: float) -> str:
    limit_mb = record.spec["measure"]["host_limit_mb"]
    whole = limit_mb * 2**20 if limit_mb else record.environment["memory_bytes"]
    left = whole - (record.metrics.get("host_peak_bytes") or 0)
    steps = max(0, left) / growth
    seconds = record.metrics.get("step_seconds")
    time = f", {_duration(steps * seconds)} at {seconds * 1e3:.3g} ms a step" if seconds else ""
    return f"{readable_bytes(whole)} of memory are full after {steps:,.0f} steps{time}"


def _duration(seconds: float) -> str:
    for scale, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= scale * 1.5:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def _first(trial: Trial) -> str:
    return (trial.outcome.reason or "").strip().splitlines()[0] if trial.outcome.reason else ""


def _whole(value: float) -> float:
    return float(round(value))
