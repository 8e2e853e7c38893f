"""Arrays on a device as seen by other libraries: CUDA's array interface, DLPack, and ownership of the memory."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from simulated_gpu import device_bytes, events, moved, on_gpu

CPU, CUDA, OPENCL = 1, 2, 4


# The structures of the DLPack specification.
class Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


def look(capsule: Any, versioned: bool) -> Managed | ManagedVersioned:
    """Returns the content of a capsule without taking ownership."""
    name, kind = (b"dltensor_versioned", ManagedVersioned) if versioned else (b"dltensor", Managed)
    managed = kind.from_address(_pointer(capsule, name))
    managed.capsule = capsule
    return managed


def consume(capsule: Any, versioned: bool) -> Managed | ManagedVersioned:
    """Takes the content of a capsule, like `from_dlpack` of a library."""
    managed = look(capsule, versioned)
    del managed.capsule
    _set_name(capsule, _USED[b"dltensor_versioned" if versioned else b"dltensor"])
    return managed


def image(path: Path, array: Any, **keywords: Any) -> Any:
    """An opened file with these pixels."""
    from swath import _swath

    tifffile.imwrite(path, array, tile=(32, 32), compression="zlib", **keywords)
    return _swath.File.open(str(path))


def ramp(*shape: int, dtype: str = "uint16") -> Any:
    return (np.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)


def test_structures_have_the_sizes_of_the_specification() -> None:
    assert (ctypes.sizeof(Tensor), ctypes.sizeof(Managed), ctypes.sizeof(ManagedVersioned)) == (48, 64, 80)


@on_gpu
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_array_interface_describes_the_array(tmp_path: Path, dtype: str) -> None:
    pixels = ramp(40, 50, dtype=dtype)
    array, report = image(tmp_path / "a.tif", pixels).read_to_device(strict=True)
    interface = array.__cuda_array_interface__
    address, read_only = interface.pop("data")
    assert interface == {"shape": (40, 50), "typestr": pixels.dtype.str, "strides": None, "version": 3, "stream": None}
    assert (address % 256, read_only) == (0, False)
    assert (array.shape, array.ndim, array.strides, array.dtype) == ((40, 50), 2, pixels.strides, pixels.dtype)
    assert (array.nbytes, array.device, len(array)) == (pixels.nbytes, "cuda:0", 40)
    assert report["device"] == "cuda" and report["fallbacks"] == []
    np.testing.assert_array_equal(array.to_host(), pixels)


@on_gpu
def test_bands_are_where_they_were_asked_to_be(tmp_path: Path) -> None:
    pixels = ramp(40, 50, 3)
    file = image(tmp_path / "a.tif", pixels, photometric="rgb")
    for array, expected in [
        (file.read_to_device()[0], pixels),
        (file.read_to_device(bands_last=False)[0], np.ascontiguousarray(pixels.transpose(2, 0, 1))),
        (file.read_to_device(window=(3, 5, 20, 40), bands=[2, 0])[0], np.ascontiguousarray(pixels[3:20, 5:40, [2, 0]])),
        (file.read_to_device(bands=[1])[0], np.ascontiguousarray(pixels[:, :, 1])),
    ]:
        assert (array.shape, array.strides) == (expected.shape, expected.strides)
        np.testing.assert_array_equal(array.to_host(), expected)


@on_gpu
def test_cupy_uses_the_memory_without_a_copy_and_keeps_it(tmp_path: Path) -> None:
    import cupy

    pixels = ramp(64, 96)
    array, _ = image(tmp_path / "a.tif", pixels).read_to_device()
    before, downloads = device_bytes(), moved("download")
    taken = cupy.asarray(array)
    assert taken.ptr == array.__cuda_array_interface__["data"][0]
    assert (device_bytes(), moved("download")) == (before, downloads), "it was copied"
    del array
    gc.collect()
    np.testing.assert_array_equal(taken.get(), pixels)
    assert device_bytes() == before, "the array that CuPy holds is gone"
    del taken
    gc.collect()
    assert device_bytes() == before - pixels.nbytes


@on_gpu
@pytest.mark.parametrize("versioned", [False, True])
def test_capsule_has_the_layout_of_the_specification(tmp_path: Path, versioned: bool) -> None:
    for pixels, code in [
        (ramp(40, 50, dtype="i2"), 0),
        (ramp(40, 50, 3), 1),
        (ramp(40, 50, dtype="f8"), 2),
        (ramp(8, 9, dtype="c8"), 5),
    ]:
        rgb = {"photometric": "rgb"} if pixels.ndim == 3 else {}
        array, _ = image(tmp_path / "a.tif", pixels, **rgb).read_to_device()
        capsule = array.__dlpack__(max_version=(1, 1)) if versioned else array.__dlpack__()
        managed = look(capsule, versioned)
        if versioned:
            assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
        tensor = managed.tensor
        assert tensor.data == array.__cuda_array_interface__["data"][0]
        assert (tensor.device.device_type, tensor.device.device_id) == array.__dlpack_device__() == (CUDA, 0)
        assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (code, pixels.itemsize * 8, 1)
        assert (tensor.ndim, tensor.byte_offset) == (pixels.ndim, 0)
        assert tuple(tensor.shape[: tensor.ndim]) == pixels.shape
        # DLPack strides count elements.
        assert tuple(tensor.strides[: tensor.ndim]) == tuple(step // pixels.itemsize for step in pixels.strides)


@on_gpu
@pytest.mark.parametrize("versioned", [False, True])
def test_memory_goes_when_the_last_consumer_lets_go(tmp_path: Path, versioned: bool) -> None:
    version = (1, 0) if versioned else None
    pixels = ramp(64, 64)
    array, _ = image(tmp_path / "a.tif", pixels).read_to_device()
    held = device_bytes()
    unused, first, second = (array.__dlpack__(max_version=version) for _ in range(3))
    taken = [consume(first, versioned), consume(second, versioned)]
    del array, unused, first, second
    gc.collect()
    assert device_bytes() == held, "two consumers are left"
    taken[0].deleter(ctypes.addressof(taken[0]))
    assert device_bytes() == held, "one consumer is left"
    # Called without the GIL from a thread that Python did not start, like a foreign function.
    thread = threading.Thread(target=taken[1].deleter, args=(ctypes.addressof(taken[1]),))
    thread.start()
    thread.join()
    assert device_bytes() == held - pixels.nbytes


@on_gpu
@pytest.mark.parametrize("versioned", [False, True])
def test_unused_capsule_frees_its_memory(tmp_path: Path, versioned: bool) -> None:
    array, _ = image(tmp_path / "a.tif", ramp(64, 64)).read_to_device()
    held = device_bytes()
    capsule = array.__dlpack__(max_version=(2, 0) if versioned else (0, 8))
    look(capsule, versioned)
    del array
    gc.collect()
    assert device_bytes() == held
    del capsule
    gc.collect()
    assert device_bytes() == held - 64 * 64 * 2


@on_gpu
def test_streams_are_those_of_the_array_api(tmp_path: Path) -> None:
    array, _ = image(tmp_path / "a.tif", ramp(16, 16)).read_to_device()
    for stream in (None, 1, 2, 3, 140_000_000_000_000, -1):
        assert look(array.__dlpack__(stream=stream), False).tensor.ndim == 2
    for stream in (0, -2):
        with pytest.raises(ValueError, match="stream"):
            array.__dlpack__(stream=stream)
    for stream in ("1", 1.5, object()):
        with pytest.raises(TypeError, match="stream"):
            array.__dlpack__(stream=stream)
    assert not any(event.startswith("copy") for event in events())


@on_gpu
def test_host_gets_a_copy_only_if_it_asks_for_one(tmp_path: Path) -> None:
    pixels = ramp(33, 47, dtype="f4")
    array, _ = image(tmp_path / "a.tif", pixels).read_to_device()
    with pytest.raises(BufferError):
        np.from_dlpack(array)
    with pytest.raises(BufferError, match="copy"):
        np.from_dlpack(array, device="cpu", copy=False)
    with pytest.raises(TypeError, match="to_host"):
        np.asarray(array)
    host = np.from_dlpack(array, device="cpu")
    np.testing.assert_array_equal(host, pixels)
    assert host.flags.writeable and host.ctypes.data % 64 == 0
    tensor = look(array.__dlpack__(dl_device=(CPU, 0), max_version=(1, 0)), True)
    assert (tensor.tensor.device.device_type, tensor.flags) == (CPU, 2)
    for other in [(CUDA, 1), (OPENCL, 0), (8, 0)]:
        with pytest.raises(BufferError, match="cuda:0"):
            array.__dlpack__(dl_device=other)


@on_gpu
def test_copy_is_another_array_on_the_same_device(tmp_path: Path) -> None:
    import cupy

    pixels = ramp(33, 47)
    array, _ = image(tmp_path / "a.tif", pixels).read_to_device()
    own = array.__cuda_array_interface__["data"][0]
    assert look(array.__dlpack__(copy=False), False).tensor.data == own
    capsule = array.__dlpack__(copy=True, max_version=(1, 0), dl_device=(CUDA, 0))
    managed = look(capsule, True)
    assert managed.tensor.data != own and managed.flags == 2
    copy = cupy.ndarray(pixels.shape, pixels.dtype, cupy._Memory(managed.tensor.data, 0, capsule))
    np.testing.assert_array_equal(copy.get(), pixels)


@on_gpu
def test_used_capsule_is_refused(tmp_path: Path) -> None:
    from swath import _swath

    array, _ = image(tmp_path / "a.tif", ramp(16, 16)).read_to_device()
    capsule = array.__dlpack__()

    class Once:
        """An array whose producer always returns the same capsule."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return CUDA, 0

        def __dlpack__(self, **_: object) -> Any:
            return capsule

    write: dict[str, Any] = {"shape": (1, 16, 16), "dtype": "uint16", "options": {}}
    _swath.write(str(tmp_path / "b.tif"), Once(), **write)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "b.tif"), ramp(16, 16))
    with pytest.raises(ValueError, match="used up"):
        _swath.write(str(tmp_path / "c.tif"), Once(), **write)
    assert not (tmp_path / "c.tif").exists()


@on_gpu
def test_opencl_array_has_no_cuda_interface(tmp_path: Path) -> None:
    pixels = ramp(40, 50)
    os.environ["SWATH_OPENCL_DEVICE"] = "cpu"
    array, report = image(tmp_path / "a.tif", pixels).read_to_device(device="opencl", strict=True)
    assert report["device"] == "opencl"
    assert not hasattr(array, "__cuda_array_interface__")
    kind, number = array.__dlpack_device__()
    assert kind == OPENCL
    managed = look(array.__dlpack__(), False)
    tensor = managed.tensor
    assert (tensor.device.device_type, tensor.device.device_id) == (OPENCL, number)
    with pytest.raises(BufferError, match="no streams"):
        array.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        array.__dlpack__(dl_device=(CUDA, 0))
    np.testing.assert_array_equal(array.to_host(), pixels)


@on_gpu
def test_device_that_was_lost_is_opened_again(tmp_path: Path) -> None:
    from simulated_gpu import simulator_variables
    from swath.errors import DeviceError

    file = image(tmp_path / "a.tif", ramp(40, 50))
    file.read_to_device()
    with simulator_variables(FAIL="synchronize:1"), pytest.raises(DeviceError, match="CUDA"):
        file.read_to_device()
    array, _ = file.read_to_device()
    np.testing.assert_array_equal(array.to_host(), ramp(40, 50))


@on_gpu
def test_errors_name_the_missing_device(tmp_path: Path) -> None:
    from swath.errors import DeviceError, DeviceMemoryError

    file = image(tmp_path / "a.tif", ramp(40, 50))
    with pytest.raises(DeviceError, match="device 7 was asked for"):
        file.read_to_device(device="cuda:7")
    for name in ("gpu", "cpu"):
        with pytest.raises(DeviceError, match="is not a device"):
            file.read_to_device(device=name)
    assert issubclass(DeviceError, RuntimeError) and issubclass(DeviceMemoryError, MemoryError)
