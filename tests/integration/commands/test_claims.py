"""`claims` on real runs: it can be wrong both ways, measures each cell once, and goes on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner import records
from runner.claims import files, verdicts
from runner.claims.verdicts import Verdict
from runner.records import Record
from tests.conftest import Cli

GROWS: dict[str, Any] = {
    "claim": "a kept vector makes each step grow by it",
    "document": "a test",
    "cases": [
        {
            "when": "kept against let go",
            "run": {"scenario": "tensor_per_step", "scenario.release": "keep"},
            "against": {"scenario.release": "rebind"},
            "sizes": {"scenario.elements": [1000, 2000, 4000]},
            "expect": [
                {
                    "value": "tensor_growth_bytes_per_step",
                    "unit": "4 * scenario.elements",
                    "at_least": 0.9,
                    "at_most": 1.1,
                    "because": "one vector a step",
                },
                {"ratio": "tensor_live_bytes", "at_least": 2, "because": "it adds up"},
            ],
        }
    ],
    "advice": {"supported": "Let go of <it>."},
}


def _swapped() -> dict[str, Any]:
    (case,) = GROWS["cases"]
    run = {**case["run"], **case["against"]}
    swapped = {**case, "run": run, "against": case["run"]}
    return {**GROWS, "cases": [swapped], "contradicts": ["kept", "001-11"]}


@pytest.fixture
def claim(tmp_path: Path) -> Callable[[str, dict[str, Any]], Path]:
    def write(name: str, content: dict[str, Any]) -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    return write


def test_a_users_claim_is_judged_both_ways_and_its_cells_run_once(
    warm_cli: Cli, claim: Callable[[str, dict[str, Any]], Path], outputs: Path
) -> None:
    paths = [str(claim("kept", GROWS)), str(claim("swapped", _swapped()))]
    done = warm_cli("claims", *paths, "--json", cwd=outputs.parent)
    assert done.returncode == 0, done.stderr
    assert {each["id"]: each["verdict"] for each in json.loads(done.stdout)} == {
        "kept": "supported",
        "swapped": "refuted",
    }
    kept, _ = json.loads(done.stdout)
    (case,) = kept["evidence"]["cases"]
    assert all((Path(cell) / records.RECORD_FILE).is_file() for cell in case["cells"])
    assert all(Path(cell).is_absolute() for cell in case["cells"]), "whoever reads it, anywhere"
    (folder,) = (outputs / "claims").glob("*/*")
    cells = [records.read(each) for each in records.find(folder)]
    assert len(cells) == 6
    assert {trial.kind for cell in cells for trial in cell.trials} == {"memory"}

    again = warm_cli("claims", "resume=latest", "kept")
    assert again.returncode == 0, again.stderr
    assert "0 trials" in again.stderr
    assert "one vector a step" in again.stdout

    page = (folder / "claims.html").read_text()
    assert "Let go of &lt;it&gt;." in page
    assert "http" not in page.replace("http-equiv", "")
    assert f"python -m runner claims {paths[0]} {paths[1]}</code></footer>" in page

    told = warm_cli("claims", "resume=latest", "swapped").stdout
    assert "contradicts kept, which is supported: a kept vector makes each step grow" in told
    assert "contradicts 001-11: holding on to tensors makes a loop grow" in told

    # The same records, read by a meter that sees no growth and no difference.
    by_words = {
        (cell.spec.parameters["release"], cell.spec.parameters["elements"]): cell for cell in cells
    }

    def blind(words: verdicts.Words) -> Record:
        cell = by_words[words["scenario.release"], words["scenario.elements"]]
        flat = {"tensor_growth_bytes_per_step": 0, "tensor_live_bytes": 4000}
        return dataclasses.replace(cell, metrics={**cell.metrics, **flat})

    parsed = files.parse_claim("kept", GROWS, "kept.yaml")
    assert verdicts.judge(parsed, blind).verdict is Verdict.REFUTED


def test_an_unknown_id_is_answered_with_the_nearest_and_nothing_is_written(
    front_door: Cli, outputs: Path
) -> None:
    done = front_door("claims", "000-44")
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert not outputs.exists()


def test_a_mistyped_field_is_named_with_its_claim(
    front_door: Cli, claim: Callable[[str, dict[str, Any]], Path], outputs: Path
) -> None:
    (case,) = GROWS["cases"]
    wrong = {**case, "sizes": {"scenario.elemets": [1, 2, 3]}}
    done = front_door("claims", str(claim("wrong", {**GROWS, "cases": [wrong]})))
    assert done.returncode == 2
    assert "claim wrong: cases.0: scenario.elemets" in done.stderr
    assert "did you mean 'elements'" in done.stderr
    assert not outputs.exists()


def test_what_a_claim_runs_is_not_to_be_set_from_outside(front_door: Cli) -> None:
    done = front_door("claims", "batch_size=64")
    assert done.returncode == 2
    assert "the claim's file sets what it runs" in done.stderr
