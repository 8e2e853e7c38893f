"""Small TIFFs for the tests of `open_geotiff`, with the tags that a test needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
import tifffile
from rasterio.transform import from_origin

UTM_KEYS = [(1024, 0, 1, 1), (1025, 0, 1, 1), (3072, 0, 1, 32633)]
UTM_POINT_KEYS = [(1024, 0, 1, 1), (1025, 0, 1, 2), (3072, 0, 1, 32633)]
WGS84_KEYS = [(1024, 0, 1, 2), (1025, 0, 1, 1), (2048, 0, 1, 4326)]

FLOATS: npt.NDArray[np.float32] = np.arange(24, dtype=np.float32).reshape(4, 6)
PIXELS: npt.NDArray[np.int64] = np.arange(24).reshape(4, 6)


def tagged(
    path: Path,
    pixels: npt.ArrayLike = FLOATS,
    *,
    scale: Sequence[float] | None = (10, 10, 0),
    tie: Sequence[float] | None = (0, 0, 0, 100, 200, 0),
    matrix: Sequence[float] | None = None,
    keys: Sequence[tuple[int, int, int, int]] | None = UTM_KEYS,
    text: str | None = None,
    nodata: str | None = None,
    metadata: str | None = None,
    extra: Sequence[tuple[Any, ...]] = (),
    **options: Any,
) -> str:
    """A file with exactly these GeoTIFF and GDAL tags."""
    tags: list[tuple[Any, ...]] = [
        (tag, "d", len(values), tuple(values), True)
        for tag, values in ((33550, scale), (33922, tie), (34264, matrix))
        if values is not None
    ]
    if keys is not None:
        flat = [1, 1, 0, len(keys), *(number for key in keys for number in key)]
        tags.append((34735, "H", len(flat), flat, True))
    for tag, words in ((34737, text), (42112, metadata), (42113, nodata)):
        if words is not None:
            tags.append((tag, "s", 0, words.encode(), True))
    pixels = np.asarray(pixels)
    if pixels.ndim == 3:
        options = {"photometric": "minisblack", "planarconfig": "contig", **options}
    tifffile.imwrite(path, pixels, metadata=None, software="", extratags=[*tags, *extra], **options)
    return str(path)


def by_gdal(path: Path, pixels: npt.ArrayLike, *, masks: npt.ArrayLike | None = None, **profile: Any) -> str:
    """A file written by GDAL; `masks` is its internal mask."""
    pixels = np.asarray(pixels)
    pixels = pixels[None] if pixels.ndim == 2 else pixels
    levels = profile.pop("levels", None)
    profile = {"crs": "EPSG:32633", "transform": from_origin(100, 200, 10, 10), **profile}
    count, height, width = pixels.shape
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(
            path, "w", driver="GTiff", count=count, height=height, width=width, dtype=pixels.dtype, **profile
        ) as file,
    ):
        file.write(pixels)
        if masks is not None:
            file.write_mask(np.asarray(masks))
        if levels:
            file.build_overviews(levels)
    return str(path)
