"""Which store is meant: by `tracking=` words, by the environment, or by conf/config.yaml."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runner import paths, yaml_files
from runner.config import Tracking, build_checked
from runner.errors import BadInput, suggest

ADDRESS = "MLFLOW_TRACKING_URI"
"""The variable that names a server to every client of MLflow."""


def find_primary_config() -> str:
    """Return the name of the configuration to compose: `conf/config.yaml`, or the same with
    `server` as the store where the environment names one that can be used."""
    if not _names_server():
        return "config"
    from hydra.core.config_store import ConfigStore  # with all of Hydra

    name = "runner_with_server"
    if f"{name}.yaml" not in (store := ConfigStore.instance()).repo:
        config = OmegaConf.load(paths.find_conf() / "config.yaml")
        next(entry for entry in config.defaults if "tracking" in entry).tracking = "server"
        store.store(name, config)
    return name


def _names_server() -> bool:
    return bool(os.environ.get(ADDRESS)) and not _find_flaw()


def explain_unused_address(choice: Tracking) -> str | None:
    """Return a sentence if the environment names a server and another store was chosen."""
    if not os.environ.get(ADDRESS) or choice.kind == "server":
        return None
    return f"{ADDRESS} is not used ({_find_flaw() or f'tracking={choice.kind}'})."


def _find_flaw() -> str | None:
    """Return why the address in the environment can't be used, without a password in it."""
    try:
        Tracking("server", os.environ[ADDRESS], "runner")
    except BadInput as error:
        return error.problem.rstrip(".")
    return None


def read_tracking(words: Sequence[str]) -> Tracking:
    """Return the store that a verb's words `tracking=...` name, or else the default one."""
    chosen: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key.split(".")[0] != "tracking":
            raise BadInput(
                f"{word}: does not choose a store.", "Say tracking=NAME or tracking.uri=URI."
            )
        chosen[key.removeprefix("tracking.")] = value
    try:
        defaults = OmegaConf.select(OmegaConf.load(paths.find_conf() / "config.yaml"), "defaults")
        default = next(entry["tracking"] for entry in defaults if "tracking" in entry)
        usual = "server" if _names_server() else default
        name, known = chosen.pop("tracking", usual), paths.find_choices("tracking")
        if name not in known:
            raise BadInput(
                f"tracking={name}: there is no tracking of that name.", suggest(name, known)
            )
        values: Any = OmegaConf.to_container(OmegaConf.load(known[name]), resolve=True)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        from runner.compose.translation import translate  # the same

        raise translate(error) from error
    return build_checked(Tracking, {**values, **chosen}, "tracking")


def read_kept_tracking(path: Path) -> dict[str, Any]:
    """Return the store's fields in a run's kept configuration, interpolations resolved
    (`${oc.env:MLFLOW_EXPERIMENT_NAME,runner}`); nothing where they can't be read."""
    try:
        kept = yaml_files.read(path)
        store = OmegaConf.create(kept).get("tracking") if isinstance(kept, dict) else None
        fields: Any = OmegaConf.to_container(store, resolve=True) if store else {}
    except (BadInput, OmegaConfBaseException):
        return {}
    return fields if isinstance(fields, dict) else {}
