"""`chunks=`: dask arrays whose tasks share one opened file."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor

import dask
import numpy as np
import pytest
import tifffile

import swath
from swath import SourceChangedError, open_geotiff
from swath.xarray import dask as swath_dask
from swath.xarray.dask import on_grid


def scale_xml(scale, offset):
    return f'<GDALMetadata><Item name="SCALE">{scale}</Item><Item name="OFFSET">{offset}</Item></GDALMetadata>'


def write(path, pixels, nodata=None, xml=None, **layout):
    """Writes (y, x) or (y, x, band) pixels with a transform, so that there are coordinates."""
    tags = [(33550, "d", 3, (2.0, 3.0, 0.0)), (33922, "d", 6, (0.0, 0.0, 0.0, 100.0, 900.0, 0.0))]
    if nodata is not None:
        tags.append((42113, "s", 0, str(nodata)))
    if xml is not None:
        tags.append((42112, "s", 0, xml))
    if pixels.ndim == 3:
        layout = {"photometric": "minisblack", "planarconfig": "contig"} | layout
    tifffile.imwrite(path, pixels, extratags=tags, metadata=None, **layout)
    return path


@pytest.fixture(scope="module")
def workers():
    """Processes for dask's scheduler, shared because starting them is slow."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    pixels = np.random.default_rng(0).integers(0, 5000, (250, 330)).astype(np.uint16)
    path = tmp_path_factory.mktemp("lazy") / "tiled.tif"
    return write(path, pixels, nodata=7, xml=scale_xml(0.5, -3), tile=(64, 32), compression="zlib"), pixels


@pytest.fixture(scope="module")
def bands(tmp_path_factory):
    pixels = np.random.default_rng(1).random((90, 100, 5)).astype(np.float32)
    path = tmp_path_factory.mktemp("lazy") / "bands.tif"
    return write(path, pixels, tile=(32, 32)), pixels


@pytest.mark.parametrize(
    ("chunks", "rows", "columns"),
    [
        (100, (100, 100, 50), (100, 100, 100, 30)),
        (np.int32(100), (100, 100, 50), (100, 100, 100, 30)),
        ((120, 200), (120, 120, 10), (200, 130)),
        ((np.int64(120), 200), (120, 120, 10), (200, 130)),
        (1000, (250,), (330,)),
        (-1, (250,), (330,)),
        ((50, -1), (50,) * 5, (330,)),
        ({"y": 100}, (100, 100, 50), (330,)),
        ({"x": 200, "y": -1}, (250,), (200, 130)),
        ({"x": (30, 300), "y": None}, (250,), (30, 300)),
        ("auto", (250,), (330,)),
        ({}, (250,), (330,)),
    ],
)
def test_chunks_have_the_requested_sizes(tiled, chunks, rows, columns):
    path, pixels = tiled
    lazy = open_geotiff(path, chunks=chunks)
    assert lazy.chunks == (rows, columns)
    assert (lazy.values == pixels).all()


@pytest.mark.parametrize("chunks", [True, 0, -2, (0, 5), (5, -7), (True, 5), "16", 16.0, (16.0, 4), [8, 8], (None, 5)])
def test_invalid_chunks_are_an_error_that_describes_chunks(tiled, chunks):
    with pytest.raises(ValueError, match=r"chunks must be a positive int or \(row, col\) tuple of positive ints, got"):
        open_geotiff(tiled[0], chunks=chunks)


@pytest.mark.parametrize("chunks", [(16,), (16, 16, 1), ()])
def test_tuple_of_another_length_is_an_error(tiled, chunks):
    with pytest.raises(ValueError, match=r"chunks tuple must have length 2 \(row, col\)"):
        open_geotiff(tiled[0], chunks=chunks)


def test_dict_with_another_axis_is_an_error(tiled):
    with pytest.raises(ValueError, match="no axis 'lat'"):
        open_geotiff(tiled[0], chunks={"lat": 5})


def test_sizes_that_do_not_add_up_are_an_error(tiled):
    with pytest.raises(ValueError, match="add up to 200, but the image has 250"):
        open_geotiff(tiled[0], chunks={"y": (100, 100)})


def test_file_objects_have_no_chunks(tiled):
    with open(tiled[0], "rb") as file, pytest.raises(ValueError, match="file-like"):
        open_geotiff(file, chunks=16)


def test_too_many_chunks_are_refused_with_a_suggestion_that_works(tiled):
    with pytest.raises(ValueError, match=r"82,500 dask tasks, exceeding the 50,000-task cap.*chunks=\(2, 2\)"):
        open_geotiff(tiled[0], chunks=1)
    assert open_geotiff(tiled[0], chunks=(2, 2)).data.npartitions <= 50_000


@pytest.mark.parametrize("size", ["4KiB", "20KiB", "64KiB", "1B"])
@pytest.mark.parametrize("window", [None, (10, 20, 240, 300), (64, 32, 128, 64)])
@pytest.mark.parametrize(
    ("chunks", "automatic"),
    [("auto", "yx"), ({"y": "auto", "x": -1}, "y"), (("auto", 64), "y"), ((64, "auto"), "x")],
)
def test_auto_cuts_where_tiles_begin(tiled, size, window, chunks, automatic):
    path, pixels = tiled
    with dask.config.set({"array.chunk-size": size}):
        lazy = open_geotiff(path, chunks=chunks, window=window)
    top, left, bottom, right = window or (0, 0, 250, 330)
    for axis, sizes, start, block in zip("yx", lazy.chunks, (top, left), (64, 32), strict=True):
        if axis in automatic:
            assert ((start + np.cumsum(sizes)[:-1]) % block == 0).all()
    if chunks == "auto" and size != "1B":
        assert max(lazy.chunks[0]) * max(lazy.chunks[1]) * 2 <= max(dask.utils.parse_bytes(size), 64 * 32 * 2)
    assert (lazy.values == pixels[top:bottom, left:right]).all()


def test_auto_takes_whole_rows_of_a_file_in_strips(tmp_path):
    pixels = np.arange(300 * 200, dtype=np.uint32).reshape(300, 200)
    path = write(tmp_path / "strips.tif", pixels, rowsperstrip=7)
    with dask.config.set({"array.chunk-size": "16KiB"}):
        lazy = open_geotiff(path, chunks="auto")
    assert lazy.chunks[1] == (200,)
    assert len(lazy.chunks[0]) > 5 and all(rows % 7 == 0 for rows in lazy.chunks[0][:-1])
    assert (lazy.values == pixels).all()


@pytest.mark.parametrize(("length", "start", "step"), [(10, 0, 4), (10, 3, 4), (1, 0, 9), (9, 8, 9), (100, 7, 8)])
def test_grid_cuts_cover_the_axis(length, start, step):
    sizes = on_grid(length, start, step)
    assert sum(sizes) == length and min(sizes) > 0 and max(sizes) <= step
    assert all((start + edge) % step == 0 for edge in np.cumsum(sizes)[:-1])


def test_bands_are_one_chunk_by_default(bands):
    path, pixels = bands
    assert open_geotiff(path, chunks=50).chunks == ((50, 40), (50, 50), (5,))
    lazy = open_geotiff(path, chunks={"y": 50, "x": 50, "band": 2})
    assert lazy.chunks == ((50, 40), (50, 50), (2, 2, 1))
    assert (lazy.values == pixels).all()
    assert open_geotiff(path, chunks={"y": 50, "band": 2}, band=3).chunks == ((50, 40), (100,))


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"window": (3, 5, 200, 131)},
        {"masked": True},
        {"unpack": True},
        {"unpack": True, "dtype": "float32"},
        {"dtype": "float64"},
        {"masked": True, "window": (100, 100, 101, 101)},
    ],
)
def test_chunked_and_whole_reads_agree(tiled, request_):
    whole, lazy = open_geotiff(tiled[0], **request_), open_geotiff(tiled[0], chunks=(40, 70), **request_)
    assert lazy.dtype == whole.dtype == lazy.compute().dtype
    whole.attrs.pop("nodata_pixels_present", None)
    assert lazy.compute().identical(whole)


def test_overviews_are_chunked_in_their_own_pixels(tmp_path):
    pixels = np.arange(128 * 128, dtype=np.uint16).reshape(128, 128)
    with tifffile.TiffWriter(tmp_path / "o.tif") as tif:
        tif.write(pixels, tile=(32, 32))
        tif.write(pixels[::2, ::2].copy(), tile=(16, 16), subfiletype=1)
    lazy = open_geotiff(tmp_path / "o.tif", overview_level=1, chunks=20)
    assert lazy.chunks[0] == (20, 20, 20, 4)
    assert (lazy.values == pixels[::2, ::2]).all()


def test_graph_is_one_layer_that_does_not_grow_with_the_chunks(tiled):
    few, many = (open_geotiff(tiled[0], chunks=chunks).data for chunks in (100, 4))
    assert many.npartitions > 400 * few.npartitions
    for array in (few, many):
        assert len(array.dask.layers) == 1
        assert type(next(iter(array.dask.layers.values()))).__name__ == "Blockwise"
    assert len(pickle.dumps(many)) < len(pickle.dumps(few)) + 1000
    assert len(pickle.dumps(few)) < 5000


def test_direct_way_makes_the_array_of_from_array(tiled, monkeypatch):
    assert swath_dask._direct_way_works(), "this dask has no direct way any more: lazy arrays are slow to open again"
    direct = open_geotiff(tiled[0], chunks=64)
    monkeypatch.setattr(swath_dask, "_direct_way_works", lambda: False)
    plain = open_geotiff(tiled[0], chunks=64)
    for one, other in ((direct, plain), (direct[70:90, 3:], plain[70:90, 3:])):
        assert one.data.name == other.data.name and one.chunks == other.chunks
        assert list(one.data.dask) == list(other.data.dask)
        assert [*map(type, one.data.dask.layers.values())] == [*map(type, other.data.dask.layers.values())]
        np.testing.assert_array_equal(one.values, other.values)


def test_direct_way_is_not_taken_if_dask_makes_another_array(monkeypatch):
    swath_dask._direct_way_works.cache_clear()
    monkeypatch.setattr("dask.array.core.getter_nofancy", lambda array, key, **_: array[key])
    monkeypatch.setattr(dask.array, "from_array", lambda *_, **__: dask.array.zeros((3, 3), chunks=2))
    assert not swath_dask._direct_way_works()
    swath_dask._direct_way_works.cache_clear()


def test_only_the_header_is_read_when_the_graph_is_built(tmp_path):
    path = write(tmp_path / "a.tif", np.full((64, 64), 9, np.uint16), tile=(32, 32), compression="zlib")
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tif:
        offsets, sizes = tif.pages[0].dataoffsets, tif.pages[0].databytecounts
    for offset, size in zip(offsets[1:], sizes[1:], strict=True):
        data[offset : offset + size] = b"\xff" * size
    path.write_bytes(data)
    lazy = open_geotiff(path, chunks=32)
    assert (lazy[:32, :32].values == 9).all()
    with pytest.raises(ValueError):
        lazy.compute()


def test_name_follows_file_and_request(tiled, tmp_path):
    path, pixels = tiled
    names = [
        open_geotiff(path, chunks=64).data.name,
        open_geotiff(path, chunks=65).data.name,
        open_geotiff(path, chunks=64, masked=True).data.name,
        open_geotiff(path, chunks=64, window=(0, 0, 100, 100)).data.name,
        open_geotiff(write(tmp_path / "b.tif", pixels), chunks=64).data.name,
    ]
    assert len(set(names)) == len(names)
    assert open_geotiff(path, chunks=64).data.name == names[0] == open_geotiff(os.fspath(path), chunks=64).data.name


def test_max_pixels_bounds_a_chunk_not_the_image(tiled):
    assert open_geotiff(tiled[0], chunks=10, max_pixels=100).compute().shape == (250, 330)
    with pytest.raises(swath.PixelSafetyLimitError):
        open_geotiff(tiled[0], chunks=11, max_pixels=100).compute()


@pytest.mark.parametrize("scheduler", ["threads", "processes", "synchronous"])
def test_every_scheduler_gives_the_same_pixels(tiled, scheduler, workers):
    path, pixels = tiled
    lazy = open_geotiff(path, chunks=(100, 150), masked=True)
    pool = {"pool": workers} if scheduler == "processes" else {}
    got = lazy.data.compute(scheduler=scheduler, **pool)
    assert np.array_equal(got, np.where(pixels == 7, np.nan, pixels), equal_nan=True)


def test_distributed_workers_read_the_file_themselves(tiled):
    distributed = pytest.importorskip("distributed")
    path, pixels = tiled
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None, worker_dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        lazy = open_geotiff(path, chunks=(60, 80))
        assert (lazy.compute().values == pixels).all()
        assert int(lazy.sum()) == int(pixels.sum())


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_file_replaced_before_compute_is_an_error(tmp_path, scheduler, workers):
    path = write(tmp_path / "a.tif", np.zeros((40, 40), np.uint8))
    lazy = open_geotiff(path, chunks=20)
    write(tmp_path / "b.tif", np.ones((40, 40), np.uint8))
    os.replace(tmp_path / "b.tif", path)
    pool = {"pool": workers} if scheduler == "processes" else {}
    with pytest.raises(SourceChangedError, match=r"a\.tif has changed since it was opened"):
        lazy.data.compute(scheduler=scheduler, **pool)
    assert (open_geotiff(path, chunks=20).values == 1).all()


def test_results_do_not_share_memory_between_computes(tiled):
    lazy = open_geotiff(tiled[0], chunks=-1)
    first = lazy.data.compute()
    first[:] = 0
    assert (lazy.values == tiled[1]).all()


def test_slices_and_reductions_of_the_lazy_array(tiled):
    path, pixels = tiled
    lazy = open_geotiff(path, chunks=(64, 64)).data
    assert (lazy[5:200:3, ::-2].compute() == pixels[5:200:3, ::-2]).all()
    assert (lazy[[3, 100, 5]].compute() == pixels[[3, 100, 5]]).all()
    assert lazy.max().compute() == pixels.max()
