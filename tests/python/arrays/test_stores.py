"""netCDF and Zarr between reading and writing: they store Swath's arrays and return them unchanged."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr

from open_files import by_gdal, tagged
from swath import open_geotiff, to_geotiff
from swath.xarray.structured import Structured

COUNTS = np.random.default_rng(2).integers(1, 4000, (3, 8, 9)).astype("i2")
COUNTS[:, 1, 1] = 0
STORES = ["netcdf4", "scipy", "zarr"]


def stored(array: xr.DataArray, folder: Path, store: str) -> xr.DataArray:
    """The array after a round trip through a store; a warning about dropped or rounded values fails the test."""
    dataset = array.to_dataset(name="values")
    number = len(list(folder.iterdir()))
    path = folder / f"{number}.{store}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Consolidated metadata")
        if store == "zarr":
            dataset.to_zarr(path, consolidated=False)
            opened = xr.open_dataset(path, engine="zarr", chunks=None, consolidated=False)
        else:
            dataset.to_netcdf(path, engine=store)
            opened = xr.open_dataset(path, engine=store)
        with opened:
            found: xr.DataArray = opened["values"].load()
    return found


@pytest.fixture
def scene(tmp_path: Path) -> str:
    """Three bands with everything that attrs can hold: metadata, tags, texts, resolution, nodata, scales."""
    path = by_gdal(tmp_path / "scene.tif", COUNTS, nodata=0)
    with rasterio.open(path, "r+") as file:
        file.update_tags(SENSOR="MSI", marks="a<b>&", TIFFTAG_IMAGEDESCRIPTION="Höhe")
        file.update_tags(TIFFTAG_XRESOLUTION="72.5", TIFFTAG_YRESOLUTION="300", TIFFTAG_RESOLUTIONUNIT="3")
        file.update_tags(2, own="of band 2")
        file.descriptions, file.units = ("blue", "green", "red"), ("m", "s", "K")
        file.scales, file.offsets = (0.1, 0.5, 2.0), (5.0, 1.0, 0.0)
    return path


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("keywords", [{}, {"masked": True}, {"unpack": True}, {"band": 1}, {"chunks": 4}])
def test_attrs_and_values_are_stored_as_they_are(
    keywords: dict[str, Any], store: str, scene: str, tmp_path: Path
) -> None:
    array = open_geotiff(scene, **keywords)
    again = stored(array, tmp_path, store)
    np.testing.assert_allclose(again, array, rtol=1e-6)
    assert set(again.coords) == set(array.coords)
    for name, value in array.attrs.items():
        found = again.attrs[name]
        # Structured attrs are text there; all others can be compared.
        expected = str.__str__(value) if isinstance(value, Structured) else value
        np.testing.assert_array_equal(found, expected, err_msg=name)
    assert not any(isinstance(value, bool | dict | type(None)) for value in array.attrs.values())


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("keywords", [{}, {"masked": True}])
def test_band_metadata_survives_a_store(keywords: dict[str, Any], store: str, scene: str, tmp_path: Path) -> None:
    again = stored(open_geotiff(scene, **keywords), tmp_path, store)
    to_geotiff(again, tmp_path / "it.tif")
    with rasterio.open(scene) as one, rasterio.open(tmp_path / "it.tif") as two:
        np.testing.assert_array_equal(two.read(), one.read())
        assert (two.dtypes, two.nodata, two.crs, two.transform) == (one.dtypes, one.nodata, one.crs, one.transform)
        assert (two.descriptions, two.units, two.tags()) == (one.descriptions, one.units, one.tags())
        assert two.tags(2)["own"] == "of band 2"
        # It is no longer known whether these are the counts of the file, so the array states no scale.
        assert two.scales == (1.0, 1.0, 1.0)
    part = again.isel(band=[2, 0])
    to_geotiff(part, tmp_path / "it.tif")
    with rasterio.open(tmp_path / "it.tif") as file:
        assert (file.descriptions, file.units) == (("red", "blue"), ("K", "m"))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("scales", [(0.1,) * 3, (0.1, 0.5, 2.0)])
def test_unpacked_values_come_back_by_way_of_a_store(scales: Any, store: str, scene: str, tmp_path: Path) -> None:
    with rasterio.open(scene, "r+") as file:
        file.scales, file.offsets = scales, (-0.5,) * 3
    array = open_geotiff(scene, unpack=True)
    again = stored(array, tmp_path, store)
    to_geotiff(again, tmp_path / "it.tif")
    np.testing.assert_allclose(open_geotiff(tmp_path / "it.tif", unpack=True), array, rtol=1e-6)
    with rasterio.open(tmp_path / "it.tif") as file:
        # CF can express a scale that all bands share.
        packed = scales == (0.1,) * 3
        assert file.dtypes[0] == ("int16" if packed else "float64")
        assert file.scales == (scales if packed else (1.0,) * 3)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("keywords", [{}, {"masked": True}])
def test_the_nodata_value_of_floats_is_not_replaced_by_the_nan_of_xarray(
    keywords: dict[str, Any], store: str, tmp_path: Path
) -> None:
    heights = COUNTS[0].astype("f4")
    heights[1, 1] = -9999
    array = open_geotiff(by_gdal(tmp_path / "a.tif", heights, nodata=-9999), **keywords)
    again = stored(array, tmp_path, store)
    to_geotiff(again, tmp_path / "it.tif")
    with rasterio.open(tmp_path / "it.tif") as file:
        assert file.nodata == -9999
        np.testing.assert_array_equal(file.read(1), heights)


@pytest.mark.parametrize("store", ["netcdf4", "zarr"])
def test_masked_pixels_stay_missing_in_a_store(store: str, tmp_path: Path) -> None:
    valid = np.ones((8, 9), bool)
    valid[2:4, 3] = False
    bands = (COUNTS % 250).astype("u1")
    array = open_geotiff(by_gdal(tmp_path / "a.tif", bands, masks=valid * np.uint8(255)), masked=True)
    again = stored(array, tmp_path, store)
    np.testing.assert_array_equal(again, array)
    to_geotiff(again, tmp_path / "it.tif")
    np.testing.assert_array_equal(open_geotiff(tmp_path / "it.tif", masked=True), array)


@pytest.mark.parametrize("store", ["netcdf4", "zarr"])
@pytest.mark.parametrize("names", [["sea", "land & <moor>"], ["only"]])
def test_palettes_categories_and_colours_survive(names: list[str], store: str, tmp_path: Path) -> None:
    classes = (COUNTS[0] % len(names)).astype("u1")
    palette = tuple(range(768))
    attrs = {"category_names": names, "category_colors": [(1, 2, 3, 255)] * len(names), "colormap": palette}
    to_geotiff(xr.DataArray(classes, dims=("y", "x"), attrs=attrs), tmp_path / "a.tif")
    again = stored(open_geotiff(tmp_path / "a.tif"), tmp_path, store)
    to_geotiff(again, tmp_path / "it.tif")
    found = open_geotiff(tmp_path / "it.tif").attrs
    assert (found["category_names"], found["category_colors"]) == (names, attrs["category_colors"])
    assert found["colormap"] == palette
    rgb = by_gdal(tmp_path / "rgb.tif", (COUNTS % 250).astype("u1"), photometric="RGB")
    to_geotiff(stored(open_geotiff(rgb), tmp_path, store), tmp_path / "it.tif")
    with rasterio.open(tmp_path / "it.tif") as file:
        assert [color.name for color in file.colorinterp] == ["red", "green", "blue"]


@pytest.mark.parametrize("store", STORES)
def test_tags_of_every_type_survive(store: str, tmp_path: Path) -> None:
    extra = [(65000, "H", 2, (3, 4), True), (65001, "s", 0, b"text", True), (65002, "B", 3, b"\x00\xff\x80", True)]
    path = tagged(tmp_path / "a.tif", COUNTS[0], extra=extra)
    array = open_geotiff(path)
    to_geotiff(stored(array, tmp_path, store), tmp_path / "it.tif")
    assert open_geotiff(tmp_path / "it.tif").attrs["extra_tags"] == array.attrs["extra_tags"]


@pytest.mark.parametrize("store", STORES)
def test_a_file_without_georeferencing_does_not_get_one(store: str, tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", COUNTS[0], scale=None, tie=None, keys=None)
    to_geotiff(stored(open_geotiff(path), tmp_path, store), tmp_path / "it.tif")
    assert open_geotiff(tmp_path / "it.tif").attrs["georef_status"] == "none"


@pytest.mark.parametrize("store", ["netcdf4", "zarr"])
def test_holes_of_a_mosaic_can_be_stored(store: str, tmp_path: Path) -> None:
    by_gdal(tmp_path / "a.tif", COUNTS[0])
    to_geotiff(open_geotiff(tmp_path / "a.tif"), tmp_path / "m.vrt", tile_size=16)
    next((tmp_path / "m_tiles").iterdir()).unlink()
    with pytest.warns(UserWarning):
        array = open_geotiff(tmp_path / "m.vrt", missing_sources="warn")
    assert array.attrs["vrt_holes"][0]["source"].endswith(".tif")
    assert "source" in stored(array, tmp_path, store).attrs["vrt_holes"]
