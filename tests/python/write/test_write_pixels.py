"""Equal pixels give equal bytes in any memory layout, and each chunk is computed only once."""

from __future__ import annotations

import io
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import swath


def image(shape: tuple[int, ...], code: str = "u2") -> np.ndarray[Any, Any]:
    values = np.random.default_rng(7).integers(0, 200, shape)
    smooth = np.add.outer(np.arange(shape[-2]), np.arange(shape[-1])) // 3
    return (values // 8 + smooth).astype(code)


def bytes_of(data: Any, tmp_path: Path, **options: Any) -> bytes:
    path = tmp_path / "it.tif"
    swath.to_geotiff(data, path, **options)
    return path.read_bytes()


def bands_last(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(np.moveaxis(array, 0, -1))


LAYOUTS: dict[str, dict[str, Any]] = {
    "tiles": {"tile_size": 64},
    "strips": {"tiled": False},
    "cog": {"tile_size": 32, "cog": True, "compression": "deflate", "predictor": 2},
    "bands apart": {"tile_size": 64, "interleave": "band", "statistics": True},
}


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
def test_order_and_bytes_in_memory_do_not_show_in_the_file(options: dict[str, Any], tmp_path: Path) -> None:
    first = image((3, 150, 201), "i4")
    last = bands_last(first)
    expected = bytes_of(last, tmp_path, **options)
    dims_first, dims_last = ("band", "y", "x"), ("y", "x", "band")
    wide = np.zeros((300, 402, 6), "i4")
    wide[::2, 1::2, ::2] = last
    others: dict[str, Any] = {
        "band first": xr.DataArray(first, dims=dims_first),
        "band first seen as last": xr.DataArray(np.moveaxis(first, 0, -1), dims=dims_last),
        "band last seen as first": xr.DataArray(np.moveaxis(last, -1, 0), dims=dims_first),
        "fortran": np.asfortranarray(last),
        "big endian": last.astype(">i4"),
        "big endian band first": xr.DataArray(first.astype(">i4"), dims=dims_first),
        "every second": wide[::2, 1::2, ::2],
        "upside down": last[::-1, ::-1].copy()[::-1, ::-1],
        "read only": _read_only(last),
        "dask": da.from_array(last, chunks=(40, 70, 2)),
    }
    for name, data in others.items():
        assert bytes_of(data, tmp_path, **options) == expected, name


def _read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array = array.copy()
    array.flags.writeable = False
    return array


CHUNKS = [-1, 1000, (1, 201), (150, 1), (7, 13), (64, 64), ((3, 0, 100, 47), (200, 1)), (149, 201), (33, 201)]


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
def test_chunks_do_not_show_in_the_file(options: dict[str, Any], tmp_path: Path) -> None:
    array = image((150, 201), "f4")
    array[20:40, 50:90] = np.nan
    expected = bytes_of(array, tmp_path, nodata=-1.0, **options)
    for chunks in CHUNKS:
        lazy = da.from_array(array, chunks=chunks)
        assert bytes_of(lazy, tmp_path, nodata=-1.0, **options) == expected, chunks
        for limit in (1, 0, float("inf"), 10**30):
            written = bytes_of(lazy, tmp_path, nodata=-1.0, streaming_buffer_bytes=limit, threads=1, **options)
            assert written == expected


def test_a_file_object_gets_the_same_bytes(tmp_path: Path) -> None:
    array = image((150, 201))
    expected = bytes_of(array, tmp_path)
    for data in (array, da.from_array(array, chunks=50)):
        target = io.BytesIO(b"x" * 1_000_000)
        target.seek(17)
        assert swath.to_geotiff(data, target) is target
        assert target.getvalue() == expected


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("?", "uint8"),
        ("f2", "float32"),
        (">f8", "float64"),
        ("c8", "complex64"),
        (">c16", "complex128"),
        ("i1", "int8"),
    ],
)
def test_types_are_stored_alike_from_all_kinds_of_arrays(given: str, stored: str, tmp_path: Path) -> None:
    array = (image((40, 50), "i4") % 2).astype(given)
    expected = bytes_of(array, tmp_path)
    assert str(swath.open_geotiff(tmp_path / "it.tif").dtype) == stored
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, array.astype(stored))
    assert bytes_of(da.from_array(array, chunks=(7, 50)), tmp_path) == expected
    assert bytes_of(np.asfortranarray(array), tmp_path) == expected


@pytest.mark.parametrize("code", ["O", "M8[ns]", "m8[s]", "U3", "g"])
def test_types_that_a_tiff_cannot_hold_are_refused(code: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unsupported numpy dtype"):
        swath.to_geotiff(np.zeros((3, 3), code), tmp_path / "it.tif")
    assert not list(tmp_path.iterdir())


class Counting:
    """A dask array that counts how often each chunk is computed."""

    def __init__(self, array: np.ndarray[Any, Any], chunks: Any) -> None:
        self.made: Counter[tuple[int, ...]] = Counter()
        self.lock = threading.Lock()
        template = da.from_array(array, chunks=chunks)

        def make(block_info: Any = None) -> np.ndarray[Any, Any]:
            location = block_info[None]["array-location"]
            with self.lock:
                self.made[tuple(start for start, _ in location)] += 1
            return array[tuple(slice(*span) for span in location)]

        self.array = da.map_blocks(make, chunks=template.chunks, dtype=array.dtype, meta=np.empty((0,) * array.ndim))
        self.chunks = template.npartitions


@pytest.mark.parametrize("options", [*LAYOUTS.values(), {"color_ramp": "viridis", "cog": True}])
@pytest.mark.parametrize("chunks", [(7, 13), (64, 100), (1000, 50), (31, -1)])
def test_each_chunk_is_computed_once(options: dict[str, Any], chunks: Any, tmp_path: Path) -> None:
    counting = Counting(image((150, 201)), chunks)
    swath.to_geotiff(counting.array, tmp_path / "it.tif", streaming_buffer_bytes=10_000, **options)
    assert set(counting.made.values()) == {1}
    assert len(counting.made) == counting.chunks


def test_chunked_bands_are_computed_once(tmp_path: Path) -> None:
    array = image((5, 90, 80))
    counting = Counting(array, (2, 20, 80))
    swath.to_geotiff(xr.DataArray(counting.array, dims=("band", "y", "x")), tmp_path / "it.tif", tile_size=32)
    assert set(counting.made.values()) == {1}
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, np.moveaxis(array, 0, -1))


@pytest.mark.parametrize("dims", [("y", "x"), ("band", "y", "x"), ("y", "x", "band")], ids=lambda dims: " ".join(dims))
@pytest.mark.parametrize("rows", [11, 40, 64, 150])
def test_large_chunks_are_computed_once_and_give_the_same_bytes(
    dims: tuple[str, ...], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = image(tuple({"y": 150, "x": 201, "band": 5}[dim] for dim in dims))
    options = {"cog": True, "tile_size": 32, "streaming_buffer_bytes": 10_000}
    expected = bytes_of(xr.DataArray(array, dims=dims), tmp_path, **options)
    monkeypatch.setattr("swath.write.stream._LARGE_CHUNK_ROW", 1)
    monkeypatch.setattr("swath.write.stream._PART_ROWS", 9)
    counting = Counting(array, tuple({"y": rows, "x": 70, "band": 2}[dim] for dim in dims))
    assert bytes_of(xr.DataArray(counting.array, dims=dims), tmp_path, **options) == expected
    assert set(counting.made.values()) == {1}


def test_large_masked_chunks_keep_their_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.ma.masked_less(image((150, 201), "i4"), 30)
    expected = bytes_of(array, tmp_path, nodata=-1)
    monkeypatch.setattr("swath.write.stream._LARGE_CHUNK_ROW", 1)
    assert bytes_of(da.from_array(array, chunks=(70, 90)), tmp_path, nodata=-1) == expected


@pytest.mark.parametrize("scheduler", ["threads", "synchronous", "processes"])
def test_any_scheduler(scheduler: str, tmp_path: Path) -> None:
    array = image((60, 70))
    with dask.config.set(scheduler=scheduler):
        swath.to_geotiff(da.from_array(array, chunks=30), tmp_path / "it.tif", cog=True)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, array)


def test_a_distributed_client_computes_and_a_worker_may_write(tmp_path: Path) -> None:
    from distributed import Client

    array = image((60, 70))
    # One thread: a write that waits for its own worker would never end.
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        lazy = da.from_array(array, chunks=30)
        swath.to_geotiff(lazy, tmp_path / "here.tif")
        later = swath.to_geotiff(lazy, tmp_path / "there.tif", compute=False)
        assert not (tmp_path / "there.tif").exists()
        assert client.compute(later).result(timeout=60) == str(tmp_path / "there.tif")
    assert (tmp_path / "here.tif").read_bytes() == (tmp_path / "there.tif").read_bytes()


@pytest.mark.parametrize("lazy", [False, True])
def test_delayed_writes_when_it_is_computed(lazy: bool, tmp_path: Path) -> None:
    counting = Counting(image((150, 201)), (40, 201))
    path = tmp_path / "it.tif"
    later = swath.to_geotiff(counting.array if lazy else image((150, 201)), path, compute=False)
    assert not path.exists() and not counting.made
    assert dask.compute(later) == (str(path),)
    np.testing.assert_array_equal(swath.open_geotiff(path).values, image((150, 201)))
    assert not lazy or set(counting.made.values()) == {1}


def test_delayed_checks_its_arguments_at_once(tmp_path: Path) -> None:
    with pytest.raises(swath.UnparseableCRSError):
        swath.to_geotiff(image((4, 4)), tmp_path / "it.tif", crs="EPSG:999999", compute=False)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
@pytest.mark.parametrize("cog", [False, True])
def test_exception_of_a_chunk_is_raised_and_the_old_file_stays(
    error: type[BaseException], cog: bool, tmp_path: Path
) -> None:
    def make(block_info: Any = None) -> np.ndarray[Any, Any]:
        if block_info[None]["chunk-location"][0] == 2:
            raise error("in a chunk")
        return np.zeros((50, 60), "u2")

    lazy = da.map_blocks(make, chunks=((50,) * 4, (60,)), dtype="u2", meta=np.empty((0, 0), "u2"))
    path = tmp_path / "it.tif"
    path.write_bytes(b"old")
    with dask.config.set(scheduler="synchronous"), pytest.raises(error, match="in a chunk"):
        swath.to_geotiff(lazy, path, cog=cog, tile_size=16, streaming_buffer_bytes=1)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["it.tif"]
    target = io.BytesIO(b"old")
    with dask.config.set(scheduler="synchronous"), pytest.raises(error):
        swath.to_geotiff(lazy, target)
    assert target.getvalue() == b"old"


def test_a_graph_with_wrong_chunk_sizes_is_an_error(tmp_path: Path) -> None:
    lazy = da.map_blocks(lambda block: block[:-1], da.zeros((40, 50), chunks=20), dtype="f8")
    with pytest.raises(ValueError, match="chunks"):
        swath.to_geotiff(lazy, tmp_path / "it.tif")
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        swath.to_geotiff(lazy[lazy[:, 0] > 0], tmp_path / "it.tif")
    assert not list(tmp_path.iterdir())


def test_progress_counts_all_bytes_and_can_stop(tmp_path: Path) -> None:
    array = image((500, 300))
    seen: list[tuple[int, int]] = []
    swath.to_geotiff(array, tmp_path / "it.tif", tile_size=16, progress=lambda *step: seen.append(step))
    assert seen[-1] == (array.nbytes, array.nbytes)
    assert seen == sorted(seen)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swath.to_geotiff(array, tmp_path / "other.tif", tile_size=16, progress=stop)
    assert os.listdir(tmp_path) == ["it.tif"]


@pytest.mark.parametrize("has_tqdm", [False, True])
def test_a_progress_bar_is_shown_and_removed(
    has_tqdm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not has_tqdm:
        monkeypatch.setattr("swath.write.progress._tqdm", lambda: None)
    swath.to_geotiff(image((100, 100)), tmp_path / "it.tif", progress=True)
    shown = capsys.readouterr()
    assert shown.err and not shown.out
    assert has_tqdm or "100 %" in shown.err


def test_masked_pixels_become_nodata(tmp_path: Path) -> None:
    values = image((30, 40), "i2")
    masked = np.ma.masked_less(values, 20)
    for data in (masked, da.from_array(masked, chunks=7), masked[::-1][::-1]):
        swath.to_geotiff(data, tmp_path / "it.tif", nodata=-5)
        np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, np.where(values < 20, -5, values))
    with pytest.raises(ValueError, match="nodata"):
        swath.to_geotiff(masked, tmp_path / "it.tif")
    swath.to_geotiff(masked.astype("f4"), tmp_path / "it.tif")
    np.testing.assert_array_equal(np.isnan(swath.open_geotiff(tmp_path / "it.tif").values), values < 20)
    swath.to_geotiff(np.ma.masked_array(values), tmp_path / "it.tif")
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, values)


def test_arrays_by_dlpack(tmp_path: Path) -> None:
    class Tensor:
        """An array of another library that has only DLPack."""

        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self._array = array

        def __dlpack__(self, **keywords: Any) -> Any:
            return self._array.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self._array.__dlpack_device__()

    array = image((30, 40), "f4")
    assert bytes_of(Tensor(array), tmp_path) == bytes_of(array, tmp_path)
    assert bytes_of(Tensor(array[::2]), tmp_path) == bytes_of(array[::2].copy(), tmp_path)


def test_nan_becomes_nodata_and_the_array_stays(tmp_path: Path) -> None:
    array = image((30, 40), "f4")
    array[3:5] = np.nan
    before = array.copy()
    swath.to_geotiff(array, tmp_path / "it.tif", nodata=-1)
    np.testing.assert_array_equal(
        swath.open_geotiff(tmp_path / "it.tif").values, np.where(np.isnan(before), -1, before)
    )
    np.testing.assert_array_equal(array, before)
    raw = xr.DataArray(array, dims=("y", "x"), attrs={"masked_nodata": False})
    swath.to_geotiff(raw, tmp_path / "it.tif", nodata=-1)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, before)


def test_a_big_array_is_not_copied_as_a_whole(tmp_path: Path) -> None:
    """64 MB of big-endian columns: NumPy allocates only a few rows of tiles meanwhile."""
    import tracemalloc

    array = np.asfortranarray(np.zeros((4096, 2048), ">f8"))
    tracemalloc.start()
    try:
        swath.to_geotiff(array, tmp_path / "it.tif")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < array.nbytes / 2


def test_report_and_last_report_are_equal(tmp_path: Path) -> None:
    report: dict[str, Any] = {"old": 1}
    swath.to_geotiff(image((300, 300)), tmp_path / "it.tif", tile_size=64, threads=1, report=report)
    assert report == swath.last_report()
    assert report["blocks"] == 25 and report["threads"] == 1 and "old" not in report
    assert report["file_bytes"] == (tmp_path / "it.tif").stat().st_size
