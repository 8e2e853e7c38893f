"""CuPy, the choice of a CUDA device, and copies of arrays between host and device."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

# DLPack's device types for memory that the CPU can read: plain, and pinned by CUDA or ROCm.
_HOST_MEMORY = {1, 3, 11}


def require_gpu() -> Any:
    """Returns CuPy if it is installed and finds a device. `gpu=True` calls this before it opens a file."""
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


def is_cupy_missing() -> bool:
    try:
        import cupy  # noqa: F401
    except ImportError:
        return True
    return False


def requested_device() -> str | None:
    """Returns the device in SWATH_DEVICE, or None if that is the CPU, which gpu=True overrides."""
    asked = os.environ.get("SWATH_DEVICE", "").strip()
    return asked if asked not in ("", "cpu") else None


def current_device(cupy: Any, device: str | None = None) -> str:
    """Returns the device for CuPy arrays: `device`, the CUDA device in SWATH_DEVICE, or CuPy's current device."""
    if device is not None:
        if not device.startswith("cuda"):
            raise ValueError(f"CuPy arrays are on CUDA devices, not on {device!r}: use read_device().")
        return device
    asked = requested_device()
    if asked is not None and asked.startswith("cuda"):
        return asked
    current = getattr(cupy.cuda.runtime, "getDevice", None)
    return "cuda" if current is None else f"cuda:{current()}"


def on_device(cupy: Any, name: str) -> Any:
    """Returns a context in which a CUDA device is CuPy's current device."""
    _, _, number = name.partition(":")
    return cupy.cuda.Device(int(number) if number.isdigit() else 0)


def is_on_device(array: Any) -> bool:
    """Whether an array is in the memory of a GPU."""
    if isinstance(array, np.ndarray):
        return False
    if hasattr(array, "__cuda_array_interface__"):
        return True
    return hasattr(array, "__dlpack_device__") and int(array.__dlpack_device__()[0]) not in _HOST_MEMORY


def to_device(array: npt.NDArray[Any]) -> Any:
    """Returns a NumPy array as a CuPy array."""
    return require_gpu().asarray(array)


def to_host(array: Any) -> npt.NDArray[Any]:
    """Returns an array in GPU memory (CuPy, PyTorch, DeviceArray, any type that CuPy accepts) as a NumPy array."""
    for get in ("to_host", "get"):
        if hasattr(array, get):
            return np.asarray(getattr(array, get)())
    if hasattr(array, "detach"):
        return np.asarray(array.detach().cpu())
    cupy = require_gpu()
    return np.asarray(cupy.asnumpy(cupy.asarray(array)))


def contiguous(array: Any) -> Any:
    """Returns a contiguous copy on the same device."""
    if hasattr(array, "contiguous"):
        return array.contiguous()
    cupy = require_gpu()
    return cupy.ascontiguousarray(cupy.asarray(array))
