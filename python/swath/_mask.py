"""`mask=`: which pixels of an array are valid, as rows of a mask that the file gets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ._nodata import matchable
from ._raster import Raster, Validity, is_dask, is_data_array, upright
from ._state import Number


def validity_of(mask: Any, raster: Raster, nodata: Number | None) -> Validity | None:
    """The rows of a mask: an array, non-zero where pixels are valid; or True, for where they are not missing."""
    if mask is None or mask is False:
        return None
    if mask is True:
        return _not_missing(matchable(nodata, raster.array.dtype))
    if is_data_array(mask):
        mask = upright(mask).data
    given: Any = mask if is_dask(mask) else np.asarray(mask)
    if tuple(given.shape) != (raster.height, raster.width):
        raise ValueError(
            f"mask must have the shape {(raster.height, raster.width)} of the image, got {tuple(given.shape)}"
        )
    if given.dtype.kind not in "biu":
        raise TypeError(
            f"mask must hold truth values or integers, 0 where a pixel is missing, got {given.dtype}; mask=True makes "
            "one of the NaN and nodata pixels"
        )

    def rows(_: npt.NDArray[Any], start: int, stop: int) -> npt.NDArray[np.uint8]:
        part = given[start:stop]
        return _as_mask(np.asarray(part.compute() if is_dask(part) else part) != 0)

    return rows


def _not_missing(nodata: Number | None) -> Validity:
    def rows(block: npt.NDArray[Any], start: int, stop: int) -> npt.NDArray[np.uint8]:
        missing: npt.NDArray[np.bool_] = np.ma.getmaskarray(block).copy()
        plain = np.ma.getdata(block)
        if plain.dtype.kind in "fc":
            missing |= np.isnan(plain)
        if nodata is not None and not math.isnan(nodata):
            missing |= plain == plain.dtype.type(nodata)
        # A pixel that one band has is there.
        return _as_mask(~(missing if missing.ndim == 2 else missing.all(axis=2)))

    return rows


def _as_mask(valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    mask: npt.NDArray[np.uint8] = np.multiply(valid, np.uint8(255), dtype=np.uint8, order="C")
    return mask
