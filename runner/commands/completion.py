"""`completion`: what the Tab key offers in bash, zsh and fish: verbs, groups, choices, fields.

The shell's part is a few lines that hand over the line as it stands and show what comes back. The
choices are read from the files in conf/ and the types of the fields: no Hydra, so that Tab
answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import shlex
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from runner import paths
from runner.commands import GROUPS, SETTINGS, Parser, list_verbs
from runner.commands import make_parser as make_verbs_parser
from runner.config import Device, Measure, Tracking
from runner.errors import BadInput, RunnerError
from runner.metrics import METRICS

_CLASSES = {"device": Device, "measure": Measure, "tracking": Tracking}
"""Their `kind` or `name` is the choice itself, and no field below the group."""

_FLAGS = ("--config-dir", "--help", "--multirun", "--version", "--cfg", "--info")
"""Flags of Hydra, and of the front door."""

_OBJECTIVES = "search.objectives"

SCRIPTS = {
    "bash": """\
_runner() {
  local line="${COMP_LINE:0:COMP_POINT}" IFS=$'\\n' word cut
  local command=("${@:-runner}")
  COMPREPLY=($("${command[@]}" completion --line "$line" 2>/dev/null))
  word="${line##*[[:space:]]}"
  # What stands before the last = or : is a word of its own to bash, and stays as it is.
  cut="${word%"${word##*[=:]}"}"
  [[ $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"$cut"}")
  [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY != *[=.] ]] && COMPREPLY="$COMPREPLY "
}
_runner_command() { _runner runner; }
complete -o nospace -o default -F _runner_command runner
# Whatever completes `python` already goes on doing so for all but `python -m runner`.
{ _comp_load python || _completion_loader python; } &>/dev/null
_runner_before=$(complete -p python 2>/dev/null)
_runner_before=${_runner_before#* -F }
_runner_before=${_runner_before%% *}
_runner_module() {
  if [[ ${COMP_WORDS[1]} == -m && ${COMP_WORDS[2]} == runner && $COMP_CWORD -gt 2 ]]; then
    type compopt &>/dev/null && compopt -o nospace 2>/dev/null
    _runner "${COMP_WORDS[0]}" -m runner
  elif [[ $_runner_before ]]; then
    "$_runner_before" "$@"
  fi
}
complete -o default -F _runner_module python python3
""",
    "zsh": """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_runner() {
  local -a command=(runner)
  [[ $words[2] == -m ]] && command=($words[1] -m runner)
  local line="${BUFFER[1,CURSOR]}"
  local -a found=("${(@f)$($command completion --line "$line" 2>/dev/null)}")
  found=(${found:#})
  local -a open=(${(M)found:#*[=.]}) whole=(${found:#*[=.]})
  (( $#open )) && compadd -Q -S '' -- $open
  (( $#whole )) && compadd -Q -- $whole
  (( $#found )) || _files
}
_runner_module() {
  if [[ $words[2] == -m && $words[3] == runner && $CURRENT -gt 3 ]]; then _runner; else _python; fi
}
compdef _runner runner
compdef _runner_module python python3
""",
    "fish": """\
function _runner
  set -l command runner
  set -l words (commandline -opc)
  test "$words[2]" = -m; and set command $words[1..3]
  set -l found ($command completion --line (commandline -cp | string collect) 2>/dev/null)
  if test -n "$found"
    string join \\n -- $found
  else if not string match -q '*=*' -- (commandline -ct)
    __fish_complete_path (commandline -ct)
  end
end
function _runner_is_module
  set -l words (commandline -opc)
  test "$words[2..3]" = "-m runner"
end
complete -c runner -f -a '(_runner)'
complete -c python -n _runner_is_module -f -a '(_runner)'
complete -c python3 -n _runner_is_module -f -a '(_runner)'
""",
}

_EPILOG = """\
Put this line into your shell's own file; `python -m runner` is completed as well as `runner`:
  ~/.bashrc                   eval "$(runner completion bash)"
  ~/.zshrc                    eval "$(runner completion zsh)"
  ~/.config/fish/config.fish  runner completion fish | source
"""


def make_parser() -> Parser:
    parser = Parser(
        "completion",
        "Prints what makes the Tab key complete verbs, groups, choices, fields and values in a "
        "shell.",
        _EPILOG,
        offers=SCRIPTS,
    )
    parser.add_argument("shell", nargs="?", choices=tuple(SCRIPTS), help="for which")
    parser.add_argument("--line", help="what would be offered at the end of this line")
    return parser


def run(options: argparse.Namespace) -> int:
    if options.line is not None:
        print("\n".join(complete_line(options.line)))
        return 0
    if options.shell is None:
        raise BadInput("completion: no shell is named.", "Say completion bash, zsh or fish.")
    print(SCRIPTS[options.shell], end="")
    return 0


def complete_line(line: str) -> list[str]:
    """Return the words that the last one of the line can become; none where that is the name of a
    file, which the shell knows."""
    words = _split(line)
    words = words[3:] if words[1:3] == ["-m", "runner"] else words[1:]
    *before, last = words or [""]
    if before and before[-1] in ("--config-dir", "-cd"):
        return []
    with contextlib.suppress(RunnerError):  # the folder may not be there yet
        before = paths.take_config_dirs(before)
    offers = list(_complete(before, last))
    return [offer for offer in dict.fromkeys(offers) if offer.startswith(last) and offer != last]


def _split(line: str) -> list[str]:
    """Split a line as the shell would; the last word may be half a word, or none yet."""
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    return [*words, ""] if line[-1:].isspace() else words


def _complete(before: Sequence[str], last: str) -> Iterator[str]:
    """Yield all that may stand at the end, whatever it begins with."""
    verbs = list_verbs()
    verb = before[0] if before and before[0] in verbs else None
    parser = make_verbs_parser(verb or "run")
    if "=" in last:
        key = last.partition("=")[0]
        is_objective = key == _OBJECTIVES and parser.settings == SETTINGS
        if key.partition(".")[0] in parser.settings or is_objective:
            yield from _complete_value(before, last)
        return
    flags = parser.list_flags()
    if before and (values := flags.get(before[-1])):
        yield from values
        return
    if not before:
        yield from verbs
    yield from parser.offers
    yield from (f"{key}=" for key in parser.own)
    yield from flags if verb else _FLAGS
    group = last.partition(".")[0]
    if "." in last:
        yield from (f"{group}.{name}=" for name in _list_fields(group, before))
    elif parser.settings:
        yield from (f"{setting}=" for setting in parser.settings)
        if last in ("scenario", "device", "measure", "tracking"):
            yield f"{last}."


def _complete_value(before: Sequence[str], last: str) -> Iterator[str]:
    key, _, value = last.partition("=")
    listed = value.rpartition(",")[0]
    known: Iterable[str] = ()
    if key in GROUPS:
        known = paths.find_choices(key)
    elif key == _OBJECTIVES:
        known = METRICS if listed else [f"[{name}" for name in METRICS]
    elif key == "resume":
        known = ("latest",)
    elif "." in key:
        group, _, name = key.partition(".")
        known = _list_values(_list_fields(group, before).get(name))
    for choice in known:
        yield f"{key}={listed},{choice}" if listed else f"{key}={choice}"


def _list_fields(group: str, before: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a group, as it was chosen, with their types."""
    if group in _CLASSES:
        hints = typing.get_type_hints(_CLASSES[group], include_extras=True)
        return {name: hint for name, hint in hints.items() if name not in ("kind", "name")}
    chosen = [word.partition("=")[2] for word in before if word.startswith("scenario=")]
    fields: dict[str, Any] = {}
    for name in chosen[-1].split(",") if chosen else ():
        if file := paths.find_choices("scenario").get(name):
            fields |= _list_parameters(yaml.safe_load(file.read_text()) or {})
    return fields


def _list_parameters(content: dict[str, Any]) -> dict[str, Any]:
    module, _, name = str(content.pop("_target_", "")).rpartition(".")
    hints: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # a user's own, which may need what is not there
        hints = typing.get_type_hints(getattr(importlib.import_module(module), name))
    return {field: hints.get(field) for field in content}


def _list_values(hint: Any) -> Iterator[str]:
    """Yield the values that a type has, if they are few."""
    if hint is bool:
        yield from ("false", "true")
    elif typing.get_origin(hint) is typing.Literal:
        yield from map(str, typing.get_args(hint))
    elif typing.get_origin(hint) in (typing.Union, types.UnionType):
        for option in typing.get_args(hint):
            yield from _list_values(option)
