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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from runner.metrics import METRICS
from runner.tracking.content import parameter_name, readable_name

TAG = "mlflow.sharedViewState."
LARGEST_COMPARISON = 100
"""More runs than this can't be told apart in one chart."""

MOST_VIEWS = 50

_METRICS = tuple(
    readable_name(METRICS[name])
    for name in (
        "tensor_peak_bytes",
        "step_seconds",
        "tensor_growth_bytes_per_step",
        "host_peak_bytes",
        "first_call_seconds",
    )
)
_RUN_NAME = "attributes.`Run Name`"
_USUAL_FIELDS = ("scenario", "execution", "batch_size")


def run_page(pages: str, experiment: str, run: str) -> str:
    return f"{pages}/#/experiments/{experiment}/runs/{run}?workflowType=machine_learning"


def runs_page(pages: str, experiment: str, key: str) -> str:
    """A row a run."""
    words = {"workflowType": "machine_learning", "viewStateShareKey": key}
    return f"{pages}/#/experiments/{experiment}/runs?{urlencode(words)}"


def comparison_page(pages: str, experiment: str, key: str) -> str:
    """The same runs side by side in charts. MLflow's page `compare-runs` can't be told which
    metrics to show, and leaves out every metric that one of its runs lacks."""
    return f"{runs_page(pages, experiment, key)}&compareRunsMode=CHART"


def too_many(tags: Mapping[str, str]) -> list[str]:
    """The views of the oldest sweeps, beyond those that are kept. A sweep's name is its date."""
    ours = [name for name in tags if name.startswith(f"{TAG}runner-sweep-")]
    ours.sort(key=lambda name: str(json.loads(tags[name])["name"]))
    return ours[:-MOST_VIEWS]


def view_key(sweep: str | None) -> str:
    """One view for all runs, and one for each sweep."""
    if sweep is None:
        return "runner-all"
    return f"runner-sweep-{hashlib.sha256(sweep.encode()).hexdigest()[:12]}"


def view_tag(sweep: str | None, swept: Iterable[str]) -> str:
    """The tag's value: a named view, as MLflow's own Save view writes it."""
    state = json.dumps(_state(sweep, [parameter_name(field) for field in swept]))
    packed = "deflate;" + base64.b64encode(zlib.compress(state.encode())).decode()
    name = f"sweep {sweep}" if sweep else "all runs, newest first"
    # A fixed time: writing the same view again changes nothing.
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": packed})


def _state(sweep: str | None, swept: list[str]) -> dict[str, Any]:
    parameters = swept or list(_USUAL_FIELDS)
    columns = [
        "tags.`status`",
        *(f"params.`{name}`" for name in parameters),
        *(f"metrics.`{name}`" for name in _METRICS),
    ]
    widths = {column: 40 + 7 * len(column.split("`")[1]) for column in columns}
    return {
        "searchFilter": f"tags.sweep = '{sweep}'" if sweep else "",
        "orderByKey": "tags.`number`" if sweep else "attributes.start_time",
        "orderByAsc": bool(sweep),
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
        "columnOrder": [_RUN_NAME, *columns],
        "columnWidths": {_RUN_NAME: 260, **widths, "tags.`status`": 115},
        "runsHiddenMode": "SHOW_ALL",
        "runsPinned": [],
        "runsHidden": [],
        "runsVisibilityMap": {},
        "viewMaximized": False,
        "runListHidden": False,
        "groupBy": None,
        "groupsExpanded": {},
        "useGroupedValuesInCharts": False,
        "hideEmptyCharts": True,
        "autoRefreshEnabled": True,
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
        "compareRunCharts": [
            _bar(_METRICS[0]),
            _parallel(parameters),
            *(_scatter(name, _METRICS[0]) for name in parameters),
            *(_bar(metric) for metric in _METRICS[1:]),
        ],
    }


def _chart(kind: str, name: str, **fields: Any) -> dict[str, Any]:
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


def _bar(metric: str) -> dict[str, Any]:
    return _chart("BAR", metric, metricKey=metric)


def _scatter(parameter: str, metric: str) -> dict[str, Any]:
    return _chart(
        "SCATTER",
        f"{metric} against {parameter}",
        xaxis={"key": parameter, "type": "PARAM"},
        yaxis={"key": metric, "type": "METRIC"},
    )


def _parallel(parameters: Sequence[str]) -> dict[str, Any]:
    return _chart(
        "PARALLEL",
        "parameters, peak and step time",
        selectedParams=list(parameters),
        selectedMetrics=list(_METRICS[:2]),
        showAllRuns=True,
    )
