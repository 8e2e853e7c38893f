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
"""Options of `rasterio.open` that do not change the result."""
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
    """Open a GeoTIFF, COG or VRT mosaic like `rioxarray.open_rasterio`, without rasterio and GDAL.

    The dimensions are (band, y, x), bands are numbered from 1, coordinates are the centres of the pixels, and the
    coordinate `spatial_ref` holds the coordinate reference system and the transform. Pixels are read when they are
    needed.

    Parameters
    ----------
    filename : str, os.PathLike, bytes or binary file object
        A path, an http(s) or fsspec URL, the content of a file, or an object with `read`, `seek` and `tell`. The
        content of an object is kept in memory.
    parse_coordinates : bool, optional
        False omits the x and y coordinates. A rotated image has the two-dimensional coordinates xc and yc instead.
    chunks : int, tuple, dict, True or "auto", optional
        Return a dask array. An int is the length of a chunk along all dimensions, a tuple is in the order
        (band, y, x), a dict gives a length per dimension. True and "auto" choose chunks of one band and whole blocks
        of the file.
    cache : bool, optional
        Keep pixels in memory after the first read. The default is True without `chunks`.
    lock : object, optional
        Accepted for compatibility. Any number of threads can read a file at the same time.
    masked : bool, default False
        Replace missing pixels with NaN. Missing pixels are those that the mask of the file marks as invalid; without
        a mask, those that equal nodata; without nodata, those that are transparent in the alpha band. Integers of up
        to 16 bits become float32, others float64.
    mask_and_scale : bool, default False
        Mask, and apply the scale and offset of each band.
    variable, group : str or sequence of str, optional
        Accepted for compatibility. A TIFF has neither, so every value except None raises ValueError.
    default_name : str, optional
        Name of the array.
    decode_times, decode_timedelta : bool, optional
        Whether to decode the times of files that GDAL converted from netCDF; other files have none.
    band_as_variable : bool, default False
        Return a Dataset with one variable per band: band_1, band_2, ...
    band : int, str, or list of these, optional
        One band or several, by number from 1 or by name. The result always has a band dimension.
    storage_options : mapping, optional
        Options for the fsspec filesystem of a URL.
    threads : int, optional
        Number of decoding threads. None chooses a number by the amount of work.
    max_pixels : int, optional
        Raise an error if one read has more samples than this. None means no limit.
    **open_kwargs
        Options of `rasterio.open`: `overview_level=0` opens the first overview. Options that concern only GDAL are
        accepted if they do not change the result.

    Returns
    -------
    xarray.DataArray or xarray.Dataset
        A Dataset if `band_as_variable` is True.
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
    """Returns the level that `overview_level` selects (0 is the full resolution).

    Raises TypeError for unsupported options.
    """
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
    """Returns a path or URL as str, or the content of a file."""
    if type(filename).__module__.split(".")[0] == "rasterio":
        if type(filename).__name__ != "DatasetReader":
            raise TypeError(f"open_rasterio opens paths, URLs and file objects, not a {type(filename).__name__}.")
        filename = filename.name
    if is_file_like(filename):
        # The object may be closed, or in another process, when pixels are read.
        position = filename.tell()
        filename.seek(0)
        content = filename.read()
        filename.seek(position)
        if not isinstance(content, bytes | bytearray | memoryview):
            kind = type(content).__name__
            raise TypeError(f"{filename!r} returns {kind} instead of bytes: open it in binary mode")
        return content
    return coerce(filename)


def _open(source: Any, level: int, storage_options: Mapping[str, Any] | None) -> Raster:
    if is_vrt(source):
        # Only VRT files need this module, and importing it costs 13 ms (concurrent.futures, logging).
        from ..mosaic.open import mosaic_of

        if level:
            raise ValueError("overview_level is not supported for VRT sources.")
        mosaic = mosaic_of(source)
        return Raster(RasterInfo.of_vrt(mosaic.vrt, pam_attrs(source)), mosaic)
    remote: dict[str, Any] = {}
    if is_remote(source):
        # Fetches only the blocks that a read needs.
        remote = {"max_cloud_bytes": None}
        if storage_options is not None:
            remote["storage_options"] = storage_options
    header = header_of(source, **remote)
    header.warn_of_chain()
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
