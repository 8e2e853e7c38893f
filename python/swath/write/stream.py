"""Provides pixels to the engine: an array in memory, or rows that are computed when the engine needs them."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..gpu.arrays import is_on_device, to_host
from .raster import Raster

_LARGE_CHUNK_ROW = 32 << 20
"""A row of chunks with more bytes than this is passed to the engine in parts."""
_PART_ROWS = 64


class Source(NamedTuple):
    """The `source` argument of `_swath.write` and its properties."""

    pixels: Any
    bands_last: bool = True
    chunk_rows: Sequence[int] | None = None
    has_mask: bool = False
    """Whether each row range comes with its mask."""


def source_of(raster: Raster, *, on_device: bool = False) -> Source:
    """Returns the pixels of a raster on the host or, if they are on a device and are to stay there, on the device.

    An array in the order and type of the file is passed without a copy. Other arrays are converted a few rows at a
    time, so that a large array is never in memory twice.
    """
    if raster.is_dask:
        axis = 1 if raster.bands_first else 0
        chunks = [int(rows) for rows in raster.array.chunks[axis] if rows]
        if not on_device and max(chunks) * (raster.array.nbytes // raster.height) > _LARGE_CHUNK_ROW:
            rows: Rows = _ChunkRows(raster, chunks).rows
            chunks = [min(_PART_ROWS, count - start) for count in chunks for start in range(0, count, _PART_ROWS)]
        else:
            rows = _dask_rows(raster, on_device)
        return Source(rows, chunk_rows=chunks, has_mask=raster.valid is not None)
    if on_device:
        if raster.steps or raster.array.dtype != raster.dtype:
            return Source(_finish_on_device(raster, raster.array))
        return Source(raster.array, bands_last=not raster.bands_first)
    return _as_it_lies(raster) or Source(_array_rows(raster), has_mask=raster.valid is not None)


def _as_it_lies(raster: Raster) -> Source | None:
    array = raster.array
    if raster.steps or raster.valid is not None or isinstance(array, np.ma.MaskedArray):
        return None
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    if array.dtype != raster.dtype or not array.dtype.isnative:
        return None
    if array.ndim == 2:
        return Source(array) if array.flags.c_contiguous else None
    bands_first = array if raster.bands_first else np.moveaxis(array, 2, 0)
    bands_last = np.moveaxis(bands_first, 0, 2)
    if bands_last.flags.c_contiguous:
        return Source(bands_last)
    return Source(bands_first, bands_last=False) if bands_first.flags.c_contiguous else None


Rows = Callable[[int, int], Any]


def _array_rows(raster: Raster) -> Rows:
    def rows(start: int, stop: int) -> Any:
        block = raster.array[:, start:stop] if raster.bands_first else raster.array[start:stop]
        return _with_mask(raster, _on_host(block), start, stop)

    return rows


def _dask_rows(raster: Raster, on_device: bool) -> Rows:
    """Returns a function that computes rows of a dask array, only those, with the scheduler that the caller has set."""
    from dask.base import compute

    array = raster.array

    def rows(start: int, stop: int) -> Any:
        part = array[:, start:stop] if raster.bands_first else array[start:stop]
        (made,) = compute(part)  # type: ignore[no-untyped-call]
        made = _checked(made, part, start, stop)
        if on_device:
            return _finish_on_device(raster, made)
        return _with_mask(raster, _on_host(made), start, stop)

    return rows


class _ChunkRows:
    """Computes a row of large chunks at a time and returns parts of it.

    The chunks are not joined, and the engine holds two parts instead of two rows of chunks. For 8192 columns of float32
    in chunks of 2048 x 2048 this takes 189 MB instead of 334 MB.
    """

    def __init__(self, raster: Raster, chunk_rows: list[int]) -> None:
        self._raster = raster
        self._axis = 1 if raster.bands_first else 0
        self._ends = [0, *accumulate(chunk_rows)]
        self._current = -1
        self._chunks: Any = None
        """The computed chunks of the current row of chunks, as nested lists, one level for each axis."""

    def rows(self, start: int, stop: int) -> Any:
        """Returns rows in the form of the file. The engine requests rows in order."""
        from dask.array.core import concatenate3

        parts: list[Any] = []
        row = start
        while row < stop:
            number = bisect_right(self._ends, row) - 1
            self._compute(number)
            first, end = self._ends[number], min(stop, self._ends[number + 1])
            parts.append(_nested(self._chunks, self._axis, slice(row - first, end - first)))
            row = end
        joined = concatenate3(_joined(parts, self._axis))  # type: ignore[no-untyped-call]
        array = self._raster.array
        made = _checked(joined, array[:, start:stop] if self._raster.bands_first else array[start:stop], start, stop)
        return _with_mask(self._raster, _on_host(made), start, stop)

    def _compute(self, number: int) -> None:
        from dask.base import compute

        if number == self._current:
            return
        # Their memory is free before the next chunks need theirs.
        self._current, self._chunks = number, None
        start, stop = self._ends[number : number + 2]
        array = self._raster.array
        grid = (array[:, start:stop] if self._raster.bands_first else array[start:stop]).to_delayed()
        made = iter(compute(*grid.ravel().tolist()))  # type: ignore[no-untyped-call]
        self._chunks = _filled(grid.tolist(), made)


def _filled(grid: Any, values: Iterator[Any]) -> Any:
    """Returns nested lists of the same shape with the values in order."""
    return [_filled(part, values) for part in grid] if isinstance(grid, list) else next(values)


def _nested(chunks: Any, axis: int, rows: slice) -> Any:
    """Returns rows of each chunk in nested lists."""
    if isinstance(chunks, list):
        return [_nested(part, axis, rows) for part in chunks]
    return chunks[(slice(None),) * axis + (rows,)]


def _joined(parts: list[Any], axis: int) -> Any:
    """Joins nested lists along an axis: one list with all entries at that depth."""
    if axis == 0:
        return [entry for part in parts for entry in part]
    return [_joined([part[i] for part in parts], axis - 1) for i in range(len(parts[0]))]


def _checked(made: Any, part: Any, start: int, stop: int) -> Any:
    """Returns computed rows in the type that the dask array `part` declares, if they have its shape."""
    if tuple(made.shape) != tuple(part.shape):
        raise ValueError(
            f"the dask array says that rows {start} to {stop} have the shape {tuple(part.shape)}, but computing "
            f"them gave {tuple(made.shape)}: the chunks that its graph makes are not as it declares them"
        )
    return as_announced(made, part.dtype, f"rows {start} to {stop}")


def as_announced(made: Any, dtype: np.dtype[Any], what: str) -> Any:
    """Casts pixels to the type that the dask array declares, if no value changes: chunks may have another type."""
    if made.dtype == dtype:
        return made
    from_whole, to_float = made.dtype.kind in "iu", dtype.kind in "fc"
    if np.can_cast(made.dtype, dtype, "safe") and not (from_whole and to_float and made.dtype.itemsize == 8):
        return made.astype(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = made.astype(dtype)
        if made.dtype.kind == dtype.kind == "f":
            # xarray's interp declares float32 and computes float64: the additional digits are not significant.
            kept = np.isfinite(cast) == np.isfinite(made)
        elif from_whole and to_float:
            kept = cast.astype(made.dtype) == made
        else:
            kept = (cast == made) | ((made != made) & (cast != cast))
    if bool(kept.all()):
        return cast
    raise ValueError(
        f"the dask array says that it is of type {dtype}, but computing {what} gave {made.dtype} with values that "
        f"{dtype} cannot hold. Convert it with .astype(), or say the type that its chunks have with meta= "
        "or dtype= where the graph is made (map_blocks, from_delayed, apply_ufunc)."
    )


def _on_host(block: Any) -> Any:
    if not is_on_device(block):
        return block
    return to_host(block)


def _with_mask(raster: Raster, block: Any, start: int, stop: int) -> Any:
    """Returns rows in the form of the file and, if it gets a mask, the rows of the mask."""
    pixels = finish(raster, block)
    if raster.valid is None:
        return pixels
    return pixels, raster.valid(_bands_last(raster, block), start, stop)


def _bands_last(raster: Raster, block: Any) -> npt.NDArray[Any]:
    block = np.asanyarray(block)
    return np.moveaxis(block, 0, 2) if raster.bands_first else block


def finish(raster: Raster, block: Any) -> npt.NDArray[Any]:
    """Returns a block of a raster's array in the form of the file: (row, column, band), C order, native byte order."""
    block = _bands_last(raster, block)
    for step in raster.steps:
        block = step(block)
    return np.ascontiguousarray(block, dtype=raster.dtype)


def _finish_on_device(raster: Raster, block: Any) -> Any:
    """Does the same on the device. CuPy arrays support NumPy's functions."""
    if raster.bands_first:
        block = block.transpose(1, 2, 0)
    for step in raster.steps:
        block = step(block)
    return block.astype(raster.dtype, order="C", copy=False)


def delayed(write: Callable[[], Any]) -> Any:
    """Returns a dask Delayed that writes when it is computed.

    The pixels are hidden inside `write`: as an argument, dask would compute them as a whole first.
    """
    from dask.delayed import delayed as delay

    def write_geotiff() -> Any:
        with _free_worker():
            return write()

    return delay(write_geotiff, pure=False)()


def _free_worker() -> AbstractContextManager[Any]:
    """On a worker of dask.distributed, provides a client whose tasks need not wait for this task to release its
    thread.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return nullcontext()
    try:
        distributed.get_worker()
    except ValueError:
        return nullcontext()
    client: AbstractContextManager[Any] = distributed.worker_client()
    return client


def make_parent(path: str) -> None:
    """Creates the folder of a file before its pixels are computed, which may take hours."""
    if parent := os.path.dirname(path):
        os.makedirs(parent, exist_ok=True)
