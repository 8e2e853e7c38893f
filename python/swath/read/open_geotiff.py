"""`open_geotiff`: what was asked for, in the order in which it is looked at, and who does it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..gpu.arrays import require_gpu
from ..xarray.dask import check_chunks
from ..xarray.spatial_ref import with_spatial_ref
from .prepare import Prepared as Prepared
from .prepare import prepare as prepare
from .prepare import stem_of
from .request import (
    UNSET,
    Unset,
    check_combination,
    check_stable,
    check_vrt_request,
    coerce,
    is_vrt,
    replaced,
    report_of,
    threads_of,
    warn_of_idle,
)
from .sidecars import pam_attrs
from .source import is_remote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO, Literal

    import numpy.typing as npt
    import xarray as xr

    from .request import BandSelection

    Chunks = int | str | tuple[int, int] | dict[str, Any]


def open_geotiff(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    dtype: npt.DTypeLike | None = None,
    window: tuple[int, int, int, int] | None = None,
    bbox: tuple[float, float, float, float] | None = None,
    overview_level: int | None = None,
    band: BandSelection | None = None,
    default_name: str | None = None,
    name: str | None | Unset = UNSET,
    chunks: Chunks | None = None,
    gpu: bool = False,
    max_pixels: int | None = None,
    max_cloud_bytes: int | None | Unset = UNSET,
    on_gpu_failure: Literal["auto", "strict"] | Unset = UNSET,
    missing_sources: Literal["raise", "warn"] | Unset = UNSET,
    allow_rotated: bool = False,
    allow_unparseable_crs: bool = False,
    allow_invalid_nodata: bool = False,
    stable_only: bool = False,
    allow_experimental_codecs: bool = False,
    allow_internal_only_jpeg: bool = False,
    band_nodata: Literal["first"] | None = None,
    masked: bool = False,
    mask_nodata: bool | Unset = UNSET,
    unpack: bool = False,
    mask_and_scale: bool | Unset = UNSET,
    parse_coordinates: bool = True,
    lock: object | None = None,
    cache: bool = True,
    threads: int | None = None,
    report: dict[str, Any] | None = None,
    spatial_ref: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> xr.DataArray:
    """Read a GeoTIFF, COG or VRT mosaic as a DataArray.

    The dimensions are (y, x), or (y, x, band) when there are several bands. Coordinates are the centres of pixels, or
    row and column numbers where the file has no transform, and the numbers of bands in the file, from 0.

    Parameters
    ----------
    source
        A path, an http(s) or fsspec URL, the bytes of a file, or an object with read, seek and tell. A name that ends
        in `.vrt` is read as a mosaic. Bytes and objects are read at once, on the CPU.
    dtype
        Cast the result, after masking and scaling. Float to integer is refused.
    window
        (row_start, col_start, row_stop, col_stop) in pixels of the level that is read.
    bbox
        (x_min, y_min, x_max, y_max) in the file's CRS, in place of `window`: all pixels that it touches.
    overview_level
        0 or None for the full resolution, n for the n-th overview, of the file or of its `.ovr`.
    band
        One band, by its number from 0 or by its name (the band's description in the file), without a band axis. A
        list of numbers or names: these bands, in this order, with a band axis. None for all.
    default_name
        Name of the array. None for the file name without its suffix.
    name
        Deprecated: `default_name`.
    chunks
        Give a dask array: rows and columns of chunks (an int or a pair), a dict by dimension, or "auto" for chunks
        that end where tiles end. Only the header is read now.
    gpu
        Decode on a GPU and give a CuPy array; with `chunks`, dask over CuPy.
    max_pixels
        Refuse to hold more than this many samples at once (1e9 when None): the whole result, or a chunk of it.
    max_cloud_bytes
        Refuse fsspec objects larger than this (256 MiB; None for no limit).
    on_gpu_failure
        "auto": where the GPU fails, warn and use the CPU. "strict": raise.
    missing_sources
        Of a mosaic: "raise", or "warn" and leave holes, listed in attrs["vrt_holes"].
    allow_rotated
        Read a rotated or sheared image as a grid of pixels: no CRS, attrs["rotated_affine"] has the transform.
    allow_unparseable_crs
        Keep the text of a CRS that cannot be parsed.
    allow_invalid_nodata
        Read an integer image although its nodata value is NaN, infinite or fractional; nothing is masked then.
    stable_only
        Refuse mosaics and remote files, unless `allow_experimental_codecs` is set.
    allow_experimental_codecs, allow_internal_only_jpeg
        Accepted for compatibility. Every codec is read without them.
    band_nodata
        Of a mosaic whose bands have different nodata values: None refuses it, "first" takes that of the first band.
    masked
        Turn nodata into NaN, and what a mask of the file (or its `.msk`) leaves out. Integers become float64 when there
        is a mask or when their type has the nodata value. attrs["nodata"] is NaN then; the value of the file is in
        encoding["_FillValue"], and `to_geotiff` restores it.
    mask_nodata
        Deprecated: `masked`.
    unpack
        Apply the scale and offset of each band, and mask. They are in `encoding`, and `to_geotiff` packs again.
    mask_and_scale
        Deprecated: `unpack`.
    parse_coordinates
        False for no x and y coordinates.
    lock, cache
        Accepted for compatibility. They do nothing, and say so.
    threads
        How many threads decode; None for as many as the work is worth.
    report
        A dict that is filled with what was done where. See also `last_report`.
    spatial_ref
        Add the coordinate `spatial_ref`, by which rioxarray knows the CRS.
    storage_options
        For the fsspec filesystem of a URL.

    """
    asked: Any = coerce(source)
    masked = replaced("masked", masked, "mask_nodata", mask_nodata, False, _SINCE_MASKED)
    default_name = replaced("default_name", default_name, "name", name, None, " to match rioxarray's open_rasterio.")
    unpack = replaced("unpack", unpack, "mask_and_scale", mask_and_scale, False, _SINCE_UNPACK)
    warn_of_idle(lock, cache)
    check_combination(
        asked,
        overview_level=overview_level,
        chunks=chunks,
        gpu=gpu,
        max_cloud_bytes=max_cloud_bytes,
        on_gpu_failure=on_gpu_failure,
        missing_sources=missing_sources,
        band_nodata=band_nodata,
        unpack=unpack,
        parse_coordinates=parse_coordinates,
    )
    if stable_only and not allow_experimental_codecs:
        check_stable(asked)
    if window is not None and bbox is not None:
        raise ValueError("open_geotiff: window= and bbox= are mutually exclusive; pass one or the other.")
    if chunks is not None:
        check_chunks(chunks)
    done = report_of(report)
    threads = threads_of(threads)
    if is_vrt(asked):
        check_vrt_request(overview_level, missing_sources, band_nodata)
        array = _open_mosaic(
            asked,
            window=window,
            bbox=bbox,
            band=band,
            chunks=chunks,
            gpu=bool(gpu),
            max_pixels=max_pixels,
            missing_sources="raise" if isinstance(missing_sources, Unset) else missing_sources,
            band_nodata=band_nodata,
            masked=bool(masked),
            dtype=dtype,
            default_name=stem_of(asked) if default_name is None else default_name,
            allow_rotated=allow_rotated,
            allow_unparseable_crs=allow_unparseable_crs,
            allow_invalid_nodata=allow_invalid_nodata,
            threads=threads,
            report=done,
        )
    else:
        if gpu:
            require_gpu()
        remote: dict[str, Any] = {}
        if is_remote(asked):
            if storage_options is not None:
                remote["storage_options"] = storage_options
            if chunks is not None:
                remote["max_cloud_bytes"] = None
            elif not isinstance(max_cloud_bytes, Unset):
                remote["max_cloud_bytes"] = max_cloud_bytes
        prepared = prepare(
            asked,
            dtype=dtype,
            window=window,
            bbox=bbox,
            overview_level=overview_level,
            band=band,
            default_name=default_name,
            max_pixels=max_pixels,
            allow_rotated=allow_rotated,
            allow_unparseable_crs=allow_unparseable_crs,
            allow_invalid_nodata=allow_invalid_nodata,
            masked=masked,
            unpack=unpack,
            threads=threads,
            remote=remote,
        )
        data, seen = prepared.pixels(
            chunks, bool(gpu), "auto" if isinstance(on_gpu_failure, Unset) else on_gpu_failure, done
        )
        array = prepared.array(data, seen, parse_coordinates)
    if spatial_ref:
        array = with_spatial_ref(array)
    return array


_SINCE_MASKED = (
    ". Note the default also changed from mask_nodata=True to masked=False to match rioxarray's open_rasterio: a bare "
    "open_geotiff(path) no longer promotes the nodata sentinel to NaN."
)
_SINCE_UNPACK = (
    ". The behaviour is unchanged: it applies the source's GDAL SCALE / OFFSET and masks the nodata sentinel."
)


def _open_mosaic(path: str, **request: Any) -> xr.DataArray:
    # Only VRT files need it, and it imports concurrent.futures and logging: 13 ms.
    from ..mosaic.open import open_vrt

    array = open_vrt(path, **request)
    array.attrs.update(pam_attrs(path))
    return array
