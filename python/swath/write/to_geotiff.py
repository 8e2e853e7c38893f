"""`to_geotiff`: checks the array and the options, then passes them to the engine."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from .. import _swath
from .._report import remember
from ..gpu.arrays import to_host
from ..gpu.several import device_names
from ..gpu.write import write_gpu
from ..read.request import NO_LIMIT, report_of, threads_of
from ..read.sidecars import Color
from ..remote.open import write_remote
from ..xarray.state import Number, ReadState, state_of
from ..xarray.structured import value_of
from .bands import Bands, bands_of, unlabelled
from .dataset import array_of
from .geo_keys import crs_options
from .layout import block_options, codec_options, overview_options, predictor_of
from .mask import is_wanted, validity_of
from .metadata import metadata_options
from .pack import NotPackableError
from .placement import raster_type_of, transform_of
from .progress import Progress, shown
from .ramps import ramp_of, ramp_range_of
from .raster import Raster, Step, is_data_array, is_dataset, raster_of, upright
from .sidecars import NO_CONTENTS, Contents, categories_of, class_contents, ramp_contents
from .storage import Storage, storage_of
from .stream import delayed, make_parent, source_of

if TYPE_CHECKING:
    from .._swath import Options

_BUFFER = 256 << 20


def to_geotiff(
    data: Any,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    crs: Any = None,
    nodata: float | int | None = None,
    compression: str = "zstd",
    compression_level: int | None = None,
    tiled: bool = True,
    tile_size: int = 256,
    predictor: bool | int | str = False,
    cog: bool = False,
    overview_levels: list[int] | None = None,
    overview_resampling: str = "mean",
    bigtiff: bool | None = None,
    gpu: bool | None = None,
    encoder: Literal["auto", "builtin", "nvcomp", "cpu"] | None = None,
    storage: Literal["auto", "cufile", "posix"] | None = None,
    gpu_memory: int | None = None,
    device: str | None = None,
    stream: Any = None,
    devices: Sequence[int | str] | None = None,
    streaming_buffer_bytes: int = _BUFFER,
    max_z_error: float = 0.0,
    photometric: str | int = "auto",
    allow_internal_only_jpeg: bool = False,
    allow_experimental_codecs: bool = False,
    allow_unparseable_crs: bool = False,
    drop_rotation: bool = False,
    pack: bool | None = None,
    color_ramp: str | bool | None = None,
    color_ramp_range: tuple[float, float] | None = None,
    compute: bool = True,
    progress: bool | Progress | None = None,
    threads: int | None = None,
    statistics: bool = False,
    quality: float | None = None,
    interleave: str = "pixel",
    keep_rotation: bool = False,
    mask: Any = None,
    overwrite: bool = True,
    sync: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    report: dict[str, Any] | None = None,
) -> Any:
    """Write an array as a GeoTIFF or a Cloud Optimized GeoTIFF.

    The target appears complete or not at all. A dask array is computed a few rows at a time and each of its chunks
    once, also for COGs. The bytes of the file depend only on the pixels and the options, not on chunks, strides,
    threads or memory.

    The file describes the current state of the array. The coordinates give its position (they must be evenly spaced,
    else NonUniformCoordsError), the labels of the `band` coordinate name its bands, and NaN is the missing value of
    floats. The scale, offset, nodata value and type of the file from which an array was read are in its `encoding`,
    which xarray drops when values are computed. docs/from-rioxarray.md has the complete list.

    Parameters
    ----------
    data : DataArray, Dataset or array
        An array may be a NumPy, dask or CuPy array or any object with DLPack. The dims of a DataArray may have any
        order; their names identify them (band / bands / channel, y / lat / latitude / row,
        x / lon / longitude / col). The variables of a Dataset become bands with their names. An array without dims is
        (y, x), (y, x, band), or (band, y, x) if the first axis is the shortest and the last has more than 32 entries.
        float16 is stored as float32, bool as uint8. Masked pixels of a NumPy masked array become nodata.
    path : str, os.PathLike or binary file object
        A path, an fsspec URI, or a file object, which is truncated first. A name that ends in `.vrt` writes a
        directory of tiles with an index.
    crs : int, str or CRS object, optional
        EPSG code, WKT or PROJ text (PROJ text needs pyproj), or an object of pyproj, rasterio or odc-geo. The default
        is the first of the coordinate `spatial_ref`, attrs['crs'] and attrs['crs_wkt'] that exists.
    nodata : float or int, optional
        The value of missing pixels; NaN is replaced with it. A value that the stored type cannot hold is an error. The
        default is the first of encoding['_FillValue'], attrs['nodata'], attrs['nodatavals'] and attrs['_FillValue']
        that exists.
    compression : str, default "zstd"
        none, deflate, lzw, packbits, zstd, lz4, lzma, lerc, lerc_deflate, lerc_zstd, jpeg, jpeg2000 (j2k), webp.
    compression_level : int, optional
        deflate 1-9, zstd 1-22, lzma 0-9, lerc_deflate 1-12, lerc_zstd 1-22; the default is 6. lz4 accepts 0-16 and,
        like every codec without levels, ignores it.
    tiled : bool, default True
        Whether to write square tiles. False writes strips of 256 rows.
    tile_size : int, default 256
        Rows and columns of a tile; a multiple of 16.
    predictor : bool, int or str, default False
        False or 1 for none, True or 2 for horizontal differences, 3 for floats, 'auto' for the best one for the type.
    cog : bool, default False
        Write a Cloud Optimized GeoTIFF, with overviews.
    overview_levels : list of int, optional
        Factors of the overviews of a COG; powers of two. By default each overview halves the previous one until an
        overview fits in one tile.
    overview_resampling : str, default "mean"
        mean (nearest for classes and palettes), nearest, min, max, median, mode, cubic, bilinear or gauss.
    bigtiff : bool, optional
        Whether to write a BigTIFF. None writes one if the file would be too large for a classic TIFF.
    gpu : bool, optional
        Whether to encode on a GPU. None encodes on a GPU if the array is on one.
    encoder : {"auto", "builtin", "nvcomp", "cpu"}, optional
        On a GPU, what compresses tiles. "auto": NVIDIA's libraries where they are installed, else the CPU. "builtin":
        Swath's kernels for deflate (about as large as level 1), lzw and packbits. "nvcomp": NVIDIA's libraries,
        required. "cpu": the CPU. None uses SWATH_ENCODER, or "auto".
    storage : {"auto", "cufile", "posix"}, optional
        On a GPU, how compressed tiles reach the file. None uses SWATH_STORAGE, or "auto".
    gpu_memory : int, optional
        On a GPU, limit of the memory that encoding needs, in millions of bytes. None uses SWATH_GPU_MEMORY, or has no
        limit.
    device : str, optional
        The GPU that encodes: "cuda", "cuda:1" or "opencl". None uses the device that holds the array; for an array in
        host memory that of SWATH_DEVICE, or the first CUDA device.
    stream : int or stream, optional
        For an array on a CUDA device, the stream in which it is ready: a handle, a stream of CuPy or PyTorch, or an
        object with `__cuda_stream__`. The device reads the array after the work that the stream has at the call, and
        Python does not wait for that work. When the call returns, the array may be changed. None waits for the stream
        that the array names.
    devices : list of int or str, optional
        With gpu=True, GPUs that encode strips of rows in turns: numbers of CUDA devices, or names such as "opencl:1".
        The file is the same. An image with overviews is encoded by the first device. Not for arrays on a GPU.
    streaming_buffer_bytes : int, default 256 MiB
        Memory for rows of pixels. At least one row of tiles, or of the chunks of a dask array, is always held.
    max_z_error : float, default 0.0
        The largest change of a value that lerc may make.
    photometric : str or int, default "auto"
        auto (RGB if attrs['colorinterp'] says so, a palette if attrs['colormap'] has one, else MinIsBlack),
        minisblack, miniswhite, rgb, rgba, or the number of the tag. Pixels are never inverted.
    allow_internal_only_jpeg, allow_experimental_codecs : bool, default False
        Accepted for compatibility, without effect. No codec needs a permission.
    allow_unparseable_crs : bool, default False
        Store the text of a CRS that cannot be parsed without changes.
    drop_rotation, keep_rotation : bool, default False
        Write the pixels without a rotated transform, or with it. If both are False, a rotated transform is an error.
    pack : bool, optional
        For values that were masked or unpacked when they were read: whether to store them in the type of their file,
        with its scale and nodata. None does so if it changes no value. True always does so and rounds. False stores
        the values without packing.
    color_ramp : str or bool, optional
        Write a `.qml` style file (viridis, plasma, magma, inferno, cividis, greys, spectral, terrain) and statistics
        for this file.
    color_ramp_range : tuple of float, optional
        The values at the two ends of the color ramp.
    compute : bool, default True
        False returns a dask Delayed that writes the file when it is computed.
    progress : bool or callable, optional
        True shows a progress bar. A callable receives the number of bytes done and the total; an exception that it
        raises stops the write.
    threads : int, optional
        Number of encoding threads. None uses the cores that are available to this process.
    statistics : bool, default False
        Store exact statistics of each band in the file.
    quality : float, optional
        Quality of jpeg, webp and jpeg2000, from 1 to 100.
    interleave : {"pixel", "band"}, default "pixel"
        'pixel' stores the bands of a pixel together, 'band' stores each band in its own blocks.
    mask : array or bool, optional
        Write a validity mask: an array (y, x) that is non-zero where pixels are valid, or True to mark NaN and nodata
        pixels as invalid. None writes a mask if the array was read with one (masked=True).
    overwrite : bool, default True
        Whether to replace an existing file. False raises FileExistsError if the file exists.
    sync : bool, optional
        Whether to wait until the file is on the disk. A file that was not waited for may be lost if the power fails
        within the next seconds. None waits if the file replaces another one, or is on a network file system.
    storage_options : mapping, optional
        Options for the fsspec filesystem of a URI.
    report : dict, optional
        A dict that the call fills with a report of the write; `swath.last_report()` returns it too.

    Returns
    -------
    str, file object or dask Delayed
        The path, the file object, or, with compute=False, the Delayed.

    Examples
    --------
    >>> swath.to_geotiff(dem, "dem.tif", cog=True, compression="deflate", predictor="auto")
    """
    ramp, span = ramp_of(color_ramp), ramp_range_of(color_ramp_range)
    target = _target_of(path)
    if gpu is not None and not isinstance(gpu, bool | np.bool_):
        raise TypeError(f"gpu must be a bool or None, got {type(gpu).__name__}: {gpu!r}")
    options = codec_options(compression, compression_level, max_z_error, quality)
    if is_dataset(data):
        data = array_of(data, has_crs=crs is not None, has_nodata=nodata is not None)
    if is_data_array(data):
        data = upright(data)
    raster = raster_of(data)
    on_gpu = raster.is_on_device if gpu is None else bool(gpu)
    on_device: dict[str, Any] = {
        "encoder": encoder,
        "storage": storage,
        "gpu_memory": gpu_memory,
        "device": device,
        "stream": stream,
    }
    if stream is not None and (raster.is_dask or not raster.is_on_device):
        raise ValueError("stream only applies to an array on a GPU that is not a dask array.")
    for name in (name for name, value in on_device.items() if value is not None and not on_gpu):
        raise ValueError(f"{name} only applies to writes on a GPU. Pass gpu=True.")
    if devices is not None:
        if not on_gpu:
            raise ValueError("devices only applies to writes on a GPU. Pass gpu=True.")
        if raster.is_on_device:
            raise ValueError("devices does not apply to an array on a GPU, which that GPU writes.")
        if device is not None:
            raise ValueError("device and devices both choose the GPU: pass one of them.")
        on_device["device"] = device_names(devices)
    if raster.is_on_device and not on_gpu and not raster.is_dask:
        raster = dataclasses.replace(raster, array=to_host(raster.array))
    _check_combinations(
        target, on_gpu, cog=cog, tiled=tiled, overview_levels=overview_levels, max_z_error=max_z_error, mask=mask
    )
    options |= block_options(tiled, tile_size, cog, interleave)

    labelled = data if is_data_array(data) else None
    state = None if labelled is None else state_of(labelled.encoding)
    attrs = {} if labelled is None else _attributes(labelled, state)
    bands = unlabelled(raster) if labelled is None else bands_of(labelled, raster, attrs, state)
    alpha = None if state is None or not state.mask_in_samples else bands.position(state.bands - 1)
    if mask is None and not _is_vrt(target):
        mask = state is not None and state.by_mask and alpha is None
        if state is not None and state.mask is not None:
            mask = state.mask.of(labelled, raster)
    has_mask = is_wanted(mask)
    stored = storage_of(raster, labelled, bands, nodata=nodata, pack=pack, has_mask=has_mask, alpha=alpha)
    categories = _categories(attrs)
    located = crs_options(crs, labelled, allow_unparseable=bool(allow_unparseable_crs))
    located["raster_type"] = raster_type_of(attrs)
    if labelled is not None:
        located["transform"] = transform_of(
            labelled, drop_rotation=bool(drop_rotation), keep_rotation=bool(keep_rotation)
        )
    if not {"wkt", "geo_keys"} & located.keys() and located.get("transform") is None:
        located["raster_type"] = "area"
    if bigtiff is not None:
        options["big_tiff"] = bool(bigtiff)
    options["statistics"] = bool(statistics)

    def job_of(storage: Storage) -> Job:
        """Returns the write for one way of storing the values."""
        raster = _without_mask(storage.raster, storage.nodata, has_mask)
        raster = dataclasses.replace(raster, valid=validity_of(mask, labelled, raster, storage.nodata))
        made = options | located
        made["predictor"] = predictor_of(predictor, options["compression"], raster.dtype)
        _check_jpeg(options["compression"], raster)
        made |= metadata_options(
            attrs,
            raster,
            bands,
            photometric,
            scaling=storage.scaling,
            is_raw=state is not None and not state.unpacked,
            is_whole=_is_whole(attrs, state, raster, bands),
        )
        has_classes = categories is not None or made.get("colormap") is not None
        made |= overview_options(cog, overview_levels, overview_resampling, raster, has_classes)
        made["nodata"], made["nan_to_nodata"] = storage.nodata, storage.nan_to_nodata
        is_packed = storage.scaling is not None and bool(raster.steps)
        return Job(
            target,
            raster,
            made,
            _Sidecars(categories, ramp if raster.bands == 1 and not is_packed else None, span),
            on_gpu=on_gpu,
            on_device=on_device,
            tile_size=int(tile_size) if tiled else 0,
            threads=threads_of(threads),
            buffer_bytes=_bytes(streaming_buffer_bytes),
            overwrite=bool(overwrite),
            sync=None if sync is None else bool(sync),
            progress=progress,
            storage_options=storage_options,
            report=None if report is None else report_of(report),
            otherwise=None if storage.otherwise is None else job_of(storage.otherwise),
        )

    job = job_of(stored)
    return job.run() if compute else delayed(job.run)


def _attributes(data: Any, state: ReadState | None) -> dict[str, Any]:
    """Returns the attributes of a DataArray, completed by what `encoding` records of its file."""
    if state is None or state.attrs is None:
        return dict(data.attrs)
    return {**state.attrs, **data.attrs}


def _is_whole(attrs: Mapping[str, Any], state: ReadState | None, raster: Raster, bands: Bands) -> bool:
    """Whether an array has all pixels that were read and no others, judged by its shape and band labels."""
    if state is None:
        # With the attribute, the array was computed from pixels that were read. Without it, the user made the array and
        # its metadata.
        return "_swath_contract" not in attrs
    return state.shape == (raster.height, raster.width) and None not in bands.samples


@dataclasses.dataclass(frozen=True)
class _Sidecars:
    """The sidecar files of a write. A file with class names gets no color ramp."""

    categories: tuple[list[str], list[Color] | None] | None
    ramp: str | None
    span: tuple[float, float] | None

    @property
    def needs_statistics(self) -> bool:
        return self.categories is None and self.ramp is not None and self.span is None

    @property
    def is_empty(self) -> bool:
        return self.categories is None and self.ramp is None

    def contents(self, report: Mapping[str, Any]) -> Contents:
        """Returns what the engine stores beside the file when all pixels are written."""
        if self.categories is not None:
            return class_contents(*self.categories)
        if self.ramp is not None:
            return ramp_contents(self.ramp, self.span, _measured(report))
        return NO_CONTENTS


def _measured(report: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    bands = report.get("statistics")
    if not bands or not bands[0]["count"]:
        return None
    return bands[0]["min"], bands[0]["max"], bands[0]["mean"], bands[0]["std"]


@dataclasses.dataclass(frozen=True)
class Job:
    """A checked write, run immediately or when a Delayed is computed."""

    target: str | BinaryIO
    raster: Raster
    options: Options
    sidecars: _Sidecars
    on_gpu: bool
    on_device: dict[str, Any]
    tile_size: int
    threads: int | None
    buffer_bytes: int
    overwrite: bool
    sync: bool | None
    progress: bool | Progress | None
    storage_options: Mapping[str, Any] | None
    report: dict[str, Any] | None
    otherwise: Job | None = None
    """The same write with unchanged values, used if the values turn out not to fit the type of the file."""

    def run(self) -> str | BinaryIO:
        """Writes the file."""
        try:
            return self._run()
        except NotPackableError:
            if self.otherwise is None:
                raise
            return self.otherwise.run()

    def _run(self) -> str | BinaryIO:
        raster = self.raster
        size = raster.bands * raster.height * raster.width * raster.dtype.itemsize
        with shown(self.progress, size) as progress:
            made = self._write(progress)
        remember(made)
        if self.report is not None:
            self.report.clear()
            self.report.update(made)
        return self.target

    def _write(self, progress: Progress | None) -> dict[str, Any]:
        if not isinstance(self.target, str):
            return self.into(_Emptied(self.target), progress)
        if _is_vrt(self.target):
            # Only VRT files need this module, and `mosaic.write` imports `write_array` from here.
            from ..mosaic.write import write_vrt

            made: dict[str, Any] = write_vrt(self, progress)
        elif "://" in self.target:
            return write_remote(self.target, lambda file: self.into(file, progress), self.storage_options)
        else:
            if self.raster.is_dask:
                make_parent(self.target)
            made = self.into(self.target, progress)
        return made

    def into(self, target: str | Any, progress: Progress | None) -> dict[str, Any]:
        """Lets the engine write to a path or a file object."""
        options = self.options
        if self.sidecars.needs_statistics:
            options = options | {"measure": True}
        keywords: dict[str, Any] = {
            "shape": (self.raster.bands, self.raster.height, self.raster.width),
            "dtype": str(self.raster.dtype),
            "options": options,
            "threads": self.threads,
            "buffer_bytes": self.buffer_bytes,
            "overwrite": self.overwrite,
            "sync": self.sync,
            "progress": progress,
            **self.on_device,
        }
        # The CPU encodes masks, and it encodes the pixels of a masked image too.
        stays = self.on_gpu and self.raster.is_on_device and self.raster.valid is None
        pixels, bands_last, chunk_rows, has_mask = source_of(self.raster, on_device=stays)
        keywords |= {"bands_last": bands_last, "chunk_rows": chunk_rows, "mask": has_mask or None}
        if isinstance(target, str) and not self.sidecars.is_empty:
            keywords["sidecars"] = self.sidecars.contents
        if self.on_gpu:
            return write_gpu(target, pixels, rows_on_device=stays and self.raster.is_dask, **keywords)
        return _swath.write(target, pixels, **keywords)


def write_array(array: npt.NDArray[Any], path: str, options: Options, *, threads: int | None = None) -> dict[str, Any]:
    """Writes a NumPy array, (y, x) or (y, x, band), with prepared options."""
    raster = raster_of(array)
    pixels, bands_last, _, _ = source_of(raster)
    shape = raster.bands, raster.height, raster.width
    return _swath.write(
        path, pixels, shape=shape, dtype=str(raster.dtype), bands_last=bands_last, options=options, threads=threads
    )


class _Emptied:
    """A file object that is truncated when the first bytes arrive. At that time all pixels are encoded."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._is_empty = False

    def write(self, data: bytes) -> Any:
        if not self._is_empty:
            self._is_empty = True
            for name in ("seek", "truncate"):
                try:
                    getattr(self._file, name)(0)
                except (AttributeError, OSError):
                    # A pipe or a socket cannot seek and does not need to.
                    break
        return self._file.write(data)


def _target_of(path: Any) -> str | Any:
    target = os.fspath(path) if isinstance(path, os.PathLike) else path
    if isinstance(target, str):
        if target.lower().startswith(("http://", "https://")):
            raise NotImplementedError(
                f"Writes are not supported over HTTP(S). Got {target!r}. Write to a local path or an fsspec-supported "
                "cloud URL (s3://, gs://, az://, ...) instead."
            )
        if not target:
            raise FileNotFoundError("path is empty: pass the name of the file to write")
        if os.path.isdir(target):
            raise IsADirectoryError(f"{target} is a directory: name the file to write")
        return target
    if isinstance(target, bytes) or not callable(getattr(target, "write", None)):
        raise TypeError(f"path must be a str or a binary file-like with a write() method, got {type(target).__name__}")
    return target


def _is_vrt(target: Any) -> bool:
    return isinstance(target, str) and target.lower().endswith(".vrt")


def _check_combinations(
    target: Any, on_gpu: bool, *, cog: Any, tiled: Any, overview_levels: Any, max_z_error: Any, mask: Any
) -> None:
    if not isinstance(target, str) and cog:
        raise ValueError(
            "cog=True is not supported for file-like destinations. Pass a path, or write without cog=True."
        )
    if not isinstance(target, str) and on_gpu:
        raise ValueError("gpu=True is not supported for file-like destinations. Pass a path, or set gpu=False.")
    if on_gpu and not tiled:
        raise ValueError("tiled=False is not supported on the GPU writer. Pass gpu=False or omit tiled=False.")
    if on_gpu and max_z_error:
        raise ValueError("max_z_error is not supported on the GPU writer. Pass gpu=False or omit max_z_error.")
    if not _is_vrt(target):
        return
    if cog:
        raise ValueError("cog=True is not compatible with VRT output: its tiles are plain GeoTIFFs.")
    if is_wanted(mask):
        raise ValueError("mask= is not compatible with VRT output: the index has no mask. Write a .tif, or use nodata.")
    if overview_levels is not None:
        raise ValueError("overview_levels is not compatible with VRT output: its tiles have no overviews.")
    if not tiled:
        raise ValueError("tiled=False is not compatible with VRT output. Pass tiled=True or omit it.")


def _check_jpeg(codec: str, raster: Raster) -> None:
    if codec == "jpeg" and raster.dtype != np.uint8:
        raise ValueError(
            f"JPEG compression requires uint8 data, got {raster.dtype}. It is lossy and holds 8-bit pixels only: "
            "rescale them, or use another codec."
        )


def _categories(attrs: Mapping[str, Any]) -> tuple[list[str], list[Color] | None] | None:
    names = attrs.get("category_names")
    if names is None or not len(names):
        return None
    if isinstance(names, str) and "_swath_contract" in attrs:
        names = [names]  # netCDF turns a list of one item into a single value.
    return categories_of(names, value_of(attrs.get("category_colors")))


def _without_mask(raster: Raster, nodata: Number | None, has_mask: bool) -> Raster:
    """Replaces masked pixels with nodata: the given value, else NaN for floats, else 0 if the file gets a mask."""
    array = raster.array._meta if raster.is_dask else raster.array
    if not isinstance(array, np.ma.MaskedArray):
        return raster
    kind = raster.dtype.kind
    fill: Number | None = nodata
    if nodata is None:
        fill = math.nan if kind in "fc" else 0 if has_mask else None
    return dataclasses.replace(raster, steps=(_filling(fill), *raster.steps))


def _filling(fill: Number | None) -> Step:
    def filled(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not np.ma.is_masked(block):
            return np.asarray(block)
        if fill is None:
            raise ValueError("an integer array has masked pixels but no nodata value to store for them: pass nodata=")
        result: npt.NDArray[Any] = np.ma.filled(block, fill)
        return result

    return filled


def _bytes(size: Any) -> int:
    if not isinstance(size, int | float | np.integer | np.floating) or size != size:
        raise TypeError(f"streaming_buffer_bytes must be a number of bytes, got {type(size).__name__}: {size!r}")
    # The engine counts in 64 bits; infinity and larger numbers mean no limit.
    return int(max(min(size, NO_LIMIT), 1))


__all__ = ["Job", "to_geotiff", "write_array"]
