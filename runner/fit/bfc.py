"""TensorFlow's BFC allocator, played without memory: would these requests fit under that cap?

Core: standard library only. What decides whether a trial runs out of memory is not only how many
bytes are live, but where its allocator has put them: it takes memory in regions that double in
size, best fit first, splits what is larger and merges neighbours that are free. Its rules are
simple and here they are, as of TensorFlow 2.20 (`xla/tsl/framework/bfc_allocator.cc`). Played with
the requests of a real trial they give its every chunk to the byte (`test_bfc`), so that the search
for the largest batch that fits knows where to look. It is not believed, though: what fits is for
real runs to say.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.trial.measure.requests import Requests

ALIGNMENT = 256
_FIRST_REGION = 2 << 20
_MOST_UNSPLIT = 128 << 20
"""A chunk that is larger than asked for by this much is split even if less than twice as large."""


class OutOfMemory(Exception):
    """The cap does not allow for that."""


@dataclass
class _Chunk:
    size: int
    free: bool
    before: int | None
    """The address of the neighbour below it, in the same region; `after`: of the one above."""
    after: int | None


@dataclass
class Pool:
    """An allocator under a cap. One that `grows` takes its regions as it needs them, as the CPU's
    does; the other takes the whole cap at once, as a GPU's does."""

    cap_bytes: int
    grows: bool = True
    region_bytes: int = 0
    """Taken so far, in regions."""
    _chunks: dict[int, _Chunk] = field(default_factory=dict)
    _free: list[tuple[int, int]] = field(default_factory=list)
    """Sizes and addresses, smallest first."""

    def __post_init__(self) -> None:
        self._next_region = _FIRST_REGION if self.grows else self.cap_bytes
        self._next_address = 1 << 60

    def allocate(self, requested_bytes: int) -> int:
        """The address, or `OutOfMemory`."""
        size = max(ALIGNMENT, -(-requested_bytes // ALIGNMENT) * ALIGNMENT)
        address = self._take(size)
        if address is None:
            self._extend(size)
            address = self._take(size)
        assert address is not None
        return address

    def free(self, address: int) -> None:
        chunk = self._chunks[address]
        if chunk.after is not None and self._chunks[chunk.after].free:
            self._free.remove((self._chunks[chunk.after].size, chunk.after))
            self._merge(address, chunk.after)
        if chunk.before is not None and self._chunks[chunk.before].free:
            before = chunk.before
            self._free.remove((self._chunks[before].size, before))
            self._merge(before, address)
            address, chunk = before, self._chunks[before]
        chunk.free = True
        insort(self._free, (chunk.size, address))

    def size_of(self, address: int) -> int:
        return self._chunks[address].size

    def _take(self, size: int) -> int | None:
        """The smallest free chunk that is large enough; what it has too much is split off."""
        place = bisect_left(self._free, (size, 0))
        if place == len(self._free):
            return None
        found, address = self._free.pop(place)
        chunk = self._chunks[address]
        chunk.free = False
        if found >= 2 * size or found - size >= _MOST_UNSPLIT:
            rest = address + size
            self._chunks[rest] = _Chunk(found - size, True, address, chunk.after)
            if chunk.after is not None:
                self._chunks[chunk.after].before = rest
            chunk.size, chunk.after = size, rest
            insort(self._free, (found - size, rest))
        return address

    def _extend(self, size: int) -> None:
        left = (self.cap_bytes - self.region_bytes) // ALIGNMENT * ALIGNMENT
        if size > left:
            raise OutOfMemory
        doubled = False
        while size > self._next_region:
            self._next_region *= 2
            doubled = True
        region = min(self._next_region, left)
        if not doubled:
            self._next_region *= 2
        self.region_bytes += region
        self._next_address -= region + ALIGNMENT  # as the kernel maps: each below the one before
        self._chunks[self._next_address] = _Chunk(region, True, None, None)
        insort(self._free, (region, self._next_address))

    def _merge(self, low: int, high: int) -> None:
        upper = self._chunks.pop(high)
        self._chunks[low].size += upper.size
        self._chunks[low].after = upper.after
        if upper.after is not None:
            self._chunks[upper.after].before = low


def fits(requests: Requests, sizes: Sequence[int], cap_bytes: int) -> bool:
    """Whether allocations of these sizes, made and freed in the order of `requests`, fit."""
    pool = Pool(cap_bytes, requests.grows)
    at: dict[int, int] = {}
    try:
        for number in requests.order:
            if number in at:
                pool.free(at.pop(number))
            else:
                at[number] = pool.allocate(sizes[number])
    except OutOfMemory:
        return False
    return True


def needs_bytes(requests: Requests) -> int:
    """The smallest cap under which they fit, to 64 kB."""
    low, high = 0, ALIGNMENT
    while not fits(requests, requests.bytes, high):
        low, high = high, high * 2
    while high - low > 1 << 16:
        middle = (low + high) // 2
        if fits(requests, requests.bytes, middle):
            high = middle
        else:
            low = middle
    return high
