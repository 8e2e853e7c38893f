"""Converts values back to the samples of their file: undoes scale and offset, and stores NaN as nodata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..xarray.state import Number

# The tolerance within which a value counts as an unpacked whole number, as a fraction of the scale and in addition to
# the rounding of its own type.
_WHOLE = 1e-3


class NotPackableError(ValueError):
    """The values have changed since they were read, so packing would alter them."""


@dataclass(frozen=True)
class Packing:
    """Converts values to samples.

    `exact` raises an error for values that no sample represents; otherwise they are rounded.
    """

    dtype: np.dtype[Any]
    scaling: tuple[tuple[float, float], ...]
    """Scale and offset of each band."""
    nodata: Number | None
    """The nodata value of the file."""
    fill: Number | None
    """The value that NaN becomes: `nodata`, or any value if a mask marks the missing pixels."""
    exact: bool

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Converts a block (row, column) or (row, column, band); used as a step of a raster."""
        missing = np.isnan(block) if block.dtype.kind == "f" else None
        if missing is not None and not missing.any():
            missing = None
        values = self._unscaled(block)
        if self.dtype.kind == "f":
            return self._narrowed(values, missing)
        return self._whole(values, block.dtype, missing)

    def _unscaled(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if all(pair == (1.0, 0.0) for pair in self.scaling):
            return block.copy() if block.dtype.kind == "f" else block
        values: npt.NDArray[Any] = block.astype(np.float64)
        if len(set(self.scaling)) == 1:
            scale, offset = self.scaling[0]
            values -= offset
            values /= scale
            return values
        scales, offsets = (np.array(part, like=block) for part in zip(*self.scaling, strict=True))
        values -= offsets
        values /= scales
        return values

    def _narrowed(self, values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
        """Returns the values as floats of the file's type."""
        with np.errstate(over="ignore"):
            result: npt.NDArray[Any] = values.astype(self.dtype)
        if self.exact:
            if bool((np.isinf(result) & np.isfinite(values)).any()):
                raise NotPackableError(f"values are too large for {self.dtype}")
            self._check_nodata(result, missing)
        if missing is not None and self.fill is not None and not math.isnan(self.fill):
            result[missing] = self.fill
        return result

    def _whole(
        self, values: npt.NDArray[Any], source: np.dtype[Any], missing: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[Any]:
        """Returns the values rounded to an integer type that holds them all."""
        if missing is not None and self.fill is None:
            raise self._refusal(
                f"cannot restore integer dtype {self.dtype}: NaN pixels are present but no nodata sentinel is declared "
                "to fill them. Pass one as nodata="
            )
        if values.dtype.kind == "f":
            if missing is not None:
                values[missing] = 0.0
            whole = np.rint(values)
            if self.exact:
                with np.errstate(invalid="ignore"):
                    is_whole = np.abs(values - whole) <= self._slack(values, source)
                if not is_whole.all():
                    raise NotPackableError(f"some values are not values of {self.dtype} samples of the file")
            values = whole
        limits = np.iinfo(self.dtype)
        # float64 cannot represent the largest 64-bit integers: values that round up to 2**63 or 2**64 are out of range.
        inside = (values >= limits.min) & (values <= limits.max)
        if values.dtype.kind == "f" and self.dtype.itemsize == 8:
            inside &= values < float(limits.max)
        if not inside.all():
            raise self._refusal(
                f"data contains values that the packed integer dtype {self.dtype} cannot represent (valid range "
                f"{limits.min}..{limits.max} after the scale/offset reversal) or that are not finite. Clip the data or "
                "rescale it"
            )
        result = values.astype(self.dtype)
        if self.exact:
            self._check_nodata(result, missing)
        if missing is not None:
            result[missing] = self.fill
        return result

    def _slack(self, values: npt.NDArray[Any], source: np.dtype[Any]) -> Any:
        """Returns how far samples may be from whole numbers because of rounding of scale, product and sum in the type
        of the values.
        """
        if source.kind != "f":
            return _WHOLE
        shifts = [abs(offset / scale) for scale, offset in self.scaling]
        shift = shifts[0] if len(set(shifts)) == 1 else np.array(shifts, like=values)
        return _WHOLE + 2 * float(np.finfo(source).eps) * (np.abs(values) + shift)

    def _check_nodata(self, result: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> None:
        """Raises an error if a valid pixel has the value that marks missing pixels."""
        if self.nodata is None:
            return
        hit = result == result.dtype.type(self.nodata)
        if bool((hit if missing is None else hit & ~missing).any()):
            raise NotPackableError(f"a valid value would become {self.nodata}, the nodata value")

    def _refusal(self, why: str) -> ValueError:
        return NotPackableError(why) if self.exact else ValueError(f"pack=True: {why}.")


@dataclass(frozen=True)
class NodataGuard:
    """A step of a raster that changes nothing and raises an error for values that equal the value that NaN becomes."""

    nodata: Number

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Checks a block of floats."""
        if bool((block == block.dtype.type(self.nodata)).any()):
            raise NotPackableError(f"the values contain {self.nodata}, the nodata value")
        return block


@dataclass(frozen=True)
class AlphaGuard:
    """A step of a raster that changes nothing and raises an error for missing pixels that are not transparent."""

    band: int

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Checks a block of floats."""
        missing = np.isnan(block)
        if missing.ndim == 3:
            missing = missing.any(axis=2) & (block[..., self.band] != 0)
        if bool(missing.any()):
            raise NotPackableError("missing pixels are not transparent, and there is no nodata value")
        return block


def check_packed_nodata(nodata: Number, dtype: np.dtype[Any]) -> None:
    """Raises ValueError if NaN pixels cannot become the nodata value of packed integers."""
    limits = np.iinfo(dtype)
    if not math.isfinite(nodata) or nodata != int(nodata) or not limits.min <= nodata <= limits.max:
        raise ValueError(
            f"pack=True: nodata={nodata} is not a value of the packed integer dtype {dtype} "
            f"({limits.min}..{limits.max}), so NaN pixels cannot become it. Pass another as nodata=."
        )


def per_band(scales: Sequence[float | None], offsets: Sequence[float | None]) -> tuple[tuple[float, float], ...]:
    """Returns pairs of scale and offset; a missing one has no effect."""
    return tuple(
        (1.0 if scale is None else float(scale), 0.0 if offset is None else float(offset))
        for scale, offset in zip(scales, offsets, strict=True)
    )
