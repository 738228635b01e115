"""What a measurement tells the store, and what the store says of it."""

from __future__ import annotations

from pathlib import Path

from runner.config import Tracking
from runner.engine.events import MeasurementEnded, MeasurementStarted, Result
from runner.store.listener import StoreListener
from runner.store.location import LOCAL_UI, Links

NONE = Tracking("none", None, "runner")


def test_pages_that_nobody_serves_yet_come_with_the_command_that_does() -> None:
    links = Links(f"{LOCAL_UI}/runs", f"{LOCAL_UI}/compared")
    text = StoreListener(NONE, Path("s"), is_sweep=True, pages=links).text
    assert f"MLflow   {LOCAL_UI}/runs" in text
    assert f"charts   {LOCAL_UI}/compared" in text
    assert "python -m runner ui" in text
    assert "runner ui" not in StoreListener(NONE, Path("r"), pages="http://elsewhere/run").text


def test_no_tracking_starts_no_process(tmp_path: Path) -> None:
    listener = StoreListener(NONE, tmp_path)
    listener.on(MeasurementStarted(tmp_path))
    listener.on(MeasurementEnded(tmp_path, Result(tmp_path, ())))
    listener.close()
    assert listener._client is None
    assert listener.text == ""
