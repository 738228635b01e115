"""Sweeps whose files are exchanged, damaged or newer, and whose folders vanish under way.

A server that measures nothing gives each cell a peak of its own, so that figures which got to
another cell are seen.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest import mock

from runner import records
from runner.__main__ import main
from runner.cell import PLAN_FILE, Plan, TrialSpec
from runner.compose import composition
from runner.errors import BadInput
from runner.records import LOG_FILE, RECORD_FILE, TRIALS_FILE, Trial
from runner.render import html
from runner.render.files import table
from tests.factories import memory_trial, timing_trial
from tests.unit.engine.conftest import Recorder, run_plan

WORDS = ("-m", "scenario=tensor_per_step", "seed=1,2,3", "tracking=none", "measure.side_by_side=1")


class PeakOfCell(Recorder):
    """In place of the server: the peak of each cell is its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds: list[int] = []

    def run(self, spec: TrialSpec, *words: object, **named: object) -> Trial:
        super().run(spec, 0.0)
        self.seeds.append(spec.experiment.seed)
        peak = peak_of(spec.experiment.cell)
        return (
            memory_trial(peak, index=spec.index)
            if not spec.is_timed
            else timing_trial(index=spec.index)
        )


def peak_of(cell: str) -> int:
    """Return the peak that a cell has here."""
    return 500_000 + zlib.crc32(cell.encode()) % 1000


def _swap(chance: random.Random, one: Path, other: Path) -> None:
    kept = one.with_name("kept")
    shutil.move(one, kept)
    shutil.move(other, one)
    shutil.move(kept, other)


def _cut(chance: random.Random, file: Path, _: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: chance.randrange(len(data) + 1)])


def _put(*, text: bytes) -> Callable[[random.Random, Path, Path], None]:
    return lambda chance, file, other: bool(file.write_bytes(text)) and None


def _spoil(chance: random.Random, file: Path, _: Path) -> None:
    data = bytearray(file.read_bytes() or b"x")
    for _ in range(chance.choice((1, 3, 30))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    file.write_bytes(data)


def _make_instead(make: Callable[[Path], object]) -> Callable[[random.Random, Path, Path], None]:
    def damage(chance: random.Random, file: Path, other: Path) -> None:
        file.unlink()
        make(file)

    return damage


DAMAGES: dict[str, Callable[[random.Random, Path, Path], None]] = {
    "exchanged": _swap,
    "another's copy": lambda chance, file, other: shutil.copy(other, file) and None,
    "cut": _cut,
    "spoilt": _spoil,
    "empty": _put(text=b""),
    "no JSON": _put(text=b"{"),
    "newer": _put(text=b'{"schema": 2, "phases": {"new": 1}}\n'),
    "another shape": _put(text=b"[[[1]]]\n"),
    "zeros": _put(text=b"\0" * 4096),
    "not UTF-8": _put(text=b"\xff\xfe\xfd\n"),
    "a folder": _make_instead(Path.mkdir),
    "a pipe": _make_instead(os.mkfifo),
    "a loop": _make_instead(lambda file: file.symlink_to(file)),
    "gone": _make_instead(lambda file: None),
}
FILES = (RECORD_FILE, TRIALS_FILE, RECORD_FILE, TRIALS_FILE, "config.yaml", LOG_FILE)


def damage_files(folder: Path, count: int) -> Iterator[str | None]:
    """Damage a file or two of a finished sweep, resume it and read it, so many times."""
    plan = composition.compose_plan(WORDS)
    whole = folder / "2026-01-31" / "12-00-00-0000"
    run_plan(plan, whole, PeakOfCell())
    for number in range(count):
        chance = random.Random(f"damage {number}")
        sweep = shutil.copytree(whole, whole.with_name(f"12-00-00-{number + 1:04x}"))
        done = []
        for _ in range(chance.choice((1, 1, 2))):
            name, kind = chance.choice(FILES), chance.choice(list(DAMAGES))
            one, other = chance.sample(range(3), 2)
            file, second = sweep / f"{one}" / name, sweep / f"{other}" / name
            if chance.random() < 0.15:
                file = second = sweep / PLAN_FILE
            done.append(f"{file.relative_to(sweep)} {kind}")
            with suppress(OSError):  # damaged already
                DAMAGES[kind](chance, file, second)
        problem = _resume(plan, sweep)
        yield problem and f"{number}, {done}: {problem}"
        shutil.rmtree(sweep)


def _resume(plan: Plan, sweep: Path) -> str | None:
    try:
        run_plan(plan, sweep, PeakOfCell())
    except BadInput as problem:
        if len(str(problem).splitlines()) != 2:
            return str(problem)
    for view in (lambda: html.write_page(sweep), lambda: table.load(sweep)):
        with suppress(BadInput):
            view()
    for number, cell in enumerate(plan.cells):
        with suppress(BadInput):
            record = records.read(sweep / str(number))
            wanted = peak_of(cell.experiment.cell)
            if record.cell == cell.experiment.cell and record.metrics.get(
                "tensor_peak_bytes"
            ) not in (None, wanted):
                return f"cell {number} has the figures of another"
    return None


def _replace_by_folder(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.mkdir()


def _replace_by_file(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.write_text("no folder")


LOSSES: dict[str, Callable[[Path], object]] = {
    "the sweep's folder": shutil.rmtree,
    "all outputs": lambda sweep: shutil.rmtree(sweep.parents[2]),
    "a cell's folder": lambda sweep: shutil.rmtree(sweep / "1"),
    "a cell is a file": lambda sweep: _replace_by_file(sweep / "1"),
    "the table is a folder": lambda sweep: (sweep / "table.csv").mkdir(),
    "the report is a folder": lambda sweep: (sweep / "report.html").mkdir(),
    "trials are a folder": lambda sweep: _replace_by_folder(sweep / "1" / TRIALS_FILE),
    "a record is a folder": lambda sweep: (sweep / "1" / RECORD_FILE).mkdir(),
    "a log is a folder": lambda sweep: _replace_by_folder(sweep / "1" / LOG_FILE),
    "the working folder": lambda sweep: shutil.rmtree(Path.cwd()),
    "temporary files": lambda sweep: shutil.rmtree(tempfile.gettempdir()),
}


class _Loses(PeakOfCell):
    """Does away with something before one of the trials."""

    def __init__(self, outputs: Path, loss: str, when: int) -> None:
        super().__init__()
        self._outputs, self._loss, self._when = outputs, loss, when

    def stop(self) -> None:
        """There is nothing to end."""

    def run(self, spec: TrialSpec, *words: object, **named: object) -> Trial:
        if len(self.asked) == self._when:
            (folder,) = self._outputs.glob("*/*/*")
            with suppress(FileExistsError, FileNotFoundError):  # a run has no cells to lose
                LOSSES[self._loss](folder)
        return super().run(spec, *words, **named)


def lose_folders(folder: Path, count: int) -> Iterator[str | None]:
    """Run so many sweeps and scripts that lose something under way."""
    for number in range(count):
        chance = random.Random(f"loss {number}")
        loss = list(LOSSES)[number % len(LOSSES)]
        here, outputs = folder / f"{number}" / "here", folder / f"{number}" / "outputs"
        scratch = folder / f"{number}" / "scratch"
        for each in (here, scratch):
            each.mkdir(parents=True)
        when, words = chance.randrange(6), WORDS
        if number // len(LOSSES) % 2:
            (here / "own.py").write_text("")
            when, words = when % 2, ("script", "tracking=none", "own.py")
        problem = _lose(outputs, here, scratch, loss, when, words)
        yield problem and f"{number}, {loss}: {problem}"


def _lose(
    outputs: Path, here: Path, scratch: Path, loss: str, when: int, words: tuple[str, ...]
) -> str | None:
    said, server = io.StringIO(), _Loses(outputs, loss, when)
    with (
        mock.patch.dict(os.environ, RUNNER_OUTPUTS=str(outputs)),
        mock.patch.object(tempfile, "tempdir", str(scratch)),
        mock.patch("runner.engine.preload.TrialServer", return_value=server),
        chdir(here),
        redirect_stdout(said),
        redirect_stderr(said),
    ):
        code = main(words)
    text = said.getvalue()
    if "Traceback" in text or "not have happened" in text or code not in (0, 1, 2):
        return f"exit code {code}: {text[-500:]}"
    if words is not WORDS:
        return None
    kept = sum(len(list(records.read_trials(cell))) for cell in outputs.glob("sweeps/*/*/[02]"))
    wanted = sum(seed != 2 for seed in server.seeds)
    if kept < wanted and loss not in ("the sweep's folder", "all outputs"):
        return f"{kept} of {wanted} trials of the other cells: {text[-500:]}"
    return None
