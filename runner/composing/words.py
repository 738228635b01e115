"""The words of the command line: each is one override, said once, or a flag of Hydra's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException

from runner import places
from runner.composing import GROUPS, ROOTS
from runner.composing.translation import first_line, nearest_root
from runner.errors import BadInput, nearest

_FILES_OWN = ("._target_", "measure.name")
"""What a group's file says of itself; said otherwise, a record would tell of what it is not."""
_PLACES = ("hydra.sweep.dir", "hydra.sweep.subdir", "hydra.run.dir")


def checked(words: Sequence[str]) -> list[str]:
    """The words, once it is clear that each is a flag of Hydra's or one override, said once."""
    parsed, unknown = get_args_parser().parse_known_args(list(words))
    for word in [*parsed.overrides, *unknown]:
        if word.startswith("-"):
            raise BadInput(f"{word}: there is no such flag.", "See `python -m runner --help`.")
        if "=" not in word and not word.startswith("~"):
            raise BadInput(
                f"{word}: an override needs a '='.",
                f"Write {word}=VALUE; `python -m runner list` shows the choices.",
            )
    for flag in ("config_name", "config_path"):
        if getattr(parsed, flag):
            raise BadInput(
                f"--{flag.replace('_', '-')}: the runner has one configuration, conf/config.yaml.",
                "`python -m runner again PATH` repeats a recorded run from its folder; a grid of "
                "your own is a file in conf/experiment/.",
            )
    said: dict[str, str] = {}
    for word in parsed.overrides:
        key = _parsed(word).get_key_element().lstrip("+~")
        root = re.split(r"[./@:]", key)[0]
        if root not in ROOTS:
            raise BadInput(f"{key}: there is no group or field of that name.", nearest_root(root))
        if key in said:
            raise BadInput(
                f"{key}: said twice, {said[key]!r} and {word!r}.",
                f"Keep one; to sweep over both: -m {key}=A,B.",
            )
        if key in _PLACES:
            raise BadInput(f"{key}: is the runner's to say.", "RUNNER_OUTPUTS names a place.")
        if key.endswith(_FILES_OWN):
            raise BadInput(f"{key}: is its YAML file's to say.", f"Say {root}=NAME.")
        if key in GROUPS and None in _values(_parsed(word)):
            raise no_choice(key, "null")
        said[key] = word
    sweeps_scenarios = "scenario" in said and _parsed(said["scenario"]).is_sweep_override()
    ours = set(said.values())
    return [_for_hydra(word, sweeps_scenarios) if word in ours else word for word in words]


def _for_hydra(word: str, sweeps_scenarios: bool) -> str:
    """Hydra composes a sweep once without what is swept, to find its sweeper; a parameter of a
    scenario that is swept would be unknown there, so it is made a sweep over its one value."""
    key, _, value = word.partition("=")
    if sweeps_scenarios and key.startswith("scenario.") and not _parsed(word).is_sweep_override():
        return f"{key}=choice({value})"
    return _into_mapping(word)


def _into_mapping(word: str) -> str:
    """A parameter that is a mapping takes keys that its YAML lacks; Hydra wants `++` for that."""
    key, _, value = word.partition("=")
    whole, below = value.startswith("{"), key.count(".") > 1
    return f"++{word}" if key.startswith("scenario.") and (whole or below) else word


def _parsed(word: str) -> Override:
    try:
        override: Override = OverridesParser.create().parse_override(word)
        return override
    except HydraException as error:
        raise BadInput(
            f"{word}: can't be read as KEY=VALUE ({first_line(error)}).",
            "Quote what the shell or Hydra would take apart: 'key=\"a value\"'.",
        ) from error


def _values(override: Override) -> list[Any]:
    value = override.value()
    return value.list if isinstance(value, ChoiceSweep) else [override.is_delete() or value]


def no_choice(group: str, name: str) -> BadInput:
    choices = (path.stem for path in (places.conf() / group).glob("*.yaml"))
    return BadInput(f"{group}={name}: there is no {group} of that name.", nearest(name, choices))
