"""The user's own folders of configuration, as Hydra takes them: a search path beside ours.

`--config-dir`, RUNNER_CONFIG_DIR and `hydra.searchpath` come to the same: folders with the groups'
names, kept in `paths`, where whoever lists or checks choices finds them as well.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from runner import paths
from runner.compose import GROUPS
from runner.errors import BadInput
from runner.overrides import split_override

_KEY = "hydra.searchpath"


def take_config_dirs(words: Sequence[str]) -> list[str]:
    """Return the words without a search path, whose folders are known from now on. Refuse a choice
    that has the name of one of ours: Hydra would take ours, in silence."""
    kept = []
    for word in paths.take_config_dirs(words):
        if split_override(word)[0] != _KEY:
            kept.append(word)
            continue
        named = None
        with suppress(HydraException, ValueError):
            named = OverridesParser.create().parse_override(word).value()
        if not isinstance(named, list):
            raise BadInput(f"{word} is not a list of folders.", f"Write '{_KEY}=[file:///PATH]'.")
        for folder in named:
            paths.add_conf(_find_folder(str(getattr(folder, "text", folder))))
    for group in (*GROUPS, "claim"):
        known = paths.find_choices(group)
        for folder in paths.list_own_confs():
            for name, file in paths.list_choices(folder, group).items():
                if known[name] != file:
                    raise BadInput(
                        f"{paths.shorten(file)}: there is a {group} of that name already, "
                        f"{paths.shorten(known[name])}.",
                        "Give yours another name.",
                    )
    return kept


def list_search_path() -> list[str]:
    """Return the word that tells Hydra of the folders; none where there are none."""
    quoted = [str(folder).replace("'", "\\'") for folder in paths.list_own_confs()]
    listed = ",".join(f"'file://{folder}'" for folder in quoted)
    return [f"{_KEY}=[{listed}]"] if quoted else []


def _find_folder(named: str) -> Path:
    """Return the folder of `file:///a/b`, `/a/b`, or `pkg://team.conf`, which is a package's."""
    scheme, _, rest = named.rpartition("://")
    places: list[str] = []
    if scheme == "pkg":
        with suppress(ImportError, ValueError):
            package = importlib.util.find_spec(rest.replace("/", "."))
            places = list(package.submodule_search_locations or ()) if package else []
    elif scheme in ("", "file"):
        places = [rest]
    if not places or not Path(places[0]).is_dir():
        raise BadInput(
            f"{_KEY}: there is no folder {named!r}.",
            "Say file:///PATH, or pkg://PACKAGE of one that is installed.",
        )
    return Path(places[0])
