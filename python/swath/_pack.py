"""From the values of an array back to the samples that its file held: scale and offset taken off, NaN as nodata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._state import Number

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
            result = values.astype(self.dtype)
            if missing is not None and self.fill is not None and not math.isnan(self.fill):
                result[missing] = self.fill
            return result
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
                slack = _WHOLE + 4 * float(np.finfo(source).eps) * np.abs(values) if source.kind == "f" else _WHOLE
                if not (np.abs(values - whole) <= slack).all():
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
        if self.exact and self.nodata is not None and self._takes_nodata(result, missing):
            raise NotPackableError(f"a valid value would become {self.nodata}, which stands for missing pixels")
        if missing is not None:
            result[missing] = self.fill
        return result

    def _takes_nodata(self, result: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> bool:
        """Whether a pixel that is not missing has the value that stands for missing ones."""
        hit = result == self.nodata
        return bool((hit if missing is None else hit & ~missing).any())

    def _refusal(self, why: str) -> ValueError:
        return NotPackableError(why) if self.exact else ValueError(f"pack=True: {why}.")


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
