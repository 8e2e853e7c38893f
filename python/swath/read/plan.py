"""`ReadPlan`: all decisions of a read, made before the first pixel is read.

Plans are pickled for workers; files are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._swath import MAX_PIXELS, within_max_pixels
from ..errors import PixelSafetyLimitError
from ..gpu.several import read_into
from .nodata import Finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from .._swath import File, ReadKeywords
    from ..gpu.several import SharedRead

Window = tuple[int, int, int, int]
"""Row start, column start, row stop, column stop."""


@dataclass(frozen=True)
class ReadPlan:
    """The pixels to read from a file and their conversion. It can be pickled and was checked against the file."""

    window: Window
    """In pixels of the level; never None."""
    level: int
    bands: tuple[int, ...]
    """The bands to read, counted from 0, in the order of the result."""
    flat: bool
    """The result is (y, x): one band and no band axis. Otherwise it is (y, x, band), or (band, y, x)."""
    finish: Finish
    """The conversion from samples of the file (`finish.source`) to those of the result (`finish.dtype`)."""
    samples: int = 1
    """The number of bands that `max_pixels` counts: all of the file, whichever are read, as the interface of
    `open_geotiff` defines it. The engine counts the bands that it reads.
    """
    max_pixels: float = MAX_PIXELS
    """The limit for height * width * samples of one read."""
    threads: int | None = field(default=None, repr=False)
    """Not in the text of the plan, which identifies the result."""
    shared: SharedRead | None = field(default=None, repr=False)
    """The GPUs that decode together instead of the CPU."""
    bands_last: bool = True
    """(y, x, band), or (band, y, x) if False."""
    alpha: int | None = None
    """The band of the file that marks valid pixels instead of a mask."""
    nodata_values: tuple[float, ...] = ()
    """A pixel is invalid if each band of the file has its value of this tuple; used instead of a mask."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.shape_of(self.window)

    @property
    def dims(self) -> tuple[str, ...]:
        if self.flat:
            return ("y", "x")
        return ("y", "x", "band") if self.bands_last else ("band", "y", "x")

    @property
    def axes(self) -> tuple[int, int]:
        """The positions of the y and x axes in the result."""
        return (0, 1) if self.flat or self.bands_last else (1, 2)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the result."""
        return self.finish.dtype

    def shape_of(self, window: Window) -> tuple[int, ...]:
        """Returns the shape of the pixels of a window of the file."""
        height, width = window[2] - window[0], window[3] - window[1]
        if self.flat:
            return height, width
        count = len(self.bands)
        return (height, width, count) if self.bands_last else (count, height, width)

    def of_bands(self, indices: Sequence[int]) -> ReadPlan:
        """Returns the plan for some of the bands, by their index in the result."""
        return replace(self, bands=tuple(self.bands[i] for i in indices), finish=self.finish.of_bands(indices))

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> Window:
        """Returns the window of the file that contains these rows and columns of the result."""
        top, left = self.window[:2]
        return (top + rows[0], left + columns[0], top + rows[1], left + columns[1])

    def check_size(self, window: Window) -> None:
        """Raises PixelSafetyLimitError if a window has more pixels than the caller allows."""
        height, width = window[2] - window[0], window[3] - window[1]
        limit = int(max(self.max_pixels, 0))
        if within_max_pixels(height, width, self.samples, limit):
            return
        pixels, size, cap = height * width * self.samples, self.finish.source.itemsize, self.max_pixels
        side = max(1, math.isqrt(limit // self.samples))
        raise PixelSafetyLimitError(
            f"TIFF image dimensions ({width} x {height} x {self.samples} = {pixels:,} pixels, "
            f"~{pixels * size / 1e9:.2f} GB at {size} bytes/pixel) exceed the safety limit of {cap:,} pixels "
            f"(~{cap * size / 1e9:.2f} GB at {size} bytes/pixel).\n"
            "To read this file, try one of:\n"
            "  * Pass a larger max_pixels= if the allocation is acceptable.\n"
            f"  * Read a sub-region with window=(r0, c0, r1, c1), e.g. window=(0, 0, {side}, {side}).\n"
            "  * Read a geographic sub-region with bbox=(x_min, y_min, x_max, y_max) in the file's CRS.\n"
            f"  * Read lazily in chunks with chunks={side} so each decoded buffer stays under max_pixels."
        )

    def read_raw(self, file: File, window: Window | None = None) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Returns the unchanged samples of a window of the file (see `part`) or of the whole plan, and the report."""
        window = self.window if window is None else window
        self.check_size(window)
        raw = np.empty(self.shape_of(window), self.finish.source)
        request: ReadKeywords = {
            "window": window,
            "bands": self.bands,
            "level": self.level,
            "bands_last": self.bands_last,
            "threads": self.threads,
            "max_pixels": int(self.max_pixels),
        }
        return raw, read_into(file, raw, self.shared, request)

    def valid(
        self, file: File, window: Window | None = None, raw: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any] | None:
        """Returns the mask of a window of the file, 0 where pixels are missing; None unless the plan needs a mask.

        `raw` holds the samples of the window, which may include the alpha band.
        """
        if not self.finish.by_mask:
            return None
        window = self.window if window is None else window
        shape = window[2] - window[0], window[3] - window[1]
        if self.nodata_values:
            samples = np.empty((len(self.nodata_values), *shape), self.finish.source)
            file.read_into(samples, window=window, level=self.level, bands_last=False, threads=self.threads)
            differs = [plane != value for plane, value in zip(samples, self.nodata_values, strict=True)]
            return np.any(differs, axis=0)
        if self.alpha is None:
            valid = np.empty(shape, np.uint8)
            return valid if file.read_mask_into(valid, window=window, level=self.level) else None
        if self.flat and self._exempt:
            return None
        if raw is not None and self._exempt:
            return raw[(slice(None),) * (2 * self.bands_last) + self._exempt[:1]]
        alpha = np.empty(shape, self.finish.source)
        file.read_into(alpha, window=window, bands=(self.alpha,), level=self.level, threads=self.threads)
        return alpha

    @property
    def _exempt(self) -> tuple[int, ...]:
        """Returns the index of the alpha band in the result; the mask does not apply to it."""
        return tuple(index for index, band in enumerate(self.bands) if band == self.alpha)

    def read(self, file: File, window: Window | None = None) -> npt.NDArray[Any]:
        """Returns the pixels of a window of the file (see `part`) or of the whole plan."""
        raw, _ = self.read_raw(file, window)
        valid = self.valid(file, window, raw)
        return self.finish.apply(raw, valid, bands_last=self.bands_last, exempt=self._exempt)
