"""The READMEs' examples pass the linters that this project passes itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from runner import paths

CLONE = paths.find_clone() or Path()
THE_READERS = ("model", "x", "y", "make_step", "make_model", "make_data", "load", "train")
"""Names that an example takes from the reader's own code."""

EXAMPLES = {
    f"{path.relative_to(CLONE)}:{text[: found.start()].count(chr(10)) + 2}": found[1]
    for path in [CLONE / "README.md", *sorted(CLONE.glob("[rcst]*/**/*.md"))]
    for text in [path.read_text()]
    for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
}


def lint(text: str, *words: str) -> str:
    """What ruff says of it, as of a file in the clone's own folder."""
    command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", "example.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=CLONE)
    return done.stdout + done.stderr if done.returncode else ""


def test_there_are_examples() -> None:
    assert {name.partition(":")[0] for name in EXAMPLES} >= {
        "README.md",
        "scenarios/README.md",
        "runner/integrations/README.md",
        "runner/integrations/keras_callback/README.md",
        "runner/integrations/pytest_plugin/README.md",
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_the_linters(name: str) -> None:
    own = f"builtins = {list(THE_READERS)!r}"
    # In the reader's project `runner` is a package like others, and so it is in scenarios/.
    third = f"lint.isort.known-third-party = {[] if 'scenarios' in name else ['runner']!r}"
    assert not lint(EXAMPLES[name], "check", "--config", own, "--config", third)
    assert not lint(EXAMPLES[name], "format", "--diff")


def test_what_is_wrong_would_be_found() -> None:
    assert "F821" in lint("print(unknown_name)\n", "check")
    assert lint("x=1\n", "format", "--diff")
