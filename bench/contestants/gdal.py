"""What the contestants that call rasterio share. GDAL_CACHEMAX is left at its default, 5 % of memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.windows import Window

PLACE = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 5100000)}


def version() -> str:
    return f"rasterio {rasterio.__version__}, GDAL {rasterio.__gdal_version__}"


def opened(path: str, driver: str, threads: int) -> Any:
    return rasterio.open(path, driver=driver, NUM_THREADS=str(threads))


def window_of(window: list[int]) -> Window:
    row, col, row_stop, col_stop = window
    return Window(col, row, col_stop - col, row_stop - row)


def full_read(job: Any, driver: str) -> np.ndarray:
    with opened(job.path, driver, job.threads) as dataset:
        return dataset.read()


def windows(job: Any, driver: str) -> Iterator[np.ndarray]:
    with opened(job.path, driver, job.threads) as dataset:
        for window in job.windows:
            yield dataset.read(window=window_of(window))


def windows_reopened(job: Any, driver: str) -> Iterator[np.ndarray]:
    for window in job.windows:
        with opened(job.path, driver, job.threads) as dataset:
            yield dataset.read(window=window_of(window))


def open_window(job: Any, driver: str) -> Iterator[np.ndarray]:
    window = window_of(job.windows[0])
    for path in job.paths:
        with opened(path, driver, job.threads) as dataset:
            yield dataset.read(window=window)


def headers(job: Any, driver: str) -> Iterator[None]:
    for path in job.paths:
        with rasterio.open(path, driver=driver) as dataset:
            yield dataset.profile and None


def small_files(job: Any, driver: str) -> Iterator[np.ndarray]:
    for path in job.paths:
        with rasterio.open(path, driver=driver) as dataset:
            yield dataset.read()


def profile(array: np.ndarray) -> dict[str, Any]:
    bands, height, width = array.shape
    return {"count": bands, "height": height, "width": width, "dtype": array.dtype} | PLACE


def gtiff_options(job: Any) -> dict[str, Any]:
    options = {"TILED": "YES", "BLOCKXSIZE": job.tile, "BLOCKYSIZE": job.tile, "INTERLEAVE": "PIXEL"}
    options |= {"COMPRESS": job.codec, "PREDICTOR": job.predictor, "NUM_THREADS": job.threads, "BIGTIFF": "IF_SAFER"}
    levels = {"deflate": "ZLEVEL", "zstd": "ZSTD_LEVEL"}
    return options | ({levels[job.codec]: job.level} if job.codec in levels else {})


def cog_options(job: Any) -> dict[str, Any]:
    predictor = {1: "NO", 2: "STANDARD", 3: "FLOATING_POINT"}[job.predictor]
    options = {"BLOCKSIZE": job.tile, "COMPRESS": job.codec, "PREDICTOR": predictor, "NUM_THREADS": job.threads}
    options |= {"OVERVIEW_RESAMPLING": "AVERAGE", "BIGTIFF": "IF_SAFER"}
    return options | ({} if job.level is None else {"LEVEL": job.level})


def write(job: Any, driver: str, options: dict[str, Any]) -> None:
    Path(job.target).unlink(missing_ok=True)
    with rasterio.open(job.target, "w", driver=driver, **profile(job.bands_first), **options) as dataset:
        dataset.write(job.bands_first)


def convert_cog(job: Any) -> None:
    with rasterio.open(job.path) as dataset:
        rasterio.shutil.copy(dataset, job.target, driver="COG", **cog_options(job))
