"""`leak`, as a user calls it."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from runner import records
from tests.conftest import Cli


def test_help_is_answered_at_once(front_door: Cli) -> None:
    started = time.monotonic()
    answer = front_door("leak", "--help")
    assert answer.returncode == 0
    assert "python -m runner leak" in answer.stdout
    assert time.monotonic() - started < 5


def test_bad_input_is_refused_and_leaves_nothing(front_door: Cli, outputs: object) -> None:
    answer = front_door("leak", "scenario=nothing")
    assert answer.returncode == 2
    assert "there is no scenario of that name" in answer.stderr


@pytest.mark.parametrize("flag", ["-m", "--multirun"])
def test_a_sweep_that_has_no_name_is_refused(front_door: Cli, flag: str) -> None:
    answer = front_door("leak", flag, "scenario=tape,while_loop")
    assert answer.returncode == 2
    assert "or name a sweep with experiment=NAME" in answer.stderr


def test_it_names_the_line_what_holds_it_and_what_helps(warm_cli: Cli, outputs: Path) -> None:
    answer = warm_cli(
        "leak",
        "--json",
        "scenario=callable",
        "scenario.target=tests.integration.leak.planted:list_of_arrays",
        "measure.timing_processes=1",
        "tracking=local",
    )
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert set(told) == {
        *("verdict", "sentence", "tensor_growth_bytes_per_step", "host_growth_bytes_per_step"),
        *("interval", "explained_bytes_per_step", "holders", "remedies", "notes"),
    }
    assert told["verdict"] == "grows"
    holder = told["holders"][0]
    assert set(holder) == {
        *("kind", "bytes_per_step", "count_per_step", "file", "line", "code", "what", "chain")
    }
    assert holder["kind"] == "python"
    assert "arrays.append" in holder["code"]
    assert holder["chain"][0].startswith("`arrays`, a list in tests/integration/leak/planted.py:")
    tried = [each for each in told["remedies"] if each["command"]]
    written = [each for each in told["remedies"] if not each["command"]]
    assert tried[0]["change"] == "gc.collect() between steps"
    assert tried[0]["command"].endswith("measure.between_steps=gc_collect")
    assert tried[0]["verdict"] == "does not help"
    assert "bound `arrays`" in written[0]["change"]
    assert written[0]["growth_bytes_per_step"] is None

    (folder,) = (outputs / "leaks").glob("*/*")
    swept = [records.read(folder / str(number)).sweep for number in range(2)]
    assert [each and each.swept for each in swept] == [{}, {"measure.between_steps": "gc_collect"}]
    with closing(sqlite3.connect(outputs / "mlflow.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM runs")]
    assert "leak: callable" in names, "the run above them"
    assert len(names) == len({*names}) == len(tried) + 2, "each in the store, with its own name"
