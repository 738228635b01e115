"""The comparisons that a claim may name, one class a file. Another is another file: whatever module
lies here is looked at, and nothing else needs to know of it.

Core: standard library only.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from runner.claims.expectation import Expectation


def find_comparisons() -> dict[str, type[Expectation]]:
    modules = (importlib.import_module(f"{__name__}.{module.name}")
               for module in pkgutil.iter_modules(__path__))  # fmt: skip
    return {
        kind.word: kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Expectation)
        if kind.__module__ == module.__name__
    }
