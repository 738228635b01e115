"""Two workers of Dask, each with a network and a disk of its own, and a scheduler beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dask
from distributed import Security

from tests.system.cluster.network import Namespace, join, namespace


@contextmanager
def running(folder: Path, hidden: Path) -> Iterator[tuple[list[Namespace], dict[str, str]]]:
    """Yield the namespaces of the scheduler and of both workers, and the environment that finds the
    scheduler. Nothing of the hidden folder can be seen by a worker."""
    environment = {**os.environ, **_make_settings(), "HIDDEN": str(hidden)}
    with ExitStack() as stack:
        networks = [stack.enter_context(namespace()) for _ in range(3)]
        host, *nodes = join(networks)
        at = f"tls://{host}:8786"
        words = ("scheduler", "--host", f"tls://{host}", "--no-dashboard")
        networks[0].start(folder / "scheduler.log", environment, *_DASK, *words)
        for network, address in zip(networks[1:], nodes, strict=True):
            words = (*_HIDE, *_DASK, "worker", at, "--nthreads", "1", "--no-dashboard")
            own = ("--host", f"tls://{address}", "--local-directory", str(folder / address))
            network.start(folder / f"{address}.log", environment, *words, *own)
        yield networks, {**environment, "ADDRESS": at}


_DASK = (sys.executable, "-m", "dask")
_TIMEOUTS = {"tcp": "12s"}  # until a cut is noticed; over 11 s
_HIDE = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$HIDDEN" && cd / && exec "$@"', "sh")


def _make_settings() -> dict[str, str]:
    """Return Dask's settings of both sides, with credentials, as variables."""
    own = Security.temporary().get_tls_config_for_role("worker")
    pair = {"cert": own["cert"], "key": own["key"]}
    tls = {"ca-file": own["ca_file"], "scheduler": pair, "worker": pair, "client": pair}
    comm = {"tls": tls, "require-encryption": True, "timeouts": _TIMEOUTS}
    return {"DASK_INTERNAL_INHERIT_CONFIG": dask.config.serialize({"distributed": {"comm": comm}})}
