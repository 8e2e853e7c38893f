"""Tile directories: `to_geotiff` to a name that ends in `.vrt`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import dask.array
import numpy as np
import pytest
import rasterio
import xarray as xr

import swath
from mosaics import as_gdal_reads
from swath import open_geotiff, to_geotiff
from swath.mosaic import write as mosaic_write

PIXELS = np.arange(40 * 50, dtype="f4").reshape(40, 50)


def placed(pixels, dims=("y", "x"), **attrs):
    height, width = (pixels.shape[dims.index(name)] for name in "yx")
    coords = {"y": 907 - 10 * np.arange(height), "x": 3.5 + 10 * np.arange(width)}
    return xr.DataArray(pixels, dims=dims, coords=coords, attrs={"crs": 32633} | attrs)


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def check_like_a_file(tmp_path, data, **options):
    """Checks that Swath and GDAL read the mosaic like one file of the same array."""
    mosaic, whole = str(tmp_path / "a.vrt"), str(tmp_path / "whole.tif")
    assert to_geotiff(data, mosaic, **options) == mosaic
    to_geotiff(data, whole, **options)
    ours, one = open_geotiff(mosaic), open_geotiff(whole)
    np.testing.assert_array_equal(ours.values, one.values)
    assert ours.dtype == one.dtype and ours.dims == one.dims
    for name in ours.coords:
        np.testing.assert_array_equal(ours[name], one[name])
    for name in ("crs", "crs_wkt", "transform", "georef_status", "raster_type", "nodata"):
        assert ours.attrs.get(name) == one.attrs.get(name), name
    np.testing.assert_array_equal(as_gdal_reads(mosaic), as_gdal_reads(whole))
    with rasterio.open(mosaic) as theirs, rasterio.open(whole) as same:
        assert theirs.transform.almost_equals(same.transform)
        assert theirs.crs == same.crs
        assert theirs.nodata == same.nodata and theirs.dtypes == same.dtypes
    return mosaic


class TestWhatIsWritten:
    def test_blocks_of_an_array(self, tmp_path):
        check_like_a_file(tmp_path, placed(PIXELS), tile_size=32)
        tiles = [f"a_tiles/tile_{i:02}_{j:02}.tif" for i in range(2) for j in range(2)]
        assert [name for name in listing(tmp_path) if "whole" not in name] == ["a.vrt", "a_tiles", *tiles]

    def test_chunks_of_a_dask_array(self, tmp_path):
        check_like_a_file(tmp_path, placed(PIXELS).chunk({"y": 17, "x": 25}))
        assert len(os.listdir(tmp_path / "a_tiles")) == 6

    def test_each_tile_is_a_file_at_its_position(self, tmp_path):
        data = placed(PIXELS, nodata=7.0)
        to_geotiff(data, tmp_path / "a.vrt", tile_size=32)
        for name, rows, columns in [("00_00", (0, 32), (0, 32)), ("01_01", (32, 40), (32, 50))]:
            tile = open_geotiff(tmp_path / "a_tiles" / f"tile_{name}.tif")
            part = data[slice(*rows), slice(*columns)]
            np.testing.assert_array_equal(tile.values, part.values)
            np.testing.assert_allclose(tile.x, part.x)
            np.testing.assert_allclose(tile.y, part.y)
            assert tile.attrs["nodata"] == 7 and tile.attrs["crs"] == 32633

    def test_nan_becomes_nodata(self, tmp_path):
        gaps = np.where(PIXELS % 7 == 0, np.nan, PIXELS).astype("f4")
        mosaic = check_like_a_file(tmp_path, placed(gaps, nodata=-9999.0), tile_size=32)
        assert (as_gdal_reads(mosaic) == -9999).sum() == np.isnan(gaps).sum()

    @pytest.mark.parametrize(
        ("dims", "chunks"),
        [(("y", "x", "band"), None), (("band", "y", "x"), None), (("band", "y", "x"), {"band": 1, "y": 16, "x": 30})],
    )
    def test_several_bands(self, tmp_path, dims, chunks):
        bands = xr.DataArray(np.stack([PIXELS, PIXELS + 1, -PIXELS]), dims=("band", "y", "x")).transpose(*dims)
        data = placed(bands.values, dims)
        check_like_a_file(tmp_path, data if chunks is None else data.chunk(chunks), tile_size=32)

    @pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", ">i4", "int64", "uint64", "float16", "float64"])
    def test_types(self, tmp_path, dtype):
        check_like_a_file(tmp_path, placed((PIXELS % 100).astype(dtype)), tile_size=48)

    def test_strides(self, tmp_path):
        check_like_a_file(tmp_path, placed(PIXELS[::-1, ::2].copy(order="F")), tile_size=16)

    def test_complex_numbers_have_no_vrt(self, tmp_path):
        with pytest.raises(ValueError, match="complex64"):
            to_geotiff(placed(PIXELS.astype("c8")), tmp_path / "a.vrt")
        assert listing(tmp_path) == []

    def test_points(self, tmp_path):
        """GDAL reads them at their position, and they are read back as points, to the last bit."""
        place = (0.3, 0.0, 0.1, 0.0, -0.7, 1 / 3)
        points = placed(PIXELS, raster_type="point", transform=place).drop_vars(["y", "x"])
        mosaic = check_like_a_file(tmp_path, points, tile_size=32)
        assert open_geotiff(mosaic).attrs["transform"] == place
        assert open_geotiff(mosaic).attrs["raster_type"] == "point"

    def test_without_a_place(self, tmp_path):
        to_geotiff(PIXELS, tmp_path / "a.vrt", tile_size=32)
        read = open_geotiff(tmp_path / "a.vrt")
        np.testing.assert_array_equal(read.values, PIXELS)
        assert read.attrs["georef_status"] == "none"

    @pytest.mark.parametrize("crs", [4326, 3857, "+proj=tmerc +lon_0=15.5 +ellps=GRS80"])
    def test_systems(self, tmp_path, crs):
        check_like_a_file(tmp_path, placed(PIXELS), tile_size=48, crs=crs)

    def test_options_reach_the_tiles(self, tmp_path):
        to_geotiff(placed(PIXELS), tmp_path / "a.vrt", tile_size=32, compression="deflate", predictor=3, bigtiff=True)
        about = swath._swath.File.open(str(tmp_path / "a_tiles" / "tile_01_00.tif")).describe()
        assert (about["compression"], about["predictor"], about["big_tiff"]) == ("Deflate", 3, True)

    def test_palettes(self, tmp_path):
        colors = tuple(int(value) for value in np.random.default_rng(0).integers(0, 65536, 768))
        mosaic = check_like_a_file(tmp_path, placed((PIXELS % 9).astype("u1"), colormap=colors), tile_size=32)
        with rasterio.open(mosaic) as theirs, rasterio.open(tmp_path / "whole.tif") as same:
            assert theirs.colormap(1) == same.colormap(1)

    def test_names_that_must_be_escaped(self, tmp_path):
        to_geotiff(placed(PIXELS), tmp_path / "a <&\"'>.vrt", tile_size=48)
        np.testing.assert_array_equal(open_geotiff(tmp_path / "a <&\"'>.vrt").values, PIXELS)
        np.testing.assert_array_equal(as_gdal_reads(str(tmp_path / "a <&\"'>.vrt")), PIXELS)

    def test_more_than_a_hundred_rows_of_tiles(self, tmp_path):
        to_geotiff(placed(np.zeros((101 * 16, 16), "u1")), tmp_path / "a.vrt", tile_size=16)
        assert sorted(os.listdir(tmp_path / "a_tiles"))[::100] == ["tile_000_000.tif", "tile_100_000.tif"]
        assert open_geotiff(tmp_path / "a.vrt").shape == (1616, 16)

    def test_sidecars(self, tmp_path):
        mosaic = check_like_a_file(tmp_path, placed(PIXELS), tile_size=32, color_ramp="viridis")
        assert (tmp_path / "a.qml").read_bytes() == (tmp_path / "whole.qml").read_bytes()
        with rasterio.open(mosaic) as file:
            tags = file.tags(1)
        assert (tags["STATISTICS_MINIMUM"], tags["STATISTICS_MAXIMUM"]) == ("0", "1999")
        assert float(tags["STATISTICS_MEAN"]) == pytest.approx(PIXELS.mean(dtype="f8"), rel=1e-12)
        assert float(tags["STATISTICS_STDDEV"]) == pytest.approx(PIXELS.std(dtype="f8"), rel=1e-12)

    def test_gdal_reads_classes_from_the_index_of_a_mosaic(self, tmp_path):
        to_geotiff(placed((PIXELS % 3).astype("u1"), category_names=["a", "b<&", ""]), tmp_path / "a.vrt", tile_size=32)
        names = [each.text or "" for each in ElementTree.parse(tmp_path / "a.vrt").getroot().iter("Category")]
        assert names == ["a", "b<&", ""] == open_geotiff(tmp_path / "a.vrt").attrs["category_names"]

    def test_sidecars_of_a_replaced_mosaic_are_removed(self, tmp_path):
        (tmp_path / "a.vrt.aux.xml").write_text("<PAMDataset><SRS>old</SRS></PAMDataset>")
        to_geotiff(placed(PIXELS.astype("u1"), category_names=["x"]), tmp_path / "a.vrt")
        assert "old" not in (tmp_path / "a.vrt.aux.xml").read_text()
        assert open_geotiff(tmp_path / "a.vrt").attrs["category_names"] == ["x"]

    def test_report_and_progress(self, tmp_path):
        seen, report = [], {}
        to_geotiff(
            placed(PIXELS),
            tmp_path / "a.vrt",
            tile_size=32,
            progress=lambda *numbers: seen.append(numbers),
            report=report,
        )
        assert report["files"] == 4 and report["file_bytes"] == sum(p.stat().st_size for p in tmp_path.rglob("*.tif"))
        assert seen[-1] == (PIXELS.nbytes, PIXELS.nbytes) and len(seen) == 4

    def test_the_reference_reads_it(self, tmp_path, reference):
        to_geotiff(placed(PIXELS, nodata=7.0), tmp_path / "a.vrt", tile_size=32, compression="deflate")
        ours, theirs = open_geotiff(tmp_path / "a.vrt"), reference.open_geotiff(str(tmp_path / "a.vrt"))
        np.testing.assert_array_equal(ours.values, theirs.values)
        for name in ("crs", "transform", "nodata"):
            assert ours.attrs[name] == theirs.attrs[name]

    def test_we_read_that_of_the_reference(self, tmp_path, reference):
        reference.to_geotiff(placed(PIXELS, nodata=7.0), str(tmp_path / "a.vrt"), tile_size=32, compression="deflate")
        ours, theirs = open_geotiff(tmp_path / "a.vrt"), reference.open_geotiff(str(tmp_path / "a.vrt"))
        np.testing.assert_array_equal(ours.values, theirs.values)
        assert ours.attrs["crs_wkt"] == theirs.attrs["crs_wkt"]


class TestDask:
    def test_each_chunk_is_computed_once(self, tmp_path):
        computed = []

        def block(block_info):
            place = block_info[None]["chunk-location"]
            computed.append(place)
            return np.full((8, 8), place[0], "i2")

        made = dask.array.map_blocks(block, chunks=((8,) * 4, (8,) * 3), dtype="i2", meta=np.empty((0, 0), "i2"))
        # The buffer holds three chunks.
        to_geotiff(made, tmp_path / "a.vrt", streaming_buffer_bytes=400)
        assert sorted(computed) == [(i, j) for i in range(4) for j in range(3)]
        assert open_geotiff(tmp_path / "a.vrt").values[::8, 0].tolist() == [0, 1, 2, 3]

    def test_few_chunks_are_held_at_once(self, tmp_path, monkeypatch):
        written, waiting = [], []
        plain = mosaic_write._write_tile
        monkeypatch.setattr(mosaic_write, "_write_tile", lambda *given: written.append(given[1]) or plain(*given))

        def block(block_info):
            waiting.append(len(waiting) - len(written))
            return np.zeros((8, 8), "i2")

        made = dask.array.map_blocks(block, chunks=((8,) * 32, (8,)), dtype="i2", meta=np.empty((0, 0), "i2"))
        with dask.config.set(scheduler="synchronous"):
            to_geotiff(made, tmp_path / "a.vrt", streaming_buffer_bytes=3 * 128)
        assert len(waiting) == len(written) == 32 and max(waiting) == 2

    def test_compute_false_writes_later(self, tmp_path):
        later = to_geotiff(placed(PIXELS).chunk({"y": 20}), tmp_path / "a.vrt", compute=False)
        assert listing(tmp_path) == []
        later.compute()
        np.testing.assert_array_equal(open_geotiff(tmp_path / "a.vrt").values, PIXELS)

    def test_chunks_that_are_not_as_declared(self, tmp_path):
        made = dask.array.map_blocks(
            lambda: np.zeros((8, 7), "i2"), chunks=((8, 8), (8,)), dtype="i2", meta=np.empty((0, 0), "i2")
        )
        with pytest.raises(ValueError, match="not as declared"):
            to_geotiff(made, tmp_path / "a.vrt")
        assert listing(tmp_path) == []


class TestAllOrNothing:
    @pytest.mark.parametrize("options", [{"cog": True}, {"overview_levels": [2]}, {"tiled": False}, {"tile_size": 10}])
    def test_unsupported_mosaic_options_are_refused(self, tmp_path, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            to_geotiff(placed(PIXELS), tmp_path / "a.vrt", **options)
        assert listing(tmp_path) == []

    def test_existing_tiles_are_kept(self, tmp_path):
        to_geotiff(placed(PIXELS), tmp_path / "a.vrt", tile_size=48)
        before = listing(tmp_path)
        for _ in range(2):
            with pytest.raises(FileExistsError, match="already contains files"):
                to_geotiff(placed(PIXELS + 1), tmp_path / "a.vrt", tile_size=32)
            assert listing(tmp_path) == before or listing(tmp_path) == before[1:]
            (tmp_path / "a.vrt").unlink(missing_ok=True)

    def test_an_empty_folder_is_used(self, tmp_path):
        (tmp_path / "a_tiles").mkdir()
        to_geotiff(placed(PIXELS), tmp_path / "a.vrt", tile_size=48)
        assert len(os.listdir(tmp_path / "a_tiles")) == 2

    def test_folders_are_made(self, tmp_path):
        to_geotiff(placed(PIXELS), tmp_path / "sub" / "deeper" / "A.VRT", tile_size=48)
        assert listing(tmp_path / "sub" / "deeper")[:2] == ["A.VRT", "A_tiles"]

    def test_overwrite_false(self, tmp_path):
        (tmp_path / "a.vrt").write_text("mine")
        with pytest.raises(FileExistsError):
            to_geotiff(placed(PIXELS), tmp_path / "a.vrt", overwrite=False)
        assert (tmp_path / "a.vrt").read_text() == "mine"

    def test_an_error_in_a_task_leaves_nothing(self, tmp_path):
        def block(block_info):
            if block_info[None]["chunk-location"] == (3, 0):
                raise RuntimeError("no such scene")
            return np.zeros((8, 8), "i2")

        made = dask.array.map_blocks(block, chunks=((8,) * 4, (8,)), dtype="i2", meta=np.empty((0, 0), "i2"))
        with pytest.raises(RuntimeError, match="no such scene"):
            to_geotiff(made, tmp_path / "a.vrt", streaming_buffer_bytes=100)
        assert listing(tmp_path) == []

    def test_an_interrupt_leaves_nothing(self, tmp_path):
        def stop(done, total):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            to_geotiff(placed(PIXELS), tmp_path / "a.vrt", tile_size=16, progress=stop)
        assert listing(tmp_path) == []

    def test_an_index_that_cannot_be_written_leaves_nothing(self, tmp_path, monkeypatch):
        def fail(*_):
            raise OSError("disk full")

        monkeypatch.setattr(mosaic_write, "replace_file", fail)
        with pytest.raises(OSError, match="disk full"):
            to_geotiff(placed(PIXELS), tmp_path / "a.vrt", tile_size=16)
        assert listing(tmp_path) == []

    @pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is a signal of POSIX")
    @pytest.mark.parametrize("moment", ["after a tile", "before the folder", "before the index", "after the index"])
    def test_a_kill_leaves_no_index_or_a_whole_mosaic(self, tmp_path, moment):
        script = f"""
import os, signal
import numpy as np
from swath import to_geotiff
from swath.mosaic import write as mosaic_write

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

moment, options = {moment!r}, {{}}
plain = mosaic_write.replace_file
if moment == "after a tile":
    options["progress"] = die
if moment == "before the folder":
    mosaic_write.os.rename = die
if moment == "before the index":
    mosaic_write.replace_file = die
if moment == "after the index":
    mosaic_write.replace_file = lambda *arguments: (plain(*arguments), die())
to_geotiff(np.arange(2000.0).reshape(40, 50), {str(tmp_path / "a.vrt")!r}, tile_size=16, **options)
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=60)
        assert ended.returncode == -signal.SIGKILL
        assert (tmp_path / "a.vrt").exists() == (moment == "after the index")
        if moment == "after the index":
            assert open_geotiff(tmp_path / "a.vrt").values.sum() == 1999 * 1000
        elif moment != "before the index":
            assert not (tmp_path / "a_tiles").exists()
