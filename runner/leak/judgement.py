"""Judge a run: does it grow, who holds it, and what does it mean?

Core: standard library and NumPy. How much grows is what the timing trials measured; a host trial
says of what that growth consists (`holders`). Resident memory grows by what is taken, less what of
it came out of memory that malloc had free, or more by what malloc keeps: malloc's own books tell
that part. The first row of this table that applies decides:

    1  holders rose while traced; the timing trials, of more steps, are level   fills
    2  the memory trial counted tensors that grow, and none that stopped        grows
       host growth is not known or 0, and
    3      something holds more and more, in fewer than eight traced steps      unclear
       host growth is not known, and
    4      there was no host trial                                              unclear
    5      something holds more and more                                        grows
    6      something rose by little, in some of the traced steps                unclear
    7      malloc has more in use late than early                               unclear
    8      else                                                                 flat
       host growth is known, without a host trial, and
    9      above 0                                                              grows
    10     0, and a host trial ended badly, or was wanted and not run           unclear
    11     0                                                                    flat
       host growth is known, with a host trial, and
    12     holders explain more than a tenth of it                              grows
    13     it is 0, and something rose and stopped                              fills
    14     it is 0                                                              flat
    15     malloc keeps more than a fifth of it free                            flat
    16     something rose in a few traced steps, and that is not its growth     unclear
    17     else: nobody was found                                               unclear

Tensors that fill a buffer of tf.data's are no holder where it is known at which size it is full:
then "fills" stands for "flat". What rose in a few traced steps alone holds where it is the growth,
one event more or less. Where the verdict is flat or fills, and child processes take more than they
did, it is unclear: they were looked at twice. Where it grows, theirs is part of the growth.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from runner.analysis.estimate import find_growth_bound
from runner.analysis.filling import find_endless, find_filling
from runner.analysis.growth import HOST, find_usual_bound, judge_host
from runner.facts import MOST_TRACED_STEPS, MallocBooks, PipelineBuffer
from runner.leak import sentences
from runner.leak.findings import Holder, Leak, LeakEvidence, LeakVerdict, Reason
from runner.leak.holders import ENOUGH_STEPS, LEAST_BYTES, TracedHolders, find_holders
from runner.metrics import format_bytes
from runner.records import Record, Status

_LITTLE = 0.1
"""Share of host growth: where no more was found than that, it isn't what grows."""

_MUCH = 0.2
"""Share of host growth: where malloc keeps more, and nothing else was found, it is that."""

_OFF = 0.2
"""Share by which resident memory may rise less, or more, than what was traced explains."""

_POOLED_BYTES = 262_144
"""Larger tensors come from regions that TensorFlow takes ahead, on a CPU."""


def judge(record: Record) -> Leak:
    """Return the answer for a run with timing trials and, for the holders, a host trial."""
    if record.outcome.status is Status.UNSUPPORTED:
        return Leak(LeakVerdict.UNSUPPORTED, f"unsupported: {record.outcome.reason}")
    evidence = gather_evidence(record)
    verdict, reason = decide(evidence)
    leak = Leak(
        verdict=verdict,
        sentence="",
        tensor_growth_bytes_per_step=evidence.tensor,
        host_growth_bytes_per_step=evidence.host,
        interval=record.intervals.get("host_growth_bytes_per_step"),
        host_bound_bytes_per_step=find_growth_bound(record.trials, "host_growth_bytes_per_step"),
        explained_bytes_per_step=evidence.explained,
        holders=evidence.holders,
    )
    return replace(
        leak,
        sentence=sentences.write_sentence(record, leak, evidence, reason),
        seen=sentences.describe_steps(record),
        notes=tuple(sentences.list_notes(record, leak, evidence)),
    )


def decide(evidence: LeakEvidence) -> tuple[LeakVerdict, Reason]:
    """Return the verdict and its reason, by the table at the top of this module."""
    verdict, reason = _decide_alone(evidence)
    if evidence.are_children_growing and verdict in (LeakVerdict.FLAT, LeakVerdict.FILLS):
        return LeakVerdict.UNCLEAR, Reason.CHILDREN_GROW
    return verdict, reason


def _decide_alone(evidence: LeakEvidence) -> tuple[LeakVerdict, Reason]:
    """Return the verdict on the process itself."""
    host, holding = evidence.host, evidence.holding
    grows = LeakVerdict.GROWS, Reason.HELD
    full = LeakVerdict.FILLS, Reason.BUFFER_IS_FULL if evidence.stopped else Reason.LEVELS_OFF
    flat = LeakVerdict.FLAT, Reason.GARBAGE if evidence.garbage_bytes else Reason.NOTHING_GROWS
    if evidence.filling:
        full = flat = LeakVerdict.FILLS, Reason.BUFFER_FILLS
    if holding and evidence.is_level_when_timed:
        return full
    if (evidence.tensor or 0) > 0 and not any(
        holder.kind == "tensor" for holder in evidence.stopped
    ):
        return grows
    if holding and not host and evidence.traced_steps < ENOUGH_STEPS:
        return LeakVerdict.UNCLEAR, Reason.TOO_FEW_STEPS
    if host is None:
        if evidence.explained is not None and holding:
            return grows
        if evidence.unsure:
            return LeakVerdict.UNCLEAR, Reason.TOO_FEW_STEPS
        if evidence.explained is None or evidence.has_more_in_use:
            return LeakVerdict.UNCLEAR, Reason.NOT_MEASURED
        return flat
    if evidence.explained is None:
        if host <= 0 and evidence.failed_explanation:
            return LeakVerdict.UNCLEAR, Reason.EXPLANATION_FAILED
        return grows if host > 0 else flat
    if sum(holder.bytes_per_step for holder in holding) > _LITTLE * host:
        return grows
    if host <= 0:
        return full if evidence.stopped else flat
    if evidence.kept_by_malloc > _MUCH * host:
        return LeakVerdict.FLAT, Reason.KEPT_BY_MALLOC
    if sum(holder.bytes_per_step for holder in evidence.rare) > _LITTLE * host:
        return LeakVerdict.UNCLEAR, Reason.TOO_RARE
    is_in_use = evidence.in_use_per_step > host / 2
    return LeakVerdict.UNCLEAR, Reason.PAST_THE_TRACER if is_in_use else Reason.NOT_FOUND


def gather_evidence(record: Record) -> LeakEvidence:
    """Return what the trials of a run say."""
    host = record.metrics.get("host_growth_bytes_per_step")
    tensor = record.metrics.get("tensor_growth_bytes_per_step")
    traced = next((trial.facts.held for trial in record.trials if trial.facts.held), None)
    is_known_to_grow = host is not None and host > 0
    holders, unsure, stopped, rare = (
        find_holders(traced, is_known_to_grow) if traced else TracedHolders([], [], [], [])
    )
    little: list[Holder] = []
    if sum(holder.bytes_per_step for holder in holders) < LEAST_BYTES:
        holders, little = [], holders
    is_enough = host is not None or (traced is not None and traced.steps >= MOST_TRACED_STEPS)
    if is_enough or sum(holder.bytes_per_step for holder in (*unsure, *little)) < LEAST_BYTES:
        unsure, little = [], [*unsure, *little]
    kinds = {holder.kind for holder in holders} | {holder.kind for holder in stopped}
    if tensor and tensor > 0 and "tensor" not in kinds:
        what = "tensors, as the memory trial counted them"
        holders.append(Holder("tensor", tensor, what=what))
    holders = _correct_pooled(holders, tensor or 0.0)
    steps = max((trial.steps.host_steps for trial in record.trials), default=0)
    filling = find_filling(record.trials)
    filled = [holder for holder in holders if holder.kind in ("tensor", "native")]
    rate = sum(holder.bytes_per_step for holder in filled)
    if filling and filling.buffers and rate <= filling.compute_host_rate(steps):
        holders = [holder for holder in holders if holder not in filled]
    else:
        filling = None
    if endless := find_endless(record.trials):
        holders = [_name_buffer(holder, endless) for holder in holders]
    explained = _sum_on_host(record, holders)
    recurring = [holder for holder in rare if holder.events != 1]
    if host and _explains(recurring, host - explained):
        holders, rare = [*holders, *recurring], []
        explained = _sum_on_host(record, holders)
    timed = [judge_host(trial) for trial in record.trials if trial.kind == "timing"]
    judged = [growth for growth in timed if growth is not None]
    bound = find_usual_bound(judged)
    is_level_when_timed = not host and bound is not None and explained > 2 * bound
    books = [trial.facts.malloc for trial in record.trials if trial.facts.malloc]
    if traced and host and (by_malloc := _explain_by_malloc(books, host - explained)):
        holders.append(by_malloc)
        explained += by_malloc.bytes_per_step
    tried = [trial.outcome for trial in record.trials if trial.kind == "host"]
    failed = next(
        (outcome.status.replace("_", " ") for outcome in tried if not outcome.completed), None
    )
    failed = failed and f"ended as {failed}"
    if not tried and record.spec.measure.host_processes:
        failed = "was not run"
    children = [trial.facts.children for trial in record.trials if trial.facts.children]
    return LeakEvidence(
        host,
        tensor,
        float(round(explained)) if traced else None,
        tuple(sorted(_merge_rows(holders), key=lambda holder: -holder.bytes_per_step)),
        tuple(little),
        tuple(sorted(unsure, key=lambda holder: -holder.bytes_per_step)),
        tuple(stopped),
        tuple(sorted(rare, key=lambda holder: -holder.bytes_per_step)),
        is_level_when_timed,
        any(_added_in_use(book) > HOST.floor_bytes for book in books),
        _rise_of_books(books, lambda book: book.in_use_bytes),
        failed,
        traced.steps if traced else 0,
        max(children, key=lambda pair: pair[1].bytes, default=None),
        steps,
        filling,
        max((growth.collected_bytes for growth in judged), default=0.0),
    )


def _name_buffer(holder: Holder, buffer: PipelineBuffer) -> Holder:
    """Return the holder: what threads of TensorFlow's take, at no line, by the buffer that keeps
    elements of that size."""
    size = buffer.element_bytes or holder.bytes_per_step
    is_of_buffer = holder.kind in ("tensor", "native") and holder.bytes_per_step >= size
    if holder.file or not is_of_buffer:
        return holder
    return replace(holder, what=f"tf.data's {buffer.stage}, of which no end is known")


def _merge_rows(holders: Sequence[Holder]) -> list[Holder]:
    """Return the holders, those of one object as one: what the same container gave back of the same
    line, in Python and in C++. The largest gives its kind."""
    rows: dict[object, Holder] = {}
    for holder in sorted(holders, key=lambda holder: -holder.bytes_per_step):
        one = (holder.file, holder.line, holder.chain) if holder.is_held else id(holder)
        largest = rows.get(one)
        if largest is None or holder.events or largest.events:
            rows[one if largest is None else id(holder)] = holder
            continue
        part = f"{format_bytes(holder.bytes_per_step)} of it {holder.kind}: {holder.what}"
        total = largest.bytes_per_step + holder.bytes_per_step
        rows[one] = replace(largest, bytes_per_step=total, what=f"{largest.what}; {part}")
    return list(rows.values())


def _explains(rare: Sequence[Holder], growth: float) -> bool:
    """Return True if what rose in a few steps is the growth, one event more or less."""
    rates = [(holder.bytes_per_step, 1 / (holder.events or 1)) for holder in rare]
    fewer = sum(rate * (1 - of_one) for rate, of_one in rates)
    more = sum(rate * (1 + of_one) for rate, of_one in rates)
    return (1 - _OFF) * fewer <= growth <= (1 + _OFF) * more


def _sum_on_host(record: Record, holders: Sequence[Holder]) -> float:
    """Return the bytes a step that lie on the host: tensors on a card don't."""
    on_card = (record.environment.device or "CPU").startswith("GPU")
    return sum(
        holder.bytes_per_step for holder in holders if not (on_card and holder.kind == "tensor")
    )


def _correct_pooled(holders: Sequence[Holder], tensor: float) -> list[Holder]:
    """Return the holders, tensors as the memory trial has counted them where they are large.

    Large tensors come from regions that TensorFlow takes ahead, each twice as large as the last;
    the tracer sees the regions.
    """
    explained = sum(holder.bytes_per_step for holder in holders if holder.kind == "tensor")
    if tensor < _POOLED_BYTES or not explained or abs(explained - tensor) <= _LITTLE * tensor:
        return list(holders)
    return [
        replace(holder, bytes_per_step=float(round(holder.bytes_per_step * tensor / explained)))
        if holder.kind == "tensor"
        else holder
        for holder in holders
    ]


# Malloc's own books.


def _rise_of_books(
    several: Sequence[MallocBooks], read: Callable[[MallocBooks], Sequence[float]]
) -> float:
    """Return the rise a step over the second half, the median of the trials; 0 without books."""
    slopes = []
    for books in several:
        if (count := len(books.steps)) >= 8:
            values, half = read(books), count // 2
            slopes.append((values[-1] - values[half]) / (books.steps[-1] - books.steps[half]))
    return statistics.median(slopes) if slopes else 0.0


def _explain_by_malloc(several: Sequence[MallocBooks], unexplained: float) -> Holder | None:
    """Return malloc as a holder, as far as its books explain what nobody else does.

    Its free memory grows: that is kept. It shrinks: that much was taken from it, and resident
    memory grew by so much less; then the holder's bytes are below 0.
    """
    free = _rise_of_books(several, lambda books: books.free_bytes)
    if free * unexplained <= 0:
        return None
    part = min(free, unexplained) if free > 0 else max(free, unexplained)
    if abs(part) < LEAST_BYTES:
        return None
    what = "memory that is free but kept by malloc"
    if part < 0:
        what = "came out of memory that malloc had kept free"
    return Holder("malloc", float(round(part)), what=what)


def _added_in_use(books: MallocBooks) -> float:
    """Return by how much the least in use of the last quarter is above that of the second, without
    the garbage found at the end; whatever was garbage early only makes this smaller."""
    last, noted = books.steps[-1], list(zip(books.steps, books.in_use_bytes, strict=True))
    early = [in_use for step, in_use in noted if last / 4 <= step < last / 2]
    late = [in_use for step, in_use in noted if step >= last * 3 / 4]
    if not early:
        return 0.0
    return float(min(*late, late[-1] - books.collected_bytes) - min(early))
