"""`read_device`: reads pixels into GPU memory for any library that supports DLPack."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from .._report import remember
from .._settings import is_strict
from ..read.prepare import prepare

if TYPE_CHECKING:
    from ..read.request import BandSelection


def read_device(
    source: Any,
    *,
    window: tuple[int, int, int, int] | None = None,
    bbox: tuple[float, float, float, float] | None = None,
    overview_level: int | None = None,
    band: BandSelection | None = None,
    bands_last: bool = True,
    max_pixels: int | None = None,
    device: str | None = None,
    strict: bool = False,
    decoder: Literal["auto", "builtin", "nvcomp"] | None = None,
    storage: Literal["auto", "cufile", "posix"] | None = None,
    gpu_memory: int | None = None,
    out: Any = None,
    stream: Any = None,
    report: dict[str, Any] | None = None,
) -> Any:
    """Read pixels into the memory of a GPU. CuPy is not needed.

        tensor = torch.from_dlpack(swath.read_device("dem.tif", bands_last=False))

    Parameters
    ----------
    source, window, bbox, overview_level, band, max_pixels
        As in `open_geotiff`. The samples are those of the file: nodata is not masked.
    bands_last : bool, default True
        Order of the axes: (y, x, band), or (band, y, x) if False. A single band is (y, x).
    device : str, optional
        "cuda", "cuda:1", "opencl" or "opencl:1". None uses the device in the environment variable SWATH_DEVICE, or
        the first CUDA device.
    strict : bool, default False
        Raise DeviceError if the CPU would have to do a part of the work.
    decoder, storage, gpu_memory
        As in `open_geotiff`.
    out : array in GPU memory, optional
        An array that receives the pixels: CuPy, PyTorch, `DeviceArray`, or any array on a CUDA device with `__dlpack__`
        or `__cuda_array_interface__`. It must have the type and shape of the result, and no gaps. The read is on the
        device of the array. If the read fails, the content of the array is undefined.
    stream : int or stream, optional
        A CUDA stream: its handle, a stream of CuPy or PyTorch, or an object with `__cuda_stream__`. The device begins
        after the work that the stream has at the call, and Python does not wait for that work. When the call returns,
        the pixels are complete. The memory of the result is freed in the order of this stream, so the array may be
        used only in work of this stream, or of streams that it waits for. A stream that is given as an int must
        outlive the array. Without a stream, the array may be used in any stream, and freeing it waits for the device.
    report : dict, optional
        A dict that the call fills with a report of the read.

    Returns
    -------
    DeviceArray, or `out`
        An array with `__dlpack__` and `__cuda_array_interface__`. Its memory is freed when the array and all arrays
        that share it are deleted.

    Raises
    ------
    DeviceError
        If the device does not exist or fails. This is a RuntimeError.
    TypeError, ValueError, BufferError
        If `out` is not in GPU memory; if it has another type or shape, is on another device than `device`, or is
        read-only; if it has gaps.
    """
    prepared = prepare(
        source, window=window, bbox=bbox, overview_level=overview_level, band=band, max_pixels=max_pixels
    )
    plan = prepared.plan
    plan.check_size(plan.window)
    array, made = prepared.header.file.read_to_device(
        window=plan.window,
        bands=plan.bands,
        level=plan.level,
        bands_last=bands_last,
        max_pixels=int(plan.max_pixels),
        device=device or (None if out is not None else os.environ.get("SWATH_DEVICE") or "cuda"),
        strict=strict or is_strict(),
        decoder=decoder,
        storage=storage,
        gpu_memory=gpu_memory,
        out=out,
        stream=stream,
    )
    report = {} if report is None else report
    report.update(made)
    remember(report)
    return array
