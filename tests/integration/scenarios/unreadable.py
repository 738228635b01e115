"""A scenario whose module can't be imported: it forgot an import of its own."""

from __future__ import annotations


@dataclass(frozen=True)  # type: ignore[name-defined]  # noqa: F821
class Thing:
    size: int
