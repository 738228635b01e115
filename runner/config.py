"""Typed, checked, frozen: what a run is, once the words have been composed.

`build_checked` turns a plain mapping into a frozen dataclass, and refuses unknown and missing keys,
wrong types and values out of range, each by name. It serves the groups below and every scenario
alike, so a scenario's own annotations are its checks:

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
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from runner.callables import PickledFunction
from runner.errors import BadInput, suggest
from runner.masking import find_secrets, mask_value
from runner.scenario import Scenario

_MOST = 2**31 - 1
Count = Annotated[int, Meta(ge=1, le=_MOST)]
NonNegative = Annotated[int, Meta(ge=0, le=_MOST)]
Seconds = Annotated[float, Meta(ge=1e-3, le=1e7)]

Malloc = Literal["default", "jemalloc", "tcmalloc"]
DeviceKind = Literal["auto", "cpu", "gpu"]
BetweenSteps = Literal["nothing", "gc_collect", "clear_session", "malloc_trim"]
TrackingKind = Literal["local", "server", "none"]

T = TypeVar("T")


@dataclass(frozen=True)
class Device:
    """The device that a cell runs on, and the hard limits it runs under."""

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
class MeasureSpec:
    """The amount of evidence that is gathered, as a record keeps it. A timing trial takes `steps`,
    and more where these don't tell growth from none, until `max_seconds` are over; but never fewer
    than `min_steps`."""

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

    def __post_init__(self) -> None:
        if not (self.timing_processes or self.memory_processes or self.host_processes):
            raise ValueError("timing_processes and memory_processes are both 0: nothing would run")


@dataclass(frozen=True)
class Measure(MeasureSpec):
    """The same, with what is no part of the cell: how many memory trials may run at once, and how
    many are added."""

    side_by_side: Count | None = None
    peak_seconds: Seconds | None = None
    """For so long memory trials are added until a graph's peak is known; None: until it is."""
    reads_clean: bool = False
    """Collect garbage before some of the later steps of a timing trial, to tell it from growth: the
    peak of host memory is then not the program's own."""

    @property
    def spec(self) -> MeasureSpec:
        """Return what a record keeps of it."""
        kept = dataclasses.fields(MeasureSpec)
        return MeasureSpec(**{field.name: getattr(self, field.name) for field in kept})


@dataclass(frozen=True)
class Spec:
    """Everything that decides a measurement, as the record keeps it."""

    scenario: str
    target: str
    parameters: dict[str, Any]
    execution: str
    device: Device
    batch_size: Count
    seed: NonNegative
    measure: MeasureSpec

    @property
    def fields(self) -> dict[str, Any]:
        """Return everything that a cell was asked to be, under the names that a user types."""
        return {
            "scenario": self.scenario,
            **list_leaves("scenario", self.parameters),
            "execution": self.execution,
            **_list_group_fields("device", self.device, "kind"),
            **_list_group_fields("measure", self.measure, "name"),
            "batch_size": self.batch_size,
            "seed": self.seed,
        }

    @property
    def unread(self) -> tuple[str, ...]:
        """Return which of batch size and seed can't reach the code: a script's words say neither
        `{batch_size}` nor `{seed}`. Whether other code reads them, only a trial tells."""
        if self.scenario != "script":
            return ()
        words = " ".join(self.parameters["argv"])
        return tuple(name for name in ("batch_size", "seed") if f"{{{name}}}" not in words)

    @property
    def cell(self) -> str:
        """Return the same id for the same measurement, wherever and whenever it is asked for.

        How many trials were wanted is not part of it: more evidence of a cell is no other cell.
        """
        decisive = msgspec.to_builtins(self)
        for name in ("memory_processes", "timing_processes", "host_processes"):
            del decisive["measure"][name]
        canonical = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _list_group_fields(name: str, group: Any, choice: str) -> dict[str, Any]:
    """Return a group's choice under the group's name, and each of its fields below that."""
    values = msgspec.to_builtins(group)
    return {name: values.pop(choice), **{f"{name}.{key}": value for key, value in values.items()}}


@dataclass(frozen=True)
class Tracking:
    """The place where records are shown: an embedded store, a server, or none."""

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
    """Raise `BadInput` for an address of a tracking server that is not one, or holds a secret.

    An address is printed, and kept with every run.
    """
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
    function: PickledFunction | None = None
    """The user's function, where no import path finds it; the scenario names it."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the scenario's values as the child gets them, secrets among them."""
        return dataclasses.asdict(cast(Any, self.scenario))

    @property
    def environment(self) -> dict[str, str]:
        """The variables that its processes are started with, as the scenario says."""
        try:
            return dict(getattr(self.scenario, "environment", {}))
        except BadInput:  # what it is read from is gone by now, and the trial says so
            return {}

    @property
    def secrets(self) -> list[str]:
        """Return the values that no file and no view may hold."""
        return find_secrets(self.parameters)

    @property
    def spec(self) -> Spec:
        """Return everything that decides the measurement, with secrets masked."""
        target = type(self.scenario)
        return Spec(
            scenario=self.scenario_name,
            target=f"{target.__module__}.{target.__qualname__}",
            parameters=mask_value(self.parameters),
            execution=self.execution,
            device=self.device,
            batch_size=self.batch_size,
            seed=self.seed,
            measure=self.measure.spec,
        )

    @property
    def fields(self) -> dict[str, Any]:
        return self.spec.fields

    @property
    def cell(self) -> str:
        return self.spec.cell


def list_leaves(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's fields as they are typed, each entry of a mapping as one of its own."""
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            leaves |= list_leaves(f"{group}.{name}", value)
        else:
            leaves[f"{group}.{name}"] = value
    return leaves


def format_word(value: Any) -> str:
    """Return a value as a user types it."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def build_checked(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Return `kind(**values)`, every value checked; raise `BadInput` for the first that is wrong.
    `where` is what the user would have to type."""
    fields = _list_hints(cast(Any, kind))
    prefix = f"{where}." if where else ""
    for name in values:
        if name not in fields:
            raise BadInput(f"{prefix}{name}: there is no such field.", suggest(str(name), fields))
    missing = [name for name in fields if name not in values]
    if missing:
        raise BadInput(
            f"{prefix}{missing[0]}: has no value.",
            f"Say {prefix}{missing[0]}=VALUE, or give it a default in the YAML file.",
        )
    checked = {name: _check_value(fields[name], values[name], prefix + name) for name in fields}
    try:
        return kind(**checked)
    except ValueError as error:
        raise BadInput(f"{where or kind.__name__}: {error}", "Change one of them.") from error


@functools.lru_cache
def _list_hints(kind: Any) -> dict[str, Any]:
    """Return how each field is declared; read once, since that takes long."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _parse_number(text: str) -> float | str:
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        return text


_SPELLED: dict[Any, Callable[[str], Any]] = {
    int: _parse_number,
    float: _parse_number,
    bool: lambda text: {"true": True, "false": False}.get(text.lower(), text),
}
"""Readers of text, as all is that comes from the environment (`${oc.env:NAME}`)."""


def _check_value(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        inner, *bounds = typing.get_args(hint)
        number = _check_value(inner, value, where)
        for bound in bounds:
            if isinstance(bound, Meta) and not bound.ge <= number <= bound.le:
                raise BadInput(
                    f"{where}: {value} is out of range.",
                    f"Give a number from {bound.ge:,} to {bound.le:,}.",
                )
        return number
    if origin is Literal:
        choices = typing.get_args(hint)
        if value in choices and not isinstance(value, bool):
            return value
        raise BadInput(
            f"{where}: {value!r} is not a valid choice.", suggest(str(value), map(str, choices))
        )
    if origin in (typing.Union, types.UnionType):
        *others, last = (kind for kind in typing.get_args(hint) if kind is not type(None))
        for option in others:
            with suppress(BadInput):
                return _check_value(option, value, where)
        return None if value is None else _check_value(last, value, where)
    if origin is list:
        if not isinstance(value, list):
            raise BadInput(f"{where}: {value!r} is not a list.", f"Write {where}=[A,B].")
        (inner,) = typing.get_args(hint)
        return [_check_value(inner, item, f"{where}[{place}]") for place, item in enumerate(value)]
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise BadInput(
                f"{where}: {value!r} is not a mapping.", f"Write {where}={{key: value}}."
            )
        return dict(value)
    return _check_scalar(hint, value, where)


def _suggest_number(said: str, where: str) -> str:
    """Return what to write for a number with a unit, for a range, or any other."""
    if where.endswith("_mb") and (
        size := re.fullmatch(r"(\d{1,18}) ?([KMGT])i?B?", said, re.IGNORECASE)
    ):
        mega = int(size[1]) * 1024 ** ("KMGT".index(size[2].upper()) - 1)
        return f"It counts in MB: write {where}={max(1, round(mega))}."
    if bounds := re.fullmatch(r"(\d{1,18})(?:\.\.|-|:)(\d{1,18})", said):
        return f"To try several: -m '{where}=range({bounds[1]},{int(bounds[2]) + 1})'."
    return f"Write {where}=32."


_SCALARS: dict[Any, tuple[Any, str, str]] = {
    int: (int, "is not a whole number", ""),
    float: (int | float, "is not a finite number", "1.5"),
    bool: (bool, "is neither true nor false", "true"),
    str: (str, "is not text", "TEXT"),
}
"""By how a field is declared: what it may be, what is said of anything else, and an example."""


def _check_scalar(hint: Any, value: Any, where: str) -> Any:
    if hint not in _SCALARS:
        raise TypeError(f"{where}: a field can't be declared as {hint!r}")
    if hint in _SPELLED and isinstance(value, str):
        value = _SPELLED[hint](value)
    kind, problem, example = _SCALARS[hint]
    is_right = isinstance(value, kind) and (hint is bool or not isinstance(value, bool))
    if not is_right or (hint is float and not math.isfinite(value)):
        remedy = f"Write {where}={example}." if example else _suggest_number(str(value), where)
        raise BadInput(f"{where}: {value!r} {problem}.", remedy)
    return float(value) if hint is float else value
