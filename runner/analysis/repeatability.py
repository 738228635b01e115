"""Tell if the memory trials that there are show what a peak is, or more are needed.

Core: standard library only. A peak of a graph is a statement about processes: TensorFlow's executor
takes ready ops in an order that is drawn anew in each process. Often all steps of a process follow
it, but five of a convolutional autoencoder took 47.3, 53.7, 55.3, 47.3 and 47.3 MB: a range is of
processes that take as many steps as the trials did. What decides is what the trials themselves say,
so that a run that is resumed decides alike:

- No op ran in the graph executor, or all of them under XLA: the peak repeats, one trial tells it.
- The first six processes made and freed the same bytes in the same order: it was shown to repeat.
- Else trials go on until there are seven, and four in a row have brought nothing outside what was
  seen before, or there are twelve. (Of a value that one process in nine takes, four in a row see
  nothing six times in ten: the summary says of how many processes the range is.)

Where time is bounded (`measure.peak_seconds`) costly trials are few: none is added that would take
those added beyond that time, nor of trials of a second and more once three of them lie together.
That is a range, and nothing that was shown to repeat.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.analysis.tolerance import Tolerance, find_tolerance
from runner.metrics import METRICS, TENSOR_PEAK
from runner.records import Trial

ALIKE = 6
"""So many processes with the same course show that a graph's peak repeats. Of two courses that
processes take two to one, six of one cell all take the one and six of another all the other one
time in five thousand; three do one time in fifty."""

QUIET = 4
"""Trials in a row within the known range after which a varying peak is settled."""

LEAST = 7
"""Where it does not: from as many on, two cells that lie wholly apart can be told apart."""

MOST = 12

FEW = 3
"""Where trials are costly: from as many on that lie together, a peak is known well enough."""

TOGETHER = Tolerance(absolute=256.0, share=0.01)
"""How near that is."""

COSTLY_SECONDS = 1.0
"""A trial that takes as long is costly."""


def list_memory_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the memory trials that completed."""
    return [one for one in trials if one.kind == "memory" and one.outcome.completed]


def can_vary(trials: Sequence[Trial], execution: str) -> bool:
    """Return True if another process may have another peak, by what the memory trials show.

    They differ, or a graph ran and too few of them agree to the last free. Of trials that don't say
    how their bytes came and went (an older record's), only differing peaks tell.
    """
    memory = list_memory_trials(trials)
    if any(one.facts.arrays_vary for one in memory):  # see `meters/tensor/numpy_alignment`
        return True
    if len({one.facts.tensor_peak_bytes for one in memory}) > 1:
        return True
    if execution == "xla" or not any(one.facts.graph_ops for one in memory):
        return False
    courses = [one.facts.course for one in memory]
    return len(courses) < ALIKE or len(set(courses[:ALIKE])) > 1


def has_differing(trials: Sequence[Trial]) -> bool:
    """Return True if the memory trials have shown that processes differ, in peak or in course."""
    memory = list_memory_trials(trials)
    peaks = {one.facts.tensor_peak_bytes for one in memory}
    return len(peaks) > 1 or len({one.facts.course for one in memory}) > 1


def bound_higher_peaks(processes: int) -> int:
    """Return k where at most 1 in k other processes has a peak above the highest of these, at 95 %
    confidence whatever the peaks' distribution; 1 where that says nothing."""
    # All of n draws lie below what a share p exceeds with probability (1 - p) ** n.
    return int(1 / (1 - 0.05 ** (1 / processes)))


def count_more_trials(
    trials: Sequence[Trial], execution: str, most_seconds: float | None = None
) -> int:
    """Return how many more memory trials the peak needs, if each shows what the last one did; those
    that are added take `most_seconds` at most."""
    memory = list_memory_trials(trials)
    there = len(memory)
    while needs_more_trials(memory, execution, most_seconds):
        memory.append(memory[-1])
    return len(memory) - there


def needs_more_trials(
    trials: Sequence[Trial], execution: str, most_seconds: float | None = None
) -> bool:
    """Return True if one more memory trial would tell more of the peak, and is worth its time."""
    memory = list_memory_trials(trials)
    peaks = [one.facts.tensor_peak_bytes for one in memory]
    known = [peak for peak in peaks if peak is not None]
    if not memory or len(known) < len(peaks) or not can_vary(trials, execution):
        return False
    if most_seconds is not None and _is_too_costly(memory, known, most_seconds):
        return False
    courses = {one.facts.course for one in memory}
    least = ALIKE if len(courses) == 1 else LEAST
    return len(memory) < least or (len(memory) < MOST and not _is_settled(known))


def _is_too_costly(memory: Sequence[Trial], peaks: Sequence[float], most_seconds: float) -> bool:
    """Return True if one more trial would take too long for what it tells."""
    seconds = [one.facts.seconds or 0.0 for one in memory]  # an older record's are unknown
    each = sum(seconds) / len(seconds)
    if sum(seconds[1:]) + each > most_seconds:
        return True
    return each >= COSTLY_SECONDS and len(peaks) >= FEW and TOGETHER.same(peaks)


def _is_settled(peaks: Sequence[float]) -> bool:
    """Return True if the last few lie within what was seen before them, or as good as."""
    before, last = peaks[:-QUIET], peaks[-QUIET:]
    slack = find_tolerance(METRICS[TENSOR_PEAK]).at(*peaks)
    return min(before) - slack <= min(last) and max(last) <= max(before) + slack
