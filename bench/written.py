"""Checks a file that a contestant wrote, with rasterio."""

from pathlib import Path

import numpy as np
import rasterio
from rasterio.windows import Window

ROWS = 1024


def difference(path: Path, true: np.ndarray, overviews: bool) -> str:
    """How the file differs from the pixels that were to be written, or an empty string."""
    try:
        return compare(path, true, overviews)
    except rasterio.errors.RasterioError as error:
        return f"rasterio: {error}"


def compare(path: Path, true: np.ndarray, overviews: bool) -> str:
    height, width, _bands = true.shape
    with rasterio.open(path) as dataset:
        shape = (dataset.height, dataset.width, dataset.count)
        if shape != true.shape:
            return f"{shape} instead of {true.shape}"
        if overviews and not dataset.overviews(1):
            return "no overviews"
        for row in range(0, height, ROWS):
            rows = min(ROWS, height - row)
            found = dataset.read(window=Window(0, row, width, rows))
            if not np.array_equal(np.moveaxis(found, 0, 2), true[row : row + rows]):
                return f"pixels differ in rows {row} to {row + rows}"
    return ""
