"""The example in scenarios/README.md, taken from there and run as it says, in another folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

from runner import paths
from tests.conftest import Cli

TEXT = (paths.find_scenarios() / "README.md").read_text()
FILES = dict(re.findall(r"^`([\w/]+\.(?:py|yaml))`:\n\n```\w+\n(.*?)```", TEXT, re.M | re.S))


def test_the_example_runs_as_it_stands_in_any_folder(
    cli: Cli, tmp_path: Path, outputs: Path
) -> None:
    assert set(FILES) == {"scenarios/doubling.py", "conf/scenario/doubling.yaml"}
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    said = ("--config-dir", "conf", "scenario=doubling")
    assert f"python -m runner {' '.join(said)}" in TEXT
    brief = ("measure.timing_processes=0", "tracking=none")
    done = cli(*said, *brief, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = (outputs / "runs").glob("*/*/record.json")
    record = json.loads(path.read_text())
    assert record["spec"]["parameters"] == {"size": 1000, "by": "addition"}
    assert record["metrics"]["tensor_peak_bytes"] == 2 * 4000


def test_every_family_has_its_line() -> None:
    families = {path.name for path in paths.find_scenarios().glob("[!_]*.py")}
    assert families <= set(re.findall(r"`(\w+\.py)`", TEXT))
