"""Pixels as the data of an xarray variable that reads them when it is indexed. Imports xarray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

if TYPE_CHECKING:
    import numpy.typing as npt


class LazyPixels(BackendArray):
    """Adapts pixels to xarray's indexing. It reads only the requested window and bands."""

    def __init__(self, pixels: Any) -> None:
        self.pixels = pixels
        self.shape: tuple[int, ...] = pixels.shape
        self.dtype: np.dtype[Any] = pixels.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        pixels: npt.NDArray[Any] = self.pixels[key]
        return pixels


def lazy_array(pixels: Any) -> Any:
    """Returns an indexable object as data for a variable."""
    return indexing.LazilyIndexedArray(LazyPixels(pixels))
