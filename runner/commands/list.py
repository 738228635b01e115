"""`list`: every scenario, execution, device, measure, experiment and claim, a line each.

Read from the files in conf/, and in the folders that `--config-dir` names: a name is a file, its
line is what the file's first comment says.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from runner import paths
from runner.commands import GROUPS, Parser
from runner.errors import BadInput, suggest
from runner.render.text.table import align_columns

_LISTED = (*GROUPS, "claim")


def make_parser() -> Parser:
    parser = Parser(
        "list",
        "Every choice there is, a line each: GROUP=NAME and what it is.",
        "Example: python -m runner list scenario",
        offers=_LISTED,
    )
    parser.add_argument("group", nargs="*", help=f"only these groups ({', '.join(_LISTED)})")
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    for group in options.group:
        if group not in _LISTED:
            raise BadInput(f"{group}: there is no group of that name.", suggest(group, _LISTED))
    choices: dict[str, dict[str, str]] = {group: {} for group in options.group or _LISTED}
    for group, described in choices.items():
        for name, path in paths.find_choices(group).items():
            is_own = path.is_relative_to(paths.find_conf())
            origin = "" if is_own else f" [{paths.shorten(path)}]"
            described[name] = f"{_read_first_sentence(path)}{origin}".lstrip()
    if options.json:
        print(json.dumps(choices, indent=1))
        return 0
    lines = [(f"{group}={name}", names[name]) for group, names in choices.items() for name in names]
    print("\n".join(align_columns(lines)))
    return 0


def _read_first_sentence(path: Path) -> str:
    """Return the header comment up to its first full stop or question mark."""
    words: list[str] = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        text = line.lstrip("# ").strip()
        if not text.startswith("@package"):
            words.append(text)
    first: str = re.split(r"(?<=[.?]) ", " ".join(words), maxsplit=1)[0]
    return first.rstrip(".")
