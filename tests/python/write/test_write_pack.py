"""Packing undoes masking and scaling: if nothing is lost by default, always with pack=True, never with False."""

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


@pytest.mark.parametrize("pack", [None, True])
@pytest.mark.parametrize("chunks", [None, 1, -1])
@pytest.mark.parametrize("code", ["i2", "u1", "i4", "f4", "f8"])
@pytest.mark.parametrize("nodata", [7, None])
def test_pixels_come_back_as_they_were_stored(
    code: str, nodata: int | None, chunks: Any, pack: bool | None, tmp_path: Path
) -> None:
    stored = (np.arange(300) % 120).astype(code).reshape(15, 20)
    path = source(tmp_path / "a.tif", stored, nodata)
    lazy = {} if chunks is None else {"chunks": chunks if chunks > 0 else 99}
    swath.to_geotiff(swath.open_geotiff(path, unpack=True, **lazy), tmp_path / "b.tif", pack=pack)
    with rasterio.open(path) as one, rasterio.open(tmp_path / "b.tif") as two:
        assert two.dtypes == one.dtypes
        assert (two.nodata, two.scales, two.offsets) == (one.nodata, one.scales, one.offsets)
        np.testing.assert_allclose(two.read(), one.read(), rtol=1e-6 if code.startswith("f") else 0)
    one_again, two_again = (swath.open_geotiff(p, unpack=True) for p in (path, tmp_path / "b.tif"))
    np.testing.assert_allclose(two_again.values, one_again.values, rtol=1e-6)
    assert two_again.encoding["swath"] == one_again.encoding["swath"]
    assert two_again.encoding["swath"].dtype == np.dtype(code)


@pytest.mark.parametrize("pack", [None, True])
def test_several_bands_and_one_of_several(pack: bool | None, tmp_path: Path) -> None:
    path = source(tmp_path / "a.tif", np.stack([STORED, STORED // 2]))
    swath.to_geotiff(swath.open_geotiff(path, unpack=True), tmp_path / "b.tif", pack=pack)
    swath.to_geotiff(swath.open_geotiff(path, unpack=True, band=1), tmp_path / "c.tif", pack=pack)
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
    for data, options in ((values, {"pack": False}), (values * 1, {}), (values.copy(deep=True).drop_encoding(), {})):
        swath.to_geotiff(data, tmp_path / "b.tif", **options)
        again = swath.open_geotiff(tmp_path / "b.tif", unpack=True)
        assert again.dtype == values.dtype
        np.testing.assert_array_equal(again.values, values.values)
        with rasterio.open(tmp_path / "b.tif") as file:
            assert (file.dtypes, file.scales, file.offsets) == (("float64",), (1.0,), (0.0,))
            # Among values that are not packed, -9999 is an ordinary value.
            assert np.isnan(file.nodata)
    swath.to_geotiff(values, tmp_path / "b.tif")
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "b.tif", unpack=True), values)
    with rasterio.open(tmp_path / "b.tif") as file:
        assert (file.dtypes, file.scales, file.offsets) == (("int16",), (0.1,), (5.0,))


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
    ],
)
def test_states_that_cannot_be_reversed(attrs: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        swath.to_geotiff(unpacked([10, 11], **attrs), tmp_path / "a.tif", pack=True)


def test_nan_is_not_a_nodata_value_of_packed_pixels(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NaN pixels are present"):
        swath.to_geotiff(unpacked([10, np.nan], nodata=np.nan), tmp_path / "a.tif", pack=True)
    swath.to_geotiff(unpacked([10, 11], nodata=np.nan), tmp_path / "a.tif", pack=True)
    again = swath.open_geotiff(tmp_path / "a.tif")
    np.testing.assert_array_equal(again, [[0, 2]])
    assert "nodata" not in again.attrs


def test_arrays_that_were_never_unpacked(tmp_path: Path) -> None:
    plain = source(tmp_path / "a.tif", scale=1.0, offset=0.0)
    for data in (np.zeros((3, 3)), xr.DataArray(np.zeros((3, 3)), dims=("y", "x")), swath.open_geotiff(plain)):
        with pytest.raises(ValueError, match="pack=True"):
            swath.to_geotiff(data, tmp_path / "b.tif", pack=True)
    swath.to_geotiff(swath.open_geotiff(plain, masked=True), tmp_path / "b.tif", pack=True)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "b.tif").values, STORED)


# pack=None: the type of the file if nothing is lost.

CASES: dict[str, tuple[str, float | None, float, float]] = {
    "bytes": ("u1", 255, 1.0, 0.0),
    "scaled": ("i2", -9999, 0.1, 5.0),
    "reflectance": ("u2", 0, 1e-4, -0.1),
    "no nodata": ("i2", None, 0.1, 5.0),
    "floats": ("f4", -9999, 1.0, 0.0),
    "scaled floats": ("f4", -9999, 0.5, 5.0),
}


def read(path: Path, how: str, lazy: bool = False) -> xr.DataArray:
    """Reads with each open function in each mode."""
    if how.startswith("rio"):
        keywords = {"masked": True} if how.endswith("masked") else {"mask_and_scale": True}
        found = swath.open_rasterio(path, chunks=16 if lazy else None, **keywords)
        return found if lazy else found.compute()
    return swath.open_geotiff(path, chunks=16 if lazy else None, **{how: True})


def made(path: Path, case: str) -> Path:
    code, nodata, scale, offset = CASES[case]
    stored = np.random.default_rng(1).integers(1, 200, (40, 50)).astype(code)
    if nodata is not None:
        stored[3:6, 7:9] = nodata
    return source(path, stored, nodata, scale, offset)


HOW = ["masked", "unpack", "rio masked", "rio mask_and_scale"]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("case", CASES)
def test_unchanged_values_are_stored_as_before(case: str, how: str, lazy: bool, tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", case)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in (read(path, how, lazy), read(path, how, lazy).isel(x=slice(5, None), y=slice(None, None, 2))):
            swath.to_geotiff(data, tmp_path / "b.tif")
    with rasterio.open(path) as one, rasterio.open(tmp_path / "b.tif") as two:
        assert (two.dtypes, two.nodata, two.scales, two.offsets) == (one.dtypes, one.nodata, one.scales, one.offsets)
        np.testing.assert_allclose(two.read(1), one.read(1)[::2, 5:], rtol=1e-6 if "floats" in case else 0)


def sentinel(case: str, how: str) -> float:
    """The value of a pixel that equals the nodata value of the file after unpacking."""
    _, nodata, scale, offset = CASES[case]
    unscaled = 0.0 if nodata is None else nodata
    return unscaled if how.endswith("masked") else unscaled * scale + offset


CHANGES = {
    "fraction": lambda values, hit: values[20, 20] + 0.37e-2 * abs(values[20, 20]),
    "too large": lambda values, hit: 3e38,
    "negative": lambda values, hit: -7e5,
    "infinite": lambda values, hit: np.inf,
    "nodata": lambda values, hit: hit,
    "missing": lambda values, hit: np.nan,
}
TARGETS = ["tif", "cog", "vrt", "file object"]
# Integers without nodata stay integers, to which such values cannot be assigned.
FLOATS = [(case, how) for case in CASES for how in HOW if (case, how) != ("no nodata", "masked")]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("case", "how"), FLOATS)
@pytest.mark.parametrize("change", CHANGES)
def test_values_changed_in_place_are_written_as_they_are(
    change: str, case: str, how: str, lazy: bool, tmp_path: Path
) -> None:
    """xarray keeps the encoding when values are changed in place, so the encoding is no longer correct."""
    path = made(tmp_path / "a.tif", case)
    data = read(path, how)
    values = data.values.copy()
    pixels = values.reshape(40, 50)
    pixels[0, 0] = CHANGES[change](pixels, sentinel(case, how))
    changed = data.copy(data=da.from_array(values, chunks=16) if lazy else values)
    changed.encoding = data.encoding
    for target in TARGETS if lazy else ["tif"]:
        out = tmp_path / ("b.vrt" if target == "vrt" else "b.tif")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if target == "file object":
                file = io.BytesIO()
                swath.to_geotiff(changed, file)
                out.write_bytes(file.getvalue())
            else:
                swath.to_geotiff(changed, out, cog=target == "cog")
        with rasterio.open(out) as found:
            scaled = found.read(1, masked=True).astype("f8") * found.scales[0] + found.offsets[0]
            if how.endswith("masked"):
                scaled = found.read(1, masked=True).astype("f8")
            back = scaled.filled(np.nan)
        rounding = 1e-6 if data.dtype == np.float32 or "floats" in case else 1e-12
        np.testing.assert_allclose(back, pixels, rtol=rounding, err_msg=target)
        np.testing.assert_array_equal(np.isnan(back), np.isnan(pixels), err_msg=target)


def test_an_old_file_stays_until_values_are_known_to_fit(tmp_path: Path) -> None:
    """A write that finds values that do not fit is aborted and must leave nothing behind."""
    path = made(tmp_path / "a.tif", "bytes")
    data = swath.open_geotiff(path, masked=True)
    data.values[-1, -1] = 300.5
    lazy = data.copy(data=da.from_array(data.values, chunks=8))
    lazy.encoding = data.encoding
    runs: list[float] = []
    swath.to_geotiff(lazy, tmp_path / "b.tif", progress=lambda done, total: runs.append(done / total))
    assert runs[-1] == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.tif", "b.tif"]
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "b.tif", masked=True), data)
    with pytest.raises(ValueError, match="pack=True"):
        swath.to_geotiff(lazy, tmp_path / "b.tif", pack=True)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "b.tif", masked=True), data)


def test_pack_true_rounds_what_lies_between(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", "scaled")
    data = swath.open_geotiff(path, unpack=True)
    data.values[0, 0] = 5.0 + 0.1 * 17.4
    swath.to_geotiff(data, tmp_path / "b.tif", pack=True)
    raw = swath.open_geotiff(tmp_path / "b.tif")
    assert raw.dtype == np.int16 and raw.values[0, 0] == 17
    np.testing.assert_array_equal(raw.values[1:], swath.open_geotiff(path).values[1:])


@pytest.mark.parametrize("operation", ["arithmetic", "where", "fillna", "astype"])
@pytest.mark.parametrize("how", HOW)
def test_computed_values_have_no_scale_and_nan_for_nodata(operation: str, how: str, tmp_path: Path) -> None:
    path = made(tmp_path / "a.tif", "scaled")
    data = read(path, how)
    computed = {
        "arithmetic": lambda: data * 2,
        "where": lambda: data.where(data > 6),
        "fillna": lambda: data.fillna(-9999.0),
        "astype": lambda: data.astype("f4"),
    }[operation]()
    swath.to_geotiff(computed, tmp_path / "b.tif")
    with rasterio.open(tmp_path / "b.tif") as file:
        assert (file.dtypes[0], file.scales, file.offsets) == (str(computed.dtype), (1.0,), (0.0,))
        back = file.read(1, masked=True).filled(np.nan)
    np.testing.assert_array_equal(back, computed.squeeze())


@pytest.mark.parametrize(
    ("nodata", "dtype", "stored"), [(7, "uint8", 7), (-9999, "float64", -9999), (0.5, "float64", 0.5)]
)
def test_another_nodata_value_is_used_in_a_type_that_holds_it(
    nodata: float, dtype: str, stored: float, tmp_path: Path
) -> None:
    path = source(tmp_path / "a.tif", np.array([[1, 2, 255]], "u1"), 255, 1.0, 0.0)
    swath.to_geotiff(swath.open_geotiff(path, masked=True), tmp_path / "b.tif", nodata=nodata)
    again = swath.open_geotiff(tmp_path / "b.tif")
    assert again.dtype == dtype and again.attrs["nodata"] == nodata
    np.testing.assert_array_equal(again, [[1, 2, stored]])


def test_scales_of_bands_follow_the_band(tmp_path: Path) -> None:
    bands = np.stack([STORED, STORED // 2, STORED // 3])
    with rasterio.open(
        tmp_path / "a.tif", "w", driver="GTiff", dtype="int16", nodata=-9999, width=4, height=2, count=3
    ) as file:
        file.write(bands)
        file.scales, file.offsets = (0.1, 1.0, 0.5), (0.0, 7.0, -2.0)
    for keywords in ({}, {"masked": True}, {"unpack": True}):
        whole = swath.open_geotiff(tmp_path / "a.tif", **keywords)
        for picked, numbers in (
            (whole.isel(band=[2, 0]), [2, 0]),
            (whole.isel(band=1), [1]),
            (whole.sel(band=slice(1, 2)).transpose("band", "y", "x"), [1, 2]),
            (swath.open_geotiff(tmp_path / "a.tif", band=2, **keywords), [2]),
            (swath.open_geotiff(tmp_path / "a.tif", band=[2, 1], **keywords), [2, 1]),
        ):
            swath.to_geotiff(picked, tmp_path / "b.tif")
            with rasterio.open(tmp_path / "b.tif") as file:
                np.testing.assert_array_equal(file.read(), bands[numbers])
                assert file.scales == tuple((0.1, 1.0, 0.5)[number] for number in numbers)
                assert file.offsets == tuple((0.0, 7.0, -2.0)[number] for number in numbers)


def test_bands_whose_scale_is_not_known_are_not_packed(tmp_path: Path) -> None:
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", dtype="int16", width=4, height=2, count=2) as file:
        file.write(np.stack([STORED, STORED]))
        file.scales = (0.1, 0.5)
    nameless = swath.open_geotiff(tmp_path / "a.tif", unpack=True).isel(band=1, drop=True)
    swath.to_geotiff(nameless, tmp_path / "b.tif")
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "b.tif", unpack=True), STORED * 0.5)
    raw = swath.open_geotiff(tmp_path / "a.tif").isel(band=1, drop=True)
    with pytest.warns(UserWarning, match="lost the labels"):
        swath.to_geotiff(raw, tmp_path / "b.tif")
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "b.tif", unpack=True), STORED)
