"""The store that `tracking=` words name, for verbs that read or show records and compose no run."""

from __future__ import annotations

from collections.abc import Sequence

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runner import places
from runner.config import Tracking, typed
from runner.errors import BadInput, nearest


def chosen_store(words: Sequence[str]) -> Tracking:
    """The store that a verb's words `tracking=...` name, or else the one in conf/config.yaml."""
    try:
        defaults = OmegaConf.select(OmegaConf.load(places.conf() / "config.yaml"), "defaults")
        name = next(entry["tracking"] for entry in defaults if "tracking" in entry)
        said: dict[str, str] = {}
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or key.split(".")[0] != "tracking":
                raise BadInput(
                    f"{word}: does not choose a store.", "Say tracking=NAME or tracking.uri=URI."
                )
            said[key.removeprefix("tracking.")] = value
        name = said.pop("tracking", name)
        known = places.choices("tracking")
        if name not in known:
            raise BadInput(
                f"tracking={name}: there is no tracking of that name.", nearest(name, known)
            )
        values = OmegaConf.to_container(OmegaConf.load(known[name]), resolve=True)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        from runner.composing.translation import translate  # with all of Hydra

        raise translate(error) from error
    assert isinstance(values, dict)
    return typed(
        Tracking, {**{str(key): value for key, value in values.items()}, **said}, "tracking"
    )
