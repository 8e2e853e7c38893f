"""Nodata, scale and type: which samples become NaN, in which type, and the resulting attrs."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr

import swath
from open_files import PIXELS, by_gdal, tagged
from swath import open_geotiff
from swath.xarray.state import ReadState

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


def gdal_items(*items: tuple[str, str, int | None]) -> str:
    lines = (
        f'<Item name="{name}"{"" if sample is None else f""" sample="{sample}" """}>{value}</Item>'
        for name, value, sample in items
    )
    return f"<GDALMetadata>{''.join(lines)}</GDALMetadata>"


def texts(**values: Any) -> dict[str, str]:
    """Values by their repr: NaN equals NaN, and 1 is not True, which netCDF cannot store."""
    return {name: repr(value) for name, value in values.items()}


def numbers(attrs: dict[Any, Any]) -> dict[str, str]:
    """All attrs about nodata, scale and type."""
    names = ("nodata", "masked_nodata", "nodata_pixels_present", "nodata_dtype_cast", "mask_and_scale_dtype")
    return texts(**{name: attrs[name] for name in (*names, "scale_factor", "add_offset") if name in attrs})


def packing(array: xr.DataArray) -> dict[str, Any]:
    """The encoding with which xarray packs values in netCDF and Zarr."""
    names = ("_FillValue", "dtype", "scale_factor", "add_offset")
    return {name: array.encoding[name] for name in names if name in array.encoding}


def state(array: xr.DataArray) -> ReadState:
    found: ReadState = array.encoding["swath"]
    return found


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_become_float64_when_their_sentinel_can_occur(tmp_path: Path, dtype: str) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(dtype), nodata="3")
    plain, masked = open_geotiff(path), open_geotiff(path, masked=True)
    assert plain.dtype == dtype
    assert numbers(plain.attrs) == texts(nodata=3, masked_nodata=0, nodata_pixels_present=1)
    assert packing(plain) == {}
    assert masked.dtype == np.float64
    # attrs state NaN; the file's value is where xarray and rioxarray store that of a masked array.
    assert numbers(masked.attrs) == texts(nodata=math.nan, masked_nodata=1, nodata_pixels_present=1)
    assert packing(masked) == {"_FillValue": 3, "dtype": dtype}
    assert masked.encoding["_FillValue"].dtype == dtype
    for array, is_masked in ((plain, False), (masked, True)):
        assert state(array) == ReadState(np.dtype(dtype), (4, 6), nodata=3, masked=is_masked)
    np.testing.assert_array_equal(masked, np.where(PIXELS == 3, np.nan, PIXELS))
    # The type does not depend on the pixels, or chunks of one file would differ.
    nothing = open_geotiff(path, masked=True, window=(2, 0, 4, 6))
    assert nothing.dtype == np.float64
    assert repr(nothing.attrs["nodata_pixels_present"]) == "0"
    assert state(nothing).shape == (2, 6)


@pytest.mark.parametrize("chunks", [None, 2])
def test_chunks_say_the_same_but_have_not_looked(tmp_path: Path, chunks: int | None) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), nodata="3", metadata=gdal_items(("SCALE", "2", None)))
    array = open_geotiff(path, unpack=True, chunks=chunks)
    np.testing.assert_array_equal(array, np.where(PIXELS == 3, np.nan, PIXELS * 2.0))
    expected = texts(nodata=math.nan, masked_nodata=1)
    assert numbers(array.attrs) == (expected if chunks else expected | texts(nodata_pixels_present=1))
    assert packing(array) == {"_FillValue": 3, "dtype": "uint8", "scale_factor": 2.0, "add_offset": 0.0}
    found = ReadState(np.dtype("u1"), (4, 6), nodata=3, masked=True, unpacked=True, scaling={0: (2.0, 0.0)})
    assert state(array) == found


@pytest.mark.parametrize(
    ("dtype", "text", "value"),
    [
        ("uint8", "-9999", -9999),
        ("uint8", "256", 256),
        ("uint16", "-1", -1),
        ("uint64", "1e20", 1e20),
        ("uint8", "1e3", 1000.0),
    ],
)
def test_a_sentinel_out_of_range_masks_nothing(tmp_path: Path, dtype: str, text: str, value: Any) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(dtype), nodata=text)
    array = open_geotiff(path, masked=True)
    assert array.dtype == dtype
    assert numbers(array.attrs) == texts(nodata=value, masked_nodata=0, nodata_pixels_present=0)
    assert packing(array) == {} and not state(array).masked
    assert open_geotiff(path, masked=True, dtype="int32").dtype == np.int32


def test_64_bit_sentinels_are_compared_exactly(tmp_path: Path) -> None:
    pixels = np.array([[2**53, 2**53 + 1, 2**63 - 1, 5]])
    path = tagged(tmp_path / "a.tif", pixels, nodata=str(2**53 + 1))
    array = open_geotiff(path, masked=True)
    assert array.encoding["_FillValue"] == state(array).nodata == 2**53 + 1
    assert np.isnan(array.values).tolist() == [[False, True, False, False]]
    unsigned = tagged(tmp_path / "b.tif", np.array([[2**64 - 1, 2**64 - 2]], np.uint64), nodata=str(2**64 - 1))
    assert np.isnan(open_geotiff(unsigned, masked=True).values).tolist() == [[True, False]]
    assert open_geotiff(unsigned).attrs["nodata"] == 2**64 - 1


@pytest.mark.parametrize(
    ("dtype", "text"),
    [("uint64", "-1"), ("uint64", "-9999"), ("uint64", str(2**64)), ("int64", str(2**63)), ("int64", str(-(2**64)))],
)
def test_whole_numbers_beyond_64_bits_are_those_that_gdal_takes_them_for(tmp_path: Path, dtype: str, text: str) -> None:
    limits = np.iinfo(dtype)
    pixels = np.array([[0, 1, limits.min, limits.max]], dtype)
    pixels[0, 1] = limits.max - 9998
    path = tagged(tmp_path / "a.tif", pixels, nodata=text)
    array = open_geotiff(path, masked=True)
    swath.to_geotiff(open_geotiff(path), tmp_path / "b.tif")
    for name in ("a.tif", "b.tif"):
        with rasterio.open(tmp_path / name) as file:
            np.testing.assert_array_equal(np.isnan(array.values), file.dataset_mask() == 0)


@pytest.mark.parametrize("value", [1e18, -1e18, 2.0**62])
def test_a_large_float_for_64_bit_integers_is_written_in_digits(tmp_path: Path, value: float) -> None:
    """GDAL reads 1e+18 as 1."""
    swath.to_geotiff(np.array([[1, int(value)]]), tmp_path / "a.tif", nodata=value)
    with rasterio.open(tmp_path / "a.tif") as file:
        assert file.dataset_mask().tolist() == [[255, 0]]


@pytest.mark.parametrize(("text", "kind"), [("nan", "non-finite"), ("-inf", "non-finite"), ("3.5", "fractional")])
def test_a_sentinel_that_no_integer_has_is_refused(tmp_path: Path, text: str, kind: str) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), nodata=text)
    for keywords in ({}, {"masked": True}, {"chunks": 2}):
        with pytest.raises(swath.InvalidIntegerNodataError, match=f"{kind}.*allow_invalid_nodata=True"):
            open_geotiff(path, **keywords)  # type: ignore[arg-type]
    array = open_geotiff(path, masked=True, allow_invalid_nodata=True)
    assert array.dtype == np.uint8
    assert numbers(array.attrs) == texts(nodata=float(text), masked_nodata=0, nodata_pixels_present=0)


@pytest.mark.parametrize(("text", "value"), [("1.#INF", math.inf), ("-1.#INF", -math.inf), ("1.#QNAN", math.nan)])
def test_infinities_as_windows_wrote_them(tmp_path: Path, text: str, value: float) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.float32), nodata=text)
    assert repr(open_geotiff(path).attrs["nodata"]) == repr(value)


@pytest.mark.parametrize("text", ["", " ", "abc", "0x10", "1,5"])
def test_a_nodata_text_that_is_not_a_number_is_ignored(tmp_path: Path, text: str) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), nodata=text)
    assert numbers(open_geotiff(path, masked=True).attrs) == {}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("text", "hits"),
    [("3", [3]), ("-3.4e38", [1]), ("0.1", [0]), ("inf", [2]), ("nan", [4]), ("7", []), ("1e39", [])],
)
def test_floats_keep_their_type(tmp_path: Path, dtype: str, text: str, hits: list[int]) -> None:
    pixels = np.array([[0.1, -3.4e38, np.inf, 3, np.nan]], dtype)
    path = tagged(tmp_path / "a.tif", pixels, nodata=text)
    plain = open_geotiff(path)
    np.testing.assert_array_equal(plain, pixels)
    stated = int(text) if text in ("3", "7") else float(text)
    assert numbers(plain.attrs) == texts(nodata=stated, masked_nodata=0, nodata_pixels_present=int(bool(hits)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        masked = open_geotiff(path, masked=True)
    assert masked.dtype == dtype
    assert numbers(masked.attrs) == texts(nodata=math.nan, masked_nodata=1, nodata_pixels_present=int(bool(hits)))
    assert repr(state(masked).nodata) == repr(stated)
    # Floats are stored unchanged; a value outside the range of the type would become infinity.
    fill = None if (text, dtype) == ("1e39", "float32") else np.dtype(dtype).type(stated)
    np.testing.assert_equal(packing(masked), {} if fill is None else {"_FillValue": fill})
    assert np.flatnonzero(np.isnan(masked.values)).tolist() == sorted({*hits, 4})


def test_halves_are_read_as_floats(tmp_path: Path) -> None:
    path = tagged(
        tmp_path / "a.tif", PIXELS.astype(np.float16), nodata="3", metadata=gdal_items(("SCALE", "0.5", None))
    )
    for chunks in (None, 3):
        assert open_geotiff(path, chunks=chunks).dtype == np.float32
        unpacked = open_geotiff(path, unpack=True, chunks=chunks)
        assert unpacked.dtype == np.float32
        np.testing.assert_array_equal(unpacked, np.where(PIXELS == 3, np.nan, PIXELS * 0.5))


def test_complex_samples_are_read_and_masked(tmp_path: Path) -> None:
    pixels = (PIXELS + 1j).astype(np.complex64)
    path = tagged(tmp_path / "a.tif", pixels, nodata="3")
    np.testing.assert_array_equal(open_geotiff(path), pixels)
    pixels[0, 3] = 3
    path = tagged(tmp_path / "b.tif", pixels, nodata="3")
    masked = open_geotiff(path, masked=True)
    assert masked.dtype == np.complex64
    assert np.flatnonzero(np.isnan(masked.values)).tolist() == [3]
    with pytest.raises(ValueError, match="Cannot cast complex"):
        open_geotiff(path, dtype="float32")


@pytest.mark.parametrize("target", ["float32", "float64", "int32", "uint8", "bool", "complex64", np.int16])
def test_casts(tmp_path: Path, target: Any) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint16), nodata="3")
    for chunks in (None, 2):
        array = open_geotiff(path, dtype=target, chunks=chunks)
        assert array.dtype == target
        np.testing.assert_array_equal(array, PIXELS.astype(target))
        assert array.attrs["nodata_dtype_cast"] == np.dtype(target).name


@pytest.mark.parametrize("chunks", [None, 2])
def test_float_to_integer_is_refused(tmp_path: Path, chunks: Any) -> None:
    floats = tagged(tmp_path / "f.tif", PIXELS.astype(np.float32))
    integers = tagged(tmp_path / "i.tif", PIXELS.astype(np.uint8), nodata="3")
    with pytest.raises(ValueError, match=r"Cannot cast float \(float32\) to int \(int32\)"):
        open_geotiff(floats, dtype="int32", chunks=chunks)
    with pytest.raises(ValueError, match=r"Cannot cast float \(float64\) to int \(uint8\)"):
        open_geotiff(integers, dtype="uint8", masked=True, chunks=chunks)


def test_a_type_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="foo"):
        open_geotiff(tagged(tmp_path / "a.tif"), dtype="foo")


def test_scale_and_offset_are_applied_in_the_type_of_the_result(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).random((50, 60)).astype(np.float32) * 1000
    metadata = gdal_items(("SCALE", "0.1", None), ("OFFSET", "0.3", None))
    path = tagged(tmp_path / "f.tif", pixels, metadata=metadata)
    np.testing.assert_array_equal(open_geotiff(path, unpack=True), pixels * np.float32(0.1) + np.float32(0.3))
    path = tagged(tmp_path / "i.tif", pixels.astype(np.int16), metadata=metadata)
    unpacked = open_geotiff(path, unpack=True)
    np.testing.assert_array_equal(unpacked, pixels.astype(np.int16).astype(np.float64) * 0.1 + 0.3)
    assert numbers(unpacked.attrs) == {}
    assert state(unpacked) == ReadState(np.dtype("i2"), (50, 60), unpacked=True, scaling={0: (0.1, 0.3)})
    # xarray would store a later NaN as an arbitrary integer.
    assert packing(unpacked) == {}
    cast = open_geotiff(path, unpack=True, dtype="float32")
    assert cast.dtype == np.float32
    assert state(cast).cast


@pytest.mark.parametrize(
    "items", [[], [("FOO", "2", None)], [("SCALE", "1", None), ("OFFSET", "0", None)], [("scale", "2", None)]]
)
def test_unpack_of_what_is_not_packed_changes_nothing(tmp_path: Path, items: Any) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.int16), metadata=gdal_items(*items) if items else None)
    array = open_geotiff(path, unpack=True)
    assert array.dtype == np.int16
    assert numbers(array.attrs) == {}


def test_unpack_masks_too(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.int16), nodata="3")
    array = open_geotiff(path, unpack=True)
    assert np.isnan(array.values[0, 3])
    assert numbers(array.attrs) == texts(nodata=math.nan, masked_nodata=1, nodata_pixels_present=1)
    assert packing(array) == {"_FillValue": 3, "dtype": "int16"}
    assert state(array) == ReadState(np.dtype("i2"), (4, 6), nodata=3, masked=True, unpacked=True)


@pytest.mark.parametrize(
    "items",
    [
        [("SCALE", "0", None)],
        [("SCALE", "nan", None)],
        [("SCALE", "1e400", None)],
        [("SCALE", "abc", 0)],
        [("OFFSET", "", None)],
        [("OFFSET", "inf", 0)],
    ],
)
def test_a_scale_that_cannot_be_applied(tmp_path: Path, items: Any) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.int16), metadata=gdal_items(*items))
    open_geotiff(path)
    with pytest.raises(swath.MalformedScaleOffsetError, match=items[0][0]):
        open_geotiff(path, unpack=True)


@pytest.mark.parametrize("xml", ['<GDALMetadata><Item name="SCALE"', "<!DOCTYPE a><GDALMetadata></GDALMetadata>"])
def test_broken_metadata_is_an_error_not_scale_1(tmp_path: Path, xml: str) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.int16), metadata=xml)
    assert open_geotiff(path).attrs["gdal_metadata"] == {}
    with pytest.raises(swath.MalformedScaleOffsetError, match="XML"):
        open_geotiff(path, unpack=True)


@pytest.mark.parametrize(
    ("items", "scales"),
    [
        ([("SCALE", "2", 0), ("SCALE", "3", 1)], ((2, 3), 2, 3)),
        ([("SCALE", "2", 0), ("SCALE", "2.0", 1)], (2, 2, 2)),
        ([("SCALE", "5", None), ("SCALE", "3", 1)], (5, 5, 5)),
        # A band without a scale has scale 1.
        ([("SCALE", "2", 0)], ((2, 1), 2, 1)),
    ],
)
@pytest.mark.parametrize("chunks", [None, 3])
def test_scales_of_bands(tmp_path: Path, items: Any, scales: Any, chunks: Any) -> None:
    pixels = np.stack([PIXELS, PIXELS + 1], -1).astype(np.int16)
    path = tagged(tmp_path / "a.tif", pixels, metadata=gdal_items(*items))
    for band, scale in zip((None, 0, 1), scales, strict=True):
        expected = (pixels if band is None else pixels[..., band]) * np.float64(scale)
        unpacked = open_geotiff(path, unpack=True, band=band, chunks=chunks)
        # A band that needs no scale is unchanged.
        assert unpacked.dtype == (np.int16 if scale == 1 else np.float64)
        np.testing.assert_array_equal(unpacked, expected)
        read = dict(enumerate(np.broadcast_to(scale, 2).tolist())) if band is None else {band: scale}
        assert state(unpacked).scaling == {number: (one, 0.0) for number, one in read.items() if one != 1}
        assert state(unpacked).bands == 2


@pytest.mark.parametrize("chunks", [None, 3, {"band": 1}])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_each_band_has_its_own_scale_and_offset_whichever_are_read(tmp_path: Path, dtype: str, chunks: Any) -> None:
    pixels = np.stack([PIXELS, PIXELS + 1, PIXELS + 2], -1).astype(dtype)
    items = [("SCALE", "2", 0), ("OFFSET", "10", 0), ("OFFSET", "-5", 1), ("SCALE", "0.1", 2)]
    path = tagged(tmp_path / "a.tif", pixels, nodata="3", metadata=gdal_items(*items))
    work = np.dtype("f4" if dtype == "float32" else "f8")
    expected = pixels * np.array([2, 1, 0.1], work) + np.array([10, -5, 0], work)
    expected[pixels == 3] = math.nan
    np.testing.assert_array_equal(whole := open_geotiff(path, unpack=True, chunks=chunks), expected)
    assert whole.dtype == work
    # CF has one scale for all bands: with the type alone xarray would round to integers; with the fill value alone it
    # would treat valid values of 3 as missing.
    assert packing(whole) == {}
    picked = open_geotiff(path, unpack=True, chunks=chunks, band=[2, 0])
    np.testing.assert_array_equal(picked, expected[..., [2, 0]])
    np.testing.assert_array_equal(whole.isel(band=[2, 1]), expected[..., [2, 1]])
    np.testing.assert_array_equal(whole.isel(band=1, x=slice(None, None, 2)), expected[:, ::2, 1])
    lazy = xr.open_dataset(path, engine="swath", unpack=True)["a"]
    for band in (1, [2, 0], slice(None, None, -1)):
        np.testing.assert_array_equal(lazy.isel(band=band), expected[..., band])


def test_a_scale_that_destroys_is_an_error_only_where_the_band_is_read(tmp_path: Path) -> None:
    pixels = np.stack([PIXELS, PIXELS + 1], -1).astype(np.int16)
    path = tagged(tmp_path / "a.tif", pixels, metadata=gdal_items(("SCALE", "0", 1), ("SCALE", "2", 0)))
    for band in (None, 1, [0, 1]):
        with pytest.raises(swath.MalformedScaleOffsetError, match="SCALE is 0"):
            open_geotiff(path, unpack=True, band=band)
    np.testing.assert_array_equal(open_geotiff(path, unpack=True, band=[0])[..., 0], pixels[..., 0] * 2)


def test_nodata_of_pam_counts(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8))
    (tmp_path / "a.tif.aux.xml").write_text(
        '<PAMDataset><PAMRasterBand band="1"><NoDataValue>3</NoDataValue></PAMRasterBand></PAMDataset>'
    )
    assert open_geotiff(path).attrs["nodata"] == 3
    array = open_geotiff(path, masked=True)
    assert array.encoding["_FillValue"] == 3
    assert np.isnan(array.values[0, 3])


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("chunks", [None, 20])
def test_masks_of_files_become_nan_on_request(tmp_path: Path, external: bool, chunks: Any) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (3, 48, 64)).astype(np.uint8)
    mask = np.full((48, 64), 255, np.uint8)
    mask[5:20, 7:30] = 0
    path = by_gdal(
        tmp_path / "a.tif", pixels, tiled=True, blockxsize=16, blockysize=16, masks=None if external else mask
    )
    if external:
        import rasterio

        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=False), rasterio.open(path, "r+") as file:
            file.write_mask(mask)
        assert (tmp_path / "a.tif.msk").exists()
    plain = open_geotiff(path, chunks=chunks)
    assert plain.dtype == np.uint8
    np.testing.assert_array_equal(plain, np.moveaxis(pixels, 0, -1))
    masked = open_geotiff(path, masked=True, chunks=chunks, window=(2, 3, 40, 50))
    assert masked.dtype == np.float64
    expected = np.where(mask == 0, np.nan, pixels)[:, 2:40, 3:50]
    np.testing.assert_array_equal(masked, np.moveaxis(expected, 0, -1))
    assert numbers(masked.attrs) == texts(nodata=math.nan, masked_nodata=1)
    assert state(masked).masked and state(masked).by_mask
    assert packing(masked) == {}
    one = open_geotiff(path, masked=True, band=1, chunks=chunks, dtype="float32")
    np.testing.assert_array_equal(one, np.where(mask == 0, np.nan, pixels[1]).astype(np.float32))


@pytest.mark.parametrize("band", [1, "green", [2, 0], ["blue"]])
@pytest.mark.parametrize("chunks", [None, 3])
def test_a_selected_band_keeps_its_number(tmp_path: Path, band: Any, chunks: Any) -> None:
    """Without the number, a writer would treat every band as the first and write that band's name and scale."""
    names = ["blue", "green", "red"]
    path = by_gdal(tmp_path / "a.tif", np.stack([PIXELS] * 3).astype("u1"))
    with rasterio.open(path, "r+") as file:
        file.descriptions = names
    picked = open_geotiff(path, band=band, chunks=chunks)
    labels = [names.index(one) if isinstance(one, str) else one for one in np.atleast_1d(band).tolist()]
    assert picked.coords["band"].dims == (("band",) if isinstance(band, list) else ())
    assert np.atleast_1d(picked.coords["band"]).tolist() == labels
    assert picked.attrs["_swath_bands"] == state(picked).bands == 3


def test_a_file_of_one_band_has_no_band_coordinate(tmp_path: Path) -> None:
    array = open_geotiff(by_gdal(tmp_path / "a.tif", PIXELS.astype("u1")), band=0)
    assert set(array.coords) == {"y", "x"}
    assert not {"_swath_bands", "colorinterp"} & array.attrs.keys()


def test_reading_does_not_depend_on_how_the_file_was_read_before(tmp_path: Path) -> None:
    """Headers are cached; the arguments of a call are not."""
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), nodata="3", metadata=gdal_items(("SCALE", "2", None)))
    requests: list[dict[str, Any]] = [{}, {"masked": True}, {"unpack": True}, {"dtype": "float32"}, {"band": 0}]
    first = [open_geotiff(path, **request) for request in requests]
    again = [open_geotiff(path, **request) for request in reversed(requests)][::-1]
    assert all(a.identical(b) for a, b in zip(first, again, strict=True))
    assert math.isnan(first[1].values[0, 3])
    assert first[0].values[0, 3] == 3


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("nodata", [None, 3, 3.0, -9999, math.nan, math.inf])
@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"masked": True},
        {"scaling": [(0.1, 2.0)], "masked": True},
        {"scaling": [(3.0, 0.0), (3.0, 0.0)]},
        {"scaling": [(0.1, 2.0), (1.0, 0.0)], "masked": True},
        {"scaling": [(3.0, 0.0), (3.0, 5.0)]},
    ],
)
@pytest.mark.parametrize("by_mask", [False, True])
def test_other_array_modules_finish_as_the_engine_does(dtype: str, nodata: Any, request_: Any, by_mask: bool) -> None:
    """CuPy arrays use `apply_with`; numpy replaces CuPy here."""
    from swath.read.nodata import Finish

    pixels = np.stack([PIXELS, PIXELS + 1], -1).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        pixels[0, 0], pixels[0, 1] = math.nan, math.inf
    valid = (PIXELS % 5 != 0).astype(np.uint8) * 255 if by_mask else None
    finish = Finish.of(np.dtype(dtype), nodata, by_mask=by_mask, **request_)
    with np.errstate(invalid="ignore"):
        other, other_seen = finish.apply_with(np, pixels.copy(), valid)
    ours, seen = finish.apply_and_look(pixels.copy(), valid)
    assert ours.dtype == other.dtype == finish.dtype
    assert seen == bool(other_seen)
    np.testing.assert_array_equal(ours, other)
