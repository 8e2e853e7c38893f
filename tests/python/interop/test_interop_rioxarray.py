"""Swath and rioxarray read the same pixels, coordinates, masks and scales, and Swath writes arrays that rioxarray
opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rioxarray
import xarray as xr

import swath
from samples import ramp, write_rasterio
from written import place

pytestmark = pytest.mark.filterwarnings("ignore")

FILES: dict[str, dict[str, Any]] = {
    "plain": {},
    "nodata": {"nodata": 5},
    "scaled": {"nodata": 5, "scales": (0.1,), "offsets": (2.0,)},
    "point": {"tags": {"AREA_OR_POINT": "Point"}},
    "geographic": {"crs": "EPSG:4326"},
    "nowhere": {"crs": None, "transform": None},
}


def theirs_of(path: Path, **options: Any) -> xr.DataArray:
    opened = rioxarray.open_rasterio(path, **options)
    assert isinstance(opened, xr.DataArray)
    return opened


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.tif"
    array = ramp((40, 50), "u2")
    array[3:9, 4:20] = 5
    write_rasterio(path, array, **FILES[request.param])
    return path


def test_pixels_and_coordinates(file: Path) -> None:
    ours, theirs = swath.open_geotiff(file), theirs_of(file).squeeze("band", drop=True)
    np.testing.assert_array_equal(ours.values, theirs.values, strict=True)
    if "transform" in ours.attrs:
        np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-13)
        np.testing.assert_allclose(ours.y, theirs.y, rtol=1e-13)


def test_masked_pixels(file: Path) -> None:
    ours, theirs = swath.open_geotiff(file, masked=True), theirs_of(file, masked=True).squeeze("band", drop=True)
    np.testing.assert_array_equal(ours.values, theirs.values)


def test_masked_and_scaled_pixels(file: Path) -> None:
    ours = swath.open_geotiff(file, unpack=True)
    theirs = theirs_of(file, mask_and_scale=True).squeeze("band", drop=True)
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-7)


def test_lazy_pixels(file: Path) -> None:
    ours, theirs = swath.open_geotiff(file, chunks=16), theirs_of(file, chunks=16).squeeze("band", drop=True)
    np.testing.assert_array_equal(ours.compute().values, theirs.compute().values, strict=True)


def test_rio_accessor_finds_crs_and_transform(file: Path) -> None:
    """`.rio` finds the CRS and, from the coordinates, the transform of an array that Swath opened."""
    ours, theirs = swath.open_geotiff(file), theirs_of(file)
    if "crs" in ours.attrs:
        ours = ours.rio.write_crs(ours.attrs["crs"])
        assert ours.rio.crs == theirs.rio.crs
        np.testing.assert_allclose(
            np.array(ours.rio.transform(recalc=True)), np.array(theirs.rio.transform()), rtol=1e-12
        )
        np.testing.assert_allclose(ours.rio.bounds(), theirs.rio.bounds(), rtol=1e-12)


def test_clip_box_is_bbox(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    write_rasterio(path, ramp((60, 80), "u2"))
    for box in (
        (500100, 4599000, 500200, 4599500),
        (500101, 4599001, 500199, 4599499),
        (499000, 4599000, 500050, 4699000),
    ):
        ours = swath.open_geotiff(path, bbox=box)
        theirs = theirs_of(path).squeeze("band", drop=True).rio.clip_box(*box)
        assert {*theirs.x.values} <= {*ours.x.values} and {*theirs.y.values} <= {*ours.y.values}
        np.testing.assert_array_equal(ours.sel(x=theirs.x, y=theirs.y).values, theirs.values)


@pytest.mark.parametrize("options", [{}, {"masked": True}, {"chunks": 16}], ids=str)
def test_swath_writes_arrays_of_rioxarray(file: Path, options: dict[str, Any], tmp_path: Path) -> None:
    """Dims (band, y, x), a spatial_ref coordinate and rioxarray's attrs: the written file equals the source."""
    target = tmp_path / "again.tif"
    opened = theirs_of(file, **options)
    if "crs" not in opened.attrs and opened.rio.crs is not None:
        opened.attrs["crs"] = opened.rio.crs.to_epsg()
    if options.get("masked") and opened.rio.encoded_nodata is not None:
        swath.to_geotiff(opened, target, nodata=opened.rio.encoded_nodata)
    else:
        swath.to_geotiff(opened, target)
    again = theirs_of(target, **{key: value for key, value in options.items() if key != "chunks"})
    np.testing.assert_array_equal(again.values, opened.values)
    if opened.rio.crs is not None:
        assert again.rio.crs == opened.rio.crs
        np.testing.assert_allclose(np.array(again.rio.transform()), np.array(opened.rio.transform()), rtol=1e-12)


def test_rioxarray_opens_files_of_swath(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    array = place(ramp((40, 50), "f4"), nodata=-1)
    array.values[2:5] = np.nan
    swath.to_geotiff(array, path)
    opened = theirs_of(path, masked=True).squeeze("band", drop=True)
    np.testing.assert_array_equal(opened.values, array.values)
    np.testing.assert_allclose(opened.x, array.x)
    np.testing.assert_allclose(opened.y, array.y)
    assert opened.rio.crs.to_epsg() == 32633 and opened.rio.encoded_nodata == -1


def test_engines_of_xarray_agree(tmp_path: Path) -> None:
    """engine="swath" and engine="rasterio" give the same dataset."""
    path = tmp_path / "a.tif"
    write_rasterio(path, ramp((3, 40, 50), "u2"), nodata=5)
    with (
        xr.open_dataset(path, engine=swath.SwathBackendEntrypoint) as ours,
        xr.open_dataset(path, engine="rasterio") as theirs,
    ):
        ours_array = next(iter(ours.data_vars.values()))
        assert ours_array.dims == ("y", "x", "band")
        values = theirs["band_data"].transpose("y", "x", "band").values
        keep = ~np.isnan(values)
        np.testing.assert_array_equal(ours_array.values[keep], values[keep])
        np.testing.assert_allclose(ours.x, theirs.x)
