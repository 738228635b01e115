"""Where things are: the one home of paths that do not depend on the folder one stands in; and how
a path is spelled, and a file gets to its place. Core: standard library only.

In a clone `conf/` and `scenarios/` lie beside `runner/`, for people to find; in an installed copy
they lie inside it (see pyproject.toml), so that nothing of ours takes a common name there.
Either way the package of the scenarios is imported as `scenarios`: importing `runner` puts a finder
first that knows where it is. So a scenario's path, which a cell's hash is made of, and what is
pickled for a child are the same in both, and no folder named `scenarios` where the user stands gets
in the way: its modules are found, too, after ours.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TextIO

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = (_PACKAGE / "conf").is_dir()
_PARTS = _PACKAGE if _INSTALLED else _PACKAGE.parent
_SCENARIOS = "scenarios"


def package() -> Path:
    return _PACKAGE


def project() -> Path | None:
    """The clone that this is; None where it is an installed copy."""
    return None if _INSTALLED else _PACKAGE.parent


def conf() -> Path:
    return _PARTS / "conf"


def scenarios() -> Path:
    return _PARTS / _SCENARIOS


def outputs() -> Path:
    """The folder that RUNNER_OUTPUTS names; else the clone's `outputs/`, wherever one stands, and
    for an installed copy the one where the user stands."""
    named = os.environ.get("RUNNER_OUTPUTS")
    return Path(os.path.realpath(named)) if named else (project() or Path.cwd()) / "outputs"


def relative(path: Path) -> str:
    """The shorter of a path's two spellings, for a person to read."""
    spelled = os.path.relpath(path)
    return spelled if len(spelled) < len(str(path)) else str(path)


def text_of(path: Path) -> str:
    """A file's text. What stands in a file's place, a pipe that nobody writes to for one, is an
    `OSError` at once; text that is not UTF-8 and a name that no file can have as well."""
    with open_text(path) as file:
        return file.read()


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """The same, line by line."""
    try:
        # A pipe is opened at once so, a folder never.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a file", str(path))
            yield file
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "it is not UTF-8 text", str(path)) from None
    except UnicodeEncodeError as error:
        raise OSError(errno.EINVAL, error.reason, str(path)) from None


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """The name to write a file under; it is renamed to `path` after that, so that whoever looks
    finds it whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield scratch
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    scratch.replace(path)


def write(path: Path, text: str) -> Path:
    with whole(path) as scratch:
        scratch.write_text(text, encoding="utf-8", errors="replace")
    return path


class _Scenarios(MetaPathFinder):
    """Finds the package `scenarios` and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _SCENARIOS:
            return None
        folders = [str(scenarios()), str(Path.cwd() / _SCENARIOS)]
        return spec_from_file_location(
            fullname, scenarios() / "__init__.py", submodule_search_locations=folders
        )


def make_scenarios_importable() -> None:
    """Here, and in every child: to unpickle an experiment `runner` is imported first."""
    if not any(isinstance(finder, _Scenarios) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Scenarios())


def let_their_scenarios_be() -> None:
    """In a process that is theirs, as that of their tests: whoever has a package of that name gets
    it, as if the runner were not installed, and ours is found where there is none."""
    # First those that are not ours; the order is otherwise kept.
    sys.meta_path.sort(key=lambda finder: isinstance(finder, _Scenarios))
