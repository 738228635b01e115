"""`fit` as it is typed: real searches under real caps, what it leaves, what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from runner import records
from runner.commands import call
from runner.errors import BadInput
from runner.fit import summary
from tests.conftest import Cli

BRIEF = ("measure.timing_processes=1", "measure.steps=5", "measure.max_seconds=0.1")
TAPED = ("scenario=python_loop", "scenario.size=500", "batch_size=500")

BAD_INPUT = {
    "no field": ([], "vary: has no value"),
    "no cap": (["vary=batch_size"], "no cap is set"),
    "unknown field": (["vary=batchsize", "device.memory_limit_mb=64"], "mean 'batch_size'"),
    "the cap": (["vary=device.memory_limit_mb", "device.memory_limit_mb=64"], "that is the cap"),
    "no integer": (["vary=scenario.gradient", "device.memory_limit_mb=64"], "not a whole number"),
    "several values": (
        ["vary=seed", "seed=1,2", "device.memory_limit_mb=64"],
        "seed is given a value",
    ),
    "a value": (
        ["vary=scenario.iterations", "scenario.iterations=4", "device.memory_limit_mb=64"],
        "Leave scenario.iterations=... out",
    ),
    "several values of an own argument": (
        [
            *(
                "vary=scenario.arguments.key",
                "+scenario.arguments.key=1,2",
                "scenario=callable",
            ),
            *("scenario.target=os:getenv", "device.memory_limit_mb=64"),
        ],
        "scenario.arguments.key is given a value",
    ),
    "null": (["vary=device.inter_op_threads", "device.memory_limit_mb=64"], "not a whole number"),
    "max=0": (["vary=batch_size", "max=0", "device.memory_limit_mb=64"], "max: '0'"),
    "said twice": (["vary=batch_size", "vary=seed", "device.memory_limit_mb=64"], "is given twice"),
    "one strategy lacks a cap": (
        ["vary=scenario.iterations", "device.memory_limit_mb=64,null"],
        "no cap is set",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_refused_before_anything_is_written(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path / "outputs"))
    words, says = BAD_INPUT[case]
    with pytest.raises(BadInput) as refused:
        call("fit", [*words, *(TAPED if "scenario=callable" not in words else ())])
    assert says in str(refused.value)
    assert not (tmp_path / "outputs").exists()


def test_the_answer_completes_the_next_value_ran_out_and_strategies_are_compared(
    warm_cli: Cli, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is 1 MB, and so is the weight; 16.8 MB hold a dozen of them and no 16. Without a tape
    any number of iterations fits."""
    monkeypatch.setattr(summary, "QUIET_SECONDS", math.inf)  # after which it says how far it is
    done = warm_cli(
        *("fit", "--json", "vary=scenario.iterations", "max=50", "device.memory_limit_mb=16"),
        *(*TAPED, "scenario.gradient=tape,none", *BRIEF),
    )
    assert done.returncode == 0, done.stderr
    taped, untaped = json.loads(done.stdout)
    assert taped["strategy"] == "scenario.gradient=tape"
    assert taped["vary"] == "scenario.iterations"
    assert 10 <= taped["largest"] < 16
    assert taped["fails"] == taped["largest"] + 1
    assert (untaped["largest"], untaped["fails"]) == (50, None)

    (folder,) = (outputs / "fits").glob("*/*")
    names = {"fit.json", "fit.svg", "probes.jsonl", "run.log", "plan.json", "probes", "0", "1"}
    assert names == {path.name for path in folder.iterdir()}
    record = records.read(folder / "0")
    assert record.outcome.completed
    assert record.spec.parameters["iterations"] == taped["largest"]
    assert [trial.kind for trial in record.trials] == ["memory", "timing"]
    assert record.metrics == taped["metric_at_largest"]

    probes = [json.loads(line) for line in (folder / "probes.jsonl").read_text().splitlines()]
    for probe in probes:  # each has its line, as no terminal is there
        line = f"{probe['strategy']} · scenario.iterations={probe['value']}, memory trial"
        assert sum(each.startswith(line) for each in done.stderr.splitlines()) == 1, done.stderr
    failed = {probe["value"]: probe for probe in probes if not probe["fits"]}
    assert set(failed) == {50, taped["fails"]}
    assert failed[taped["fails"]]["out_of_memory"]["op"] == "MatMul"
    assert failed[taped["fails"]]["out_of_memory"]["bytes"] == 1_000_000


def test_another_failure_stops_the_search_and_so_does_a_value_of_one_that_does_not_fit(
    warm_cli: Cli,
) -> None:
    targets = (
        f"tests.integration.commands.growing:{name}"
        for name in ("refuses_more_than_40", "never_fits")
    )
    done = warm_cli(
        *("fit", "vary=batch_size", "device.memory_limit_mb=16"),
        *("scenario=callable", f"scenario.target={','.join(targets)}", *BRIEF),
    )
    assert done.returncode == 1, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("scenario.target=")]
    assert "stopped: batch_size=" in rows[0]
    assert "failed in build: ValueError: at most 40 fit on the shelf" in rows[0]
    assert "1 does not fit: Fill asked for 40.0 MB" in rows[1]
