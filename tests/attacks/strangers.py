"""Records that somebody else wrote, and what a user does with them; and secrets of the user's own.

Whatever stands in a record is text: nothing in it runs, is looked up, or becomes a formula. What
looks like a secret stands in no file.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import random
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import quote

import msgspec

from runner import records
from runner.__main__ import main
from runner.cell import TrialSpec
from runner.compose import composition
from runner.config import Tracking
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.errors import BadInput, StoreError
from runner.masking import MASK
from runner.overrides import quote_value
from runner.records import Outcome, Record, Status, Trial
from runner.render import html
from runner.render.files import allocations, table
from runner.store.content import describe_record
from runner.store.location import StoreLocation, locate_store
from tests.factories import ALLOCATIONS, completed, kept, memory_trial
from tests.unit.engine.conftest import Recorder, executor_on

LOOKED_UP = "hunter2-of-the-environment"
"""The value of a variable of the user's that records refer to."""

REFERENCE = "${oc.env:RUNNER_ATTACK}"
TEXTS = (
    *(REFERENCE, f"\\{REFERENCE}", f"\\\\{REFERENCE}", f"'{REFERENCE}'", f'"{REFERENCE}', "${x}"),
    *(f"a,b={REFERENCE}", f"]{REFERENCE}", f"}},c:{REFERENCE}", "; touch MARK;", "$(touch MARK)"),
    *("`touch MARK`", "| touch MARK", "a b", "choice(1,2)", "range(0,9)", "", "null", "x\\", "'"),
    *("\x1b[2J", "\u202e", "\ud800", "a\nrunner: all is well", "a" * 3000, "hydra.run.dir=/tmp/x"),
    *("../../../etc/passwd", "/etc/passwd", "@package", "?", "???", "~scenario", "+x=1", "--yes"),
)
FORMULAS = (
    *("=cmd|'/c calc'!A0", "+1+cmd", "-2+3", "@SUM(1)", "\t=1", "\r=1", "=", "-x", "+x"),
    *("=HYPERLINK(1)", "<script>alert(1)</script>", "![x](http://x)", "a|b", "\x1b]0;x\x07"),
    *("\u202egnp.exe", "a\u2028b", "\x00", '"=1', "'=1", " =1", "\n=1"),
)
PLACES = ("target", "arguments", "key", "scenario", "execution", "measure", "config_dirs", "class")


def _draw(chance: random.Random, texts: tuple[str, ...], depth: int = 0) -> Any:
    kind = chance.random()
    if kind < 0.2 and depth < 3:
        return {chance.choice(("a", "b c", "d")): _draw(chance, texts, depth + 1)}
    if kind < 0.4 and depth < 3:
        return [_draw(chance, texts, depth + 1), _draw(chance, texts, depth + 1)]
    return chance.choice((*texts, 5, True, None, 1.5)) if kind < 0.9 else chance.choice(texts)


def _make_stranger(chance: random.Random) -> Record:
    """Return a record that names something odd in one or several places."""
    parameters: dict[str, Any] = {"target": "os:getcwd", "arguments": {}}
    spec: dict[str, Any] = {"scenario": "callable", "target": "scenarios.own.OwnCode"}
    record = completed()
    surroundings, text = record.environment, chance.choice(TEXTS)
    for place in chance.sample(PLACES, chance.choice((1, 1, 2))):
        match place:
            case "target":
                parameters["target"] = chance.choice(("os:system", "subprocess:getoutput", text))
            case "arguments":
                parameters["arguments"] = {"cmd": _draw(chance, TEXTS), "n": 1}
            case "key":
                parameters[f"{chance.choice(('arguments', 'target', 'size'))}={text}"] = 1
            case "config_dirs":
                surroundings = msgspec.structs.replace(surroundings, config_dirs=("/nowhere", text))
            case "class":
                spec["target"] = chance.choice(("os.system", text))
            case "measure":
                named = replace(record.spec.measure, name=text)
                spec["measure"] = named
            case _:
                spec[place] = text
    return replace(
        record,
        spec=replace(record.spec, parameters=parameters, **spec),
        environment=surroundings,
    )


def repeat_records(folder: Path, count: int) -> Iterator[str | None]:
    """Repeat so many records from elsewhere: each is shown and refused, or runs as it stands."""
    here, outputs = folder / "here", folder / "outputs"
    here.mkdir()
    named = {"RUNNER_OUTPUTS": str(outputs), "RUNNER_ATTACK": LOOKED_UP}
    with mock.patch.dict(os.environ, named), chdir(here):
        for number in range(count):
            chance = random.Random(f"stranger {number}")
            record = _make_stranger(chance)
            given = kept(record, folder / "given" / str(number))
            is_trusted = number % 8 == 0  # composing takes a fifth of a second
            problem = _repeat(given, record, ["--yes"] if is_trusted else [])
            left = [each.name for each in (*here.iterdir(), *folder.glob("outputs/*"))]
            if left or problem:
                yield f"{number}, {record.spec.fields}: {problem or left}"
            else:
                yield None


def _repeat(given: Path, record: Record, words: list[str]) -> str | None:
    let_in: list[Any] = []

    def note(answer: Any, *_: object) -> int:
        let_in.append(answer.source)
        return 0

    said = io.StringIO()
    with (
        redirect_stdout(said),
        redirect_stderr(said),
        mock.patch("runner.engine.preload.TrialServer"),
        mock.patch("runner.commands._measurement.measure_and_print", note),
    ):
        code = main(["again", str(given), "tracking=none", *words])
    text = said.getvalue()
    if LOOKED_UP in text:
        return "a reference was looked up"
    if "Traceback" in text or "not have happened" in text:
        return text[-300:]
    if code != (0 if let_in else 2) or (let_in and not words):
        return f"exit code {code}: {text[-300:]}"
    if "comes from elsewhere" not in text and "is not a valid record" not in text:
        return f"nothing was shown: {text[-300:]}"
    if let_in:
        (cell,) = let_in[0]._plan.cells
        wanted, found = record.spec.parameters, cell.experiment.parameters
        return None if dict(found) == wanted else f"{found} for {wanted}"
    return None


def write_tables(folder: Path, count: int) -> Iterator[str | None]:
    """Write the tables, the page and the note of so many records whose texts are formulas."""
    for number in range(count):
        chance = random.Random(f"table {number}")
        texts = [chance.choice(FORMULAS) for _ in range(6)]
        record = completed(f"id-{number}", gradient=texts[0], deep={"key": texts[1]})
        lines = (replace(ALLOCATIONS.lines[0], file=texts[2], code=texts[3]),)
        groups = (replace(ALLOCATIONS.groups[0], op=texts[4]), *ALLOCATIONS.groups[1:])
        record = replace(
            record,
            outcome=replace(record.outcome, status=Status.FAILED, phase="steps", reason=texts[5]),
            allocations=replace(ALLOCATIONS, lines=lines, groups=groups),
        )
        sweep = folder / str(number)
        given = kept(record, sweep / "0")
        problem = next(_find_formulas(sweep, given, record), None)
        yield problem and f"{number}, {texts}: {problem}"


def _find_formulas(sweep: Path, given: Path, record: Record) -> Iterator[str]:
    allocations.write_files(records.read(given), given)
    table.write_csv(table.load(sweep), sweep)
    page = html.write_page(given).read_text()
    if "<script>alert" in page:
        yield "the page would run it"
    note = "\n".join(describe_record(record, given).tags.values())
    for file in (sweep / "table.csv", *given.glob("*.csv")):
        text = file.read_text()
        for row in csv.reader(io.StringIO(text)):
            for field in row:
                if re.match(r"\s*[=+\-@]", field) and not re.fullmatch(r"[-+]?[\d.e+-]+", field):
                    yield f"{file.name}: {field!r}"
        if _has_odd_characters(text):
            yield f"{file.name}: odd characters"
    if _has_odd_characters(note) or _has_odd_characters(page):
        yield "odd characters"


def _has_odd_characters(text: str) -> bool:
    return any(not (each.isprintable() or each in "\n\r\t\xa0\xad\u2009\u202f") for each in text)


class _Careless(Recorder):
    """In place of the server: user's code that says its arguments wherever it can."""

    def __init__(self, folder: Path, said: list[str]) -> None:
        super().__init__()
        self._folder, self._said = folder, said

    def run(self, spec: TrialSpec, *words: Any, **named: Any) -> Trial:
        with (self._folder / "0" / "run.log").open("a", errors="surrogateescape") as log:
            log.write("\n".join(["connecting with", *self._said, ""]))
        trial = memory_trial(index=spec.index, unavailable={"host": f"no {self._said[-1]}"})
        failed = replace(
            trial.outcome, status=Status.FAILED, phase="steps", reason="\n".join(self._said)
        )
        return replace(trial, outcome=failed) if spec.index else trial


_SECRET_NAMES = ("token", "api_key", "dbPassword", "client_secret", "PWD", "credentials", "pw")
_SECRET_NAMES += ("auth", "bearer", "tokens", "jwt", "session_cookie")
_LETTERS = "abcXYZ019 _-.:,;=!'\"\\{}[]$#*()?&%/é"


def keep_secrets(folder: Path, count: int) -> Iterator[str | None]:
    """Measure so many cells that are given secrets, by a program that says them; look for them."""
    (folder / "careless_attack.py").write_text("def step(**arguments): ...\n")
    with chdir(folder), mock.patch("sys.path", [str(folder), *sys.path]):
        for number in range(count):
            chance = random.Random(f"secret {number}")
            yield _keep_secret(chance, folder / "2026-01-31" / f"{number}", number)


def _keep_secret(chance: random.Random, folder: Path, number: int) -> str | None:
    core = f"ZQ{number}Q" + "".join(chance.choices("abcdef0123456789", k=8))
    rest = "".join(chance.choices(_LETTERS, k=chance.choice((0, 3, 12))))
    secret, name = f"{core}{rest}", chance.choice(_SECRET_NAMES)
    value: Any = {name: secret}
    match chance.randrange(11):
        case 5:
            value = {"argv": ["--cfg", json.dumps({"deep": [{name: secret}], "n": 1})]}
        case 6:
            value = {"argv": ["--cfg", repr({"deep": [{name: secret}], "n": 1})]}
        case 7:
            value, secret = {"argv": ["-p", core, f"--{name}:{core}"]}, core
        case 8:
            value, secret = {"argv": ["-H", f"Authorization: Bearer {core}"]}, core
        case 9:
            value, secret = {"link": f"Server=x;{name}={core};Port=3"}, core
        case 0:
            value = {"deep": [{"er": value}], "n": 1}
        case 1:
            value = {"argv": [f"--{name}", secret, "--depth", "3"]}
        case 2:
            value = {"argv": [f"--{name}={secret}"]}
        case 3:
            value, secret = {"url": f"https://me:{core}@data.example/x?n=1"}, core
        case _:
            pass
    words = ["scenario=callable", "scenario.target=careless_attack:step", "tracking=none"]
    words += ["measure.timing_processes=0", "measure.memory_processes=2", "seed=1"]
    try:
        plan = composition.compose_plan(["-m", *words, f"scenario.arguments={quote_value(value)}"])
    except BadInput as problem:
        return f"{value}: {problem}" if core in str(problem) or "key" not in str(problem) else None
    said = [secret, repr(secret), str(value), json.dumps(value)]
    measure(Grid(plan), folder, executor_on(_Careless(folder, said)), [])
    html.write_page(folder / "0")
    html.write_page(folder)
    table.write_csv(table.load(folder), folder)
    record = records.read(folder / "0")
    texts = {each.name: each.read_text() for each in folder.rglob("*") if each.is_file()}
    texts["MLflow"] = str(describe_record(record, folder / "0"))
    found = [name for name, text in texts.items() if core in text]
    if MASK not in texts["record.json"]:
        return f"{value}: not masked"
    return f"{value}: stands in {found}" if found else None


def publish_over(folder: Path, count: int) -> Iterator[str | None]:
    """Publish records with the id of one that is in the store, and other content: each is refused,
    and the run that is there stays, with its files."""
    store_class = _import_store()
    outputs = folder / "outputs"
    good = kept(completed(), outputs / "runs" / "1")
    store = store_class(locate_store(Tracking("local", None, "runner"), outputs), 20.0)
    store.prepare()
    stored = store.publish(good)
    before = _describe_runs(store)
    for number, name in zip(range(count), itertools.cycle(completed().metrics)):
        chance = random.Random(f"store {number}")
        record = _change(chance, completed(), name)
        other = kept(record, folder / "other" / str(number))
        (other / chance.choice(("run.log", "config.yaml", "report.html", "new.csv"))).write_text(
            "x"
        )
        try:
            answer = str(store.publish(other)) if record != completed() else ""
            if not answer and store.publish(other) != stored:
                answer = "a copy is another run"
        except BadInput as refused:
            answer = refused.problem
            is_named = all(each in answer for each in (str(other), stored.run_id, str(good)))
            answer = "" if is_named else answer
        if _describe_runs(store) != before:
            answer += " the store has changed"
        yield answer and f"{number}, {name}: {answer}"
    shutil.rmtree(outputs / "artifacts")


def _describe_runs(store: Any) -> list[str]:
    """Return all that the embedded store holds of its runs."""
    found = [f"{run.info.run_id} {run.to_dictionary()}" for run in store._find_runs("")]
    files = sorted(Path(store._location.artifacts).rglob("*"))
    return found + [f"{file} {file.read_text()}" for file in files if file.is_file()]


def _import_store() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from runner.store.location import make_mlflow_environment

        os.environ.update(make_mlflow_environment(os.environ))
        from runner.store.mlflow_store import MlflowStore
    return MlflowStore


SCHEMES = (
    "",
    "file:",
    "FILE:",
    "file://",
    "File://localhost",
    "c:",
    "C:",
    "runs:",
    "Runs:",
    "dbfs:",
)
SCHEMES += (
    "models:",
    "uc:",
    " file:",
    "file",
    "x-y:",
    "dbfs+file:",
    "\tfile:",
    "fi\nle:",
    "//x",
    "./",
)


def answer_for_servers(folder: Path, count: int) -> Iterator[str | None]:
    """Have a server on another machine name so many places for a run's files, each time it is asked
    another one: none of them gets a file that lies on this machine."""
    store_class = _import_store()
    from mlflow import MlflowClient
    from mlflow.tracking._tracking_service.client import TrackingServiceClient

    record = kept(completed(), folder / "run")
    here = folder / "here"
    here.mkdir()
    with chdir(here):
        for number in range(count):
            chance = random.Random(f"server {number}")
            victim = folder / "victims" / str(number)
            answers = [_name_place(chance, victim) for _ in range(3)]
            asked = itertools.cycle(answers)

            def answer(*_: object, asked: Iterator[str] = asked) -> Any:
                return SimpleNamespace(info=SimpleNamespace(artifact_uri=next(asked)))

            uri = chance.choice(
                ("https://mlflow.example", "http://10.0.0.1:5000", "http://[::2]:1")
            )
            store = store_class(StoreLocation(uri, None, "runner", uri, str(folder)), 20.0)
            store._client = MlflowClient(tracking_uri=uri)
            problem = "it was taken"
            try:
                with mock.patch.object(TrackingServiceClient, "get_run", answer):
                    store._attach_files(answer(), record)
            except StoreError:
                problem = ""
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            left = [str(file) for place in (victim, here) for file in place.rglob("*")]
            yield f"{number}, {answers}: {problem} {left}" if problem or left else None


def _name_place(chance: random.Random, victim: Path) -> str:
    scheme = chance.choice(SCHEMES)
    place = chance.choice(
        (str(victim), f"/{victim}", quote(str(victim)), f"/{'1' * 32}/x", "", "/")
    )
    return scheme + place + chance.choice(("", "", "/", "?a=b", "#c", "/../x", "\0"))


def _change(chance: random.Random, record: Record, name: str) -> Record:
    """Return the record with anything else in it, or a copy of it."""
    match chance.randrange(8):
        case 4:
            failed = Outcome(Status.FAILED, "steps", chance.choice(TEXTS))
            return replace(record, outcome=failed)
        case 5:
            return replace(record, trials=record.trials[: chance.randrange(len(record.trials))])
        case 6:
            other = msgspec.structs.replace(record.environment, kernel=name)
            return replace(record, environment=other)
        case 7:
            return record
        case 0:
            metrics = {k: None if k == name else v for k, v in record.metrics.items()}
            metrics["step_seconds"] = None
            return replace(record, metrics=metrics)
        case 1:
            return replace(record, metrics={}, intervals={}, unavailable={})
        case 2:
            sized = {**record.spec.parameters, "size": chance.randrange(1000, 2000)}
            return replace(record, spec=replace(record.spec, parameters=sized))
        case _:
            return replace(record, started_at="2030-01-01T00:00:00+00:00")
