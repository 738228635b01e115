"""Data that cannot be: figures in records, YAML, words, and errors of the machine while one writes.

Each is answered by one message of at most two lines, with the exit code of the contract, in short
time; or it is read, and shown as what it is.
"""

from __future__ import annotations

import builtins
import copy
import errno
import io
import json
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from runner import records, schema
from runner.__main__ import main
from runner.allocations import Curve
from runner.records import RECORD_FILE, TRIALS_FILE
from tests.attacks.sweeps import WORDS, PeakOfCell
from tests.factories import ALLOCATIONS, completed, kept
from tests.unit.render.lives import KNOWN, KNOWN_PEAK, make_run

SECONDS = 20.0
"""Of processor time; whoever takes more does not end."""
_MOST_CHARACTERS = 20_000
_MESSAGE = re.compile(r"runner: .*(\n  .*)?\Z")


def judge(words: Sequence[str], codes: Sequence[int]) -> str | None:
    """Return what is wrong with the answer to a command line, if anything is."""
    said, told, began = io.StringIO(), io.StringIO(), time.process_time()
    try:
        with redirect_stderr(said), redirect_stdout(told):
            code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except Exception as error:
        return f"{words}: {type(error).__name__}: {error}"
    text = said.getvalue()
    if code not in codes or "Traceback" in text or "not have happened" in text:
        return f"{words}: exit code {code}: {text[-500:]}"
    if len(text) > _MOST_CHARACTERS or time.process_time() - began > SECONDS:
        return f"{words}: {len(text)} characters, {time.process_time() - began:.0f} s"
    refusal = text[text.rfind("runner: ") :].rstrip("\n")
    if code == 2 and not _MESSAGE.match(refusal):
        return f"{words}: no message of two lines: {text[-500:]}"
    return None


NUMBERS = (0, -1, 1, 2, 10**6, 2**31, 2**62, 2**63 - 1, -(2**63), 1e300, -1e300, 1e-300, 0.5, -0.5)
NAMES = ("", "steps", "release", "unknown", "held", "kept", "nothing", "MatMul", "\x1b[2J", "a/b")
VIEWS = (
    *(["report"], ["report", "--json"], ["report", "--peak"], ["report", "--peak", "--json"]),
    *(["report", "--peak", "--by", "layer"], ["report", "--peak", "--by", "op"]),
    *(["compare", "--json"], ["compare", "--allocations"], ["compare", "--markdown"]),
    *(["again", "tracking=none"], ["clean", "tracking=none"]),
)


def _list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place of a JSON value that holds a number, a name or several things."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from _list_places(inner[:4] if isinstance(inner, list) else inner, (*path, key))


def _damage(chance: random.Random, data: Any) -> str:
    """Change one place of a JSON value to another of its kind; return what was done."""
    *above, last = chance.choice(list(_list_places(data)))
    inner = data
    for key in above:
        inner = inner[key]
    before = inner[last]
    if isinstance(before, bool) or before is None:
        inner[last] = chance.choice((None, not before, 0, -1, "unknown"))
    elif isinstance(before, int | float):
        inner[last] = chance.choice((*NUMBERS, None, -before, before + 1))
    elif isinstance(before, str):
        inner[last] = chance.choice(NAMES)
    elif isinstance(before, list):
        inner[last] = chance.choice((before[1:], before * 2, before[::-1], []))
    else:
        inner[last] = {}
    return f"{'.'.join(map(str, (*above, last)))}: {inner[last]!r}"[:200]


def show_figures(folder: Path, count: int) -> Iterator[str | None]:
    """Show so many records whose figures, places and names cannot be, each by some verb."""
    peak = make_run(KNOWN, KNOWN_PEAK)
    parts = completed()
    whole = [
        json.loads(schema.encode(record))
        for record in (peak, parts, _with_allocations(parts), _with_allocations(peak))
    ]
    good = kept(completed("good"), folder / "outputs" / "runs" / "2026-01-30" / "1")
    bad = folder / "outputs" / "runs" / "2026-01-31" / "1"
    kept(parts, bad)
    trials = (bad / TRIALS_FILE).read_text()
    with mock.patch.dict(os.environ, RUNNER_OUTPUTS=str(folder / "outputs")), chdir(folder):
        for number in range(count):
            chance = random.Random(f"figures {number}")
            data = copy.deepcopy(chance.choice(whole))
            part = data if chance.random() < 0.4 else data["allocations"]
            done = [_damage(chance, part) for _ in range(chance.choice((1, 1, 2)))]
            (bad / RECORD_FILE).write_text(json.dumps(data))
            if chance.random() < 0.1:
                line = json.loads(chance.choice(trials.splitlines()))
                done.append(_damage(chance, line))
                (bad / TRIALS_FILE).write_text(json.dumps(line))
            words = list(chance.choice(VIEWS))
            paths = [str(bad), str(good)] if words[0] == "compare" else [str(bad)]
            with mock.patch("runner.engine.preload.TrialServer", return_value=PeakOfCell()):
                problem = judge([words[0], *paths, *words[1:]], (0, 2))
            yield problem and f"{number}, {done}: {problem}"
            (bad / TRIALS_FILE).write_text(trials)


def _with_allocations(record: records.Record) -> records.Record:
    from dataclasses import replace

    curve = Curve((0.0, 1.0, 2.0), (0, 900, 30))
    return replace(record, allocations=replace(ALLOCATIONS, curve=curve, peak_curve=curve))


SCALARS = (
    *("2001-99-99", "0x_", "9" * 5000, "!!int x", "&a [*a]", '"\\ud800"', "*b", "!!python/name:os"),
    *("[" * 3000 + "]" * 3000, "{a: " * 3000 + "}" * 3000, "!!timestamp x", "!!float x", "0b_"),
    *("!!binary x", "!!set [a]", "1:99:99", ".inf", ".nan", "0o9", "1e999", "- - -", "? [a]"),
    *("<<: 3", "!!bool maybe", "!!null x", "!x y", "%YAML 9.9", "---\n---\n...", "\t- b", '"\\x"'),
    *("|9\n a", ">-\n\n", "'", '"', "[", "{", "@a", "`a", "%a", "a: b: c", "\0", "\x1b[2J", "${x}"),
    *("${oc.env:NONE}", "${a.b}", "???", "!!omap [a]", "1_000_000", "0.0.0", "2001-01-01T99:99:99"),
    *("-" * 10_000, "a" * 200_000, "\u2028", "\ufeff", "~", "[]", "{}", "0", "-1", "x"),
)
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
_GROUPS = ("scenario", "experiment", "claim", "execution", "device", "measure", "tracking")
_ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-16", "utf-32", "latin-1", "utf-8-sig")
_TEMPLATES = (
    *("{}", "a: {}", "- {}", "_target_: {}", "defaults: {}", "name: {}", "hydra: {}", "{}: 1"),
    *(
        "# @package _global_\nhydra: {{mode: MULTIRUN, sweeper: {{params: {{seed: {}}}}}}}",
        "id: {}",
    ),
    *("claim: {}\nsource: x\nruns: {}", "advice: {}", "batch_size: {}", "- a\n- {}\nb: c"),
)
_YAML_VERBS = (
    *(["list"], ["list", "--json"], ["scenario=odd"], ["experiment=odd"], ["measure=odd"]),
    *(["claims", "odd"], ["-m", "experiment=odd"], ["scenario=tape", "device=odd"]),
    *(["scenario=tape", "tracking=odd"], ["completion", "--help"], ["scenario=odd", "seed=2"]),
    *(["scenario=tape", "execution=odd"], ["ui", "tracking=odd"], ["publish", ".", "tracking=odd"]),
)


def read_yaml(folder: Path, count: int) -> Iterator[str | None]:
    """Read so many odd files of configuration, each by some verb."""
    for number in range(count):
        chance = random.Random(f"yaml {number}")
        group, words = chance.choice(_GROUPS), list(chance.choice(_YAML_VERBS))
        conf = folder / str(number)
        file = conf / group / "odd.yaml"
        file.parent.mkdir(parents=True)
        kind = chance.random()
        text = LAUGHS
        if kind < 0.03:
            os.mkfifo(file)
        elif kind < 0.06:
            file.write_bytes(chance.randbytes(200))
        elif kind < 0.08:
            file.symlink_to(file)
        elif kind < 0.1:
            file.mkdir()
        else:
            if kind < 0.95:
                scalars = chance.choices(SCALARS, k=2)
                text = chance.choice(_TEMPLATES).format(*scalars)
            encoded = text.encode(chance.choice(_ENCODINGS), "backslashreplace")
            file.write_bytes(encoded)
        with (
            mock.patch.dict(os.environ, RUNNER_OUTPUTS=str(folder / "outputs")),
            mock.patch("runner.engine.preload.TrialServer", return_value=PeakOfCell()),
            mock.patch("runner.commands.ui._serve", side_effect=KeyboardInterrupt),
            chdir(folder),
        ):
            problem = judge(["--config-dir", str(conf), *words], (0, 1, 2, 130))
        yield problem and f"{number}, {group}, {text[:200]!r}: {problem}"
        shutil.rmtree(conf)
        shutil.rmtree(folder / "outputs", ignore_errors=True)


ERRORS = ("EIO", "EFBIG", "EMFILE", "ENFILE", "EAGAIN", "ENOSPC", "EDQUOT", "EROFS", "ESTALE")
_CALLS: dict[str, tuple[Any, str]] = {
    "open": (builtins, "open"),
    "io.open": (io, "open"),
    "os.open": (os, "open"),
    "mkdir": (os, "mkdir"),
    "fsync": (os, "fsync"),
    "replace": (os, "replace"),
    "rename": (os, "rename"),
    "unlink": (os, "unlink"),
    "write": (os, "write"),
}
_MEASURING = (
    list(WORDS),
    ["scenario=tensor_per_step", "tracking=none"],
    ["script", "tracking=none", "own.py"],
)
_READING = (
    *(["report", "GIVEN"], ["compare", "GIVEN", "GIVEN"], ["again", "GIVEN", "tracking=none"]),
    *(["clean", "GIVEN", "--yes", "tracking=none"], ["list"], ["report", "GIVEN", "--peak"]),
)


def fail_to_write(folder: Path, count: int) -> Iterator[str | None]:
    """Have the machine refuse one call on a file, in so many commands."""
    for number in range(count):
        chance = random.Random(f"writes {number}")
        here = folder / str(number)
        given = kept(completed(), here / "outputs" / "runs" / "2026-01-31" / "1")
        (here / "own.py").write_text("")
        name, error = chance.choice(list(_CALLS)), getattr(errno, chance.choice(ERRORS))
        words = list(chance.choice((*_MEASURING, *_READING)))
        words = [str(given) if word == "GIVEN" else word for word in words]
        is_named = chance.random() < 0.7
        when = chance.choice((0, 1, 2, 3, 5, 8, 13, 21))
        owner, function = _CALLS[name]
        fails = _fail_at(getattr(owner, function), when, error, is_named, here)
        with (
            mock.patch.dict(os.environ, RUNNER_OUTPUTS=str(here / "outputs")),
            mock.patch("runner.engine.preload.TrialServer", return_value=PeakOfCell()),
            mock.patch.object(owner, function, fails),
            chdir(here),
        ):
            problem = judge(words, (0, 1, 2))
        case = f"{number}, {name} {when}: {errno.errorcode[error]}"
        yield problem and f"{case}: {problem}"
        shutil.rmtree(here)


def _fail_at(
    real: Callable[..., Any], when: int, error: int, is_named: bool, below: Path
) -> Callable[..., Any]:
    """Return a function that fails at one of its calls on what lies below a folder."""
    calls = iter(range(10**9))

    def call(*words: Any, **named: Any) -> Any:
        first = words[0] if words else None
        is_file = isinstance(first, str | os.PathLike)
        if (not is_file or str(below) in str(Path.cwd() / first)) and next(calls) == when:
            where = (str(first),) if is_file and is_named else ()
            raise OSError(error, os.strerror(error), *where)
        return real(*words, **named)

    return call


_PIECES = (
    *("scenario=while_loop", "=while_loop", "=", "==", "seed=1", "batch_size=2", "", " ", "\n"),
    *("scenario=while_loop\n", "seed=1\n2", "\nseed=1", "a\nb.py", "a\0b", "\ud800", "\udcff"),
    *("\udcff.py", "~", "+", "~=", "+=1", "++seed=1", "-", "--", "---", "-m", "-mx", "nul.py"),
    *("not_utf8.py", "pipe.py", "folder.py", "broken.ipynb", "latin.py", "list", "report", "leak"),
    *("fit", "vary=seed", "max=\n", "resume=\udcff", "resume=a\nb", "scenario.path='\n'", "\u2028"),
    *("--config-dir", "--config-dir=\udcff", "--config-dir=.", "device.memory_limit_mb=64", "%"),
    *("ui", "port=99999", "--port", "9" * 5000, "clean", "--older-than", "--budget", "compare"),
    *("experiment=a\nb", "tracking.uri=http://a\nb", "tracking=server", "scenario.size=\n1"),
)


def take_words(folder: Path, count: int) -> Iterator[str | None]:
    """Type so many lines of words that no grammar foresees."""
    (folder / "nul.py").write_text("print(1)\n\0\n")
    (folder / "not_utf8.py").write_bytes(b"print('\xff')\n")
    (folder / "latin.py").write_bytes(b"# coding: latin-1\nprint('\xff')\n")
    (folder / "broken.ipynb").write_text("{")
    (folder / "folder.py").mkdir()
    os.mkfifo(folder / "pipe.py")
    for number in range(count):
        chance = random.Random(f"words {number}")
        words = chance.sample(_PIECES, chance.choice((1, 1, 2, 3)))
        outputs = str(folder / chance.choice(("outputs", "outputs", "out\udcff", "a\nb")))
        with (
            mock.patch.dict(os.environ, RUNNER_OUTPUTS=outputs),
            mock.patch("runner.engine.preload.TrialServer", return_value=PeakOfCell()),
            mock.patch("socket.create_server", side_effect=OSError(errno.EADDRINUSE, "in use")),
            chdir(folder),
        ):
            os.environ.pop("RUNNER_CONFIG_DIR", None)
            problem = judge(words, (0, 1, 2))
        yield problem and f"{number}, {outputs}: {problem}"
