"""A window of a mosaic that is being assembled: which pixels of a source go where, and how their values are
converted.
"""

from __future__ import annotations

import errno
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .._swath import File, epsg_of_wkt, within_max_pixels
from ..errors import PixelSafetyLimitError, VRTUnsupportedError
from ..read.nodata import matchable
from ..read.source import Identity, identity_of
from ..xarray.dask import on_grid
from .document import Rect, Source, is_settled

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..read.plan import Window

# As in GDAL: a rectangle that covers less of a pixel than this does not touch it, and a position this close to the next
# pixel of a source counts as that pixel.
TOUCHES = 1e-3
ON_PIXEL = 1e-10
# The number of samples of a source that are decoded at once.
AT_ONCE = 1 << 23

Report = dict[str, Any]
LimitsInForce = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Layer:
    """A source for all bands that place the same part of the same file at the same position; it is decoded once."""

    source: Source
    dtype: np.dtype[Any]
    """The type of the mosaic's bands."""
    bands: list[tuple[int, int]]
    """Pairs of a band of the mosaic and a band of the source, counted from 0."""
    rows: tuple[int, int] | None = None
    """The row range of the mosaic, end excluded; None for all rows that the source touches."""

    @property
    def src(self) -> Rect:
        assert self.source.src is not None, "sizes of whole files were filled in when the mosaic was opened"
        return self.source.src

    @property
    def dst(self) -> Rect:
        assert self.source.dst is not None, "sizes of whole files were filled in when the mosaic was opened"
        return self.source.dst

    @property
    def box(self) -> Window:
        """Returns the pixels of the mosaic that the source touches."""
        top, bottom = touched(self.dst.y, self.dst.height)
        left, right = touched(self.dst.x, self.dst.width)
        return top, left, bottom, right

    def holes(self, error: str) -> list[dict[str, Any]]:
        """Returns the entries of `vrt_holes` for a source that cannot be read."""
        edges = map(float, (self.dst.x, self.dst.y, self.dst.width, self.dst.height))
        place = tuple(int(edge) if edge.is_integer() else edge for edge in edges)
        path = self.source.path
        return [{"source": path, "band": band + 1, "dst_rect": place, "error": error} for _, band in self.bands]


def touched(offset: float, size: float) -> tuple[int, int]:
    """Returns the range of pixels that a span touches, end excluded."""
    return math.floor(offset + TOUCHES), math.ceil(offset + size - TOUCHES)


@dataclass(frozen=True)
class Part:
    """Pixels of a source and their position on the canvas."""

    row: int
    column: int
    raw: npt.NDArray[Any]


@dataclass(frozen=True)
class Canvas:
    """A window of a mosaic."""

    planes: npt.NDArray[Any]
    """(y, x, band)"""
    window: Window
    index: dict[int, int]
    """Maps bands of the mosaic to bands of `planes`."""
    threads: int
    """The number of threads for each source."""
    max_pixels: int | None
    epsg: int | None
    """The EPSG code of the mosaic; a source with another code is an error."""
    limits: LimitsInForce
    """All limits of each source."""
    lenient: bool = False
    """Whether a source that fails must leave the canvas unchanged."""
    painted: npt.NDArray[np.bool_] | None = None
    """The samples of `planes` that a source has set; None if holes keep their initial value."""

    def pieces(self, layer: Layer) -> list[Layer]:
        """Splits a layer into parts that are decoded one after the other: row ranges that end at block borders of the
        file.

        Raises PixelSafetyLimitError if a part would hold more pixels of the source than the caller allows.
        """
        top, left, bottom, right = layer.box
        top, left = max(top, self.window[0]), max(left, self.window[1])
        bottom, right = min(bottom, self.window[2]), min(right, self.window[3])
        # The number of source pixels per pixel of the mosaic.
        tall, wide = layer.src.height / layer.dst.height, layer.src.width / layer.dst.width
        columns = max(math.ceil((right - left) * wide), right - left)
        most = max(1, int(AT_ONCE / (columns * len(layer.bands) * max(tall, 1))))
        pieces = [layer]
        if bottom - top > most:
            block = self._block_rows(layer) if tall == 1 else 1
            sizes = on_grid(bottom - top, top - int(layer.dst.y - layer.src.y), max(1, most // block) * block)
            pieces = [replace(layer, rows=span) for span in pairwise(accumulate(sizes, initial=top))]
        if tall > 1 or wide > 1:
            for piece in pieces:
                self._check_size(piece)
        return pieces

    def _block_rows(self, layer: Layer) -> int:
        try:
            return open_member(layer.source.path, self.limits)[0].levels[0][2]
        except (OSError, ValueError):
            return 1  # Decoding will report the problem.

    def _check_size(self, layer: Layer) -> None:
        """Checks the number of pixels decoded for a source that is downsampled, which is larger than its number on
        the canvas.
        """
        # The mosaic takes no pixels outside SrcRect, so the size is known without opening the file.
        rows, columns = self._axes(
            layer, math.ceil(layer.src.y + layer.src.height), math.ceil(layer.src.x + layer.src.width)
        )
        if self.max_pixels is not None and not within_max_pixels(
            rows.count, columns.count, len(layer.bands), self.max_pixels
        ):
            pixels = rows.count * columns.count * len(layer.bands)
            raise PixelSafetyLimitError(
                f"{layer.source.path!r} must be read as {rows.count} x {columns.count} x {len(layer.bands)} = "
                f"{pixels:,} pixels to be resampled, which exceed the safety limit of {self.max_pixels:,} pixels. Pass "
                "a larger max_pixels= or a window=."
            )

    def paint(self, layer: Layer) -> Report:
        """Decodes a source and places it."""
        file, rows, columns = self._plan(layer)
        target = self.planes[rows.start - self.window[0] :][: rows.count]
        if self._fits(layer, file, rows, columns):
            return self._read(layer, file, rows, columns, target)
        part, report = self.decode(layer)
        self.put(layer, part)
        return report

    def decode(self, layer: Layer) -> tuple[Part, Report]:
        """Returns the pixels of a source inside the window."""
        file, rows, columns = self._plan(layer)
        raw = np.empty((rows.count, columns.count, len(layer.bands)), file.dtype)
        report = self._read(layer, file, rows, columns, raw)
        shown = columns.pick(rows.pick(raw, 0), 1)
        return Part(rows.start - self.window[0], columns.start - self.window[1], shown), report

    def _plan(self, layer: Layer) -> tuple[File, _Axis, _Axis]:
        file = self._open(layer)
        return file, *self._axes(layer, file.height, file.width)

    def _axes(self, layer: Layer, height: int, width: int) -> tuple[_Axis, _Axis]:
        """Returns the rows and columns for a source of that size."""
        top, left, bottom, right = self.window
        if layer.rows is not None:
            top, bottom = layer.rows
        rows = _Axis.of(layer.src.y, layer.src.height, layer.dst.y, layer.dst.height, height, top, bottom)
        columns = _Axis.of(layer.src.x, layer.src.width, layer.dst.x, layer.dst.width, width, left, right)
        return rows, columns

    def _read(self, layer: Layer, file: File, rows: _Axis, columns: _Axis, out: npt.NDArray[Any]) -> Report:
        window = rows.first, columns.first, rows.first + rows.count, columns.first + columns.count
        return file.read_into(out, window=window, bands=[band for _, band in layer.bands], threads=self.threads)

    def _fits(self, layer: Layer, file: File, rows: _Axis, columns: _Axis) -> bool:
        """Whether the file's pixels fill whole rows of the canvas and can be decoded directly into it."""
        plain = layer.source.nodata is None and layer.source.scale is None and file.dtype == self.planes.dtype
        plain = plain and self.planes.flags.c_contiguous
        whole = columns.count == self.planes.shape[1] and len(layer.bands) == self.planes.shape[2]
        in_order = [self.index[band] for band, _ in layer.bands] == list(range(len(layer.bands)))
        return plain and whole and in_order and rows.picks is None and columns.picks is None and not self.lenient

    def put(self, layer: Layer, part: Part) -> None:
        """Places decoded pixels. Pixels without data leave the canvas unchanged."""
        values, valid = values_of(layer.source, layer.dtype, part.raw)
        rows = slice(part.row, part.row + values.shape[0])
        columns = slice(part.column, part.column + values.shape[1])
        for place, (band, _) in enumerate(layer.bands):
            where = True if valid is None else valid[:, :, place]
            np.copyto(self.planes[rows, columns, self.index[band]], values[:, :, place], where=where)
            if self.painted is not None:
                np.copyto(self.painted[rows, columns, self.index[band]], True, where=where)

    def leave_hole(self, layer: Layer, values: dict[int, float]) -> None:
        """Fills the pixels that only a failed layer would have covered, by band of the mosaic."""
        assert self.painted is not None, "only a canvas that knows what was painted has holes to fill"
        top, left, bottom, right = layer.box
        if layer.rows is not None:
            top, bottom = layer.rows
        rows = slice(max(top - self.window[0], 0), max(bottom - self.window[0], 0))
        columns = slice(max(left - self.window[1], 0), max(right - self.window[1], 0))
        for band, _ in layer.bands:
            if band in values:
                index = self.index[band]
                self.planes[rows, columns, index][~self.painted[rows, columns, index]] = values[band]

    def _open(self, layer: Layer) -> File:
        """Opens the file of a source and checks that it has the part that the mosaic uses."""
        path, src = layer.source.path, layer.src
        file, epsg = open_member(path, self.limits)
        if self.epsg is not None and epsg is not None and self.epsg != epsg:
            raise other_system(path, epsg, self.epsg)
        if src.x + src.width > file.width + TOUCHES or src.y + src.height > file.height + TOUCHES:
            raise ValueError(f"SrcRect {src} is outside the source extent ({file.height}x{file.width}) of {path!r}.")
        for _, band in layer.bands:
            if not 0 <= band < file.bands:
                raise IndexError(f"SourceBand {band + 1} is out of range: {path!r} has {file.bands} band(s).")
        return file


def other_system(path: str, epsg: int, expected: int) -> VRTUnsupportedError:
    """Returns the error for a source that would need reprojection."""
    return VRTUnsupportedError(
        f"VRT source {path!r} carries CRS EPSG:{epsg}, which does not match that of the VRT or of its other sources "
        f"(EPSG:{expected}). Nothing is reprojected when a mosaic is read, so its pixels would be misplaced. Reproject "
        "the source first (gdalwarp -t_srs), or make one VRT for each CRS."
    )


def open_member(path: str, limits: LimitsInForce) -> tuple[File, int | None]:
    """Returns an opened source and the EPSG code of its CRS."""
    identity = identity_of(path)
    opened = _opened if is_settled(identity) else _opened.__wrapped__
    try:
        return opened(path, identity, limits)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    # Sources that are kept open count for the limit of the process.
    _opened.cache_clear()
    return opened(path, identity, limits)


@lru_cache(maxsize=64)
def _opened(path: str, identity: Identity, limits: LimitsInForce) -> tuple[File, int | None]:
    """Caches opened sources, because tasks of neighbouring chunks read the same ones; a replaced file has another
    identity.
    """
    file = File.open(path, dict(limits))
    about = file.describe()
    return file, about["epsg"] or (epsg_of_wkt(about["wkt"]) if about["wkt"] else None)


@dataclass(frozen=True)
class _Axis:
    """Which pixels of the mosaic a source covers along one axis, and which of its own pixels they show."""

    start: int
    """First pixel of the mosaic."""
    first: int
    """First pixel of the source."""
    count: int
    """Pixels of the source."""
    picks: npt.NDArray[np.int64] | None = None
    """The source pixel, counted from `first`, of each pixel of the mosaic; None if they correspond one to one."""

    @classmethod
    def of(cls, src: float, size: float, dst: float, span: float, length: int, low: int, high: int) -> _Axis:
        """Returns the axis for a source of `length` pixels and a window of the mosaic from `low` to `high`."""
        start, stop = touched(dst, span)
        start, stop = max(start, low), min(stop, high)
        if size == span and float(dst).is_integer() and float(src).is_integer():
            return cls(start, int(src) + start - int(dst), stop - start)
        # Nearest: the source pixel at the centre of the mosaic pixel.
        centres = (np.arange(start, stop) + 0.5 - dst) * (size / span) + src
        return cls._picking(start, np.clip(np.floor(centres + ON_PIXEL).astype(np.int64), 0, length - 1))

    @classmethod
    def _picking(cls, start: int, picks: npt.NDArray[np.int64]) -> _Axis:
        first = int(picks[0])
        return cls(start, first, int(picks[-1]) - first + 1, picks - first)

    def pick(self, raw: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
        """Selects the pixels of the mosaic from those of the source."""
        return raw if self.picks is None else raw.take(self.picks, axis)


def values_of(source: Source, dtype: np.dtype[Any], raw: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Returns the values of the mosaic for a source's samples, and where they are valid (None: everywhere)."""
    valid = None
    nodata = matchable(source.nodata, raw.dtype)
    if nodata is not None:
        valid = ~np.isnan(raw) if math.isnan(nodata) else raw != raw.dtype.type(nodata)
    if source.scale is not None:
        # GDAL multiplies in float64, but stores input and output in float32 unless integers need more.
        narrow = np.can_cast(dtype, np.float32) and (raw.dtype.kind == "f" or np.can_cast(raw.dtype, np.float32))
        work = np.float32 if narrow else np.float64
        with np.errstate(all="ignore"):
            raw = (raw.astype(work).astype(np.float64) * source.scale + source.offset).astype(work)
    return as_gdal(raw, dtype), valid


def as_gdal(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Casts like GDAL: rounds to the nearest integer, halves away from zero, clamps to the type; NaN becomes 0."""
    if values.dtype == dtype:
        return values
    if values.dtype.kind == "c":
        values = values.real
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return values.astype(dtype)
        limits = np.iinfo(dtype)
        if values.dtype.kind in "iu":
            own = np.iinfo(values.dtype)
            low, high = max(int(limits.min), int(own.min)), min(int(limits.max), int(own.max))
            clipped: npt.NDArray[Any] = np.clip(values, values.dtype.type(low), values.dtype.type(high))
            return clipped.astype(dtype)
        half = values.dtype.type(0.5)
        whole = np.where(values < 0, np.ceil(values - half), np.floor(values + half))
        whole = np.where(np.isnan(values), 0, whole)
        inside = np.clip(whole, limits.min, limits.max).astype(dtype)
        # Floats cannot represent the largest integers of 32 and 64 bits: the next float is too large for the cast.
        return np.where(whole >= values.dtype.type(limits.max), limits.max, inside).astype(dtype)
