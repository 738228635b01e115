"""Whether the memory trials that there are show what a peak is, or more are needed.

Core: standard library only. A peak of a graph is a statement about processes: TensorFlow's executor
takes ready ops in an order that is drawn anew in each process, and within one all steps follow it.
What decides is what the trials themselves say, so that a run that is resumed decides alike:

- No op ran in the graph executor, or all of them under XLA: the peak repeats, one trial tells it.
- The first six processes made and freed the same bytes in the same order: it was shown to repeat.
- Else trials go on until there are seven, and four in a row have brought nothing outside what was
  seen before, or there are twelve. (Of a value that one process in nine takes, four in a row see
  nothing six times in ten: the summary says of how many processes the range is.)
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.judging.tolerance import tolerance
from runner.metrics import METRICS
from runner.records import Trial

ALIKE = 6
"""So many processes with the same course show that a graph's peak repeats. Of two courses that
processes take two to one, six of one cell all take the one and six of another all the other one
time in five thousand; three do one time in fifty."""

QUIET = 4
"""So many in a row that bring nothing new are enough where it does not."""

LEAST = 7
"""Where it does not: from as many on, two cells that lie wholly apart can be told apart."""

MOST = 12

_PEAK = "tensor_peak_bytes"


def completed_memory(trials: Sequence[Trial]) -> list[Trial]:
    return [one for one in trials if one.kind == "memory" and one.outcome.completed]


def may_vary(trials: Sequence[Trial], execution: str) -> bool:
    """Whether another process may have another peak, by what the memory trials show: they differ,
    or a graph ran and too few of them agree to the last free. Of trials that don't say how their
    bytes came and went (an older record's), only differing peaks tell."""
    memory = completed_memory(trials)
    if len({one.facts.get(_PEAK) for one in memory}) > 1:
        return True
    if execution == "xla" or not any(one.facts.get("graph_ops") for one in memory):
        return False
    courses = [one.facts.get("course") for one in memory]
    return len(courses) < ALIKE or len(set(courses[:ALIKE])) > 1


def differ(trials: Sequence[Trial]) -> bool:
    """Whether the memory trials have shown that processes differ, in peak or in course."""
    memory = completed_memory(trials)
    return any(len({one.facts.get(name) for one in memory}) > 1 for name in (_PEAK, "course"))


def needs_more(trials: Sequence[Trial], execution: str) -> bool:
    """Whether one more memory trial would tell more of the peak."""
    memory = completed_memory(trials)
    peaks = [one.facts.get(_PEAK) for one in memory]
    known = [peak for peak in peaks if peak is not None]
    if not memory or len(known) < len(peaks) or not may_vary(trials, execution):
        return False
    courses = {one.facts.get("course") for one in memory}
    least = ALIKE if len(courses) == 1 else LEAST
    return len(memory) < least or (len(memory) < MOST and not _settled(known))


def _settled(peaks: Sequence[float]) -> bool:
    """Whether the last few lie within what was seen before them, or as good as."""
    before, last = peaks[:-QUIET], peaks[-QUIET:]
    slack = tolerance(METRICS[_PEAK]).at(*peaks)
    return min(before) - slack <= min(last) and max(last) <= max(before) + slack
