"""The table of metrics says how each is shown; nothing else in the runner lists them."""

from __future__ import annotations

import ast
import itertools

import pytest

from runner.metrics import COMPARED, HEADLINES, METRICS, Rank, list_shown
from tests.packages import SOURCES, package

COMPUTED = {
    *("meters", "trial"),
    *("runner.analysis.estimate", "runner.analysis.growth", "leak"),
    *("runner.analysis.tolerance", "runner.claims.readings", "runner.fit.probes"),
    *("runner.integrations.keras_callback", "runner.integrations.pytest_plugin.limits"),
}
"""Where figures are computed: a raw sample of a trial is called like the metric made of it."""


def named_metrics(tree: ast.Module) -> set[str]:
    """Return the metrics that a module names as string constants."""
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {str(each) for each in constants & set(METRICS)}


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_only_what_computes_a_figure_names_metrics(name: str) -> None:
    if name != "runner.metrics" and not {name, package(name)} & COMPUTED:
        assert named_metrics(SOURCES[name]) == set()


def test_a_prominent_metric_is_shown_wherever_there_is_more_room() -> None:
    columns = [set(list_shown(rank)) for rank in sorted(Rank)]
    assert all(less < more for less, more in itertools.pairwise(columns))
    assert columns[0] == set(HEADLINES)
    assert columns[-1] == set(METRICS)
    assert set(COMPARED) <= set(list_shown(Rank.TABLE))


def test_every_headline_has_a_noun_for_the_sentence() -> None:
    assert all(METRICS[name].noun for name in HEADLINES)
