"""`ui`: serves MLflow's UI on the store in use, and prints links that open it ready to read."""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

from runner import paths
from runner.commands import Parser
from runner.commands._store import choose_store, open_store
from runner.errors import BadInput, Interrupted, ServerError
from runner.sanitize import make_printable
from runner.signals import stop_on_signals
from runner.store.location import StoreLocation, locate_store, make_python_path
from runner.versions import describe_untried

START_SECONDS = 120.0
LARGEST_PORT = 65535


def make_parser() -> Parser:
    parser = Parser(
        "ui",
        "Serves the MLflow UI on the store in use until Ctrl-C, and prints links to "
        "the table of runs and to the comparison. With tracking=server it prints the links only.",
        "Example: python -m runner ui --port 5001\n\n"
        "Also: port=5001, and tracking=server, tracking.uri=..., as for a run.",
        settings=["tracking"],
        own=["port", "host"],
    )
    parser.add_argument("--port", dest="port_flag", metavar="PORT", help="5000 by default")
    parser.add_argument(
        "--host",
        dest="host_flag",
        metavar="HOST",
        help="127.0.0.1, only this machine, by default",
    )
    parser.add_json()
    return parser


def run(options: argparse.Namespace) -> int:
    """Serve the UI until it is interrupted."""
    choice = choose_store(options.settings)
    location = locate_store(choice, paths.find_outputs())
    if choice.kind == "server":
        _print_links(location, as_json=options.json)
        return 0
    host = _choose("host", options.host, options.host_flag, "127.0.0.1")
    listening, is_private = _listen(host, _choose("port", options.port, options.port_flag, "5000"))
    if not is_private:
        print(
            f"runner: --host {host}: everybody who can reach this machine can read, change "
            "and delete every run: MLflow asks for no password.",
            file=sys.stderr,
        )
    # By its address: of a name's several addresses another one may be somebody else's.
    address, port = listening.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    location = replace(location, pages=f"http://{host}:{port}")
    log = paths.find_outputs() / "ui.log"
    try:
        with stop_on_signals(), _serve(location, listening, log) as server:
            _print_links(location, as_json=options.json)
            print("Ctrl-C ends it.", file=sys.stderr if options.json else None, flush=True)
            server.wait()
    except Interrupted as stop:
        return stop.exit_code
    raise ServerError(f"the UI ended by itself (see {paths.shorten(log)}).", "Start it again.")


def _choose(name: str, word: str | None, flag: str | None, usual: str) -> str:
    """Return what `port=5001` or `--port 5001` says; raise `BadInput` for both."""
    if word is not None and flag is not None:
        raise BadInput(f"{name} is given twice.", "Keep one.")
    return next((said for said in (word, flag) if said is not None), usual)


@dataclass(frozen=True)
class ExperimentLinks:
    """The pages of one MLflow experiment: the fields are those of `--json`."""

    name: str
    all_runs: str
    last_sweep: str | None
    compared: str


def _print_links(location: StoreLocation, *, as_json: bool) -> None:
    if untried := describe_untried("mlflow", metadata.version("mlflow")):
        print(
            f"runner: {untried}: its pages may open without their columns and charts.",
            file=sys.stderr,
        )
    names = open_store(location).list_experiments()
    experiments = [_find_links(replace(location, experiment=name)) for name in names]
    if as_json:
        links = {"mlflow": location.pages, "experiments": [*map(asdict, experiments)]}
        print(json.dumps(links, indent=1), flush=True)
        return
    print(f"MLflow      {location.pages}")
    for experiment in experiments:
        if len(experiments) > 1:
            print(f"experiment  {make_printable(experiment.name)}")
        print(f"all runs    {experiment.all_runs}")
        if experiment.last_sweep:
            print(f"last sweep  {experiment.last_sweep}")
        print(f"compared    {experiment.compared}", flush=True)


def _find_links(location: StoreLocation) -> ExperimentLinks:
    store = open_store(location)
    everything, sweep = store.save_view(None), store.find_newest_sweep()
    newest = store.save_view(sweep) if sweep else None
    return ExperimentLinks(
        location.experiment,
        everything.runs,
        newest.runs if newest else None,
        (newest or everything).comparison,
    )


@contextmanager
def _serve(
    location: StoreLocation, listening: socket.socket, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the server when it answers; every process of it is gone afterwards.

    It takes over our socket: nobody else can listen at that address meanwhile, so whoever answers
    there is the server that was started here, on the store that was named here.
    """
    assert location.artifacts is not None
    with listening:
        open_store(location)  # it is made under our lock, never by the server
        host, port = listening.getsockname()[:2]
        # Without --app-dir, uvicorn imports from where it stands first.
        options = shlex.join(["--fd", "0", "--app-dir", str(paths.find_package().parent)])
        with open(log, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as noise:
            server = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "runner.processes.process_tree"),
                    str(os.getpid()),
                    *(sys.executable, "-P", "-m", "mlflow", "server", "--workers", "1"),
                    *("--host", host, "--port", str(port), "--uvicorn-opts", options),
                    *("--backend-store-uri", location.uri),
                    *("--artifacts-destination", str(location.artifact_address)),
                ],
                stdin=listening.fileno(),
                stdout=noise,
                stderr=noise,
                cwd=paths.find_outputs(),
                env={
                    **os.environ,
                    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                    "PYTHONPATH": make_python_path(),
                    "PYTHONSAFEPATH": "1",  # nothing is imported from outputs/
                },
                umask=0o077,
                start_new_session=True,
            )
    try:
        _wait_until_it_answers(server, f"{location.pages}/health", log)
        yield server
    finally:
        _end(server)


def _wait_until_it_answers(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # by no proxy
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with ask(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise ServerError(f"the UI did not start (see {paths.shorten(log)}).", "Try another --port.")


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server: its keeper ends all that is below it, or else we end its whole session."""
    for number, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, None)):
        try:
            (os.kill if number == signal.SIGTERM else os.killpg)(server.pid, number)
        except ProcessLookupError:
            return
        try:
            server.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


def _listen(host: str, port: str) -> tuple[socket.socket, bool]:
    """Return a socket that listens there, and whether only this machine can reach it."""
    if not host.strip():  # as in --host "$UNSET", which a server takes for every address there is
        raise BadInput("--host: names no address.", "Leave it out: 127.0.0.1 is used then.")
    is_number = port.isascii() and port.isdecimal() and len(port) <= len(str(LARGEST_PORT))
    if not (is_number and int(port) <= LARGEST_PORT):
        raise BadInput(
            f"--port {port[:100]}: is not a port.", f"Say a whole number, {LARGEST_PORT} at most."
        )
    try:
        entries = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        family, _, _, _, address = entries[0]
        listening = socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError, ValueError) as error:
        raise BadInput(
            f"--port {port}: can't be used on {host!r} ({error}).",
            "Say another --port, or end what uses it; --host is a name or an address of this "
            "machine.",
        ) from error
    return listening, all(ipaddress.ip_address(entry[4][0]).is_loopback for entry in entries)
