"""Where claims are found: by id in conf/claim/ and the user's own, or any YAML file by its path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from runner import places
from runner.claims import files
from runner.claims.verdicts import Claim
from runner.errors import BadInput, nearest


def paths(names: Sequence[str]) -> list[Path]:
    """The files of claims that are named by id or by path; of all with an id, if none is named."""
    known = places.choices("claim")
    if not names:
        return list(known.values())
    found = []
    for name in dict.fromkeys(names):
        if name not in known and not Path(name).is_file():
            raise BadInput(f"{name}: there is no claim of that id, and no such file.",
                           nearest(name, known))  # fmt: skip
        found.append(known.get(name) or Path(name).resolve())
    return found


def said(path: Path) -> str:
    """What a user says to mean that file."""
    return path.stem if places.choices("claim").get(path.stem) == path else str(path)


def load(path: Path) -> Claim:
    conf = places.conf().parent
    where = str(path.relative_to(conf)) if path.is_relative_to(conf) else str(path)
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise BadInput(f"{where}{line}: is not valid YAML.", "Correct the file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{where}: can't be read ({error}).", "Check the file.") from None
    return files.parse(path.stem, content, where)


def sentence(id: str) -> str | None:
    """What the claim of that id says, if there is one."""
    path = places.choices("claim").get(id)
    return load(path).claim if path else None
