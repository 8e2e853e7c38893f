"""`open_geotiff(gpu=True)`: the pixels of the CPU on a device, also when the device fails."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import xarray as xr

from simulated_gpu import device_bytes, events, moved, on_gpu, reset, simulator_variables


def dem(height: int = 70, width: int = 90, dtype: str = "float32", **attrs: Any) -> xr.DataArray:
    rows, columns = np.mgrid[:height, :width]
    pixels = (1000 + 30 * np.sin(rows / 9) + 20 * np.cos(columns / 7)).astype(dtype)
    pixels[5:9, 11:17] = 0
    coords = {"y": 100.0 - 2 * np.arange(height), "x": 5.0 + 2 * np.arange(width)}
    return xr.DataArray(pixels, coords, ("y", "x"), attrs={"crs": 32632, **attrs})


def written(path: Path, data: xr.DataArray, **keywords: Any) -> str:
    import swath

    return str(swath.to_geotiff(data, str(path), tile_size=16, **keywords))


def same(on_gpu: xr.DataArray, on_cpu: xr.DataArray) -> None:
    """Checks that two arrays are equal, one of them in device memory."""
    import cupy

    assert isinstance(on_gpu.data, cupy.ndarray)
    xr.testing.assert_identical(on_gpu.copy(data=on_gpu.data.get()), on_cpu)


@on_gpu
@pytest.mark.parametrize(
    ("compression", "predictor"),
    [("none", 1), ("deflate", 1), ("deflate", 2), ("lzw", 3), ("packbits", 1), ("zstd", 1), ("zstd", 3)],
)
def test_device_gives_the_array_of_the_cpu(tmp_path: Path, compression: str, predictor: int) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem(nodata=0.0), compression=compression, predictor=predictor)
    report: dict[str, Any] = {}
    array = swath.open_geotiff(path, gpu=True, on_gpu_failure="strict", report=report)
    same(array, swath.open_geotiff(path))
    assert report["device"] == "cuda" and report["fallbacks"] == []
    assert sys.modules["cupy"].log == ["get"], "only the test looks at it"


@on_gpu
@pytest.mark.parametrize(
    "keywords",
    [
        {"masked": True},
        {"masked": True, "dtype": "float64"},
        {"dtype": "float64"},
        {"unpack": True},
        {"window": (10, 20, 50, 61), "masked": True},
        {"bbox": (20.0, 20.0, 90.0, 80.0)},
        {"overview_level": 1},
        {"overview_level": 1, "window": (3, 4, 20, 30)},
        {"default_name": "height"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_masks_scales_and_casts_are_those_of_the_cpu(tmp_path: Path, dtype: str, keywords: dict[str, Any]) -> None:
    import swath

    data = dem(dtype=dtype, nodata=0, gdal_metadata={"SCALE": "0.5", "OFFSET": "10"}, _swath_contract=5)
    path = written(tmp_path / "a.tif", data, cog=True, overview_levels=[2])
    same(swath.open_geotiff(path, gpu=True, **keywords), swath.open_geotiff(path, **keywords))


INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


@on_gpu
@pytest.mark.parametrize("nodata", ["7", "nan", "1e30", None], ids=str)
@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64"])
def test_nodata_and_scale_need_no_pass_of_cupy_and_no_second_wait(
    tmp_path: Path, dtype: str, nodata: str | None
) -> None:
    import cupy

    import swath

    rng = np.random.default_rng(5)
    low, high = (-1000, 1000) if np.dtype(dtype).kind == "f" else (0, 100)
    pixels = rng.integers(low, high, (40, 50, 3)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        pixels[::7, ::5] = [np.nan, -0.0, np.inf]
    elif nodata == "nan":
        # An integer image with such a value is refused.
        nodata = "300000"
    path = str(tmp_path / "a.tif")
    gdal = "".join(
        f'<Item name="{name}" sample="{band}" role="{name.lower()}">{value}</Item>'
        for band, pair in enumerate([(0.1, -5.0), (1.0, 0.0), (3e-3, 0.7)])
        for name, value in zip(("SCALE", "OFFSET"), pair, strict=True)
    )
    tags = [(42112, "s", 0, f"<GDALMetadata>{gdal}</GDALMetadata>", True)]
    tags += [(42113, "s", 0, nodata, True)] if nodata is not None else []
    kind: dict[str, Any] = {"photometric": "minisblack", "planarconfig": "contig", "compression": "zlib"}
    tifffile.imwrite(path, pixels, tile=(16, 16), extratags=tags, metadata=None, **kind)
    floats: list[dict[str, Any]] = [{"dtype": "float32"}, {"dtype": "float64"}]
    for keywords in ({}, {"masked": True}, {"unpack": True}, *({"unpack": True, **cast} for cast in floats)):
        for band in (None, 2):
            report: dict[str, Any] = {}
            swath.open_geotiff(path, gpu=True, band=band)
            cupy.computed.clear()
            reset()
            array = swath.open_geotiff(path, gpu=True, on_gpu_failure="strict", band=band, report=report, **keywords)
            waits = [event for event in events() if event.startswith("synchronize")]
            assert len(waits) == report["batches"], str(events())
            assert cupy.computed == [] and cupy.log == []
            expected = swath.open_geotiff(path, band=band, **keywords)
            same(array, expected)
            assert array.data.get().tobytes() == expected.values.tobytes()


@on_gpu
def test_bands_and_layouts_are_those_of_the_cpu(tmp_path: Path) -> None:
    import swath

    pixels = np.arange(3 * 40 * 50, dtype="u2").reshape(3, 40, 50)
    for name, keywords in {
        "planar": {"planarconfig": "separate", "tile": (16, 16)},
        "strips": {"planarconfig": "separate", "rowsperstrip": 7},
        "big": {"planarconfig": "separate", "tile": (16, 16), "bigtiff": True, "byteorder": ">"},
    }.items():
        path = str(tmp_path / f"{name}.tif")
        tifffile.imwrite(path, pixels, photometric="rgb", compression="zlib", **keywords)
        for band in (None, 1):
            for window in (None, (5, 6, 30, 31)):
                array = swath.open_geotiff(path, gpu=True, on_gpu_failure="strict", band=band, window=window)
                same(array, swath.open_geotiff(path, band=band, window=window))


@on_gpu
@pytest.mark.parametrize("chunks", [None, 16], ids=str)
def test_masks_of_the_file_are_those_of_the_cpu(tmp_path: Path, chunks: int | None) -> None:
    import rasterio

    import swath

    pixels = np.arange(3 * 40 * 50, dtype="i2").reshape(3, 40, 50)
    path = str(tmp_path / "a.tif")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        options = {"driver": "GTiff", "height": 40, "width": 50, "count": 3, "dtype": "int16"}
        with rasterio.open(path, "w", tiled=True, blockxsize=16, blockysize=16, **options) as file:
            file.write(pixels)
            file.write_mask(np.mgrid[:40, :50].sum(0) % 7 > 2)
    for window in (None, (5, 6, 30, 31)):
        array = swath.open_geotiff(path, gpu=True, masked=True, chunks=chunks, window=window)
        array = array if chunks is None else array.compute()
        same(array, swath.open_geotiff(path, masked=True, window=window))
        assert np.isnan(array.data._copy_to_host()).any()


@on_gpu
def test_window_decodes_its_own_blocks_and_nothing_comes_back(tmp_path: Path) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem(160, 160))
    report: dict[str, Any] = {}
    array = swath.open_geotiff(path, gpu=True, window=(16, 16, 48, 64), report=report)
    assert report["blocks"] == 2 * 3
    # The host receives only the status of each block.
    assert moved("download") < 4096 < array.nbytes
    assert swath.last_report() == report


@on_gpu
def test_memory_of_the_device_is_that_of_the_array(tmp_path: Path) -> None:
    import swath
    from swath import _swath

    path = written(tmp_path / "a.tif", dem(64, 64))
    array = swath.open_geotiff(path, gpu=True)
    _swath.trim_devices()
    assert device_bytes() == array.nbytes == 64 * 64 * 4


@on_gpu
@pytest.mark.parametrize("chunks", [32, (16, 90), "auto", -1], ids=str)
def test_each_chunk_is_decoded_on_the_device(tmp_path: Path, chunks: Any) -> None:
    import cupy

    import swath

    path = written(tmp_path / "a.tif", dem(dtype="int16", nodata=0))
    lazy = swath.open_geotiff(path, gpu=True, chunks=chunks, masked=True)
    assert isinstance(lazy.data._meta, cupy.ndarray) and lazy.dtype == "float64"
    assert not any(event.startswith("launch") for event in events()), "something was read"
    on_cpu = swath.open_geotiff(path, chunks=chunks, masked=True)
    assert lazy.chunks == on_cpu.chunks
    same(lazy.compute(scheduler="threads"), on_cpu.compute())
    part = lazy[7:40:3, 60:11:-1]
    same(part.compute(), on_cpu[7:40:3, 60:11:-1].compute())


@on_gpu
def test_lazy_array_travels_and_is_known_again(tmp_path: Path) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem())
    lazy = swath.open_geotiff(path, gpu=True, chunks=32)
    again = pickle.loads(pickle.dumps(lazy))
    same(again.compute(), swath.open_geotiff(path))
    assert lazy.data.name == swath.open_geotiff(path, gpu=True, chunks=32).data.name
    assert lazy.data.name != swath.open_geotiff(path, chunks=32).data.name
    assert lazy.data.name != swath.open_geotiff(path, gpu=True, chunks=32, on_gpu_failure="strict").data.name


@on_gpu
@pytest.mark.parametrize("fault", ["launch:1+", "upload:1", "alloc:1+", "stream:1+", "pin:1+"])
def test_failing_device_leaves_the_read_to_the_cpu_with_a_warning(tmp_path: Path, fault: str) -> None:
    import cupy

    import swath

    path = written(tmp_path / "a.tif", dem(dtype="int16", nodata=0))
    taken = cupy.asarray
    # The device works again when CuPy uploads the array of the CPU.
    cupy.asarray = lambda value, dtype=None: _after_the_fault(taken, value, dtype)
    try:
        report: dict[str, Any] = {}
        with simulator_variables(FAIL=fault), pytest.warns(swath.GeoTIFFFallbackWarning, match="on the CPU") as caught:
            array = swath.open_geotiff(path, gpu=True, masked=True, report=report)
    finally:
        cupy.asarray = taken
    assert any(issubclass(warning.category, RuntimeWarning) for warning in caught)
    assert caught[0].filename == __file__
    same(array, swath.open_geotiff(path, masked=True))
    assert report["device"] == "cpu" and [entry["stage"] for entry in report["fallbacks"]] == ["decoding"]
    with simulator_variables(FAIL=fault), pytest.raises(RuntimeError, match="CUDA|device"):
        swath.open_geotiff(path, gpu=True, masked=True, on_gpu_failure="strict")


def _after_the_fault(asarray: Any, value: Any, dtype: Any) -> Any:
    os.environ.pop("SWATH_SIM_FAIL", None)
    return asarray(value, dtype)


@on_gpu
def test_device_that_dies_takes_no_array_of_the_cpu_either(tmp_path: Path) -> None:
    import cupy

    import swath

    path = written(tmp_path / "a.tif", dem())
    swath.open_geotiff(path, gpu=True)
    with simulator_variables(FAIL="synchronize:1"):
        with pytest.warns(swath.GeoTIFFFallbackWarning), pytest.raises(cupy.CUDARuntimeError) as caught:
            swath.open_geotiff(path, gpu=True)
        assert isinstance(caught.value.__context__, swath.DeviceError), "the first error is lost"
    del caught
    cupy.release()
    same(swath.open_geotiff(path, gpu=True), swath.open_geotiff(path))


@on_gpu
def test_strict_reaches_the_chunks(tmp_path: Path) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem())
    strict = swath.open_geotiff(path, gpu=True, chunks=32, on_gpu_failure="strict")
    auto = swath.open_geotiff(path, gpu=True, chunks=32)
    with simulator_variables(FAIL="launch:1+"):
        with pytest.raises(RuntimeError, match="cuLaunchKernel"):
            strict.compute(scheduler="sync")
        with pytest.warns(swath.GeoTIFFFallbackWarning, match="cuLaunchKernel"):
            same(auto.compute(scheduler="sync"), swath.open_geotiff(path))
        os.environ["SWATH_STRICT"] = "1"
        try:
            with pytest.raises(RuntimeError, match="cuLaunchKernel"):
                swath.open_geotiff(path, gpu=True)
        finally:
            del os.environ["SWATH_STRICT"]
    same(strict.compute(scheduler="sync"), swath.open_geotiff(path))


@on_gpu
def test_codec_without_a_kernel_is_decoded_by_the_cpu_and_reported(tmp_path: Path) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem(), compression="lerc")
    report: dict[str, Any] = {}
    with pytest.warns(swath.GeoTIFFFallbackWarning, match="left to the CPU"):
        same(swath.open_geotiff(path, gpu=True, report=report), swath.open_geotiff(path))
    assert report["device"] == "cpu" and report["fallbacks"][0]["blocks"] == report["blocks"]
    with pytest.raises(RuntimeError, match="fallback is disabled"):
        swath.open_geotiff(path, gpu=True, on_gpu_failure="strict")


@on_gpu
def test_too_little_device_memory_is_a_memory_error(tmp_path: Path) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem(128, 128))
    with simulator_variables(MEMORY="50000"):
        with pytest.raises(MemoryError, match="65536 bytes"):
            swath.open_geotiff(path, gpu=True, on_gpu_failure="strict")
        # The array of the CPU does not fit either, so no option is left.
        with pytest.raises(RuntimeError, match="OUT_OF_MEMORY"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            swath.open_geotiff(path, gpu=True)


@on_gpu
def test_errors_of_the_file_are_not_failures_of_the_device(tmp_path: Path) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(swath.PixelSafetyLimitError):
            swath.open_geotiff(path, gpu=True, max_pixels=100)
        with pytest.raises(IndexError):
            swath.open_geotiff(path, gpu=True, band=3)
        with pytest.raises(ValueError, match="window"):
            swath.open_geotiff(path, gpu=True, window=(0, 0, 1000, 1000))
        with tifffile.TiffFile(path) as file:
            start, length = file.pages.first.dataoffsets[3], file.pages.first.databytecounts[3]
        data = bytearray(Path(path).read_bytes())
        data[start : start + length] = bytes(length)
        Path(path).write_bytes(data)
        with pytest.raises(swath.CorruptGeoTIFFError):
            swath.open_geotiff(path, gpu=True)


@on_gpu
def test_no_device_is_a_runtime_error_that_names_it(tmp_path: Path) -> None:
    import swath

    missing = str(tmp_path / "none.tif")
    with simulator_variables(DEVICES="0"):
        for keywords in ({}, {"chunks": 16}, {"on_gpu_failure": "strict"}):
            with pytest.raises(RuntimeError, match="CUDA_ERROR_NO_DEVICE"):
                swath.open_geotiff(missing, gpu=True, **keywords)
    import cupy

    count = cupy.cuda.runtime.getDeviceCount
    cupy.cuda.runtime.getDeviceCount = lambda: 0
    try:
        with pytest.raises(RuntimeError, match="0 CUDA devices"):
            swath.open_geotiff(missing, gpu=True)
    finally:
        cupy.cuda.runtime.getDeviceCount = count


@on_gpu
def test_device_is_the_one_that_cupy_works_on(tmp_path: Path) -> None:
    import cupy

    import swath

    path = written(tmp_path / "a.tif", dem())
    with simulator_variables(DEVICES="3"):
        assert swath.open_geotiff(path, gpu=True).data.device.id == 0
        with cupy.cuda.Device(1):
            array = swath.open_geotiff(path, gpu=True)
            assert array.data.device.id == 1
            same(array, swath.open_geotiff(path))
        os.environ["SWATH_DEVICE"] = "cuda:2"
        try:
            assert swath.open_geotiff(path, gpu=True).data.device.id == 2
            assert swath.read_device(path).device == "cuda:2"
        finally:
            del os.environ["SWATH_DEVICE"]
        del array


@on_gpu
def test_read_device_needs_no_cupy(tmp_path: Path) -> None:
    import swath

    data = dem(dtype="int16", nodata=0)
    path = written(tmp_path / "a.tif", data.expand_dims(band=3).copy())
    cupy = sys.modules.get("cupy")
    sys.modules["cupy"] = None  # type: ignore[assignment]
    try:
        with pytest.raises(ImportError, match="cupy is required for GPU reads.*pip install"):
            swath.open_geotiff(path, gpu=True)
        report: dict[str, Any] = {}
        array = swath.read_device(path, window=(3, 4, 50, 60), band=1, report=report)
        np.testing.assert_array_equal(array.to_host(), data.values[3:50, 4:60])
        assert report["device"] == "cuda" and swath.last_report() == report
        assert swath.read_device(path).shape == (70, 90, 3)
        assert swath.read_device(path, bands_last=False).shape == (3, 70, 90)
        with pytest.raises(IndexError):
            swath.read_device(path, band=3)
        with simulator_variables(FAIL="launch:1+"), pytest.raises(swath.DeviceError, match="cuLaunchKernel"):
            swath.read_device(path)
    finally:
        if cupy is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = cupy


@on_gpu
def test_bytes_and_file_objects_are_decoded_there_too(tmp_path: Path) -> None:
    import io

    import swath

    path = written(tmp_path / "a.tif", dem())
    content = Path(path).read_bytes()
    with open(path, "rb") as file:
        for source in (content, io.BytesIO(content), file):
            array = swath.read_device(source, strict=True)
            np.testing.assert_array_equal(array.to_host(), dem().values)
