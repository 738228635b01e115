"""`again`: repeats a recorded run, and says what differs now."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import places
from runner.errors import BadInput
from runner.verbs import Parser, apart

if TYPE_CHECKING:
    from runner.judging.selection import Pair
    from runner.plan import Plan
    from runner.records import Record

_EPILOG = """\
examples:
  python -m runner again latest
      the latest run once more, in a folder of its own
  python -m runner again outputs/sweeps/2026-01-31/12-00-00/3
      one cell of a sweep, as a run
  python -m runner again outputs/runs/2026-01-31/12-00-00 tracking=none

Go to the folder that your own code was run from; what differs now from then (versions, code,
machine) is said, and the figures stand side by side. The exit code is the new run's.
"""


def main(arguments: Sequence[str]) -> int:
    tracking, paths = apart(arguments)
    parser = Parser(
        "again",
        description="Measures once more what a record tells of, as it was asked for then, and says "
        "what differs now.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "path", metavar="PATH", help="a run's folder, or that of a sweep's cell, or latest"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args([str(path) for path in paths])

    # Imported late, so that --help and a mistyped option are answered at once.
    from runner import records
    from runner.running import folders, session
    from runner.running.interruption import interruptible
    from runner.terminal.progress import Progress

    then = _folder(options.path)
    record = records.read(then)
    with interruptible():
        plan = _plan(record, then, tracking)
    now = folders.new_folder("runs")
    with session.measured(plan, now, Progress()) as done:
        pass
    if done.result.interrupted:
        print(f"runner: {done.result.interrupted}; what was finished is kept.", file=sys.stderr)
    else:
        _show((then, record), (now, records.read(now)), options.json)
    if done.publishing.problem:
        print(f"runner: {done.publishing.problem}", file=sys.stderr)
    return done.result.exit_code


def _folder(said: str) -> Path:
    from runner import records
    from runner.running import folders

    path = folders.named(said)
    if not path.exists():
        raise BadInput(f"{said}: there is no such folder.", "Name a run's folder, or say latest.")
    found = records.find(path)
    if len(found) > 1:
        raise BadInput(
            f"{places.relative(path)}: holds {len(found)} runs, and one is repeated at a time.",
            f"Name one of them, as in {places.relative(found[0])}.",
        )
    return found[0]


def _plan(record: Record, folder: Path, tracking: Sequence[str]) -> Plan:
    """The plan of the words that tell all that the record was asked for."""
    import shlex

    from runner.composing import composition
    from runner.export.command import reproduce

    where = places.relative(folder)
    if record.outcome.status == "unsupported":
        raise BadInput(
            f"{where}: was never measured ({record.outcome.reason}).", "Name one that was."
        )
    words = shlex.split(reproduce(record))[3:]
    try:
        return composition.plan([*words, *(tracking or _tracking(folder))], folder)
    except BadInput as problem:
        kept = record.environment.get("code")
        stood = kept.get("folder") if isinstance(kept, dict) else None
        elsewhere = stood and Path(stood).resolve() != Path.cwd()
        remedy = f"It was run from {stood}: go there." if elsewhere else ""
        raise BadInput(
            f"{where}: can't be repeated. {problem.problem}", remedy or problem.remedy
        ) from None


def _tracking(folder: Path) -> list[str]:
    """The words for the store that the run was shown in, as far as its configuration is there."""
    import yaml

    from runner.export.command import word
    from runner.running.lifecycle import CONFIG_FILE

    try:
        kept = _mapping(yaml.safe_load((folder / CONFIG_FILE).read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    store = _mapping(kept.get("tracking"))
    said = [f"tracking={store['kind']}"] if "kind" in store else []
    fields = [name for name in ("uri", "experiment") if said and store.get(name)]
    return said + [f"tracking.{name}={word(store[name])}" for name in fields]


def _show(then: tuple[Path, Record], now: tuple[Path, Record], as_json: bool) -> None:
    from runner.judging import comparison, sentence
    from runner.judging.selection import Pair
    from runner.terminal import comparisons
    from runner.terminal.tables import aligned

    pair = Pair(then[1], now[1], "then", "now")
    result = comparison.compare([pair])
    differs = dict(_differences(pair))
    if as_json:
        print(
            json.dumps(
                {
                    "then": str(then[0].resolve()),
                    "now": str(now[0].resolve()),
                    "status": now[1].outcome.status,
                    "differs": differs,
                    "rows": [row.to_json() for row in result.rows],
                },
                indent=1,
                allow_nan=False,
            )
        )
        return
    print("\n".join(comparisons.lines(result, [pair], [], markdown=False)))
    print()
    if differs:
        rows = [(f"  {name}", f"{_said(a)} -> {_said(b)}") for name, (a, b) in differs.items()]
        print("\n".join(["differs now", *aligned(rows, ())]))
    else:
        print("nothing else differs: the same versions, code and machine")
    print(f"\nthen  {places.relative(then[0])}\nnow   {places.relative(now[0])}")
    print(f"\n{sentence.sentence(result)}")


def _differences(pair: Pair) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """What is not as it was: what was asked for, versions, flags, machine, code."""
    then, now = pair.baseline, pair.candidate
    yield from _apart(_flat(then.spec), _flat(now.spec))
    known = [_surroundings(record.environment) for record in (then, now)]
    yield from _apart(*known)


def _surroundings(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What can differ between two runs of one command, by names; the load always does."""
    found = {**environment, **_mapping(environment.get("comparable"))}
    own = _mapping(found.get("code"))
    parts = {
        "runner": _mapping(found.get("git")),
        "code": {"file": _mapping(own.get("files")), "git": _mapping(own.get("git"))},
    }
    left_out = {"comparable", "code", "git", "load", "flags", "fallback_ops"}
    left_out |= {name for name in found if name.startswith("device_process")}
    kept = {name: value for name, value in found.items() if name not in left_out}
    return _flat({**kept, **parts, "flags": _mapping(environment.get("flags"))})


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


def _apart(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) != now.get(name):
            yield name, (then.get(name), now.get(name))


def _said(value: Any) -> str:
    return "nothing" if value is None else str(value)
