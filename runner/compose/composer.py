"""The cells of one command as Hydra composes them, without composing each.

To compose a cell Hydra reads the list of defaults and every file on it anew, 40 ms. Cells that
choose the same files differ in fields alone. So each choice of files is composed once, by Hydra,
and the fields are set on copies of it: plain values on a plain copy, all else (mappings,
references, what is to be refused) by the function with which Hydra itself sets them. The cells and
the refusals are Hydra's; `tests/integration/compose/test_composer.py` holds the two side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any

import hydra
import yaml
from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf._utils import OmegaConfDumper
from omegaconf.errors import OmegaConfBaseException

from runner import paths
from runner.compose import GROUPS, ROOTS
from runner.compose.tracking import find_primary_config
from runner.errors import BadInput, suggest

_HYDRA_REFERENCE = "hydra:"
"""Part of a value that refers to what Hydra knows of the job, which differs from cell to cell."""
_ENVIRONMENT_REFERENCE = re.compile(r"\$\{oc\.env:[^${}]*\}")
VERSION_BASE = {"version_base": "1.3"} if hydra.__version__.startswith("1.3.") else {}
"""Arguments that ask Hydra 1.3 for the defaults that later ones have anyway."""
_PLAIN = (bool, int, float, str, NoneType)


@contextmanager
def open_hydra() -> Iterator[Hydra]:
    """Open Hydra on our configuration, and leave a program's own Hydra as it was."""
    known = HydraConfig.instance()
    before = known.cfg
    try:
        with hydra.initialize_config_dir(str(paths.find_conf()), job_name="runner", **VERSION_BASE):
            # Plugins of Hydra's that are installed have schemas under the names of files in
            # conf/hydra/. They are the plugins' fields, and ours would be refused.
            for file in (paths.find_conf() / "hydra").rglob("*.yaml"):
                group: dict[str, Any] = ConfigStore.instance().repo
                for part in file.parent.relative_to(paths.find_conf()).parts:
                    group = group.get(part, {})
                group.pop(file.name, None)
            yield GlobalHydra.instance().hydra
    finally:
        known.cfg = before


@dataclass(frozen=True)
class CellConfig:
    """A cell's configuration, without Hydra's part of it."""

    scenario: str
    """The name of its file."""
    values: dict[str, Any]
    """With all references resolved."""
    text: str
    """As YAML, unresolved."""

    @staticmethod
    def read(config: DictConfig, scenario: str) -> CellConfig:
        """Resolve a configuration; raise where a value is missing."""
        values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        return CellConfig(scenario, _name_keys(values), dump_yaml(_to_plain(config)))


@dataclass(frozen=True)
class _FileChoice:
    """One choice of files, composed."""

    scenario: str
    config: DictConfig
    unresolved: dict[str, Any]
    values: dict[str, Any] | None
    """With references to the environment resolved, which are the same for all cells; None where a
    value refers to another field, or is still missing."""
    refers_to_hydra: bool

    def copy_with(self, fields: Mapping[str, Any]) -> CellConfig | None:
        """Return a cell with these fields set, where each takes the place of a plain value: Hydra
        does no more then, and takes twenty times as long. Return None where Hydra has to do it."""
        if self.values is None or any(
            type(value) not in _PLAIN or (isinstance(value, str) and _has_reference(value))
            for value in fields.values()
        ):
            return None
        copies = [_copy(self.values), _copy(self.unresolved)]
        for copied in copies:
            for key, value in fields.items():
                *above, name = key.split(".")
                parent = copied
                for part in above:
                    parent = parent.get(part) if isinstance(parent, dict) else None
                if not isinstance(parent, dict) or type(parent.get(name, ())) not in _PLAIN:
                    return None
                parent[name] = value
        return CellConfig(self.scenario, copies[0], dump_yaml(copies[1]))


class Composer:
    """Composes cells from words or from mappings, all with the same words about Hydra itself."""

    def __init__(self, opened: Hydra, hydra_words: Sequence[str], sweep: DictConfig | None = None):
        """Take resolved values that hold for all cells, such as times, from `sweep`."""
        self._loader = opened.config_loader
        self._hydra_words = tuple(hydra_words)
        self._sweep = sweep
        self._parse = cache(OverridesParser.create(config_loader=self._loader).parse_override)
        self._file_choices: dict[tuple[str, ...], _FileChoice] = {}

    def compose_words(self, number: int, words: Sequence[str]) -> CellConfig:
        """Return the cell that one choice of words makes; Hydra refuses what it would refuse."""
        parsed = [self._parse(word) for word in words]
        fields = [override for override in parsed if not _may_choose_file(override)]
        files = [str(override.input_line) for override in parsed if _may_choose_file(override)]
        base = self._compose_files(number, files)
        if base.refers_to_hydra or any(_HYDRA_REFERENCE in word for word in words):
            return self.compose_whole(number, words)
        if all(override.type is OverrideType.CHANGE for override in fields) and (
            copy := base.copy_with({override.key_or_group: override.value() for override in fields})
        ):
            return copy
        config = base.config.copy()
        try:
            self._loader.validate_sweep_overrides_legal(fields, RunMode.RUN, from_shell=True)
            self._loader._apply_overrides_to_config(fields, config)
        except OmegaConfBaseException as error:
            raise ConfigCompositionException() from error
        return CellConfig.read(config, base.scenario)

    def compose_mapping(self, number: int, settings: Mapping[str, Any]) -> CellConfig:
        """Return the cell of a mapping such as `{"scenario": "tape", "scenario.depth": 4}`."""
        files = [f"{key}={value}" for key, value in settings.items() if key in GROUPS]
        base = self._compose_files(number, files)
        fields = {key: value for key, value in settings.items() if key not in GROUPS}
        return base.copy_with(fields) or set_fields(base.config.copy(), fields, base.scenario)

    def compose_whole(self, number: int, words: Sequence[str]) -> CellConfig:
        """Return the cell as Hydra alone composes it."""
        return CellConfig.read(*self._compose(number, words))

    def _compose_files(self, number: int, files: Sequence[str]) -> _FileChoice:
        key = tuple(files)
        if key not in self._file_choices:
            config, scenario = self._compose(number, files)
            unresolved = _to_plain(config)
            text = dump_yaml(unresolved)
            values = None
            if not _has_reference(_ENVIRONMENT_REFERENCE.sub("", text)):
                with suppress(OmegaConfBaseException):  # a cell may give what is missing
                    values = CellConfig.read(config, scenario).values
            self._file_choices[key] = _FileChoice(
                scenario, config, unresolved, values, _HYDRA_REFERENCE in text
            )
        return self._file_choices[key]

    def _compose(self, number: int, words: Sequence[str]) -> tuple[DictConfig, str]:
        """Compose by Hydra; values that refer to Hydra's own are resolved from it until the next
        one is composed."""
        config = self._loader.load_configuration(
            find_primary_config(), [*self._hydra_words, *words], RunMode.RUN
        )
        if self._sweep is not None:
            OmegaConf.copy_cache(from_config=self._sweep, to_config=config)
        with open_dict(config):
            config.hydra.job.num = number
            HydraConfig.instance().set_config(config)
            part_of_hydra = config.pop("hydra")
        return config, str(part_of_hydra.runtime.choices.get("scenario"))


def set_fields(config: DictConfig, fields: Mapping[str, Any], scenario: str) -> CellConfig:
    """Set fields that are there already, and return the cell; raise `BadInput` for any other."""
    for key, value in fields.items():
        parent, _, name = key.rpartition(".")
        group = OmegaConf.select(config, parent) if parent else config
        if not isinstance(group, DictConfig) or name not in group.keys():  # noqa: SIM118
            if not isinstance(group, DictConfig):
                name, group = key.partition(".")[0], dict.fromkeys(ROOTS)
            known = [str(field) for field in group if not str(field).startswith("_")]
            raise BadInput(f"{key}: there is no such field.", suggest(name, known))
        # A mapping is put in the place of the one that was there, whatever keys that had.
        OmegaConf.update(config, key, value, merge=False)
    return CellConfig.read(config, scenario)


def _may_choose_file(override: Override) -> bool:
    """Return whether an override chooses a file, or may; all else is set after files are read."""
    key = override.get_key_element().lstrip("+~")
    return key in GROUPS or "/" in key or "@" in key or key.partition(".")[0] == "hydra"


def _to_plain(config: DictConfig) -> dict[str, Any]:
    """Return the values with their references as they are written."""
    return _name_keys(OmegaConf.to_container(config, resolve=False, enum_to_str=True))


def _name_keys(values: Any) -> dict[str, Any]:
    return {str(key): value for key, value in values.items()}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [*map(_copy, value)] if isinstance(value, list) else value


def _has_reference(text: str) -> bool:
    return "${" in text or "???" in text


class _Dumper(getattr(yaml, "CDumper", yaml.Dumper)):  # type: ignore[misc]
    """Quotes texts that would be read as something else, as OmegaConf's does; by libyaml, in a
    quarter of the time."""


_Dumper.add_representer(str, OmegaConfDumper.str_representer)


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Return the text of a configuration as OmegaConf spells it."""
    text: str = yaml.dump(
        values, default_flow_style=False, allow_unicode=True, sort_keys=False, Dumper=_Dumper
    )
    return text
