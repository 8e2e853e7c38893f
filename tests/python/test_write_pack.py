"""pack=True undoes unpack=True, and refuses what would wrap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import rasterio
import xarray as xr

import swath

STORED = np.array([[1, 2, 3, 4], [5, -9999, 32767, -32768]], "i2")


def source(
    path: Path, array: Any = STORED, nodata: float | None = -9999, scale: float = 0.1, offset: float = 5.0
) -> Path:
    bands = array[None] if array.ndim == 2 else array
    size = {"width": bands.shape[2], "height": bands.shape[1], "count": bands.shape[0]}
    with rasterio.open(path, "w", driver="GTiff", dtype=str(bands.dtype), nodata=nodata, **size) as file:
        file.write(bands)
        file.scales, file.offsets = (scale,) * len(bands), (offset,) * len(bands)
    return path


def unpacked(values: Any, dtype: str | None = "int16", **attrs: Any) -> xr.DataArray:
    state = {"scale_factor": 0.5, "add_offset": 10.0, "mask_and_scale_dtype": dtype} | attrs
    kept = {name: value for name, value in state.items() if value is not None}
    return xr.DataArray(np.atleast_2d(np.asarray(values, "f8")), dims=("y", "x"), attrs=kept)


@pytest.mark.parametrize("chunks", [None, 1, -1])
@pytest.mark.parametrize("code", ["i2", "u1", "i4", "f4", "f8"])
@pytest.mark.parametrize("nodata", [7, None])
def test_pixels_come_back_as_they_were_stored(code: str, nodata: int | None, chunks: Any, tmp_path: Path) -> None:
    stored = (np.arange(300) % 120).astype(code).reshape(15, 20)
    path = source(tmp_path / "a.tif", stored, nodata)
    lazy = {} if chunks is None else {"chunks": chunks if chunks > 0 else 99}
    swath.to_geotiff(swath.open_geotiff(path, unpack=True, **lazy), tmp_path / "b.tif", pack=True)
    with rasterio.open(path) as one, rasterio.open(tmp_path / "b.tif") as two:
        assert two.dtypes == one.dtypes
        assert (two.nodata, two.scales, two.offsets) == (one.nodata, one.scales, one.offsets)
        np.testing.assert_allclose(two.read(), one.read(), rtol=1e-6 if code.startswith("f") else 0)
    one_again, two_again = (swath.open_geotiff(p, unpack=True) for p in (path, tmp_path / "b.tif"))
    np.testing.assert_allclose(two_again.values, one_again.values, rtol=1e-6)
    assert two_again.attrs["mask_and_scale_dtype"] == one_again.attrs["mask_and_scale_dtype"]


def test_several_bands_and_one_of_several(tmp_path: Path) -> None:
    path = source(tmp_path / "a.tif", np.stack([STORED, STORED // 2]))
    swath.to_geotiff(swath.open_geotiff(path, unpack=True), tmp_path / "b.tif", pack=True)
    swath.to_geotiff(swath.open_geotiff(path, unpack=True, band=1), tmp_path / "c.tif", pack=True)
    with (
        rasterio.open(path) as one,
        rasterio.open(tmp_path / "b.tif") as two,
        rasterio.open(tmp_path / "c.tif") as three,
    ):
        np.testing.assert_array_equal(two.read(), one.read())
        assert (two.scales, two.offsets) == ((0.1, 0.1), (5.0, 5.0))
        np.testing.assert_array_equal(three.read(1), one.read(2))
        assert (three.scales, three.offsets) == ((0.1,), (5.0,))


def test_unpacked_values_are_not_scaled_a_second_time(tmp_path: Path) -> None:
    path = source(tmp_path / "a.tif")
    values = swath.open_geotiff(path, unpack=True)
    swath.to_geotiff(values, tmp_path / "b.tif")
    again = swath.open_geotiff(tmp_path / "b.tif", unpack=True)
    np.testing.assert_array_equal(again.values, values.values)
    with rasterio.open(tmp_path / "b.tif") as file:
        assert (file.scales, file.offsets) == ((1.0,), (0.0,))


def test_scale_and_offset_of_attrs_alone_are_written(tmp_path: Path) -> None:
    swath.to_geotiff(unpacked([10, 10.5, 11]), tmp_path / "a.tif", pack=True)
    with rasterio.open(tmp_path / "a.tif") as file:
        assert (file.scales, file.offsets) == ((0.5,), (10.0,))
        np.testing.assert_array_equal(file.read(1), [[0, 1, 2]])


def test_rounding_is_to_even(tmp_path: Path) -> None:
    swath.to_geotiff(unpacked([0.5, 1.5, 2.5, -0.5], scale_factor=1.0, add_offset=0.0), tmp_path / "a.tif", pack=True)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "a.tif").values, [[0, 2, 2, 0]])


def test_nan_becomes_nodata_in_this_order(tmp_path: Path) -> None:
    data = unpacked([10, np.nan], nodata=-5)
    swath.to_geotiff(data, tmp_path / "a.tif", pack=True)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "a.tif").values, [[0, -5]])
    swath.to_geotiff(data, tmp_path / "a.tif", pack=True, nodata=99)
    again = swath.open_geotiff(tmp_path / "a.tif")
    np.testing.assert_array_equal(again.values, [[0, 99]])
    assert again.attrs["nodata"] == 99


@pytest.mark.parametrize(
    ("attrs", "dtype"),
    [
        ({"mask_and_scale_dtype": "uint8"}, "uint8"),
        ({"mask_and_scale_dtype": None, "nodata": np.int16(-1)}, "int16"),
        ({"mask_and_scale_dtype": None, "nodata": -1}, "int64"),
        ({"mask_and_scale_dtype": None, "nodata": -1.0}, "float64"),
        ({"mask_and_scale_dtype": None}, "float64"),
    ],
)
def test_the_type_to_restore(attrs: dict[str, Any], dtype: str, tmp_path: Path) -> None:
    swath.to_geotiff(unpacked([10, 11], **attrs), tmp_path / "a.tif", pack=True)
    assert str(swath.open_geotiff(tmp_path / "a.tif").dtype) == dtype


@pytest.mark.parametrize("value", [1e9, -1e9, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("lazy", [False, True])
def test_values_that_the_type_cannot_hold_are_refused(value: float, lazy: bool, tmp_path: Path) -> None:
    data = unpacked([10, value])
    if lazy:
        data = data.copy(data=da.from_array(data.values, chunks=1))
    with pytest.raises(ValueError, match="pack=True"):
        swath.to_geotiff(data, tmp_path / "a.tif", pack=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("dtype", "edge"), [("int64", 2.0**63), ("uint64", 2.0**64)])
def test_the_ends_of_64_bits(dtype: str, edge: float, tmp_path: Path) -> None:
    plain = {"scale_factor": 1.0, "add_offset": 0.0}
    with pytest.raises(ValueError, match="cannot represent"):
        swath.to_geotiff(unpacked([edge], dtype, **plain), tmp_path / "a.tif", pack=True)
    below = np.nextafter(edge, 0)
    swath.to_geotiff(unpacked([below], dtype, **plain), tmp_path / "a.tif", pack=True)
    assert swath.open_geotiff(tmp_path / "a.tif").values[0, 0] == int(below)


@pytest.mark.parametrize(
    ("attrs", "error"),
    [
        ({"scale_factor": 0.0}, ValueError),
        ({"scale_factor": np.nan}, ValueError),
        ({"add_offset": np.inf}, ValueError),
        ({"scale_factor": "a"}, TypeError),
        ({"mask_and_scale_dtype": "foo"}, TypeError),
        ({"nodata": 1e9}, ValueError),
        ({"nodata": np.nan}, ValueError),
    ],
)
def test_states_that_cannot_be_reversed(attrs: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        swath.to_geotiff(unpacked([10, 11], **attrs), tmp_path / "a.tif", pack=True)


def test_arrays_that_were_never_unpacked(tmp_path: Path) -> None:
    plain = source(tmp_path / "a.tif", scale=1.0, offset=0.0)
    for data in (np.zeros((3, 3)), xr.DataArray(np.zeros((3, 3)), dims=("y", "x")), swath.open_geotiff(plain)):
        with pytest.raises(ValueError, match="pack=True"):
            swath.to_geotiff(data, tmp_path / "b.tif", pack=True)
    swath.to_geotiff(swath.open_geotiff(plain, masked=True), tmp_path / "b.tif", pack=True)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "b.tif").values, STORED)
