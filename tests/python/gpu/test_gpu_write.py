"""Writing from a device: the device splits and compresses pixels, or the CPU does if the device fails."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import xarray as xr

from simulated_gpu import device_bytes, events, moved, on_gpu, reset, simulator_variables

LIBRARIES = ("libnvcomp.so.6",)


def dem(height: int = 200, width: int = 180, dtype: str = "float32") -> xr.DataArray:
    rows, columns = np.mgrid[:height, :width]
    pixels = (1000 + 30 * np.sin(rows / 9) + 20 * np.cos(columns / 7)).round(0).astype(dtype)
    coords = {"y": 100.0 - 2 * np.arange(height), "x": 5.0 + 2 * np.arange(width)}
    return xr.DataArray(pixels, coords, ("y", "x"), attrs={"crs": 32632})


def on_device(data: xr.DataArray) -> xr.DataArray:
    import cupy

    return data.copy(data=cupy.asarray(data.values))


def looked_at_by_nobody() -> bool:
    """Checks that CuPy made no copy on the host."""
    return "get" not in sys.modules["cupy"].log


@on_gpu
@pytest.mark.parametrize("keywords", [{}, {"cog": True}, {"compression": "deflate", "predictor": 2}], ids=str)
def test_pixels_never_come_to_the_host(tmp_path: Path, keywords: dict[str, Any]) -> None:
    import swath

    data = on_device(dem())
    path = str(tmp_path / "a.tif")
    report: dict[str, Any] = {}
    before, uploads = data.data._copy_to_host(), moved("upload")
    downloads = moved("download")
    swath.to_geotiff(data, path, tile_size=64, report=report, **keywords)
    assert looked_at_by_nobody()
    assert (report["device"], report["compressed_by"][:6], report["fallbacks"]) == ("cuda", "nvCOMP", [])
    # Tables for nvCOMP are uploaded; compressed tiles and their sizes are downloaded.
    assert moved("upload") - uploads < 4096
    assert moved("download") - downloads < data.nbytes / 3
    np.testing.assert_array_equal(data.data._copy_to_host(), before, "the source was written to")
    xr.testing.assert_equal(swath.open_geotiff(path), dem())


@on_gpu
@pytest.mark.parametrize("compression", ["none", "lzw", "packbits"])
@pytest.mark.parametrize("cog", [False, True])
def test_bytes_are_those_that_the_cpu_writes(tmp_path: Path, compression: str, cog: bool) -> None:
    import swath

    for name, data, gpu in [("cpu", dem(), False), ("cupy", on_device(dem()), None), ("numpy", dem(), True)]:
        swath.to_geotiff(
            data, str(tmp_path / name), compression=compression, predictor=2, cog=cog, gpu=gpu, tile_size=64
        )
        assert swath.last_report()["device"] == ("cpu" if name == "cpu" else "cuda")
    assert (tmp_path / "cupy").read_bytes() == (tmp_path / "numpy").read_bytes() == (tmp_path / "cpu").read_bytes()
    assert looked_at_by_nobody()


@on_gpu
def test_stream_of_the_producer_is_waited_for(tmp_path: Path) -> None:
    import cupy

    import swath

    for name in ("own", "legacy"):
        reset()
        path = str(tmp_path / f"{name}.tif")
        stream = cupy.cuda.Stream()
        if name == "own":
            with stream:
                array = cupy.asarray(dem().values)
        else:
            array = cupy.asarray(dem().values)
        assert array.__cuda_array_interface__["stream"] == (stream.ptr if name == "own" else 1)
        assert "synchronize" not in events(), "nobody has waited yet, so nothing is there yet"
        swath.to_geotiff(array, path)
        np.testing.assert_array_equal(tifffile.imread(path), dem().values)


@on_gpu
@pytest.mark.parametrize("stream", ["own", "legacy", "thread"])
@pytest.mark.parametrize("kind", ["Tensor", "InterfaceOnly"])
def test_producer_that_names_no_stream_is_waited_for(tmp_path: Path, kind: str, stream: str) -> None:
    """PyTorch has an array interface without a stream. Swath's streams do not wait for the default streams."""
    import cupy
    import torch_tensor

    import swath

    path = str(tmp_path / "a.tif")
    reset()
    with {"own": cupy.cuda.Stream, "legacy": cupy.cuda.Stream.null, "thread": cupy.cuda.Stream.ptds}[stream]():
        tensor = getattr(torch_tensor, kind)(dem().values)
    assert not [event for event in events() if event.startswith("synchronize")], "the pixels are not there yet"
    swath.to_geotiff(tensor, path, compression="lzw")
    waited = events()
    first_launch = next(at for at, event in enumerate(waited) if event.startswith("launch"))
    if kind == "Tensor":
        # With DLPack, PyTorch orders its work before the legacy default stream. Swath's streams follow that stream, and
        # the host does not wait for it.
        assert [call for call in tensor.calls if call != "interface"] == [("dlpack", 1)]
        assert "synchronize" not in waited[:first_launch] and "synchronize context" not in waited
        assert "stream wait" in waited[:first_launch]
    else:
        assert "synchronize context" in waited[:first_launch]
    np.testing.assert_array_equal(tifffile.imread(path), dem().values)
    assert looked_at_by_nobody() and swath.last_report()["device"] == "cuda"
    del tensor
    gc.collect()
    assert not torch_tensor._exported, "a capsule was not given back"


@on_gpu
def test_array_that_takes_the_gil_to_be_freed_does_not_stop_the_write(tmp_path: Path) -> None:
    """The engine's thread frees the array at its end. The caller must not hold the GIL while it waits for it."""
    import torch_tensor

    import swath

    values = np.arange(64, dtype="float32").reshape(8, 8)
    # Often: only some writes stopped.
    for _ in range(300):
        swath.to_geotiff(torch_tensor.Tensor(values), str(tmp_path / "a.tif"), compression="none")
    assert not torch_tensor._exported, "a capsule was not given back"


@on_gpu
def test_array_whose_library_has_no_such_dlpack_is_taken_by_its_interface(tmp_path: Path) -> None:
    import torch_tensor

    import swath

    class NoSuchType(torch_tensor.Tensor):
        def __dlpack__(self, **_: Any) -> Any:
            raise TypeError("this type is not supported by DLPack")

    class Conjugated(torch_tensor.Tensor):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("the memory does not hold the values")

        def contiguous(self) -> Any:
            return self

    path = str(tmp_path / "a.tif")
    swath.to_geotiff(NoSuchType(dem().values), path, compression="lzw")
    assert "synchronize context" in events()
    np.testing.assert_array_equal(tifffile.imread(path), dem().values)
    # The interface of such an array would give other values.
    with pytest.raises(BufferError, match="does not hold the values"):
        swath.to_geotiff(Conjugated(dem().values), str(tmp_path / "b.tif"))


@on_gpu
def test_invalid_stream_is_refused(tmp_path: Path) -> None:
    from swath import _swath

    class Odd:
        def __init__(self, **changes: Any) -> None:
            self.array = on_device(dem(16, 16)).data
            self.__cuda_array_interface__ = self.array.__cuda_array_interface__ | changes

    write: dict[str, Any] = {"shape": (1, 16, 16), "dtype": "float32", "options": {}}
    path = str(tmp_path / "a.tif")
    _swath.write(path, Odd(), **write)
    for changes, error in [
        ({"stream": 0}, ValueError),
        ({"stream": -5}, ValueError),
        ({"typestr": ">f4"}, ValueError),
        ({"typestr": "<f8"}, ValueError),
        ({"typestr": "|V4"}, TypeError),
        ({"typestr": "x"}, TypeError),
        ({"shape": (16, 17)}, ValueError),
        ({"shape": (256,)}, ValueError),
        ({"mask": object()}, TypeError),
        ({"strides": (128, 4)}, BufferError),
        ({"strides": (4, 64)}, BufferError),
        ({"data": (0x1234, False)}, RuntimeError),
    ]:
        with pytest.raises(error):
            _swath.write(path, Odd(**changes), **write)
    _swath.write(path, Odd(strides=(64, 4), version=2, shape=[16, 16]), **write)
    np.testing.assert_array_equal(tifffile.imread(path), dem(16, 16).values)


class Hidden:
    """An array that has only DLPack, in the old or the new version."""

    def __init__(self, array: Any, versioned: bool) -> None:
        self.array, self.versioned, self.streams = array, versioned, []
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None, **keywords: Any) -> Any:
        if keywords and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, **keywords)


@on_gpu
@pytest.mark.parametrize("versioned", [False, True])
def test_other_libraries_hand_theirs_over_by_dlpack(tmp_path: Path, versioned: bool) -> None:
    import swath

    first = str(tmp_path / "a.tif")
    swath.to_geotiff(dem(), first)
    array = Hidden(swath.read_device(first), versioned)
    held = device_bytes()
    second = str(tmp_path / "b.tif")
    swath.to_geotiff(array, second)
    np.testing.assert_array_equal(tifffile.imread(second), dem().values)
    # Stream 1 is the one that Swath waited for.
    assert array.streams == [1] and swath.last_report()["device"] == "cuda"
    gc.collect()
    assert device_bytes() >= held
    del array


@on_gpu
def test_device_array_is_written_where_it_is(tmp_path: Path) -> None:
    import swath
    from swath import _swath

    first, second = str(tmp_path / "a.tif"), str(tmp_path / "b.tif")
    pixels = np.arange(3 * 70 * 80, dtype="u2").reshape(70, 80, 3)
    swath.to_geotiff(pixels, first, tile_size=32)
    for bands_last in (True, False):
        array = swath.read_device(first, bands_last=bands_last)
        downloads = moved("download")
        if bands_last:
            swath.to_geotiff(array, second, tile_size=32)
        else:
            options: Any = {"tile": 32}
            _swath.write(
                second, array, shape=(3, 70, 80), dtype="uint16", bands_last=False, options=options, strict=True
            )
        assert moved("download") - downloads < pixels.nbytes
        np.testing.assert_array_equal(tifffile.imread(second).reshape(pixels.shape), pixels)


@on_gpu
@pytest.mark.parametrize("order", ["bands first", "bands last", "last as first", "first as last"])
def test_any_order_of_bands_is_taken_without_a_copy(tmp_path: Path, order: str) -> None:
    import cupy

    import swath

    pixels = np.arange(4 * 50 * 60, dtype="i2").reshape(4, 50, 60)
    first, last = cupy.asarray(pixels), cupy.asarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    array, dims = {
        "bands first": (first, ("band", "y", "x")),
        "bands last": (last, ("y", "x", "band")),
        "last as first": (last.transpose(2, 0, 1), ("band", "y", "x")),
        "first as last": (first.transpose(1, 2, 0), ("y", "x", "band")),
    }[order]
    path = str(tmp_path / "a.tif")
    swath.to_geotiff(xr.DataArray(array, dims=dims), path, compression="lzw", tile_size=16)
    np.testing.assert_array_equal(swath.open_geotiff(path).values, pixels.transpose(1, 2, 0))
    assert looked_at_by_nobody() and swath.last_report()["fallbacks"] == []


@on_gpu
def test_arrays_with_gaps_are_made_whole_on_the_device(tmp_path: Path) -> None:
    import cupy

    import swath

    pixels = np.arange(90 * 100, dtype="u4").reshape(90, 100)
    array = cupy.asarray(pixels)
    path = str(tmp_path / "a.tif")
    for key in [np.s_[::2, :], np.s_[:, 3:50], np.s_[5:40, ::3], np.s_[::-1, ::-1], np.s_[7:8, :], np.s_[10:60]]:
        swath.to_geotiff(array[key], path, compression="lzw", tile_size=16)
        np.testing.assert_array_equal(tifffile.imread(path), pixels[key])
        assert swath.last_report()["device"] == "cuda"
    swath.to_geotiff(array.transpose(), path, compression="lzw", tile_size=16)
    np.testing.assert_array_equal(tifffile.imread(path), pixels.T)
    assert looked_at_by_nobody()


@on_gpu
@pytest.mark.parametrize("dtype", ["bool", "float16", "uint8", "int8", "int64", "uint64", "float64", "complex64"])
def test_types_are_those_that_the_cpu_writes(tmp_path: Path, dtype: str) -> None:
    import cupy

    import swath

    pixels = (np.arange(40 * 50) % 97).reshape(40, 50).astype(dtype)
    on_gpu, on_cpu = str(tmp_path / "a.tif"), str(tmp_path / "b.tif")
    swath.to_geotiff(cupy.asarray(pixels), on_gpu, compression="lzw", tile_size=16)
    assert swath.last_report()["device"] == "cuda" and looked_at_by_nobody()
    swath.to_geotiff(pixels, on_cpu, compression="lzw", tile_size=16)
    assert Path(on_gpu).read_bytes() == Path(on_cpu).read_bytes()


@on_gpu
def test_nan_becomes_nodata_in_the_file_and_not_in_the_array(tmp_path: Path) -> None:
    import swath

    data = dem()
    data[3:9, 5:7] = np.nan
    array = on_device(data)
    path = str(tmp_path / "a.tif")
    swath.to_geotiff(array, path, nodata=-9999.0, cog=True)
    assert (tifffile.imread(path)[3:9, 5:7] == -9999).all()
    xr.testing.assert_equal(swath.open_geotiff(path, masked=True), data)
    np.testing.assert_array_equal(array.data._copy_to_host(), data.values)
    assert looked_at_by_nobody()


@on_gpu
@pytest.mark.parametrize("cog", [False, True])
def test_dask_of_cupy_streams_through_the_device(tmp_path: Path, cog: bool) -> None:
    import cupy

    import swath

    whole = dem(300, 200)
    lazy = whole.chunk({"y": 50, "x": 70})
    lazy = lazy.copy(data=lazy.data.map_blocks(cupy.asarray, meta=cupy.empty((0, 0), "f4")))
    first, second = str(tmp_path / "a.tif"), str(tmp_path / "b.tif")
    swath.to_geotiff(lazy, first, compression="lzw", cog=cog, tile_size=64, streaming_buffer_bytes=100_000)
    assert looked_at_by_nobody() and swath.last_report()["device"] == "cuda"
    assert swath.last_report()["fallbacks"] == []
    swath.to_geotiff(whole, second, compression="lzw", cog=cog, tile_size=64)
    assert Path(first).read_bytes() == Path(second).read_bytes()


@on_gpu
@pytest.mark.parametrize("cog", [False, True])
@pytest.mark.parametrize("order", ["y x", "band y x", "y x band"])
def test_seed5_dask_of_any_order_streams_the_bytes_of_an_eager_write(tmp_path: Path, order: str, cog: bool) -> None:
    import cupy

    import swath

    whole = dem(150, 100)
    if "band" in order:
        whole = xr.concat([whole, whole + 7], "band").transpose(*order.split())
    whole[{"y": slice(30, 40), "x": slice(5, 9)}] = np.nan
    lazy = whole.chunk({"y": 24, "x": 70})
    lazy = lazy.copy(data=lazy.data.map_blocks(cupy.asarray, meta=cupy.empty((0,) * whole.ndim, "f4")))
    streamed, eager = str(tmp_path / "a.tif"), str(tmp_path / "b.tif")
    keywords: dict[str, Any] = {"compression": "deflate", "cog": cog, "tile_size": 32, "nodata": -9999.0}
    swath.to_geotiff(lazy, streamed, streaming_buffer_bytes=1, **keywords)
    assert looked_at_by_nobody()
    report = swath.last_report()
    assert (report["device"], report["compressed_by"][:6], report["fallbacks"]) == ("cuda", "nvCOMP", [])
    swath.to_geotiff(on_device(whole), eager, **keywords)
    assert Path(streamed).read_bytes() == Path(eager).read_bytes()
    read = swath.open_geotiff(streamed, masked=True)
    np.testing.assert_array_equal(read.transpose(*order.split()), whole)


@on_gpu
def test_lazy_arrays_are_written_lazily(tmp_path: Path) -> None:
    import swath

    first, second = str(tmp_path / "a.tif"), str(tmp_path / "b.tif")
    swath.to_geotiff(dem(), first, tile_size=32)
    lazy = swath.open_geotiff(first, gpu=True, chunks=64)
    swath.to_geotiff(lazy, second, tile_size=32)
    assert looked_at_by_nobody() and swath.last_report()["device"] == "cuda"
    xr.testing.assert_identical(swath.open_geotiff(second).rename("a"), swath.open_geotiff(first))


@on_gpu
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *[("cupy", f"{fault}:1+") for fault in ("launch", "alloc", "pin", "copy", "stream", "nvcomp")],
        *[("numpy", f"{fault}:1+") for fault in ("launch", "upload", "nvcomp")],
        *[("dask", f"{fault}:1+") for fault in ("launch", "copy")],
    ],
)
def test_failing_device_leaves_the_write_to_the_cpu_with_a_warning(tmp_path: Path, kind: str, fault: str) -> None:
    import swath

    data = {"numpy": dem, "cupy": lambda: on_device(dem()), "dask": lambda: on_device(dem()).chunk(64)}[kind]()
    path = str(tmp_path / "a.tif")
    report: dict[str, Any] = {}
    with simulator_variables(FAIL=fault):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            swath.to_geotiff(data, path, gpu=True, tile_size=32, report=report)
        assert any(event.startswith("injected failure") for event in events())
    messages = [str(each.message) for each in caught if issubclass(each.category, swath.GeoTIFFFallbackWarning)]
    assert messages, "no warning was issued"
    assert caught[0].filename == __file__
    assert report["fallbacks"], report
    if fault != "nvcomp:1+":
        assert "falling back to CPU" in messages[0] and report["device"] == "cpu"
        assert report["fallbacks"][-1]["reason"] in messages[0]
    xr.testing.assert_equal(swath.open_geotiff(path), dem())
    os.environ["SWATH_STRICT"] = "1"
    try:
        with simulator_variables(FAIL=fault), pytest.raises(RuntimeError):
            swath.to_geotiff(data, str(tmp_path / "b.tif"), gpu=True, tile_size=32)
    finally:
        del os.environ["SWATH_STRICT"]
    assert not (tmp_path / "b.tif").exists()


@on_gpu
def test_error_of_a_user_task_is_not_a_device_failure(tmp_path: Path) -> None:
    import cupy

    import swath

    class OwnError(RuntimeError):
        pass

    def fail(block: Any) -> Any:
        raise OwnError("cuda is not to blame")

    lazy = dem().chunk(64)
    lazy = lazy.copy(data=lazy.data.map_blocks(fail, meta=cupy.empty((0, 0), "f4")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OwnError, match="not to blame"):
            swath.to_geotiff(lazy, str(tmp_path / "a.tif"))
    assert not (tmp_path / "a.tif").exists()


@on_gpu
def test_arrays_of_another_device_are_written_there(tmp_path: Path) -> None:
    import cupy

    import swath

    with simulator_variables(DEVICES="2"):
        with cupy.cuda.Device(1):
            array = cupy.asarray(dem().values)
        path = str(tmp_path / "a.tif")
        swath.to_geotiff(array, path)
        assert swath.last_report()["device_name"].endswith("GPU 1")
        np.testing.assert_array_equal(tifffile.imread(path), dem().values)
        del array


@on_gpu
def test_gpu_false_writes_a_device_array_by_the_cpu(tmp_path: Path) -> None:
    import swath

    path = str(tmp_path / "a.tif")
    swath.to_geotiff(on_device(dem()), path, gpu=False)
    assert swath.last_report()["device"] == "cpu" and not looked_at_by_nobody()
    np.testing.assert_array_equal(tifffile.imread(path), dem().values)


@on_gpu
def test_rows_of_a_producer_may_be_anywhere(tmp_path: Path) -> None:
    import cupy

    from swath import _swath

    pixels = np.arange(96 * 40 * 2, dtype="u2").reshape(96, 40, 2)

    def rows(start: int, stop: int) -> Any:
        part = pixels[start:stop]
        if start % 48 == 0:
            return np.ascontiguousarray(part)
        if start % 48 == 16:
            return cupy.asarray(part)
        # Its bands are stored one after the other: another memory order of the same array.
        return cupy.asarray(np.ascontiguousarray(part.transpose(2, 0, 1))).transpose(1, 2, 0)

    path = str(tmp_path / "a.tif")
    write: dict[str, Any] = {
        "shape": (2, 96, 40),
        "dtype": "uint16",
        "options": {"tile": 16, "compression": "lzw"},
        "chunk_rows": [16] * 6,
        "buffer_bytes": 1,
    }
    for device, rows_on_device in [("cuda", True), ("cuda", False), ("cpu", False)]:
        report = _swath.write(path, rows, device=device, rows_on_device=rows_on_device, **write)
        assert report["device"] == device
        np.testing.assert_array_equal(tifffile.imread(path), pixels)
