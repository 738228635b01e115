"""Print the packages of `runner/` in order, and who imports whom: `python -m tests.packages`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

RUNNER = Path(__file__).resolve().parent.parent / "runner"
README = RUNNER / "README.md"
TYPES = "types"
BEGIN, END = "<!-- printed by `python -m tests.packages` -->\n", "<!-- end -->\n"

ORDER = (
    TYPES,
    "analysis",
    "processes",
    "meters",
    "trial",
    "script",
    "compose",
    "engine",
    "render",
    "store",
    "search",
    "leak",
    "fit",
    "claims",
    "integrations",
    "commands",
)
"""Each package may import only from those above it."""


def _name(path: Path) -> str:
    parts = path.relative_to(RUNNER.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): ast.parse(path.read_text()) for path in sorted(RUNNER.rglob("*.py"))}


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield every module that a file imports, within its functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{each.name}" for each in node.names]
            yield from (each if each in SOURCES else str(node.module) for each in whole)


def package(module: str) -> str:
    """Return the package of a module; "" for the two modules that open the doors."""
    _, _, below = module.partition(".")
    first = below.partition(".")[0]
    if (RUNNER / first).is_dir() and first:
        return first
    return "" if first in ("", "__main__") else TYPES


@cache
def imports() -> dict[str, set[str]]:
    """Return the packages that each package imports, without `types`, which all may import."""
    found: dict[str, set[str]] = {package(name): set() for name in SOURCES}
    for name, tree in SOURCES.items():
        known = {package(each) for each in imported(tree) if each.partition(".")[0] == "runner"}
        found[package(name)] |= known - {package(name), TYPES, ""}
    del found[""]
    return found


def drawing() -> str:
    """Return a line per package: what it imports from, and what it must not."""
    lines = ["```"]
    for name in (each for each in ORDER if each in imports()):
        known = imports()[name]
        down = [each for each in ORDER[: ORDER.index(name)] if each in known]
        up = sorted(known - set(down))
        lines.append(f"{name:<13} <- {' '.join(down)}" + (f"   UPWARDS: {' '.join(up)}" * bool(up)))
    return "\n".join([*(line.rstrip() for line in lines), "```", ""])


def main() -> None:
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(before + BEGIN + drawing() + END + rest.partition(END)[2])
    print(drawing())


if __name__ == "__main__":
    main()
