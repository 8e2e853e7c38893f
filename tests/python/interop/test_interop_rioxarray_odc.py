"""rioxarray, odc-geo, netCDF, Zarr, pickle and distributed handle Swath's arrays like those of rioxarray."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import odc.geo.xr  # noqa: F401  registers .odc
import pytest
import rasterio
import rioxarray
import xarray as xr
from odc.geo.geobox import GeoBox
from rasterio.enums import Resampling
from rasterio.transform import Affine
from rioxarray.merge import merge_arrays
from shapely.geometry import Polygon, mapping

import swath
from operations import FIRST_LABEL, OTHER_UTM, OUR_DOORS, SOURCES, band_first, open_source
from swath.xarray.structured import Structured

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = ("open_geotiff", "open_geotiff+spatial_ref", *OUR_DOORS[1:])
PLACED = ("scene", "scene4", "dem", "degrees", "palette", "point", "south_up", "rgb")
ENGINES = ("netcdf4", *(("h5netcdf",) if importlib.util.find_spec("h5py") else ()))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return {name: source.write(folder) for name, source in SOURCES.items()}


def ours(path: Path, way: str, mode: str, backend: str = "numpy") -> xr.DataArray:
    """Swath's array in rioxarray's order: (band, y, x), or (y, x)."""
    door, _, spatial_ref = way.partition("+")
    options = {"spatial_ref": True} if spatial_ref else {}
    return band_first(open_source(path, door, mode, backend, **options))


def theirs(path: Path, mode: str, backend: str = "numpy") -> xr.DataArray:
    return open_source(path, "rioxarray", mode, backend)


def theirs_for_odc(path: Path, mode: str, backend: str = "numpy") -> xr.DataArray:
    """rioxarray's array for odc-geo, which uses `encoding["_FillValue"]` as the nodata of masked values too unless
    attrs state NaN.
    """
    array = theirs(path, mode, backend)
    return array if mode == "plain" else array.assign_attrs(nodata=np.nan)


def combinations(names: tuple[str, ...] = PLACED) -> list[tuple[str, str, str]]:
    return [(name, way, mode) for name in names for way in WAYS for mode in SOURCES[name].modes]


def as_bands(array: xr.DataArray) -> np.ndarray:
    return np.atleast_3d(array.values) if array.ndim == 3 else array.values[None]


def assert_same_values(found: np.ndarray, expected: np.ndarray) -> None:
    """Checks values for equality in float32 and within the change of bilinear weights for a grid that is off by a
    millionth of a pixel.
    """
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * max(1.0, float(np.nanmax(np.abs(expected)))))


def assert_same_grid(found: Affine, expected: Affine, shape: tuple[int, int]) -> None:
    """Checks that corners agree to a millionth of a pixel: without `spatial_ref` the grid is computed from the
    coordinates.
    """
    rows, columns = shape
    pixel = np.hypot(expected.a, expected.d)
    for corner in ((0, 0), (columns, 0), (0, rows), (columns, rows)):
        off = np.subtract(found * corner, expected * corner) / pixel
        assert np.abs(off).max() < 1e-6, f"corner {corner} is off by {off} pixels"


def assert_same(found: xr.DataArray, expected: xr.DataArray) -> None:
    """Checks values, transform, CRS and nodata. Types may differ: open_geotiff masks to float64."""
    assert_same_values(as_bands(found), as_bands(expected))
    assert_same_grid(found.rio.transform(), expected.rio.transform(), expected.rio.shape)
    assert found.rio.crs == expected.rio.crs
    np.testing.assert_equal(found.rio.nodata, expected.rio.nodata)


def bounds_inside(array: xr.DataArray) -> tuple[float, float, float, float]:
    left, bottom, right, top = array.rio.bounds()
    dx, dy = abs(right - left) / 5, abs(top - bottom) / 5
    return min(left, right) + dx, min(bottom, top) + dy, max(left, right) - dx, max(bottom, top) - dy


def triangle(array: xr.DataArray) -> dict[str, Any]:
    left, bottom, right, top = array.rio.bounds()
    return mapping(Polygon([(left, bottom), (right, bottom), ((left + right) / 2, top)]))


def halves(array: xr.DataArray) -> list[xr.DataArray]:
    """Two overlapping parts that leave a gap in the corners of their common extent."""
    return [array.isel(x=slice(0, 18), y=slice(0, 20)), array.isel(x=slice(12, None), y=slice(6, None))]


RIO: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "reproject": lambda a: a.rio.reproject(f"EPSG:{OTHER_UTM}"),
    "reproject_bilinear": lambda a: a.rio.reproject("EPSG:3857", resampling=Resampling.bilinear),
    "reproject_finer": lambda a: a.rio.reproject(a.rio.crs, shape=(31, 37), resampling=Resampling.nearest),
    "reproject_match": lambda a: a.rio.reproject_match(a.isel(x=slice(3, 20, 2), y=slice(2, 20, 3))),
    "clip_box": lambda a: a.rio.clip_box(*bounds_inside(a)),
    "clip": lambda a: a.rio.clip([triangle(a)]),
    "clip_without_drop": lambda a: a.rio.clip([triangle(a)], drop=False, all_touched=True),
    "clip_inverted": lambda a: a.rio.clip([triangle(a)], invert=True),
    "pad_box": lambda a: a.isel(x=slice(4, 20), y=slice(5, 19)).rio.pad_box(*a.rio.bounds()),
    "slice_xy": lambda a: a.rio.slice_xy(*bounds_inside(a)),
    "merge": lambda a: merge_arrays(halves(a)),
    "clip_box_then_reproject": lambda a: a.rio.clip_box(*bounds_inside(a)).rio.reproject("EPSG:3857"),
}


# rioxarray cannot pad or merge arrays with ascending y.
NORTH_UP_ONLY = ("pad_box", "merge")


@pytest.mark.parametrize(
    ("name", "way", "mode", "call"),
    [(*each, call) for each in combinations() for call in RIO if each[0] != "south_up" or call not in NORTH_UP_ONLY],
)
def test_rioxarray_gives_the_same(name: str, way: str, mode: str, call: str, files: dict[str, Path]) -> None:
    assert_same(RIO[call](ours(files[name], way, mode)), RIO[call](theirs(files[name], mode)))


@pytest.mark.parametrize(("name", "way", "mode"), combinations())
def test_rioxarray_finds_transform_crs_and_nodata(name: str, way: str, mode: str, files: dict[str, Path]) -> None:
    found, expected = ours(files[name], way, mode), theirs(files[name], mode)
    assert_same(found, expected)
    assert found.rio.bounds() == pytest.approx(expected.rio.bounds())
    assert found.rio.resolution() == pytest.approx(expected.rio.resolution())
    if mode != "unpacked" or SOURCES[name].count == 1:
        # With a scale per band, a nodata value in `encoding` would make netCDF lose the values that equal it.
        np.testing.assert_equal(found.rio.encoded_nodata, expected.rio.encoded_nodata)
    if mode != "plain":
        assert np.isnan(found.rio.nodata)


@pytest.mark.parametrize(("name", "way", "mode"), combinations())
def test_rioxarray_writes_the_same_file(name: str, way: str, mode: str, files: dict[str, Path], tmp_path: Path) -> None:
    if mode == "unpacked" and SOURCES[name].count > 1:
        return check_own_file(ours(files[name], way, mode), tmp_path / "ours.tif")
    ours(files[name], way, mode).rio.to_raster(tmp_path / "ours.tif")
    theirs(files[name], mode).rio.to_raster(tmp_path / "theirs.tif")
    with rasterio.open(tmp_path / "ours.tif") as found, rasterio.open(tmp_path / "theirs.tif") as expected:
        assert found.transform.almost_equals(expected.transform)
        assert found.crs == expected.crs
        if way == "open_rasterio":
            assert found.dtypes == expected.dtypes
            np.testing.assert_equal(found.nodata, expected.nodata)
            assert found.descriptions == expected.descriptions
            assert (found.scales, found.offsets) == (expected.scales, expected.offsets)
        # rioxarray finds no scales on a plain or masked array that it did not open; the stored numbers are the same.
        scaled = way == "open_rasterio" or mode == "unpacked"
        values, other = (read_masked(each, scaled) for each in (found, expected))
        np.testing.assert_allclose(values, other, rtol=1e-5, atol=1e-6)
    return None


def read_masked(file: rasterio.DatasetReader, scaled: bool) -> np.ndarray:
    """The bands as float64 with NaN for missing pixels, with or without scale and offset."""
    values = file.read(masked=True).astype("float64")
    if scaled:
        values = values * np.reshape(file.scales, (-1, 1, 1)) + np.reshape(file.offsets, (-1, 1, 1))
    return np.ma.filled(values, np.nan)


def check_own_file(array: xr.DataArray, path: Path) -> None:
    """Checks Swath's file alone: rioxarray scales the bands of its own arrays by the factor of another band, so its
    file is wrong.
    """
    array.drop_encoding().rio.to_raster(path)
    with rasterio.open(path) as file:
        np.testing.assert_allclose(file.read(), array.values, rtol=1e-6)


COMPUTED: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "add": lambda a: a + 1,
    "scale": lambda a: a * 1e-4,
    "where": lambda a: a.where(a > a.mean()),
    "astype": lambda a: a.astype("float32"),
    "coarsen": lambda a: a.coarsen(x=2, y=2).mean(),
    "slice": lambda a: a.isel(x=slice(2, 20)),
}


@pytest.mark.parametrize("operation", COMPUTED)
@pytest.mark.parametrize(("name", "way", "mode"), [each for each in combinations() if each[2] != "plain"])
def test_nan_is_the_nodata_of_a_masked_array(
    name: str, way: str, mode: str, operation: str, files: dict[str, Path]
) -> None:
    array = COMPUTED[operation](ours(files[name], way, mode))
    assert array.rio.nodata is not None
    assert np.isnan(array.rio.nodata)
    assert array.odc.nodata is not None
    assert np.isnan(array.odc.nodata)


@pytest.mark.parametrize("tool", ["rio", "odc"])
@pytest.mark.parametrize(("name", "way", "mode"), [each for each in combinations() if each[2] != "plain"])
def test_reprojection_of_computed_values_mixes_in_no_sentinel(
    name: str, way: str, mode: str, tool: str, files: dict[str, Path]
) -> None:
    array = ours(files[name], way, mode) * 2
    if tool == "rio":
        moved = array.rio.reproject("EPSG:3857")
    else:
        moved = array.odc.reproject("EPSG:3857", resampling="nearest")
    assert moved.isnull().any()
    assert float(moved.min()) >= float(array.min())
    assert float(moved.max()) <= float(array.max())


@pytest.mark.parametrize(("name", "way", "mode"), combinations())
def test_odc_finds_the_same_geobox(name: str, way: str, mode: str, files: dict[str, Path]) -> None:
    found, expected = ours(files[name], way, mode), theirs_for_odc(files[name], mode)
    assert isinstance(found.odc.geobox, GeoBox)
    assert found.odc.geobox.shape == expected.odc.geobox.shape
    assert_same_grid(found.odc.geobox.affine, expected.odc.geobox.affine, expected.odc.geobox.shape)
    assert found.odc.crs == expected.odc.crs
    np.testing.assert_equal(found.odc.nodata, expected.odc.nodata)


ODC: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "to_crs": lambda a: a.odc.reproject("EPSG:3857", resampling="nearest"),
    "bilinear": lambda a: a.odc.reproject("EPSG:3857", resampling="bilinear"),
    "coarser": lambda a: a.odc.reproject(a.odc.geobox.zoom_out(3), resampling="nearest"),
    "shifted": lambda a: a.odc.reproject(a.odc.geobox.translate_pix(4, -3), resampling="nearest"),
}


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize("call", ODC)
@pytest.mark.parametrize(("name", "way", "mode"), combinations(("scene", "scene4", "dem", "degrees")))
def test_odc_gives_the_same(name: str, way: str, mode: str, call: str, backend: str, files: dict[str, Path]) -> None:
    found = ODC[call](ours(files[name], way, mode, backend))
    expected = ODC[call](theirs_for_odc(files[name], mode, backend))
    assert_same_values(as_bands(found), as_bands(expected))
    assert_same_grid(found.odc.geobox.affine, expected.odc.geobox.affine, expected.odc.geobox.shape)
    assert found.odc.crs == expected.odc.crs
    np.testing.assert_equal(found.odc.nodata, expected.odc.nodata)


@pytest.mark.parametrize(("name", "way", "mode"), combinations(("scene", "dem", "degrees", "rgb")))
def test_odc_writes_the_same_cog(name: str, way: str, mode: str, files: dict[str, Path], tmp_path: Path) -> None:
    array, other = ours(files[name], way, mode), theirs_for_odc(files[name], mode)
    if other.sizes["band"] == 1:
        array, other = array.squeeze(), other.squeeze()
    array.odc.write_cog(tmp_path / "ours.tif")
    other.odc.write_cog(tmp_path / "theirs.tif")
    with rasterio.open(tmp_path / "ours.tif") as found, rasterio.open(tmp_path / "theirs.tif") as expected:
        assert found.transform.almost_equals(expected.transform)
        assert found.crs == expected.crs
        np.testing.assert_equal(found.nodata, expected.nodata)
        np.testing.assert_allclose(found.read(), expected.read(), rtol=1e-6, atol=1e-7)


# Files and memory of other libraries.


def through_net_cdf(array: xr.DataArray, folder: Path, engine: str) -> xr.DataArray:
    path = folder / "array.nc"
    array.to_dataset(name="values").to_netcdf(path, engine=engine)
    with xr.open_dataset(path, engine=engine, decode_coords="all") as opened:
        return opened["values"].load()


def through_zarr(array: xr.DataArray, folder: Path, zarr_format: int) -> xr.DataArray:
    path = folder / "array.zarr"
    array.to_dataset(name="values").to_zarr(path, zarr_format=zarr_format, consolidated=False)
    with xr.open_dataset(path, engine="zarr", chunks=None, consolidated=False, decode_coords="all") as opened:
        return opened["values"].load()


STORES: dict[str, Callable[[xr.DataArray, Path], xr.DataArray]] = {
    **{engine: lambda a, folder, engine=engine: through_net_cdf(a, folder, engine) for engine in ENGINES},
    "zarr2": lambda a, folder: through_zarr(a, folder, 2),
    "zarr3": lambda a, folder: through_zarr(a, folder, 3),
}
STORED = tuple(name for name in SOURCES if name != "rotated")


def physical_values(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Values with scale and offset applied, NaN where missing; and the stored numbers."""
    with rasterio.open(path) as file:
        return read_masked(file, True), read_masked(file, False)


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("name", "way", "mode"), combinations(STORED))
def test_stores_keep_values_and_georeferencing(
    name: str, way: str, mode: str, store: str, backend: str, files: dict[str, Path], tmp_path: Path
) -> None:
    door, _, spatial_ref = way.partition("+")
    options = {"spatial_ref": True} if spatial_ref else {}
    array = open_source(files[name], door, mode, backend, **options)
    if store == "h5netcdf" and door == "open_geotiff" and any(isinstance(v, Structured) for v in array.attrs.values()):
        # h5py cannot store a subclass of str; docs/from-xrspatial.md says so.
        with pytest.raises(TypeError, match="No conversion path"):
            STORES[store](array, tmp_path)
        return
    again = STORES[store](array, tmp_path)
    source = SOURCES[name]
    if mode != "plain":
        # As with rioxarray, a masked array of one band may have its scale in attrs, which xarray applies when it reads.
        decoded = mode == "masked" and source.scaled and "scale_factor" in again.encoding
        scale, offset = (source.scales[0], source.offsets[0]) if decoded else (1.0, 0.0)
        np.testing.assert_allclose(again.values, array.values * scale + offset, rtol=1e-5, atol=1e-6)
    path = tmp_path / "again.tif"
    swath.to_geotiff(again, path)
    with rasterio.open(files[name]) as old, rasterio.open(path) as new:
        assert new.count == old.count
        assert new.crs == old.crs
        if source.transform is not None:
            assert new.transform.almost_equals(old.transform, precision=1e-6)
        numbers = labels(again, door)
        for found, number in zip(new.descriptions, numbers, strict=True):
            assert found == old.descriptions[number]
    old_physical, old_stored = physical_values(files[name])
    new_physical, new_stored = physical_values(path)
    if mode == "plain":
        # The nodata value may now be an ordinary number, or still mark missing pixels.
        missing = source.missing()
        assert not (np.isnan(new_stored) & ~missing).any()
        old_physical, old_stored, new_physical, new_stored = (
            np.where(missing, np.nan, each) for each in (old_physical, old_stored, new_physical, new_stored)
        )
    same_meaning = np.allclose(new_physical, old_physical, rtol=1e-5, atol=2e-6, equal_nan=True)
    same_numbers = np.allclose(new_physical, old_stored, rtol=1e-6, equal_nan=True)
    # xarray decodes `scale_factor` but not `scales`, so the store holds either the values or the counts.
    assert same_meaning or (same_numbers and mode != "unpacked")


def labels(array: xr.DataArray, door: str) -> list[int]:
    if "band" not in array.coords:
        return [0]
    return [int(label) - FIRST_LABEL[door] for label in np.atleast_1d(array.band.values)]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("way", WAYS)
def test_stores_keep_computed_values(way: str, store: str, files: dict[str, Path], tmp_path: Path) -> None:
    """After arithmetic no packed type is left that could round the values."""
    array = ours(files["scene4"], way, "masked") * 1e-4
    if store == "h5netcdf":
        array.attrs = {name: value for name, value in array.attrs.items() if not isinstance(value, Structured)}
    again = STORES[store](array, tmp_path)
    np.testing.assert_allclose(again.values, array.values, rtol=1e-6)
    path = tmp_path / "again.tif"
    swath.to_geotiff(again, path)
    found, stored = physical_values(path)
    np.testing.assert_allclose(found, array.values, rtol=1e-6)
    np.testing.assert_array_equal(found, stored)


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize(("name", "way", "mode"), combinations(STORED))
def test_pickled_arrays_are_the_same(name: str, way: str, mode: str, backend: str, files: dict[str, Path]) -> None:
    door, _, spatial_ref = way.partition("+")
    options = {"spatial_ref": True} if spatial_ref else {}
    array = open_source(files[name], door, mode, backend, **options)
    again = pickle.loads(pickle.dumps(array))
    xr.testing.assert_identical(again.compute(), array.compute())
    assert set(again.encoding) == set(array.encoding)


@pytest.fixture(scope="module", params=["threads", "processes"])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=request.param == "processes",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["plain", "masked", "unpacked"])
def test_distributed_reads_and_writes(way: str, mode: str, client: Any, files: dict[str, Path], tmp_path: Path) -> None:
    array = ours(files["scene4"], way, mode, "dask")
    np.testing.assert_array_equal(array.compute().values, ours(files["scene4"], way, mode).values)
    sliced = array.isel(x=slice(3, 27, 2), y=slice(None, None, -1))
    path = tmp_path / "sliced.tif"
    swath.to_geotiff(sliced, path)
    expected, _ = physical_values(files["scene4"])
    found, _ = physical_values(path)
    np.testing.assert_allclose(found, expected[:, ::-1, 3:27:2], rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(rioxarray.open_rasterio(path).x, sliced.x)
    np.testing.assert_allclose(rioxarray.open_rasterio(path).y, sliced.y)
