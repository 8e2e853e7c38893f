"""Georeferencing: the transform of an image, its coordinates, and the window of a bounding box."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DegeneratePixelSizeError, RotatedTransformError
from .crs import crs_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from .._swath import Description
    from .plan import Window

Affine = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): x = a * column + b * row + c, y = d * column + e * row + f."""

STATUS_FULL = "full"
STATUS_TRANSFORM_ONLY = "transform_only"
STATUS_CRS_ONLY = "crs_only"
STATUS_NONE = "none"
STATUS_ROTATED_DROPPED = "rotated_dropped"

PIXEL_SCALE, TIE_POINTS, MODEL_TRANSFORMATION = 33550, 33922, 34264
SHEAR = 1e-12
"""Off-diagonal terms up to this fraction of a pixel count as rounding, not as a rotation."""
RESIDUAL = 1e-6
"""The largest distance, as a fraction of a pixel, of a second tie point from the grid of the first."""


@dataclass(frozen=True)
class Georef:
    """The georeferencing of an image.

    For PixelIsPoint, `transform` refers to the centre of the first pixel, as in the file.
    """

    transform: Affine | None = None
    """Axis-aligned."""
    rotated: Affine | None = None
    """Replaces `transform` if the image is rotated or sheared."""
    point: bool = False
    """PixelIsPoint: coordinates are those of the transform, without half a pixel added."""
    epsg: int | None = None
    wkt: str | None = None

    @property
    def status(self) -> str:
        """Returns one of the `georef_status` values."""
        if self.rotated is not None:
            return STATUS_ROTATED_DROPPED
        if self.epsg is None and self.wkt is None:
            return STATUS_NONE if self.transform is None else STATUS_TRANSFORM_ONLY
        return STATUS_CRS_ONLY if self.transform is None else STATUS_FULL

    def check_rotation(self, allow_rotated: object) -> None:
        """Raises an error for a rotated image unless the caller allows it."""
        if self.rotated is not None and not allow_rotated:
            a, b, _, d, e, _ = self.rotated
            raise RotatedTransformError(
                "The image is rotated or sheared: its transform has rotation, skew, or z-coupling terms (pixel size "
                f"{a!r}, {e!r}; off the diagonal {b!r}, {d!r}). Only axis-aligned transforms give coordinates to "
                "rows and columns. Pass allow_rotated=True to read the pixel grid without georeferencing; "
                "attrs['rotated_affine'] has the transform then."
            )

    def coarser(self, rows: float, columns: float) -> Georef:
        """Returns the georeferencing of an overview, whose pixels are larger by the ratios of heights and widths."""
        if self.transform is None or (rows == 1 and columns == 1):
            return self
        a, b, c, d, e, f = self.transform
        wide, high = a * columns, e * rows
        if self.point:
            # The corner does not move, so the centre of the first pixel does.
            c, f = c + (wide - a) / 2, f + (high - e) / 2
        return replace(self, transform=(wide, b, c, d, high, f))

    def attrs(self, window: Window) -> dict[str, Any]:
        """Returns the attrs about the georeferencing of a window."""
        attrs: dict[str, Any] = {"georef_status": self.status}
        if self.rotated is None:
            if self.epsg is not None:
                attrs["crs"] = self.epsg
            if self.wkt is not None:
                attrs["crs_wkt"] = self.wkt
        if self.transform is not None:
            a, b, c, d, e, f = self.transform
            attrs["transform"] = (a, b, c + window[1] * a, d, e, f + window[0] * e)
        else:
            attrs["_swath_no_georef"] = 1
            if self.rotated is not None:
                # For the whole image, because pixel coordinates count from its first row and column.
                attrs["rotated_affine"] = self.rotated
        if self.point:
            attrs["raster_type"] = "point"
        return attrs

    def coords(self, window: Window) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Returns y and x of the pixels of a window: centres, or row and column numbers if there is no transform."""
        rows, columns = np.arange(window[0], window[2]), np.arange(window[1], window[3])
        if self.transform is None:
            return rows, columns
        a, _, c, _, e, f = self.transform
        half = 0.0 if self.point else 0.5
        return rows * e + f + half * e, columns * a + c + half * a

    def window_of(self, bbox: Any, height: int, width: int) -> Window:
        """Returns the window of all pixels of a height x width image that the box touches."""
        x_min, y_min, x_max, y_max = check_bbox(bbox)
        if self.rotated is not None:
            raise ValueError(
                "open_geotiff: bbox= requires an axis-aligned transform, but this file has a rotated affine. The "
                "rotation cannot be expressed as a 4-tuple bbox in the file's CRS; pass window= for pixel-space "
                "windowing instead."
            )
        if self.transform is None:
            raise ValueError(
                "open_geotiff: bbox= requires a georeferenced source, but this source has no georeferencing (no "
                "transform in tags, sidecar files or VRT). Pass window= instead for pixel-space windowing."
            )
        a, _, c, _, e, f = self.transform
        columns, rows = sorted(((x_min - c) / a, (x_max - c) / a)), sorted(((y_min - f) / e, (y_max - f) / e))
        top, left = max(0, math.floor(rows[0])), max(0, math.floor(columns[0]))
        bottom, right = min(height, math.ceil(rows[1])), min(width, math.ceil(columns[1]))
        if top >= bottom or left >= right:
            raise ValueError(
                f"open_geotiff: bbox={bbox!r} does not overlap the file's extent (height={height}, width={width}). "
                f"Resolved pixel window={(top, left, bottom, right)} has non-positive size."
            )
        return top, left, bottom, right


def check_bbox(bbox: Any) -> tuple[float, float, float, float]:
    """Returns the four numbers of a box, or raises an error that describes the problem."""
    if not isinstance(bbox, tuple | list) or len(bbox) != 4:
        raise ValueError(f"open_geotiff: bbox must be a 4-tuple (x_min, y_min, x_max, y_max), got {bbox!r}.")
    try:
        finite = all(math.isfinite(value) for value in bbox)
    except TypeError:
        raise TypeError(f"open_geotiff: bbox must contain numbers, got bbox={bbox!r}.") from None
    if not finite:
        raise ValueError(f"open_geotiff: bbox must contain finite coordinates, got bbox={bbox!r}.")
    x_min, y_min, x_max, y_max = bbox
    if not (x_min < x_max and y_min < y_max):
        raise ValueError(
            f"open_geotiff: bbox has non-positive size (x_min={x_min!r}, y_min={y_min!r}, x_max={x_max!r}, "
            f"y_max={y_max!r}). Expected x_min < x_max and y_min < y_max."
        )
    return x_min, y_min, x_max, y_max


def georef_of(description: Description, *, allow_unparseable_crs: object = False) -> Georef:
    """Returns the georeferencing of an opened file at full resolution."""
    epsg, wkt = crs_of(description, allow_unparseable_crs)
    point = description["raster_type"] == "point"
    place = Georef(point=point, epsg=epsg, wkt=wkt)
    if description["transform_source"] in ("pam", "world", "tab"):
        transform = description["transform"]
        if transform is not None and point:
            # Sidecar files give the corner; PixelIsPoint refers to the centre.
            a, b, c, d, e, f = transform
            transform = (a, b, c + (a + b) / 2, d, e, f + (d + e) / 2)
        return placed(place, transform, "The file beside the image")
    tags = {
        tag: value for tag, _, _, value in description["tags"] if tag in (PIXEL_SCALE, TIE_POINTS, MODEL_TRANSFORMATION)
    }
    matrix = _numbers(tags.get(MODEL_TRANSFORMATION))
    if len(matrix) >= 8:
        a, b, z_of_x, c, d, e, z_of_y, f = matrix[:8]
        return placed(place, (a, b, c, d, e, f), "ModelTransformationTag (34264)", (z_of_x, z_of_y))
    scale, ties = _numbers(tags.get(PIXEL_SCALE)), _numbers(tags.get(TIE_POINTS))
    if len(scale) < 2 and len(ties) < 6:
        return place
    if len(scale) < 2 and len(ties) > 6:
        return place  # Ground control points: they georeference the image, but give no coordinates per row and column.
    wide, high = scale[:2] if len(scale) >= 2 else (1.0, 1.0)
    column, row, _, x, y, _ = ties[:6] if len(ties) >= 6 else (0.0,) * 6
    _check_other_ties(ties, wide, high)
    return placed(place, (wide, 0.0, x - column * wide, 0.0, -high, y + row * high), "ModelPixelScaleTag (33550)")


def placed(place: Georef, transform: Affine | None, source: str, z: tuple[float, float] = (0.0, 0.0)) -> Georef:
    """Returns the georeferencing for a transform: axis-aligned or rotated."""
    if transform is None:
        return place
    a, b, c, d, e, f = map(float, transform)
    tolerance = SHEAR * max(abs(a), abs(e), 1.0)
    if abs(b) > tolerance or abs(d) > tolerance or abs(z[0]) > tolerance or abs(z[1]) > tolerance:
        return Georef(None, (a, b, c, d, e, f), place.point, place.epsg, place.wkt)
    for name, size in (("pixel_width", a), ("pixel_height", e)):
        if size == 0 or not math.isfinite(size):
            raise DegeneratePixelSizeError(
                f"{source} yields a degenerate {name}={size!r}: coordinates cannot be made from a size that is zero "
                "or not finite. Write the file again with the size of its pixels."
            )
    return Georef((a, 0.0, c, 0.0, e, f), None, place.point, place.epsg, place.wkt)


def _numbers(value: Any) -> tuple[float, ...]:
    if value is None:
        return ()
    return tuple(map(float, value)) if isinstance(value, tuple | list) else (float(value),)


def _check_other_ties(ties: tuple[float, ...], wide: float, high: float) -> None:
    """Checks that further tie points lie on the grid of the first one; contradictory tie points give no transform."""
    tolerance = RESIDUAL * max(abs(wide), abs(high), 1.0)
    for start in range(6, len(ties) - 5, 6):
        column, row, _, x, y, _ = ties[start : start + 6]
        right, down = ties[3] + (column - ties[0]) * wide, ties[4] - (row - ties[1]) * high
        if abs(x - right) > tolerance or abs(y - down) > tolerance:
            raise NotImplementedError(
                f"ModelTiepointTag carries multiple non-affine tiepoints (number {start // 6} is expected at "
                f"({right}, {down}) but the file declares ({x}, {y})): a ground-control-point warp beside a pixel "
                "size. Rectify the file to a regular grid first (gdalwarp, rasterio.warp.reproject) and open the "
                "result."
            )
