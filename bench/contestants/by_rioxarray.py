"""rioxarray, which calls rasterio."""

from importlib.metadata import version as version_of
from typing import Any

import rioxarray  # noqa: F401 - adds .rio to DataArray

from contestants import gdal
from fresh_process import first_open as in_fresh_process


def version() -> str:
    return version_of("rioxarray")


def full_read(job: Any) -> Any:
    return rioxarray.open_rasterio(job.path, cache=False, NUM_THREADS=str(job.threads)).values


def first_open(job: Any) -> dict:
    return in_fresh_process("import rioxarray", "rioxarray.open_rasterio(path).values", job)


def prepare_write(job: Any) -> None:
    job.input = job.data_array(job.bands_first).rio.write_crs(32633)


def write(job: Any) -> None:
    job.input.rio.to_raster(job.target, driver="GTiff", **gdal.gtiff_options(job))


prepare_cog = prepare_write


def cog(job: Any) -> None:
    job.input.rio.to_raster(job.target, driver="COG", **gdal.cog_options(job))
