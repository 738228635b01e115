"""TensorFlow's BFC allocator, played without memory: would these requests fit under that cap?

Core: standard library only. What decides whether a trial runs out of memory is not only how many
bytes are live, but where its allocator has put them: it takes memory in regions that double in
size, best fit first, splits what is larger and merges neighbours that are free. Its rules are
simple and here they are, as of TensorFlow 2.20 (`xla/tsl/framework/bfc_allocator.cc`). Played with
the requests of a real trial they give its every chunk to the byte (`test_bfc`), so that the search
for the largest batch that fits knows where to look. Only real runs decide what fits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.facts import RequestSequence

ALIGNMENT = 256
_FIRST_REGION = 2 << 20
_MOST_UNSPLIT = 128 << 20
"""A chunk that is larger than asked for by this much is split even if less than twice as large."""


class OutOfMemory(Exception):
    """The cap does not allow for that."""


@dataclass
class _Chunk:
    """A part of a region, free or not, with the addresses of its neighbours in that region."""

    size: int
    is_free: bool
    before: int | None
    after: int | None


@dataclass(frozen=True)
class Requests:
    """A trial's requests to its allocator: an entry an allocation, by birth."""

    bytes: tuple[int, ...]
    labels: tuple[str, ...]
    """The op, or the span, that asked for each."""
    order: tuple[int, ...]
    """Numbers of allocations: each where it is made, and a second time where it is freed."""
    grows: bool = True
    """The allocator takes its regions as it needs them, as `BfcAllocator`."""

    @staticmethod
    def of(sequence: RequestSequence, *, grows: bool) -> Requests:
        """Return the sequence of a trial, to be played in a pool that grows or does not."""
        labels = tuple(sequence.names[code] for code in sequence.labels)
        return Requests(sequence.bytes, labels, sequence.order, grows)


@dataclass
class BfcAllocator:
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
        """Return the address of a new chunk; raise `OutOfMemory` where the cap forbids it."""
        size = max(ALIGNMENT, -(-requested_bytes // ALIGNMENT) * ALIGNMENT)
        address = self._take(size)
        if address is None:
            self._extend(size)
            address = self._take(size)
        assert address is not None
        return address

    def free(self, address: int) -> None:
        """Give a chunk back, merged with its neighbours that are free."""
        chunk = self._chunks[address]
        if chunk.after is not None and self._chunks[chunk.after].is_free:
            self._free.remove((self._chunks[chunk.after].size, chunk.after))
            self._merge(address, chunk.after)
        if chunk.before is not None and self._chunks[chunk.before].is_free:
            before = chunk.before
            self._free.remove((self._chunks[before].size, before))
            self._merge(before, address)
            address, chunk = before, self._chunks[before]
        chunk.is_free = True
        insort(self._free, (chunk.size, address))

    def get_size(self, address: int) -> int:
        """Return the bytes of a chunk, with what it has too much."""
        return self._chunks[address].size

    def _take(self, size: int) -> int | None:
        """Return the smallest free chunk that is large enough, its surplus split off."""
        place = bisect_left(self._free, (size, 0))
        if place == len(self._free):
            return None
        free_size, address = self._free.pop(place)
        chunk = self._chunks[address]
        chunk.is_free = False
        if free_size >= 2 * size or free_size - size >= _MOST_UNSPLIT:
            rest = address + size
            self._chunks[rest] = _Chunk(free_size - size, True, address, chunk.after)
            if chunk.after is not None:
                self._chunks[chunk.after].before = rest
            chunk.size, chunk.after = size, rest
            insort(self._free, (free_size - size, rest))
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


def can_fit(requests: Requests, sizes: Sequence[int], cap_bytes: int) -> bool:
    """Return True if allocations of these sizes fit, made and freed in the order of `requests`."""
    allocator = BfcAllocator(cap_bytes, requests.grows)
    at: dict[int, int] = {}
    try:
        for number in requests.order:
            if number in at:
                allocator.free(at.pop(number))
            else:
                at[number] = allocator.allocate(sizes[number])
    except OutOfMemory:
        return False
    return True


def find_needed_bytes(requests: Requests) -> int:
    """Return the smallest cap under which they fit, to 64 kB."""
    low, high = 0, ALIGNMENT
    while not can_fit(requests, requests.bytes, high):
        low, high = high, high * 2
    while high - low > 1 << 16:
        middle = (low + high) // 2
        if can_fit(requests, requests.bytes, middle):
            high = middle
        else:
            low = middle
    return high
