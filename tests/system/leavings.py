"""Run a command as a user does, and tell all that it left: names, without ids, dates and figures.

Every part is a set of words, so that two of them differ by what is missing and what is new.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

Leavings = dict[str, frozenset[str]]
"""What there is, by the part that it is of: `files`, `exit code`, `MLflow tags of NAME`."""

_MLFLOW = threading.Lock()
_COMMAND_SECONDS = 300.0
_ANY = (
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"\d\d-\d\d-\d\d-[0-9a-f]{4}"), "TIME"),
    (re.compile(r"runner-sweep-[0-9a-f]{12}"), "runner-sweep-ID"),
)


class Place:
    """A folder where a user stands, with outputs of its own. Commands follow each other there."""

    def __init__(self, folder: Path, brought: Mapping[str, str]) -> None:
        """Make the folder, with the files that the user has there."""
        for name, text in brought.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.lstrip())
        self.folder = folder
        self.outputs = folder / "outputs"
        self._first: Path | None = None
        self._files: dict[Path, tuple[int, int] | None] = {}
        self._runs: set[str] = set()
        self._views: set[str] = set()

    def run(
        self, words: str, stop_when: Callable[[Path, str], bool] | None = None
    ) -> tuple[Leavings, str]:
        """Run Python with these words, with Ctrl-C once `stop_when(outputs, stdout)` holds. Return
        all parts of what it left that are not empty, and what it said."""
        out, err = self.folder / "stdout", self.folder / "stderr"
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, *(self._filled_in(word) for word in shlex.split(words))],
                stdout=stdout,
                stderr=stderr,
                cwd=self.folder,
                env={
                    **os.environ,
                    "RUNNER_OUTPUTS": str(self.outputs),
                    "PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(self.folder)]),
                },
            )
            try:
                if stop_when:
                    _wait_until(lambda: stop_when(self.outputs, out.read_text()), process)
                    process.send_signal(signal.SIGINT)
                process.wait(_COMMAND_SECONDS)
            finally:
                process.kill()
                process.wait()
        found = dict(self._tell(process.returncode, out.read_text()))
        left = {part: frozenset(told) for part, told in found.items()}
        said = f"{out.read_text()}\n{err.read_text()}".strip()
        return {part: told for part, told in left.items() if told}, said

    def _filled_in(self, word: str) -> str:
        if word == "PORT":
            with socket.create_server(("127.0.0.1", 0)) as server:
                return str(server.getsockname()[1])
        return str(self._first) if word == "FIRST" else word

    def _tell(self, code: int, stdout: str) -> Iterator[tuple[str, Iterable[str]]]:
        yield "exit code", [str(code)]
        if stdout.lstrip()[:1] in ("{", "["):
            try:
                yield "keys of --json", json_keys(json.loads(stdout), 3)
            except ValueError as error:
                yield "keys of --json", [f"no JSON: {error}"]
        before, self._files = self._files, dict(self._walk())
        written = sorted(
            path for path, state in self._files.items() if state != before.get(path, ())
        )
        yield "files", map(self._name, written)
        yield "files gone", map(self._name, before.keys() - self._files.keys())
        for file in written:
            if file.name == "record.json" and self._first is None:
                self._first = file.parent
            yield from self._tell_of(file)
        yield from self._tell_of_mlflow()

    def _walk(self) -> Iterator[tuple[Path, tuple[int, int] | None]]:
        """Yield every file but the store's copies, which MLflow is asked for, with what differs
        once it is written anew. Logs and databases change as they are used."""
        for path in self.outputs.rglob("*"):
            if path.is_file() and path.relative_to(self.outputs).parts[0] != "artifacts":
                found, is_used = path.stat(), path.suffix in (".log", ".db", ".lock")
                yield path, None if is_used else (found.st_ino, found.st_size)

    def _name(self, path: Path) -> str:
        return _without_ids(str(path.relative_to(self.outputs)))

    def _tell_of(self, file: Path) -> Iterator[tuple[str, Iterable[str]]]:
        where = self._name(file)
        if file.name == "record.json":
            record = json.loads(file.read_text())
            yield f"status in {where}", [record["outcome"]["status"]]
            yield f"keys of {where}", record_keys(record)
        elif file.suffix == ".json" and file.name != "timeline.json":
            yield f"keys of {where}", json_keys(json.loads(file.read_text()), 2)
        elif file.name == "config.yaml":
            yield f"keys of {where}", json_keys(yaml.safe_load(file.read_text()), 2)
        elif file.suffix == ".jsonl" and file.name != "trials.jsonl":
            lines = file.read_text().splitlines()
            yield f"keys of {where}", json_keys([json.loads(line) for line in lines], 2)
        elif file.suffix == ".csv":
            with file.open() as lines:
                yield f"columns of {where}", next(csv.reader(lines))
        elif file.suffix == ".parquet":
            yield f"columns of {where}", map(str, pd.read_parquet(file).columns)

    def _tell_of_mlflow(self) -> Iterator[tuple[str, Iterable[str]]]:
        if not (self.outputs / "mlflow.db").exists():
            return
        with _MLFLOW:
            runs, views = _mlflow_runs(f"sqlite:///{self.outputs / 'mlflow.db'}")
        before, self._runs = self._runs, set(runs)
        new = {run: told for run, told in runs.items() if run not in before}
        ended = Counter(f"{told['name']}: {told['status']}" for told in new.values())
        yield "MLflow runs", (f"{count} {each}" for each, count in ended.items())
        yield "MLflow runs gone", [str(len(before - self._runs))] * bool(before - self._runs)
        yield "MLflow views", set(views) - self._views
        self._views |= set(views)
        for name in {told["name"] for told in new.values()}:
            for part in ("params", "metrics", "tags", "artifacts"):
                same = (told[part] for told in new.values() if told["name"] == name)
                yield f"MLflow {part} of {name}", set().union(*same)


def _wait_until(is_so: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + _COMMAND_SECONDS
    while process.poll() is None and time.monotonic() < deadline and not is_so():
        time.sleep(0.05)


def _without_ids(text: str) -> str:
    for pattern, word in _ANY:
        text = pattern.sub(word, text)
    return text


def json_keys(value: Any, depth: int, above: str = "") -> Iterator[str]:
    """Yield the path of every key down to `depth`; the entries of a list are `[]`."""
    if isinstance(value, list):
        for each in value:
            yield from json_keys(each, depth, f"{above}[]")
    elif isinstance(value, dict):
        for key, below in value.items():
            name = f"{above}.{key}".lstrip(".")
            yield name
            if depth > 1:
                yield from json_keys(below, depth - 1, name)


def record_keys(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a record, nested two levels; those of its trials by kind. Which figures of
    a completed run are unknown differs from time to time: whether growth was shown is one."""
    completed = record["outcome"]["status"] == "completed"
    yield from json_keys({**record, "trials": [], **({"unavailable": {}} if completed else {})}, 2)
    for trial in record["trials"]:
        yield from json_keys({f"trials.{trial['kind']}": trial}, 3)


def _mlflow_runs(uri: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the runs of a store, as its own client tells of them, and the names of its views."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiments = client.search_experiments()
    runs = {}
    for run in client.search_runs([each.experiment_id for each in experiments]):
        identity = run.info.run_id
        runs[identity] = {
            "name": run.info.run_name,
            "status": run.info.status,
            "params": set(run.data.params),
            "metrics": set(run.data.metrics),
            "tags": set(run.data.tags),
            "artifacts": set(_artifacts(client, identity)),
        }
    return runs, [_without_ids(tag) for each in experiments for tag in each.tags]


def _artifacts(client: Any, run: str, below: str | None = None) -> Iterator[str]:
    for each in client.list_artifacts(run, below):
        if each.is_dir:
            yield from _artifacts(client, run, each.path)
        else:
            yield _without_ids(each.path)


def differences(found: Leavings, expected: Leavings) -> list[str]:
    """Return a line for each word that is missing or new; a part that is so as a whole, as where
    its file is not there, is a line."""
    lines = []
    for part in sorted(found.keys() | expected.keys()):
        has, should = found.get(part, frozenset()), expected.get(part, frozenset())
        for what, one, other in (("missing", should, has), ("new", has, should)):
            words = sorted(one - other)
            if len(words) > 3 and not other:
                words = [f"all {len(words)}: {', '.join(words[:3])}, ..."]
            lines += [f"{part}: {what}: {word}" for word in words]
    return lines
