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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from runner.metrics import METRICS
from runner.store.content import FIRST_SCREEN, STARTED, name_metric

TAG = "mlflow.sharedViewState."
LARGEST_COMPARISON = 100
"""More runs than this can't be told apart in one chart."""

MOST_VIEWS = 50
_MOST_AXES = 4
"""More axes of parallel coordinates than this print their titles over each other."""

_PEAK, _STEP, *_OTHERS = (name_metric(METRICS[name]) for name in FIRST_SCREEN)
_NAME = "attributes.`Run Name`"
_CREATED = "runDateAndNestInfo"
"""MLflow's name for its column with the status and the age of a run."""
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


def make_view_tag(sweep: str | None, swept: Mapping[str, str], name: str = "") -> str:
    """Return the tag's value: a named view, as MLflow's own Save view writes it.

    `swept` has the fields that a sweep varies, with the values of the run called `name`.
    """
    state = json.dumps(_make_state(sweep, swept, name))
    packed = "deflate;" + base64.b64encode(zlib.compress(state.encode())).decode()
    title = f"sweep {sweep}" if sweep else "all runs, newest first"
    # A fixed time: writing the same view again changes nothing.
    return json.dumps({"name": title, "createdAt": 0, "updatedAt": 0, "state": packed})


def _make_state(sweep: str | None, swept: Mapping[str, str], name: str) -> dict[str, Any]:
    metrics = [f"metrics.`{metric}`" for metric in (_PEAK, _STEP, *_OTHERS)]
    # A run's name says all that a sweep varies.
    fields = [f"params.`{field}`" for field in (() if sweep else _USUAL_FIELDS)]
    columns = [*metrics, *fields, "tags.`status`"]
    widths = {column: 36 + 7 * len(column.split("`")[1]) for column in columns}
    return {
        "searchFilter": f"tags.sweep = '{sweep}'" if sweep else "",
        # Sorted by MLflow's own time of the start, a sweep's cells hide below its run.
        "orderByKey": f"tags.`{'number' if sweep else STARTED}`",
        "orderByAsc": bool(sweep),
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": columns,
        # Without an order of its own a table has tags and parameters first.
        "columnOrder": [_NAME, _CREATED, *columns, "duration"],
        "columnWidths": {_NAME: min(340, max(190, 50 + 7 * len(name))), _CREATED: 75, **widths},
        "runsHiddenMode": "SHOW_ALL",  # or only ten are drawn
        "isAccordionReordered": True,
        "compareRunSections": [
            {
                "uuid": "main",
                "name": "Swept and measured" if swept else "Measured",
                "display": True,
                "isReordered": True,
                "columns": 1,
                "cardHeight": 420,
            }
        ],
        "compareRunCharts": list(_make_charts(swept)),
    }


def _make_charts(swept: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the charts of a sweep: memory, time, both, and how memory follows what was swept.
    Those of all other metrics stand below, as MLflow makes them by itself."""
    yield _make_chart("BAR", _PEAK, metricKey=_PEAK)
    yield _make_chart("BAR", _STEP, metricKey=_STEP)
    yield _make_scatter(_PEAK, {"key": _STEP, "type": "METRIC"})
    fields = [field for field in swept if field != "seed"]
    for field in fields:
        if _is_number(swept[field]):
            yield _make_scatter(_PEAK, {"key": field, "type": "PARAM"})
    if fields:
        yield _make_chart(
            "PARALLEL",
            "what was swept, and peak",
            selectedParams=fields[: _MOST_AXES - 1],
            selectedMetrics=[_PEAK],
            showAllRuns=True,
        )


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def _make_scatter(metric: str, across: Mapping[str, str]) -> dict[str, Any]:
    up = {"key": metric, "type": "METRIC"}
    return _make_chart("SCATTER", f"{metric} against {across['key']}", xaxis=across, yaxis=up)


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
