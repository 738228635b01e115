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
    """With a command `runner`, as pip makes it."""
    command = tmp_path / "bin" / "runner"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m runner "$@"\n')
    command.chmod(0o755)
    return f"{command.parent}:{os.environ['PATH']}"


IN_SHELL = {
    "bash": """
        eval "$(runner completion bash)"
        COMP_LINE="runner scenario=wh" COMP_POINT=18
        _runner
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
SHOWN = {
    "bash": "while_loop |",
    "fish": "scenario=while_loop/etc/",
    "zsh": "scenario=while_loop|",
}


@pytest.mark.parametrize("shell", IN_SHELL)
def test_a_shell_shows_it_with_the_one_line_of_the_help(shell: str, path: str) -> None:
    if shutil.which(shell) is None:
        why = f"{shell} is missing: apt install {shell}"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    done = subprocess.run(
        [shell, "-c", IN_SHELL[shell]],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": path},
    )
    assert done.stdout.strip() == SHOWN[shell], done.stderr
