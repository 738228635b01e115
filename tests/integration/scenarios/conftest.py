"""The type of the fixture `measure` (see tests/conftest.py): words in, a record out."""

from tests.conftest import MeasureWords as Measure

__all__ = ["Measure"]
