"""rasterio with GDAL's LIBERTIFF driver, which only reads: threads, libdeflate, no block cache."""

from functools import partial

from contestants import gdal

version = gdal.version
full_read = partial(gdal.full_read, driver="LIBERTIFF")
windows = partial(gdal.windows, driver="LIBERTIFF")
windows_reopened = partial(gdal.windows_reopened, driver="LIBERTIFF")
open_window = partial(gdal.open_window, driver="LIBERTIFF")
headers = partial(gdal.headers, driver="LIBERTIFF")
small_files = partial(gdal.small_files, driver="LIBERTIFF")
