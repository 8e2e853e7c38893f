"""rasterio with GDAL's default GeoTIFF driver, and GDAL's COG driver for COGs."""

from functools import partial
from typing import Any

from contestants import gdal
from fresh_process import first_open as in_fresh_process

version = gdal.version
convert_cog = gdal.convert_cog
full_read = partial(gdal.full_read, driver="GTiff")
windows = partial(gdal.windows, driver="GTiff")
windows_reopened = partial(gdal.windows_reopened, driver="GTiff")
open_window = partial(gdal.open_window, driver="GTiff")
headers = partial(gdal.headers, driver="GTiff")
small_files = partial(gdal.small_files, driver="GTiff")


def first_open(job: Any) -> dict:
    return in_fresh_process("import rasterio", "rasterio.open(path).read()", job)


def prepare_write(job: Any) -> None:
    job.bands_first  # noqa: B018 - makes the array before the clock starts


def write(job: Any) -> None:
    gdal.write(job, "GTiff", gdal.gtiff_options(job))


prepare_cog = prepare_write


def cog(job: Any) -> None:
    gdal.write(job, "COG", gdal.cog_options(job))
