"""Every array that is written is read back: types, shapes, chunks, codecs, predictors, nodata, byte orders, strides.

HYPOTHESIS_PROFILE=search looks for new examples; the default run always uses the same ones.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array
import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import tifffile
import xarray as xr
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import swath

pytestmark = pytest.mark.filterwarnings("ignore")

SEARCHING = os.environ.get("HYPOTHESIS_PROFILE") == "search"
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
FLOATS = ["f4", "f8"]
LOSSLESS = ["none", "deflate", "lzw", "packbits", "zstd"]


@st.composite
def pixels(draw: DrawFn, kinds: Sequence[str] = (*INTEGERS, *FLOATS)) -> np.ndarray[Any, Any]:
    """An array of few or many values, in any memory order, with sides around multiples of the tile size."""
    side = st.one_of(st.integers(1, 40), st.sampled_from([15, 16, 17, 31, 32, 33, 47, 48, 64, 65]))
    shape: tuple[int, ...] = (draw(side), draw(side))
    if draw(st.booleans()):
        shape = (*shape, draw(st.integers(1, 5)))
    kind = np.dtype(draw(st.sampled_from(kinds)))
    order = draw(st.sampled_from("<>"))
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    style = draw(st.sampled_from(["noise", "steps", "constant", "few"]))
    array = values_of(seed, style, shape, kind)
    if draw(st.booleans()):  # extremes at random positions
        few = draw(arrays.arrays(kind, st.integers(1, 4), elements=arrays.from_dtype(kind, allow_nan=True)))
        flat = array.reshape(-1)
        flat[seed.integers(0, flat.size, few.size)] = few
    return strided(draw, array.astype(kind.newbyteorder(order)))


def values_of(
    seed: np.random.Generator, style: str, shape: tuple[int, ...], kind: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    if style == "constant":
        return np.full(shape, 3, kind)
    if style == "steps":
        return np.arange(int(np.prod(shape))).astype(kind).reshape(shape)
    if style == "few":
        return seed.integers(0, 3, shape).astype(kind)
    if kind.kind == "f":
        return (seed.normal(size=shape) * 10.0 ** float(seed.integers(-3, 9))).astype(kind)
    info = np.iinfo(kind)
    return seed.integers(info.min, info.max, shape, dtype=kind, endpoint=True)


def strided(draw: DrawFn, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values with other strides."""
    way = draw(st.sampled_from(["plain", "fortran", "every other", "backwards", "transposed", "read-only"]))
    event(way)
    if way == "fortran":
        return np.asfortranarray(array)
    if way == "every other":
        wide = np.zeros((array.shape[0] * 2, array.shape[1] * 3, *array.shape[2:]), array.dtype)
        wide[::2, ::3] = array
        return wide[::2, ::3]
    if way == "backwards":
        return array[::-1, ::-1].copy()[::-1, ::-1]
    if way == "transposed":
        axes = (1, 0, *range(2, array.ndim))
        return np.ascontiguousarray(array.transpose(axes)).transpose(axes)
    if way == "read-only":
        array.flags.writeable = False
    return array


@st.composite
def ways(draw: DrawFn, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Options for writing."""
    options: dict[str, Any] = {"compression": draw(st.sampled_from(LOSSLESS))}
    options["predictor"] = draw(st.sampled_from([False, True, 1, 2, *([3] if array.dtype.kind == "f" else [])]))
    if draw(st.booleans()):
        options["tile_size"] = draw(st.sampled_from([16, 32, 48, 64, 256]))
        options["cog"] = draw(st.booleans())
    else:
        options["tiled"] = False
    options["bigtiff"] = draw(st.sampled_from([None, True, False]))
    if options["compression"] in ("zstd", "deflate"):
        options["compression_level"] = draw(st.one_of(st.none(), st.integers(1, 9)))
    return options


@st.composite
def chunks_of(draw: DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Chunks of random sizes along every axis."""
    found = []
    for size in shape:
        cuts = draw(st.sets(st.integers(1, size - 1), max_size=4)) if size > 1 else set()
        edges = [0, *sorted(cuts), size]
        found.append(tuple(end - start for start, end in zip(edges, edges[1:], strict=False)))
    return tuple(found)


def as_array(values: Any, **attrs: Any) -> xr.DataArray:
    """A DataArray with coordinates if an axis is long enough for them."""
    dims = ("y", "x", "band")[: values.ndim]
    coords = {}
    if min(values.shape[:2]) > 1:
        coords = {"y": 90 - 0.5 * np.arange(values.shape[0]), "x": 10 + 0.25 * np.arange(values.shape[1])}
    return xr.DataArray(values, dims=dims, coords=coords, attrs=attrs)


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values as in a file: native byte order, a single band without a band axis."""
    plain = array.astype(array.dtype.newbyteorder("="))
    return plain[..., 0] if plain.ndim == 3 and plain.shape[2] == 1 else plain


def same(ours: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(ours, expected, strict=True)
    if expected.dtype.kind == "f":  # also compares the sign of zero and NaN
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(expected))


def examples(count: int) -> settings:
    return settings() if SEARCHING else settings(max_examples=count)


@examples(110)
@given(data=st.data())
def test_pixels_come_back(data: st.DataObject, tmp_path: Path) -> None:
    """From numpy or dask, read by Swath and by tifffile; also the coordinates."""
    array = data.draw(pixels(), "array")
    options = data.draw(ways(array), "options")
    values: Any = array
    if data.draw(st.booleans(), "lazy"):
        values = dask.array.from_array(array, chunks=data.draw(chunks_of(array.shape), "chunks"))
    source = as_array(values)
    path = tmp_path / "a.tif"
    swath.to_geotiff(source, path, **options)
    opened, expected = swath.open_geotiff(path), native(array)
    same(opened.values, expected)
    same(tifffile.imread(path, key=0).reshape(expected.shape), expected)
    for axis in source.coords:
        np.testing.assert_array_equal(opened[axis].values, source[axis].values)


@examples(40)
@given(data=st.data())
def test_windows_bands_and_chunks_are_slices(data: st.DataObject, tmp_path: Path) -> None:
    array = data.draw(pixels(), "array")
    path = tmp_path / "a.tif"
    swath.to_geotiff(as_array(array), path, **data.draw(ways(array), "options"))
    expected = native(array)
    height, width = expected.shape[:2]
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    bottom, right = data.draw(st.integers(top + 1, height)), data.draw(st.integers(left + 1, width))
    window = (top, left, bottom, right)
    call: dict[str, Any] = {"window": window}
    cut = expected[top:bottom, left:right]
    if expected.ndim == 3 and data.draw(st.booleans(), "one band"):
        call["band"] = data.draw(st.integers(0, expected.shape[2] - 1))
        cut = cut[..., call["band"]]
    same(swath.open_geotiff(path, **call).values, cut)
    size = st.integers(1, 70)
    call["chunks"] = data.draw(st.one_of(size, st.tuples(size, size), st.sampled_from(["auto", -1])), "chunks")
    lazy = swath.open_geotiff(path, **call)
    assert lazy.chunks is not None
    same(lazy.values, cut)


@examples(35)
@given(data=st.data())
def test_missing_pixels_come_back_as_nan(data: st.DataObject, tmp_path: Path) -> None:
    """NaN is written as nodata and read as NaN; integers lose only the nodata value."""
    array = data.draw(pixels(["u1", "i2", "u2", "i4", "f4", "f8"]), "array")
    kind = array.dtype
    if kind.kind == "f":
        sentinel: Any = data.draw(st.sampled_from([-9999, -1.5, 0, float("nan")]), "nodata")
        values = array.astype(kind.newbyteorder("="))
        values[values == sentinel] = 1
        values[np.isinf(values)] = 2
    else:
        info = np.iinfo(kind)
        sentinel = data.draw(st.integers(int(info.min), int(info.max)), "nodata")
        values = array
    path = tmp_path / "a.tif"
    options = data.draw(ways(array), "options")
    swath.to_geotiff(as_array(values), path, nodata=sentinel, **options)
    opened = swath.open_geotiff(path, masked=True)
    expected = native(values)
    if kind.kind == "f":
        assert opened.dtype == expected.dtype
        np.testing.assert_array_equal(opened.values, expected)
    else:
        wide = expected.astype("f8")
        wide[expected == sentinel] = np.nan
        np.testing.assert_array_equal(opened.values, wide, strict=True)
        same(swath.open_geotiff(path).values, expected)
    plain = swath.open_geotiff(path)
    assert np.isnan(opened.attrs["nodata"])
    np.testing.assert_equal([plain.attrs["nodata"], opened.encoding["swath"].nodata], [sentinel, sentinel])
    # Masked or not, it is written again unchanged.
    for number, array_again in enumerate((plain, opened)):
        swath.to_geotiff(array_again, tmp_path / f"{number}.tif", **options)
    assert (tmp_path / "0.tif").read_bytes() == (tmp_path / "1.tif").read_bytes()


@examples(25)
@given(data=st.data())
def test_bytes_do_not_depend_on_chunks_or_strides(data: st.DataObject, tmp_path: Path) -> None:
    array = data.draw(pixels(), "array")
    options = data.draw(ways(array), "options")
    first, second = tmp_path / "first.tif", tmp_path / "second.tif"
    swath.to_geotiff(as_array(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))), first, **options)
    lazy = dask.array.from_array(array, chunks=data.draw(chunks_of(array.shape), "chunks"))
    swath.to_geotiff(as_array(lazy), second, **options)
    assert first.read_bytes() == second.read_bytes()
    if not options.get("cog"):
        stream = io.BytesIO()
        swath.to_geotiff(as_array(array), stream, **options)
        assert stream.getvalue() == first.read_bytes()
