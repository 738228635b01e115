"""A store for a team, of one's own: Debian's PostgreSQL, and MLflow's server on it; both on
loopback."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.processes.process_tree import die_with_parent
from runner.store.location import make_mlflow_environment

START_SECONDS = 120.0
"""For a machine that is busy."""
_USER = "postgres"
"""Debian's package makes it; PostgreSQL refuses to be run by root."""


def why_not() -> str | None:
    """Why there can be no PostgreSQL here."""
    if _programs() is None:
        return "PostgreSQL is missing: apt install postgresql"
    return "PostgreSQL is started as its own user by root" if os.geteuid() != 0 else None


def _programs() -> Path | None:
    """Debian puts them where no shell looks."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def postgres(port: int) -> Iterator[dict[str, str]]:
    """A database that takes clients; yields the environment that lets them in."""
    password = secrets.token_hex(16)
    programs = _programs()
    assert programs is not None
    with tempfile.TemporaryDirectory(prefix="runner-postgres-") as made:
        folder = Path(made)
        (folder / "password").write_text(password)
        for path in (folder, folder / "password"):
            shutil.chown(path, _USER, _USER)
        data = folder / "data"
        subprocess.run(
            [programs / "initdb", "--no-sync", "--auth=scram-sha-256", "--username=mlflow",
             f"--pwfile={folder}/password", f"--pgdata={data}"],
            user=_USER, group=_USER, extra_groups=[], cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [programs / "postgres", "-D", data, "-p", str(port), "-k", folder,
                 "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
                user=_USER, group=_USER, extra_groups=[], cwd=folder, stdout=log, stderr=log,
                preexec_fn=die_with_parent,
            )  # fmt: skip
        try:
            variables = {"PGPASSWORD": password}
            ask = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
            wait(lambda: subprocess.run(ask, capture_output=True).returncode == 0, folder / "log")
            yield variables
        finally:
            process.send_signal(signal.SIGINT)  # ends its clients, too
            process.wait()


class Server:
    """MLflow's, as conf/tracking/README.md has it started."""

    def __init__(self, database: int, port: int, folder: Path, password: dict[str, str]) -> None:
        self.uri = f"http://127.0.0.1:{port}"
        self._words = [
            *("server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri",
              f"postgresql+psycopg2://mlflow@127.0.0.1:{database}/postgres"),
            *("--artifacts-destination", str(folder / "artifacts")),
        ]  # fmt: skip
        self._log = folder / "server.log"
        self._environment = {
            **make_mlflow_environment(os.environ),
            **password,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [Path(sys.executable).parent / "mlflow", *self._words],
                env=self._environment,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        wait(self._answers, self._log)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """All of it, in the midst of whatever it does."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def wait(is_up: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_up():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)
