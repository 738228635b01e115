"""The words of the command line: each is a flag of Hydra's or one override, given once."""

from __future__ import annotations

import itertools
import math
import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
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
    Sweep,
)
from hydra.errors import HydraException

from runner import paths
from runner.compose import GROUPS, ROOTS
from runner.compose.translation import suggest_root
from runner.config import format_word
from runner.errors import BadInput, get_first_line, suggest
from runner.masking import MASK, is_secret_name, mask_value, mask_word, may_hold_secrets
from runner.overrides import split_override

MOST_CELLS = 100_000
"""More than anybody measures: a grid beyond it is a mistake."""

DEEPEST_NESTING = 30
"""Lists and mappings in one another; parsers, which call themselves, can't follow without end."""

_SET_BY_FILE = ("._target_", "measure.name")
"""Fields by which a group's file names itself: changed, a record would name another."""

_PLACES = ("hydra.sweep.dir", "hydra.sweep.subdir", "hydra.run.dir", "hydra.output_subdir")
_LOGGING = ("hydra/job_logging", "hydra/hydra_logging", "hydra.job_logging", "hydra.hydra_logging")
_SET_BY_RUNNER = {
    **dict.fromkeys(_PLACES, "RUNNER_OUTPUTS names a place."),
    **dict.fromkeys(_LOGGING, "run.log has what a run says."),
    "hydra.sweeper.direction": "search.objectives names metrics; each has its better direction.",
    "hydra.sweeper.max_failure_rate": "A cell that fails is a result; the sweep goes on.",
    "hydra.sweeper.storage": "The records keep a search; `resume=latest` goes on with it.",
    "hydra.sweeper.study_name": "The sweep's folder names it.",
    "hydra.sweeper.search_space": "Name values in the words: KEY=A,B.",
    "hydra.sweeper.custom_search_space": "Name values in the words: KEY=A,B.",
}
"""Fields of Hydra and of its plugins that the runner sets, and what to do instead."""

_HYDRA_GROUPS = {
    "hydra/launcher": ("basic",),
    "hydra/sweeper": ("basic",),
    "hydra/sweeper/sampler": (),
}
"""Groups of Hydra's that have choices here, and those that come with Hydra itself."""

_CHOICES_ELSEWHERE = {
    "hydra/launcher=joblib": (
        "memory trials run side by side on this machine without it",
        "Leave it out; measure.side_by_side says how many run at once.",
    ),
    "hydra/launcher=submitit_slurm": (
        "workers in Slurm are Dask's now, and its fields have other names",
        "Say hydra/launcher=slurm, with hydra.launcher.queue=NAME for partition=NAME, memory=8GB "
        "for mem_gb=8, walltime=01:30:00 for timeout_min=90, cores=2 for cpus_per_task=2, and "
        "job_extra_directives=['--gres=gpu:1'] for all else that sbatch takes.",
    ),
    "hydra/launcher=ray": (
        "workers are Dask's now",
        "Say hydra/launcher=dask for workers on this machine, with hydra.launcher.address="
        "tls://HOST:PORT for those of a scheduler that is there.",
    ),
    "hydra/sweeper/sampler=grid": (
        "walks a grid in an order that does not repeat",
        "Leave hydra/sweeper and search out: a sweep walks the whole grid.",
    ),
}
"""Choices of Hydra's plugins that have no meaning here, why, and what to do instead."""

_FLAGS_ELSEWHERE = {
    "--shell-completion": "`python -m runner completion --help` has the line that installs it.",
    "--resolve": "It goes with --cfg job.",
    "--run": "A command without -m is one run.",
    "--experimental-rerun": "`python -m runner again PATH` repeats a recorded run.",
}
"""Flags of Hydra's that have no meaning here, and what to do instead."""


@dataclass(frozen=True)
class CommandLine:
    """The words of a command, checked and in Hydra's own grammar."""

    flags: Namespace
    """Hydra's flags, as its own parser reads them."""
    hydra_words: list[str]
    """The overrides of Hydra's own fields, which hold for every cell."""
    cell_words: list[str]
    """The other overrides."""


def read_words(words: Sequence[str]) -> CommandLine:
    """Return the words once it is clear that each is a flag of Hydra's or one override, given once;
    raise `BadInput` for the first that is neither."""
    flags, overrides = _split_flags(words)
    for word in overrides:
        _check_form(word)
    given: dict[str, str] = {}
    for word in overrides:
        override = _parse(word)
        key = override.get_key_element().lstrip("+~")
        if key in given:
            raise BadInput(
                f"{key} is given twice: {given[key]!r} and {word!r}.",
                f"Keep one; to sweep over both: -m {key}=A,B.",
            )
        _check_override(word, key, override)
        given[key] = word
    hydra_words = [word for key, word in given.items() if key.startswith(("hydra.", "hydra/"))]
    cell_words = [_open_mapping(word) for word in overrides if word not in hydra_words]
    return CommandLine(flags, hydra_words, cell_words)


def read_value(word: str) -> Any:
    """Return the one value of a KEY=VALUE as Hydra reads it; raise `BadInput` for several."""
    value = _parse(word).value()
    if isinstance(value, Sweep | Glob):
        raise BadInput(f"{word} has several values.", "Name one.")
    return value


def mask_override(word: str) -> str:
    """Return a KEY=VALUE with what looks like a secret in its value, as Hydra reads it, masked."""
    if not may_hold_secrets(word):
        return word
    key, _ = split_override(word)
    try:
        value = read_value(word)
    except BadInput:  # several, or none: its text is all there is
        return f"{key}={MASK}" if is_secret_name(key) else mask_word(word)
    masked = mask_value(value, key)
    return word if masked == value else f"{key}={format_word(masked)}"


def check_choice(group: str, value: Any) -> None:
    """Refuse what is no choice of a group, nor a pattern of such names."""
    known = [*_HYDRA_GROUPS.get(group, ()), *paths.find_choices(group)]
    name = value.text if isinstance(value, QuotedString) else value
    if not isinstance(name, Glob) and name not in known:
        spelled = {"None": "null", "True": "true", "False": "false"}.get(str(name), str(name))
        raise BadInput(
            f"{group}={spelled}: there is no {group} of that name.",
            suggest(spelled, known) or "Leave it out.",
        )


def check_grid(overrides: Sequence[Override]) -> None:
    """Refuse a grid that has no end, or is larger than anybody means, before it is made."""
    cells = 1
    for override in {override.get_key_element(): override for override in overrides}.values():
        word, value = override.input_line, override.value()
        if isinstance(value, IntervalSweep):
            raise BadInput(
                f"{word}: an interval is for a sweeper that searches; this one tries values.",
                "Write range(START,STOP,STEP), or say hydra/sweeper=optuna and what to search for; "
                "`fit` finds the largest that fits.",
            )
        if isinstance(value, RangeSweep):
            cells *= check_range(str(word), value)
        elif isinstance(value, ChoiceSweep):
            cells *= len(value.list)
    if cells > MOST_CELLS:
        raise BadInput(
            f"the sweep has {cells:,} cells, more than {MOST_CELLS:,}.",
            "Sweep over fewer values: range(START,STOP,STEP) takes larger steps.",
        )


def check_range(word: str, value: RangeSweep) -> int:
    """Return how many values a range has; refuse one without end."""
    start, stop, step = value.start or 0, value.stop or 0, value.step
    if not step or not all(map(math.isfinite, (start, stop, step))):
        raise BadInput(f"{word} goes on without end.", "Write range(START,STOP,STEP), STEP not 0.")
    count: int = max(0, math.ceil((stop - start) / step))
    return count


def _split_flags(words: Sequence[str]) -> tuple[Namespace, list[str]]:
    """Return Hydra's flags, as its parser tells them, and the rest."""
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise BadInput(f"{message}.", "See `python -m runner --help`; flags come first.")

    parser.error = refuse
    for word in words:
        if (flag := word.partition("=")[0]) in _FLAGS_ELSEWHERE and not (
            flag == "--resolve" and "--cfg" in words
        ):
            raise BadInput(f"{flag} is not a flag of the runner's.", _FLAGS_ELSEWHERE[flag])
    flags, unknown = parser.parse_known_intermixed_args(list(words))
    for flag in ("config_name", "config_path"):
        if getattr(flags, flag):
            raise BadInput(
                f"--{flag.replace('_', '-')}: the runner has one configuration, conf/config.yaml.",
                "`python -m runner again PATH` repeats a recorded run from its folder; a grid of "
                "your own is a file in conf/experiment/.",
            )
    if flags.multirun and (flags.cfg or flags.info):
        raise BadInput("--cfg and --info show one run.", "Leave out -m, or the verb.")
    return flags, [*unknown, *flags.overrides]


def _check_form(word: str) -> None:
    if word.startswith("-"):
        key = word.lstrip("-").partition("=")[0]
        is_known = re.split(r"[./]", key)[0] in ROOTS
        written = f"Write {key}=VALUE, without dashes." if is_known else ""
        raise BadInput(
            f"{word}: there is no such flag.", written or "See `python -m runner --help`."
        )
    if not word.strip():
        raise BadInput(
            "one of the words is empty.", "Leave it out; a shell's variable may not be set."
        )
    if word.startswith("="):
        raise BadInput(f"{word}: has no name before the '='.", f"Write NAME{word}.")
    if "=" not in word and not word.startswith("~"):
        raise BadInput(
            f"{word}: an override needs a '='.",
            f"Write {word}=VALUE; `python -m runner list` shows the choices.",
        )


def _parse(word: str) -> Override:
    depths = itertools.accumulate((letter in "([{") - (letter in ")]}") for letter in word)
    if max(depths, default=0) > DEEPEST_NESTING:
        raise BadInput(f"{word[:60]}...: is nested too deeply.", "Give it a plain value.")
    try:
        override: Override = OverridesParser.create().parse_override(word)
        override.value()
        return override
    except (HydraException, ValueError, TypeError, ZeroDivisionError) as error:
        if re.search(r"[=,(]\s*,|,\s*([,)]|$)", word):
            raise BadInput(
                f"{word}: there is no value before or after a comma.",
                "Write KEY=A,B, or leave it out.",
            ) from error
        problem = re.sub(r" expecting \{.*", "", get_first_line(error))  # a parser's own names
        raise BadInput(
            f"{word} can't be read as KEY=VALUE ({problem.replace('<EOF>', 'its end')}).",
            "Quote what the shell or Hydra would take apart: 'key=\"a value\"'.",
        ) from error


def _check_override(word: str, key: str, override: Override) -> None:
    """Refuse an override that Hydra would pass over in silence, or that the runner can't follow."""
    root = re.split(r"[./@:]", key)[0]
    value = override.value()
    values = value.list if isinstance(value, ChoiceSweep) else [override.is_delete() or value]
    if root not in ROOTS:
        raise BadInput(
            f"{key}: there is no group or field of that name.",
            _suggest_group(key) or suggest_root(root),
        )
    for name, instead in _SET_BY_RUNNER.items():
        if key == name or key.startswith((f"{name}.", f"{name}/")):
            raise BadInput(f"{key} is set by the runner and cannot be overridden.", instead)
    if key.startswith("hydra.sweeper.params") and not override.is_delete():
        raise BadInput(f"{key} is set in an experiment's YAML file only.", "Sweep with -m KEY=A,B.")
    if key.endswith(_SET_BY_FILE):
        raise BadInput(
            f"{key} is set by its YAML file and cannot be overridden.", f"Say {root}=NAME."
        )
    if f"{key}={values[0]}" in _CHOICES_ELSEWHERE:
        why, instead = _CHOICES_ELSEWHERE[f"{key}={values[0]}"]
        raise BadInput(f"{key}={values[0]}: {why}.", instead)
    if override.is_delete() and (key in ROOTS or "/" in key):
        raise BadInput(
            f"{word}: {key} can't be taken away.", f"Leave the word out, or say {key}=VALUE."
        )
    if key in (*GROUPS, *_HYDRA_GROUPS) and not override.is_delete():
        for choice in values:
            check_choice(key, choice)
    if root == "search" and override.is_sweep_override():
        raise BadInput(
            f"{word}: a search has one for all its cells.", f"Several are a list: {key}=[A,B]."
        )
    if key == "experiment" and override.is_sweep_override():
        # Hydra would pass over what the experiments sweep themselves.
        known = paths.find_choices("experiment")
        names = value.filter(list(known)) if isinstance(value, Glob) else values
        for name in map(str, names):
            if name in known and re.search(r"^hydra:", known[name].read_text(), re.MULTILINE):
                raise BadInput(
                    f"experiment: {name} is a sweep of its own; it can't be part of another.",
                    f"Say experiment={name}, and the others after it.",
                )
    if root == "hydra" and override.is_sweep_override():
        raise BadInput(f"{key}: a sweep has one for all its cells.", f"Give {key} one value.")
    if root == "hydra" and None in values:
        raise BadInput(f"{key} can't be null.", "Leave it out: Hydra's default is used then.")
    if key == "hydra.sweeper.max_batch_size" and not (type(value) is int and value > 0):
        raise BadInput(f"{word} is not a number of cells.", "Leave it out.")
    if key == "resume" and "" in values:  # as in resume=$UNSET
        raise BadInput("resume names nothing.", "Say resume=latest or a path, or nothing.")


def _suggest_group(name: str) -> str:
    """Return what to write for a field that was named without the group whose files have it."""
    line = re.compile(rf"^{re.escape(name)}:", re.MULTILINE)
    for group in GROUPS:
        files = [path.read_text() for path in paths.find_choices(group).values()]
        if group != "experiment" and any(map(line.search, files)):
            return f"Write {group}.{name}=VALUE."
    return ""


def _open_mapping(word: str) -> str:
    """Return a parameter that is a mapping with `++`, so that it takes keys that its YAML lacks."""
    key, _, value = word.partition("=")
    whole, below = value.startswith("{"), key.count(".") > 1
    takes = key.startswith(("scenario.", "search.limits"))
    return f"++{word}" if takes and (whole or below) else word
