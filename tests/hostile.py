"""Bad input, made by the thousand, and what a front door may answer to it.

A line is certainly bad: it must be refused with exit code 2, in one message of a problem and a
remedy, in short time, and leave nothing behind. Nothing here can start a measurement: who comes as
far as that has been let in, and falls short.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from runner.__main__ import main
from runner.processes.server import TrialServer

Words = list[str]
SECONDS = 20.0
"""After which a line hangs, on a machine that has much else to do."""

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=3, max_size=12).map("zq".__add__)
"""Of nothing: no group, field, verb or choice begins like this."""
_ODD = st.sampled_from(
    (
        *("\x1b[2J", "\x07", "\x9b31m", "\u202e", "\ud800", "\udcff", "é", "𝔘", "\u2028", "\n"),
        *("[[[", "{{", "${", "${a", "'", '"', "\\", "(", "choice(", "range(", ",", "a b", "a,,b"),
    )
)
_HUGE = st.sampled_from(("9" * 400, "-" + "9" * 400, "1e999", "9" * 5000, "1e308", str(2**63)))
_DEEP = st.integers(20, 2000).flatmap(
    lambda depth: st.sampled_from(("[" * depth + "]" * depth, "{a:" * depth + "1" + "}" * depth))
)
_NUMBERS = st.one_of(
    st.integers(-(10**9), 10**9).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
)
_WRONG_COUNT = st.one_of(
    st.integers(-(10**9), 0).map(str),
    st.floats(0.001, 0.999).map(str),
    st.sampled_from(
        ("abc", "true", "null", "[]", "{}", "[1]", "{a:1}", "nan", "inf", "-inf", "''")
    ),
    st.sampled_from(("1GB", "1..4", "0x10", "1_", "${oc.env:RUNNER_UNSET}", "${seed.a}", "???")),
    _NAMES,
)
_GROUPS = st.sampled_from(("scenario", "execution", "device", "measure", "tracking"))
_NO_CHOICE = st.one_of(
    _NUMBERS,
    _NAMES,
    _ODD,
    _HUGE,
    _DEEP,
    _NAMES.map("../measure/".__add__),
    st.sampled_from(("true", "NaN", "null", "{}", "[]", "''", "/etc/passwd", "a" * 5000)),
)
_COUNTS = st.sampled_from(
    (
        *("batch_size", "measure.steps", "measure.min_steps"),
        *("scenario.iterations", "scenario.size", "device.memory_limit_mb"),
    )
)
_HUGE_EXPERIMENT = """\
# @package _global_
hydra: {mode: MULTIRUN, sweeper: {params: {seed: "range(0,1000000)"}}}
"""
_PLAIN = ("scenario=while_loop", "tracking=none")
_SWEEP = st.sampled_from(((), ("-m",), ("--multirun",)))


def _line(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Words]:
    """Words one after the other; a part is one of them, or several."""
    return st.tuples(*parts).map(
        lambda found: [w for part in found for w in ((part,) if isinstance(part, str) else part)]
    )


def _is(*words: str) -> st.SearchStrategy[Sequence[str]]:
    return st.just(words)


def _kinds(places: Mapping[str, str]) -> dict[str, st.SearchStrategy[Words]]:
    """Each kind of bad line; `places` are paths that are not what a verb asks for."""
    paths = st.one_of(
        st.sampled_from(sorted(places.values())),
        _NAMES,
        st.integers(256, 5000).map(lambda length: "a" * length),
        _ODD.filter(lambda word: "=" not in word),
        st.just("a\0b"),
    )
    verbs = st.sampled_from(("report", "compare", "publish"))
    flag = _NAMES.map("--".__add__)
    any_verb = st.sampled_from(("list", "report", "compare", "claims", "publish", "ui", "clean"))
    key = st.one_of(_NAMES, st.tuples(_GROUPS, _NAMES).map(".".join))
    wrong = st.tuples(_COUNTS, st.one_of(_WRONG_COUNT, _DEEP)).map("=".join)
    group = st.tuples(_GROUPS, _NO_CHOICE).map("=".join)
    swept = st.tuples(_COUNTS, _WRONG_COUNT).map(lambda found: f"{found[0]}=1,{found[1]}")
    return {
        "a first word that is neither": _line(st.one_of(_NAMES, _ODD.map("zq".__add__))),
        "a word without a name": _line(_SWEEP, _is(*_PLAIN), _NAMES.map("=".__add__)),
        "a flag that is not one": _line(_is(*_PLAIN), flag),
        "a key that is not one": _line(
            _SWEEP, _is(*_PLAIN), st.tuples(key, _NUMBERS).map("=".join)
        ),
        "a group that is not one": _line(_SWEEP, _is("tracking=none"), group),
        "a wrong value": _line(_is(*_PLAIN), wrong),
        "a wrong value in a sweep": _line(_is("-m", *_PLAIN), swept),
        "what can't be read": _line(
            _is(*_PLAIN),
            _COUNTS.flatmap(lambda name: st.one_of(_ODD, _DEEP).map(lambda odd: f"{name}={odd}")),
        ),
        "a grid too large": _line(
            _is("-m", *_PLAIN),
            st.integers(10**6, 10**12).map(lambda stop: f"seed=range(0,{stop})"),
        ),
        "said twice": _line(
            _SWEEP, _is(*_PLAIN, "seed=1"), st.integers().map(lambda n: f"seed={n}")
        ),
        "a path that is not one": _line(verbs, paths),
        "to clean what is not ours": _line(_is("clean", "--yes", "tracking=none"), paths),
        "a flag of a verb's that is not one": _line(any_verb, flag),
        "a claim that is not one": _line(_is("claims"), st.one_of(_NAMES, paths)),
        "a claim's settings": _line(
            _is("claims", "000-01"), st.one_of(group, wrong.filter(lambda w: "scenario" not in w))
        ),
        "an empty word": _line(_SWEEP, _is(*_PLAIN), st.sampled_from(("", " ", "\t"))),
        "a group that is taken away": _line(_SWEEP, _is(*_PLAIN), _GROUPS.map("~".__add__)),
        "nothing beside a comma": _line(
            _SWEEP,
            _is("tracking=none"),
            st.sampled_from((",{}", "{},", "{},,{}", "choice({},)", "choice(,{})")).map(
                lambda form: "scenario=" + form.format("while_loop", "tape")
            ),
        ),
        "a grid of an experiment's": _line(
            _is("--config-dir", places["experiments"], *_PLAIN, "experiment=huge"),
            st.integers(1, 1000).map("batch_size={}".format),
        ),
        "a number to fit to": _line(
            _is("fit", "vary=batch_size", *_PLAIN, "device.memory_limit_mb=64"),
            st.one_of(_WRONG_COUNT, _NAMES).map("max=".__add__),
        ),
        "a field to fit": _line(
            _is("fit", *_PLAIN, "device.memory_limit_mb=64"),
            st.one_of(_NAMES, _ODD).map("vary=".__add__),
        ),
        "a leak that can't be sought": _line(_is("leak", "tracking=none"), group),
        "an earlier sweep that is not one": _line(
            _is("-m", *_PLAIN), paths.map(lambda path: f"resume='{path}'")
        ),
    }


@dataclass
class Answer:
    """What came of a line."""

    code: int | None
    said: str
    seconds: float
    left: list[str]

    @property
    def shortfall(self) -> str | None:
        """What is wrong with it, if anything is."""
        lines = self.said.rstrip("\n").split("\n")
        if self.code is None:
            return f"took more than {SECONDS:.0f} s"
        if self.code != 2:
            return f"exit code {self.code}: {self.said[-300:]}"
        if "Traceback" in self.said or not self.said.startswith("runner: "):
            return f"no message: {self.said[-300:]}"
        if len(lines) > 2 or len(self.said) > 12_000:
            return f"{len(lines)} lines, {len(self.said)} characters: {self.said[:300]}"
        if any(not (letter.isprintable() or letter == "\n") for letter in self.said):
            return f"not printable: {self.said[:300]!r}"
        return f"left {self.left}" if self.left else None


class _TooLong(BaseException):
    pass


class _LetIn(BaseException):
    pass


def _let_in(*_: Any, **__: Any) -> Any:
    raise _LetIn


def answer(words: Sequence[str], outputs: Path) -> Answer:
    """What the front door does with a line, in this process."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = set(_below(outputs))
    said, code, started = StringIO(), None, time.monotonic()
    earlier = signal.signal(signal.SIGALRM, too_long)
    bound, _ = signal.setitimer(signal.ITIMER_REAL, SECONDS)  # pytest-timeout's
    try:
        with (
            mock.patch.object(sys, "stdout", StringIO()),
            mock.patch.object(sys, "stderr", said),
            mock.patch("runner.engine.folders.lock_for_measuring", _let_in),
            mock.patch.object(TrialServer, "start", _let_in),
            mock.patch("runner.engine.preload.TrialServer"),  # whatever was typed
        ):
            code = main(words)
    except _TooLong:
        pass
    except _LetIn:
        code = 0
        said.write("let in")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        signal.signal(signal.SIGALRM, earlier)
        left_seconds = max(1.0, bound - (time.monotonic() - started)) if bound else 0.0
        signal.setitimer(signal.ITIMER_REAL, left_seconds)
    left = sorted(set(_below(outputs)) - before)
    return Answer(code, said.getvalue(), time.monotonic() - started, left)


def _below(folder: Path) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        yield from (f"{above}/{name}" for name in (*folders, *files))


@contextmanager
def _prepared(scratch: Path) -> Iterator[dict[str, str]]:
    """A place of our own to write to, and paths that are not what anybody wants."""
    folder, pipe, file = scratch / "empty", scratch / "pipe", scratch / "file.txt"
    folder.mkdir()
    os.mkfifo(pipe)
    file.write_text("nothing")
    (scratch / "loop").symlink_to(scratch / "loop")
    found = {"pipe": str(pipe), "file": str(file), "empty": str(folder), "null": os.devnull}
    found["loop"] = str(scratch / "loop")
    found["experiments"] = str(scratch / "experiments")
    (scratch / "experiments" / "experiment").mkdir(parents=True)
    (scratch / "experiments" / "experiment" / "huge.yaml").write_text(_HUGE_EXPERIMENT)
    here = Path.cwd()
    os.chdir(scratch)
    try:
        with mock.patch.dict(os.environ, RUNNER_OUTPUTS=str(scratch / "outputs")):
            yield found
    finally:
        os.chdir(here)


def drawn(kind: st.SearchStrategy[Any], count: int) -> list[Any]:
    """So many of a kind, the same ones each time."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=tuple(HealthCheck),
    )
    @given(kind)
    def collect(one: Any) -> None:
        found.append(one)

    collect()
    return found


COMPOSED = {
    *("a wrong value", "a wrong value in a sweep", "a field to fit", "a claim's settings"),
    *("an earlier sweep that is not one", "a key that is not one", "a grid of an experiment's"),
}
"""What is seen to be bad when Hydra has composed it, which takes a fifth of a second."""


def tried(scratch: Path, of_each: int) -> tuple[Counter[str], list[str]]:
    """How many lines of each kind were tried (a fifth of `of_each` for slow ones), and what each
    one that fell short did."""
    counts: Counter[str] = Counter()
    short: list[str] = []
    with _prepared(scratch) as places:
        for name, kind in _kinds(places).items():
            for words in drawn(kind, of_each // 5 if name in COMPOSED else of_each):
                counts[name] += 1
                if problem := answer(words, scratch).shortfall:
                    short.append(f"{name}: {[word[:120] for word in words]}: {problem}")
    return counts, short
