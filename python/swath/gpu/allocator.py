"""`set_allocator`: takes GPU memory from the pool of another library, such as CuPy or RMM."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal, Protocol

from .. import _swath


class DeviceAllocator(Protocol):
    """A source of GPU memory. Several threads call it at a time, with the context of the device current."""

    def allocate(self, nbytes: int, stream: int, device: int) -> int:
        """Return the address of `nbytes` bytes that work in this CUDA stream may use; a multiple of 256.

        MemoryError means that there is too little memory: Swath then tries smaller batches.
        """
        ...

    def free(self, address: int, nbytes: int, stream: int, device: int) -> None:
        """Take memory back. The work of Swath that uses it is ordered before what the stream has."""
        ...

    def free_bytes(self, device: int) -> int | None:
        """Return the bytes that the allocator holds and nothing uses; None if it does not know.

        Swath adds them to the free memory of the device before it refuses an operation. With None, Swath refuses
        nothing that fits in the device.
        """
        ...


class CupyAllocator:
    """Memory of a CuPy pool: of `pool`, or of CuPy's default memory pool."""

    def __init__(self, pool: Any = None) -> None:
        import cupy

        self._cupy = cupy
        self._pool = cupy.get_default_memory_pool() if pool is None else pool
        self._held: dict[int, Any] = {}

    def allocate(self, nbytes: int, stream: int, device: int) -> int:
        # CuPy gives a block that was used in a stream only to the same stream. The stream is that of Swath.
        with self._cupy.cuda.Device(device), self._cupy.cuda.ExternalStream(stream):
            memory = self._pool.malloc(nbytes)
        address = int(memory.ptr)
        self._held[address] = memory
        return address

    def free(self, address: int, nbytes: int, stream: int, device: int) -> None:
        with self._cupy.cuda.Device(device), self._cupy.cuda.ExternalStream(stream):
            del self._held[address]

    def free_bytes(self, device: int) -> int:
        with self._cupy.cuda.Device(device):
            return int(self._pool.free_bytes())


class _Stream:
    """A CUDA stream, for libraries that support the protocol `__cuda_stream__`."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class RmmAllocator:
    """Memory of an RMM resource: of `resource`, or of the current resource of each device."""

    def __init__(self, resource: Any = None) -> None:
        import rmm  # type: ignore[import-not-found,unused-ignore]

        self._rmm, self._resource = rmm, resource
        self._lock = threading.Lock()
        self._owners: dict[int, Any] = {}

    def allocate(self, nbytes: int, stream: int, device: int) -> int:
        resource = self._rmm.mr.get_per_device_resource(device) if self._resource is None else self._resource
        address = int(resource.allocate(nbytes, self._stream(stream)))
        with self._lock:
            self._owners[address] = resource
        return address

    def free(self, address: int, nbytes: int, stream: int, device: int) -> None:
        # The current resource may be another one by now.
        with self._lock:
            resource = self._owners.pop(address)
        resource.deallocate(address, nbytes, self._stream(stream))

    def free_bytes(self, device: int) -> None:
        """RMM resources do not report what they hold, so RMM decides what can be allocated."""

    def _stream(self, handle: int) -> Any:
        return self._rmm.pylibrmm.stream.Stream(_Stream(handle))


def set_allocator(allocator: DeviceAllocator | Literal["cupy", "rmm"] | None) -> None:
    """Take the memory of all CUDA devices from another library.

        swath.set_allocator("cupy")

    Memory that this library holds without a user then counts as free, and Swath does not refuse a read because the
    library has reserved the device. Without this call, the CUDA driver gives the memory.

    Parameters
    ----------
    allocator : {"cupy", "rmm"}, object or None
        "cupy" is CuPy's default memory pool, "rmm" the current resource of RMM. An object has the methods `allocate`,
        `free` and `free_bytes` of `swath.gpu.allocator.DeviceAllocator`; for example `CupyAllocator(pool)` or
        `RmmAllocator(resource)` of that module. None is the CUDA driver again.

    Notes
    -----
    Memory in use goes back to where it came from. NVIDIA's libraries for JPEG and JPEG 2000, and cuFile, allocate some
    memory themselves. Swath calls the allocator from its own threads, which need the GIL for that.
    """
    if isinstance(allocator, str):
        known: dict[str, Callable[[], DeviceAllocator]] = {"cupy": CupyAllocator, "rmm": RmmAllocator}
        if allocator not in known:
            raise ValueError(f"allocator must be 'cupy', 'rmm', an object or None, not {allocator!r}")
        allocator = known[allocator]()
    missing = [name for name in ("allocate", "free", "free_bytes") if not callable(getattr(allocator, name, None))]
    if allocator is not None and missing:
        raise TypeError(f"the allocator has no method {missing[0]}()")
    _swath.set_allocator(allocator)
