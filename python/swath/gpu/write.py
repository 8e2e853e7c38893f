"""`to_geotiff(gpu=True)`, and writes of arrays in GPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from .._settings import is_strict
from ..errors import DeviceError
from .arrays import contiguous, current_device, is_cupy_missing, is_on_device, requested_device, require_gpu, to_host
from .fallback import MissingGPUError, warn_of_fallback, warn_of_fallbacks, with_fallback

if TYPE_CHECKING:
    import numpy.typing as npt

    from .._swath import Report


def write_gpu(target: Any, source: Any, *, rows_on_device: bool = False, **keywords: Any) -> Report:
    """Like `_swath.write`, on the GPU that holds the pixels, else on the first GPU.

    If the GPU fails, the CPU writes and a warning is issued.
    """
    strict = is_strict()
    on_device = is_on_device(source)
    asked = keywords.pop("device", None)
    device = asked or (None if on_device else requested_device() or "cuda")
    try:
        if rows_on_device:
            device = current_device(require_gpu(), asked)
        keywords_here = {"device": device, "strict": strict, "rows_on_device": rows_on_device, **keywords}
        try:
            report = _swath.write(target, source, **keywords_here)
        except BufferError:
            # The engine accepts only contiguous arrays and checks that before it begins.
            if not on_device:
                raise
            report = _swath.write(target, contiguous(source), **keywords_here)
    except DeviceError as error:
        stage = _swath.write_again_on_cpu(strict)
        if stage is None:
            if not on_device and is_cupy_missing():
                raise MissingGPUError(str(error)) from error
            raise
        # The engine cannot take over here: pixels in the memory of a device that failed reach the host through CuPy or
        # the library that owns them.
        warn_of_fallback(
            "to_geotiff(gpu=True) was requested but the GPU writer is unavailable; falling back to CPU. "
            f"({type(error).__name__}: {error})"
        )
        host = to_host(source) if on_device else _rows_on_host(source) if rows_on_device else source
        keywords.pop("stream", None)
        return with_fallback(_swath.write(target, host, device="cpu", **keywords), stage, error)
    warn_of_fallbacks(report)
    return report


def _rows_on_host(rows: Any) -> Any:
    def on_host(start: int, stop: int) -> npt.NDArray[Any]:
        made = rows(start, stop)
        return np.ascontiguousarray(to_host(made) if is_on_device(made) else made)

    return on_host
