"""Several GPUs for one read to host memory or one write: `devices=[0, 1]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from .. import _swath
from .._settings import is_strict
from ..errors import DeviceError
from .fallback import warn_of_fallback, warn_of_fallbacks, with_fallback

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from .._swath import File, Report
    from ..read.request import DeviceSettings


class SharedRead(TypedDict):
    """The GPUs that share a read and how they are used."""

    device: str
    strict: bool
    decoder: str | None
    storage: str | None
    gpu_memory: int | None


def device_names(devices: Sequence[int | str]) -> str:
    """Returns the names of devices as the engine takes them. A number is that of a CUDA device."""
    if isinstance(devices, str | bytes) or not hasattr(devices, "__iter__"):
        raise TypeError(f"devices must be a list such as [0, 1], got {devices!r}")
    names = [each if isinstance(each, str) else f"cuda:{int(each)}" for each in devices]
    if not names:
        raise ValueError("devices must name at least one device.")
    return ",".join(names)


def shared_read(devices: Sequence[int | str], gpu: bool, on_gpu_failure: str, settings: DeviceSettings) -> SharedRead:
    """Returns how GPUs share a read to host memory."""
    if gpu:
        raise ValueError(
            "devices= applies to reads to host memory: the pixels of one CuPy array are on one device. Drop gpu=True "
            "to get a NumPy array that the devices decode together."
        )
    return {
        "device": device_names(devices),
        "strict": on_gpu_failure == "strict" or is_strict(),
        "decoder": settings["decoder"],
        "storage": settings["storage"],
        "gpu_memory": settings["gpu_memory"],
    }


def read_into(file: File, raw: npt.NDArray[Any], shared: SharedRead | None, request: _swath.ReadKeywords) -> Report:
    """Fills an array: on the CPU, or on GPUs that share the work. If a GPU fails, the CPU reads and a warning is
    issued.
    """
    if shared is None:
        return file.read_into(raw, **request)
    on_gpus: _swath.ReadKeywords = {**request, **shared}
    try:
        report = file.read_into(raw, **on_gpus)
    except DeviceError as error:
        stage = _swath.read_again_on_cpu(shared["strict"])
        if stage is None:
            raise
        warn_of_fallback(f"GPU decode failed; reading on the CPU instead. ({type(error).__name__}: {error})")
        return with_fallback(file.read_into(raw, **request), stage, error)
    warn_of_fallbacks(report)
    return report
