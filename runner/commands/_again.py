"""The answer of `again`: a recorded run and the same measured now, side by side."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from runner import paths, records
from runner.analysis import comparison
from runner.analysis.selection import Pair
from runner.cell import Plan
from runner.commands._planning import compose_plan
from runner.compose.tracking import read_kept_tracking
from runner.config import format_word
from runner.engine import folders
from runner.engine.answers import Answer
from runner.engine.events import Result
from runner.engine.folders import is_own
from runner.engine.grid import Grid
from runner.engine.run import CONFIG_FILE
from runner.errors import BadInput
from runner.machine import Environment
from runner.masking import MASK
from runner.overrides import quote_value
from runner.records import Record
from runner.render.comparison import list_comparison
from runner.render.conclusion import conclude
from runner.render.files.command import write_command
from runner.render.text.table import align_columns


class RepeatedRun(Answer):
    """A run of a record's own words."""

    def __init__(self, then: Path, record: Record, tracking: Sequence[str], as_json: bool) -> None:
        plan = _compose_again(record, then, tracking)
        store = plan.cells[0].experiment.tracking
        super().__init__(Grid(plan), folders.name_new_folder("runs"), store)
        self._then, self._record, self._as_json = then, record, as_json

    def render(self, result: Result, seconds: float) -> str:
        if result.stopped:
            return ""
        now = records.read(self.folder)
        return _render(self._then, self._record, self.folder, now, self._as_json)


def find_run(word: str) -> tuple[Path, Record]:
    """Return the folder that is meant, and its record; raise `BadInput` unless it is one run."""
    path = folders.find_folder(word)
    if not path.exists():
        raise BadInput(f"{word}: there is no such folder.", "Name a run's folder, or say latest.")
    runs = records.find(path)
    if len(runs) > 1:
        raise BadInput(
            f"{paths.shorten(path)}: holds {len(runs)} runs, and one is repeated at a time.",
            f"Name one of them, as in {paths.shorten(runs[0])}.",
        )
    return runs[0], records.read(runs[0])


def check_origin(folder: Path, record: Record, is_trusted: bool) -> None:
    """Show what a record from elsewhere would run; raise `BadInput` unless it is trusted."""
    if is_own(folder):
        return
    where = paths.shorten(folder)
    print(f"runner: {where} comes from elsewhere. To repeat it runs:", file=sys.stderr)
    command = write_command(record).replace("\n", "\\n")  # no line is pushed off the screen
    print(f"  {command}", file=sys.stderr)
    print(f"  with the class {record.spec.target} in that scenario's file", file=sys.stderr)
    if not is_trusted:
        raise BadInput(
            f"{where}: is not in {paths.shorten(paths.find_outputs())}, so nothing was run.",
            "Look at what the command names. If you trust it, add --yes.",
        )


def _compose_again(record: Record, folder: Path, tracking: Sequence[str]) -> Plan:
    """Return the plan of the words that tell all that the record was asked for."""
    where = paths.shorten(folder)
    if record.outcome.status == "unsupported":
        raise BadInput(
            f"{where}: was never measured ({record.outcome.reason}).", "Name one that was."
        )
    if any(MASK in format_word(value) for value in record.spec.fields.values()):
        raise BadInput(
            f"{where}: can't be repeated, as it holds no secrets ({MASK} stands for each).",
            f"Give them again: {write_command(record)}",
        )
    words = shlex.split(write_command(record))[3:]
    # A record from elsewhere may name a store that is not the user's.
    stored = _read_tracking(folder) if is_own(folder) else []
    try:
        plan = compose_plan([*words, *(tracking or stored)])
        target = plan.cells[0].experiment.spec.target
        if target != record.spec.target and not is_own(folder):
            raise BadInput(f"The class is {target}, and not {record.spec.target}.", "")
        return plan
    except BadInput as problem:
        kept = record.environment.code
        stood = kept.folder if kept else None
        elsewhere = stood and Path(stood).resolve() != Path.cwd()
        remedy = f"It was run from {stood}: go there." if elsewhere else ""
        raise BadInput(
            f"{where}: can't be repeated. {problem.problem}", remedy or problem.remedy
        ) from None


def _read_tracking(folder: Path) -> list[str]:
    """Return the words for the run's store, as far as its configuration is there."""
    store = read_kept_tracking(folder / CONFIG_FILE)
    if "kind" not in store:
        return []
    words = [f"tracking.{name}={quote_value(store[name])}"
             for name in ("uri", "experiment") if store.get(name)]  # fmt: skip
    return [f"tracking={quote_value(str(store['kind']))}", *words]


def _render(then: Path, old: Record, now: Path, new: Record, as_json: bool) -> str:
    pair = Pair(old, new, "then", "now")
    result = comparison.compare([pair])
    # What was asked for; then versions, flags, machine, code.
    differs = dict(_compare_values(asdict(old.spec), asdict(new.spec)))
    before, after = (_list_surroundings(record.environment) for record in (old, new))
    differs |= dict(_compare_values(before, after))
    if as_json:
        return json.dumps(
            {
                "then": str(then.resolve()),
                "now": str(now.resolve()),
                "status": new.outcome.status,
                "differs": differs,
                "rows": msgspec.to_builtins(result.rows),
            },
            indent=1,
            allow_nan=False,
        )
    lines = [*list_comparison(result, [pair], [], is_markdown=False), ""]
    if differs:
        rows = [(f"  {name}", f"{_write(a)} -> {_write(b)}") for name, (a, b) in differs.items()]
        lines += ["differs now", *align_columns(rows)]
    else:
        lines += ["nothing else differs: the same versions, code and machine"]
    lines += ["", f"then  {paths.shorten(then)}", f"now   {paths.shorten(now)}"]
    return "\n".join([*lines, "", conclude(result)])


def _list_surroundings(environment: Environment) -> dict[str, Any]:
    """Return what can differ between two runs of one command; the load always does."""
    described = msgspec.to_builtins(environment)
    described |= environment.comparable
    code = described.get("code") or {}
    parts = {
        "runner": described["git"] or {},
        "code": {"file": code.get("files", {}), "git": code.get("git") or {}},
        "flags": environment.flags,
    }
    left_out = {"comparable", "code", "git", "load", "flags", "fallback_ops"}
    left_out |= {"device_process_bytes", "device_process_reason"}
    kept = {name: value for name, value in described.items() if name not in left_out}
    return {**kept, **parts}


def _as_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _compare_values(
    then: Mapping[str, Any], now: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in dict.fromkeys([*then, *now]):
        old, new = then.get(name), now.get(name)
        if isinstance(old, dict) or isinstance(new, dict):
            yield from _compare_values(_as_mapping(old), _as_mapping(new), f"{above}{name}.")
        elif old != new:
            yield f"{above}{name}", (old, new)


def _write(value: Any) -> str:
    return "nothing" if value is None else str(value)
