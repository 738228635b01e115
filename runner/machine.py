"""The machine and the software that a number was measured with, as a record keeps them.

Core: standard library and msgspec. A field with a default is left out of the JSON where it has
that; `null` says that it could not be had.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from runner.schema import Real, Whole


@dataclass(frozen=True)
class Card:
    """A GPU, with its clocks as they were; None for what it does not offer."""

    name: str
    uuid: str
    memory_bytes: Whole | None = None
    compute_capability: str | None = None
    sm_clock_mhz: Whole | None = None
    sm_clock_max_mhz: Whole | None = None
    memory_clock_mhz: Whole | None = None
    memory_clock_max_mhz: Whole | None = None


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """NVIDIA's driver and its cards; or why there are none."""

    driver: str | None
    cards: tuple[Card, ...] | None
    reason: str | None = None


@dataclass(frozen=True)
class GitState:
    """The state of a checkout."""

    revision: str | None
    dirty: bool


@dataclass(frozen=True)
class UserCode:
    """The user's own files that the trials loaded."""

    folder: str
    """The folder where the user stood."""
    files: dict[str, str]
    """A file as it is named from there -> a hash of what is in it."""
    changed_meanwhile: tuple[str, ...] = ()
    git: GitState | None = None


class Machine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that is read once when a measurement begins."""

    versions: dict[str, str]
    python: str
    cpu: str
    cores: Whole
    memory_bytes: Whole
    kernel: str
    host: str
    gpu: Gpu
    flags: dict[str, str]
    git: GitState | None
    """The state of the runner's own checkout."""
    config_dirs: tuple[str, ...] = ()
    load: Real
    measured_on: tuple[str, ...] = ()
    """All hosts, where a run went on elsewhere and that matters for times."""


class Environment(Machine, frozen=True, omit_defaults=True, kw_only=True):
    """A machine with what only the trials know of its devices."""

    device: str | None = None
    devices: tuple[str, ...] | None = None
    card: str | None = None
    compute_capability: str | None = None
    fallback_ops: dict[str, Whole] | None = None
    device_process_bytes: Whole | None = None
    device_process_reason: str | None = None
    comparable: dict[str, str | Whole | None] = {}
    """Everything that must be equal for two timings to be comparable, part by part."""
    code: UserCode | None = None
