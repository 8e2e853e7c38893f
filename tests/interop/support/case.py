"""A case: a function that writes a file, and the peer that determines its expected pixels."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
import tifffile
from rasterio.windows import Window

# Lossy decoders round differently (inverse DCT, colour conversion), but never by more than this.
LOSSY_MAX = 2
LOSSY_MEAN = 0.5


@dataclass(frozen=True)
class Case:
    """One file. `write` returns the pixels it stored, or None if the codec or the colour model changes them.

    The oracle is "rasterio", "tifffile" (for files that the rasterio wheel cannot decode) or "written" (no peer
    decodes it).
    """

    id: str
    write: Callable[[Path], np.ndarray | None]
    lossy: bool = False
    oracle: str = "rasterio"
    needs: str = ""


def little(array: np.ndarray) -> np.ndarray:
    """C order, little-endian: the layout of the .npy files that Swath writes."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def gdal_pixels(path: Path, level: int = 0, window: Window | None = None, bands: list[int] | None = None) -> np.ndarray:
    """The pixels as GDAL reads them, bands first. Level 1 is the first overview."""
    options = {"overview_level": level - 1} if level else {}
    with rasterio.open(path, **options) as dataset:
        return little(dataset.read(bands, window=window))


def gdal_mask(path: Path, level: int = 0) -> np.ndarray:
    """GDAL's dataset mask as 0 or 255. Every alpha value other than 0 counts as valid."""
    options = {"overview_level": level - 1} if level else {}
    with rasterio.open(path, **options) as dataset:
        return np.where(dataset.dataset_mask() > 0, 255, 0).astype(np.uint8)


def tifffile_pixels(path: Path, level: int = 0) -> np.ndarray:
    """The first series as tifffile reads it, bands first."""
    with tifffile.TiffFile(path) as tif:
        page = tif.series[0].levels[level].keyframe
        array = page.asarray()
        if array.ndim == 2:
            array = array[None]
        elif page.planarconfig == 1:
            array = np.moveaxis(array, -1, 0)
    return little(array.view(np.uint8) if array.dtype == bool else array)


def expected(case: Case, path: Path, written: np.ndarray | None) -> np.ndarray:
    """The pixels that the case's oracle expects."""
    if case.oracle == "written":
        return little(written)
    return gdal_pixels(path) if case.oracle == "rasterio" else tifffile_pixels(path)


def assert_same(got: np.ndarray, want: np.ndarray, lossy: bool = False) -> None:
    """Checks for equal bytes, or for a difference within the lossy tolerance; the message names the first difference.
    """
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    assert got.dtype == want.dtype, f"dtype {got.dtype}, expected {want.dtype}"
    if lossy:
        difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
        worst, mean = difference.max(), difference.mean()
        assert worst <= LOSSY_MAX and mean <= LOSSY_MEAN, f"off by at most {worst:g}, on average {mean:.3f}"
        return
    # Compares bytes, not values, so that -0.0 and NaN count too.
    size = got.dtype.itemsize
    unequal = (got.reshape(-1).view(np.uint8) != want.reshape(-1).view(np.uint8)).reshape(-1, size).any(axis=1)
    if unequal.any():
        first = int(np.argmax(unequal))
        at = tuple(int(i) for i in np.unravel_index(first, got.shape))
        raise AssertionError(
            f"{unequal.sum()} of {got.size} samples differ, first at {at}: "
            f"{got.flat[first]!r}, expected {want.flat[first]!r}"
        )
