"""Who knows whom in `runner/`, by room; `python -m tests.rooms` draws it into runner/README.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

RUNNER = Path(__file__).resolve().parent.parent / "runner"
README = RUNNER / "README.md"
CORE = "core"
BEGIN, END = "<!-- drawn by `python -m tests.rooms` -->\n", "<!-- end of the drawing -->\n"


def _name(path: Path) -> str:
    parts = path.relative_to(RUNNER.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): ast.parse(path.read_text()) for path in sorted(RUNNER.rglob("*.py"))}


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported anywhere in a file, within its functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{each.name}" for each in node.names]
            yield from (each if each in SOURCES else str(node.module) for each in whole)


def room(module: str) -> str:
    """The folder in `runner/` that a module lies in; the modules beside the folders are the core,
    and the two that open the package's doors have none."""
    _, _, below = module.partition(".")
    first = below.partition(".")[0]
    if (RUNNER / first).is_dir() and first:
        return first
    return "" if first in ("", "__main__") else CORE


def arrows() -> dict[str, set[str]]:
    """Of each room the others that it knows; what all may know, the core, is left out."""
    found: dict[str, set[str]] = {room(name): set() for name in SOURCES}
    for name, tree in SOURCES.items():
        known = {room(each) for each in imported(tree) if each.partition(".")[0] == "runner"}
        found[room(name)] |= known - {room(name), CORE, ""}
    del found[""]
    return found


def drawing() -> str:
    lines = [f"    {one} --> {other}" for one, known in sorted(arrows().items())
             for other in sorted(known)]  # fmt: skip
    return "\n".join(["```mermaid", "graph LR", *lines, "```", ""])


def main() -> None:
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(before + BEGIN + drawing() + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
