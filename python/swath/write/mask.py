"""`mask=`: determines which pixels of an array are valid and provides the rows of the mask."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..read.nodata import matchable
from ..read.source import Handle
from ..xarray.state import Number
from .pack import NotPackableError, Packing
from .raster import Raster, Validity, is_dask, is_data_array, spatial_dims, upright

# The largest distance, in pixels, of a coordinate from the centre of a pixel.
_ON_GRID = 1e-3


@dataclass(frozen=True)
class FileMask:
    """The mask of a file that was read without `masked=True`; a plain read and write would lose it."""

    handle: Handle
    window: tuple[int, int, int, int]
    level: int
    ends: tuple[float, ...]
    """The first and last coordinate of y and x."""

    def of(self, data: Any, raster: Raster) -> Validity | None:
        """Returns the mask for the pixels of an array, selected by coordinates; None if they are not pixels of the
        file.
        """
        down, across = spatial_dims(data)
        top, left, bottom, right = self.window
        rows = _numbers(data, down, raster.height, self.ends[:2], bottom - top)
        columns = _numbers(data, across, raster.width, self.ends[2:], right - left)
        if rows is None or columns is None:
            return None
        try:
            self.handle.file()
        except OSError as error:
            warnings.warn(
                f"the mask of {self.handle.name} cannot be read any more ({error}) and is not written; pass mask=",
                UserWarning,
                stacklevel=4,
            )
            return None
        first, last = left + int(np.min(columns)), left + int(np.max(columns)) + 1

        def read(_: npt.NDArray[Any], start: int, stop: int) -> npt.NDArray[np.uint8]:
            some = rows[start:stop]
            above, below = top + int(np.min(some)), top + int(np.max(some)) + 1
            valid = np.full((below - above, last - first), 255, np.uint8)
            self.handle.file().read_mask_into(valid, window=(above, first, below, last), level=self.level)
            picked: npt.NDArray[np.uint8] = valid[np.ix_(some + top - above, columns + left - first)]
            return picked

        return read


def _numbers(data: Any, dim: str, count: int, ends: tuple[float, ...], total: int) -> npt.NDArray[Any] | None:
    """Returns which of the `total` rows or columns that were read an array has; None if it has others."""
    if dim not in data.coords:
        return np.arange(count) if count == total else None
    step = (ends[1] - ends[0]) / (total - 1) if total > 1 else 1.0
    places = (np.asarray(data.coords[dim].values, np.float64) - ends[0]) / step
    numbers = np.rint(places)
    on_grid = np.abs(places - numbers).max() < _ON_GRID and numbers.min() >= 0 and numbers.max() < total
    return numbers.astype(np.int64) if on_grid else None


def validity_of(mask: Any, data: Any, raster: Raster, nodata: Number | None) -> Validity | None:
    """Returns the source of the mask rows: an array, non-zero where pixels are valid, or True for pixels that are not
    missing.

    `data` is the DataArray from which the raster was made, None for an array without dims.
    """
    if not is_wanted(mask):
        return None
    if callable(mask):
        rows_of: Validity = mask
        return rows_of
    if isinstance(mask, bool | np.bool_):
        # In packed values only NaN marks missing pixels: the nodata value may be a valid packed value.
        is_packed = any(isinstance(step, Packing) for step in raster.steps)
        valid = _not_missing(None if is_packed else matchable(nodata, raster.array.dtype))
    else:
        valid = _given(mask, data, raster)
    return _without_gaps(valid) if nodata is None and raster.dtype.kind in "iu" else valid


def is_wanted(mask: Any) -> bool:
    """Whether the file gets a mask."""
    return mask is not None and not (isinstance(mask, bool | np.bool_) and not mask)


def _given(mask: Any, data: Any, raster: Raster) -> Validity:
    if is_data_array(mask):
        mask = upright(mask)
        if data is not None and mask.ndim == 2:
            _check_place(mask, data)
        mask = mask.data
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


def _check_place(mask: Any, data: Any) -> None:
    """Checks that a mask with coordinates has those of the image, in the same order: a flipped mask would hide other
    pixels.
    """
    for own, other in zip(spatial_dims(data), mask.dims, strict=True):
        if own in data.coords and other in mask.coords and data.sizes[own] == mask.sizes[other]:
            image, hidden = data.coords[own].values, mask.coords[other].values
            if image.dtype.kind not in "biuf" or hidden.dtype.kind not in "biuf":
                continue
            step = abs(float(image[-1]) - float(image[0])) / max(1, len(image) - 1)
            if not np.allclose(image, hidden, rtol=1e-12, atol=1e-3 * step):
                raise ValueError(
                    f"the coordinates of mask along {other!r} are not those of the image: align them "
                    "(``mask.reindex_like(data)``), or pass mask.values"
                )


def _not_missing(nodata: Number | None) -> Validity:
    def rows(block: npt.NDArray[Any], start: int, stop: int) -> npt.NDArray[np.uint8]:
        missing = _missing(block)
        plain = np.ma.getdata(block)
        if nodata is not None and not math.isnan(nodata):
            missing |= plain == plain.dtype.type(nodata)
        # A pixel is valid if at least one band is.
        return _as_mask(~(missing if missing.ndim == 2 else missing.all(axis=2)))

    return rows


def _without_gaps(valid: Validity) -> Validity:
    """Like the above for integers without a nodata value, for which only the mask can mark missing pixels."""

    def rows(block: npt.NDArray[Any], start: int, stop: int) -> npt.NDArray[np.uint8]:
        mask = valid(block, start, stop)
        if isinstance(block, np.ma.MaskedArray) or block.dtype.kind in "fc":
            missing = _missing(block)
            if bool(((missing if missing.ndim == 2 else missing.any(axis=2)) & (mask != 0)).any()):
                raise NotPackableError(
                    "pixels are missing in some bands, or although the mask marks them as valid, and there is no "
                    "nodata value to store for them: pass nodata="
                )
        return mask

    return rows


def _missing(block: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Returns where samples are NaN or masked by a masked array."""
    missing: npt.NDArray[np.bool_] = np.ma.getmaskarray(block).copy()
    plain = np.ma.getdata(block)
    return missing | np.isnan(plain) if plain.dtype.kind in "fc" else missing


def _as_mask(valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    mask: npt.NDArray[np.uint8] = np.multiply(valid, np.uint8(255), dtype=np.uint8, order="C")
    return mask
