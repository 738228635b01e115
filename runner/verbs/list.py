"""`list`: every scenario, execution, device, measure, experiment and claim, a line each.

Read from the files in conf/: a name is a file, its line is what the file's first comment says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from runner import places
from runner.errors import BadInput, nearest
from runner.terminal.tables import aligned
from runner.verbs import Parser

GROUPS = ("scenario", "execution", "device", "measure", "tracking", "experiment", "claim")


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "list",
        description="Every choice there is, a line each: GROUP=NAME and what it is.",
        epilog="Example: python -m runner list scenario",
    )
    parser.add_argument("group", nargs="*", help=f"only these groups ({', '.join(GROUPS)})")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)
    for group in options.group:
        if group not in GROUPS:
            raise BadInput(f"{group}: there is no group of that name.", nearest(group, GROUPS))
    choices = {group: _choices(group) for group in options.group or GROUPS}
    if options.json:
        print(json.dumps(choices, indent=1))
        return 0
    lines = [(f"{group}={name}", names[name]) for group, names in choices.items() for name in names]
    print("\n".join(aligned(lines, ())))
    return 0


def _choices(group: str) -> dict[str, str]:
    return {
        path.stem: _first_sentence(path) for path in sorted((places.conf() / group).glob("*.yaml"))
    }


def _first_sentence(path: Path) -> str:
    """The header comment up to its first full stop or question mark."""
    words: list[str] = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        text = line.lstrip("# ").strip()
        if not text.startswith("@package"):
            words.append(text)
    first: str = re.split(r"(?<=[.?]) ", " ".join(words), maxsplit=1)[0]
    return first.rstrip(".")
