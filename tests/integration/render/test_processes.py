"""Pages and tables are made without what is slow to import; the verb says where they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import Cli
from tests.unit.render.conftest import run_folder as run_folder
from tests.unit.render.conftest import sweep_folder as sweep_folder


def test_a_page_is_made_without_matplotlib_tensorflow_or_mlflow(run_folder: Path) -> None:
    heavy = ("matplotlib", "tensorflow", "mlflow", "pandas", "hydra")
    code = (
        "import sys; from pathlib import Path; from runner.render import html; "
        "from runner.render.files.allocations import write_files; from runner import records; "
        "folder = Path(sys.argv[1]); html.write_page(folder); "
        "write_files(records.read(folder), folder); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    words = [sys.executable, "-c", code, str(run_folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_report_writes_the_page_and_prints_where(front_door: Cli, sweep_folder: Path) -> None:
    done = front_door("report", str(sweep_folder), cwd=sweep_folder.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "sweep/report.html\n"
    assert (sweep_folder / "report.html").read_text().startswith("<!doctype html>")


def test_importing_the_package_loads_neither_pandas_nor_tensorflow() -> None:
    code = "import sys, runner; sys.exit(bool({'pandas', 'numpy', 'tensorflow'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
