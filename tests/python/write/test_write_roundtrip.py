"""Written arrays are read back: types, shapes, chunks, codecs, predictors and nodata in all combinations."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import rasterio
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import swath

TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", ">u2", ">f4", "?"]
CODECS = ["none", "deflate", "lzw", "packbits", "zstd", "lz4", "lzma", "lerc", "lerc_zstd"]
UNKNOWN_TO_GDAL = ("lz4", "lzma")


@st.composite
def writes(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any], Any]:
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    shape = draw(st.tuples(st.integers(1, 70), st.integers(1, 70)) | st.tuples(*[st.integers(1, 20)] * 3))
    elements = hnp.from_dtype(dtype, allow_nan=True, allow_infinity=True)
    array = draw(hnp.arrays(dtype, shape, elements=elements, fill=elements))
    # LERC has no 64-bit integers.
    codec = draw(st.sampled_from(CODECS if dtype not in (np.int64, np.uint64) else CODECS[:-2]))
    options: dict[str, Any] = {"compression": codec, "tile_size": draw(st.sampled_from([16, 32, 256]))}
    if not codec.startswith("lerc"):
        options["predictor"] = draw(st.sampled_from([1, 2, 3, "auto"] if dtype.kind == "f" else [1, 2, "auto"]))
    options["cog"] = draw(st.booleans())
    options["interleave"] = draw(st.sampled_from(["pixel", "band"]))
    options["bigtiff"] = draw(st.sampled_from([None, True]))
    if not options["cog"]:
        options["tiled"] = draw(st.booleans())
        if not options["tiled"]:
            del options["tile_size"]
    options["nodata"] = draw(
        st.none() | st.integers(0, 100) | (st.just(float("nan")) if dtype.kind == "f" else st.none())
    )
    chunks = draw(st.none() | st.integers(1, 40))
    return array, options, chunks


@settings(max_examples=40)
@given(writes())
def test_written_arrays_are_read_back(write: tuple[np.ndarray[Any, Any], dict[str, Any], Any]) -> None:
    array, options, chunks = write
    expected = array.astype("u1") if array.dtype.kind == "b" else array.astype(array.dtype.newbyteorder("="))
    nodata = options["nodata"]
    if expected.dtype.kind == "f" and nodata is not None:
        expected = np.where(np.isnan(expected), expected.dtype.type(nodata), expected)
    dims = ("y", "x", "band")[: array.ndim]
    data = xr.DataArray(array if chunks is None else da.from_array(array, chunks=chunks), dims=dims)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "it.tif"
        swath.to_geotiff(data, path, **options)
        found = swath.open_geotiff(path)
        by_gdal = None
        if options["compression"] not in UNKNOWN_TO_GDAL:
            with rasterio.open(path) as file:
                by_gdal = np.moveaxis(file.read(), 0, -1)
    if array.ndim == 3 and array.shape[2] == 1:
        expected = expected[..., 0]
    np.testing.assert_array_equal(found.values, expected)
    assert found.dtype == expected.dtype
    if by_gdal is not None:
        np.testing.assert_array_equal(by_gdal.reshape(expected.shape), expected)
