"""The callback for `model.fit`: `from runner.keras import MemoryCallback`."""

from __future__ import annotations

import importlib

MemoryCallback = importlib.import_module("runner.integrations.keras_callback").MemoryCallback
