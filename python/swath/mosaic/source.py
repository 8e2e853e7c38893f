"""A mosaic with the interface of a file, so that plans, dask chunks and nodata need no special case."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._limits import in_force
from .._settings import is_strict
from .._swath import default_threads
from ..errors import GeoTIFFFallbackWarning, PixelSafetyLimitError, VRTUnsupportedError
from ..read.nodata import Finish
from ..read.source import Identity, identity_of
from .canvas import Canvas, Layer, Part, Report, as_gdal

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..read.plan import Window
    from .document import Vrt

# Errors of a source for which `missing_sources="warn"` leaves a hole.
UNREADABLE = (OSError, ValueError, IndexError)
BLOCK = 256
""""auto" chunks end at multiples of this, where most tiles of most sources end."""


class Mosaic:
    """A VRT whose pixels can be read in any thread and process. It is pickled in its parsed form."""

    def __init__(
        self, vrt: Vrt, lenient: bool = False, epsg: int | None = None, limits: dict[str, int] | None = None
    ) -> None:
        self.vrt = vrt
        self.lenient = lenient
        """Whether a source that cannot be read leaves a hole."""
        self.epsg = epsg
        """The EPSG code of the mosaic; a source with another known code is an error."""
        self.limits = limits
        """The limits of each source, in addition to those of the process."""

    def masked(self, promoted: np.dtype[Any] | None = None) -> MaskedMosaic:
        """Returns the same mosaic with NaN for the nodata value of each band; `promoted` is the type of the result."""
        return MaskedMosaic(self.vrt, self.lenient, self.epsg, self.limits, promoted)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.vrt, self.lenient, self.epsg, self.limits)

    def __dask_tokenize__(self) -> object:
        paths = dict.fromkeys(source.path for band in self.vrt.bands for source in band.sources)
        sources = [(path, _identity(path)) for path in paths]
        return *self.__reduce__()[1][1:], os.path.abspath(self.vrt.path), self.vrt.identity, sources

    def file(self) -> Mosaic:
        """Returns itself: the interface of a handle."""
        return self

    @property
    def levels(self) -> list[tuple[int, int, int, int]]:
        return [(self.vrt.height, self.vrt.width, BLOCK, BLOCK)]

    def touching(self, window: Window, bands: Sequence[int]) -> list[Layer]:
        """Returns the layers that contribute to a window, with the requested bands."""
        layers, boxes = _layers(self.vrt)
        top, left, bottom, right = boxes.T
        hit = (top < window[2]) & (left < window[3]) & (bottom > window[0]) & (right > window[1])
        wanted = set(bands)
        found = []
        for layer in (layers[index] for index in np.flatnonzero(hit)):
            pairs = [pair for pair in layer.bands if pair[0] in wanted]
            if pairs:
                found.append(Layer(layer.source, layer.dtype, pairs))
        return found

    def read_into(
        self,
        out: npt.NDArray[Any],
        *,
        window: Window | None = None,
        bands: Sequence[int] | None = None,
        level: int = 0,
        bands_last: bool = True,
        threads: int | None = None,
        max_pixels: int | None = None,
    ) -> Report:
        """Assembles a window (y, x), (y, x, band) or, with bands_last=False, (band, y, x).

        The report has `holes` if sources could not be read.
        """
        start = time.perf_counter()
        window = window or (0, 0, self.vrt.height, self.vrt.width)
        bands = range(len(self.vrt.bands)) if bands is None else bands
        planes = _planes(out, bands_last)
        for index, band in enumerate(bands):
            about = self.vrt.bands[band]
            planes[:, :, index] = as_gdal(np.array(about.nodata or 0), about.dtype)
        threads = threads or default_threads()
        layers = self.touching(window, bands)
        workers = max(1, min(threads, len(layers)))
        index_of = {band: index for index, band in enumerate(bands)}
        hole_values = self._hole_values(bands)
        painted = np.zeros(planes.shape, np.bool_) if hole_values else None
        canvas = Canvas(
            planes,
            window,
            index_of,
            threads // workers,
            max_pixels,
            self.epsg,
            limits=in_force(self.limits),
            lenient=self.lenient,
            painted=painted,
        )
        reports, holes, failed = self._paint(canvas, layers, workers)
        if hole_values:
            for layer in failed:
                canvas.leave_hole(layer, hole_values)
        return {
            "device": "cpu",
            "codec": ", ".join(sorted({report["codec"] for report in reports})),
            "threads": threads,
            "sources": len(layers),
            **{key: sum(report[key] for report in reports) for key in ("blocks", "bytes_fetched", "bytes_decoded")},
            "seconds": time.perf_counter() - start,
            "fallbacks": [],
            "holes": holes,
        }

    def _hole_values(self, bands: Sequence[int]) -> dict[int, float]:
        """Returns the values, by band, for pixels whose source could not be read, if they differ from those of pixels
        without a source.

        In a float band without nodata, 0 would look like a measurement.
        """
        if not self.lenient:
            return {}
        chosen = ((band, self.vrt.bands[band]) for band in bands)
        return {band: math.nan for band, about in chosen if about.nodata is None and about.dtype.kind == "f"}

    def _paint(
        self, canvas: Canvas, layers: list[Layer], workers: int
    ) -> tuple[list[Report], list[dict[str, Any]], list[Layer]]:
        """Returns the reports of the layers that were read, the holes, and the layers or pieces that left one."""
        reports: list[Report] = []
        holes: list[dict[str, Any]] = []
        failed: list[Layer] = []
        strict = is_strict()
        with closing(_in_parallel(canvas, layers, workers)) as turns:
            for layer, result in turns:
                try:
                    reports.append(result())
                except (PixelSafetyLimitError, VRTUnsupportedError):
                    raise
                except UNREADABLE as error:
                    if strict or not self.lenient:
                        raise
                    failed.append(layer)
                    new = [hole for hole in layer.holes(f"{type(error).__name__}: {error}") if hole not in holes]
                    holes += new
                    for hole in new[-1:]:
                        _warn_of_hole(hole)
        return reports, holes, failed


class MaskedMosaic(Mosaic):
    """A mosaic whose bands have different nodata values: NaN in all of them."""

    def __init__(
        self,
        vrt: Vrt,
        lenient: bool = False,
        epsg: int | None = None,
        limits: dict[str, int] | None = None,
        promoted: np.dtype[Any] | None = None,
    ) -> None:
        super().__init__(vrt, lenient, epsg, limits)
        self.promoted = promoted
        """The type of the result; None to choose it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.vrt, self.lenient, self.epsg, self.limits, self.promoted)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all bands."""
        return np.result_type(*(self._finish(band).dtype for band in range(len(self.vrt.bands))))

    def _finish(self, band: int) -> Finish:
        about = self.vrt.bands[band]
        return Finish.of(about.dtype, about.nodata, masked=True, promoted=self.promoted)

    def read_into(
        self,
        out: npt.NDArray[Any],
        *,
        bands: Sequence[int] | None = None,
        bands_last: bool = True,
        **rest: Any,
    ) -> Report:
        """Assembles a window, like a plain mosaic."""
        bands = range(len(self.vrt.bands)) if bands is None else bands
        raw = np.empty(out.shape, self.vrt.bands[bands[0]].dtype)
        report = super().read_into(raw, bands=bands, bands_last=bands_last, **rest)
        samples, planes = (_planes(array, bands_last) for array in (raw, out))
        for index, band in enumerate(bands):
            planes[:, :, index] = self._finish(band).apply(np.ascontiguousarray(samples[:, :, index]))
        return report


def _identity(path: str) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:
        return None


def _planes(array: npt.NDArray[Any], bands_last: bool) -> npt.NDArray[Any]:
    """Returns the same pixels as (y, x, band)."""
    if array.ndim == 2:
        return array[:, :, None]
    return array if bands_last else np.moveaxis(array, 0, -1)


@lru_cache(maxsize=4)
def _layers(vrt: Vrt) -> tuple[list[Layer], npt.NDArray[np.int64]]:
    """Returns the sources in the order in which they cover each other, and their boxes."""
    found: list[Layer] = []
    for place in range(max(len(band.sources) for band in vrt.bands)):
        same: dict[Any, Layer] = {}
        for band, about in enumerate(vrt.bands):
            if place < len(about.sources):
                source = about.sources[place]
                key = (source.path, source.src, source.dst, source.nodata, source.scale, source.offset, about.dtype)
                same.setdefault(key, Layer(source, about.dtype, [])).bands.append((band, source.band))
        found += same.values()
    return found, np.array([layer.box for layer in found], np.int64).reshape(-1, 4)


def _in_parallel(
    canvas: Canvas, layers: list[Layer], workers: int
) -> Generator[tuple[Layer, Callable[[], Report]], None, None]:
    """Yields each layer, or piece of one, in order, with a function that returns when it is on the canvas."""
    pieces = [piece for layer in layers for piece in canvas.pieces(layer)]
    if workers == 1:
        for piece in pieces:
            yield piece, partial(canvas.paint, piece)
        return
    # If sources overlap, the later one must end up on top, so only the decoding is parallel.
    ordered = _overlap(layers)
    pool = ThreadPoolExecutor(workers, "swath-mosaic")
    work: Callable[[Layer], Any] = canvas.decode if ordered else canvas.paint
    try:
        ahead = deque(pool.submit(work, piece) for piece in pieces[: 2 * workers])
        for index, piece in enumerate(pieces):
            future = ahead.popleft()
            if index + 2 * workers < len(pieces):
                ahead.append(pool.submit(work, pieces[index + 2 * workers]))
            yield piece, partial(_put, canvas, piece, future) if ordered else future.result
    finally:
        pool.shutdown(cancel_futures=True)


def _put(canvas: Canvas, layer: Layer, future: Future[tuple[Part, Report]]) -> Report:
    part, report = future.result()
    canvas.put(layer, part)
    return report


def _overlap(layers: list[Layer]) -> bool:
    """Whether two layers cover the same pixel of a band."""
    boxes = sorted(((*layer.box, {band for band, _ in layer.bands}) for layer in layers), key=lambda box: box[0])
    begun: list[Any] = []
    for box in boxes:
        begun = [other for other in begun if other[2] > box[0]]
        if any(other[1] < box[3] and box[1] < other[3] and other[4] & box[4] for other in begun):
            return True
        begun.append(box)
    return False


def _warn_of_hole(hole: dict[str, Any]) -> None:
    warnings.warn(
        f"VRT source {hole['source']!r} could not be read ({hole['error']}); skipping. The output mosaic will have a "
        "hole at this tile. Inspect ``DataArray.attrs['vrt_holes']`` or set missing_sources='raise' or SWATH_STRICT=1 "
        "to raise instead.",
        GeoTIFFFallbackWarning,
        stacklevel=2,
    )
