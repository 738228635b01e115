"""The user's own folders of configuration, as Hydra takes them: a search path beside ours.

`--config-dir`, RUNNER_CONFIG_DIR and `hydra.searchpath` come to the same: folders with the groups'
names, kept in `places`, where whoever lists or checks choices finds them as well.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from runner import places
from runner.composing import GROUPS
from runner.errors import BadInput

_KEY = "hydra.searchpath"


def with_own_folders(words: Sequence[str]) -> list[str]:
    """The words without a search path, whose folders are known from now on. A choice that has the
    name of one of ours is refused: Hydra would take ours, in silence."""
    kept = []
    for word in places.with_config_dirs(words):
        if word.lstrip("+").partition("=")[0] != _KEY:
            kept.append(word)
            continue
        for said in _listed(word):
            places.add_conf(_folder(said))
    for group in (*GROUPS, "claim"):
        known = places.choices(group)
        for folder in places.own_confs():
            for file in (folder / group).glob("*.yaml"):
                if known[file.stem] != file:
                    raise BadInput(
                        f"{places.relative(file)}: there is a {group} of that name already, "
                        f"{places.relative(known[file.stem])}.",
                        "Give yours another name.",
                    )
    return kept


def own_folders() -> list[str]:
    """The word that tells Hydra; none where there are none."""
    quoted = [str(folder).replace("'", "\\'") for folder in places.own_confs()]
    listed = ",".join(f"'file://{each}'" for each in quoted)
    return [f"{_KEY}=[{listed}]"] if quoted else []


def _listed(word: str) -> list[str]:
    try:
        value = OverridesParser.create().parse_override(word).value()
    except (HydraException, ValueError):
        value = None
    if not isinstance(value, list):
        raise BadInput(f"{word}: is not a list of folders.", f"Write '{_KEY}=[file:///PATH]'.")
    return [str(getattr(each, "text", each)) for each in value]


def _folder(said: str) -> Path:
    """`file:///a/b`, `/a/b`, or the folder of a package, `pkg://team.conf`."""
    scheme, _, rest = said.rpartition("://")
    if scheme == "pkg":
        found = _package(rest.replace("/", "."))
    else:
        found = Path(rest) if scheme in ("", "file") else None
    if found is None or not found.is_dir():
        raise BadInput(
            f"{_KEY}: there is no folder {said!r}.",
            "Say file:///PATH, or pkg://PACKAGE of one that is installed.",
        )
    return found


def _package(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places_of_it = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places_of_it[0]) if places_of_it else None
