"""What a measurement tells the store, and what the store says of it."""

from __future__ import annotations

from pathlib import Path

from runner.config import Tracking
from runner.engine.events import MeasurementEnded, MeasurementStarted, Result
from runner.store.listener import StoreListener
from runner.store.location import LOCAL_UI
from runner.store.publisher import Published

NONE = Tracking("none", None, "runner")


def test_pages_that_nobody_serves_yet_come_with_the_command_that_does() -> None:
    sweep = Published("s", f"{LOCAL_UI}/run", f"{LOCAL_UI}/table", f"{LOCAL_UI}/charts")
    text = StoreListener(NONE, Path("s"), sweep).text
    assert f"MLflow   {LOCAL_UI}/table" in text
    assert f"charts   {LOCAL_UI}/charts" in text
    assert "python -m runner ui" in text
    elsewhere = Published("r", "http://elsewhere/run")
    assert "runner ui" not in StoreListener(NONE, Path("r"), elsewhere).text


def test_no_tracking_starts_no_process(tmp_path: Path) -> None:
    listener = StoreListener(NONE, tmp_path)
    listener.on(MeasurementStarted(tmp_path))
    listener.on(MeasurementEnded(tmp_path, Result(tmp_path, ())))
    listener.close()
    assert listener._publisher is None
    assert listener.text == ""
