"""A substitute for CuPy on the simulated driver, sufficient for Swath to run as with the real one.

Arrays are in the memory of the simulated device, which only the driver's functions can access; NumPy does the
computations on a copy. Work goes into the current stream, and the simulator runs it only when a caller waits.
"""

from __future__ import annotations

import ctypes
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

_driver = ctypes.CDLL("libcuda.so.1")
_u64, _size, _pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
_driver.cuMemFree_v2.argtypes = [_u64]
_driver.cuMemcpyHtoDAsync_v2.argtypes = [_u64, _pointer, _size, _pointer]
_driver.cuMemcpyDtoHAsync_v2.argtypes = [_pointer, _u64, _size, _pointer]
_driver.cuMemAlloc_v2.argtypes = [ctypes.POINTER(_u64), _size]
_driver.cuStreamCreate.argtypes = [ctypes.POINTER(_pointer), ctypes.c_uint]
_driver.cuStreamSynchronize.argtypes = [_pointer]
_driver.cuPointerGetAttribute.argtypes = [_pointer, ctypes.c_int, _u64]
_driver.cuCtxPushCurrent_v2.argtypes = [_pointer]

log: list[str] = []
"""The calls of this stand-in: `get` for every copy to the host."""

computed: list[str] = []
"""The passes over an array: its operators, casts, and functions such as `where`."""


class CUDARuntimeError(RuntimeError):
    pass


def _check(code: int) -> None:
    if code:
        text = ctypes.c_char_p()
        _driver.cuGetErrorName(code, ctypes.byref(text))
        raise CUDARuntimeError((text.value or b"?").decode())


class _Current:
    """Makes the context of a device current."""

    contexts: dict[int, int] = {}

    def __init__(self, device: int) -> None:
        self.device = device

    def __enter__(self) -> None:
        if self.device not in self.contexts:
            _check(_driver.cuInit(0))
            context = _pointer()
            _check(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.device))
            self.contexts[self.device] = context.value or 0
        _check(_driver.cuCtxPushCurrent_v2(self.contexts[self.device]))

    def __exit__(self, *_: object) -> None:
        _check(_driver.cuCtxPopCurrent_v2(ctypes.byref(_pointer())))


def release() -> None:
    """Releases all contexts: a context that an error has invalidated exists until every user has released it."""
    for device in list(_Current.contexts):
        del _Current.contexts[device]
        _driver.cuDevicePrimaryCtxRelease_v2(device)


class _Memory:
    """Device memory, allocated here or owned by another library."""

    def __init__(self, ptr: int, device: int, owner: object = None) -> None:
        self.ptr, self.device, self.owner = ptr, device, owner

    @classmethod
    def allocate(cls, size: int) -> _Memory:
        address = _u64()
        with _Current(_now.device):
            _check(_driver.cuMemAlloc_v2(ctypes.byref(address), max(size, 1)))
        return cls(address.value, _now.device)

    def __del__(self) -> None:
        # In a context that an error has invalidated there is nothing to free; the tests detect memory that is left in
        # others.
        if self.owner is None:
            with suppress(CUDARuntimeError), _Current(self.device):
                _check(_driver.cuMemFree_v2(self.ptr))


class _Now(threading.local):
    """The device and the stream of a thread."""

    device = 0
    stream = 1


_now = _Now()


class Stream:
    """A stream of the current device."""

    def __init__(self, ptr: int | None = None) -> None:
        handle = _pointer(ptr)
        if ptr is None:
            with _Current(_now.device):
                _check(_driver.cuStreamCreate(ctypes.byref(handle), 1))
        self.ptr = handle.value or 0

    @classmethod
    def null(cls) -> Stream:
        """The legacy default stream."""
        return cls(1)

    @classmethod
    def ptds(cls) -> Stream:
        """The default stream of the thread."""
        return cls(2)

    def synchronize(self) -> None:
        with _Current(_now.device):
            _check(_driver.cuStreamSynchronize(self.ptr))

    def __enter__(self) -> Stream:
        self.before, _now.stream = _now.stream, self.ptr
        return self

    def __exit__(self, *_: object) -> None:
        _now.stream = self.before


class ExternalStream(Stream):
    """A stream of another library."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        super().__init__(ptr)


class OutOfMemoryError(MemoryError):
    """As `cupy.cuda.memory.OutOfMemoryError`."""


class MemoryPointer:
    """Memory of a pool, which gets it back when the last reference is gone."""

    def __init__(self, pool: MemoryPool, memory: _Memory, size: int, stream: int) -> None:
        self.pool, self.memory, self.size, self.stream = pool, memory, size, stream
        self.ptr = memory.ptr

    def __del__(self) -> None:
        self.pool._used -= self.size
        self.pool._free.append((self.memory.device, self.stream, self.size, self.memory))


class MemoryPool:
    """A pool as CuPy has one: a block that is freed is given again only in the stream in which it was allocated."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int, int, _Memory]] = []
        self._used = 0
        self.calls = 0

    def malloc(self, size: int) -> MemoryPointer:
        self.calls += 1
        size = -(-size // 512) * 512
        key = (_now.device, _now.stream, size)
        block = next((block for block in self._free if block[:3] == key), None)
        if block is not None:
            self._free.remove(block)
            memory = block[3]
        else:
            try:
                memory = _Memory.allocate(size)
            except CUDARuntimeError:
                self.free_all_blocks()
                try:
                    memory = _Memory.allocate(size)
                except CUDARuntimeError as error:
                    raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes") from error
        self._used += size
        return MemoryPointer(self, memory, size, _now.stream)

    def free_bytes(self) -> int:
        return sum(size for device, _, size, _ in self._free if device == _now.device)

    def used_bytes(self) -> int:
        return self._used

    def free_all_blocks(self) -> None:
        self._free.clear()


_pool = MemoryPool()


def get_default_memory_pool() -> MemoryPool:
    return _pool


class Device:
    def __init__(self, number: int | None = None) -> None:
        self.id = _now.device if number is None else number

    def __enter__(self) -> Device:
        self.before, _now.device = _now.device, self.id
        return self

    def __exit__(self, *_: object) -> None:
        _now.device = self.before


class ndarray:  # noqa: N801
    """An array in device memory."""

    def __init__(
        self, shape: Any, dtype: Any = float, memory: _Memory | None = None, offset: int = 0, strides: Any = None
    ) -> None:
        self.shape = tuple(int(side) for side in (shape if isinstance(shape, tuple | list) else (shape,)))
        self.dtype = np.dtype(dtype)
        self.memory = memory or _Memory.allocate(self.nbytes)
        self.offset = offset
        self.strides = strides or np.empty(self.shape, np.dtype(f"V{self.dtype.itemsize}")).strides
        self.stream = _now.stream

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape)))
    nbytes = property(lambda self: self.size * self.dtype.itemsize)
    device = property(lambda self: Device(self.memory.device))
    ptr = property(lambda self: self.memory.ptr + self.offset)

    @property
    def is_dense(self) -> bool:
        dense = np.empty(self.shape, np.dtype(f"V{self.dtype.itemsize}")).strides
        return all(side <= 1 or a == b for side, a, b in zip(self.shape, self.strides, dense, strict=True))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ptr, False),
            "strides": None if self.is_dense else self.strides,
            "stream": self.stream,
            "version": 3,
        }

    def get(self) -> Any:
        """Returns a copy on the host."""
        log.append("get")
        return self._copy_to_host()

    def _copy_to_host(self) -> Any:
        if not self.size:
            return np.empty(self.shape, self.dtype)
        # The extent of the array, from its lowest address on.
        ends = [(side - 1) * step for side, step in zip(self.shape, self.strides, strict=True)]
        low = sum(end for end in ends if end < 0)
        host = np.zeros(sum(map(abs, ends)) + self.dtype.itemsize, np.uint8)
        with _Current(self.memory.device):
            _check(_driver.cuMemcpyDtoHAsync_v2(host.ctypes.data, self.ptr + low, host.nbytes, self.stream))
            _check(_driver.cuStreamSynchronize(self.stream))
        return np.ndarray(self.shape, self.dtype, host, -low, self.strides).copy()

    def set(self, host: Any) -> None:
        """Copies from the host in stream order."""
        assert self.is_dense
        host = np.ascontiguousarray(host, self.dtype)
        if host.nbytes:
            with _Current(self.memory.device):
                _check(_driver.cuMemcpyHtoDAsync_v2(self.ptr, host.ctypes.data, host.nbytes, self.stream))

    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __reduce__(self) -> Any:
        return asarray, (self._copy_to_host(),)

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self._copy_to_host())

    __index__ = __int__ = lambda self: int(self._copy_to_host())
    __float__ = lambda self: float(self._copy_to_host())  # noqa: E731

    def __getitem__(self, key: Any) -> ndarray:
        # The layout of the part, determined by slicing an array without data.
        shadow = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), self.shape, self.strides, writeable=False)
        part = shadow[key]
        offset = part.__array_interface__["data"][0] - shadow.__array_interface__["data"][0]
        view = ndarray(part.shape, self.dtype, self.memory, self.offset + offset, part.strides)
        view.stream = self.stream
        return view

    def __setitem__(self, key: Any, value: Any) -> None:
        host = self._copy_to_host()
        host[key] = value._copy_to_host() if isinstance(value, ndarray) else value
        self.set(host)

    def reshape(self, *shape: Any) -> ndarray:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        assert self.is_dense
        view = ndarray(np.empty(self.shape, "V1").reshape(shape).shape, self.dtype, self.memory, self.offset)
        view.stream = self.stream
        return view

    def transpose(self, *axes: Any) -> ndarray:
        axes = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple) else axes or tuple(range(self.ndim))[::-1]
        shape, strides = (tuple(numbers[axis] for axis in axes) for numbers in (self.shape, self.strides))
        view = ndarray(shape, self.dtype, self.memory, self.offset, strides)
        view.stream = self.stream
        return view

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> ndarray:
        if not copy and self.dtype == np.dtype(dtype) and (order != "C" or self.is_dense):
            return self
        computed.append("astype")
        return asarray(self._copy_to_host().astype(dtype))

    def take(self, indices: Any, axis: int) -> ndarray:
        return asarray(self._copy_to_host().take(indices, axis))

    def copy(self) -> ndarray:
        return asarray(self._copy_to_host())

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **keywords: Any) -> ndarray:
        return asarray(getattr(function, method)(*map(_host, inputs), **keywords))

    def __array_function__(self, function: Any, _types: Any, args: Any, keywords: Any) -> Any:
        return _device(function(*_host(args), **_host(keywords)))

    def any(self) -> ndarray:
        computed.append("any")
        return asarray(self._copy_to_host().any())

    def sum(self, *args: Any, **keywords: Any) -> ndarray:
        return asarray(self._copy_to_host().sum(*args, **keywords))


def _operator(name: str) -> Callable[..., ndarray]:
    def apply(self: ndarray, *others: Any) -> ndarray:
        computed.append(name)
        return asarray(getattr(self._copy_to_host(), name)(*map(_host, others)))

    return apply


for _name in (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "add",
    "sub",
    "mul",
    "truediv",
    "and",
    "or",
    "invert",
    "neg",
    "radd",
    "rmul",
):
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
ndarray.__hash__ = None  # type: ignore[assignment]


def _host(value: Any) -> Any:
    if isinstance(value, ndarray):
        return value._copy_to_host()
    if isinstance(value, tuple | list):
        return type(value)(map(_host, value))
    return {key: _host(item) for key, item in value.items()} if isinstance(value, dict) else value


def _device(value: Any) -> Any:
    return asarray(value) if isinstance(value, np.ndarray) else value


def asarray(value: Any, dtype: Any = None) -> ndarray:
    """Like CuPy: an object with a device address is used without a copy; everything else is copied to the device."""
    if isinstance(value, ndarray):
        return value if dtype is None else value.astype(dtype, copy=False)
    if hasattr(value, "__cuda_array_interface__"):
        interface = value.__cuda_array_interface__
        address, device = interface["data"][0], ctypes.c_uint()
        if address:
            _check(_driver.cuPointerGetAttribute(ctypes.byref(device), 9, address))
        if interface.get("stream") is not None:
            with _Current(device.value):
                _check(_driver.cuStreamSynchronize(interface["stream"]))
        memory = _Memory(address, device.value, value)
        return ndarray(interface["shape"], interface["typestr"], memory, 0, interface["strides"])
    host = np.asarray(value, dtype)
    array = ndarray(host.shape, host.dtype)
    array.set(host)
    return array


array = asarray


def ascontiguousarray(value: Any) -> ndarray:
    value = asarray(value)
    return value if value.is_dense else value.copy()


def empty(shape: Any, dtype: Any = float) -> ndarray:
    return ndarray(shape, dtype)


def zeros(shape: Any, dtype: Any = float) -> ndarray:
    return asarray(np.zeros(shape, dtype))


def where(condition: Any, x: Any, y: Any) -> ndarray:
    computed.append("where")
    return asarray(np.where(*_host((condition, x, y))))


def isnan(value: ndarray) -> ndarray:
    computed.append("isnan")
    return asarray(np.isnan(value._copy_to_host()))


def take(value: ndarray, indices: Any, axis: int) -> ndarray:
    return value.take(indices, axis)


# dask looks these up when it first gets a CuPy array.
tensordot = einsum = linalg = None


def asnumpy(value: ndarray) -> Any:
    return value.get()


def concatenate(arrays: Any, axis: int = 0) -> ndarray:
    return asarray(np.concatenate([_host(a) for a in arrays], axis))


def _count() -> int:
    _check(_driver.cuInit(0))
    count = ctypes.c_int()
    _check(_driver.cuDeviceGetCount(ctypes.byref(count)))
    return count.value


cuda = types.SimpleNamespace(
    runtime=types.SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError, getDeviceCount=_count, getDevice=lambda: _now.device
    ),
    Stream=Stream,
    ExternalStream=ExternalStream,
    get_current_stream=lambda: Stream(_now.stream),
    Device=Device,
    MemoryPool=MemoryPool,
    memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
)
