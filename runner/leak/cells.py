"""What `leak` measures of an experiment: a run that can tell slow growth, then one for each remedy.

A remedy that can be tried is a field with another value, so the command that repeats it is the
user's own with one word more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runner.composing import composition
from runner.isolation import mallocs
from runner.judging.growth import HOST_LEAST_STEPS, HOST_SECONDS, HOST_STEPS
from runner.judging.leak import Leak
from runner.plan import Planned

_LEAST: dict[str, float] = {
    "measure.host_processes": 1,
    "measure.steps": HOST_STEPS,
    "measure.min_steps": HOST_LEAST_STEPS,
    "measure.max_seconds": HOST_SECONDS,
    "measure.timeout_seconds": 600.0,
}
"""What slow growth and the tracer of a host trial need."""


@dataclass(frozen=True)
class Attempt:
    """A remedy to be tried: what it is to a person, and the fields that make it."""

    change: str
    fields: dict[str, Any]

    @property
    def words(self) -> tuple[str, ...]:
        return _as_words(self.fields)


def _as_words(fields: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}={value}".lower() for name, value in fields.items())


def to_measure(cell: Planned) -> Planned:
    """The cell with what the answer needs, where the user has not said otherwise."""
    measure = cell.experiment.measure
    said = cell.said
    fields = {
        key: type(least)(max(least, getattr(measure, key.rpartition(".")[2])))
        for key, least in _LEAST.items()
        if key not in said
    }
    return replace(composition.changed(cell, cell.number, fields), seeks_peak=False)


def attempts(cell: Planned, leak: Leak) -> Iterator[Attempt]:
    """The remedies that could help, the most likely first; none where nothing grows, nor what the
    cell has already."""
    in_force = set(_as_words(cell.experiment.fields))
    return (each for each in _fitting(cell, leak) if not in_force.issuperset(each.words))


def _fitting(cell: Planned, leak: Leak) -> Iterator[Attempt]:
    experiment, kinds = cell.experiment, {each.kind for each in leak.holders}
    growth, unexplained = leak.host_growth_bytes_per_step, leak.unexplained_bytes_per_step
    kept = sum(each.bytes_per_step for each in leak.holders if each.kind == "malloc")
    malloc = growth is not None and kept > 0.2 * growth
    if leak.verdict not in ("grows", "unclear") and not malloc:
        return
    if not leak.was_measured:
        return
    yield Attempt("gc.collect() between steps", {"measure.between_steps": "gc_collect"})
    if kinds & {"graph", "executable", "native", "python"}:
        yield Attempt(
            "keras.backend.clear_session() between steps",
            {"measure.between_steps": "clear_session"},
        )
    for name in experiment.scenario.executions:
        if name != experiment.execution and name in ("eager", "graph"):
            how = ""
            if experiment.execution == "xla":
                how = " (jit_compile off)"
            elif name == "graph" and "python" in kinds:
                how = " (the step's Python then runs once, when it is traced)"
            yield Attempt(f"execution={name}{how}", {"execution": name})
    if experiment.parameters.get("jit_compile") is True:
        yield Attempt("jit_compile off", {"scenario.jit_compile": False})
    if experiment.parameters.get("reduce_retracing") is False:
        yield Attempt("reduce_retracing", {"scenario.reduce_retracing": True})
    if malloc or (growth and unexplained and unexplained > 0.2 * growth):
        yield Attempt("malloc_trim(0) between steps", {"measure.between_steps": "malloc_trim"})
        yield Attempt("MALLOC_ARENA_MAX=1", {"device.malloc_arenas": 1})
        for name in mallocs.installed():
            yield Attempt(name, {"device.malloc": name})


def tried(cell: Planned, number: int, attempt: Attempt, leak: Leak) -> Planned:
    """The cell with the remedy; one process tells whether it works."""
    fields = {
        "measure.host_processes": 0,
        "measure.memory_processes": 1 if leak.tensor_growth_bytes_per_step else 0,
        "measure.timing_processes": 1,
        **attempt.fields,
    }
    return replace(composition.changed(cell, number, fields), seeks_peak=False)
