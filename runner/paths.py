"""The paths that do not depend on the folder one stands in; how a path is spelled, and a file gets
to its place. Core: standard library only.

In a clone `conf/` and `scenarios/` lie beside `runner/`, for people to find; in an installed copy
they lie inside it (see pyproject.toml), so that nothing of ours takes a common name there.
Either way the package of the scenarios is imported as `scenarios`: importing `runner` puts a finder
first that knows where it is. So a scenario's path, which a cell's hash is made of, and what is
pickled for a child are the same in both, and no folder named `scenarios` where the user stands gets
in the way: its modules are found, too, after ours.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TextIO

from runner.errors import BadInput

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = (_PACKAGE / "conf").is_dir()
_PARTS = _PACKAGE if _INSTALLED else _PACKAGE.parent
_SCENARIOS = "scenarios"
_CONFIG_DIR = "RUNNER_CONFIG_DIR"


def find_package() -> Path:
    """Return the folder of the package `runner`."""
    return _PACKAGE


def find_clone() -> Path | None:
    """Return the clone that this is; None where it is an installed copy."""
    return None if _INSTALLED else _PACKAGE.parent


def find_conf() -> Path:
    """Return the folder of our own configuration."""
    return _PARTS / "conf"


def list_own_confs() -> list[Path]:
    """Return the user's folders of the same groups: `--config-dir` names them, or
    RUNNER_CONFIG_DIR, which processes that this one starts have as well."""
    said = os.environ.get(_CONFIG_DIR, "")
    return [Path(folder).resolve() for folder in said.split(os.pathsep) if folder]


def add_conf(folder: Path) -> None:
    """Have choices found in `folder`, too, from now on."""
    known = list_own_confs()
    if (whole := folder.resolve()) not in known:
        os.environ[_CONFIG_DIR] = os.pathsep.join(map(str, [*known, whole]))


def take_config_dirs(words: Sequence[str]) -> list[str]:
    """Return the words without `--config-dir DIR`, whose folders are known from now on; raise
    `BadInput` where there is no such folder."""
    kept, left = [], iter(words)
    for word in left:
        flag, equals, said = word.partition("=")
        if flag not in ("--config-dir", "-cd"):
            kept.append(word)
            continue
        folder = said if equals else next(left, "")
        if not folder or not Path(folder).is_dir():
            raise BadInput(
                f"--config-dir {folder}: there is no such folder.",
                "Name the one that holds scenario/, experiment/ or claim/ of your own.",
            )
        add_conf(Path(folder))
    return kept


def find_choices(group: str) -> dict[str, Path]:
    """Return every choice of a group and its file, ours first."""
    choices: dict[str, Path] = {}
    for folder in (find_conf(), *list_own_confs()):
        for name, path in list_choices(folder, group).items():
            choices.setdefault(name, path)  # as Hydra does, which the first one serves
    return choices


def list_choices(folder: Path, group: str) -> dict[str, Path]:
    """Return the choices of a group in one folder of configuration, in the order of their names;
    `team/loops` for one in a folder of the group."""
    below = "*.yaml" if "/" in group else "**/*.yaml"  # Hydra's own groups lie in one another
    files = {
        path.relative_to(folder / group).with_suffix("").as_posix(): path
        for path in sorted((folder / group).glob(below))
    }
    return {name: path for name, path in files.items() if not re.search(r"(^|/)\.", name)}


def find_scenarios() -> Path:
    """Return the folder of our own scenarios."""
    return _PARTS / _SCENARIOS


def find_outputs() -> Path:
    """Return where results go: the folder that RUNNER_OUTPUTS names; else the clone's `outputs/`
    for a user who stands inside the clone, and `outputs/` of the working folder anywhere else.
    Raises `BadInput` for a name that a database or a table can't hold."""
    if named := os.environ.get("RUNNER_OUTPUTS"):
        outputs = Path(os.path.realpath(named))
    else:
        clone, here = find_clone(), Path.cwd()
        outputs = (clone if clone and here.is_relative_to(clone) else here) / "outputs"
    try:
        str(outputs).encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{outputs}: is not UTF-8, so no results can go there.",
            "Name another folder in RUNNER_OUTPUTS.",
        ) from None
    return outputs


def shorten(path: Path) -> str:
    """Return the shorter of a path's two spellings, for a person to read."""
    try:
        spelled = os.path.relpath(path)
    except FileNotFoundError:  # the working folder has gone
        return str(path)
    return spelled if len(spelled) < len(str(path)) else str(path)


def read_text(path: Path) -> str:
    """Return a file's text; raise `OSError` at once for anything else in its place.

    That is a pipe that nobody writes to, for one; text that is not UTF-8 and a name that no file
    can have as well.
    """
    with open_text(path) as file:
        return file.read()


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a file's text, to be read line by line; raise `OSError` as `read_text` does."""
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
def replace_file(path: Path) -> Iterator[Path]:
    """Yield the name to write a file under; renamed after that, it is there whole or not at all.
    What a killed process has left of the same file is removed."""
    try:
        with _make_scratch(path) as scratch:
            yield scratch
            scratch.replace(path)
    except OSError as error:
        if error.errno:  # named by the file that was wanted
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextmanager
def _make_scratch(path: Path) -> Iterator[Path]:
    """Yield an empty file beside another one, which is locked as long as its writer lives."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if re.fullmatch(r"[0-9a-f]{16}", left.suffix[1:]):
            _remove_unlocked(left)
    while True:
        # A name that nobody can have made a link of before.
        scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        lock = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with suppress(OSError):  # a disk without locks: then nobody removes it either
            fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            break
        os.close(lock)  # another process removed it, before it was locked
    try:
        yield scratch
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        os.close(lock)


def _remove_unlocked(scratch: Path) -> None:
    """Remove a file whose writer has ended."""
    with suppress(OSError):
        lock = os.open(scratch, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            scratch.unlink()
        finally:
            os.close(lock)


def write_text(path: Path, text: str) -> Path:
    """Write a file whole or not at all; return its path."""
    with replace_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8", errors="replace")
    return path


class _Scenarios(MetaPathFinder):
    """Finds the package `scenarios` and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _SCENARIOS:
            return None
        folders = [str(find_scenarios()), str(Path.cwd() / _SCENARIOS)]
        return spec_from_file_location(
            fullname, find_scenarios() / "__init__.py", submodule_search_locations=folders
        )


def make_scenarios_importable() -> None:
    """Let `import scenarios` find ours: here, and in every child, which imports `runner` first."""
    if not any(isinstance(finder, _Scenarios) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Scenarios())


def prefer_their_scenarios() -> None:
    """Let a package of the user's that is called `scenarios` go before ours.

    For a process that is theirs, as that of their tests: it is as if the runner were not installed,
    and ours is found where there is none.
    """
    # First those that are not ours; the order is otherwise kept.
    sys.meta_path.sort(key=lambda finder: isinstance(finder, _Scenarios))
