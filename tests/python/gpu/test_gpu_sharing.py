"""Sharing a GPU with other libraries: their memory, their streams, their arrays, their current device."""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from simulated_gpu import events, on_gpu, reset

VALUES = np.arange(64 * 48, dtype="float32").reshape(48, 64)


@pytest.fixture
def path(tmp_path: Path) -> str:
    import swath

    swath.to_geotiff(VALUES, str(tmp_path / "in.tif"), compression="deflate", tile_size=16)
    return str(tmp_path / "in.tif")


@contextmanager
def allocator(allocator: Any) -> Iterator[None]:
    import swath
    from swath import _swath

    swath.set_allocator(allocator)
    try:
        yield
    finally:
        swath.set_allocator(None)
        _swath.trim_devices()


def waits() -> list[str]:
    return [event for event in events() if event.startswith("synchronize")]


def misuse() -> list[str]:
    return [event for event in events() if event.startswith("reported")]


# --- memory


@on_gpu
def test_all_memory_comes_from_the_pool_of_cupy_and_goes_back(path: str, tmp_path: Path) -> None:
    import cupy

    import swath

    pool = cupy.cuda.MemoryPool()
    reset()
    with allocator(swath.gpu.allocator.CupyAllocator(pool)):
        array = swath.read_device(path, strict=True)
        np.testing.assert_array_equal(array.to_host(), VALUES)
        swath.to_geotiff(array, str(tmp_path / "out.tif"), compression="deflate", encoder="builtin")
        assert pool.used_bytes() >= VALUES.nbytes
        # Memory of the driver: that of the pool, and nothing else.
        assert sum(event.startswith("alloc ") for event in events()) <= pool.calls
        del array
        gc.collect()
    assert pool.used_bytes() == 0, "memory was not given back"
    assert not misuse()
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "out.tif"), VALUES)
    pool.free_all_blocks()


@on_gpu
def test_guard_does_not_refuse_a_read_because_the_pool_holds_the_memory(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    import swath
    from swath import _swath

    _swath.trim_devices()
    monkeypatch.setenv("SWATH_SIM_MEMORY", str(1 << 20))
    pool = cupy.get_default_memory_pool()
    block = pool.malloc((1 << 20) - 4096)
    del block
    assert pool.free_bytes() == (1 << 20) - 4096
    with pytest.raises(swath.DeviceMemoryError):
        swath.read_device(path, strict=True)
    with allocator("cupy"):
        array = swath.read_device(path, strict=True)
        np.testing.assert_array_equal(array.to_host(), VALUES)
        del array
    pool.free_all_blocks()


@on_gpu
def test_allocator_that_raises_is_an_error_of_the_device(path: str) -> None:
    import swath

    class Raises:
        def __init__(self, error: BaseException | None) -> None:
            self.error = error

        def allocate(self, nbytes: int, stream: int, device: int) -> Any:
            if self.error is not None:
                raise self.error
            return "no address"

        def free(self, address: int, nbytes: int, stream: int, device: int) -> None:
            raise AssertionError("nothing was allocated")

        def free_bytes(self, device: int) -> None:
            return None

    for error, expected in [
        (MemoryError("the pool is full"), swath.DeviceMemoryError),
        (KeyError("a defect of the pool"), swath.DeviceError),
        (None, swath.DeviceError),
    ]:
        with allocator(Raises(error)), pytest.raises(expected) as raised:
            swath.read_device(path, strict=True)
        if isinstance(error, KeyError):
            assert "a defect of the pool" in str(raised.value)
    for wrong in ("numba", object()):
        with pytest.raises((TypeError, ValueError), match="alloc"):
            swath.set_allocator(wrong)  # type: ignore[arg-type]


@on_gpu
def test_resource_of_rmm_gets_back_what_it_gave(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for RMM: its resources take a stream that supports `__cuda_stream__`."""
    import cupy

    import swath

    class Resource:
        def __init__(self) -> None:
            self.held: dict[int, tuple[int, Any]] = {}

        def allocate(self, nbytes: int, stream: Any) -> int:
            assert stream.handle > 2, "a stream of Swath"
            memory = cupy._Memory.allocate(nbytes)
            self.held[memory.ptr] = (nbytes, memory)
            return memory.ptr

        def deallocate(self, address: int, nbytes: int, stream: Any) -> None:
            assert self.held.pop(address)[0] == nbytes

    def stream(obj: Any) -> Any:
        return types.SimpleNamespace(handle=obj.__cuda_stream__()[1])

    first, second = Resource(), Resource()
    rmm = types.SimpleNamespace(
        mr=types.SimpleNamespace(get_per_device_resource=lambda device: first),
        pylibrmm=types.SimpleNamespace(stream=types.SimpleNamespace(Stream=stream)),
    )
    monkeypatch.setitem(sys.modules, "rmm", rmm)
    with allocator("rmm"):
        array = swath.read_device(path, strict=True)
        assert first.held
        # The current resource changes while Swath holds memory of the first.
        rmm.mr.get_per_device_resource = lambda device: second
        np.testing.assert_array_equal(array.to_host(), VALUES)
        del array
        gc.collect()
    assert not first.held and not second.held


@on_gpu
def test_allocator_that_needs_the_gil_does_not_stop_other_threads(path: str) -> None:
    """Threads of Swath call the allocator, so a thread that holds the GIL must not wait for them or their locks."""
    import cupy

    import swath
    from swath import _swath

    failures: list[BaseException] = []

    def reads() -> None:
        try:
            for _ in range(25):
                np.testing.assert_array_equal(swath.read_device(path, strict=True).to_host(), VALUES)
                swath.open_geotiff(path, gpu=True)
        except BaseException as error:
            failures.append(error)

    pool = cupy.cuda.MemoryPool()
    with allocator(swath.gpu.allocator.CupyAllocator(pool)):
        threads = [threading.Thread(target=reads, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            _swath.trim_devices()
            sum(range(1000))
            threads[0].join(0.01)
        assert not failures
        gc.collect()
    assert pool.used_bytes() == 0
    pool.free_all_blocks()


# --- the caller's array


@on_gpu
@pytest.mark.parametrize("kind", ["cupy", "torch", "interface", "own"])
def test_pixels_go_into_the_array_of_the_caller(path: str, kind: str) -> None:
    import cupy
    import torch_tensor

    import swath

    made: dict[str, Any] = {
        "cupy": cupy.asarray,
        "torch": torch_tensor.Tensor,
        "interface": torch_tensor.InterfaceOnly,
        "own": lambda _: swath.read_device(path, strict=True),
    }
    out = made[kind](np.zeros_like(VALUES))
    assert swath.read_device(path, out=out, strict=True) is out
    found = out.to_host() if kind == "own" else out.get() if kind == "cupy" else out.array.get()
    np.testing.assert_array_equal(found, VALUES)
    part = made[kind](np.zeros_like(VALUES[3:20, 5:60])) if kind != "own" else None
    if part is not None:
        swath.read_device(path, out=part, window=(3, 5, 20, 60), strict=True)
        np.testing.assert_array_equal((part.get() if kind == "cupy" else part.array.get()), VALUES[3:20, 5:60])
    assert not misuse()


@on_gpu
def test_array_that_cannot_receive_the_pixels_is_refused_and_not_changed(path: str) -> None:
    import cupy

    import swath

    good = cupy.zeros((48, 64), "float32")
    wide = cupy.zeros((48, 128), "float32")
    cases: list[tuple[Any, type[Exception], str]] = [
        (np.zeros((48, 64), "float32"), TypeError, "memory of a GPU"),
        (cupy.zeros((48, 64), "float64"), ValueError, "float64"),
        (cupy.zeros((64, 48), "float32"), ValueError, "64, 48"),
        (cupy.zeros((48, 63), "float32"), ValueError, "63"),
        (wide[:, ::2], BufferError, "gaps"),
        (wide[:, :64], BufferError, "gaps"),
        (object(), TypeError, "memory of a GPU"),
    ]
    for out, error, words in cases:
        with pytest.raises(error, match=words):
            swath.read_device(path, out=out)
    assert not wide.get().any()

    class ReadOnly:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            interface: dict[str, Any] = good.__cuda_array_interface__
            return {**interface, "data": (interface["data"][0], True)}

    with pytest.raises(ValueError, match="read-only"):
        swath.read_device(path, out=ReadOnly())
    assert not good.get().any()


# --- streams


class TorchStream:
    def __init__(self, ptr: int) -> None:
        self.cuda_stream = ptr


class ProtocolStream:
    def __init__(self, ptr: int) -> None:
        self.ptr_ = ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr_


@on_gpu
@pytest.mark.parametrize("kind", ["cupy", "int", "torch", "protocol", "legacy", "thread"])
def test_read_comes_after_what_the_callers_stream_has(path: str, kind: str) -> None:
    """An upload that is in the stream before the read must not overwrite the pixels after it."""
    import cupy

    import swath

    streams = {"legacy": cupy.cuda.Stream.null, "thread": cupy.cuda.Stream.ptds}
    stream = streams.get(kind, cupy.cuda.Stream)()
    made: dict[str, Any] = {"int": int, "torch": TorchStream, "protocol": ProtocolStream}
    argument = made[kind](stream.ptr) if kind in made else stream
    with stream:
        out = cupy.zeros((48, 64), "float32")
    before = len(waits())
    swath.read_device(path, out=out, stream=argument, strict=True)
    assert len(waits()) - before == 1, "the host waits for its batch, and not for the caller's stream"
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), VALUES)


@on_gpu
def test_objects_that_are_no_stream_are_refused(path: str) -> None:
    import cupy

    import swath

    for wrong, error in [
        (True, TypeError),
        ("0", TypeError),
        (1.5, TypeError),
        (object(), TypeError),
        (-1, ValueError),
    ]:
        with pytest.raises(error, match="stream"):
            swath.read_device(path, stream=wrong)
    with pytest.raises(ValueError, match="stream"):
        swath.open_geotiff(path, gpu=True, chunks=16, stream=1)
    with pytest.raises(ValueError, match="gpu=True"):
        swath.open_geotiff(path, stream=1)
    with pytest.raises(ValueError, match="stream"):
        swath.to_geotiff(VALUES, path, gpu=True, stream=1)
    swath.to_geotiff(cupy.asarray(VALUES), path, stream=0)
    np.testing.assert_array_equal(tifffile.imread(path), VALUES)


@on_gpu
def test_array_is_freed_after_the_callers_work_and_without_a_wait_if_its_stream_is_known(path: str) -> None:
    import cupy

    import swath

    for known in (True, False):
        stream = cupy.cuda.Stream()
        array = swath.read_device(path, strict=True, stream=stream if known else None)
        target = cupy.zeros((48, 64), "float32")
        target.get()
        source = array.__cuda_array_interface__["data"][0]
        with cupy._Current(0):
            # The caller's work: a copy that has not run when the array is deleted.
            cupy._driver.cuMemcpyDtoDAsync_v2.argtypes = [cupy._u64, cupy._u64, cupy._size, cupy._pointer]
            cupy._check(cupy._driver.cuMemcpyDtoDAsync_v2(target.ptr, source, VALUES.nbytes, stream.ptr))
        reset()
        del array
        gc.collect()
        assert waits() == ([] if known else ["synchronize context"])
        assert "free async" in events()
        # Memory that may be the same.
        again = swath.read_device(path, strict=True)
        stream.synchronize()
        np.testing.assert_array_equal(target.get(), VALUES)
        assert not misuse()
        del again


@on_gpu
def test_cupy_array_that_was_read_is_freed_without_a_wait(path: str) -> None:
    """`gpu=True` uses CuPy's current stream, as CuPy's own arrays do."""
    import cupy

    import swath

    with cupy.cuda.Stream():
        array = swath.open_geotiff(path, gpu=True)
        np.testing.assert_array_equal(array.data.get(), VALUES)
        reset()
        del array
        gc.collect()
        assert not waits() and not misuse()


@on_gpu
@pytest.mark.parametrize("kind", ["cupy", "torch"])
def test_write_comes_after_what_the_callers_stream_has(tmp_path: Path, kind: str) -> None:
    import cupy
    import torch_tensor

    import swath

    path = str(tmp_path / "a.tif")
    stream = cupy.cuda.Stream()
    with stream:
        array = (cupy.asarray if kind == "cupy" else torch_tensor.Tensor)(VALUES)
    reset()
    swath.to_geotiff(array, path, stream=stream, compression="lzw")
    called = events()
    first_launch = next(at for at, event in enumerate(called) if event.startswith("launch"))
    assert not [event for event in called[:first_launch] if event.startswith("synchronize")]
    if kind == "torch":
        assert [call for call in array.calls if call != "interface"] == [("dlpack", stream.ptr)]
    np.testing.assert_array_equal(tifffile.imread(path), VALUES)


# --- the device


@on_gpu
def test_device_is_that_of_the_argument_or_the_current_one_of_cupy(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    import swath

    monkeypatch.setenv("SWATH_SIM_DEVICES", "2")
    named = swath.open_geotiff(path, gpu=True, device="cuda:1")
    assert named.data.device.id == 1
    np.testing.assert_array_equal(named.data.get(), VALUES)
    with cupy.cuda.Device(1):
        current = swath.open_geotiff(path, gpu=True)
    assert current.data.device.id == 1
    assert swath.open_geotiff(path, gpu=True).data.device.id == 0

    # With chunks: the device of the argument, or the current one of the thread that decodes.
    seen: list[int] = []

    def note(chunk: Any) -> Any:
        seen.append(chunk.device.id)
        return chunk

    lazy = swath.open_geotiff(path, gpu=True, device="cuda:1", chunks=32).data
    lazy.map_blocks(note, meta=lazy._meta).compute(scheduler="sync")
    assert seen == [1] * 4
    seen.clear()
    lazy = swath.open_geotiff(path, gpu=True, chunks=32).data
    with cupy.cuda.Device(1):
        lazy.map_blocks(note, meta=lazy._meta).compute(scheduler="sync")
    assert seen == [1] * 4
    del named, current, lazy
    with cupy.cuda.Device(1):
        out = cupy.zeros((48, 64), "float32")
    swath.read_device(path, out=out, strict=True)
    np.testing.assert_array_equal(out.get(), VALUES)
    with pytest.raises(ValueError, match="cuda:1"):
        swath.read_device(path, out=out, device="cuda:0")
    with pytest.raises(ValueError, match="CUDA"):
        swath.open_geotiff(path, gpu=True, device="opencl")
    with pytest.raises(ValueError, match="gpu=True"):
        swath.open_geotiff(path, device="cuda:1")


# --- together with conversion on the device, and with several devices


@on_gpu
def test_converted_pixels_follow_the_stream_and_are_freed_in_its_order(tmp_path: Path) -> None:
    import cupy

    import swath

    path = str(tmp_path / "nodata.tif")
    stored = VALUES.astype("int16")
    swath.to_geotiff(stored, path, nodata=7, compression="deflate", tile_size=16)
    expected = np.where(stored == 7, np.nan, stored)
    stream = cupy.cuda.Stream()
    with stream:
        reset()
        array = swath.open_geotiff(path, gpu=True, masked=True, stream=stream)
        assert "launch place_unpack" in " ".join(events())
        np.testing.assert_array_equal(array.data.get(), expected)
        reset()
        del array
        gc.collect()
        assert not waits() and not misuse()


@on_gpu
def test_arguments_that_contradict_each_other_are_refused(path: str, tmp_path: Path) -> None:
    import cupy

    import swath
    from swath import _swath

    new = str(tmp_path / "new.tif")
    with pytest.raises(ValueError, match="devices"):
        swath.open_geotiff(path, devices=[0], device="cuda:0")
    with pytest.raises(ValueError, match="devices"):
        swath.open_geotiff(path, devices=[0], stream=1)
    with pytest.raises(ValueError, match="device and devices"):
        swath.to_geotiff(VALUES, new, gpu=True, devices=[0], device="cuda:0")
    assert not Path(new).exists()
    file = _swath.File.open(path)
    out = cupy.zeros((48, 64), "float32")
    with pytest.raises(ValueError, match="unpack does not apply"):
        file.read_to_device(out=out, unpack=(7.0, True, [], "float32"))
    np.testing.assert_array_equal(out.get(), np.zeros((48, 64), "float32"))
    for keywords in ({"out": out}, {"stream": 1}):
        with pytest.raises(TypeError, match=next(iter(keywords))):
            file.read_into(np.zeros((48, 64), "float32"), **keywords)  # type: ignore[arg-type]
