"""The mask of a file survives a read that does not apply it, for any selection of its pixels."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray as xr

import swath

VALID = np.random.default_rng(5).random((40, 50)) < 0.7

SELECTIONS: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "whole": lambda a: a,
    "slice": lambda a: a.isel(y=slice(3, 30), x=slice(7, 41)),
    "stride": lambda a: a.isel(y=slice(1, None, 3), x=slice(None, None, 2)),
    "flip": lambda a: a.isel(y=slice(None, None, -1)),
    "band": lambda a: a.isel(band=1),
    "one row": lambda a: a.isel(y=[17]),
    "pickled": lambda a: pickle.loads(pickle.dumps(a)),
    "copied": lambda a: a.copy(deep=True),
}
DOORS: dict[str, Callable[[Path], xr.DataArray]] = {
    "open_geotiff": swath.open_geotiff,
    "open_geotiff dask": lambda path: swath.open_geotiff(path, chunks=16),
    "open_rasterio": swath.open_rasterio,
    "open_rasterio dask": lambda path: swath.open_rasterio(path, chunks={"y": 16, "x": 16}),
    "window": lambda path: swath.open_geotiff(path, window=(0, 0, 40, 50)),
}


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.tif"
    pixels = np.random.default_rng(1).integers(0, 255, (3, 40, 50), dtype="uint8")
    place = rasterio.Affine(10, 0, 500_000, 0, -10, 4_000_000)
    size = {"width": 50, "height": 40, "count": 3, "dtype": "uint8"}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", driver="GTiff", photometric="RGB", crs="EPSG:32633", transform=place, **size) as file,
    ):
        file.write(pixels)
        file.write_mask(VALID)
    return path


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("door", DOORS)
def test_selected_pixels_keep_their_mask(door: str, selection: str, picture: Path, tmp_path: Path) -> None:
    valid = xr.DataArray(np.stack([VALID] * 3), dims=("band", "y", "x"))
    expected = SELECTIONS[selection](valid)
    expected = expected.isel(band=0) if "band" in expected.dims else expected
    swath.to_geotiff(SELECTIONS[selection](DOORS[door](picture)), tmp_path / "out.tif")
    with rasterio.open(tmp_path / "out.tif") as file:
        assert file.mask_flag_enums[0] == [rasterio.enums.MaskFlags.per_dataset]
        np.testing.assert_array_equal(file.dataset_mask() > 0, expected.values)


@pytest.mark.parametrize(
    "change", [lambda a: a + 0, lambda a: a.assign_coords(x=a.x + 3), lambda a: a.interp(x=a.x.values[1:] - 5)]
)
def test_other_pixels_have_no_mask(
    change: Callable[[xr.DataArray], xr.DataArray], picture: Path, tmp_path: Path
) -> None:
    swath.to_geotiff(change(swath.open_geotiff(picture)), tmp_path / "out.tif")
    with rasterio.open(tmp_path / "out.tif") as file:
        assert rasterio.enums.MaskFlags.per_dataset not in file.mask_flag_enums[0]


def test_a_removed_mask_is_left_out_with_a_warning(picture: Path, tmp_path: Path) -> None:
    array = swath.open_geotiff(picture)
    picture.unlink()
    with pytest.warns(UserWarning, match="mask of"):
        swath.to_geotiff(array, tmp_path / "out.tif")
    with rasterio.open(tmp_path / "out.tif") as file:
        np.testing.assert_array_equal(file.read(), array.transpose("band", "y", "x").values)


def test_the_file_itself_can_be_overwritten(picture: Path) -> None:
    swath.to_geotiff(swath.open_geotiff(picture, chunks=16), picture)
    with rasterio.open(picture) as file:
        np.testing.assert_array_equal(file.dataset_mask() > 0, VALID)


def test_mask_false_leaves_it_out(picture: Path, tmp_path: Path) -> None:
    swath.to_geotiff(swath.open_geotiff(picture), tmp_path / "out.tif", mask=False)
    with rasterio.open(tmp_path / "out.tif") as file:
        assert rasterio.enums.MaskFlags.per_dataset not in file.mask_flag_enums[0]
