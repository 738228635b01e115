"""Hydra's, OmegaConf's and YAML's errors as what is wrong, where, and what to do next.

All of them are translated here, and only here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from runner import places
from runner.composing import ROOTS
from runner.errors import BadInput, RunnerError, nearest


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except RunnerError:
        raise
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError) as error:
        raise translate(error) from error
    except OSError as error:
        raise BadInput(
            f"{error.filename}: {error.strerror}.",
            "Check the path; RUNNER_OUTPUTS names the folder for results.",
        ) from error


def translate(error: Exception) -> BadInput:
    """A foreign error as what, where and what to do."""
    for kind, explain in _EXPLANATIONS:
        if isinstance(error, kind):
            return explain(error)
    return BadInput(first_line(error), "See `python -m runner list`.")


def _bad_override(error: OverrideParseException) -> BadInput:
    return BadInput(
        f"{error.override}: can't be read ({first_line(error)}).",
        "See hydra.sweeper.params in the experiment's YAML file, or the words you typed.",
    )


def _missing_config(error: MissingConfigException) -> BadInput:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    group = group or "config"
    install = _INSTALLED.get((group, name))
    return BadInput(
        f"{group}={name}: there is no {group} of that name.",
        install or nearest(name, error.options or ()),
    )


_INSTALLED = {("hydra/sweeper", "optuna"): "Install it: pip install -e '.[optuna]'."}
"""Choices that come with a package."""


def _bad_composition(error: ConfigCompositionException) -> BadInput:
    text = str(error)
    if match := re.match(r"You must specify '([^']+)'", text):
        group = match[1]
        known = nearest("", places.choices(group))
        return BadInput(f"no {group} was chosen.", f"Say {group}=NAME. {known}")
    if match := re.match(
        r"Could not (?:override|append to config|delete[^']*) ?'?\+?([^'\n]+)", text
    ):
        return _no_such_key(match[1].split("=")[0].strip("'. "), error)
    if match := re.match(r"Error merging override ([^=]+)=(.*)", text):
        key, value = match[1].lstrip("+"), match[2]
        return BadInput(f"{key}: can't be {value}.", "Its YAML file says what it takes.")
    if match := re.match(r"Ambiguous value for argument '([^']+)'", text):
        return BadInput(f"{match[1]}: several values make a sweep.", f"Say -m {match[1]}.")
    if match := re.match(r"Sweep parameters '(.+)' requires --multirun", text):
        return BadInput(f"{match[1]}: several values make a sweep.", f"Say -m {match[1]}.")
    if match := re.match(r"Multiple values for (\S+)\. To override", text):
        return BadInput(
            f"+{match[1]}: has a value already.", f"Write {match[1]}=NAME, without the +."
        )
    return BadInput(first_line(error), "See `python -m runner list`.")


def _no_such_key(key: str, error: Exception) -> BadInput:
    cause = error.__cause__
    parent = getattr(cause, "parent_node", None)
    prefix, _, name = key.rpartition(".")
    if isinstance(parent, DictConfig):
        known = [str(field) for field in parent if not str(field).startswith(("_", "hydra"))]
        return BadInput(f"{key}: there is no such field.", nearest(name, known))
    return BadInput(f"{key}: there is no such group or field.", nearest_root(prefix or name))


def nearest_root(name: str) -> str:
    return nearest(name, ROOTS - {"hydra"})


def _bad_yaml(error: yaml.YAMLError) -> BadInput:
    mark = getattr(error, "problem_mark", None)
    where = f"{mark.name}, line {mark.line + 1}" if mark else "a YAML file"
    what = getattr(error, "problem", None) or first_line(error)
    return BadInput(f"{where}: can't be read ({what}).", "Correct the file.")


def _bad_value(error: OmegaConfBaseException) -> BadInput:
    where = getattr(error, "full_key", None) or "the configuration"
    if match := re.search(r"Environment variable '([^']+)' not found", str(error)):
        name = match[1]
        return BadInput(
            f"{where}: the environment has no variable {name}.",
            f"Set it, or write ${{oc.env:{name},DEFAULT}}.",
        )
    return BadInput(f"{where}: {first_line(error)}", "Give it a plain value.")


def _no_value(error: MissingMandatoryValue) -> BadInput:
    key = str(error.full_key)
    return BadInput(f"{key}: has no value.", f"Say {key}=VALUE; its YAML file says what it takes.")


def _bad_encoding(error: UnicodeDecodeError) -> BadInput:
    return BadInput(f"a YAML file is not UTF-8 text ({error.reason}).", "Save it as UTF-8.")


_EXPLANATIONS: tuple[tuple[type[Exception], Callable[[Any], BadInput]], ...] = (
    (OverrideParseException, _bad_override),
    (MissingConfigException, _missing_config),
    (ConfigCompositionException, _bad_composition),
    (yaml.YAMLError, _bad_yaml),
    (MissingMandatoryValue, _no_value),
    (OmegaConfBaseException, _bad_value),
    (UnicodeDecodeError, _bad_encoding),
)


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
