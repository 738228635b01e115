"""`ui`: serves MLflow's UI on the store in use, and prints links that open it ready to read."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from runner import places, tracking
from runner.errors import BadInput, Interrupted, ServerError
from runner.running.interruption import interruptible
from runner.tracking import Place
from runner.verbs import Parser

START_SECONDS = 120.0


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "ui",
        description="Serves the MLflow UI on the store in use until Ctrl-C, and prints links to "
        "the table of runs and to the comparison. With tracking=server it prints the links only.",
        epilog="Example: python -m runner ui --port 5001",
    )
    parser.add_argument("--port", type=int, default=5000, help="5000 unless said")
    parser.add_argument(
        "--host", default="127.0.0.1", help="127.0.0.1, only this machine, unless said"
    )
    parser.add_argument("store", nargs="*", help="tracking=server, tracking.uri=..., as for a run")
    options = parser.parse_intermixed_args(arguments)

    from runner.composing.store import chosen_store  # OmegaConf takes a while

    choice = chosen_store(options.store)
    place = tracking.place_of(choice, places.outputs())
    os.environ.update(tracking.environment(os.environ))
    if choice.kind == "server":
        _print_links(place)
        return 0
    if not _check_free(options.host, options.port):
        print(
            f"runner: --host {options.host}: whoever reaches this machine can read, change and "
            "delete every run, as MLflow asks nobody for a password.",
            file=sys.stderr,
        )
    place = replace(place, pages=f"http://{_in_address(options.host)}:{options.port}")
    log = places.outputs() / "ui.log"
    try:
        with interruptible(), _served(place, options.host, options.port, log) as server:
            _print_links(place)
            print("Ctrl-C ends it.", flush=True)
            server.wait()
    except Interrupted as stop:
        return stop.exit_code
    raise ServerError(f"the UI ended by itself (see {places.relative(log)}).", "Start it again.")


def _print_links(place: Place) -> None:
    from runner.tracking.store import open_quietly

    store = open_quietly(place)
    sweep = store.newest_sweep()
    everything = store.links(None)
    print(f"MLflow      {place.pages}")
    print(f"all runs    {everything.runs}")
    if sweep:
        links = store.links(sweep)
        print(f"last sweep  {links.runs}")
        print(f"compared    {links.comparison}", flush=True)
    else:
        print(f"compared    {everything.comparison}", flush=True)


@contextmanager
def _served(place: Place, host: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The server, once it answers; every process of it is gone afterwards."""
    from runner.tracking.store import open_quietly

    assert place.artifacts is not None
    open_quietly(place)  # it is made under our lock, never by the server
    with log.open("wb") as noise:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "runner.machine.lifeline", str(os.getpid())),
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                *("--host", host, "--port", str(port)),
                *("--backend-store-uri", place.uri, "--artifacts-destination", place.artifacts),
            ],
            stdin=subprocess.DEVNULL,
            stdout=noise,
            stderr=noise,
            cwd=places.outputs(),
            env={
                **os.environ,
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                "PYTHONPATH": tracking.search_path(),
            },
            start_new_session=True,
        )
    try:
        _wait_until_it_answers(server, f"http://{_in_address(host)}:{port}/health", log)
        yield server
    finally:
        _end(server)


def _wait_until_it_answers(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise ServerError(f"the UI did not start (see {places.relative(log)}).", "Try another --port.")


def _end(server: subprocess.Popen[bytes]) -> None:
    """Its keeper ends all that is below it; its whole session, should that have gone already."""
    for number, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, None)):
        try:
            (os.kill if number == signal.SIGTERM else os.killpg)(server.pid, number)
        except ProcessLookupError:
            return
        try:
            server.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


def _check_free(host: str, port: int) -> bool:
    """Whether only this machine can reach that address, on which nothing listens yet."""
    if not host.strip():  # as in --host "$UNSET", which a server takes for every address there is
        raise BadInput("--host: names no address.", "Leave it out: 127.0.0.1 is used then.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        with socket.create_server(address[:2], family=family):
            pass
    except (OSError, OverflowError, UnicodeError, ValueError) as error:
        raise BadInput(
            f"--port {port}: can't be used on {host!r} ({error}).",
            "Say another --port, or end what uses it; --host is a name or an address of this "
            "machine.",
        ) from error
    return all(ipaddress.ip_address(each[4][0]).is_loopback for each in found)


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
