"""Links into MLflow's UI that open ready to read, and the saved view behind them.

The saved view is an experiment tag, `mlflow.sharedViewState.KEY`, that holds the state of the runs
page as JSON. Its format is MLflow's own and undocumented: the version is pinned in pyproject.toml,
and a test looks at the page in a browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from runner.metrics import HEADLINES, METRICS, Rank, list_shown
from runner.store.content import name_metric, name_parameter

TAG = "mlflow.sharedViewState."
LARGEST_COMPARISON = 100
"""More runs than this can't be told apart in one chart."""

MOST_VIEWS = 50

_METRICS = tuple(
    name_metric(METRICS[name]) for name in dict.fromkeys((*HEADLINES, *list_shown(Rank.TABLE)))
)
_RUN_NAME = "attributes.`Run Name`"
_USUAL_FIELDS = ("scenario", "execution", "batch_size")


def find_surplus_views(tags: Mapping[str, str]) -> list[str]:
    """Return the tags of the oldest sweeps' views, beyond those that are kept."""
    ours = [name for name in tags if name.startswith(f"{TAG}runner-sweep-")]
    ours.sort(key=lambda name: _read_name(tags[name]))  # which has its date
    return ours[:-MOST_VIEWS]


def _read_name(view: str) -> str:
    """Return a view's name; nothing of one that others have written over, which goes first."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(view)["name"])
    return ""


def make_view_key(sweep: str | None) -> str:
    """Return the key of the view of all runs, or of a sweep's."""
    if sweep is None:
        return "runner-all"
    return f"runner-sweep-{hashlib.sha256(sweep.encode()).hexdigest()[:12]}"


def make_view_tag(sweep: str | None, swept: Iterable[str]) -> str:
    """Return the tag's value: a named view, as MLflow's own Save view writes it."""
    state = json.dumps(_make_state(sweep, [name_parameter(field) for field in swept]))
    packed = "deflate;" + base64.b64encode(zlib.compress(state.encode())).decode()
    name = f"sweep {sweep}" if sweep else "all runs, newest first"
    # A fixed time: writing the same view again changes nothing.
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": packed})


def _make_state(sweep: str | None, swept: list[str]) -> dict[str, Any]:
    parameters = swept or list(_USUAL_FIELDS)
    columns = [
        "tags.`status`",
        *(f"params.`{name}`" for name in parameters),
        *(f"metrics.`{name}`" for name in _METRICS),
    ]
    peak = _METRICS[0]
    bars = [_make_chart("BAR", metric, metricKey=metric) for metric in _METRICS]
    scatters = [
        _make_chart(
            "SCATTER",
            f"{peak} against {name}",
            xaxis={"key": name, "type": "PARAM"},
            yaxis={"key": peak, "type": "METRIC"},
        )
        for name in parameters
    ]
    parallel = _make_chart(
        "PARALLEL",
        "parameters, peak and step time",
        selectedParams=parameters,
        selectedMetrics=list(_METRICS[: len(HEADLINES)]),
        showAllRuns=True,
    )
    widths = {column: 40 + 7 * len(column.split("`")[1]) for column in columns}
    return {
        "searchFilter": f"tags.sweep = '{sweep}'" if sweep else "",
        "orderByKey": "tags.`number`" if sweep else "attributes.start_time",
        "orderByAsc": bool(sweep),
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": columns,
        "columnOrder": [_RUN_NAME, *columns],
        "columnWidths": {_RUN_NAME: 260, **widths, "tags.`status`": 115},
        "isAccordionReordered": True,
        "compareRunSections": [
            {
                "uuid": "main",
                "name": "Swept and measured" if swept else "Measured",
                "display": True,
                "isReordered": True,
                "columns": 2,
                "cardHeight": 400,
            }
        ],
        "compareRunCharts": [bars[0], parallel, *scatters, *bars[1:]],
    }


def _make_chart(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {
        "uuid": hashlib.sha256(f"{kind} {name}".encode()).hexdigest()[:16],
        "type": kind,
        "displayName": name,
        "metricSectionId": "main",
        "runsCountToCompare": LARGEST_COMPARISON,
        "deleted": False,
        "isGenerated": False,
        **fields,
    }
