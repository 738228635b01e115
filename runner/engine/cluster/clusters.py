"""A scheduler of Dask that is there, or one that is started for a sweep, behind TLS of its own."""

from __future__ import annotations

import logging
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, Scheduler, Security, SpecCluster
from distributed.deploy.ssh import Worker as SshWorker

from runner import paths
from runner.cell import ClusterSpec
from runner.errors import ServerError, Unavailable, get_first_line

_LOOK = "Look at the fields of hydra.launcher; conf/hydra/launcher/README.md has examples."
_QUIET, _LOOPBACK = logging.CRITICAL + 1, "127.0.0.1:0"
_SETTINGS = {
    "distributed.scheduler.allowed-failures": 1,  # a cell that loses two workers has failed
    "distributed.worker.profile.enabled": False,  # it samples a worker's threads all the time
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",  # at 20 ms an idle worker takes 1.4 % of a core
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.nanny.pre-spawn-environ": {},  # it would change this process's variables
    "distributed.deploy.lost-worker-timeout": "5s",
}
_WAIT_SECONDS = 60.0  # for a worker of a job that began, or of an address: Dask's death timeout


@dataclass
class Connection:
    """A scheduler that takes cells; of a cluster that was started, what keeps it going."""

    client: Any = None
    cluster: Any = None
    folder: Path | None = None  # for the jobs' logs and credentials
    _checked: float = 0.0
    _has_worker_at: float = field(default_factory=time.time)
    _known: int = 0  # logs that were there at that time

    def keep_workers(self, count: int) -> None:
        """Start workers, in place of lost ones too; raise `ServerError` where none will come."""
        now = time.time()  # as files have it
        if now < self._checked + 1.0:
            return
        self._checked = now
        files = self.folder.glob("[!.]*") if self.folder else ()  # HTCondor's are made in the queue
        logs = [file for file in files if file.suffix != ".log" and file.stat().st_size]
        with suppress(Exception):  # the scheduler may be gone
            if self.client.scheduler_info(n_workers=0)["n_workers"]:
                self._has_worker_at, self._known = now, len(logs)
        if self.cluster is None:
            if now > self._has_worker_at + _WAIT_SECONDS:
                remedy = f"Start one: dask worker {self.client.scheduler.address} --nthreads 1."
                raise ServerError(f"no worker has come for {_WAIT_SECONDS:.0f} s.", remedy)
            return
        while len(self.cluster.worker_spec) < count:
            self.cluster.worker_spec.update(self.cluster.new_worker_spec())
        try:  # `scale` and `adapt` do the same, but raise nothing, and take a lost one for coming
            self.cluster.sync(lambda: self.cluster)
        except Exception as error:  # what the queue has against a job, or ssh against a host
            words = str(error).strip().splitlines() or [type(error).__name__]
            raise ServerError(f"no worker was started: {words[-1]}", _LOOK) from error
        written_at, log = max(((log.stat().st_mtime, log) for log in logs), default=(now, None))
        if log and len(logs) > self._known and now > written_at + _WAIT_SECONDS:
            words = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
            why = f"a job that began is no worker yet; it said last: {words[-1]}"
            raise ServerError(why, f"Its log is {paths.shorten(log)}.")

    def close(self) -> None:
        """End what was started."""
        for opened in filter(None, (self.client, self.cluster)):
            with suppress(Exception):  # a job that was refused is none that can be closed
                opened.close(timeout=30)
        if self.folder:
            for credential in self.folder.glob(".tls*"):
                credential.unlink()
            with suppress(OSError):  # logs are kept
                self.folder.rmdir()


def connect(spec: ClusterSpec) -> Connection:
    """Return a scheduler, if started yet without workers; raise `Unavailable` where none is."""
    for name in ("distributed", "tornado", "asyncio"):  # what went wrong is said in our words
        logging.getLogger(name).setLevel(_QUIET)
    connection = Connection()
    try:
        if spec.address is None:
            dask.config.set(_SETTINGS)
            connection.cluster = _start(connection, spec, dict(spec.options))
        connection.client = Client(spec.address or connection.cluster, timeout=30)
    except Exception as error:
        connection.close()
        what = f"address={spec.address}" if spec.address else f"cluster={spec.cluster}"
        raise Unavailable(f"hydra.launcher.{what}: {get_first_line(error)}", _LOOK) from error
    return connection


def _start(connection: Connection, spec: ClusterSpec, options: dict[str, Any]) -> Any:
    """Return a cluster whose scheduler runs in this process, as yet without workers."""
    security = Security.temporary()
    scheduler = {"dashboard_address": _LOOPBACK, **options.pop("scheduler_options", {})}
    common = {"security": security, "silence_logs": _QUIET}
    if spec.cluster == "local":
        own = {"n_workers": 0, "threads_per_worker": 1, "host": "127.0.0.1", "memory_limit": 0}
        return LocalCluster(protocol="tls://", **own, **common, **scheduler, **options)
    if spec.cluster == "ssh":
        tls = security.get_tls_config_for_role("worker")  # workers get it by ssh
        names = {"ca-file": "ca_file", "worker.cert": "cert", "worker.key": "key"}
        dask.config.set({f"distributed.comm.tls.{name}": tls[names[name]] for name in names})
        own = {"nthreads": 1, "dashboard_address": _LOOPBACK, **options.pop("worker_options", {})}
        fields = {"connect_options": {}, "worker_class": "distributed.Nanny", "kwargs": own}
        hosts = [fields | options | {"address": host} for host in options.pop("hosts")]
        workers = {n: {"cls": SshWorker, "options": host} for n, host in enumerate(hosts)}
        scheduler |= {"protocol": "tls://", "security": security}
        return SpecCluster(workers, {"cls": Scheduler, "options": scheduler}, **common)
    before = signal.getsignal(signal.SIGINT)
    import dask_jobqueue  # which has SIGINT end this process with the exit code 0

    signal.signal(signal.SIGINT, before)
    classes = {name.lower(): getattr(dask_jobqueue, name) for name in dir(dask_jobqueue)}
    shared = Path(options.pop("shared_temp_directory", paths.find_outputs()))
    shared.mkdir(parents=True, exist_ok=True)
    connection.folder = Path(tempfile.mkdtemp(prefix=".workers-", dir=shared))  # nobody else's
    for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):  # jobs read them there
        file = connection.folder / f".{name}"
        file.write_text(getattr(security, name))
        setattr(security, name, str(file))
    names = {name: name.replace(".", "__").replace("-", "_").upper() for name in _SETTINGS}
    prologue = [f"export DASK_{names[name]}='{value}'" for name, value in _SETTINGS.items()]
    one = ["--nthreads", "1", "--dashboard-address", _LOOPBACK]
    return classes[f"{spec.cluster}cluster"](
        processes=1,
        scheduler_options=scheduler,
        job_script_prologue=prologue + options.pop("job_script_prologue", []),
        worker_extra_args=options.pop("worker_extra_args", []) + one,
        log_directory=str(connection.folder),
        **common,
        **{"cores": 1, "memory": "4GiB", **options},
    )
