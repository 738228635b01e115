"""The measurement of a test, or of a block of it that the fixture is put around."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from runner.errors import RunnerError
from runner.integrations.pytest_plugin.baseline import BaselineSession
from runner.integrations.pytest_plugin.limits import MemoryLimits, MemoryUse
from runner.meters.tensor.block import MemoryBlock
from runner.records import Phase

_MORE_CALLS = 5
"""A test that grows is called so often again, to find what becomes longer."""

T = TypeVar("T")


class _Measurement:
    """Begins phases of an item, and at its end fails the test, or notes what it took."""

    def __init__(
        self,
        item: pytest.Item,
        limits: MemoryLimits,
        session: BaselineSession | None,
        name: str = "",
    ) -> None:
        self._item = item
        self._limits = limits
        self._session = session
        self._name = name
        self._block: MemoryBlock | None = None

    def _begin(self, phase: Phase, step: int = 0) -> None:
        if self._block is None:
            self._block = self._try(MemoryBlock)
        self._block.begin(phase, step)

    def _end(self) -> MemoryUse:
        block, self._block = self._block, None
        assert block is not None
        taken = MemoryUse.of(self._try(block.finish))
        note = self._item.user_properties.append
        note((f"tf_memory_peak_bytes{self._name}", taken.peak_bytes))
        if taken.growth is not None:
            note((f"tf_memory_growth_bytes_per_step{self._name}", taken.growth.bytes_per_step))
        if taken.runs_graph:
            note((f"tf_memory_runs_graph{self._name}", True))
        return taken

    def _judge(self, taken: MemoryUse) -> None:
        problems = list(taken.list_excesses(self._limits))
        if self._session is not None:
            problems += self._session.list_problems(f"{self._item.nodeid}{self._name}", taken)
        if problems:
            text = [f"tf_memory{self._name}: {'; '.join(problems)}.", taken.table()]
            if taken.grows_beyond(self._limits):
                text += [f"Longer after each call: {holder}" for holder in self._list_holders()]
            pytest.fail("\n\n".join(text), pytrace=False)

    def _list_holders(self) -> list[str]:
        """Return what becomes longer from step to step, and the way to it; of steps that can't be
        repeated, nothing."""
        return []

    def abandon(self) -> None:
        """Measure no further; nothing is judged."""
        block, self._block = self._block, None
        if block is not None:
            block.abandon()

    def _try(self, act: Callable[[], T]) -> T:
        """Fail the test where a limit can't be checked."""
        try:
            return act()
        except RunnerError as error:
            self.abandon()
            pytest.fail(f"tf_memory: {error}", pytrace=False)


class ItemMeasurement(_Measurement):
    """A test with its own fixtures; called again where its growth is limited."""

    _begun = False

    def begin_fixtures(self) -> None:
        """Begin with the first of the test's own fixtures."""
        if not self._begun:
            self._begun = True
            self._begin(Phase.BUILD)

    def begin_call(self) -> None:
        """Begin the call of the test itself."""
        self._begin(Phase.FIRST_CALL)

    def end_call(self) -> None:
        """Call the test again where its growth is limited; judge what it took."""
        # A `unittest` test does not raise what made it fail.
        if getattr(self._item, "_excinfo", None):
            return self.abandon()
        if self._limits.growth is not None:
            for step in range(self._limits.steps):
                self._begin(Phase.STEPS, step)
                self._item.runtest()
        return self._judge(self._end())

    def _list_holders(self) -> list[str]:
        """Call the test some more times, between two looks at all containers."""
        from runner.meters.host.holders import HolderSearch

        search = HolderSearch()
        search.begin(is_traced=False)
        try:
            for _ in range(_MORE_CALLS):
                self._item.runtest()
        except Exception:  # of the test: what is known already is what it fails for
            return []
        containers = search.list_grown(_MORE_CALLS)
        return [" > ".join(container.chain) for container in containers]


class MeasuredBlock(_Measurement):
    """A block under way and, after it, what it took."""

    taken: MemoryUse | None = None

    def steps(self, iterable: Iterable[T]) -> Iterator[T]:
        """Yield the items, the work on each a step: what stays from one to the next is growth."""
        for number, item in enumerate(iterable):
            self._begin(Phase.STEPS, number)
            yield item
        if self._block is not None:
            self._block.end()

    @property
    def peak_bytes(self) -> int:
        """Return the most tensor bytes that were live at once."""
        return self._require_use().peak_bytes

    @property
    def growth_bytes_per_step(self) -> float | None:
        """Return the bytes that stay of each step; None where it can't be told."""
        return self._require_use().growth_bytes_per_step

    def table(self) -> str:
        """Return what was live at the peak, by line."""
        return self._require_use().table()

    def _require_use(self) -> MemoryUse:
        if self.taken is None:
            raise RuntimeError("what a block takes is known after it")
        return self.taken


class BlockFixture:
    """The fixture: called, it measures the block that it is put around."""

    def __init__(
        self, item: pytest.Item, limits: MemoryLimits | None, session: BaselineSession | None
    ) -> None:
        self._item = item
        self._limits = limits or MemoryLimits()
        self._session = session
        self._count = 0
        self._latest: MeasuredBlock | None = None

    @contextmanager
    def __call__(
        self, *, peak: str | float | None = None, growth: str | float | None = None
    ) -> Iterator[MeasuredBlock]:
        """Yield the block; fail the test after it where it took more."""
        if self._latest is not None and self._latest.taken is None:
            raise RuntimeError("a block within a block can't be measured")
        limits = self._limits.update({"peak": peak, "growth": growth}, "tf_memory ")
        self._count += 1
        name = f" #{self._count}" if self._count > 1 else ""
        block = self._latest = MeasuredBlock(self._item, limits, self._session, name)
        block._begin(Phase.FIRST_CALL)
        try:
            yield block
        except BaseException:
            self._latest = None
            block.abandon()
            raise
        block.taken = block._end()
        block._judge(block.taken)

    def abandon(self) -> None:
        """Measure no further."""
        if self._latest is not None:
            self._latest.abandon()
