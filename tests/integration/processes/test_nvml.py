"""What NVIDIA's driver says, read from a stand-in library by the real nvidia-ml-py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.machine import Gpu
from runner.processes import nvml

SOURCE = Path(__file__).parents[2] / "system" / "standin_gpu" / "standin_nvml.cc"

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in. Without a compiler its tests are skipped, in CI they fail."""
    if shutil.which("g++") is None:
        why = "g++ is missing, which builds the stand-in library: apt install g++"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("nvml")
    built = folder / "libnvidia-ml.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(built), str(SOURCE)], check=True)
    return folder


@pytest.fixture
def ask(library: Path) -> Ask:
    """What a function of `nvml` returns in a process whose driver is the stand-in."""

    def ask(function: str, knows: str = "all") -> Any:
        code = (
            "from runner import schema; from runner.processes import nvml;"
            f"print(schema.encode(nvml.{function}()).decode())"
        )
        added = {"LD_LIBRARY_PATH": str(library), "STANDIN_NVML": knows}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **added},
        )
        return json.loads(done.stdout)

    return ask


def test_the_driver_and_every_card_are_described(ask: Ask) -> None:
    found = ask("describe_cards")
    assert found["driver"] == "580.1.stand-in"
    assert [card["name"] for card in found["cards"]] == ["Stand-in A", "Stand-in B"]
    assert found["cards"][0] == {
        "name": "Stand-in A",
        "uuid": "GPU-0",
        "memory_bytes": 8_000_000_000,
        "compute_capability": "9.0",
        "sm_clock_mhz": 1001,
        "sm_clock_max_mhz": 2001,
        "memory_clock_mhz": 1002,
        "memory_clock_max_mhz": 2002,
    }


def test_a_figure_that_a_card_lacks_is_null(ask: Ask) -> None:
    card = ask("describe_cards")["cards"][1]
    assert card["sm_clock_mhz"] is None
    assert card["memory_bytes"] == 8_000_000_000


def test_a_process_s_memory_is_summed_over_all_cards(ask: Ask) -> None:
    assert ask("read_process_bytes") == [700_000_000, None]


@pytest.mark.parametrize("knows", ["hidden", "untold"])
def test_unknown_process_memory_is_null_with_a_reason(ask: Ask, knows: str) -> None:
    taken, reason = ask("read_process_bytes", knows)
    assert taken is None
    assert "the driver does not say it of this process" in reason


def test_without_a_driver_the_reason_is_nvidias_own() -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    reason = "NVML: NVML Shared Library Not Found"
    assert nvml.describe_cards() == Gpu(driver=None, cards=None, reason=reason)
    assert nvml.read_process_bytes() == (None, "NVML: NVML Shared Library Not Found")


def test_without_the_package_the_reason_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.read_process_bytes() == (
        None,
        "nvidia-ml-py is not installed (pip install nvidia-ml-py)",
    )
