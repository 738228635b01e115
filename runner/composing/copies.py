"""A sweep's cells as Hydra composes them, without composing each.

To compose a cell Hydra reads the list of defaults and every file on it anew, 40 ms. Cells that
choose the same files differ in fields alone: so a choice of files is composed once, by Hydra, and
the fields are set in copies of it: plain values in a plain copy, all else (mappings, references,
what is to be refused) by the function with which Hydra itself sets them. What comes out, and what
is refused in which words, is Hydra's; `tests/composing/test_copies.py` holds the two side by side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import ConfigCompositionException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, RunMode, TaskFunction
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from runner.composing import GROUPS
from runner.composing.experiments import as_yaml, resolved, to_plain

_ASKS_HYDRA = "hydra:"
"""What a value holds that asks for what Hydra knows of the job, which is another in every cell."""


@dataclass(frozen=True)
class Composed:
    """A cell's configuration, without Hydra's part of it."""

    scenario: str
    """The name of its file."""
    values: dict[str, Any]
    """With all that asks for another value resolved."""
    text: str
    """As YAML, unresolved."""

    @staticmethod
    def of(config: DictConfig, scenario: str) -> Composed:
        return Composed(scenario, resolved(config), as_yaml(to_plain(config)))


@dataclass(frozen=True)
class _Base:
    """One choice of files."""

    scenario: str
    config: DictConfig
    unresolved: dict[str, Any]
    values: dict[str, Any] | None
    """With what asks for the environment resolved, which is the same for all cells; None where
    something asks for another field, or has no value yet."""
    asks_hydra: bool


class Copies:
    """Of one sweep, as its launcher knows it."""

    def __init__(self, loader: ConfigLoaderImpl, sweep: DictConfig) -> None:
        self._loader = loader
        self._sweep = sweep
        self._parsed = lru_cache(OverridesParser.create(config_loader=loader).parse_override)
        self._bases: dict[tuple[str, ...], _Base] = {}

    def cell(self, number: int, words: Sequence[str]) -> Composed:
        parsed = [self._parsed(word) for word in words]
        fields = [each for each in parsed if not _chooses_a_file(each)]
        choices = tuple(str(each.input_line) for each in parsed if _chooses_a_file(each))
        base = self._bases.get(choices)
        if base is None:
            base = self._bases[choices] = self._base(number, choices)
        if base.asks_hydra or any(_ASKS_HYDRA in word for word in words):
            return Composed.of(*self._whole(number, words))
        values = base.values and _with_plain(base.values, fields)
        if values is not None:
            unresolved = _with_plain(base.unresolved, fields)
            assert unresolved is not None
            return Composed(base.scenario, values, as_yaml(unresolved))
        config = base.config.copy()
        try:
            self._loader.validate_sweep_overrides_legal(fields, RunMode.RUN, from_shell=True)
            self._loader._apply_overrides_to_config(fields, config)
        except OmegaConfBaseException as error:
            raise ConfigCompositionException() from error
        return Composed.of(config, base.scenario)

    def _base(self, number: int, choices: Sequence[str]) -> _Base:
        config, scenario = self._whole(number, choices)
        unresolved = to_plain(config)
        text = as_yaml(unresolved)
        values = None
        if not _asks(_OF_ENVIRONMENT.sub("", text)):
            with suppress(OmegaConfBaseException):  # a cell may say what the environment does not
                values = resolved(config)
        return _Base(scenario, config, unresolved, values, _ASKS_HYDRA in text)

    def _whole(self, number: int, words: Sequence[str]) -> tuple[DictConfig, str]:
        """By Hydra alone."""
        config = self._loader.load_sweep_config(self._sweep, list(words))
        with open_dict(config):
            config.hydra.job.num = number
            HydraConfig.instance().set_config(config)
            del config["hydra"]
        return config, str(HydraConfig.get().runtime.choices.get("scenario"))


class CopyingLauncher(Launcher):  # type: ignore[misc]
    """Whose cells are made here, whatever it does with them."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._copies = Copies(hydra_context.config_loader, config)


def _with_plain(values: dict[str, Any], fields: Sequence[Override]) -> dict[str, Any] | None:
    """A copy with these fields set, where each is there and a plain value takes the place of one:
    Hydra can do no more then, and takes twenty times as long. None where it has to be asked."""
    copied: dict[str, Any] = _copied(values)
    for field in fields:
        above, _, name = field.key_or_group.rpartition(".")
        parent: Any = copied
        for part in above.split(".") if above else ():
            parent = parent.get(part) if isinstance(parent, dict) else None
        value = field.value()
        plain = type(value) in _PLAIN and not (isinstance(value, str) and _asks(value))
        there = isinstance(parent, dict) and type(parent.get(name, ())) in _PLAIN
        if field.type is not OverrideType.CHANGE or field.is_sweep_override():
            return None
        if not (plain and there):
            return None
        parent[name] = value
    return copied


_PLAIN = (bool, int, float, str, NoneType)

_OF_ENVIRONMENT = re.compile(r"\$\{oc\.env:[^${}]*\}")


def _asks(text: str) -> bool:
    return "${" in text or "???" in text


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value


def _chooses_a_file(override: Override) -> bool:
    """Or may; all else is set after the files have been read."""
    key = override.get_key_element().lstrip("+~")
    return key in GROUPS or "/" in key or "@" in key or key.partition(".")[0] == "hydra"
