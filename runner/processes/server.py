"""The parent's side: each trial in a fresh child of a zygote, and its end as an outcome.

While a trial runs, its thread sleeps in one `select` on the child's messages and output, and on the
zygote's report of its end. A child that has sent its result takes a tenth of a small trial to leave
memory: it does so while the next one starts, which waits for it before it measures.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock

from runner.cell import TRACER_MB, TrialSpec
from runner.errors import ServerError
from runner.metrics import format_mebibytes
from runner.processes import cgroup, ends, mallocs
from runner.processes.children import Child, End, ForkError, OnNews, Zygote, ZygoteLost
from runner.processes.protocol import Task
from runner.records import Phase, Status, Trial, TrialResult

_PRELOAD = "runner.trial.loader:load"
_ENTRY = "runner.trial.worker:main"
"""The functions that zygotes and children call, by import path: this package knows neither."""


class TrialServer:
    """Runs trials; several at once where it is called from several threads.

    `log`, which may be set later, takes what its zygotes print, and what their children print where
    no other place is named.
    """

    def __init__(self, log: Path | None = None) -> None:
        self.log = log
        self._lock = Lock()
        self._zygotes: dict[frozenset[tuple[str, str]], Zygote] = {}
        self._leaving: list[Child] = []
        self._notes: dict[tuple[str, str], str] = {}
        """The note of `StartAnew`, by folder and cell: a script's path may be relative."""
        self.is_terminated = False
        self._output = os.memfd_create("runner-zygotes")
        self._logged_bytes = 0
        weakref.finalize(self, os.close, self._output)

    def start(self, environment: Mapping[str, str] | None = None) -> Zygote:
        """Return at once a zygote that has these variables more, and loads TensorFlow or has it;
        raise `ServerError` once the server was terminated."""
        environment = environment or {}
        key = frozenset(environment.items())
        with self._lock:
            if self.is_terminated:
                raise ServerError("the server was ended.", "Nothing more is to be measured.")
            zygote = self._zygotes.get(key)
            if zygote is None or not zygote.is_well():
                if zygote is not None:
                    zygote.end()
                zygote = self._zygotes[key] = Zygote(_PRELOAD, environment, self._output)
        return zygote

    def stop(self) -> None:
        """End all zygotes; without this they end with this process. `start` starts new ones."""
        with self._lock:
            while self._zygotes:
                self._zygotes.popitem()[1].end()
            while self._leaving:
                self._leaving.pop().close()
        self._log_output()

    def terminate(self) -> None:
        """End everything, for good, while other threads wait for their trials: they hear of it at
        once, even where TensorFlow is still loading."""
        self.is_terminated = True
        self.stop()

    def run(
        self,
        spec: TrialSpec,
        timeout_seconds: float,
        on_news: OnNews = lambda _: None,
        log: Path | None = None,
    ) -> Trial:
        """Run a trial in a child of its own.

        It is begun again, with its note, if the scenario asks to `StartAnew`, and once if a zygote
        is lost. A kill is out of memory where the kernel counts it as that, and a crash under a
        limit on host memory where the output has that, or where the same trial goes on with a
        higher one. Raises `ServerError` if no child can be had.
        """
        log = log or self.log or Path(os.devnull)
        before = log.stat().st_size if log.exists() else 0
        kills = cgroup.count_kills()
        trial, end = self._run(spec, timeout_seconds, on_news, log)
        if ends.is_kill(end) and cgroup.count_kills() > kills:
            where = "in its cgroup or on the machine"
            return ends.call_out_of_memory(
                trial, f"as the kernel had no memory left for it, {where}"
            )
        limit_mb = spec.host_limit_mb
        if limit_mb is None or not ends.is_crash(end):
            return trial
        printed = b""
        with suppress(OSError), log.open("rb") as file:
            file.seek(before)
            printed = file.read()
        if words := ends.NO_ROOM.search(printed):
            why = f"it said {words[0].decode()}"
        elif not spec.more_host_mb:
            roomier = replace(spec, more_host_mb=TRACER_MB)
            again = self.run(roomier, timeout_seconds, on_news, log).outcome
            if again.status not in (Status.COMPLETED, Status.OUT_OF_MEMORY):
                return trial
            how = again.status.replace("_", " ")
            why = f"with {format_mebibytes(TRACER_MB)} more it ended as {how}"
        else:
            return trial
        return ends.call_out_of_memory(trial, f"under a cap of {format_mebibytes(limit_mb)}; {why}")

    def _run(
        self, spec: TrialSpec, timeout_seconds: float, on_news: OnNews, log: Path
    ) -> tuple[Trial, End]:
        """Run a trial to an end that counts: a lost zygote is replaced once."""
        folder, device = _find_folder(), spec.experiment.device
        of_cell = folder, spec.experiment.cell
        # The other meters know glibc's malloc alone.
        environment = spec.experiment.environment
        environment |= mallocs.find_variables(device) if spec.is_timed else {}
        is_second = False
        while True:
            zygote = self.start(environment)
            noted = replace(spec, note=self._notes.get(of_cell))
            try:
                phase, end, seconds = self._run_once(
                    zygote, noted, folder, timeout_seconds, on_news, log
                )
            except ForkError as error:
                if is_second or self.is_terminated or error.args:
                    raise ServerError(*self._explain(error)) from None
                phase, end, seconds = None, ZygoteLost(), 0.0
            finally:
                self._log_output()
            if isinstance(end, ZygoteLost):
                zygote.end()  # one that is only dying would be taken for alive
                if not is_second and not self.is_terminated:
                    is_second = True
                    continue
            if isinstance(end, TrialResult) and end.note is not None:
                self._notes[of_cell] = end.note
                continue
            trial = ends.make_trial(spec, phase, end)
            trial.facts.seconds = seconds
            return trial, end

    def _run_once(
        self,
        zygote: Zygote,
        spec: TrialSpec,
        folder: str,
        timeout_seconds: float,
        on_news: OnNews,
        log: Path,
    ) -> tuple[Phase | None, End, float]:
        """Return the phase that the trial came to, its end, and the seconds that it took."""
        work = pickle.dumps(spec, pickle.HIGHEST_PROTOCOL)
        end = None
        with zygote.make_scratch() as scratch:
            task = Task(
                entry=_ENTRY,
                work=work,
                scratch=str(scratch),
                former=self._list_leaving(),
                folder=folder,
                path=tuple(sys.path),
                arguments=tuple(sys.argv),
            )
            child = zygote.fork(task, log)
            started = time.monotonic()  # TensorFlow is loaded
            try:
                phase, end = child.follow(0.0 if self.is_terminated else timeout_seconds, on_news)
                seconds = time.monotonic() - started
            finally:
                if isinstance(end, TrialResult) and end.is_alone and child.start_leaving():
                    with self._lock:
                        self._leaving.append(child)
                else:
                    child.end()
        return phase, end, seconds

    def _list_leaving(self) -> tuple[int, ...]:
        """Return the children that have sent their results, and may hold memory."""
        with self._lock:
            for child in [child for child in self._leaving if child.has_left()]:
                self._leaving.remove(child)
                child.close()
            return tuple(child.pid for child in self._leaving)

    def _log_output(self) -> None:
        """Add what the zygotes have printed to the log that is there by now."""
        if self.log is None:
            return
        with self._lock, suppress(OSError):
            if printed := os.pread(self._output, 2**20, self._logged_bytes):
                self._logged_bytes += len(printed)
                with self.log.open("ab") as file:
                    file.write(printed)

    def _explain(self, error: ForkError) -> tuple[str, str]:
        """Return what is wrong and what to do about it."""
        if error.args:
            return f"no process can be started ({error}).", "End others, or raise their limit."
        if self.log is not None:
            return "the server that loads TensorFlow ended.", f"Its last words are in {self.log}."
        printed = os.pread(self._output, 2**20, 0).decode(errors="replace").strip().splitlines()
        return "the server that loads TensorFlow ended.", f"Its last words: {printed[-1:]}"


def _find_folder() -> str:
    """Return where the user stands."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # the child will report it
        return os.environ.get("PWD", "")
