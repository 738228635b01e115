"""Hydra's, OmegaConf's and YAML's errors as what is wrong, where, and what to do next.

All of them are translated here; a word that can't be read by itself, in `words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import yaml
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from runner import paths
from runner.compose import ROOTS
from runner.errors import BadInput, RunnerError, get_first_line, suggest


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise what Hydra, OmegaConf and YAML raise meanwhile as `BadInput`."""
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
    """Return a foreign error as what is wrong, where, and what to do."""
    match error:
        case OverrideParseException():
            return BadInput(
                f"{error.override} can't be read ({get_first_line(error)}).",
                "See hydra.sweeper.params in the experiment's YAML file, or the words you typed.",
            )
        case MissingConfigException():
            group, _, name = (error.missing_cfg_file or "").rpartition("/")
            group = group or "config"
            remedy = suggest(name, error.options or ())
            if (group, name) == ("hydra/sweeper", "optuna"):
                remedy = "Install it: pip install 'tf-memory-runner[optuna]'."
            return BadInput(f"{group}={name}: there is no {group} of that name.", remedy)
        case ConfigCompositionException():
            return _translate_composition(error)
        case yaml.YAMLError():
            mark = getattr(error, "problem_mark", None)
            where = f"{mark.name}, line {mark.line + 1}" if mark else "a YAML file"
            what = getattr(error, "problem", None) or get_first_line(error)
            return BadInput(f"{where} can't be read ({what}).", "Correct the file.")
        case MissingMandatoryValue():
            return BadInput(
                f"{error.full_key} has no value.",
                f"Say {error.full_key}=VALUE; its YAML file says what it takes.",
            )
        case OmegaConfBaseException():
            where = getattr(error, "full_key", None) or "the configuration"
            if match := re.search(r"Environment variable '([^']+)' not found", str(error)):
                return BadInput(
                    f"{where}: the environment has no variable {match[1]}.",
                    f"Set it, or write ${{oc.env:{match[1]},DEFAULT}}.",
                )
            return BadInput(f"{where}: {get_first_line(error)}", "Give it a plain value.")
        case UnicodeDecodeError():
            return BadInput(f"a YAML file is not UTF-8 text ({error.reason}).", "Save it as UTF-8.")
    return BadInput(get_first_line(error), _SEE_LIST)


def suggest_root(name: str) -> str:
    """Return a remedy that names the nearest group or field."""
    return suggest(name, ROOTS - {"hydra"})


_SEE_LIST = "See `python -m runner list`."


def _translate_composition(error: ConfigCompositionException) -> BadInput:
    text = str(error)
    if match := re.match(r"(?:In '[^']+': )?You must specify '([^']+)'", text):
        known = suggest("", paths.find_choices(match[1]))
        return BadInput(f"no {match[1]} was chosen.", f"Say {match[1]}=NAME. {known}")
    if match := re.match(
        r"Could not (?:override|append to config|delete[^']*) ?'?\+?([^'\n]+)", text
    ):
        key = match[1].split("=")[0].strip("'. ")
        parent = getattr(error.__cause__, "parent_node", None)
        prefix, _, name = key.rpartition(".")
        if isinstance(parent, DictConfig):
            fields = [str(field) for field in parent if not str(field).startswith(("_", "hydra"))]
            return BadInput(f"{key}: there is no such field.", suggest(name, fields))
        return BadInput(f"{key}: there is no such group or field.", suggest_root(prefix or name))
    if match := re.match(r"Error merging override ([^=]+)=(.*)", text):
        key, value = match[1].lstrip("+"), match[2]
        return BadInput(f"{key} can't be {value}.", "Its YAML file says what it takes.")
    if match := re.match(
        r"(?:Ambiguous value for argument '([^']+)'|Sweep parameters '(.+)' requires --multirun)",
        text,
    ):
        several = match[1] or match[2]
        return BadInput(
            f"{several}: several values make a sweep.",
            f"Name one; to measure them all: python -m runner -m {several}.",
        )
    if match := re.match(r"Multiple values for (\S+)\. To override", text):
        return BadInput(
            f"+{match[1]} has a value already.", f"Write {match[1]}=NAME, without the +."
        )
    return BadInput(get_first_line(error), _SEE_LIST)
