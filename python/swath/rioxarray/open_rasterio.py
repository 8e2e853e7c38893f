"""`open_rasterio`: rasters as rioxarray presents them, read by Swath."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from ..errors import GeoTIFFFallbackWarning
from ..read.header import header_of
from ..read.request import bands_of, check_level_type, coerce, is_vrt, threads_of
from ..read.sidecars import pam_attrs
from ..read.source import Handle, is_file_like, is_remote
from .layout import Raster, Reading
from .raster_info import RasterInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    import xarray as xr

    from ..read.request import BandSelection

    Chunks = int | str | tuple[Any, ...] | Mapping[Any, Any]

HARMLESS = {"sharing", "thread_safe", "num_threads", "NUM_THREADS"}
"""Options of `rasterio.open` that do not change what is read."""
DRIVERS = {"GTIFF", "COG", "VRT"}
UNLIMITED = (1 << 63) - 1


def open_rasterio(
    filename: str | os.PathLike[str] | bytes | BinaryIO,
    parse_coordinates: bool | None = None,
    chunks: Chunks | None = None,
    cache: bool | None = None,
    lock: object | None = None,
    masked: bool = False,
    mask_and_scale: bool = False,
    variable: str | Sequence[str] | None = None,
    group: str | Sequence[str] | None = None,
    default_name: str | None = None,
    decode_times: bool = True,
    decode_timedelta: bool | None = None,
    band_as_variable: bool = False,
    *,
    band: BandSelection | None = None,
    storage_options: Mapping[str, Any] | None = None,
    threads: int | None = None,
    max_pixels: int | None = None,
    **open_kwargs: Any,
) -> xr.DataArray | xr.Dataset:
    """Open a GeoTIFF, COG or VRT mosaic as `rioxarray.open_rasterio` does, without rasterio and GDAL.

    The dimensions are (band, y, x), bands are numbered from 1, coordinates are the centres of pixels, and the
    coordinate `spatial_ref` has the coordinate reference system and the transform. Pixels are read when they are
    needed.

    Parameters
    ----------
    filename
        A path, an http(s) or fsspec URL, the bytes of a file, or an object with read, seek and tell, whose content is
        kept in memory.
    parse_coordinates
        False for no x and y coordinates. A rotated image has two-dimensional coordinates xc and yc in their place.
    chunks
        Give a dask array: the length of chunks along all dimensions, a tuple in the order (band, y, x), a dict by
        dimension, or True or "auto" for one band and whole blocks of the file in each chunk.
    cache
        Keep pixels in memory once they were read. The default is True without `chunks`.
    lock
        Accepted for compatibility: files are read by any number of threads at once.
    masked
        Turn missing pixels into NaN: those of the file's mask, else those that equal nodata, else those that are
        transparent by the alpha band. Integers of up to 16 bits become float32, others float64.
    mask_and_scale
        Mask, and apply the scale and offset of each band.
    variable, group
        Accepted for compatibility; a TIFF has neither, so that anything but None is an error.
    default_name
        Name of the array.
    decode_times, decode_timedelta
        Whether to decode times of files that GDAL has copied from netCDF; other files have none.
    band_as_variable
        Give a Dataset with a variable for each band: band_1, band_2 ...
    band
        One band or a list of bands, by number from 1 or by name. The result has a band dimension in any case.
    storage_options
        For the fsspec filesystem of a URL.
    threads
        How many threads decode; None for as many as the work is worth.
    max_pixels
        Refuse to hold more than this many samples at once; None for no limit.
    open_kwargs
        As for `rasterio.open`: `overview_level=0` opens the first overview. Options that only concern GDAL are
        accepted where they do not change the result.

    """
    _check_no_subdatasets(variable, group)
    level = _level_of(open_kwargs)
    raster = _open(_source_of(filename), level, storage_options)
    reading = Reading(
        raster,
        chunks=chunks,
        cache=chunks is None if cache is None else bool(cache),
        unpacked=bool(mask_and_scale),
        masked=bool(masked or mask_and_scale),
        parse_coordinates=parse_coordinates is None or bool(parse_coordinates),
        decode_times=bool(decode_times),
        decode_timedelta=bool(decode_times if decode_timedelta is None else decode_timedelta),
        threads=threads_of(threads),
        max_pixels=UNLIMITED if max_pixels is None else max_pixels,
    )
    bands, _ = bands_of(band, raster.info.descriptions, first=1)
    if band_as_variable:
        return reading.dataset(bands)
    return reading.array(bands, default_name)


def _check_no_subdatasets(variable: object, group: object) -> None:
    for name, value in (("variable", variable), ("group", group)):
        if value is not None:
            raise ValueError(f"open_rasterio: {name}={value!r} selects a subdataset; GeoTIFF and VRT have none.")


def _level_of(open_kwargs: dict[str, Any]) -> int:
    """The level that `overview_level` means (0: full resolution); TypeError for options that cannot be honoured."""
    overview = open_kwargs.pop("overview_level", None)
    check_level_type(overview)
    if overview is not None and overview < 0:
        raise ValueError(f"overview_level must be >= 0, got {overview}")
    driver, mode = open_kwargs.pop("driver", None), open_kwargs.pop("mode", "r")
    drivers = [driver] if isinstance(driver, str) else list(driver or DRIVERS)
    if not any(str(name).upper() in DRIVERS for name in drivers):
        raise ValueError(f"open_rasterio reads GeoTIFF and VRT files, not driver={driver!r}.")
    if mode != "r":
        raise ValueError(f"open_rasterio opens files to read, mode={mode!r} is not supported.")
    for name in open_kwargs:
        if name not in HARMLESS:
            raise TypeError(
                f"open_rasterio() got an unexpected keyword argument {name!r}: of the options of rasterio.open it "
                f"takes overview_level, driver and mode, and ignores {', '.join(sorted(HARMLESS))}."
            )
    return 0 if overview is None else int(overview) + 1


def _source_of(filename: Any) -> Any:
    """A path or URL as str, or the content of a file."""
    if type(filename).__module__.split(".")[0] == "rasterio":
        if type(filename).__name__ != "DatasetReader":
            raise TypeError(f"open_rasterio opens paths, URLs and file objects, not a {type(filename).__name__}.")
        filename = filename.name
    if is_file_like(filename):
        # The object may be closed, or needed in another process, when pixels are read.
        position = filename.tell()
        filename.seek(0)
        content = filename.read()
        filename.seek(position)
        if not isinstance(content, bytes | bytearray | memoryview):
            kind = type(content).__name__
            raise TypeError(f"{filename!r} gives {kind} where bytes are needed: open it in binary mode")
        return content
    return coerce(filename)


def _open(source: Any, level: int, storage_options: Mapping[str, Any] | None) -> Raster:
    if is_vrt(source):
        # Only VRT files need it, and it imports concurrent.futures and logging: 13 ms.
        from ..mosaic.open import mosaic_of

        if level:
            raise ValueError("overview_level is not supported for VRT sources.")
        mosaic = mosaic_of(source)
        return Raster(RasterInfo.of_vrt(mosaic.vrt, pam_attrs(source)), mosaic)
    remote: dict[str, Any] = {}
    if is_remote(source):
        # Only the blocks that are looked at are fetched.
        remote = {"max_cloud_bytes": None}
        if storage_options is not None:
            remote["storage_options"] = storage_options
    header = header_of(source, **remote)
    if level >= len(header.levels):
        raise ValueError(
            f"overview_level={level - 1} is out of range: the image has {len(header.levels) - 1} overviews, and "
            "overview_level=0 is the first."
        )
    images = header.description["images"]
    if images > 1:
        warnings.warn(
            f"the file has {images} images (pages); open_rasterio opens the first of them.",
            GeoTIFFFallbackWarning,
            stacklevel=3,
        )
    name = source if isinstance(source, str) else None
    return Raster(RasterInfo.of_tiff(header, level, name), header.handle or Handle(source, header.file), level)
