"""What a worker is asked to do."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np


@dataclass
class Job:
    """One request: an operation and its arguments. It travels as JSON."""

    op: str
    threads: int = 1
    path: str = ""
    """The file to read."""
    paths: list[str] = field(default_factory=list)
    """Files to open one after the other."""
    source: str = ""
    """The .npy array (height, width, bands) with the true pixels; the input of a write."""
    mean_error: float = 0.0
    """Mean difference from the true pixels that the codec of the file causes."""
    windows: list[list[int]] = field(default_factory=list)
    """(row_start, col_start, row_stop, col_stop)"""
    target: str = ""
    """The file to write."""
    codec: str = "none"
    level: int | None = None
    predictor: int = 1
    tile: int = 512
    chunk: int = 2048
    """Rows and columns of a dask chunk."""

    @cached_property
    def array(self) -> np.ndarray:
        """The input of a write, (height, width) or (height, width, bands)."""
        array = np.load(self.source)
        return array[..., 0] if array.shape[2] == 1 else array

    @cached_property
    def bands_first(self) -> np.ndarray:
        """The input of a write, (bands, height, width), contiguous."""
        array = self.array[..., None] if self.array.ndim == 2 else self.array
        return np.ascontiguousarray(np.moveaxis(array, 2, 0))

    @cached_property
    def true_pixels(self) -> np.ndarray:
        return np.load(self.source, mmap_mode="r")

    def data_array(self, data: Any) -> Any:
        """`data` as an xarray.DataArray with the coordinates and the CRS of the benchmark's files."""
        import xarray

        if data.ndim == 2:
            dims: tuple[str, ...] = ("y", "x")
        else:
            dims = ("y", "x", "band") if data.shape[2] < data.shape[0] else ("band", "y", "x")
        size = dict(zip(dims, data.shape, strict=True))
        coords = {
            "y": 5100000 - 10 * (np.arange(size["y"]) + 0.5),
            "x": 500000 + 10 * (np.arange(size["x"]) + 0.5),
        }
        return xarray.DataArray(data, dims=dims, coords=coords, attrs={"crs": 32633})

    def dask_array(self) -> Any:
        """The input as a dask array, (height, width) or (height, width, bands), whose chunks come from the disk."""
        import dask.array

        shape, chunk, source = self.true_pixels.shape, self.chunk, self.source
        bands = shape[2:] if shape[2] > 1 else ()

        def load(block_info: Any = None) -> np.ndarray:
            (rows, cols) = block_info[None]["array-location"][:2]
            # The mapping ends with the call, so its pages do not count as memory of the writer.
            part = np.load(source, mmap_mode="r")[rows[0] : rows[1], cols[0] : cols[1]]
            return np.array(part if bands else part[..., 0])

        pieces = [tuple(min(chunk, n - at) for at in range(0, n, chunk)) for n in shape[:2]]
        chunks = (*pieces, bands) if bands else tuple(pieces)
        return dask.array.map_blocks(load, chunks=chunks, dtype=self.true_pixels.dtype)
