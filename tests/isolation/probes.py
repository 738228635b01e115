"""Scenarios that say something about the child they run in, by failing with it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from runner.scenario import Bench, Executions, Step


@dataclass(frozen=True)
class Modules:
    """Which of these modules are loaded?"""

    executions: ClassVar[Executions] = ("eager",)

    names: tuple[str, ...]

    def build(self, bench: Bench) -> Step:
        raise LookupError(f"loaded: {[name for name in self.names if name in sys.modules]}")
