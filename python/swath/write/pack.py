"""From the values of an array back to the samples that its file held: scale and offset taken off, NaN as nodata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..xarray.state import Number

# How far from a whole number a value may be to count as one that was unpacked, as a part of the scale, and beyond the
# rounding of its own type.
_WHOLE = 1e-3


class NotPackableError(ValueError):
    """Values changed since they were read: packed, they would be others."""


@dataclass(frozen=True)
class Packing:
    """How values become samples. `exact` refuses values that no sample stands for; else they are rounded."""

    dtype: np.dtype[Any]
    scaling: tuple[tuple[float, float], ...]
    """Scale and offset of each band."""
    nodata: Number | None
    """What the file says of missing pixels."""
    fill: Number | None
    """What NaN becomes: `nodata`, or anything where a mask says which pixels are missing."""
    exact: bool

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A step of a raster: a block (row, column) or (row, column, band)."""
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
        """As floats of the file's type."""
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
        """Rounded to integers of a type that holds them all."""
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
                    raise NotPackableError(f"values lie between those that {self.dtype} samples of the file stand for")
            values = whole
        limits = np.iinfo(self.dtype)
        # The largest 64-bit integers are no float64: what is rounded up to 2**63 or 2**64 is outside.
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
        """How far samples may be from whole numbers by the rounding of scale, product and sum in the type of values."""
        if source.kind != "f":
            return _WHOLE
        shifts = [abs(offset / scale) for scale, offset in self.scaling]
        shift = shifts[0] if len(set(shifts)) == 1 else np.array(shifts, like=values)
        return _WHOLE + 2 * float(np.finfo(source).eps) * (np.abs(values) + shift)

    def _check_nodata(self, result: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> None:
        """Refuse pixels that are not missing and have the value that stands for missing ones."""
        if self.nodata is None:
            return
        hit = result == result.dtype.type(self.nodata)
        if bool((hit if missing is None else hit & ~missing).any()):
            raise NotPackableError(f"a valid value would become {self.nodata}, which stands for missing pixels")

    def _refusal(self, why: str) -> ValueError:
        return NotPackableError(why) if self.exact else ValueError(f"pack=True: {why}.")


@dataclass(frozen=True)
class NodataGuard:
    """A step of a raster that changes nothing, and refuses values that equal the one that NaN becomes."""

    nodata: Number

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A block of floats."""
        if bool((block == block.dtype.type(self.nodata)).any()):
            raise NotPackableError(f"{self.nodata} is among the values, and stands for missing pixels")
        return block


@dataclass(frozen=True)
class AlphaGuard:
    """A step of a raster that changes nothing, and refuses missing pixels that are not transparent."""

    band: int

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A block of floats."""
        missing = np.isnan(block)
        if missing.ndim == 3:
            missing = missing.any(axis=2) & (block[..., self.band] != 0)
        if bool(missing.any()):
            raise NotPackableError("pixels are missing that are not transparent, and there is no nodata value")
        return block


def check_packed_nodata(nodata: Number, dtype: np.dtype[Any]) -> None:
    """ValueError where NaN pixels cannot become the nodata value of packed integers."""
    limits = np.iinfo(dtype)
    if not math.isfinite(nodata) or nodata != int(nodata) or not limits.min <= nodata <= limits.max:
        raise ValueError(
            f"pack=True: nodata={nodata} is not a value of the packed integer dtype {dtype} "
            f"({limits.min}..{limits.max}), so NaN pixels cannot become it. Pass another as nodata=."
        )


def per_band(scales: Sequence[float | None], offsets: Sequence[float | None]) -> tuple[tuple[float, float], ...]:
    """Pairs of scale and offset; what is not given changes nothing."""
    return tuple(
        (1.0 if scale is None else float(scale), 0.0 if offset is None else float(offset))
        for scale, offset in zip(scales, offsets, strict=True)
    )
