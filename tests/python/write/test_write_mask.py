"""to_geotiff(mask=): missing pixels from an array, from NaN and nodata, or from the source's mask."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import rasterio
import xarray as xr

import swath
from open_files import by_gdal
from swath import open_geotiff, to_geotiff

RNG = np.random.default_rng(3)
BYTES = RNG.integers(1, 250, (60, 70)).astype("u1")
RGB = RNG.integers(0, 256, (3, 60, 70)).astype("u1")
VALID = np.ones((60, 70), bool)
VALID[5:20, 7:30] = False
VALID[40, 50] = False
LAYOUTS: dict[str, dict[str, Any]] = {
    "tiles": {"tile_size": 16},
    "strips": {"tiled": False},
    "cog": {"cog": True, "tile_size": 16},
    "planes": {"tile_size": 32, "interleave": "band"},
    "deflate": {"tile_size": 64, "compression": "deflate", "predictor": True},
}


def placed(values: Any, dims: tuple[str, ...] = ("y", "x"), **attrs: Any) -> xr.DataArray:
    coords = {"y": 895 - 10.0 * np.arange(60), "x": 505 + 10.0 * np.arange(70)}
    return xr.DataArray(values, dims=dims, coords=coords, attrs={"crs": 32633, **attrs})


def assert_masked(path: Any, valid: Any, pixels: Any) -> None:
    """Checks the mask and the valid pixels as GDAL and Swath read them."""
    pixels = np.atleast_3d(pixels.T).T if pixels.ndim == 2 else pixels
    with rasterio.open(path) as file:
        assert all(flags == [rasterio.enums.MaskFlags.per_dataset] for flags in file.mask_flag_enums)
        np.testing.assert_array_equal(file.dataset_mask() != 0, valid)
        np.testing.assert_array_equal(file.read()[:, valid], pixels[:, valid])
    masked = open_geotiff(path, masked=True).values
    missing = np.isnan(masked) if masked.ndim == 2 else np.isnan(masked).all(axis=2)
    np.testing.assert_array_equal(~missing, valid)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", ["bool", "uint8", "int32", "DataArray", "dask", "transposed"])
def test_an_array_is_the_mask_of_the_file(kind: str, lazy: bool, layout: str, tmp_path: Path) -> None:
    mask: Any = {
        "bool": VALID,
        "uint8": VALID * np.uint8(255),
        "int32": VALID.astype("i4") * -7,
        "DataArray": placed(VALID),
        "dask": da.from_array(VALID, chunks=23),
        "transposed": placed(VALID).T,
    }[kind]
    data = placed(RGB, ("band", "y", "x"))
    to_geotiff(data.chunk(32) if lazy else data, tmp_path / "it.tif", mask=mask, **LAYOUTS[layout])
    assert_masked(tmp_path / "it.tif", VALID, RGB)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lazy", [False, True])
def test_true_masks_nan_and_nodata(lazy: bool, layout: str, tmp_path: Path) -> None:
    floats, integers = np.where(VALID, BYTES, np.nan).astype("f4"), np.where(VALID, BYTES, 0).astype("u1")
    for values, options in ((floats, {}), (integers, {"nodata": 0}), (floats, {"nodata": -1})):
        data = placed(values)
        to_geotiff(data.chunk(32) if lazy else data, tmp_path / "it.tif", mask=True, **options, **LAYOUTS[layout])
        assert_masked(tmp_path / "it.tif", VALID, BYTES)
    # A pixel is valid if at least one band is.
    bands = np.stack([floats, np.full_like(floats, np.nan), floats * 0 + 5])
    bands[2, 5:10, 7:30] = 5
    there = VALID.copy()
    there[5:10, 7:30] = True
    to_geotiff(placed(bands, ("band", "y", "x")), tmp_path / "it.tif", mask=np.bool_(True), **LAYOUTS[layout])
    with rasterio.open(tmp_path / "it.tif") as file:
        np.testing.assert_array_equal(file.dataset_mask() != 0, there)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("door", ["open_geotiff", "open_rasterio"])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("bands", [1, 3])
def test_a_mask_survives_a_round_trip_of_masked_pixels(
    bands: int, lazy: bool, door: str, layout: str, tmp_path: Path
) -> None:
    path = by_gdal(tmp_path / "a.tif", RGB[:bands], masks=VALID * np.uint8(255))
    array = getattr(swath, door)(path, masked=True, chunks=32 if lazy else None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_geotiff(array, tmp_path / "it.tif", **LAYOUTS[layout])
    assert_masked(tmp_path / "it.tif", VALID, RGB[:bands])
    with rasterio.open(tmp_path / "it.tif") as file:
        assert set(file.dtypes) == {"uint8"} and file.nodata is None
    part = array.isel(y=slice(None, None, -2), x=slice(3, 60))
    to_geotiff(part, tmp_path / "it.tif", **LAYOUTS[layout])
    assert_masked(tmp_path / "it.tif", VALID[::-2, 3:60], RGB[:bands, ::-2, 3:60])


def test_a_mask_is_left_out_on_request(tmp_path: Path) -> None:
    path = by_gdal(tmp_path / "a.tif", BYTES, masks=VALID * np.uint8(255))
    array = open_geotiff(path, masked=True)
    for mask in (False, np.bool_(False)):
        to_geotiff(array, tmp_path / "it.tif", mask=mask)
        with rasterio.open(tmp_path / "it.tif") as file:
            # Without a mask, only NaN can mark missing pixels.
            assert file.dtypes == ("float64",) and np.isnan(file.nodata)
            np.testing.assert_array_equal(file.read(1), array)
    to_geotiff(array, tmp_path / "it.tif", mask=False, nodata=0)
    with rasterio.open(tmp_path / "it.tif") as file:
        assert (file.dtypes, file.nodata) == (("uint8",), 0)
        np.testing.assert_array_equal(file.read(1), np.where(VALID, BYTES, 0))


@pytest.mark.parametrize("lazy", [False, True])
def test_a_pixel_that_is_missing_in_some_bands_is_not_made_zero(lazy: bool, tmp_path: Path) -> None:
    """A mask applies to all bands, so integers cannot express this without a nodata value."""
    path = by_gdal(tmp_path / "a.tif", RGB, masks=VALID * np.uint8(255))
    array = open_geotiff(path, masked=True)
    array.values[50, 60, 1] = np.nan
    given = array.copy(data=da.from_array(array.values, chunks=32)) if lazy else array
    given.encoding = array.encoding
    to_geotiff(given, tmp_path / "it.tif")
    np.testing.assert_array_equal(open_geotiff(tmp_path / "it.tif", masked=True), array)
    hidden = np.ma.masked_array(np.moveaxis(RGB, 0, -1), np.isnan(array.values))
    for mask in (True, VALID):
        with pytest.raises(ValueError, match="in some of their bands only"):
            to_geotiff(hidden, tmp_path / "it.tif", mask=mask)
    np.testing.assert_array_equal(open_geotiff(tmp_path / "it.tif", masked=True), array)


def test_a_given_mask_does_not_make_missing_pixels_valid(tmp_path: Path) -> None:
    path = by_gdal(tmp_path / "a.tif", BYTES, masks=VALID * np.uint8(255))
    array = open_geotiff(path, masked=True)
    to_geotiff(array, tmp_path / "it.tif", mask=np.ones_like(VALID))
    with rasterio.open(tmp_path / "it.tif") as file:
        np.testing.assert_array_equal(file.read(1), array)
    smaller = VALID.copy()
    smaller[:, 40:] = False
    to_geotiff(array, tmp_path / "it.tif", mask=smaller)
    assert_masked(tmp_path / "it.tif", smaller, BYTES)


def test_an_unpacked_value_equal_to_the_packed_nodata_is_not_masked(tmp_path: Path) -> None:
    stored = np.full((60, 70), 50, "u2")
    stored[0, 0], stored[1, 1] = 0, 10
    path = by_gdal(tmp_path / "a.tif", stored, nodata=0)
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.1,), (-1.0,)
    array = open_geotiff(path, unpack=True)
    assert array.values[1, 1] == 0
    to_geotiff(array, tmp_path / "it.tif", mask=True)
    with rasterio.open(tmp_path / "it.tif") as file:
        np.testing.assert_array_equal(file.dataset_mask() == 0, stored == 0)
        np.testing.assert_array_equal(file.read(1), stored)


def test_a_masked_array_of_numpy_needs_no_nodata_beside_a_mask(tmp_path: Path) -> None:
    hidden = np.ma.masked_array(BYTES, ~VALID)
    for data in (hidden, da.from_array(hidden, chunks=32)):
        to_geotiff(data, tmp_path / "it.tif", mask=True)
        assert_masked(tmp_path / "it.tif", VALID, BYTES)
        with pytest.raises(ValueError, match="nodata="):
            to_geotiff(data, tmp_path / "it.tif")


def test_file_objects_and_chunks_do_not_change_a_masked_file(tmp_path: Path) -> None:
    stream = io.BytesIO()
    to_geotiff(placed(BYTES), stream, mask=VALID, tile_size=16)
    for number, chunks in enumerate((7, 16, 70)):
        to_geotiff(placed(da.from_array(BYTES, chunks=chunks)), tmp_path / f"{number}.tif", mask=VALID, tile_size=16)
        assert (tmp_path / f"{number}.tif").read_bytes() == stream.getvalue()


def test_overviews_of_a_cog_have_the_mask_too(tmp_path: Path) -> None:
    to_geotiff(placed(BYTES.astype("f4")).chunk(32), tmp_path / "it.tif", mask=VALID, cog=True, tile_size=16)
    level = open_geotiff(tmp_path / "it.tif", masked=True, overview_level=1)
    assert level.shape == (30, 35)
    # A pixel of the overview is missing if all four pixels of the image are.
    blocks = VALID.reshape(30, 2, 35, 2)
    missing = np.isnan(level.values)
    assert missing[~blocks.any(axis=(1, 3))].all() and not missing[blocks.all(axis=(1, 3))].any()


@pytest.mark.parametrize(
    ("mask", "error", "words"),
    [
        (VALID[:-1], ValueError, "shape"),
        (VALID.T, ValueError, "shape"),
        (np.stack([VALID] * 3), ValueError, "shape"),
        (VALID.astype("f4"), TypeError, "truth values or integers"),
        (placed(VALID)[::-1], ValueError, "'y' are not those of the image"),
        (placed(VALID).assign_coords(x=515 + 10.0 * np.arange(70)), ValueError, "'x' are not those of the image"),
        (5, ValueError, "shape"),
    ],
)
def test_a_mask_that_is_not_of_this_image_is_refused(
    mask: Any, error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        to_geotiff(placed(BYTES), tmp_path / "it.tif", mask=mask)
    assert not list(tmp_path.iterdir())


def test_a_mask_aligned_with_a_flipped_image_hides_the_same_pixels(tmp_path: Path) -> None:
    flipped = placed(BYTES)[::-1]
    to_geotiff(flipped, tmp_path / "it.tif", mask=placed(VALID).reindex_like(flipped))
    assert_masked(tmp_path / "it.tif", VALID[::-1], BYTES[::-1])


def test_an_index_of_tiles_has_no_mask_and_loses_no_pixel(tmp_path: Path) -> None:
    path = by_gdal(tmp_path / "a.tif", BYTES, masks=VALID * np.uint8(255))
    with pytest.raises(ValueError, match="not compatible with VRT"):
        to_geotiff(placed(BYTES), tmp_path / "it.vrt", mask=True)
    array = open_geotiff(path, masked=True)
    to_geotiff(array, tmp_path / "it.vrt")
    np.testing.assert_array_equal(open_geotiff(tmp_path / "it.vrt", masked=True), array)


@pytest.fixture
def transparent(tmp_path: Path) -> tuple[str, Any]:
    """Red, green, blue and alpha, and where alpha is 0."""
    pixels = np.concatenate([RGB, (VALID * np.uint8(200))[None]])
    return by_gdal(tmp_path / "alpha.tif", pixels, photometric="RGB", alpha="YES"), pixels


@pytest.mark.parametrize("lazy", [False, True])
def test_alpha_needs_no_mask_as_long_as_it_is_written(lazy: bool, transparent: Any, tmp_path: Path) -> None:
    path, pixels = transparent
    array = swath.open_rasterio(path, masked=True, chunks=32 if lazy else None)
    to_geotiff(array, tmp_path / "it.tif")
    with rasterio.open(tmp_path / "it.tif") as file:
        assert set(file.dtypes) == {"uint8"} and file.colorinterp[3] == rasterio.enums.ColorInterp.alpha
        np.testing.assert_array_equal(file.read()[:, VALID], pixels[:, VALID])
        np.testing.assert_array_equal(file.read(4), pixels[3])
    # Without the alpha band, a mask must mark the same pixels.
    to_geotiff(array.isel(band=[0, 1, 2]), tmp_path / "it.tif")
    assert_masked(tmp_path / "it.tif", VALID, RGB)
    to_geotiff(array.isel(band=1), tmp_path / "it.tif")
    assert_masked(tmp_path / "it.tif", VALID, RGB[1])


@pytest.mark.parametrize("lazy", [False, True])
def test_a_missing_pixel_that_is_not_transparent_is_not_made_black(
    lazy: bool, transparent: Any, tmp_path: Path
) -> None:
    path, _ = transparent
    array = swath.open_rasterio(path, masked=True).compute()
    array.values[1, 50, 60] = np.nan
    given = array.chunk(32) if lazy else array
    given.encoding = array.encoding
    to_geotiff(given, tmp_path / "it.tif")
    again = open_geotiff(tmp_path / "it.tif", masked=True).transpose("band", "y", "x")
    np.testing.assert_array_equal(again, array)


def test_pixels_that_are_missing_by_their_colour_get_a_mask(tmp_path: Path) -> None:
    pixels = np.where(VALID, np.maximum(RGB, 9), np.array([1, 2, 3])[:, None, None]).astype("u1")
    path = by_gdal(tmp_path / "values.tif", pixels)
    with rasterio.open(path, "r+") as file:
        file.update_tags(NODATA_VALUES="1 2 3")
    array = swath.open_rasterio(path, masked=True)
    np.testing.assert_array_equal(np.isnan(array.values).all(axis=0), ~VALID)
    to_geotiff(array, tmp_path / "it.tif")
    again = swath.open_rasterio(tmp_path / "it.tif", masked=True)
    np.testing.assert_array_equal(again.values, array.values)
