"""rasterio with GDAL's LIBERTIFF driver, which only reads: threads, libdeflate, no block cache."""

from typing import Any

from contestants import gdal

version = gdal.version


def full_read(job: Any) -> Any:
    return gdal.full_read(job, "LIBERTIFF")


def windows(job: Any) -> Any:
    return gdal.windows(job, "LIBERTIFF")


def windows_reopened(job: Any) -> Any:
    return gdal.windows_reopened(job, "LIBERTIFF")


def open_window(job: Any) -> Any:
    return gdal.open_window(job, "LIBERTIFF")


def headers(job: Any) -> Any:
    return gdal.headers(job, "LIBERTIFF")


def small_files(job: Any) -> Any:
    return gdal.small_files(job, "LIBERTIFF")
