"""`python -m tests.matrix [ROW...] [--lane LANE]`: which versions of Python and libraries pass.

Each row is an environment of its own below `--folder`, made by pip from this clone with the row's
versions; the lanes run in it one after another. Prints the table that stands in `tests/README.md`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CLONE = Path(__file__).parents[1]
LANES = ("unit", "integration")
SHOWN = ("tensorflow", "keras", "mlflow", "hydra-core", "omegaconf", "numpy")


@dataclass(frozen=True)
class Row:
    python: str
    """As `3.12`; looked up on PATH, and among pyenv's."""
    requirements: tuple[str, ...]
    """Beside those of `pyproject.toml`; one that names a release candidate allows candidates."""


_CANDIDATES = ("tensorflow>=2.22.0rc0", "hydra-core>=1.4.0rc1", "omegaconf>=2.4.0rc1")


ROWS = {
    "oldest": Row("3.11", ("tensorflow==2.20.*", "mlflow==3.16.*", "hydra-core==1.3.2")),
    "usual": Row("3.11", ("tensorflow==2.21.*",)),
    "python3.12": Row("3.12", ("tensorflow==2.21.*",)),
    "python3.13": Row("3.13", ("tensorflow==2.21.*",)),
    "newest": Row("3.13", _CANDIDATES),
    "python3.14": Row("3.14", _CANDIDATES),
}


def main(words: list[str]) -> int:
    """Run the lanes in each row's environment; return 1 if a row fails, or is named and not
    here."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of: {', '.join(ROWS)}")
    usual = " and ".join(LANES)
    parser.add_argument("--lane", action="append", help=f"below tests/; default: {usual}")
    parser.add_argument("--folder", type=Path, default=CLONE / "outputs" / "matrix")
    options = parser.parse_args(words)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"there is no row {', '.join(sorted(unknown))}")
    lanes = tuple(options.lane or LANES)
    if missing := [lane for lane in lanes if not (CLONE / "tests" / lane).exists()]:
        parser.error(f"there is no {missing[0]} below tests/")
    results = {
        name: _try_row(ROWS[name], options.folder / name, lanes) for name in options.rows or ROWS
    }
    heads = ("row", "python", *SHOWN, *lanes)
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for name, cells in results.items():
        print("| " + " | ".join((name, *cells)) + " |")
    bad = ("failed", "not here") if options.rows else ("failed",)
    return int(any(word in " ".join(cells) for cells in results.values() for word in bad))


def _try_row(row: Row, folder: Path, lanes: tuple[str, ...]) -> list[str]:
    """Return the versions that were installed, and how each lane ended."""
    interpreter = _find_python(row.python)
    python = folder / "bin" / "python"
    if interpreter is None:
        return [row.python, *["" for _ in SHOWN], *["not here" for _ in lanes]]
    subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-e", ".[test]", *row.requirements], cwd=CLONE, check=True)
    return [*_read_versions(python), *(_run_lane(python, folder, lane) for lane in lanes)]


def _find_python(version: str) -> str | None:
    """Return the command of an interpreter that starts: pyenv's on PATH may be there and not."""
    named = shutil.which(f"python{version}")
    others = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for each in filter(None, (named, *map(str, others))):
        if subprocess.run([each, "--version"], capture_output=True).returncode == 0:
            return each
    return None


def _read_versions(python: Path) -> list[str]:
    code = (
        "import importlib.metadata as m, json, platform; "
        f"print(json.dumps([platform.python_version(), *map(m.version, {SHOWN!r})]))"
    )
    told = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    versions: list[str] = json.loads(told)
    return versions


def _run_lane(python: Path, folder: Path, lane: str) -> str:
    """Return the counts of pytest's last line; its whole output is in the row's folder."""
    log = folder / f"{lane.replace('/', '-')}.log"
    tests = ["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", f"tests/{lane}"]
    with log.open("w") as file:
        done = subprocess.run([python, *tests], cwd=CLONE, stdout=file, stderr=subprocess.STDOUT)
    last = log.read_text().strip().rpartition("\n")[2]
    counts = ", ".join(re.findall(r"\d+ (?:passed|failed|errors?|skipped)", last))
    return counts if counts and done.returncode in (0, 1) else f"failed: {log}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
