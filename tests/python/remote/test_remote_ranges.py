"""From the engine's spans to requests of a store: few requests, and the exact bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath._swath import coalesce
from swath.remote.ranges import HEAD_BYTES, MAX_AHEAD, RemoteFile

DATA = bytes(i * 31 % 253 for i in range(1 << 20))


class Recorder:
    """A store that records its requests."""

    def __init__(self, data: bytes = DATA, beside: dict[str, bytes] | None = None) -> None:
        self.name = "https://host/a.tif?key=1"
        self.data = data
        self.size = len(data)
        self.head = data[:HEAD_BYTES]
        self.calls: list[list[tuple[int, int]]] = []
        self.others = beside or {}

    @property
    def identity(self) -> tuple[str | int | None, ...]:
        return (self.size,)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.calls.append(list(ranges))
        assert all(0 <= start < stop <= self.size for start, stop in ranges)
        return [self.data[start:stop] for start, stop in ranges]

    def beside(self, suffix: str) -> Recorder | None:
        self.calls.append([])
        return Recorder(self.others[suffix]) if suffix in self.others else None


spans_of_data = st.lists(st.tuples(st.integers(0, len(DATA) - 5000), st.integers(0, 5000)), max_size=20)


@given(spans=spans_of_data, gap=st.integers(-1, 20_000), most=st.integers(1, 50_000))
def test_ranges_hold_their_spans_and_keep_to_gap_and_size(spans: list[tuple[int, int]], gap: int, most: int) -> None:
    ranges = coalesce(spans, gap, most)
    assert sorted(i for _, _, members in ranges for i in members) == list(range(len(spans)))
    for start, stop, members in ranges:
        assert all(start <= spans[i][0] and sum(spans[i]) <= stop for i in members)
        assert len(members) == 1 or (gap >= 0 and stop - start <= most)
        covered = sorted((spans[i][0], sum(spans[i])) for i in members)
        reached = covered[0][1]
        for begin, end in covered[1:]:
            assert begin - reached <= gap
            reached = max(reached, end)


@given(batches=st.lists(spans_of_data.filter(bool), max_size=6))
def test_every_span_gets_its_bytes_after_any_earlier_requests(batches: list[list[tuple[int, int]]]) -> None:
    file = RemoteFile(Recorder())
    for spans in batches:
        assert file.fetch(spans) == [DATA[offset : offset + length] for offset, length in spans]


def test_near_spans_are_one_request_and_far_ones_one_batch() -> None:
    store = Recorder(bytes(8 << 20))
    RemoteFile(store).fetch([(100_000, 10), (1_100_000, 10), (5_000_000, 10), (200_000, 5)])
    assert store.calls == [[(100_000, 1_100_010), (5_000_000, 5_000_010)]]


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("SWATH_COALESCE_GAP", "-1", [(100_000, 100_010), (100_010, 100_020), (100_100, 100_110)]),
        ("SWATH_COALESCE_GAP", "0", [(100_000, 100_020), (100_100, 100_110)]),
        ("SWATH_COALESCE_GAP", "80", [(100_000, 100_110)]),
        ("SWATH_COALESCE_GAP", "nonsense", [(100_000, 100_110)]),
        ("SWATH_MAX_COALESCED_RANGE_BYTES", "20", [(100_000, 100_020), (100_100, 100_110)]),
        ("SWATH_MAX_COALESCED_RANGE_BYTES", "5", [(100_000, 100_010), (100_010, 100_020), (100_100, 100_110)]),
        ("SWATH_MAX_COALESCED_RANGE_BYTES", "0", [(100_000, 100_110)]),
    ],
)
def test_the_environment_sets_which_ranges_are_merged(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: list[tuple[int, int]]
) -> None:
    monkeypatch.setenv(variable, value)
    store = Recorder()
    RemoteFile(store).fetch([(100_000, 10), (100_010, 10), (100_100, 10)])
    assert store.calls == [expected]


def test_a_long_range_comes_in_as_many_parts_as_can_be_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWATH_HTTP_WORKERS", "4")
    data = bytes(range(256)) * (160 << 10)
    store = Recorder(data)
    start, length = 20_000, len(data) - 20_001
    assert RemoteFile(store).fetch([(start, length), (30_000, 8)]) == [
        data[start : start + length],
        data[30_000:30_008],
    ]
    (parts,) = store.calls
    assert len(parts) == 4
    assert [part[1] for part in parts[:-1]] == [part[0] for part in parts[1:]]


def test_the_head_is_not_fetched_again() -> None:
    store = Recorder()
    assert RemoteFile(store).fetch([(0, 8), (100, 4000), (16_000, 384)]) == [
        DATA[:8],
        DATA[100:4100],
        DATA[16_000:16_384],
    ]
    assert store.calls == []


def test_a_header_at_the_end_of_a_large_file_takes_one_request() -> None:
    store = Recorder()
    file = RemoteFile(store)
    at = len(DATA) - 9_000
    for offset, length in [(at, 2), (at + 2, 120), (at + 122, 4), (at + 2_000, 4_000), (len(DATA) - 5, 5), (at, 2)]:
        assert file.fetch([(offset, length)]) == [DATA[offset : offset + length]]
    assert len(store.calls) == 1


def test_a_long_header_is_fetched_in_steps_that_grow() -> None:
    store = Recorder(bytes(8 << 20))
    file = RemoteFile(store)
    for offset in range(0, 4 << 20, 2000):
        file.fetch([(offset, 2000)])
    assert len(store.calls) < 12
    assert max(stop - start for ((start, stop),) in store.calls) <= MAX_AHEAD + 2 * HEAD_BYTES


def test_small_reads_here_and_there_do_not_fetch_much_more_than_they_need() -> None:
    store = Recorder()
    file = RemoteFile(store)
    for offset in range(100_000, 1_000_000, 90_000):
        file.fetch([(offset, 500)])
    assert all(stop - start <= 3 * HEAD_BYTES for ((start, stop),) in store.calls)


def test_a_tile_alone_is_fetched_exactly() -> None:
    store = Recorder()
    RemoteFile(store).fetch([(300_001, 20_000)])
    assert store.calls == [[(300_001, 320_001)]]


def test_cache_is_bounded() -> None:
    store = Recorder(bytes(64 << 20))
    file = RemoteFile(store)
    for offset in range(0, 64 << 20, 65_536):
        file.fetch([(offset, 100)])
    assert len(file._blocks) <= 1024


def test_overviews_beside_the_file_are_looked_for_once_and_other_files_never() -> None:
    store = Recorder(beside={".ovr": b"II*\0" + bytes(100)})
    file = RemoteFile(store)
    assert [file.sibling(file.name + suffix) for suffix in (".msk", ".aux.xml")] == [None, None]
    assert file.sibling("https://host/a.tfw") is None
    assert store.calls == []
    beside = file.sibling(file.name + ".ovr")
    assert beside is not None and beside.size == 104
