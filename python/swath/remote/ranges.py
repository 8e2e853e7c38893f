"""Converts the spans that the engine reads to ranges that a store is asked for.

Each request has a fixed latency. Neighbouring spans are therefore fetched as one range, and headers, which the engine
reads piece by piece, are fetched ahead and cached.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from .._settings import number, workers
from .._swath import coalesce

OVERVIEWS = ".ovr"
"""The suffix of a file with overviews."""
HEAD_BYTES = 16 << 10
"""The number of bytes that are fetched when a file is opened."""
COALESCE_GAP = 1 << 20
MAX_COALESCED_RANGE_BYTES = 256 << 20
MAX_AHEAD = 1 << 20
"""The largest read-ahead for headers: the tile tables of a few hundred thousand tiles have this size."""
PART_BYTES = 8 << 20
"""Ranges up to this size are fetched with one request."""
KEPT_BLOCKS = 1024

_BLOCK = HEAD_BYTES
_SMALL = 4 << 10
"""A single span up to this size counts as a piece of a header."""


class Store(Protocol):
    """A remote file. `head` holds its first bytes, which were fetched when it was opened."""

    name: str
    size: int
    head: bytes

    @property
    def identity(self) -> tuple[str | int | None, ...]:
        """Values that change with the content."""

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Returns the complete bytes from start to stop of each range.

        It sends all requests before it waits for the first reply.
        """

    def beside(self, suffix: str) -> Store | None:
        """Returns the file whose name is this one plus a suffix."""


def cut(start: int, stop: int, length: int) -> list[tuple[int, int]]:
    """Splits a range into parts of at most this length."""
    return [(at, min(at + length, stop)) for at in range(start, stop, length)] or [(start, stop)]


class RemoteFile:
    """Adapts a remote file for the engine."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name
        self.size = store.size
        self._lock = threading.Lock()
        self._blocks: dict[int, bytes] = {}
        self._ahead = _BLOCK
        self._keep(0, store.head)

    def fetch(self, spans: list[tuple[int, int]]) -> list[bytes]:
        """Returns the complete bytes of all (offset, length) spans."""
        found = [self._kept(offset, length) for offset, length in spans]
        missing = [i for i, data in enumerate(found) if data is None]
        if missing and len(spans) == 1 and spans[0][1] <= _SMALL:
            return [self._fetch_ahead(*spans[0])]
        for i, data in zip(missing, self._fetch([spans[i] for i in missing]), strict=True):
            found[i] = data
        return [data for data in found if data is not None]

    def sibling(self, name: str) -> RemoteFile | None:
        """Returns the `.ovr` file of this file. Other sidecars are not searched, because each search is a request."""
        if name != self.name + OVERVIEWS:
            return None
        # Some servers answer every name with an HTML page; the engine detects that it is not a TIFF.
        store = self.store.beside(OVERVIEWS)
        return None if store is None else RemoteFile(store)

    def _fetch(self, spans: list[tuple[int, int]]) -> list[bytes]:
        gap = number("COALESCE_GAP", COALESCE_GAP, least=-(1 << 62))
        most = number("MAX_COALESCED_RANGE_BYTES", MAX_COALESCED_RANGE_BYTES)
        ranges = coalesce(spans, gap, most)
        if not ranges:
            return []
        out = [b""] * len(spans)
        # The throughput of one connection is limited, so a long range is split into as many parts as can be requested
        # at once: 60 MiB at 40 MB/s per connection take 0.38 s instead of 1.61 s.
        part = max(PART_BYTES, -(-sum(stop - start for start, stop, _ in ranges) // workers()))
        parts = [cut(start, stop, part) for start, stop, _ in ranges]
        fetched = iter(self.store.read_many([one for some in parts for one in some]))
        for (start, _, members), some in zip(ranges, parts, strict=True):
            data = next(fetched) if len(some) == 1 else b"".join(next(fetched) for _ in some)
            for i in members:
                offset, length = spans[i]
                out[i] = data[offset - start : offset - start + length]
        return out

    def _fetch_ahead(self, offset: int, length: int) -> bytes:
        """Fetches a piece of a header with the bytes after it: twice as many if the piece continues cached bytes."""
        start = offset // _BLOCK * _BLOCK
        with self._lock:
            goes_on = start // _BLOCK - 1 in self._blocks
            self._ahead = min(2 * self._ahead, MAX_AHEAD) if goes_on else _BLOCK
            ahead = self._ahead
        stop = -(-(offset + length + ahead) // _BLOCK) * _BLOCK
        (data,) = self.store.read_many([(start, max(min(stop, self.size), offset + length))])
        self._keep(start, data)
        return data[offset - start : offset - start + length]

    def _keep(self, start: int, data: bytes) -> None:
        """Caches whole blocks, and the last block of the file."""
        with self._lock:
            for at in range(0, len(data), _BLOCK):
                block = data[at : at + _BLOCK]
                if len(block) == _BLOCK or start + at + len(block) == self.size:
                    self._blocks[(start + at) // _BLOCK] = block
            while len(self._blocks) > KEPT_BLOCKS:
                del self._blocks[next(iter(self._blocks))]

    def _kept(self, offset: int, length: int) -> bytes | None:
        """Returns cached bytes."""
        if length == 0:
            return b""
        blocks = []
        for i in range(offset // _BLOCK, (offset + length - 1) // _BLOCK + 1):
            block = self._blocks.get(i)
            if block is None:
                return None
            blocks.append(block)
        data = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        inside = offset % _BLOCK
        return data[inside : inside + length] if inside + length <= len(data) else None
