"""rasterio with GDAL's default GeoTIFF driver, and GDAL's COG driver for COGs."""

from typing import Any

from contestants import gdal
from fresh_process import first_open as in_fresh_process

version = gdal.version
convert_cog = gdal.convert_cog


def full_read(job: Any) -> Any:
    return gdal.full_read(job, "GTiff")


def windows(job: Any) -> Any:
    return gdal.windows(job, "GTiff")


def windows_reopened(job: Any) -> Any:
    return gdal.windows_reopened(job, "GTiff")


def open_window(job: Any) -> Any:
    return gdal.open_window(job, "GTiff")


def headers(job: Any) -> Any:
    return gdal.headers(job, "GTiff")


def small_files(job: Any) -> Any:
    return gdal.small_files(job, "GTiff")


def first_open(job: Any) -> dict:
    return in_fresh_process("import rasterio", "rasterio.open(path).read()", job)


def prepare_write(job: Any) -> None:
    job.bands_first  # noqa: B018 - makes the array before the clock starts


def write(job: Any) -> None:
    gdal.write(job, "GTiff", gdal.gtiff_options(job))


prepare_cog = prepare_write


def cog(job: Any) -> None:
    gdal.write(job, "COG", gdal.cog_options(job))
