"""No process of the product's is started here: such a test lies in `tests/integration`."""

from __future__ import annotations

import pytest

STARTERS = (
    "runner.processes.children.Zygote.__init__",
    "runner.store.background.BackgroundPublisher.__init__",
)


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process of the product's is started: move this to integration")

    for starter in STARTERS:
        monkeypatch.setattr(starter, refuse)
