"""`open_geotiff(gpu=True)`: decodes pixels into GPU memory.

The engine decides what the CPU does instead of the device; see `crates/swath/src/fallback.rs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _swath
from .._report import remember
from .._settings import is_strict
from ..errors import DeviceError
from ..read.pixels import Pixels
from ..xarray.dask import open_lazy
from .arrays import current_device, require_gpu, to_device
from .arrays import on_device as on_device_of
from .fallback import warn_of_fallback, warn_of_fallbacks, with_fallback

if TYPE_CHECKING:
    from .._swath import File, Report
    from ..read.plan import ReadPlan, Window
    from ..read.request import DeviceSettings
    from ..read.source import Handle


def read_gpu(
    handle: Handle,
    plan: ReadPlan,
    on_gpu_failure: str = "auto",
    *,
    chunks: Any = None,
    report: dict[str, Any] | None = None,
    on_device: DeviceSettings,
) -> tuple[Any, bool | None]:
    """Returns the pixels of a plan as a CuPy array and whether nodata occurs; with chunks, a dask array and None."""
    cupy = require_gpu()
    strict = on_gpu_failure == "strict" or is_strict()
    if chunks is not None:
        return open_lazy(handle, plan, chunks, DevicePixels(handle, plan, strict, on_device)), None
    file = handle.file()
    with _device_for(cupy, on_device):
        pixels, seen, made = _decode(cupy, file, plan, plan.window, strict, on_device)
    report = {} if report is None else report
    report.update(made)
    remember(report)
    return pixels, seen


class DevicePixels(Pixels):
    """Pixels that are decoded on a GPU when they are indexed, and stay there. Each task decodes its own window."""

    __slots__ = ("on_device", "strict")

    def __init__(self, handle: Handle, plan: ReadPlan, strict: bool, on_device: DeviceSettings) -> None:
        super().__init__(handle, plan)
        self.strict, self.on_device = strict, on_device

    def __getitem__(self, key: Any) -> Any:
        with _device_for(require_gpu(), self.on_device):
            return super().__getitem__(key)

    def empty(self, shape: tuple[int, ...]) -> Any:
        return require_gpu().empty(shape, self.dtype)

    def _decode(self, plan: ReadPlan, file: File, window: Window) -> Any:
        cupy = require_gpu()
        pixels, _, made = _decode(cupy, file, plan, window, self.strict, self.on_device)
        remember(made)
        return pixels

    def __dask_tokenize__(self) -> object:
        return "cuda", self.strict, tuple(self.on_device.items()), super().__dask_tokenize__()


def _device_for(cupy: Any, settings: DeviceSettings) -> Any:
    """Returns a context in which the device of a read is CuPy's current device: CuPy finishes the pixels there."""
    return on_device_of(cupy, current_device(cupy, settings["device"]))


def _stream_for(cupy: Any, settings: DeviceSettings) -> Any:
    """Returns the stream in which CuPy uses the pixels."""
    current = getattr(cupy.cuda, "get_current_stream", None)
    return settings["stream"] if settings["stream"] is not None or current is None else current()


def _decode(
    cupy: Any, file: File, plan: ReadPlan, window: Window, strict: bool, on_device: DeviceSettings
) -> tuple[Any, bool, Report]:
    """Returns the pixels of a window in GPU memory, whether nodata occurs, and the report."""
    plan.check_size(window)
    finish = plan.finish
    rule = finish.device_rule
    try:
        array, report = file.read_to_device(
            window=window,
            bands=plan.bands,
            level=plan.level,
            bands_last=True,
            max_pixels=int(plan.max_pixels),
            device=current_device(cupy, on_device["device"]),
            strict=strict,
            decoder=on_device["decoder"],
            storage=on_device["storage"],
            gpu_memory=on_device["gpu_memory"],
            stream=_stream_for(cupy, on_device),
            unpack=rule,
        )
    except DeviceError as error:
        stage = _swath.read_again_on_cpu(strict)
        if stage is None:
            raise
        # The engine has no device, so it cannot put pixels on one: CuPy, which has its own way to the device, uploads
        # what the CPU decodes. `on_gpu_failure="auto"` promises that.
        warn_of_fallback(f"GPU decode failed; reading on the CPU instead. ({type(error).__name__}: {error})")
        raw, report = plan.read_raw(file, window)
        on_host, seen = finish.apply_and_look(raw, plan.valid(file, window, raw))
        return to_device(on_host), seen, with_fallback(report, stage, error)
    warn_of_fallbacks(report)
    pixels = cupy.asarray(array).reshape(plan.shape_of(window))
    valid = plan.valid(file, window)
    if rule is None:
        # No kernel converts complex samples.
        pixels, hit = finish.apply_with(cupy, pixels, valid)
        return pixels, finish.sentinel is not None and bool(hit), report
    return finish.after_device(cupy, pixels, valid), report.get("nodata_found", False), report
