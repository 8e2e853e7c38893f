"""Pixels on a GPU: `gpu=True`, CuPy, other libraries by DLPack, and what is done where there is no GPU.

What is read stays in the memory of the device: CuPy takes it by its address, without a copy. What is written is cut
into tiles where it lies. No pixel goes through the host unless the device has failed, and then that is said.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _swath
from ._errors import DeviceError, GeoTIFFFallbackWarning
from ._pixels import Pixels
from ._report import remember
from ._settings import is_strict
from ._warn import warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._plan import ReadPlan, Window
    from ._request import BandSelection
    from ._source import Handle
    from ._swath import DeviceArray, File, Report


class GPUFallbackWarning(GeoTIFFFallbackWarning, RuntimeWarning):
    """The CPU did what a GPU was asked to do. The message says why."""


class _MissingGPUError(DeviceError, ImportError):
    """There is neither a GPU nor CuPy, whose absence is an ImportError to those who look for one."""


def require_gpu() -> Any:
    """CuPy, if it is there and finds a device: what `gpu=True` needs before a file is looked at."""
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "cupy is required for GPU reads. Install it with: pip install cupy-cuda12x. swath.read_device() needs no "
            "CuPy: PyTorch and other libraries take what it gives by DLPack."
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise RuntimeError(
            f"open_geotiff(gpu=True): the CUDA runtime is not usable ({type(error).__name__}: {error}). Check that the "
            "GPU driver matches the installed cupy build, or pass gpu=False."
        ) from error
    if count < 1:
        raise RuntimeError(
            "open_geotiff(gpu=True): cupy reports 0 CUDA devices. Check the GPU driver and CUDA_VISIBLE_DEVICES, or "
            "pass gpu=False."
        )
    return cupy


def read_gpu(
    handle: Handle,
    plan: ReadPlan,
    on_gpu_failure: str = "auto",
    *,
    chunks: Any = None,
    report: dict[str, Any] | None = None,
) -> tuple[Any, bool | None]:
    """The pixels of a plan as a CuPy array, and whether nodata is among them; with chunks a dask array, and None."""
    cupy = require_gpu()
    strict = on_gpu_failure == "strict" or is_strict()
    if chunks is not None:
        from ._lazy import open_lazy

        return open_lazy(handle, plan, chunks, DevicePixels(handle, plan, strict)), None
    file = handle.file()
    raw, made = _decode(cupy, file, plan, plan.window, strict)
    report = {} if report is None else report
    report.update(made)
    remember(report)
    pixels, seen = plan.finish.apply_with(cupy, raw, plan.valid(file))
    return pixels, bool(seen)


class DevicePixels(Pixels):
    """Pixels that are decoded on a GPU when they are indexed, and stay there. Each task decodes its own window."""

    __slots__ = ("strict",)

    def __init__(self, handle: Handle, plan: ReadPlan, strict: bool) -> None:
        super().__init__(handle, plan)
        self.strict = strict

    def _empty(self, shape: tuple[int, ...]) -> Any:
        return require_gpu().empty(shape, self.dtype)

    def _decode(self, plan: ReadPlan, file: File, window: Window) -> Any:
        cupy = require_gpu()
        raw, made = _decode(cupy, file, plan, window, self.strict)
        remember(made)
        return plan.finish.apply_with(cupy, raw, plan.valid(file, window))[0]

    def __dask_tokenize__(self) -> object:
        return "cuda", self.strict, super().__dask_tokenize__()


def _decode(cupy: Any, file: File, plan: ReadPlan, window: Window, strict: bool) -> tuple[Any, Report]:
    """The samples of a window as the file has them, in the memory of a GPU, and the report."""
    plan.check_size(window)
    try:
        array, report = file.read_to_device(
            window=window,
            bands=plan.bands,
            level=plan.level,
            bands_last=True,
            max_pixels=int(plan.max_pixels),
            device=_device(cupy),
            strict=strict,
        )
    except DeviceError as error:
        if strict:
            raise
        _warn(f"GPU decode failed; reading on the CPU instead. ({type(error).__name__}: {error})")
        raw, report = plan.read_raw(file, window)
        return to_device(raw), _with_fallback(report, "decoding", error)
    _warn_of(report)
    return cupy.asarray(array).reshape(plan.shape_of(window)), report


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
    report: dict[str, Any] | None = None,
) -> DeviceArray:
    """Read pixels into the memory of a GPU, where they stay. CuPy is not needed.

        tensor = torch.from_dlpack(swath.read_device("dem.tif", bands_last=False))

    Parameters
    ----------
    source, window, bbox, overview_level, band, max_pixels
        As for `open_geotiff`. The samples are as the file has them: nodata is not masked.
    bands_last
        (y, x, band), or (band, y, x) if False. One band is (y, x).
    device
        "cuda", "cuda:1", "opencl", "opencl:1"; what SWATH_DEVICE says, or the first CUDA device, if None.
    strict
        Raise DeviceError when the CPU would have to do a part of the work.
    report
        A dict that is filled with what the read did.

    Returns
    -------
    DeviceArray
        An array with `__dlpack__` and `__cuda_array_interface__`. Its memory is given back when it and all arrays made
        of it are gone.

    Raises
    ------
    DeviceError
        When there is no such device, or it fails. A RuntimeError.
    """
    from ._open import prepare

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
        device=device or os.environ.get("SWATH_DEVICE") or "cuda",
        strict=strict or is_strict(),
    )
    report = {} if report is None else report
    report.update(made)
    remember(report)
    return array


def to_device(array: npt.NDArray[Any]) -> Any:
    """A NumPy array as a CuPy array."""
    return require_gpu().asarray(array)


def to_host(array: Any) -> npt.NDArray[Any]:
    """An array in the memory of a GPU (CuPy's, PyTorch's, a DeviceArray, any that CuPy takes) as a NumPy array."""
    for get in ("to_host", "get"):
        if hasattr(array, get):
            return np.asarray(getattr(array, get)())
    if hasattr(array, "detach"):
        return np.asarray(array.detach().cpu())
    cupy = require_gpu()
    return np.asarray(cupy.asnumpy(cupy.asarray(array)))


def write_gpu(target: Any, source: Any, *, rows_on_device: bool = False, **keywords: Any) -> Report:
    """As `_swath.write`, on the GPU that the pixels are on, or else the first. If it fails the CPU writes and warns."""
    strict = is_strict()
    on_device = _lies_on_device(source)
    device = None if on_device else _asked_for() or "cuda"
    try:
        if rows_on_device:
            device = _device(require_gpu())
        keywords_here = {"device": device, "strict": strict, "rows_on_device": rows_on_device, **keywords}
        try:
            report = _swath.write(target, source, **keywords_here)
        except BufferError:
            # The engine takes arrays without gaps only, and says so before it begins.
            if not on_device:
                raise
            report = _swath.write(target, _contiguous(source), **keywords_here)
    except DeviceError as error:
        if strict:
            if not on_device and _is_cupy_missing():
                raise _MissingGPUError(str(error)) from error
            raise
        _warn(
            "to_geotiff(gpu=True) was requested but the GPU writer is unavailable; falling back to CPU. "
            f"({type(error).__name__}: {error})"
        )
        host = to_host(source) if on_device else _rows_on_host(source) if rows_on_device else source
        return _with_fallback(_swath.write(target, host, device="cpu", **keywords), "writing", error)
    _warn_of(report)
    return report


def _lies_on_device(array: Any) -> bool:
    if isinstance(array, np.ndarray) or callable(array):
        return False
    return hasattr(array, "__cuda_array_interface__") or hasattr(array, "__dlpack_device__")


def _contiguous(array: Any) -> Any:
    """A copy on its device in which the samples lie one behind the other."""
    if hasattr(array, "contiguous"):
        return array.contiguous()
    cupy = require_gpu()
    return cupy.ascontiguousarray(cupy.asarray(array))


def _rows_on_host(rows: Any) -> Any:
    def on_host(start: int, stop: int) -> npt.NDArray[Any]:
        made = rows(start, stop)
        return np.ascontiguousarray(to_host(made) if _lies_on_device(made) else made)

    return on_host


def _asked_for() -> str | None:
    """The device that SWATH_DEVICE names; who passes gpu=True does not mean the CPU."""
    asked = os.environ.get("SWATH_DEVICE", "").strip()
    return asked if asked not in ("", "cpu") else None


def _device(cupy: Any) -> str:
    """The device for arrays of CuPy: that of SWATH_DEVICE, if it is one of CUDA, else the one CuPy works on here."""
    asked = _asked_for()
    if asked is not None and asked.startswith("cuda"):
        return asked
    current = getattr(cupy.cuda.runtime, "getDevice", None)
    return "cuda" if current is None else f"cuda:{current()}"


def _is_cupy_missing() -> bool:
    try:
        import cupy  # noqa: F401
    except ImportError:
        return True
    return False


def _with_fallback(report: Report, stage: str, error: Exception) -> Report:
    """A report of what the CPU did in place of a GPU."""
    entry = {"stage": stage, "reason": str(error), "blocks": report["blocks"]}
    return {**report, "fallbacks": [*report["fallbacks"], entry]}


def _warn_of(report: Report) -> None:
    """Say what of a read or write was left to the CPU."""
    for entry in report["fallbacks"]:
        blocks = f" ({entry['blocks']} blocks)" if entry["blocks"] else ""
        _warn(f"{entry['stage']} was left to the CPU{blocks}: {entry['reason']}")


def _warn(message: str) -> None:
    warn(message, GPUFallbackWarning)
