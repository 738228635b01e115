"""The cells of a leak hunt: a run that can tell slow growth, then one for each remedy.

A remedy that can be tried is a field with another value, so the command that repeats it is the
user's own with one word more.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runner import paths
from runner.analysis.growth import HOST_LEAST_STEPS, HOST_SECONDS, HOST_STEPS
from runner.cell import Cell
from runner.compose import composition
from runner.leak.findings import Leak
from runner.processes import mallocs

_LEAST: dict[str, float] = {
    "measure.host_processes": 1,
    "measure.steps": HOST_STEPS,
    "measure.min_steps": HOST_LEAST_STEPS,
    "measure.max_seconds": HOST_SECONDS,
    "measure.timeout_seconds": 600.0,
}
"""The least that slow growth and the tracer of a host trial need."""

_MUCH = 0.2
"""Share of the growth from which on malloc, or what nobody explained, is worth a remedy."""


@dataclass(frozen=True)
class FieldRemedy:
    """A remedy that can be tried: its name to a person, and the fields that make it."""

    change: str
    fields: Mapping[str, Any]

    @property
    def words(self) -> tuple[str, ...]:
        """Return the fields as they are typed."""
        return tuple(f"{name}={value}".lower() for name, value in self.fields.items())


def prepare_cell(cell: Cell) -> Cell:
    """Return the cell with what the answer needs, where the user has not said otherwise."""
    measure = cell.experiment.measure
    fields = {
        key: type(least)(max(least, getattr(measure, key.rpartition(".")[2])))
        for key, least in _LEAST.items()
        if key not in cell.said
    }
    return composition.change_cell(cell, cell.number, fields)


def apply_remedy(cell: Cell, remedy: FieldRemedy, leak: Leak) -> Cell:
    """Return the cell with the remedy; one process tells whether it works."""
    fields = {
        "measure.host_processes": 0,
        "measure.memory_processes": 1 if leak.tensor_growth_bytes_per_step else 0,
        "measure.timing_processes": 1,
        **remedy.fields,
    }
    return composition.change_cell(cell, cell.number, fields)


def write_command(cell: Cell, remedy: FieldRemedy) -> str:
    """Return the command that repeats the cell with the remedy: the cell's own words, but for
    those that the remedy says otherwise, since no word may be said twice."""
    changed = {word.partition("=")[0] for word in remedy.words}
    words = [word for word in cell.overrides if word.lstrip("+").partition("=")[0] not in changed]
    flags = [flag for folder in paths.list_own_confs() for flag in ("--config-dir", str(folder))]
    return shlex.join(["python", "-m", "runner", "leak", *flags, *words, *remedy.words])


def list_remedies(cell: Cell, leak: Leak) -> list[FieldRemedy]:
    """Return the remedies that could help, the most likely first; none where nothing grows, nor
    what the cell has already."""
    fields = cell.experiment.fields
    in_force = {f"{name}={value}".lower() for name, value in fields.items()}
    return [each for each in _find_remedies(cell, leak) if not in_force.issuperset(each.words)]


def _find_remedies(cell: Cell, leak: Leak) -> Iterator[FieldRemedy]:
    # What holds next to nothing of it is not worth a remedy's time.
    experiment, kinds = cell.experiment, {each.kind for each in leak.main_holders}
    growth, unexplained = leak.host_growth_bytes_per_step, leak.unexplained_bytes_per_step
    kept = sum(each.bytes_per_step for each in leak.holders if each.kind == "malloc")
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
            how = ""
            if experiment.execution == "xla":
                how = " (jit_compile off)"
            elif name == "graph" and "python" in kinds:
                how = " (the step's Python then runs once, when it is traced)"
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
