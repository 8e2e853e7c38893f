"""`chunks=`: a dask array whose tasks share one opened file."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..read.pixels import Pixels

if TYPE_CHECKING:
    import dask.array

    from ..read.plan import ReadPlan
    from ..read.source import Handle

Sizes = tuple[int, ...]
"""Lengths of the chunks along one axis."""

MAX_CHUNKS = 50_000
"""With more tasks than this, schedulers spend most of their time on overhead."""


class Indexed:
    """Passed as `chunks` to get an array that xarray reads when it is indexed. It stores the `Pixels` of that array."""

    pixels: Pixels

    def array_of(self, pixels: Pixels) -> Any:
        # Imports xarray on first use.
        from .lazy_array import lazy_array

        self.pixels = pixels
        return lazy_array(pixels)


def open_lazy(handle: Handle, plan: ReadPlan, chunks: Any, pixels: Pixels | None = None) -> dask.array.Array:
    """Returns the pixels of a plan as a dask array; `pixels` defines how they are read. Reading starts at compute."""
    if isinstance(chunks, Indexed):
        indexed: dask.array.Array = chunks.array_of(Pixels(handle, plan))
        return indexed
    sizes = chunk_sizes(chunks, plan, handle.file().levels[plan.level][2:])
    pixels = Pixels(handle, plan) if pixels is None else pixels
    # A task consists of this object and a slice.
    return dask_array(pixels, sizes, (pixels, sizes), pixels.empty((0,) * pixels.ndim), inline=True)


def dask_array(
    pixels: Pixels, sizes: Any, about: Any, meta: Any, *, inline: bool, prefix: str = "open_geotiff"
) -> dask.array.Array:
    """Returns a dask array of one blockwise layer, whose tasks are made when the graph runs; its name is derived from
    `about`.
    """
    from dask.base import tokenize

    name = f"{prefix}-{tokenize(*about)}"
    if inline and _direct_way_works():
        return _directly(pixels, sizes, name, meta)
    return _plainly(pixels, sizes, name, meta, inline=inline)


def _plainly(pixels: Any, sizes: Any, name: str, meta: Any, *, inline: bool) -> dask.array.Array:
    import dask.array

    lazy: dask.array.Array = dask.array.from_array(  # type: ignore[no-untyped-call]
        pixels, chunks=sizes, name=name, lock=False, asarray=False, fancy=False, meta=meta, inline_array=inline
    )
    return lazy


def _directly(pixels: Any, sizes: Any, name: str, meta: Any) -> dask.array.Array:
    """Makes the array that `from_array` makes, in a third of the time: it checks the chunks three times and the
    signature of the function in the tasks twice.
    """
    import dask.array
    from dask.array.core import getter_nofancy
    from dask.blockwise import blockwise
    from dask.highlevelgraph import HighLevelGraph
    from dask.layers import ArraySliceDep

    axes = tuple(range(len(sizes)))
    slices = ArraySliceDep(sizes)
    layer = blockwise(  # type: ignore[no-untyped-call]
        getter_nofancy,
        name,
        axes,
        pixels,
        None,
        slices,
        axes,
        numblocks={},
        _data_producer=True,
        asarray=False,
        lock=False,
    )
    graph = HighLevelGraph.from_collections(name, layer)
    lazy: dask.array.Array = dask.array.Array(graph, name, sizes, meta=meta)  # type: ignore[no-untyped-call]
    return lazy


@cache
def _direct_way_works() -> bool:
    """Whether this version of dask makes the same array directly as by `from_array`."""
    pixels, sizes, meta = _Sliced(), ((2, 1), (3,)), np.empty((0, 0), np.uint8)
    try:
        made, plain = _directly(pixels, sizes, "name", meta), _plainly(pixels, sizes, "name", meta, inline=True)
        return _parts(made) == _parts(plain) and _parts(made[1:]) == _parts(plain[1:])
    except Exception:  # A future version may raise any exception for arguments that it does not accept.
        return False


class _Sliced:
    """Stands for pixels in the comparison of the two ways."""

    shape, dtype, ndim = (3, 3), np.dtype(np.uint8), 2

    def __getitem__(self, key: Any) -> Any:
        return np.empty(self.shape, self.dtype)[key]

    def __dask_tokenize__(self) -> object:
        return "swath.Sliced"


def _parts(array: dask.array.Array) -> list[Any]:
    layers = array.dask.layers
    about = [array.name, array.chunks, array.dtype, type(array._meta), array._meta.shape, dict(array.dask)]
    kinds = {name: type(layer) for name, layer in layers.items()}
    notes = {name: layer.collection_annotations for name, layer in layers.items()}
    return [*about, kinds, notes, dict(array.dask.dependencies)]


def check_chunks(chunks: Any) -> None:
    """Raises ValueError for values of `chunks=` that are invalid for every image."""
    if isinstance(chunks, Indexed):
        return
    if isinstance(chunks, dict):
        for name, value in chunks.items():
            if name not in ("y", "x", "band"):
                raise ValueError(
                    f"chunks has no axis {name!r}: a dict may have 'y', 'x' and 'band', got chunks={chunks!r}."
                )
            if not (value is None or _is_size(value) or _is_explicit(value)):
                raise _bad(chunks)
    elif isinstance(chunks, tuple):
        if len(chunks) != 2:
            raise ValueError(
                f"chunks tuple must have length 2 (row, col), got chunks={chunks!r} with length {len(chunks)}."
            )
        if not all(map(_is_size, chunks)):
            raise _bad(chunks)
    elif not _is_size(chunks):
        raise _bad(chunks)


def _is_size(value: Any) -> bool:
    if isinstance(value, str):
        return value == "auto"
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value > 0 or value == -1)


def _is_explicit(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(_is_size(v) and v != "auto" and v > 0 for v in value)


def _bad(chunks: Any) -> ValueError:
    kind = (
        "" if isinstance(chunks, tuple | int) and not isinstance(chunks, bool) else f" (type {type(chunks).__name__})"
    )
    return ValueError(
        f"chunks must be a positive int or (row, col) tuple of positive ints, got chunks={chunks!r}{kind}. "
        "Also accepted: 'auto', -1 for a whole axis, and a dict of these by 'y', 'x' and 'band'."
    )


def by_axis(chunks: Any) -> tuple[Any, Any, Any]:
    """Returns the chunk sizes along y, x and band; the whole axis if `chunks` does not name it."""
    if isinstance(chunks, dict):
        named = chunks if chunks else {"y": "auto", "x": "auto"}
        return tuple(-1 if named.get(axis) is None else named[axis] for axis in ("y", "x", "band"))  # type: ignore[return-value]
    return (*chunks, -1) if isinstance(chunks, tuple) else (chunks, chunks, -1)


def chunk_sizes(chunks: Any, plan: ReadPlan, blocks: tuple[int, int]) -> tuple[Sizes, ...]:
    """Returns the lengths of the chunks along each axis of a plan's result; `blocks` is the size of a block."""
    check_chunks(chunks)
    height, width, *bands = plan.shape
    rows, columns, layers = by_axis(chunks)
    band_sizes = tuple(_cut(layers, n, "band", chunks) for n in bands)
    depth = math.prod(max(sizes) for sizes in band_sizes)
    if "auto" in (rows, columns):
        auto_rows, auto_columns = _aligned(rows, columns, plan, blocks, depth)
        rows, columns = (auto_rows if rows == "auto" else rows), (auto_columns if columns == "auto" else columns)
    sizes = (_cut(rows, height, "y", chunks), _cut(columns, width, "x", chunks), *band_sizes)
    count = math.prod(map(len, sizes))
    if count > MAX_CHUNKS:
        grow = math.ceil(math.sqrt(count / MAX_CHUNKS))
        better = (min(height, grow * max(sizes[0])), min(width, grow * max(sizes[1])))
        raise ValueError(
            f"chunks={chunks!r} on a {height}x{width} image would produce {count:,} dask tasks, exceeding the "
            f"{MAX_CHUNKS:,}-task cap. Pass a larger chunks=... value explicitly (e.g. chunks={better} keeps the task "
            "count under the cap), or chunks='auto'."
        )
    return sizes


def _cut(size: Any, length: int, axis: str, chunks: Any) -> Sizes:
    """Splits an axis of `length` as requested."""
    if isinstance(size, tuple):
        if sum(size) != length:
            raise ValueError(
                f"chunks={chunks!r}: the sizes along {axis} add up to {sum(size)}, but the image has {length}."
            )
        return tuple(map(int, size))
    if size == -1 or size == "auto":
        return (length,)
    whole, rest = divmod(length, min(int(size), length))
    return (min(int(size), length),) * whole + ((rest,) if rest else ())


def _aligned(rows: Any, columns: Any, plan: ReadPlan, blocks: tuple[int, int], depth: int) -> tuple[Sizes, Sizes]:
    """Returns chunks near the size configured in dask that begin at borders of blocks of the file."""
    import dask
    from dask.utils import parse_bytes

    height, width = plan.shape[:2]
    top, left = plan.window[:2]
    limit = parse_bytes(dask.config.get("array.chunk-size", "128MiB"))
    pixels = max(1, limit // (max(plan.dtype.itemsize, plan.finish.source.itemsize) * depth))
    tall, wide = blocks
    if rows != "auto":
        wide_by = pixels // max(_cut(rows, height, "y", rows))
        return (), on_grid(width, left, max(1, wide_by // wide) * wide)
    if columns != "auto":
        high_by = pixels // max(_cut(columns, width, "x", columns))
        return on_grid(height, top, max(1, high_by // tall) * tall), ()
    column_sizes = on_grid(width, left, max(1, math.isqrt(pixels) // wide) * wide)
    high_by = pixels // max(column_sizes)
    return on_grid(height, top, max(1, high_by // tall) * tall), column_sizes


def on_grid(length: int, start: int, step: int) -> Sizes:
    """Splits `length` pixels that begin at pixel `start` of the file at multiples of `step` of the file."""
    cuts = [start, *range((start // step + 1) * step, start + length, step), start + length]
    return tuple(after - before for before, after in zip(cuts, cuts[1:], strict=False))
