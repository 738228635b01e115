"""`completion`: what the Tab key offers in bash, zsh and fish: verbs, groups, choices, fields.

The shell's part is a few lines that hand over the line as it stands and show what comes back. What
can be said is read from the files in conf/ and the types of the fields: no Hydra, so that Tab
answers at once.
"""

from __future__ import annotations

import contextlib
import importlib
import shlex
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from runner import places
from runner.config import Device, Measure
from runner.errors import BadInput, RunnerError
from runner.verbs import Parser, names

GROUPS = ("scenario", "execution", "device", "measure", "tracking", "experiment")
_FLAGS = ("--config-dir", "--help", "--multirun", "--version", "--cfg", "--info")
_OF_VERBS = {
    "again": ("latest", "--json"),
    "claims": ("--json",),
    "clean": ("--older-than", "--yes", "--json"),
    "compare": (
        *("latest", "--by", "--baseline", "--metric", "--fail-on", "--budget", "--tolerance"),
        *("--threshold", "--allocations", "--markdown", "--json"),
    ),
    "completion": ("bash", "zsh", "fish"),
    "fit": ("vary=", "max=", "--json"),
    "leak": ("--json", "--no-remedies"),
    "list": (*GROUPS, "claim", "--json"),
    "publish": ("latest", "--json"),
    "report": ("latest", "--peak", "--by", "--pictures", "--json"),
    "ui": ("--host", "--port"),
}
_TAKE_OVERRIDES = ("fit", "leak", "claims")

BASH = """\
_runner() {
  local line="${COMP_LINE:0:COMP_POINT}" IFS=$'\\n' word cut
  COMPREPLY=($(runner completion --line "$line" 2>/dev/null))
  word="${line##*[[:space:]]}"
  # What stands before the last = or : is a word of its own to bash, and stays as it is.
  cut="${word%"${word##*[=:]}"}"
  [[ $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"$cut"}")
  [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY != *[=.] ]] && COMPREPLY="$COMPREPLY "
}
complete -o nospace -o default -F _runner runner
"""
ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_runner() {
  local -a found=("${(@f)$(runner completion --line "${BUFFER[1,CURSOR]}" 2>/dev/null)}")
  found=(${found:#})
  local -a open=(${(M)found:#*[=.]}) whole=(${found:#*[=.]})
  (( $#open )) && compadd -Q -S '' -- $open
  (( $#whole )) && compadd -Q -- $whole
  (( $#found )) || _files
}
compdef _runner runner
"""
FISH = """\
function _runner
  set -l found (runner completion --line (commandline -cp | string collect) 2>/dev/null)
  if test -n "$found"
    string join \\n -- $found
  else if not string match -q '*=*' -- (commandline -ct)
    __fish_complete_path (commandline -ct)
  end
end
complete -c runner -f -a '(_runner)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

_EPILOG = """\
Put this line into your shell's own file, for `runner` as pip installs it:
  ~/.bashrc                   eval "$(runner completion bash)"
  ~/.zshrc                    eval "$(runner completion zsh)"
  ~/.config/fish/config.fish  runner completion fish | source
"""


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "completion",
        description="Prints what makes the Tab key complete verbs, groups, choices, fields and "
        "values in a shell.",
        epilog=_EPILOG,
    )
    parser.add_argument("shell", nargs="?", choices=tuple(SCRIPTS), help="for which")
    parser.add_argument("--line", help="what would be offered at the end of this line")
    options = parser.parse_args(arguments)
    if options.line is not None:
        print("\n".join(offered(options.line)))
        return 0
    if options.shell is None:
        raise BadInput("completion: no shell is named.", "Say completion bash, zsh or fish.")
    print(SCRIPTS[options.shell], end="")
    return 0


def offered(line: str) -> list[str]:
    """The words that the last one of the line can become; nothing where that is the name of a file,
    which the shell knows."""
    words = _words(line)[1:]
    *before, last = words or [""]
    if before and before[-1] in ("--config-dir", "-cd"):
        return []
    with contextlib.suppress(RunnerError):  # the folder may not be there yet
        before = places.with_config_dirs(before)
    found = list(_anything(before, last))
    return [each for each in dict.fromkeys(found) if each.startswith(last) and each != last]


def _words(line: str) -> list[str]:
    """As the shell would split it; the last one may be half a word, or none yet."""
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    return [*words, ""] if line[-1:].isspace() else words


def _anything(before: Sequence[str], last: str) -> Iterator[str]:
    verb = before[0] if before and before[0] in names() else None
    if "=" in last and (verb is None or verb in (*_TAKE_OVERRIDES, "publish", "again")):
        yield from _values(before, last)
        return
    if not before:
        yield from names()
    if verb == "claims":
        yield from places.choices("claim")
    yield from _OF_VERBS.get(str(verb), ())
    if verb is None:
        yield from _FLAGS
    if verb is None or verb in _TAKE_OVERRIDES:
        yield from _keys(before, last)


def _keys(before: Sequence[str], last: str) -> Iterator[str]:
    """What can be set; a group's fields once its name is there."""
    group = last.partition(".")[0]
    if "." in last:
        yield from (f"{group}.{name}=" for name in _fields(group, before))
        return
    yield from (f"{each}=" for each in (*GROUPS, "batch_size", "seed", "resume"))
    if last in ("scenario", "device", "measure", "tracking"):
        yield f"{last}."


def _values(before: Sequence[str], last: str) -> Iterator[str]:
    key, _, value = last.partition("=")
    listed = value.rpartition(",")[0]
    known: Iterable[str] = ()
    if key in GROUPS:
        known = places.choices(key)
    elif key == "resume":
        known = ("latest",)
    elif "." in key:
        group, _, name = key.partition(".")
        known = _choices_of(_fields(group, before).get(name))
    for each in known:
        yield f"{key}={listed},{each}" if listed else f"{key}={each}"


def _fields(group: str, before: Sequence[str]) -> dict[str, Any]:
    """The fields of a group, as it was chosen, with their types."""
    if group in ("device", "measure"):
        kind: type = {"device": Device, "measure": Measure}[group]
        own = {"device": "kind", "measure": "name"}[group]
        hints = typing.get_type_hints(kind, include_extras=True)
        return {name: hint for name, hint in hints.items() if name != own}
    if group == "tracking":
        return {"uri": str, "experiment": str}
    said = [word.partition("=")[2] for word in before if word.startswith("scenario=")]
    found: dict[str, Any] = {}
    for name in said[-1].split(",") if said else ():
        if file := places.choices("scenario").get(name):
            found |= _of_scenario(yaml.safe_load(file.read_text()) or {})
    return found


def _of_scenario(content: dict[str, Any]) -> dict[str, Any]:
    module, _, name = str(content.pop("_target_", "")).rpartition(".")
    hints: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # a user's own, which may need what is not there
        hints = typing.get_type_hints(getattr(importlib.import_module(module), name))
    return {field: hints.get(field) for field in content}


def _choices_of(hint: Any) -> Iterator[str]:
    """The values that a type has, if they can be told."""
    if hint is bool:
        yield from ("false", "true")
    elif typing.get_origin(hint) is typing.Literal:
        yield from map(str, typing.get_args(hint))
    elif typing.get_origin(hint) in (typing.Union, types.UnionType):
        for each in typing.get_args(hint):
            yield from _choices_of(each)
