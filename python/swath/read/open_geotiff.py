"""`open_geotiff`: checks the arguments in a fixed order and selects the reader."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..gpu.arrays import require_gpu
from ..gpu.several import shared_read
from ..xarray.dask import check_chunks
from ..xarray.spatial_ref import with_spatial_ref
from .prepare import Prepared as Prepared
from .prepare import prepare as prepare
from .prepare import stem_of
from .request import (
    UNSET,
    Unset,
    check_combination,
    check_device_settings,
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
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO, Literal

    import numpy.typing as npt
    import xarray as xr

    from .request import BandSelection, DeviceSettings

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
    decoder: Literal["auto", "builtin", "nvcomp"] | None = None,
    storage: Literal["auto", "cufile", "posix"] | None = None,
    gpu_memory: int | None = None,
    device: str | None = None,
    stream: Any = None,
    devices: Sequence[int | str] | None = None,
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
    limits: Mapping[str, int] | None = None,
) -> xr.DataArray:
    """Read a GeoTIFF, COG or VRT mosaic as a DataArray.

    The dimensions are (y, x), or (y, x, band) if the result has several bands. The x and y coordinates are the
    centres of the pixels, or row and column numbers if the file has no transform. The band coordinate is the number
    of the band in the file, counted from 0.

    Parameters
    ----------
    source : str, os.PathLike, bytes or binary file object
        A path, an http(s) or fsspec URL, the content of a file, or an object with `read`, `seek` and `tell`. A name
        that ends in `.vrt` is read as a mosaic. Content and file objects are read immediately, on the CPU.
    dtype : dtype, optional
        Type of the result; the cast happens after masking and scaling. A cast from float to integer raises ValueError.
    window : tuple of int, optional
        (row_start, col_start, row_stop, col_stop) in pixels of the level that is read.
    bbox : tuple of float, optional
        (x_min, y_min, x_max, y_max) in the CRS of the file, instead of `window`. Selects every pixel that the box
        touches.
    overview_level : int, optional
        0 or None reads the full resolution, n reads the n-th overview, from the file or from its `.ovr` file.
    band : int, str, or list of these, optional
        A single band, by its number from 0 or by its name (its description in the file), gives a result without a
        band axis. A list gives these bands in this order, with a band axis. None reads all bands.
    default_name : str, optional
        Name of the array. None uses the file name without its suffix.
    name : str, optional
        Deprecated: use `default_name`.
    chunks : int, tuple, dict or "auto", optional
        Return a dask array. An int or a pair gives the rows and columns of a chunk, a dict gives a size per
        dimension, and "auto" chooses chunks that end at tile borders. The call reads only the header.
    gpu : bool, default False
        Decode on a GPU and return a CuPy array, or with `chunks` a dask array of CuPy arrays.
    max_pixels : int, optional
        Raise an error if the result, or one chunk of it, has more samples than this. None means 1e9.
    max_cloud_bytes : int or None, default 256 MiB
        Raise an error if an fsspec object is larger than this. None means no limit.
    on_gpu_failure : {"auto", "strict"}, default "auto"
        Action if the GPU fails: "auto" warns and uses the CPU, "strict" raises.
    decoder : {"auto", "builtin", "nvcomp"}, optional
        With gpu=True, the decoder: NVIDIA's libraries where they are installed, never, or required. Use "builtin" for
        files from untrusted sources. None uses SWATH_DECODER, or "auto".
    storage : {"auto", "cufile", "posix"}, optional
        With gpu=True, how bytes reach the GPU. None uses SWATH_STORAGE, or "auto".
    gpu_memory : int, optional
        With gpu=True, limit of the GPU memory that decoding needs beside the result, in millions of bytes. None uses
        SWATH_GPU_MEMORY, or a quarter of the free memory, up to 4 GiB.
    device : str, optional
        With gpu=True, the CUDA device: "cuda" or "cuda:1". None uses the device in SWATH_DEVICE if it is a CUDA device,
        or CuPy's current device, with `chunks` that of the thread or worker that decodes the chunk.
    stream : int or stream, optional
        With gpu=True and without `chunks`, the CUDA stream in which the result is used, as in `read_device`. None is
        CuPy's current stream.
    devices : list of int or str, optional
        GPUs that decode together into a NumPy array (or the chunks of dask), each a range of rows: numbers of CUDA
        devices, or names such as "opencl:1". Not with gpu=True, because a CuPy array is on one device. If a device
        fails, the CPU reads, as `on_gpu_failure` says.
    missing_sources : {"raise", "warn"}, default "raise"
        Action if a file of a mosaic is missing: "warn" leaves a hole and lists it in attrs["vrt_holes"].
    allow_rotated : bool, default False
        Read a rotated or sheared image as a grid of pixels without CRS; attrs["rotated_affine"] holds the transform.
    allow_unparseable_crs : bool, default False
        Keep the text of a CRS that cannot be parsed.
    allow_invalid_nodata : bool, default False
        Read an integer image whose nodata value is NaN, infinite or fractional; no pixel is masked then.
    stable_only : bool, default False
        Raise an error for mosaics and remote files, unless `allow_experimental_codecs` is set.
    allow_experimental_codecs, allow_internal_only_jpeg : bool, default False
        Accepted for compatibility. Swath reads every codec without them.
    band_nodata : {None, "first"}
        For a mosaic whose bands have different nodata values: None raises an error, "first" uses the value of the
        first band.
    masked : bool, default False
        Replace nodata pixels, and pixels that the mask of the file (or its `.msk` file) marks as invalid, with NaN.
        Integers become float64 if there is a mask or if their type can hold the nodata value. attrs["nodata"] is then
        NaN; encoding["_FillValue"] holds the value of the file, and `to_geotiff` restores it.
    mask_nodata : bool, optional
        Deprecated: use `masked`.
    unpack : bool, default False
        Mask, and apply the scale and offset of each band. `encoding` holds both, and `to_geotiff` packs again.
    mask_and_scale : bool, optional
        Deprecated: use `unpack`.
    parse_coordinates : bool, default True
        Whether to add x and y coordinates.
    lock, cache : optional
        Accepted for compatibility. They have no effect; a warning says so.
    threads : int, optional
        Number of decoding threads. None chooses a number by the amount of work.
    report : dict, optional
        A dict that the call fills with a report of the read: device, codecs, times. See also `last_report`.
    spatial_ref : bool, default False
        Add the coordinate `spatial_ref`, from which rioxarray takes the CRS.
    storage_options : mapping, optional
        Options for the fsspec filesystem of a URL.
    limits : mapping of str to int, optional
        Limits against hostile files for this file, such as {"max_block_memory": 64 << 20}; docs/limits.md lists them.
        `set_limits` sets them for the process. For a mosaic, they apply to its document and to each source.

    Returns
    -------
    xarray.DataArray
        The pixels with coordinates and attributes; lazy if `chunks` is given.

    Examples
    --------
    >>> dem = swath.open_geotiff("dem.tif", window=(0, 0, 512, 512), masked=True)
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
        on_gpu_failure=UNSET if devices is not None and on_gpu_failure in ("auto", "strict") else on_gpu_failure,
        missing_sources=missing_sources,
        band_nodata=band_nodata,
        unpack=unpack,
        parse_coordinates=parse_coordinates,
    )
    on_device: DeviceSettings = {
        "decoder": decoder,
        "storage": storage,
        "gpu_memory": gpu_memory,
        "device": device,
        "stream": stream,
    }
    if stream is not None and chunks is not None:
        raise ValueError(
            "stream does not apply with chunks: each chunk is decoded in the current stream of its thread."
        )
    if limits is not None:
        limits = dict(limits)
    if devices is not None and (device is not None or stream is not None):
        raise ValueError("device and stream only apply with gpu=True, and devices only without it.")
    check_device_settings(on_device, bool(gpu) or devices is not None, is_vrt(asked))
    on_failure = "auto" if isinstance(on_gpu_failure, Unset) else on_gpu_failure
    shared = None if devices is None else shared_read(devices, bool(gpu), on_failure, on_device)
    if shared is not None and is_vrt(asked):
        raise ValueError("devices is not supported for VRT sources, which the GPU does not decode.")
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
            limits=limits,
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
            limits=limits,
            shared=shared,
        )
        data, seen = prepared.pixels(chunks, bool(gpu), on_failure, done, on_device)
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
    # Only VRT files need this module, and importing it costs 13 ms (concurrent.futures, logging).
    from ..mosaic.open import open_vrt

    array = open_vrt(path, **request)
    array.attrs.update(pam_attrs(path))
    return array
