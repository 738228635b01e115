"""What the README says of the product is what the product says of itself."""

from __future__ import annotations

import re

from runner import paths
from runner.commands import list_verbs
from runner.metrics import METRICS

PROJECT = paths.find_clone()
assert PROJECT is not None
README = (PROJECT / "README.md").read_text()
METRICS_README = (PROJECT / "runner" / "analysis" / "README.md").read_text()


def metric_table() -> str:
    """The table that readers find, as the one table in `runner/metrics.py` has it."""
    rows = [f"| `{each.name}` | {each.unit} | {each.meaning} |" for each in METRICS.values()]
    return "\n".join(["| metric | unit | meaning |", "| --- | --- | --- |", *rows])


def test_the_table_of_metrics_is_the_products_own() -> None:
    assert metric_table() in METRICS_README


def test_every_verb_is_shown() -> None:
    for verb in list_verbs():
        assert f"python -m runner {verb}" in README, f"{verb} is not shown"


def test_no_place_was_left_open() -> None:
    assert not re.findall(r"@@\w+@@", README)


def test_every_path_that_is_named_exists() -> None:
    named = re.findall(r"`((?:runner|scenarios|tests|conf)/[\w/.]+)`", README)
    made_by_the_reader = {"scenarios/doubling.py", "conf/scenario/doubling.yaml"}
    missing = [
        path
        for path in named
        if path not in made_by_the_reader and not (paths.find_clone() / path).exists()
    ]
    assert named
    assert missing == []


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    ci = (paths.find_clone() / ".ci" / "run").read_text()
    assert "<!-- the tests -->" in README
    assert "<!-- the tests -->" in ci
