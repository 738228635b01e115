"""What the recorder notes where a window is closed in the midst of a call."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from runner.meters.clock import Clock
from runner.meters.tensor.call_recorder import CallRecorder
from runner.meters.tensor.recording import Site


def test_a_window_may_be_closed_while_a_conversion_is_noted() -> None:
    recorder = CallRecorder()
    recorder._marking = threading.get_ident()
    recorder._context = SimpleNamespace(_context=None)
    recording = recorder.recording
    number_site, is_closed = recording.number_site, []

    def close_window(site: Site) -> int:
        """Do what the signal's handler does: Python may run it at any call."""
        number = number_site(site)
        if site.output and not is_closed:
            is_closed.append(recording.forget(Clock.epoch_ns()))
        return number

    recording.number_site = close_window  # type: ignore[method-assign]
    tensor = SimpleNamespace(_shape_tuple=lambda: (3,), _datatype_enum=lambda: 1)
    convert = recorder._wrap_conversion(lambda: tensor)
    assert convert() is tensor
    assert is_closed, "or nothing was tried"
    assert convert() is tensor
    log = recorder._find_log()
    noted = [recording.sites[each].output for each in log.sites if each >= 0]
    assert noted == [((3,), 1)], "what was closed is forgotten, what comes after is noted"
