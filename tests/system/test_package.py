"""The package as pip makes it: installed anywhere, used from any folder, it works as the clone.

The wheel is built once and installed into an environment of its own, which borrows what it depends
on from the present one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner import paths
from runner.compose import composition

PARTS = ("runner", "scenarios", "conf")
NOT_INSTALLED = {".png", ".md"}
"""For readers of the clone."""
CLONE = paths.find_clone()
BRIEF = ("measure.timing_processes=1", "measure.steps=5", "measure.min_steps=5")
CELL = ("scenario=python_loop", "scenario.iterations=3", "scenario.size=10", *BRIEF)


@dataclass(frozen=True)
class Copy:
    """An installed copy, and a folder elsewhere to stand in."""

    python: Path
    packages: Path
    wheel: Path
    stand: Path

    @property
    def command(self) -> Path:
        return self.python.with_name("runner")

    def run(self, *words: str | Path, cwd: Path | None = None) -> str:
        done = subprocess.run(
            list(map(str, words)),
            capture_output=True,
            text=True,
            cwd=cwd or self.stand,
            env=environment(),
            timeout=240,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def written(self) -> set[str]:
        files = (path for path in self.packages.rglob("*") if path.suffix != ".pyc")
        return {path.relative_to(self.packages).as_posix() for path in files if path.is_file()}


def environment() -> dict[str, str]:
    """As a user has it who knows nothing of this clone."""
    ours = ("RUNNER_OUTPUTS", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in ours}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    folder = tmp_path_factory.mktemp("package")
    source, home, stand = folder / "source", folder / "venv", folder / "stand"
    stand.mkdir()
    without_caches = shutil.ignore_patterns("__pycache__")
    for part in PARTS:
        shutil.copytree(CLONE / part, source / part, ignore=without_caches)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CLONE / file, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*pip, *build, str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (packages,) = home.glob("lib/python*/site-packages")
    borrowed = [entry for entry in sys.path if "site-packages" in entry]
    (packages / "borrowed.pth").write_text("\n".join(borrowed))
    into = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *into], check=True)
    return Copy(python, packages, wheel, stand)


def test_a_wheel_holds_every_file_of_the_product_below_one_name(copy: Copy) -> None:
    with zipfile.ZipFile(copy.wheel) as packed:
        held = {name for name in packed.namelist() if ".dist-info/" not in name}
    wanted = set()
    for part in PARTS:
        inside = Path("runner") if part == "runner" else Path("runner") / part
        for path in (CLONE / part).rglob("*"):
            relative = path.relative_to(CLONE / part)
            kept = path.suffix not in NOT_INSTALLED and "__pycache__" not in relative.parts
            if path.is_file() and kept:
                wanted.add((inside / relative).as_posix())
    assert held == wanted
    assert "runner/py.typed" in held


def test_an_installed_copy_is_the_one_that_runs_there(copy: Copy) -> None:
    where = copy.run(copy.python, "-c", "import runner, scenarios; print(scenarios.__file__)")
    assert where.strip() == str(copy.packages / "runner" / "scenarios" / "__init__.py")
    assert "scenario=while_loop" in copy.run(copy.command, "list")


def test_a_users_own_folder_of_the_name_scenarios_is_found_after_ours(
    copy: Copy, tmp_path: Path
) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mine.py").write_text("step = 'mine'")
    code = "import runner, scenarios.loops, scenarios.mine as mine; print(mine.step)"
    assert copy.run(copy.python, "-c", code, cwd=tmp_path) == "mine\n"


@pytest.mark.parametrize("is_inside", [True, False])
def test_results_go_to_the_clone_from_inside_it_and_else_where_the_user_stands(
    is_inside: bool, tmp_path: Path
) -> None:
    code = "from runner import paths; print(paths.find_outputs())"
    stand = CLONE / "tests" if is_inside else tmp_path
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=stand,
        env={**environment(), "PYTHONPATH": str(CLONE)},
    )
    assert done.stdout.strip() == str((CLONE if is_inside else tmp_path) / "outputs")


def test_both_distributions_can_be_published(tmp_path: Path) -> None:
    built = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(CLONE)]
    subprocess.run(built, check=True, capture_output=True, text=True)
    files = sorted(str(path) for path in tmp_path.iterdir())
    assert [Path(file).suffix for file in files] == [".whl", ".gz"]
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_sdist_installs_and_works(copy: Copy, tmp_path: Path) -> None:
    built = [sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", str(tmp_path)]
    subprocess.run([*built, str(CLONE)], check=True, capture_output=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    borrowed = [entry for entry in sys.path if "site-packages" in entry]
    (packages / "borrowed.pth").write_text("\n".join(borrowed))
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install"]
    flags = ["--no-deps", "--no-index", "--no-build-isolation", "--force-reinstall"]
    subprocess.run([*pip, *flags, str(sdist)], check=True)
    assert "scenario=while_loop" in copy.run(home / "bin" / "runner", "list")


def test_a_run_of_an_installed_copy_is_the_same_cell_and_is_kept_where_the_user_stands(
    copy: Copy, tmp_path: Path
) -> None:
    before = copy.written()
    for name in ("conf", "scenarios"):  # the user's own, in nobody's way
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    copy.run(copy.python, "-m", "runner", *CELL, "tracking=none", cwd=tmp_path)
    (kept,) = (tmp_path / "outputs" / "runs").glob("*/*/record.json")
    record = json.loads(kept.read_text())
    (here,) = composition.compose_plan([*CELL, "tracking=none"]).cells
    assert record["cell"] == here.experiment.cell
    assert record["spec"]["target"] == "scenarios.loops.PythonLoop"
    assert record["environment"]["git"] is None, "it is in no clone"
    assert copy.written() == before, "nothing is written beside the package"


def test_a_sweep_and_the_pages_of_its_store_work_from_there(copy: Copy, tmp_path: Path) -> None:
    copy.run(copy.command, "-m", *CELL, "batch_size=2,4", cwd=tmp_path)
    (sweep,) = (tmp_path / "outputs" / "sweeps").glob("*/*")
    assert len(list(sweep.glob("*/record.json"))) == 2
    assert (sweep / "report.html").is_file()
    assert (tmp_path / "outputs" / "mlflow.db").is_file()
    assert "last sweep" in served(copy, tmp_path)


def served(copy: Copy, stand: Path) -> str:
    """What `ui` prints; it has answered at its address, and ends when it is asked to."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [copy.command, "ui", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=stand,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith("Ctrl-C"):
                    break
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
                assert answer.status == 200
        finally:
            process.send_signal(signal.SIGINT)
        try:
            assert process.wait(120) == 130
        finally:
            process.kill()  # or leaving `with` would wait for ever where it minds no signal
    return "".join(said)


def test_a_claim_is_judged_there(copy: Copy, tmp_path: Path) -> None:
    verdicts = json.loads(copy.run(copy.command, "claims", "001-09", "--json", cwd=tmp_path))
    assert [(each["id"], each["verdict"]) for each in verdicts] == [("001-09", "refuted")]
    assert (tmp_path / "outputs" / "claims").is_dir()
