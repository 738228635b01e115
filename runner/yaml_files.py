"""Read YAML that a user, or a stranger, wrote: data, or one sentence that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from runner import paths
from runner.errors import BadInput, get_first_line

_MOST_NODES = 100_000
"""Of a file whose aliases are replaced: a few lines of them can stand for billions."""
_DEEPEST = 100
"""Lists and mappings in one another; readers, which call themselves, can't follow without end."""
_BEGINS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def check_folder(folder: Path) -> None:
    """Raise `BadInput` for the first file of configuration below a folder that can't be read."""
    for file in sorted(folder.rglob("*.yaml")):
        read(file)


def read(file: Path) -> Any:
    """Return what a file holds; raise `BadInput` where it can't be read."""
    try:
        text = paths.read_text(file)
        _check_size(text)
        content = yaml.safe_load(text)
        # No text can hold half a character.
        json.dumps(content, ensure_ascii=False, default=str, skipkeys=True).encode()
        return content
    except OSError as error:
        why = error.strerror or get_first_line(error)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        why = str(getattr(error, "problem", None) or get_first_line(error))
        why += f", line {mark.line + 1}" if mark else ""
    except UnicodeEncodeError:
        why = "it holds half a character"
    except Exception as error:  # PyYAML raises whatever a value's own constructor does
        why = f"a value is none of its kind: {get_first_line(error)}"
    raise BadInput(f"{paths.shorten(file)}: can't be read ({why}).", "Correct the file.")


def _check_size(text: str) -> None:
    """Raise `YAMLError` for what is nested without end, or grows without end by its aliases."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in (anchor for anchor, _ in open_nodes):
                raise yaml.YAMLError(f"the alias *{event.anchor} stands within itself")
            nodes += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            sizes[event.anchor or ""] = 1
        elif isinstance(event, _BEGINS):
            open_nodes.append((event.anchor, nodes))
            nodes += 1
        elif isinstance(event, _ENDS):
            anchor, before = open_nodes.pop()
            sizes[anchor or ""] = nodes - before
        if nodes > _MOST_NODES:
            raise yaml.YAMLError(f"it stands for more than {_MOST_NODES:,} values")
        if len(open_nodes) > _DEEPEST:
            raise yaml.YAMLError(f"it is nested more than {_DEEPEST} deep")
