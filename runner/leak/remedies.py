"""Remedies that can be tried: which ones could help, the cell of each, and what came of it.

Each is a field with another value, so the command that repeats it is the user's own with one word
more. A remedy is judged on the quantity that grew, by the kind of trial that has shown its growth:

    grew                                                         is measured again by
    tensors, by more than twice what the host did (on a card)    a memory trial
    resident memory                                              a timing trial
    what was traced, where resident memory could not tell        a host trial
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from runner import paths
from runner.analysis import growth
from runner.cell import Cell
from runner.compose import composition
from runner.leak.findings import Leak, Remedy, RemedyOutcome
from runner.leak.holders import ENOUGH_STEPS, sum_survivors
from runner.metrics import format_bytes
from runner.overrides import read_overrides, split_override
from runner.processes import mallocs
from runner.records import Record, Status
from runner.render.files.command import join_command
from runner.script.words import from_overrides

_MUCH = 0.2
"""Share of the growth from which on malloc, or what nobody explained, is worth a remedy."""

_STOPS, _HELPS, _HARMS = 0.1, 0.8, 2.0
"""Shares of the growth: what is left of it where a remedy stops it, or helps."""

_LEAST_SECONDS, _MOST_TIMES = 60.0, 4.0
"""Time for a trial with a remedy: seconds at least, and times the longest trial without it."""


@dataclass(frozen=True)
class FieldRemedy:
    """A remedy that can be tried: its name to a person, and the fields that make it."""

    change: str
    fields: Mapping[str, Any]

    @property
    def words(self) -> tuple[str, ...]:
        """Return the fields as they are typed."""
        return tuple(f"{name}={value}".lower() for name, value in self.fields.items())


def apply_remedy(cell: Cell, remedy: FieldRemedy, leak: Leak, longest_seconds: float) -> Cell:
    """Return the cell with the remedy; one process tells whether it works, in a few times what the
    longest trial without it took: who can't wait for it is not helped by it."""
    enough = max(_LEAST_SECONDS, _MOST_TIMES * longest_seconds)
    measured, _ = choose_quantity(leak)
    fields = {
        "measure.timeout_seconds": min(cell.experiment.measure.timeout_seconds, enough),
        **{f"measure.{kind}_processes": int(kind is measured) for kind in Quantity},
        **remedy.fields,
    }
    return composition.change_cell(cell, cell.number, fields)


def write_command(cell: Cell, remedy: FieldRemedy) -> str:
    """Return the command that repeats the cell with the remedy: the cell's own words, but for
    those that the remedy says otherwise, since no word may be said twice."""
    changed = read_overrides(remedy.words)
    words = [word for word in cell.overrides if split_override(word)[0] not in changed]
    words += remedy.words
    if cell.experiment.scenario_name == "script":
        parameters = cell.experiment.parameters
        words = from_overrides(words, parameters["path"], parameters["argv"])
    return join_command(["leak", *words], map(str, paths.list_own_confs()))


def list_remedies(cell: Cell, leak: Leak) -> list[FieldRemedy]:
    """Return the remedies that could help and are not in force, the most likely first."""
    fields = cell.experiment.fields
    in_force = {f"{name}={value}".lower() for name, value in fields.items()}
    return [
        remedy for remedy in _find_remedies(cell, leak) if not in_force.issuperset(remedy.words)
    ]


def _find_remedies(cell: Cell, leak: Leak) -> Iterator[FieldRemedy]:
    # What holds next to nothing of it is not worth a remedy's time.
    experiment, kinds = cell.experiment, {holder.kind for holder in leak.main_holders}
    is_kept_by_python = any(
        holder.kind == "tensor" and holder.is_held for holder in leak.main_holders
    )
    growth, unexplained = leak.host_growth_bytes_per_step, leak.unexplained_bytes_per_step
    kept = sum(holder.bytes_per_step for holder in leak.holders if holder.kind == "malloc")
    malloc = growth is not None and kept > _MUCH * growth
    if not leak.was_measured or (leak.verdict not in ("grows", "unclear") and not malloc):
        return
    yield FieldRemedy("gc.collect() between steps", {"measure.between_steps": "gc_collect"})
    if kinds & {"graph", "executable", "native", "python"}:
        yield FieldRemedy(
            "keras.backend.clear_session() between steps",
            {"measure.between_steps": "clear_session"},
        )
    for name in experiment.scenario.executions:
        if name != experiment.execution and name in ("eager", "graph"):
            # What its Python keeps would be kept once: another program.
            if name == "graph" and ("python" in kinds or is_kept_by_python):
                continue
            how = " (jit_compile off)" if experiment.execution == "xla" else ""
            yield FieldRemedy(f"execution={name}{how}", {"execution": name})
    if experiment.parameters.get("jit_compile") is True:
        yield FieldRemedy("jit_compile off", {"scenario.jit_compile": False})
    if experiment.parameters.get("reduce_retracing") is False:
        yield FieldRemedy("reduce_retracing", {"scenario.reduce_retracing": True})
    if malloc or (growth and unexplained and unexplained > _MUCH * growth):
        yield FieldRemedy("malloc_trim(0) between steps", {"measure.between_steps": "malloc_trim"})
        yield FieldRemedy("MALLOC_ARENA_MAX=1", {"device.malloc_arenas": 1})
        for name in mallocs.list_installed():
            yield FieldRemedy(name, {"device.malloc": name})


class Quantity(StrEnum):
    """What grows in a leak; the value is the kind of trial that measures it."""

    RESIDENT = "timing"
    TENSORS = "memory"
    TRACED = "host"


class Rate(NamedTuple):
    """A growth as one record has it."""

    bytes_per_step: float | None
    at_most: float | None
    """None: not even a bound is known."""
    why_unknown: str = ""


def choose_quantity(leak: Leak) -> tuple[Quantity, float]:
    """Return what grows in a leak, by the table at the top of this module, and by how much; 0 where
    nothing was shown to grow."""
    host, tensors = leak.host_growth_bytes_per_step or 0, leak.tensor_growth_bytes_per_step or 0
    traced = leak.explained_bytes_per_step or 0
    if tensors > 2 * max(host, traced):
        return Quantity.TENSORS, tensors
    return (Quantity.RESIDENT, host) if host > 0 else (Quantity.TRACED, max(traced, 0))


def judge_remedy(change: str, command: str, leak: Leak, record: Record) -> Remedy:
    """Return what came of a remedy that was tried, on the quantity that grew.

    By the share of the growth that is left of it:

        up to 0.1    stops it
        up to 0.8    helps
        below 2      does not help: other steps, of other shapes, grow by more or less
        from 2 on    makes it worse

    Where as much may go on as half of it, for all that was seen, it is not shown to stop it.
    """

    def conclude(outcome: RemedyOutcome, why: str = "", after: float | None = None) -> Remedy:
        return Remedy(change, command, after, outcome, why)

    if record.outcome.status is Status.OUT_OF_MEMORY:
        return conclude(RemedyOutcome.USELESS, "it ends out of memory")
    if not record.outcome.completed:
        return conclude(RemedyOutcome.NOT_TRIED, record.outcome.reason or "")
    quantity, before = choose_quantity(leak)
    if not before:
        return conclude(RemedyOutcome.NOT_SHOWN, "too little grows for one process to tell")
    after, most, why = _measure_again(quantity, record)
    if after is None:
        if most is not None and most <= _STOPS * before:
            return conclude(RemedyOutcome.STOPS, f"at most {format_bytes(most)} a step")
        return conclude(RemedyOutcome.NOT_SHOWN, why)
    share = after / before
    if share <= _STOPS and most is not None and most > before / 2:
        may_go_on = f"up to {format_bytes(most)} a step may go on, of {format_bytes(before)}"
        return conclude(RemedyOutcome.NOT_SHOWN, may_go_on)
    if share <= _STOPS:
        return conclude(RemedyOutcome.STOPS, after=after)
    if share <= _HELPS:
        return conclude(RemedyOutcome.HELPS, after=after)
    outcome = RemedyOutcome.WORSE if share >= _HARMS else RemedyOutcome.USELESS
    return conclude(outcome, after=after)


def _measure_again(quantity: Quantity, record: Record) -> Rate:
    """Return the growth of the quantity in the record of a remedy."""
    if quantity is Quantity.TRACED:
        return _measure_traced(record)
    name = f"{'tensor' if quantity is Quantity.TENSORS else 'host'}_growth_bytes_per_step"
    judge = growth.judge_tensors if quantity is Quantity.TENSORS else growth.judge_host
    processes = [judge(trial) for trial in record.trials if trial.kind == quantity]
    most = growth.find_bound([process for process in processes if process is not None])
    return Rate(record.metrics.get(name), most, record.unavailable.get(name, "it was not measured"))


def _measure_traced(record: Record) -> Rate:
    """Return the growth of what a host trial traced: of what rises from quarter to quarter, and at
    most of all that was live."""
    for trial in record.trials:
        if (held := trial.facts.held) is None:
            continue
        if held.steps < ENOUGH_STEPS:
            why = f"{held.steps} traced steps can't tell; it takes {ENOUGH_STEPS}"
            return Rate(None, None, why)
        return Rate(*sum_survivors(held))
    return Rate(None, None, "it was not measured")
