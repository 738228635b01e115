"""Typed, checked, frozen: what a run is, once the words have been composed.

Core: standard library only. `typed` turns a plain mapping into a frozen dataclass and refuses
unknown keys, missing keys, wrong types and values out of range, each by name. It serves the groups
below and every scenario alike, so a scenario's own annotations are its checks:

    size: Count                                a whole number from 1
    gradient: Literal["none", "tape"]          one of these
    swap_memory: bool
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from runner.errors import BadInput, nearest
from runner.scenario import Scenario
from runner.sent import Sent


@dataclass(frozen=True)
class Range:
    """Bounds of a number, both included."""

    low: float
    high: float


_MOST = 2**31 - 1
Count = Annotated[int, Range(1, _MOST)]
NonNegative = Annotated[int, Range(0, _MOST)]
Seconds = Annotated[float, Range(1e-3, 1e7)]

Malloc = Literal["default", "jemalloc", "tcmalloc"]
DeviceKind = Literal["auto", "cpu", "gpu"]
BetweenSteps = Literal["nothing", "gc_collect", "clear_session", "malloc_trim"]
TrackingKind = Literal["local", "server", "none"]

T = TypeVar("T")


@dataclass(frozen=True)
class Device:
    """Where it runs, and the hard limits it runs under."""

    kind: DeviceKind
    index: NonNegative
    memory_limit_mb: Count | None
    intra_op_threads: Count | None
    inter_op_threads: Count | None
    malloc: Malloc = "default"
    malloc_arenas: Count | None = None

    def __post_init__(self) -> None:
        if self.kind == "cpu" and self.index:
            raise ValueError(f"index={self.index}: there is one CPU, number 0")


@dataclass(frozen=True)
class Measure:
    """How much evidence is gathered. A trial steps until `steps`, or `max_seconds` of them, but
    never fewer than `min_steps`."""

    name: str
    timing_processes: NonNegative
    memory_processes: NonNegative
    warmup_steps: NonNegative
    steps: Count
    min_steps: Count
    max_seconds: Seconds
    memory_steps: Count
    timeout_seconds: Seconds
    host_limit_mb: Count | None
    host_processes: NonNegative = 0
    between_steps: BetweenSteps = "nothing"
    side_by_side: Count | None = None

    def __post_init__(self) -> None:
        if self.timing_processes == self.memory_processes == 0:
            raise ValueError("timing_processes and memory_processes are both 0: nothing would run")


@dataclass(frozen=True)
class Tracking:
    """Where records are shown: an embedded store, a server, or nowhere."""

    kind: TrackingKind
    uri: str | None
    experiment: str

    def __post_init__(self) -> None:
        if self.uri is not None:
            _check_address(self.uri, self.kind == "server")  # may not be repeated before this
        if self.uri is None and self.kind == "server":
            raise ValueError("uri: has no value; say tracking.uri=http://HOST:PORT")
        if self.uri is not None and self.kind != "server":
            raise ValueError(f"uri={self.uri} is for a server; say tracking=server as well")


def _check_address(uri: str, is_used: bool) -> None:
    """An address is printed, and kept with every run: it can't hold what nobody else may know."""
    try:
        parts = urlsplit(uri)
        secret = bool("@" in parts.netloc or parts.query or parts.fragment)
        port = parts.port  # which raises where it is not a valid one
        well_formed = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
    except ValueError:
        secret, well_formed = "@" in uri, False
    if secret:
        raise BadInput(
            "tracking.uri: holds a name, a password or a token, and an address is kept with every "
            "run.",
            "Say http://HOST:PORT alone, and set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD (or MLFLOW_TRACKING_TOKEN) in the environment.",
        )
    if is_used and not well_formed:
        raise BadInput(
            f"tracking.uri: {uri!r} is not a valid address of an MLflow server.",
            "Say tracking.uri=http://HOST:PORT, or set MLFLOW_TRACKING_URI.",
        )


@dataclass(frozen=True)
class Experiment:
    """One cell, whole: what to run, how, where, and how well to measure it."""

    scenario_name: str
    scenario: Scenario
    execution: str
    device: Device
    measure: Measure
    tracking: Tracking
    batch_size: int
    seed: int
    supported: bool = True
    """False where scenario, execution and device don't go together: a record, not a measurement."""
    unsupported_reason: str | None = None
    sent: Sent | None = None
    """The user's function, where no import path finds it; the scenario names it."""

    @property
    def parameters(self) -> dict[str, Any]:
        return plain(self.scenario)

    @property
    def spec(self) -> dict[str, Any]:
        """Everything that decides the measurement, as the record keeps it."""
        target = type(self.scenario)
        measure = plain(self.measure)
        del measure["side_by_side"]  # the figures are the same
        return {
            "scenario": self.scenario_name,
            "target": f"{target.__module__}.{target.__qualname__}",
            "parameters": self.parameters,
            "execution": self.execution,
            "device": plain(self.device),
            "batch_size": self.batch_size,
            "seed": self.seed,
            "measure": measure,
        }

    @property
    def fields(self) -> dict[str, Any]:
        return fields(self.spec)

    @property
    def cell(self) -> str:
        """The same for the same measurement, wherever and whenever it is asked for."""
        canonical = json.dumps(self.spec, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def plain(instance: Any) -> dict[str, Any]:
    return dataclasses.asdict(instance)


def fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a cell was asked to be, under the names that a user types."""
    found = {"scenario": spec["scenario"]}
    found |= leaves("scenario", spec["parameters"])
    found["execution"] = spec["execution"]
    for group, name in (("device", "kind"), ("measure", "name")):
        found[group] = spec[group][name]
        found |= {f"{group}.{key}": item for key, item in spec[group].items() if key != name}
    return found | {"batch_size": spec["batch_size"], "seed": spec["seed"]}


def leaves(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A group's fields; each entry of a mapping is one (`scenario.arguments.width`), as it is typed
    and swept."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= leaves(f"{group}.{name}", value)
        else:
            found[f"{group}.{name}"] = value
    return found


def word(value: Any) -> str:
    """A value as a user types it."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def typed(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """`kind(**values)` with every value checked; `where` is what the user would have to type."""
    fields = _hints(typing.cast(Any, kind))
    prefix = f"{where}." if where else ""
    for name in values:
        if name not in fields:
            raise BadInput(f"{prefix}{name}: there is no such field.", nearest(str(name), fields))
    missing = [name for name in fields if name not in values]
    if missing:
        raise BadInput(
            f"{prefix}{missing[0]}: has no value.",
            f"Say {prefix}{missing[0]}=VALUE, or give it a default in the YAML file.",
        )
    checked = {name: _checked(fields[name], values[name], prefix + name) for name in fields}
    try:
        return kind(**checked)
    except ValueError as error:
        raise BadInput(f"{where or kind.__name__}: {error}", "Change one of them.") from error


@functools.lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    """What each field is declared as; read once, as it takes as long as checking twenty cells."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _number(text: str) -> float | str:
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        return text


_SPELLED: dict[Any, Callable[[str], Any]] = {
    int: _number,
    float: _number,
    bool: lambda text: {"true": True, "false": False}.get(text.lower(), text),
}
"""What comes as text, as all does from the environment (`${oc.env:NAME}`), and is one of these."""


def _checked(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        inner, *bounds = typing.get_args(hint)
        number = _checked(inner, value, where)
        for bound in bounds:
            if isinstance(bound, Range) and not bound.low <= number <= bound.high:
                raise BadInput(
                    f"{where}: {value} is out of range.",
                    f"Give a number from {bound.low:,} to {bound.high:,}.",
                )
        return number
    if origin is Literal:
        choices = typing.get_args(hint)
        if value in choices and not isinstance(value, bool):
            return value
        raise BadInput(
            f"{where}: {value!r} is not a valid choice.", nearest(str(value), map(str, choices))
        )
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return None if value is None else _checked(options[0], value, where)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise BadInput(
                f"{where}: {value!r} is not a mapping.", f"Write {where}={{key: value}}."
            )
        return dict(value)
    return _plain_value(hint, value, where)


def _whole(said: str, where: str) -> str:
    """What to write for a number with a unit, for two with something between them, or another."""
    if where.endswith("_mb") and (
        size := re.fullmatch(r"(\d{1,18}) ?([KMGT])i?B?", said, re.IGNORECASE)
    ):
        mega = int(size[1]) * 1024 ** ("KMGT".index(size[2].upper()) - 1)
        return f"It counts in MB: write {where}={max(1, round(mega))}."
    if bounds := re.fullmatch(r"(\d{1,18})(?:\.\.|-|:)(\d{1,18})", said):
        return f"To try several: -m '{where}=range({bounds[1]},{int(bounds[2]) + 1})'."
    return f"Write {where}=32."


def _plain_value(hint: Any, value: Any, where: str) -> Any:
    if hint in _SPELLED and isinstance(value, str):
        value = _SPELLED[hint](value)
    if hint is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise BadInput(f"{where}: {value!r} is not a whole number.", _whole(str(value), where))
    if hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        raise BadInput(f"{where}: {value!r} is not a finite number.", f"Write {where}=1.5.")
    if hint is bool:
        if isinstance(value, bool):
            return value
        raise BadInput(f"{where}: {value!r} is neither true nor false.", f"Write {where}=true.")
    if hint is str:
        if isinstance(value, str):
            return value
        raise BadInput(f"{where}: {value!r} is not text.", f"Write {where}=TEXT.")
    raise TypeError(f"{where}: a field can't be declared as {hint!r}")
