"""open_rasterio: behaviour that users of rioxarray rely on, and Swath's additions. A separate test compares both."""

from __future__ import annotations

import io
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import odc.geo.xr  # noqa: F401
import pytest
import rasterio
import rioxarray
import xarray as xr
from rasterio.enums import ColorInterp, Resampling
from rasterio.transform import Affine

import swath
from mosaics import band as vrt_band
from mosaics import source, tif, vrt
from open_files import tagged
from range_server import range_server
from samples import ramp, write_rasterio
from swath import open_rasterio
from swath.read.plan import ReadPlan
from swath.xarray.state import KEY, ReadState

SHAPE = (3, 37, 53)
PIXELS = ramp(SHAPE, "u2")
PIXELS[:, 3:6, 7:30] = 0
SCALES, OFFSETS, NAMES = (0.5, 2.0, 0.1), (0.0, -3.0, 10.0), ("blue", "red", "nir")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three bands with nodata, and with their own names, units and scales."""
    path = tmp_path_factory.mktemp("packed") / "packed.tif"
    profile = {"tiled": True, "blockxsize": 16, "blockysize": 32}
    about = {"scales": SCALES, "offsets": OFFSETS, "descriptions": NAMES, "units": ("m", "m", "K")}
    write_rasterio(path, PIXELS, nodata=0, tags={"A": "1"}, band_tags={2: {"B": "2"}}, **about, **profile)
    return str(path)


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One scale for all bands."""
    path = tmp_path_factory.mktemp("simple") / "simple.tif"
    write_rasterio(path, PIXELS, nodata=0, scales=(0.5,) * 3, offsets=(10.0,) * 3, descriptions=NAMES, overviews=[2, 4])
    return str(path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Records the windows and bands that are read."""
    seen: list[Any] = []
    read = ReadPlan.read

    def watched(plan: ReadPlan, file: Any, window: Any = None) -> Any:
        seen.append((window, plan.bands))
        return read(plan, file, window)

    monkeypatch.setattr(ReadPlan, "read", watched)
    return seen


def unpacked() -> np.ndarray[Any, Any]:
    scales, offsets = (np.array(factors, "f4")[:, None, None] for factors in (SCALES, OFFSETS))
    return np.where(PIXELS == 0, np.float32(np.nan), PIXELS.astype("f4") * scales + offsets)


class TestConventions:
    def test_bands_come_first_and_count_from_one(self, packed: str) -> None:
        with pytest.warns(UserWarning, match="Scales differ across bands") as warned:
            array = open_rasterio(packed)
        assert {Path(entry.filename).name for entry in warned} == {Path(__file__).name}
        assert array.dims == ("band", "y", "x")
        assert list(array.coords) == ["band", "x", "y", "spatial_ref"]
        assert array.band.values.tolist() == [1, 2, 3]
        assert array.band.dtype == np.int64
        assert array.name is None
        assert array.attrs["long_name"] == NAMES
        assert array.attrs["units"] == ("m", "m", "K")
        assert array.attrs["scales"] == SCALES
        assert array.attrs["_FillValue"] == 0
        assert type(array.attrs["_FillValue"]) is np.uint16
        assert array.attrs["A"] == 1
        assert array.spatial_ref.attrs["grid_mapping_name"] == "transverse_mercator"
        np.testing.assert_array_equal(array, PIXELS)

    def test_each_band_has_its_own_scale(self, packed: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = open_rasterio(packed, mask_and_scale=True)
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, unpacked())
        for picked in ([2, 0], 1, slice(None, None, -1)):
            np.testing.assert_array_equal(array.isel(band=picked), unpacked()[picked])
        assert not {"scales", "offsets", "_FillValue", "dtype"} & array.attrs.keys()
        assert array.encoding["scales"] == SCALES
        assert np.isnan(array.rio.nodata)
        assert np.isnan(array.odc.nodata)

    def test_variables_of_bands(self, packed: str) -> None:
        dataset = open_rasterio(packed, band_as_variable=True, mask_and_scale=True)
        assert list(dataset.data_vars) == ["band_1", "band_2", "band_3"]
        assert dataset.attrs["A"] == 1
        for index, (name, variable) in enumerate(dataset.data_vars.items()):
            assert variable.dims == ("y", "x")
            assert variable.encoding["scale_factor"] == SCALES[index]
            assert variable.attrs["long_name"] == NAMES[index]
            np.testing.assert_array_equal(dataset[name], unpacked()[index])
        assert dataset["band_2"].attrs["B"] == 2

    def test_name(self, simple: str) -> None:
        assert open_rasterio(simple, default_name="dem").name == "dem"
        assert open_rasterio(simple, default_name="dem", chunks=8).name == "dem"
        assert open_rasterio(simple, chunks=8).name is None


class TestBandSelection:
    @pytest.mark.parametrize(
        ("band", "expected"),
        [
            (2, [2]),
            ("nir", [3]),
            ([3, 1], [3, 1]),
            (["nir", 2], [3, 2]),
            (np.array([2, 3]), [2, 3]),
            (np.int16(1), [1]),
        ],
    )
    @pytest.mark.parametrize("chunks", [None, 16])
    def test_by_number_and_name(self, simple: str, band: Any, expected: list[int], chunks: Any) -> None:
        array = open_rasterio(simple, band=band, chunks=chunks, mask_and_scale=True)
        whole = open_rasterio(simple, mask_and_scale=True)
        assert array.dims == ("band", "y", "x")
        assert array.band.values.tolist() == expected
        np.testing.assert_array_equal(array, whole.sel(band=expected))
        names = tuple(NAMES[number - 1] for number in expected)
        assert array.attrs["long_name"] == (names if len(names) > 1 else names[0])

    def test_band_attributes_are_those_of_the_selected_bands(self, packed: str) -> None:
        array = open_rasterio(packed, band="red")
        assert (array.attrs["scale_factor"], array.attrs["add_offset"]) == (2.0, -3.0)
        assert array.attrs["units"] == "m"
        assert array.attrs["B"] == 2
        dataset = open_rasterio(packed, band=["nir", "blue"], band_as_variable=True)
        assert list(dataset.data_vars) == ["band_3", "band_1"]

    @pytest.mark.parametrize(
        ("band", "error", "says"),
        [
            (0, IndexError, "the first band is 1"),
            (4, IndexError, "3-band"),
            ([1, 4], IndexError, "band=4"),
            (True, ValueError, "band"),
            (False, ValueError, "band"),
            (1.0, TypeError, "band"),
            ("green", ValueError, r"\['blue', 'red', 'nir'\]"),
            ([2, "red"], ValueError, r"\[2, 'red'\] selects a band more than once"),
            ([], ValueError, "no band"),
        ],
    )
    def test_missing_bands_are_an_error(self, simple: str, band: Any, error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            open_rasterio(simple, band=band)


class TestLaziness:
    def test_only_accessed_pixels_are_read(self, simple: str, reads: list[Any]) -> None:
        array = open_rasterio(simple)
        assert not reads
        array.isel(band=1, y=slice(4, 8), x=slice(10, 20)).load()
        assert reads == [((4, 10, 8, 20), (1,))]
        np.testing.assert_array_equal(array.isel(x=[50, 3], y=slice(30, 2, -7)), PIXELS[:, 30:2:-7][:, :, [50, 3]])
        np.testing.assert_array_equal(array.isel(band=[2, 0], x=5), PIXELS[[2, 0], :, 5])

    @pytest.mark.parametrize(("cache", "times"), [(None, 1), (True, 1), (False, 2)])
    def test_pixels_are_kept_unless_they_are_not_to_be(
        self, simple: str, reads: list[Any], cache: Any, times: int
    ) -> None:
        array = open_rasterio(simple, cache=cache)
        for _ in range(2):
            np.testing.assert_array_equal(array.values, PIXELS)
        assert len(reads) == times

    def test_pixels_may_be_changed(self, simple: str) -> None:
        for cache in (True, False):
            array = open_rasterio(simple, cache=cache)
            array[0, 0, 0] = 77
            assert array[0, 0, 0].item() == 77
        assert open_rasterio(simple)[0, 0, 0].item() == PIXELS[0, 0, 0]

    @pytest.mark.parametrize("chunks", [None, "auto", 16])
    def test_arrays_are_pickled_with_their_file(self, simple: str, chunks: Any) -> None:
        for opened in (open_rasterio(simple, chunks=chunks), open_rasterio(Path(simple).read_bytes(), chunks=chunks)):
            again = pickle.loads(pickle.dumps(opened))
            xr.testing.assert_identical(again.compute(), opened.compute())
            assert again.encoding[KEY] == opened.encoding[KEY]

    def test_dask_reads_each_chunk_once_and_no_more(self, simple: str, reads: list[Any]) -> None:
        array = open_rasterio(simple, chunks={"band": 1, "y": 20})
        assert array.chunks == ((1, 1, 1), (20, 17), (53,))
        assert not reads
        np.testing.assert_array_equal(array.compute(), PIXELS)
        assert sorted(reads) == sorted(((top, 0, min(top + 20, 37), 53), (b,)) for b in range(3) for top in (0, 20))
        assert open_rasterio(simple, chunks=8).data.name == open_rasterio(simple, chunks=8).data.name
        assert open_rasterio(simple, chunks=8).data.name != open_rasterio(simple, chunks=8, masked=True).data.name

    @pytest.mark.parametrize("chunks", [{"z": 5}, (5, 5), (1, 2, 3, 4)])
    def test_chunks_that_make_no_sense(self, simple: str, chunks: Any) -> None:
        with pytest.raises(ValueError, match="chunks"):
            open_rasterio(simple, chunks=chunks)


class TestSources:
    def test_paths(self, simple: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(Path(simple).parent)
        for filename in (simple, Path(simple), "simple.tif", f"file://{simple}", simple.encode()):
            np.testing.assert_array_equal(open_rasterio(filename), PIXELS)
        assert open_rasterio("simple.tif").encoding["source"] == "simple.tif"
        with rasterio.open(simple) as dataset:
            np.testing.assert_array_equal(open_rasterio(dataset), PIXELS)

    @pytest.mark.parametrize("chunks", [None, 16])
    def test_content_outlives_its_file(self, simple: str, chunks: Any) -> None:
        data = Path(simple).read_bytes()
        with Path(simple).open("rb") as file:
            file.seek(7)
            arrays = [open_rasterio(file, chunks=chunks), open_rasterio(io.BytesIO(data), chunks=chunks)]
            assert file.tell() == 7
        for array in (*arrays, open_rasterio(data, chunks=chunks)):
            np.testing.assert_array_equal(array, PIXELS)
            assert "source" not in array.encoding

    def test_text_is_not_file_content(self) -> None:
        with pytest.raises(TypeError, match="binary"):
            open_rasterio(io.StringIO("II*"))

    def test_urls(self, simple: str, monkeypatch: pytest.MonkeyPatch, reads: list[Any]) -> None:
        import fsspec

        with fsspec.open("memory://rasterio/a.tif", "wb") as target:
            target.write(Path(simple).read_bytes())
        monkeypatch.setenv("SWATH_ALLOW_PRIVATE_HOSTS", "1")
        with range_server() as server:
            server.files["/a.tif"] = Path(simple).read_bytes()
            for url in ("memory://rasterio/a.tif", server.url()):
                for chunks in (None, 16):
                    array = open_rasterio(url, chunks=chunks, storage_options={} if "memory" in url else None)
                    assert array.encoding["source"] == url
                    np.testing.assert_array_equal(array, PIXELS)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            open_rasterio(tmp_path / "none.tif")

    def test_further_pages_warn(self, tmp_path: Path) -> None:
        import tifffile

        tifffile.imwrite(tmp_path / "a.tif", np.zeros((2, 8, 9), "u1"), photometric="minisblack", metadata=None)
        with pytest.warns(swath.GeoTIFFFallbackWarning, match="2 images") as warned:
            assert open_rasterio(tmp_path / "a.tif").shape == (1, 8, 9)
        assert Path(warned[0].filename).name == Path(__file__).name


class TestOptions:
    @pytest.mark.parametrize("level", [0, 1])
    def test_overviews_count_as_for_rasterio(self, simple: str, level: int) -> None:
        for keywords in ({}, {"masked": True}, {"chunks": 8}):
            ours, theirs = (
                package.open_rasterio(simple, overview_level=level, **keywords) for package in (swath, rioxarray)
            )
            xr.testing.assert_equal(ours, theirs)
            assert ours.rio.transform() == theirs.rio.transform()
            assert ours.encoding.get("preferred_chunks") == theirs.encoding.get("preferred_chunks")

    def test_missing_levels_are_an_error(self, simple: str) -> None:
        with pytest.raises(ValueError, match="2 overviews"):
            open_rasterio(simple, overview_level=2)
        with pytest.raises(ValueError, match=">= 0"):
            open_rasterio(simple, overview_level=-1)
        with pytest.raises(TypeError, match="overview_level"):
            open_rasterio(simple, overview_level="0")

    def test_options_of_rasterio(self, simple: str) -> None:
        harmless = {"sharing": False, "driver": "GTiff", "thread_safe": True, "num_threads": 2, "mode": "r"}
        np.testing.assert_array_equal(open_rasterio(simple, lock=False, **harmless), PIXELS)
        for wrong, error in (({"opener": open}, TypeError), ({"masks": 1}, TypeError), ({"driver": "PNG"}, ValueError)):
            with pytest.raises(error, match=next(iter(wrong))):
                open_rasterio(simple, **wrong)
        for name in ("variable", "group"):
            with pytest.raises(ValueError, match=name):
                open_rasterio(simple, **{name: "x"})

    def test_limits(self, simple: str) -> None:
        array = open_rasterio(simple, max_pixels=100)
        with pytest.raises(swath.PixelSafetyLimitError):
            array.load()
        assert open_rasterio(simple, max_pixels=100_000, threads=1).load().shape == SHAPE


class TestMissingPixels:
    @pytest.mark.parametrize("inside", [True, False])
    @pytest.mark.parametrize("nodata", [None, 3])
    def test_masks(self, tmp_path: Path, inside: bool, nodata: Any) -> None:
        """The mask decides alone: a pixel that it marks as valid is valid even if it equals nodata."""
        path = tmp_path / "a.tif"
        pixels = np.arange(24, dtype="u1").reshape(1, 4, 6)
        mask = np.where(pixels[0] % 5 == 0, 0, 255).astype("u1")
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=inside):
            write_rasterio(path, pixels, nodata=nodata)
            with rasterio.open(path, "r+") as file:
                file.write_mask(mask)
        assert Path(f"{path}.msk").exists() is not inside
        expected = np.where(mask == 0, np.nan, pixels)
        for chunks in (None, 2):
            array = open_rasterio(path, masked=True, chunks=chunks)
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array, expected)
            np.testing.assert_array_equal(array, rioxarray.open_rasterio(path, masked=True))
        assert array.encoding[KEY].by_mask
        assert ("dtype" in array.encoding) is (nodata is not None)

    @pytest.mark.parametrize("dtype", ["u1", "u2"])
    def test_alpha_hides_other_bands_and_not_itself(self, tmp_path: Path, dtype: str) -> None:
        path = tmp_path / "a.tif"
        pixels = ramp((4, 20, 30), dtype)
        pixels[3, 4:9] = 0
        write_rasterio(path, pixels)
        with rasterio.open(path, "r+") as file:
            file.colorinterp = [ColorInterp[name] for name in ("red", "green", "blue", "alpha")]
        expected = pixels.astype("f4")
        expected[:3, pixels[3] == 0] = np.nan
        for chunks in (None, 8):
            array = open_rasterio(path, masked=True, chunks=chunks)
            np.testing.assert_array_equal(array, expected)
            for bands in ([0, 1], [3, 2], 3, 0, [3]):
                np.testing.assert_array_equal(array.isel(band=bands), expected[bands])
            dataset = open_rasterio(path, masked=True, band_as_variable=True, chunks=chunks)
            np.testing.assert_array_equal(dataset.to_array(), expected)
        assert array.attrs["colorinterp"] == ("red", "green", "blue", "alpha")
        assert dataset.attrs["colorinterp"] == ("red", "green", "blue", "alpha")

    def test_values_of_all_bands_together(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tif"
        pixels = np.arange(48, dtype="u1").reshape(2, 4, 6)
        pixels[:, 1, 1] = 7, 9
        pixels[:, 2, 2] = 7, 8
        write_rasterio(path, pixels, tags={"NODATA_VALUES": "7 9"})
        array = open_rasterio(path, masked=True)
        np.testing.assert_array_equal(array, rioxarray.open_rasterio(path, masked=True))
        assert np.isnan(array.values).sum() == 2
        np.testing.assert_array_equal(open_rasterio(path, masked=True, band=2)[0], array[1])

    def test_palette(self, tmp_path: Path) -> None:
        colors = {0: (1, 2, 3, 255), 1: (255, 0, 0, 255)}
        write_rasterio(tmp_path / "a.tif", ramp((9, 9), "u1"), photometric="palette", colormap=colors)
        array = open_rasterio(tmp_path / "a.tif")
        assert len(array.attrs["colormap"]) == 768
        assert "colorinterp" not in array.attrs

    def test_nodata_beyond_doubles_is_exact(self, tmp_path: Path) -> None:
        pixels = np.array([[2**63 - 1, 2**63 - 2, 5]], "i8")
        path = tagged(tmp_path / "a.tif", pixels, nodata=str(2**63 - 1))
        assert open_rasterio(path).attrs["_FillValue"] == 2**63 - 1
        assert np.isnan(open_rasterio(path, masked=True).values).tolist() == [[[True, False, False]]]


class TestRotated:
    TILTED = Affine(10, 2, 5, 1, -20, 4)

    @pytest.mark.parametrize("transform", [TILTED, Affine(0, 2, 5, 1, 0, 4), Affine(2, 1, 5, 1, -2, 4)])
    @pytest.mark.parametrize("chunks", [None, 16])
    def test_coordinates_are_two_dimensional(self, tmp_path: Path, transform: Affine, chunks: Any) -> None:
        path = tmp_path / "a.tif"
        write_rasterio(path, PIXELS, transform=transform)
        array = open_rasterio(path, chunks=chunks)
        assert set(array.coords) == {"band", "xc", "yc", "spatial_ref"}
        columns, rows = np.meshgrid(np.arange(53) + 0.5, np.arange(37) + 0.5)
        x, y = transform @ (columns, rows)
        np.testing.assert_allclose(array.xc, x)
        np.testing.assert_allclose(array.yc, y)
        part = array.isel(y=[3, 30], x=slice(5, 50, 4))
        np.testing.assert_allclose(part.xc, x[[3, 30], 5:50:4])
        np.testing.assert_allclose(array.yc.isel(x=4, y=-1), y[-1, 4])
        assert array.odc.geobox.affine == transform
        if transform.a:  # rioxarray treats an image rotated by 90 degrees as one without rotation.
            assert array.rio.transform() == transform
        assert array.odc.geobox.crs == array.odc.crs
        xr.testing.assert_equal(pickle.loads(pickle.dumps(array)), array)

    def test_as_rioxarray(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tif"
        write_rasterio(path, PIXELS, transform=self.TILTED)
        ours, theirs = (package.open_rasterio(path) for package in (swath, rioxarray))
        xr.testing.assert_equal(ours, theirs)
        assert ours.odc.geobox == theirs.odc.geobox
        one, other = (array.rio.reproject("EPSG:4326") for array in (ours, theirs))
        xr.testing.assert_equal(one, other)


class TestTools:
    KEYWORDS = ({}, {"masked": True}, {"mask_and_scale": True}, {"masked": True, "chunks": 16})
    OPERATIONS = {
        "reproject": lambda a: a.rio.reproject("EPSG:3857", resampling=Resampling.bilinear),
        "reproject nearest": lambda a: a.rio.reproject("EPSG:4326"),
        "clip_box": lambda a: a.rio.clip_box(500100, 4599500, 500300, 4599900),
        "clip": lambda a: a.rio.clip(
            [{"type": "Polygon", "coordinates": [[[500050, 4599900], [500400, 4599800], [500200, 4599400]]]}]
        ),
        "pad": lambda a: a.rio.pad_box(499900, 4599000, 500700, 4600100),
        "interpolate": lambda a: a.compute().rio.interpolate_na() if a.dtype.kind == "f" else a,
        "odc reproject": lambda a: a.odc.reproject("EPSG:3857").compute(),
        "slice": lambda a: a.isel(x=slice(3, 30, 2), band=[2, 0]),
    }

    @pytest.mark.parametrize("operation", OPERATIONS)
    @pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
    def test_accessors_give_the_same(self, simple: str, operation: str, keywords: Any, tmp_path: Path) -> None:
        """Also after the file was removed: nothing opens it again."""
        path = tmp_path / "gone.tif"
        path.write_bytes(Path(simple).read_bytes())
        ours = open_rasterio(path, **keywords)
        ours = ours.persist() if "chunks" in keywords else ours.load()
        path.unlink()
        theirs = rioxarray.open_rasterio(simple, **keywords)
        if theirs.dtype.kind == "f":
            # odc-geo would fill masked arrays of rioxarray with the nodata value of the file.
            theirs.attrs["nodata"] = np.nan
        run = self.OPERATIONS[operation]
        one, other = run(ours), run(theirs)
        xr.testing.assert_equal(one, other)
        assert one.dtype == other.dtype
        for array, expected in ((ours, theirs), (one, other)):
            np.testing.assert_equal(array.rio.nodata, expected.rio.nodata)
            np.testing.assert_equal(array.rio.encoded_nodata, expected.rio.encoded_nodata)
            assert array.rio.crs == expected.rio.crs
            assert array.rio.transform() == expected.rio.transform()
        assert ours.odc.geobox == theirs.odc.geobox

    @pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
    def test_merge_and_to_raster(self, simple: str, tmp_path: Path, keywords: Any) -> None:
        from rioxarray.merge import merge_arrays

        written = []
        for package in (swath, rioxarray):
            whole = package.open_rasterio(simple, **keywords)
            parts = [whole.isel(x=slice(0, 30)), whole.isel(x=slice(25, 53))]
            arrays = [whole, whole.isel(band=0, y=slice(3, 20))]
            if not keywords:  # rioxarray cannot write the result of merging masked arrays.
                arrays.append(merge_arrays(parts))
            xr.testing.assert_equal(merge_arrays(parts).drop_vars("spatial_ref"), whole.drop_vars("spatial_ref"))
            for index, array in enumerate(arrays):
                array.attrs.pop("long_name")
                array.rio.to_raster(tmp_path / f"{package.__name__}{index}.tif")
            written.append([rasterio.open(tmp_path / f"{package.__name__}{index}.tif") for index in range(len(arrays))])
        for ours, theirs in zip(*written, strict=True):
            with ours, theirs:
                np.testing.assert_array_equal(ours.read(), theirs.read())
                assert ours.transform == theirs.transform
                assert ours.crs == theirs.crs
                assert ours.dtypes == theirs.dtypes
                assert ours.scales == theirs.scales
                np.testing.assert_equal(ours.nodata, theirs.nodata)


class TestFormats:
    @pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf", "zarr"])
    @pytest.mark.parametrize(
        "keywords",
        [{}, {"masked": True}, {"mask_and_scale": True}, {"band_as_variable": True, "mask_and_scale": True}],
        ids=str,
    )
    @pytest.mark.parametrize("name", ["simple", "packed"])
    def test_values_and_georeferencing_come_back(
        self, simple: str, packed: str, tmp_path: Path, engine: str, keywords: Any, name: str
    ) -> None:
        path = {"simple": simple, "packed": packed}[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened = open_rasterio(path, default_name="data", **keywords)
            dataset = opened if isinstance(opened, xr.Dataset) else opened.to_dataset()
            expected = dataset.copy(deep=True).load()
            if engine == "zarr":
                dataset.to_zarr(tmp_path / "a.zarr")
                again = xr.open_dataset(tmp_path / "a.zarr", engine="zarr", decode_coords="all", chunks=None)
            else:
                dataset.to_netcdf(tmp_path / "a.nc", engine=engine)
                again = xr.open_dataset(tmp_path / "a.nc", engine=engine, decode_coords="all")
        # For xarray too, scale_factor in attrs means that values are packed.
        is_packed = not keywords.get("mask_and_scale")
        for variable in expected.data_vars:
            values = again[variable].values
            wanted = expected[variable].values
            if is_packed:
                scale, offset = (1.0, 0.0) if name == "packed" else (0.5, 10.0)
                wanted = np.where(wanted == 0, np.nan, wanted * scale + offset)
            np.testing.assert_allclose(values, wanted, rtol=1e-6)
            assert again[variable].rio.crs == expected[variable].rio.crs
            assert again[variable].rio.transform() == expected[variable].rio.transform()

    def test_masks_without_nodata_survive(self, tmp_path: Path) -> None:
        pixels = np.arange(24, dtype="u1").reshape(1, 4, 6)
        write_rasterio(tmp_path / "a.tif", pixels)
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(tmp_path / "a.tif", "r+") as file:
            file.write_mask(np.where(pixels[0] > 20, 0, 255).astype("u1"))
        array = open_rasterio(tmp_path / "a.tif", masked=True, default_name="a")
        array.to_netcdf(tmp_path / "a.nc")
        with xr.open_dataset(tmp_path / "a.nc") as again:
            np.testing.assert_array_equal(again["a"], array)

    def test_attributes_are_plain(self, packed: str, tmp_path: Path) -> None:
        tags = {"LONG": "9" * 40, "LIST": "{1,2}", "TEXT": "{a}"}
        write_rasterio(tmp_path / "a.tif", PIXELS, tags=tags, descriptions=("a", None, None), units=(None, "m", None))
        array = open_rasterio(tmp_path / "a.tif")
        assert array.attrs["long_name"] == ("a", "", "")
        assert array.attrs["units"] == ("", "m", "")
        assert array.attrs["LONG"] == "9" * 40
        for value in array.attrs.values():
            parts = value if isinstance(value, tuple) else (value,)
            assert len({type(part) for part in parts}) == 1
            assert isinstance(parts[0], str | int | float | np.generic | np.ndarray)
            assert not isinstance(parts[0], bool)


class TestMosaics:
    @pytest.fixture
    def mosaic(self, tmp_path: Path) -> str:
        pixels = ramp((2, 4, 4), "u2")
        tif(tmp_path / "a.tif", pixels, nodata=0)
        tif(tmp_path / "b.tif", pixels + 7, nodata=0, x=104)
        about = "<Description>{}</Description><UnitType>{}</UnitType><Scale>{}</Scale><Offset>{}</Offset>"
        about += '<Metadata><MDI key="K">{}</MDI></Metadata>'
        bands = [
            vrt_band(
                source("a.tif", band=number) + source("b.tif", dst=(4, 0, 4, 4), band=number),
                dtype="UInt16",
                nodata=nodata,
                inside=about.format(*texts),
            )
            for number, nodata, texts in ((1, 1, ("one", "m", 0.5, 3, "x")), (2, 20, ("two", "K", 2, 0, "5")))
        ]
        extra = '<Metadata><MDI key="AREA_OR_POINT">Area</MDI><MDI key="N">7</MDI></Metadata>'
        return vrt(tmp_path / "m.vrt", *bands, inside=extra)

    @pytest.mark.parametrize(
        "keywords",
        [
            {},
            {"masked": True},
            {"mask_and_scale": True},
            {"chunks": 3},
            {"chunks": "auto", "mask_and_scale": True},
            {"band_as_variable": True},
            {"band_as_variable": True, "mask_and_scale": True},
        ],
        ids=str,
    )
    def test_as_rioxarray(self, mosaic: str, keywords: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = (package.open_rasterio(mosaic, **keywords) for package in (swath, rioxarray))
        xr.testing.assert_equal(ours.compute(), theirs.compute())
        pairs = [(ours[n], theirs[n]) for n in ours.data_vars] if isinstance(ours, xr.Dataset) else [(ours, theirs)]
        for one, other in pairs:
            assert one.chunks == other.chunks
            encoding = {key: value for key, value in one.encoding.items() if key != KEY}
            lacking = {"dtype", "_FillValue"} if "scales" in encoding else set()
            attrs = {key: value for key, value in one.attrs.items() if key not in ("nodata", "_swath_bands")}
            assert attrs == other.attrs
            for key in other.encoding.keys() - lacking - {"preferred_chunks"}:
                assert encoding[key] == other.encoding[key], key

    def test_bands_by_name(self, mosaic: str) -> None:
        array = open_rasterio(mosaic, band="two", masked=True)
        assert array.band.values.tolist() == [2]
        np.testing.assert_array_equal(array[0], rioxarray.open_rasterio(mosaic, masked=True)[1])

    def test_alpha(self, tmp_path: Path) -> None:
        pixels = ramp((2, 4, 4), "u1")
        pixels[1, :2] = 0
        tif(tmp_path / "a.tif", pixels)
        bands = [
            vrt_band(source("a.tif", band=number), inside=f"<ColorInterp>{color}</ColorInterp>")
            for number, color in ((1, "Gray"), (2, "Alpha"))
        ]
        path = vrt(tmp_path / "m.vrt", *bands, size=(4, 4))
        ours, theirs = (package.open_rasterio(path, masked=True) for package in (swath, rioxarray))
        np.testing.assert_array_equal(ours, theirs)
        assert np.isnan(ours.values[0]).sum() == 8

    def test_dask_graphs_are_named_by_content(self, mosaic: str) -> None:
        names = [open_rasterio(mosaic, chunks=4).data.name for _ in range(2)]
        assert names[0] == names[1]
        assert pickle.loads(pickle.dumps(open_rasterio(mosaic, chunks=4))).compute().shape == (2, 4, 8)


class TestState:
    def test_state_describes_the_file(self, packed: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = open_rasterio(packed, mask_and_scale=True, band=[3, 1])
        state = array.encoding[KEY]
        assert isinstance(state, ReadState)
        assert (state.dtype, state.shape, state.nodata) == (np.uint16, (37, 53), 0)
        assert (state.masked, state.unpacked, state.by_mask) == (True, True, False)
        assert (state.bands, state.first_label) == (3, 1)
        assert state.scaling == {band: pair for band, pair in enumerate(zip(SCALES, OFFSETS, strict=True))}
        assert state.attrs is not None
        assert state.attrs["gdal_metadata"]["A"] == "1"
        assert KEY not in (array + 1).encoding

    def test_of_variables(self, packed: str) -> None:
        dataset = open_rasterio(packed, band_as_variable=True)
        states = [variable.encoding[KEY] for variable in dataset.data_vars.values()]
        assert [(state.first_label, state.sample) for state in states] == [(1, 0), (1, 1), (1, 2)]


def test_netcdf_dimension_becomes_the_first(tmp_path: Path) -> None:
    tags = {"NETCDF_DIM_EXTRA": "{time}", "NETCDF_DIM_time_DEF": "{3,6}", "NETCDF_DIM_time_VALUES": "{1,2.5,4}"}
    tags |= {"time#units": "days since 2020-01-01", "NETCDF_VARNAME": "rain", "rain#long_name": "rainfall"}
    write_rasterio(tmp_path / "a.tif", PIXELS, tags=tags)
    array = open_rasterio(tmp_path / "a.tif")
    assert array.dims == ("time", "y", "x")
    assert array.name == "rain"
    assert str(array.time.values[1]) == "2020-01-03 12:00:00"
    assert open_rasterio(tmp_path / "a.tif", decode_times=False).time.values.tolist() == [1, 2.5, 4]
    assert open_rasterio(tmp_path / "a.tif", decode_times=False, band=[3, 1]).time.values.tolist() == [4, 1]


def test_control_points_and_coefficients(tmp_path: Path) -> None:
    rpc = tuple(float(number) for number in range(92))
    path = tagged(tmp_path / "a.tif", extra=[(50844, "d", 92, rpc, True)])
    array = open_rasterio(path)
    assert set(array.coords) == {"band", "spatial_ref"}
    assert json.loads(array.spatial_ref.attrs["rpcs"])["lat_off"] == 4.0
    assert array.rio.get_rpcs().samp_scale == 8.0
    ties = [(0, 0, 0, 10, 50, 0), (5, 0, 0, 11, 50, 0), (0, 3, 0, 10, 49, 0), (5, 3, 0, 11.5, 49, 0)]
    path = tagged(tmp_path / "b.tif", scale=None, tie=[number for tie in ties for number in tie])
    gcps = open_rasterio(path).rio.get_gcps()
    assert [(gcp.col, gcp.row, gcp.x, gcp.y) for gcp in gcps][-1] == (5, 3, 11.5, 49)


def test_many_files_are_one_variable(tmp_path: Path) -> None:
    """`open_mfdataset` names variables after files unless `default_name` gives them a common name."""
    for index in range(3):
        write_rasterio(tmp_path / f"day{index}.tif", PIXELS[0] + index, nodata=0)
    files = [str(tmp_path / f"day{index}.tif") for index in range(3)]
    dataset = xr.open_mfdataset(files, engine="swath", combine="nested", concat_dim="time", default_name="rain")
    assert list(dataset.data_vars) == ["rain"]
    assert dataset["rain"].dims == ("time", "y", "x")
    np.testing.assert_array_equal(dataset["rain"], np.stack([PIXELS[0] + index for index in range(3)]))
    assert len(xr.open_mfdataset(files, engine="swath").data_vars) == 3


def test_importing_swath_imports_no_xarray() -> None:
    import subprocess
    import sys

    code = (
        "import sys, swath; swath.open_rasterio; sys.exit(any(m in sys.modules for m in ('xarray', 'dask', 'pyproj')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
