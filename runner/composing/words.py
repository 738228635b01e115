"""The words of the command line: each is one override, said once, or a flag of Hydra's."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    Glob,
    IntervalSweep,
    Override,
    QuotedString,
    RangeSweep,
)
from hydra.errors import HydraException

from runner import places
from runner.composing import GROUPS, ROOTS
from runner.composing.translation import first_line, nearest_root
from runner.errors import BadInput, nearest

_FILES_OWN = ("._target_", "measure.name")
"""What a group's file says of itself; said otherwise, a record would tell of what it is not."""
_PLACES = ("hydra.sweep.dir", "hydra.sweep.subdir", "hydra.run.dir", "hydra.output_subdir")
_WRITERS = ("hydra/job_logging", "hydra/hydra_logging", "hydra.job_logging", "hydra.hydra_logging")
"""Of Hydra's own, which would write beside what a run leaves."""

MOST_CELLS = 100_000
"""More than anybody measures: a grid beyond it is a slip."""

MOST_DEEP = 30
"""Lists and mappings in one another."""

_FLAGS_ELSEWHERE = {
    "--shell-completion": "`python -m runner completion --help` has the line that installs it.",
    "--resolve": "It goes with --cfg job.",
    "--run": "One run is what is done without -m.",
    "--experimental-rerun": "`python -m runner again PATH` repeats a recorded run.",
}
"""Flags of Hydra's that have no meaning here, and what to do instead."""


def checked(words: Sequence[str]) -> list[str]:
    """The words, once it is clear that each is a flag of Hydra's or one override, said once."""
    overrides = _overrides(words)
    for word in overrides:
        if word.startswith("-"):
            raise _no_flag(word)
    for word in overrides:
        if not word.strip():
            raise BadInput(
                "one of the words is empty.", "Leave it out; a shell's variable may not be set."
            )
        if "=" not in word and not word.startswith("~"):
            raise BadInput(
                f"{word}: an override needs a '='.",
                f"Write {word}=VALUE; `python -m runner list` shows the choices.",
            )
    said: dict[str, str] = {}
    for word in overrides:
        override = _parsed(word)
        key = override.get_key_element().lstrip("+~")
        root = re.split(r"[./@:]", key)[0]
        if root not in ROOTS:
            raise BadInput(
                f"{key}: there is no group or field of that name.",
                _in_a_group(key) or nearest_root(root),
            )
        if key in said:
            raise BadInput(
                f"{key}: said twice, {said[key]!r} and {word!r}.",
                f"Keep one; to sweep over both: -m {key}=A,B.",
            )
        if key.startswith(_WRITERS):
            raise BadInput(f"{key}: is the runner's to say.", "run.log has what a run says.")
        if key.startswith("hydra.sweeper.params") and not override.is_delete():
            raise BadInput(
                f"{key}: is set in an experiment's YAML file only.", "Sweep with -m KEY=A,B."
            )
        if key in _PLACES:
            raise BadInput(f"{key}: is the runner's to say.", "RUNNER_OUTPUTS names a place.")
        if key.endswith(_FILES_OWN):
            raise BadInput(f"{key}: is its YAML file's to say.", f"Say {root}=NAME.")
        if override.is_delete() and (key in ROOTS or "/" in key):
            raise BadInput(
                f"{word}: {key} can't be taken away.", f"Leave the word out, or say {key}=VALUE."
            )
        values = _values(override)
        if key in GROUPS or "/" in key:
            for value in values:
                if not (override.is_delete() or _is_name(value)):
                    raise no_choice(key, _spelled(value))
        if root == "search" and override.is_sweep_override():
            raise BadInput(
                f"{word}: a search has one for all its cells.", f"Several are a list: {key}=[A,B]."
            )
        if key == "experiment" and override.is_sweep_override():
            _check_no_sweep_of_sweeps(override)
        if root == "hydra" and None in values:
            raise BadInput(f"{key}: can't be null.", "Leave it out: Hydra's own is used then.")
        if key == "hydra.sweeper.max_batch_size" and not _is_count(override.value()):
            raise BadInput(f"{word}: is not a number of cells.", "Leave it out.")
        if key == "resume" and "" in values:  # as in resume=$UNSET
            raise BadInput("resume: names nothing.", "Say resume=latest or a path, or nothing.")
        said[key] = word
    if "hydra/sweeper" not in said:  # one that searches may have a choice of any size
        check_size(list(said.values()))
    sweeps_scenarios = "scenario" in said and _parsed(said["scenario"]).is_sweep_override()
    flags = [word for word in words if word not in overrides]  # first, as Hydra takes no others
    return [*flags, *(_for_hydra(word, sweeps_scenarios) for word in overrides)]


def _no_flag(word: str) -> BadInput:
    key = word.lstrip("-").partition("=")[0]
    written = f"Write {key}=VALUE, without dashes." if re.split(r"[./]", key)[0] in ROOTS else ""
    return BadInput(f"{word}: there is no such flag.", written or "See `python -m runner --help`.")


def _in_a_group(name: str) -> str:
    """What to write for a field that was named without the group whose files have it."""
    line = re.compile(rf"^{re.escape(name)}:", re.MULTILINE)
    for group in GROUPS:
        files = [path.read_text() for path in places.choices(group).values()]
        if group != "experiment" and any(map(line.search, files)):
            return f"Write {group}.{name}=VALUE."
    return ""


def value_of(word: str) -> Any:
    """The one value of a KEY=VALUE, as Hydra reads it."""
    value = _parsed(word).value()
    if isinstance(value, ChoiceSweep | RangeSweep | IntervalSweep | Glob):
        raise BadInput(f"{word}: are several values.", "Name one.")
    return value.text if isinstance(value, QuotedString) else value


def _overrides(words: Sequence[str]) -> list[str]:
    """What is no flag of Hydra's, as its parser tells them; what it can't tell is bad input."""
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise BadInput(f"{message}.", "See `python -m runner --help`; flags come first.")

    parser.error = refuse
    for word in words:
        if (flag := word.partition("=")[0]) in _FLAGS_ELSEWHERE and not (
            flag == "--resolve" and "--cfg" in words
        ):
            raise BadInput(f"{flag}: is not a flag of the runner's.", _FLAGS_ELSEWHERE[flag])
    parsed, unknown = parser.parse_known_intermixed_args(list(words))
    for flag in ("config_name", "config_path"):
        if getattr(parsed, flag):
            raise BadInput(
                f"--{flag.replace('_', '-')}: the runner has one configuration, conf/config.yaml.",
                "`python -m runner again PATH` repeats a recorded run from its folder; a grid of "
                "your own is a file in conf/experiment/.",
            )
    if parsed.multirun and (parsed.cfg or parsed.info):
        raise BadInput("--cfg and --info tell of one run.", "Leave out -m, or the verb.")
    return [*parsed.overrides, *unknown]


def _check_no_sweep_of_sweeps(override: Override) -> None:
    """Hydra takes one sweeper's parameters: those of each experiment it would pass over."""
    known = places.choices("experiment")
    value = override.value()
    said = value.filter(list(known)) if isinstance(value, Glob) else _values(override)
    for name in map(str, said):
        if name in known and re.search(r"^hydra:", known[name].read_text(), re.MULTILINE):
            raise BadInput(
                f"experiment: {name} is a sweep of its own; it can't be part of another.",
                f"Say experiment={name}, and the others after it.",
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_name(value: Any) -> bool:
    """Of a file in a group's folder, and not of one elsewhere; or a pattern of such names."""
    if isinstance(value, Glob):
        return True
    value = value.text if isinstance(value, QuotedString) else value
    return (
        isinstance(value, str)
        and bool(value)
        and not value.startswith("/")
        and ".." not in value.split("/")
    )


def _spelled(value: Any) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def check_size(words: Sequence[str]) -> None:
    """Refuse a grid that is larger than anybody means, before it is made."""
    cells = 1
    for word in words:
        override = _parsed(word)
        value = override.value()
        if isinstance(value, RangeSweep):
            start, stop, step = value.start or 0, value.stop or 0, value.step
            if not step or not all(map(math.isfinite, (start, stop, step))):
                raise BadInput(
                    f"{word}: goes on without end.", "Write range(START,STOP,STEP), STEP not 0."
                )
            cells *= max(0, math.ceil((stop - start) / step))
        elif isinstance(value, ChoiceSweep):
            cells *= len(value.list)
    if cells > MOST_CELLS:
        raise BadInput(
            f"the sweep has {cells:,} cells, more than {MOST_CELLS:,}.",
            "Sweep over fewer values: range(START,STOP,STEP) takes larger steps.",
        )


def check_swept(params: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """The same of what an experiment's file sweeps over, where the words say nothing else."""
    said = {_parsed(word).get_key_element().lstrip("+~") for word in overrides}
    own = [f"{key}={value}" for key, value in params.items() if key not in said]
    for word in (*own, *overrides):
        if isinstance(_parsed(word).value(), IntervalSweep):
            raise BadInput(
                f"{word}: an interval is for a sweeper that searches; this one tries values.",
                "Write range(START,STOP,STEP), or say hydra/sweeper=optuna and what to search for; "
                "`fit` finds the largest that fits.",
            )
    check_size([*own, *overrides])


def _for_hydra(word: str, sweeps_scenarios: bool) -> str:
    """Hydra composes a sweep once without what is swept, to find its sweeper; a parameter of a
    scenario that is swept would be unknown there, so it is made a sweep over its one value."""
    key, _, value = word.partition("=")
    if sweeps_scenarios and key.startswith("scenario.") and not _parsed(word).is_sweep_override():
        return f"{key}=choice({value})"
    return _into_mapping(word)


def _into_mapping(word: str) -> str:
    """A parameter that is a mapping takes keys that its YAML lacks; Hydra wants `++` for that."""
    key, _, value = word.partition("=")
    whole, below = value.startswith("{"), key.count(".") > 1
    takes = key.startswith(("scenario.", "search.limits"))
    return f"++{word}" if takes and (whole or below) else word


def _parsed(word: str) -> Override:
    _check_depth(word)
    try:
        override: Override = OverridesParser.create().parse_override(word)
        override.value()
        return override
    except (HydraException, ValueError, TypeError, ZeroDivisionError) as error:
        if re.search(r"[=,(]\s*,|,\s*([,)]|$)", word):
            raise BadInput(
                f"{word}: there is nothing beside a comma.", "Write KEY=A,B, or leave it out."
            ) from error
        found = re.sub(r" expecting \{.*", "", first_line(error))  # dozens of a parser's own names
        raise BadInput(
            f"{word}: can't be read as KEY=VALUE ({found.replace('<EOF>', 'its end')}).",
            "Quote what the shell or Hydra would take apart: 'key=\"a value\"'.",
        ) from error


def _check_depth(word: str) -> None:
    """Refuse what is nested beyond what parsers, which call themselves, can follow."""
    steps = ((letter in "([{") - (letter in ")]}") for letter in word)
    if max(itertools.accumulate(steps), default=0) > MOST_DEEP:
        raise BadInput(f"{word[:60]}...: is nested too deeply.", "Give it a plain value.")


def _values(override: Override) -> list[Any]:
    value = override.value()
    return value.list if isinstance(value, ChoiceSweep) else [override.is_delete() or value]


def no_choice(group: str, name: str) -> BadInput:
    return BadInput(
        f"{group}={name}: there is no {group} of that name.",
        nearest(name, places.choices(group)) or "Leave it out.",
    )
