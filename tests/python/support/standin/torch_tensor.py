"""A substitute for a tensor of PyTorch on the simulated driver, as far as another library sees it.

Unlike CuPy, PyTorch names no stream in `__cuda_array_interface__`, which has version 2. `__dlpack__` orders the work of
its current stream before the stream of the consumer.
"""

from __future__ import annotations

import ctypes
from typing import Any

import cupy
import numpy as np

CUDA = 2
_driver = ctypes.CDLL("libcuda.so.1")
_driver.swath_sim_stream_wait.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


_exported: dict[int, tuple[Any, ...]] = {}
"""The structures that consumers hold, with what they point to."""


@_Deleter
def _delete(managed: int) -> None:
    del _exported[managed]


class InterfaceOnly:
    """A tensor of a library with `__cuda_array_interface__` of version 2 and nothing else."""

    def __init__(self, values: Any) -> None:
        self.array = cupy.asarray(values)
        self.shape, self.dtype, self.ndim = self.array.shape, self.array.dtype, self.array.ndim
        self.calls: list[Any] = []

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.calls.append("interface")
        interface = self.array.__cuda_array_interface__
        del interface["stream"]
        return {**interface, "version": 2}


class Tensor(InterfaceOnly):
    """A tensor of PyTorch."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.array.device.id

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None) -> Any:
        self.calls.append(("dlpack", stream))
        if stream is not None and stream != -1 and stream != self.array.stream:
            with cupy._Current(self.array.device.id):
                assert _driver.swath_sim_stream_wait(stream, self.array.stream) == 0
        kind = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[self.dtype.kind]
        sides = (ctypes.c_int64 * self.ndim)(*self.shape)
        steps = (ctypes.c_int64 * self.ndim)(*(step // self.dtype.itemsize for step in self.array.strides))
        device = (ctypes.c_int32 * 2)(*self.__dlpack_device__())
        bits = 8 * self.dtype.itemsize
        tensor = _Tensor(self.array.ptr, device, self.ndim, kind, bits, 1, sides, steps, 0)
        managed = _Managed(tensor, None, _delete)
        _exported[ctypes.addressof(managed)] = (managed, sides, steps, self.array)
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)

    def contiguous(self) -> Tensor:
        return Tensor(cupy.ascontiguousarray(self.array))

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Any:
        return np.asarray(self.array.get())
