"""The package as pip makes it: installed anywhere, it has its configuration and pages' files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from runner import places

PARTS = ("runner", "scenarios", "conf")


def test_a_wheel_holds_every_file_of_the_product_and_runs_from_where_it_is_put(
    tmp_path: Path,
) -> None:
    source, installed = tmp_path / "source", tmp_path / "installed"
    without_caches = shutil.ignore_patterns("__pycache__")
    for part in PARTS:
        shutil.copytree(places.project() / part, source / part, ignore=without_caches)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(places.project() / file, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if name.partition("/")[0] in PARTS}
        packed.extractall(installed)
    wanted = {
        path.relative_to(source).as_posix()
        for part in PARTS
        for path in (source / part).rglob("*")
        if path.is_file() and path.suffix != ".png"  # the README's
    }
    assert held == wanted
    listed = subprocess.run(
        [sys.executable, "-m", "runner", "list"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )
    assert "scenario=while_loop" in listed.stdout
