"""The folder where the user stands, as a worker finds it: on a disk that both share, or a copy."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner import paths
from runner.engine import environment
from runner.errors import Unavailable

_MOST_BYTES, _MOST_FILES = 20 * 2**20, 5000
"""The largest folder that is sent: more than any code; each worker gets it."""
_NODES_OWN = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}
"""The node decides which cards a worker may use."""
_SET_BY_DASK = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                "MALLOC_TRIM_THRESHOLD_", "PYTHONHASHSEED"}  # fmt: skip
"""Variables that Dask's nanny sets in a worker; they would change what is measured."""


@dataclass(frozen=True)
class UserFolder:
    """The folder of a command, its import path, and the variables and versions that measurements
    depend on."""

    path: Path
    import_path: tuple[str, ...]
    variables: Mapping[str, str]
    identity: tuple[object, ...]
    archive: bytes | None
    software: Mapping[str, str]

    @classmethod
    def read(cls) -> UserFolder:
        """Return this process's own."""
        own = {name for name in os.environ if name.startswith("RUNNER_")}
        names = (environment.FLAGS | own) & os.environ.keys() - _NODES_OWN
        variables = {name: os.environ[name] for name in names}
        path = Path.cwd()
        identity, software = _identify(path), environment.read_software()
        return cls(path, tuple(sys.path), variables, identity, _pack(path), software)

    def find(self, scratch: Path) -> Path:
        """Return the folder on this machine: the same one, or else a copy of it in `scratch`.
        Raise `Unavailable` where it is neither here nor was sent, or where other versions are."""
        host, own = os.uname().nodename, environment.read_software()
        for name, version in self.software.items():
            if own[name] != version:
                raise Unavailable(
                    f"{host} has {name} {own[name]}, and the command has {version}.",
                    "Install the same versions on all machines, and start their workers again.",
                )
        if _identify(self.path) == self.identity:
            return self.path
        if self.archive is None:
            raise Unavailable(
                f"{self.path} is not on the disk of {host}, and is too large to be "
                f"sent there: {_MOST_BYTES >> 20} MiB and {_MOST_FILES} files at most.",
                "Stand in a folder on a disk that the nodes share, or in one of code alone.",
            )
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as archive:
            archive.extractall(scratch / "folder", filter="data")
        return scratch / "folder"

    @contextmanager
    def entered(self, here: Path) -> Iterator[None]:
        """Have this process stand in that folder, with the command's import path and variables."""
        before, import_path, variables = Path.cwd(), list(sys.path), dict(os.environ)
        moved = [(Path(entry), entry) for entry in self.import_path]
        entries = [
            str(here / path.relative_to(self.path)) if path.is_relative_to(self.path) else entry
            for path, entry in moved
        ]
        try:
            os.chdir(here)
            sys.path[:] = dict.fromkeys((*entries, *import_path))
            for name in _SET_BY_DASK & os.environ.keys():
                del os.environ[name]
            os.environ.update(self.variables)
            yield
        finally:
            os.chdir(before)
            sys.path[:] = import_path
            os.environ.clear()
            os.environ.update(variables)


def _identify(folder: Path) -> tuple[object, ...]:
    """Return what tells a folder from a copy on another disk: its inode, and its modules' times."""
    try:
        modules = sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("*.py"))
        return folder.stat().st_ino, *modules
    except OSError:  # there is none
        return ()


def _pack(folder: Path) -> bytes | None:
    """Return a folder's files, without outputs, environments and what is hidden; None if they are
    too many or too large."""
    buffer, size, count, outputs = io.BytesIO(), 0, 0, paths.find_outputs()
    with tarfile.open(fileobj=buffer, mode="w:gz", dereference=True) as archive:
        for where, folders, names in os.walk(folder):
            here = Path(where)
            if here.resolve() == outputs or (here / "pyvenv.cfg").exists():
                folders.clear()
                continue
            folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
            files = [here / name for name in names if not name.startswith(".")]
            for file in filter(Path.is_file, files):  # no pipe, no link that leads nowhere
                size, count = size + file.stat().st_size, count + 1
                if size > _MOST_BYTES or count > _MOST_FILES:
                    return None
                archive.add(file, file.relative_to(folder))
    return buffer.getvalue()
