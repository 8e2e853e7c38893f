"""Dask arrays whose chunks differ from the declared type: cast if no value changes, else refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import swath

TARGETS = {"tiles": {"tile_size": 16}, "cog": {"cog": True, "tile_size": 16}, "strips": {"tiled": False}}


def announced(values: Any, code: str, chunks: int = 20) -> da.Array:
    """Chunks of these values in an array that declares another type."""
    lazy = da.from_array(values, chunks=chunks)
    return da.map_blocks(lambda block: block, lazy, dtype=code, meta=np.empty((0,) * values.ndim, code))


def image(code: str, last: float = 7) -> np.ndarray[Any, Any]:
    values = (np.arange(50 * 40) % 100).astype(code).reshape(50, 40)
    values[-1, -1] = last
    return values


FITTING = [
    ("f8", "u1", 250),
    ("i8", "u1", 250),
    ("i8", "f4", 2**24),
    ("i8", "f8", 2**53),
    ("u1", "f4", 3),
    ("f8", "f4", 0.1),
    ("f8", "f4", np.nan),
    ("f8", "f4", np.inf),
    ("u2", "i2", 32767),
    ("f8", "i8", 2.0**53),
    ("?", "u1", True),
]
LOSING = [
    ("f8", "u1", 300),
    ("f8", "u1", -1),
    ("f8", "u1", 0.5),
    ("f8", "u1", np.nan),
    ("f8", "i2", np.inf),
    ("i8", "u1", 256),
    ("i8", "u8", -1),
    ("u2", "i2", 40000),
    ("f8", "f4", 1e39),
    ("i8", "f4", 2**24 + 1),
    ("i8", "f8", 2**53 + 1),
    ("c8", "f4", 1j),
]


@pytest.mark.parametrize("target", [*TARGETS, "vrt"])
@pytest.mark.parametrize(("made", "code", "last"), FITTING)
def test_chunks_of_another_type_are_cast_where_no_value_changes(
    made: str, code: str, last: Any, target: str, tmp_path: Path
) -> None:
    values = image(made, last)
    path = tmp_path / ("it.vrt" if target == "vrt" else "it.tif")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        swath.to_geotiff(announced(values, code), path, **TARGETS.get(target, {}))
    found = swath.open_geotiff(path)
    assert found.dtype == code
    np.testing.assert_array_equal(found, values.astype(code))


@pytest.mark.parametrize("target", [*TARGETS, "vrt"])
@pytest.mark.parametrize(("made", "code", "last"), LOSING)
def test_chunks_that_would_lose_values_are_an_error_with_advice(
    made: str, code: str, last: Any, target: str, tmp_path: Path
) -> None:
    """300 as a byte would be 44."""
    path = tmp_path / ("it.vrt" if target == "vrt" else "it.tif")
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match=rf"of type {np.dtype(code)}.*gave {np.dtype(made)}.*astype.*dtype="):
        swath.to_geotiff(announced(image(made, last), code), path, **TARGETS.get(target, {}))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_one_chunk_of_another_type_among_others(tmp_path: Path) -> None:
    values = image("u1")
    mixed = da.map_blocks(
        lambda block, block_info=None: block.astype("f8") if block_info[0]["chunk-location"] == (1, 1) else block,
        da.from_array(values, chunks=20),
        dtype="u1",
        meta=np.empty((0, 0), "u1"),
    )
    swath.to_geotiff(mixed, tmp_path / "it.tif")
    assert swath.open_geotiff(tmp_path / "it.tif").dtype == np.uint8
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif"), values)


@pytest.mark.parametrize("bands_first", [False, True])
def test_bands_of_another_type(bands_first: bool, tmp_path: Path) -> None:
    values = np.stack([image("f8"), image("f8", 9), image("f8", 11)], 0 if bands_first else -1)
    dims = ("band", "y", "x") if bands_first else ("y", "x", "band")
    swath.to_geotiff(xr.DataArray(announced(values, "u1"), dims=dims), tmp_path / "it.tif", mask=True, nodata=11)
    found = swath.open_geotiff(tmp_path / "it.tif")
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found.transpose(*dims), values)


@pytest.mark.parametrize("operation", ["interp", "map_blocks", "ufunc"])
def test_wrong_type_declared_by_xarray_is_written(operation: str, tmp_path: Path) -> None:
    array = xr.DataArray(image("f4"), dims=("y", "x"), coords={"y": 100 - np.arange(50.0), "x": np.arange(40.0)})
    lazy = array.chunk(20)
    made = {
        "interp": lambda a: a.interp(x=np.arange(0.5, 30, 0.5)),
        "map_blocks": lambda a: a.map_blocks(lambda block: block.astype("f8"), template=lazy),
        "ufunc": lambda a: xr.apply_ufunc(
            lambda block: block * np.float64(2), a, dask="parallelized", output_dtypes=["f4"]
        ),
    }[operation]
    swath.to_geotiff(made(lazy), tmp_path / "it.tif")
    np.testing.assert_allclose(swath.open_geotiff(tmp_path / "it.tif"), made(lazy).values, rtol=1e-6)
