"""`pack=True`: from values that a read with `unpack=True` gave back to what the file held."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ._placement import Number
from ._raster import Raster, Step

_STATE = ("scale_factor", "add_offset", "mask_and_scale_dtype")


def packed(raster: Raster, attrs: Mapping[str, Any] | None, nodata: Number | None) -> Raster:
    """The raster with its scale and offset taken off, NaN as nodata, in the type of the source."""
    if attrs is None:
        raise ValueError(
            "pack=True requires a DataArray carrying the attrs from an open_geotiff(unpack=True) read; got a bare "
            "array with no metadata to reverse."
        )
    if all(attrs.get(name) is None for name in _STATE) and not attrs.get("masked_nodata"):
        raise ValueError(
            "pack=True but the array carries no unpack state to reverse (no scale_factor / mask_and_scale_dtype / "
            "masked_nodata). It was not produced by open_geotiff(unpack=True)."
        )
    if raster.dtype.kind == "c":
        raise ValueError(f"pack=True cannot pack {raster.dtype} values")
    scale, offset = _factor(attrs, "scale_factor", 1.0), _factor(attrs, "add_offset", 0.0)
    if not math.isfinite(scale) or scale == 0.0 or not math.isfinite(offset):
        raise ValueError(
            f"pack=True cannot reverse scale_factor={scale} / add_offset={offset}: the inverse divides by "
            "scale_factor, so it must be non-zero and finite, and add_offset must be finite."
        )
    dtype = _type_of(raster, attrs)
    if dtype.kind in "iu" and nodata is not None:
        _check_sentinel(nodata, dtype)
    step = _packing(dtype, scale, offset, nodata)
    return dataclasses.replace(raster, dtype=dtype, steps=(*raster.steps, step))


def _factor(attrs: Mapping[str, Any], name: str, default: float) -> float:
    value = attrs.get(name)
    if value is None:
        return default
    if isinstance(value, str | bytes):
        raise TypeError(f"pack=True: attrs[{name!r}] must be a number, not {value!r}")
    return float(value)


def _type_of(raster: Raster, attrs: Mapping[str, Any]) -> np.dtype[Any]:
    """That of the source: as it was recorded, else that of an integer nodata, else the one that the values have."""
    recorded = attrs.get("mask_and_scale_dtype")
    if recorded is not None:
        dtype: np.dtype[Any] = np.dtype(recorded).newbyteorder("=")
        if dtype.kind not in "iuf" or dtype.itemsize < 1 or dtype.itemsize > 8:
            raise TypeError(f"pack=True: attrs['mask_and_scale_dtype']={recorded!r} is not a type that a TIFF can hold")
        return dtype
    sentinel = attrs.get("nodata")
    if isinstance(sentinel, np.integer | int) and not isinstance(sentinel, bool):
        width: np.dtype[Any] = np.asarray(sentinel).dtype
        return width
    return raster.dtype


def _check_sentinel(nodata: Number, dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    if not math.isfinite(nodata) or nodata != int(nodata) or not limits.min <= nodata <= limits.max:
        raise ValueError(
            f"pack=True: nodata={nodata} is not a value of the packed integer dtype {dtype} "
            f"({limits.min}..{limits.max}), so NaN pixels cannot become it. Pass another as nodata=."
        )


def _packing(dtype: np.dtype[Any], scale: float, offset: float, nodata: Number | None) -> Step:
    def pack(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        missing = np.isnan(block) if block.dtype.kind == "f" else None
        if scale == 1.0 and offset == 0.0 and block.dtype.kind in "iu":
            values: npt.NDArray[Any] = block
        else:
            values = block.astype(np.float64)
            values -= offset
            values /= scale
        if dtype.kind == "f":
            result = values.astype(dtype)
            if missing is not None and nodata is not None and not math.isnan(nodata):
                result[missing] = nodata
            return result
        return _whole(values, missing, dtype, nodata)

    return pack


def _whole(
    values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None, dtype: np.dtype[Any], nodata: Number | None
) -> npt.NDArray[Any]:
    """Rounded to integers of a type that holds them all."""
    has_missing = missing is not None and bool(missing.any())
    if has_missing and nodata is None:
        raise ValueError(
            f"pack=True: cannot restore integer dtype {dtype}: NaN pixels are present but no nodata sentinel is "
            "declared to fill them. Pass one as nodata=."
        )
    if values.dtype.kind == "f":
        np.rint(values, out=values)
        if has_missing:
            values[missing] = 0.0
    limits = np.iinfo(dtype)
    # The largest 64-bit integers are no float64: what is rounded up to 2**63 or 2**64 is outside.
    inside = (values >= limits.min) & (values <= limits.max)
    if values.dtype.kind == "f" and dtype.itemsize == 8:
        inside &= values < float(limits.max)
    if not inside.all():
        raise ValueError(
            f"pack=True: data contains values that the packed integer dtype {dtype} cannot represent (valid range "
            f"{limits.min}..{limits.max} after the scale/offset reversal) or that are not finite. Clip the data or "
            "rescale it."
        )
    result = values.astype(dtype)
    if has_missing:
        result[missing] = nodata
    return result
