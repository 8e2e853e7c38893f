"""Determines the transform of an image: from the coordinates of a DataArray or, if it has none, from its attributes.

Coordinates follow every selection, stride and resampling; attributes keep their value from the read. Therefore the
attributes are used for three purposes only: the exact numbers of a grid on which the coordinates still lie, the pixel
size of a single row or column, and a rotation, which coordinates of rows and columns cannot express.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import DegeneratePixelSizeError, NonUniformCoordsError, RotatedTransformError
from ..xarray.state import state_of
from .raster import spatial_dims

Transform = tuple[float, float, float, float, float, float]
RasterType = Literal["area", "point"]

EVEN = 1e-6
"""The largest relative difference between steps of evenly spaced coordinates."""
# The largest distance, in pixels, of coordinates from the grid of attrs['transform'] at which they count as on it.
_ON_GRID = 1e-5
# A rotation below this fraction of the pixel size counts as rounding.
_ROTATION = 1e-12


def raster_type_of(attrs: Mapping[str, Any]) -> RasterType:
    """Returns whether pixels are areas or points."""
    return "point" if attrs.get("raster_type") == "point" or attrs.get("AREA_OR_POINT") == "Point" else "area"


def transform_of(data: Any, *, drop_rotation: bool, keep_rotation: bool) -> Transform | None:
    """Returns the transform from pixels to coordinates for the tags; for points, that of the centre of the first
    pixel.
    """
    y, x = spatial_dims(data)
    half = 0.0 if raster_type_of(data.attrs) == "point" else 0.5
    stated = _stated(data, half, keep_rotation=keep_rotation, drop_rotation=drop_rotation)
    if stated is not None and _is_rotated(stated):
        if (place := _of_pixel_coords(data, (y, x), stated, half)) is not None:
            return _checked(place)
        return _checked(_moved(stated, _index_axis(data, y), _index_axis(data, x), half))
    if _counts_pixels(data, y) and _counts_pixels(data, x):
        return None
    rows, columns = _axis(data, y), _axis(data, x)
    if stated is not None and "spec" in data.attrs:
        rows, columns = _from_corner(rows, stated[5], stated[4]), _from_corner(columns, stated[2], stated[0])
    if rows is None and columns is None:
        if stated is not None:
            _check_shape(data, (y, x))
        return None if stated is None else _checked(stated)
    place = _of_axes(data, rows, columns, stated, half)
    if place is None or place == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0):
        return None  # The transform that rioxarray gives to files without georeferencing.
    return _checked(place)


@dataclass(frozen=True)
class Axis:
    """Coordinates of pixel centres: the first one and the step, which is None for a single coordinate."""

    first: float
    step: float | None
    count: int = 1

    def on(self, origin: float, size: float, half: float) -> tuple[float, float] | None:
        """Returns the origin and size of these pixels with the numbers of a grid; None if they do not lie on it.

        Accepts whole strides of the grid that begin at a pixel, or between two pixels as after a mean over pixels.
        """
        step = size if self.step is None else self.step
        stride, shift = step / size, 2 * ((self.first - half * step) - origin) / size
        drift = max(abs(stride - round(stride)) * self.count, abs(shift - round(shift)))
        if round(stride) == 0 or not drift <= _ON_GRID:
            return None
        return origin + round(shift) / 2 * size, round(stride) * size


def _from_corner(axis: Axis | None, origin: float, size: float) -> Axis | None:
    """Returns an axis of stackstac, whose coordinates are upper left corners unless centres were requested."""
    if axis is None:
        return None
    pixels = (axis.first - origin) / size
    is_corner = abs(pixels - round(pixels)) <= _ON_GRID
    return replace(axis, first=axis.first + size / 2) if is_corner else axis


def _of_axes(data: Any, rows: Axis | None, columns: Axis | None, stated: Transform | None, half: float) -> Any:
    """Returns the transform of two axes, one of which may have no coordinate or only one."""
    down, across = (_on_axis(axis, stated, which, half) for axis, which in ((rows, "y"), (columns, "x")))
    if data.attrs.get("assume_square_pixels_for_degenerate_axis") is True and (down is None) != (across is None):
        down = _square(rows, across, -1, half) if down is None else down
        across = _square(columns, down, 1, half) if across is None else across
    if down is not None and across is not None:
        return (across[1], 0.0, across[0], 0.0, down[1], down[0])
    if rows is None or columns is None:
        return None
    shape = tuple(data.sizes[name] for name in spatial_dims(data))
    raise ValueError(
        f"Cannot infer GeoTIFF transform from a {shape} array with spatial coords on both axes: one coordinate gives "
        "no pixel size. Supply it as attrs['transform'] = (px, 0, ox, 0, py, oy); for a 1xN / Nx1 strip of square "
        "pixels set attrs['assume_square_pixels_for_degenerate_axis'] = True; drop the coords for a TIFF without a "
        "place."
    )


def _on_axis(axis: Axis | None, stated: Transform | None, which: str, half: float) -> tuple[float, float] | None:
    """Returns the origin and pixel size along an axis; None if the size is unknown."""
    grid = None if stated is None else (stated[5], stated[4]) if which == "y" else (stated[2], stated[0])
    if axis is None:
        return grid
    if grid is not None and grid[1] and (exact := axis.on(*grid, half)):
        return exact
    step = axis.step if axis.step is not None else None if grid is None else grid[1]
    return None if not step else (axis.first - half * step, step)


def _square(axis: Axis | None, other: tuple[float, float] | None, sign: int, half: float) -> Any:
    if axis is None or other is None:
        return None
    step = sign * abs(other[1])
    return axis.first - half * step, step


def _axis(data: Any, name: str) -> Axis | None:
    """Returns the coordinates of a dimension, which must be evenly spaced."""
    if name not in data.coords:
        return None
    given = np.asarray(data.coords[name].values)
    if given.ndim != 1:
        return None
    if given.dtype.kind not in "biufO":
        raise TypeError(
            f"data.coords[{name!r}] has values of type {given.dtype}, which are not map coordinates: use numbers, "
            "or drop the coord"
        )
    values = given.astype(np.float64)
    if values.size == 1:
        return Axis(float(values[0]), None)
    _check_even(values, name, _rounding(given, values))
    return Axis(float(values[0]), float(values[-1] - values[0]) / (values.size - 1), values.size)


def _rounding(given: npt.NDArray[Any], values: npt.NDArray[np.float64]) -> float:
    """Returns by how much rounding may move two coordinates, in their type or in the type before a cast to float64."""
    if given.dtype.kind != "f" or not np.isfinite(values).all():
        return 0.0
    with np.errstate(over="ignore"):
        is_single = given.dtype.itemsize >= 8 and bool((values == values.astype(np.float32)).all())
    eps = np.finfo(np.float32 if is_single else given.dtype).eps
    return 2 * float(eps) * float(np.abs(values).max())


def _check_even(values: npt.NDArray[np.float64], name: str, rounding: float) -> None:
    with np.errstate(invalid="ignore"):
        steps = np.diff(values)
    usual = float(np.median(steps))
    if usual == 0.0:
        raise NonUniformCoordsError(f"data.coords[{name!r}] is constant, so the pixel size is unknown")
    drift = np.abs(steps - usual)
    uneven = ~(drift <= EVEN * abs(usual) + rounding)
    if uneven.any():
        at = int(np.argmax(uneven))
        raise NonUniformCoordsError(
            f"data.coords[{name!r}] is non-uniform: step {usual!r} expected, but found {float(steps[at])!r} at index "
            f"{at} (relative drift {float(drift[at]) / abs(usual):.2e}, {EVEN:g} is allowed); the coords are not "
            "uniformly spaced, as a GeoTIFF needs. Resample to a uniform grid (``data.interp(...)``), or write each "
            "even part on its own."
        )


def _stated(data: Any, half: float, *, keep_rotation: bool, drop_rotation: bool) -> Transform | None:
    """Returns the transform with which the array was read; a rotated one only if it is to be kept."""
    attrs = data.attrs
    rotated = _six(attrs, "rotated_affine")
    if attrs.get("rotated_affine") is not None and not drop_rotation:
        if keep_rotation and rotated is not None:
            return rotated
        raise ValueError(
            "to_geotiff: refusing to write a DataArray carrying attrs['rotated_affine']: the rotation would be lost. "
            "Pass keep_rotation=True to write it (the CRS must be given too, as reading dropped it), "
            "drop_rotation=True to write the pixels without it, or reproject onto an axis-aligned grid first."
        )
    stated = _six(attrs, "transform")
    if stated is None:
        return _of_grid_mapping(data, half)
    if _is_rotated(stated):
        if keep_rotation:
            return stated
        raise RotatedTransformError(
            f"attrs['transform'] has non-zero rotation/shear (b={stated[1]}, d={stated[3]}). Pass keep_rotation=True "
            "to write it, or reproject the raster to an axis-aligned grid before writing."
        )
    a, _, c, _, e, f = stated
    return a, 0.0, c, 0.0, e, f


def _is_rotated(transform: Transform) -> bool:
    a, b, _, d, e, _ = transform
    return max(abs(b), abs(d)) > _ROTATION * max(abs(a), abs(e), abs(b), abs(d))


def _of_grid_mapping(data: Any, half: float) -> Transform | None:
    """Returns the GeoTransform, which refers to a corner, that rioxarray and GDAL's CF store in a coordinate without
    values.
    """
    for attrs in grid_mappings(data):
        text = attrs.get("GeoTransform")
        try:
            parts = [float(part) for part in text.split()] if isinstance(text, str) else []
        except ValueError:
            continue
        if len(parts) == 6 and all(map(math.isfinite, parts)):
            c, a, b, f, d, e = parts
            return a, b, c + (0.5 - half) * (a + b), d, e, f + (0.5 - half) * (d + e)
    return None


def grid_mappings(data: Any) -> list[Mapping[str, Any]]:
    """Returns the attributes of the grid mapping coordinates, that of the encoding first."""
    names = (data.encoding.get("grid_mapping"), data.attrs.get("grid_mapping"), "spatial_ref")
    return [data.coords[name].attrs for name in names if isinstance(name, str) and name in data.coords]


def _counts_pixels(data: Any, name: str) -> bool:
    """Whether coordinates are row or column numbers of a file without georeferencing."""
    attrs = data.attrs
    if not (attrs.get("_swath_no_georef") or attrs.get("_xrspatial_no_georef")):
        return False
    return name not in data.coords or data.coords[name].dtype.kind in "iu"


def _index_axis(data: Any, name: str) -> Axis:
    """Returns the row or column numbers of a rotated image, which has no other one-dimensional coordinates."""
    axis = _axis(data, name)
    if axis is None:
        _check_shape(data, (name,))
        return Axis(0.0, 1.0)
    return Axis(axis.first, 1.0 if axis.step is None else axis.step)


def _moved(transform: Transform, rows: Axis, columns: Axis, half: float) -> Transform:
    """Returns a rotated transform for some rows and columns of its image."""
    a, b, c, d, e, f = transform
    wide, high = columns.step or 1.0, rows.step or 1.0
    right, below = columns.first + half * (1.0 - wide), rows.first + half * (1.0 - high)
    return (a * wide, b * high, a * right + b * below + c, d * wide, e * high, d * right + e * below + f)


def _of_pixel_coords(data: Any, dims: tuple[str, str], stated: Transform, half: float) -> Transform | None:
    """Returns the transform of a rotated image with two-dimensional coordinates xc and yc, as in rioxarray."""
    if any(name not in data.coords or data.coords[name].dims != dims for name in ("xc", "yc")):
        return None
    corners = [
        np.asarray(data.coords[name].values, np.float64)[:: max(1, data.sizes[dims[0]] - 1)] for name in ("xc", "yc")
    ]
    height, width = data.sizes[dims[0]], data.sizes[dims[1]]
    steps = []
    for values, (along, down) in zip(corners, (stated[:2], stated[3:5]), strict=True):
        right = along if width == 1 else float(values[0, -1] - values[0, 0]) / (width - 1)
        below = down if height == 1 else float(values[-1, 0] - values[0, 0]) / (height - 1)
        steps.append((right, below, float(values[0, 0]) - half * (right + below)))
    (a, b, c), (d, e, f) = steps
    return a, b, c, d, e, f


def _check_shape(data: Any, dims: tuple[str, ...]) -> None:
    """Raises ValueError for an array without coordinates whose shape differs from the shape that was read, because
    its position is unknown.
    """
    state = state_of(data.encoding)
    if state is None:
        return
    sizes = dict(zip(spatial_dims(data), state.shape, strict=True))
    for name in dims:
        if data.sizes[name] != sizes[name]:
            raise ValueError(
                f"the array has no coordinates and {data.sizes[name]} of {sizes[name]} pixels along {name!r}, "
                "so its position is unknown. Read with parse_coordinates=True, assign coordinates, or delete "
                "attrs['transform'] to write a file without georeferencing."
            )


def _six(attrs: Mapping[str, Any], name: str) -> Transform | None:
    """Returns an attribute of six numbers (rasterio's order), or of nine numbers as in an Affine."""
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
            stacklevel=6,
        )
        return None
    a, b, c, d, e, f = parts
    return a, b, c, d, e, f


def _checked(transform: Transform) -> Transform:
    a, b, _, d, e, _ = transform
    if not all(map(math.isfinite, transform)) or a * e - b * d == 0.0:
        raise DegeneratePixelSizeError(
            f"the transform {transform} has a pixel size that is zero or not finite; correct attrs['transform']"
        )
    return transform
