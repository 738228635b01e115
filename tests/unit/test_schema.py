"""Files that were changed by hand, cut or replaced: one message each, and never a traceback."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from runner import records
from runner.errors import BadInput
from runner.render import html
from runner.render.files import table
from runner.render.files.allocations import write_files
from runner.render.text.run_summary import summarize_run
from runner.store.content import describe_record
from tests.factories import kept, read_run
from tests.hostile import drawn
from tests.unit.render.known import make_known_run

WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, "", "x", "\x1b[2J", "\ud800", [], [[]], {}, {"a": 1}, [None]),
    *(1e308, 10**400, -(2**70), [1, "a"], {"a": {"b": []}}),
)
MUTATIONS = 300


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, but for what lies deep in long lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:3])
    for key, each in items:
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places_in(each, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, plain: dict[str, Any]) -> str:
    """The text of a record with one to three places changed or lost, or cut short."""
    data = copy.deepcopy(plain)
    for _ in range(draw(st.sampled_from((1, 1, 2, 3)))):
        *above, last = draw(st.sampled_from(list(places_in(data))))
        inner = data
        for key in above:
            inner = inner[key]
        if draw(st.integers(0, 3)) == 0:
            del inner[last]
        else:
            inner[last] = copy.deepcopy(draw(st.sampled_from(WRONG)))
    text = json.dumps(data)
    if draw(st.integers(0, 9)) == 0:
        text = text[: draw(st.integers(0, len(text) - 1))]
    if draw(st.integers(0, 19)) == 0:
        text = text.replace("1", "NaN", 1)
    return text


def views(folder: Path, scratch: Path) -> None:
    """Everything that reads a record."""
    record = records.read(folder)
    describe_record(record, folder)
    html.write_page(folder)
    html.write_page(scratch)
    write_files(records.read(folder), folder)
    summarize_run(*read_run(folder), 1.0)
    table.write_csv(table.load(scratch), scratch)
    list(records.read_trials(folder))


def fell_short(folder: Path) -> str | None:
    """What went wrong with the files that lie there, if anything did."""
    try:
        views(folder, folder.parent)
    except BadInput as problem:
        lines = str(problem).splitlines()
        return None if len(lines) == 2 and len(str(problem)) < 600 else str(problem)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def tried(scratch: Path, count: int) -> list[str | None]:
    """What each of so many mutated files fell short by, the same ones each time."""
    folder = kept(make_known_run(), scratch / "1")
    record, trials = folder / records.RECORD_FILE, folder / records.TRIALS_FILE
    original = record.read_text()
    kept_trials = trials.read_text() if trials.exists() else ""
    which = st.sampled_from((trials, *[record] * 9))
    short = []
    for path, text in drawn(st.tuples(which, mutated(json.loads(original))), count):
        record.write_text(original)
        trials.write_text(kept_trials)
        path.write_text(text)
        problem = fell_short(folder)
        short.append(problem and f"{path.name}: {text}: {problem}")
    return short


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return kept(make_known_run(), tmp_path / "1")


def test_no_mutated_file_ends_a_view_but_with_one_message(tmp_path: Path) -> None:
    short = tried(tmp_path, MUTATIONS)
    assert [each for each in short if each] == []
    assert len(short) == MUTATIONS


def test_a_pipe_in_the_place_of_a_record_is_said_at_once(folder: Path) -> None:
    for name in (records.RECORD_FILE, records.TRIALS_FILE):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    for read in (records.read, records.read_brief):
        with pytest.raises(BadInput, match="it is not a file"):
            read(folder)
    with pytest.raises(BadInput, match="it is not a file"):
        list(records.read_trials(folder))


def test_a_name_that_no_file_can_have_is_bad_input() -> None:
    for name in ("x" * 5000, "a\0b"):
        with pytest.raises(BadInput):
            records.find(Path(name))


def test_a_folder_may_be_called_what_looks_like_a_number(tmp_path: Path) -> None:
    names = ["²", "2", "10", "٣", "x"]
    for name in names:
        kept(make_known_run(), tmp_path / name)
    found = [folder.name for folder in records.find(tmp_path)]
    assert set(found) == set(names)
    assert found.index("2") < found.index("10")


@pytest.mark.parametrize("number", [-(2**70), 10**400])
def test_a_number_too_large_for_a_column_ends_no_view(folder: Path, number: int) -> None:
    path = folder / records.RECORD_FILE
    data = json.loads(path.read_text())
    data["spec"]["parameters"]["iterations"] = number
    path.write_text(json.dumps(data))
    assert fell_short(folder) is None


def test_an_interval_that_reaches_below_nothing_is_drawn_from_nothing(folder: Path) -> None:
    path = folder / records.RECORD_FILE
    data = json.loads(path.read_text())
    data["intervals"]["step_seconds"] = [-1, 1]
    path.write_text(json.dumps(data))
    assert fell_short(folder) is None
