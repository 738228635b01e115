"""What the Tab key offers, and that each shell shows it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.commands import call, completion, list_verbs

OFFERED = {
    "runner whi": [],
    "runner comp": ["compare", "completion"],
    "runner sc": ["script", "scenario="],
    "runner scenario=wh": ["scenario=while_loop"],
    "runner -m scenario=tape,whi": ["scenario=tape,while_loop"],
    "runner scenario": ["scenario=", "scenario."],
    "runner scenario=python_loop scenario.gr": ["scenario.gradient="],
    "runner scenario=python_loop scenario.gradient=": [
        "scenario.gradient=none",
        "scenario.gradient=tape",
    ],
    "runner scenario=while_loop scenario.swap_memory=t": ["scenario.swap_memory=true"],
    "runner device=cpu device.mal": ["device.malloc=", "device.malloc_arenas="],
    "runner device.malloc=j": ["device.malloc=jemalloc"],
    "runner experiment=loop": ["experiment=loop_gradients", "experiment=loops"],
    "runner fit va": ["vary="],
    "runner leak scenario=retr": ["scenario=retracing"],
    "runner claims 000-0": [f"000-0{number}" for number in range(1, 10)],
    "runner again la": ["latest"],
    "runner compare --to": ["--tolerance"],
    "runner report --by l": ["line", "layer"],
    "runner compare --metric tensor_pe": ["tensor_peak_bytes"],
    "runner compare . --metric step_seconds --metric host_g": ["host_growth_bytes_per_step"],
    "runner compare . --budget step_s": ["step_seconds="],
    "runner compare --budget examples": [],
    "runner -m search.objectives=[step_s": ["search.objectives=[step_seconds"],
    "runner -m search.objectives=[step_seconds,tensor_pe": [
        "search.objectives=[step_seconds,tensor_peak_bytes"
    ],
    "python -m runner scenario=wh": ["scenario=while_loop"],
    ".venv/bin/python3 -m runner comp": ["compare", "completion"],
    "python -m runner compare --to": ["--tolerance"],
    "runner ui tracking=no": ["tracking=none"],
    "runner claims scenario=ta": [],
    "runner report outputs/ru": [],
    "runner scenario=no_such scenario.x": [],
    "runner 'scenario=wh": [],
    "runner --config-dir con": [],
}


@pytest.mark.parametrize("line", OFFERED)
def test_tab_offers_what_can_be_said_there(line: str) -> None:
    assert completion.complete_line(line) == OFFERED[line]


def test_tab_offers_verbs_groups_and_flags_first() -> None:
    found = completion.complete_line("runner ")
    assert {*list_verbs(), "scenario=", "batch_size=", "--config-dir"} <= set(found)


@pytest.mark.parametrize("verb", [each for each in list_verbs() if each != "completion"])
def test_tab_offers_each_flag_that_a_verbs_help_names(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        call(verb, ["--help"])
    text = re.sub(r"(\.py|package\.train|argv=).*", "", capsys.readouterr().out)  # a script's own
    said = set(re.findall(r"--[a-z][a-z-]+", text))
    assert said == set(completion.complete_line(f"runner {verb} --"))


def test_tab_offers_choices_of_a_folder_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_CONFIG_DIR", "")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "nightly.yaml").touch()
    line = f"runner --config-dir {tmp_path} experiment=ni"
    assert completion.complete_line(line) == ["experiment=nightly"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """With commands `runner`, as pip makes it, and `python`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("runner", "-m runner "), ("python", "")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        command.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


IN_SHELL = {
    "bash": """
        eval "$(runner completion bash)"
        COMP_LINE="runner scenario=wh" COMP_POINT=18
        _runner_command
        printf '%s|' "${COMPREPLY[@]}"
        """,
    "fish": """
        runner completion fish | source
        complete -C 'runner scenario=wh' | string collect
        complete -C 'runner scenario=tape batch_size=' | string collect
        complete -C 'runner report /et' | string collect
        """,
    "zsh": """
        compdef() { }
        eval "$(runner completion zsh)"
        compadd() { print -rn -- "${@[-1]}|" }
        BUFFER="runner scenario=wh" CURSOR=18
        _runner
        """,
}
AS_MODULE = {
    "bash": """
        _theirs() { COMPREPLY=(theirs); }
        complete -F _theirs python
        eval "$(python -m runner completion bash)"
        complete -p python
        COMP_LINE="python -m runner scenario=wh" COMP_POINT=28
        COMP_WORDS=(python -m runner scenario = wh) COMP_CWORD=5
        _runner_module
        printf '%s|' "${COMPREPLY[@]}"
        COMP_LINE="python -m run" COMP_POINT=13 COMP_WORDS=(python -m run) COMP_CWORD=2
        _runner_module
        printf '%s|' "${COMPREPLY[@]}"
        """,
    "fish": """
        python -m runner completion fish | source
        complete -C 'python -m runner scenario=wh' | string collect
        complete -C 'python3 -m other scenario=wh' | string collect
        """,
    "zsh": """
        compdef() { }
        eval "$(python -m runner completion zsh)"
        compadd() { print -rn -- "${@[-1]}|" }
        _python() { print -rn -- "theirs|" }
        BUFFER="python -m runner scenario=wh" CURSOR=28
        words=(python -m runner scenario=wh) CURRENT=4
        _runner_module
        words=(python -m other) CURRENT=3
        _runner_module
        """,
}
SHOWN_AS_MODULE = {
    "bash": "complete -o default -F _runner_module python\nwhile_loop |theirs|",
    "fish": "scenario=while_loop",
    "zsh": "scenario=while_loop|theirs|",
}
SHOWN = {
    "bash": "while_loop |",
    "fish": "scenario=while_loop/etc/",
    "zsh": "scenario=while_loop|",
}


def show(shell: str, path: str, script: str) -> tuple[str, str]:
    """Return what a shell prints for a script."""
    if shutil.which(shell) is None:
        why = f"{shell} is missing: apt install {shell}"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    done = subprocess.run(
        [shell, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": path},
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("shell", IN_SHELL)
def test_a_shell_shows_it_with_the_one_line_of_the_help(shell: str, path: str) -> None:
    shown, problems = show(shell, path, IN_SHELL[shell])
    assert shown == SHOWN[shell], problems


@pytest.mark.parametrize("shell", AS_MODULE)
def test_it_completes_the_module_and_leaves_pythons_own(shell: str, path: str) -> None:
    shown, problems = show(shell, path, AS_MODULE[shell])
    assert shown == SHOWN_AS_MODULE[shell], problems
