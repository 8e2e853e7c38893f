"""Where an image lies and which value stands for nothing, as a DataArray says it, by order of precedence."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ._errors import (
    ConflictingNodataError,
    DegeneratePixelSizeError,
    NonUniformCoordsError,
    RotatedTransformError,
)
from ._raster import spatial_dims

Transform = tuple[float, float, float, float, float, float]
RasterType = Literal["area", "point"]
Number = int | float

# How far steps may differ from each other, as a part of the step: where they give the transform, and where an
# attribute does.
_EVEN, _EVEN_ENOUGH = 1e-6, 1e-5
# Pixels that the first coordinate may be off before it is a contradiction: more than corners and centres differ.
_ELSEWHERE = 0.75
# Rotation below this part of the pixel size is rounding.
_ROTATION = 1e-12


def raster_type_of(attrs: Mapping[str, Any]) -> RasterType:
    """Whether pixels are areas or points."""
    return "point" if attrs.get("raster_type") == "point" else "area"


def transform_of(data: Any, *, drop_rotation: bool, keep_rotation: bool) -> Transform | None:
    """From pixels to coordinates, as the tags say it: attrs['transform'] to the bit, else what the coords give."""
    attrs = data.attrs
    rotated = _six(attrs, "rotated_affine")
    if attrs.get("rotated_affine") is not None and not drop_rotation:
        if keep_rotation and rotated is not None:
            return _checked(rotated)
        raise ValueError(
            "to_geotiff: refusing to write a DataArray carrying attrs['rotated_affine']: the rotation would be lost. "
            "Pass keep_rotation=True to write it (the CRS must be given too, as reading dropped it), "
            "drop_rotation=True to write the pixels without it, or reproject onto an axis-aligned grid first."
        )
    stated = _six(attrs, "transform")
    has_no_place = attrs.get("_swath_no_georef") is True or attrs.get("_xrspatial_no_georef") is True
    if stated is not None:
        a, b, _, d, e, _ = stated
        if max(abs(b), abs(d)) > _ROTATION * max(abs(a), abs(e), abs(b), abs(d)) and not keep_rotation:
            raise RotatedTransformError(
                f"attrs['transform'] has non-zero rotation/shear (b={b}, d={d}). Pass keep_rotation=True to write it, "
                "or reproject the raster to an axis-aligned grid before writing."
            )
        if not has_no_place:
            point = attrs.get("raster_type") == "point"
            for name, step, edge in zip(spatial_dims(data), (e, a), (stated[5], stated[2]), strict=True):
                axis = _axis(data, name, _EVEN_ENOUGH)
                centre = edge if point else edge + step / 2
                # What a user puts into attrs is meant; what a read put there may have been forgotten.
                if "_swath_contract" in attrs and axis and step and abs(axis[0] - centre) > _ELSEWHERE * abs(step):
                    _warn_of_place(name, axis[0], centre)
        return _checked(stated if keep_rotation else (a, 0.0, stated[2], 0.0, e, stated[5]))
    return None if has_no_place else _transform_of_coords(data)


def _warn_of_place(name: str, coord: float, stated: float) -> None:
    warnings.warn(
        f"data.coords[{name!r}] begins at {coord!r}, but attrs['transform'] puts the first pixel at {stated!r}, and "
        "that is what is written: after slicing or moving an array, delete attrs['transform'] to have its coordinates "
        "written",
        UserWarning,
        stacklevel=5,
    )


def _six(attrs: Mapping[str, Any], name: str) -> Transform | None:
    """An attribute of six numbers (rasterio's order), or of nine as an Affine is."""
    value = attrs.get(name)
    if value is None:
        return None
    try:
        parts = [float(part) for part in value]
    except (TypeError, ValueError):
        parts = []
    if len(parts) == 9 and parts[6:] == [0.0, 0.0, 1.0]:
        parts = parts[:6]
    if len(parts) != 6:
        warnings.warn(
            f"attrs[{name!r}]={value!r} is not a transform of six numbers (a, b, c, d, e, f) and is ignored",
            UserWarning,
            stacklevel=5,
        )
        return None
    a, b, c, d, e, f = parts
    return a, b, c, d, e, f


def _checked(transform: Transform) -> Transform:
    a, b, _, d, e, _ = transform
    if not all(map(math.isfinite, transform)) or a * e - b * d == 0.0:
        raise DegeneratePixelSizeError(
            f"the transform {transform} gives pixels no size, or one that is not a number; correct attrs['transform']"
        )
    return transform


def _transform_of_coords(data: Any) -> Transform | None:
    y, x = spatial_dims(data)
    rows, columns = _axis(data, y, _EVEN), _axis(data, x, _EVEN)
    if rows is None or columns is None:
        return None
    (top, down), (left, across) = rows, columns
    if (down is None or across is None) and data.attrs.get("assume_square_pixels_for_degenerate_axis") is True:
        down = -abs(across) if down is None and across is not None else down
        across = abs(down) if across is None and down is not None else across
    if down is None or across is None:
        shape = tuple(data.sizes[name] for name in (y, x))
        raise ValueError(
            f"Cannot infer GeoTIFF transform from a {shape} array with spatial coords on both axes: one coordinate "
            "gives no pixel size. Supply it as attrs['transform'] = (px, 0, ox, 0, py, oy); for a 1xN / Nx1 strip of "
            "square pixels set attrs['assume_square_pixels_for_degenerate_axis'] = True; drop the coords for a TIFF "
            "without a place."
        )
    # Coordinates are those of centres. Where pixels are points the tags say the same, else they speak of corners.
    shift = 0.0 if raster_type_of(data.attrs) == "point" else 0.5
    return _checked((across, 0.0, left - across * shift, 0.0, down, top - down * shift))


def _axis(data: Any, name: str, tolerance: float) -> tuple[float, float | None] | None:
    """The first coordinate of an axis and the step between them, which a single coordinate does not have."""
    if name not in data.coords:
        return None
    given = np.asarray(data.coords[name].values)
    if given.dtype.kind not in "biufO":
        raise TypeError(
            f"data.coords[{name!r}] has values of type {given.dtype}, which are no coordinates on a map: give numbers, "
            "or drop the coord"
        )
    values = given.astype(np.float64)
    if values.size < 2:
        return float(values[0]), None
    with np.errstate(invalid="ignore"):
        steps = np.diff(values)
    usual = float(np.median(steps))
    # Coordinates that were rounded to their type are as even as they can be.
    rounded = given.dtype.kind == "f" and bool(np.isfinite(values).all())
    rounding = 2 * float(np.finfo(given.dtype).eps) * float(np.abs(values).max()) if rounded else 0.0
    is_coarse = rounded and given.dtype.itemsize < 8
    step = float(values[-1] - values[0]) / (values.size - 1) if is_coarse else float(steps[0])
    if usual == 0.0 or step == 0.0:
        raise NonUniformCoordsError(f"data.coords[{name!r}] is constant: there is no pixel size in it")
    drift = np.abs(steps - usual)
    uneven = ~(drift <= tolerance * abs(usual) + rounding)
    if uneven.any():
        at = int(np.argmax(uneven))
        raise NonUniformCoordsError(
            f"data.coords[{name!r}] is non-uniform: step {usual!r} expected, but found {float(steps[at])!r} at index "
            f"{at} (relative drift {float(drift[at]) / abs(usual):.2e}, {tolerance:g} is allowed); the coords are not "
            "uniformly spaced, as a GeoTIFF needs. Resample to a uniform grid (``data.interp(...)``), or write each "
            "even part on its own."
        )
    return float(values[0]), step


def nodata_of(nodata: Any, attrs: Mapping[str, Any], encoding: Mapping[str, Any] | None = None) -> Number | None:
    """The value that stands for nothing: the argument, else attrs['nodata'], 'nodatavals' or '_FillValue'.

    rioxarray and xarray keep the '_FillValue' of arrays that they have masked in the encoding.
    """
    if nodata is not None:
        return _number(nodata, "nodata")
    per_band = _nodatavals(attrs)
    scalar = attrs.get("nodata")
    if scalar is not None:
        value = _number(scalar, "attrs['nodata']")
        if per_band and value not in per_band:
            raise ConflictingNodataError(
                f"attrs['nodata']={scalar!r} disagrees with every concrete entry in "
                f"attrs['nodatavals']={attrs['nodatavals']!r}. Drop the stale attribute, or pass the value that is "
                "meant as nodata=."
            )
    if len(per_band) > 1:
        raise ConflictingNodataError(
            f"attrs['nodatavals']={attrs['nodatavals']!r} declares distinct nodata values for different bands, but a "
            "GeoTIFF has one for all. Make them one, or pass the value that is meant as nodata=."
        )
    if scalar is not None:
        return value
    if per_band:
        return per_band[0]
    fill = attrs.get("_FillValue", (encoding or {}).get("_FillValue"))
    if fill is None:
        return None
    value = _number(fill, "attrs['_FillValue']")
    return None if math.isnan(value) else value


def _nodatavals(attrs: Mapping[str, Any]) -> list[Number]:
    """The distinct values of rioxarray's attribute. None and NaN stand for bands without one."""
    given = attrs.get("nodatavals")
    if given is None:
        return []
    entries = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    found: list[Number] = []
    foreign = 0
    for entry in entries:
        if entry is None:
            continue
        try:
            value = _number(entry, "attrs['nodatavals']")
        except ValueError:
            foreign += 1
            continue
        if not math.isnan(value) and value not in found:
            found.append(value)
    if foreign and not found:
        warnings.warn(
            f"attrs['nodatavals']={given!r} contained only non-numeric entries, so there is no nodata value in it. "
            "Pass nodata= or correct the attribute.",
            UserWarning,
            stacklevel=4,
        )
    return found


def _number(value: Any, name: str) -> Number:
    """A Python number. TypeError for truth values and texts of numbers, ValueError for what is none."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be numeric (int or float), got {value!r}")
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return whole if -(2**63) <= whole < 2**64 else float(whole)
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        # As it is written: 0.1 as float32 means 0.1.
        return float(str(value))
    if isinstance(value, float | np.floating):
        return float(value)
    wrong = (
        f"{name} must be numeric or None, got {value!r} (type {type(value).__name__}): it is not numeric, so no pixel "
        "can have it"
    )
    try:
        is_number_as_text = not np.ndim(value) and float(value) is not None
    except (TypeError, ValueError):
        is_number_as_text = False
    raise TypeError(wrong) if is_number_as_text else ValueError(wrong)
