"""The package on the GPU that SWATH_TEST_DEVICE names, with the CuPy and the PyTorch that are installed.

Only results are compared, so nothing here needs the simulator. The other tests of this folder count the calls of the
driver or make it fail, and run on the simulator alone. `test_gpu_named_simulated.py` runs this file with the simulator
as the hardware.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from skipped import leave_out

NAME = os.environ.get("SWATH_TEST_DEVICE", "")


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The number of the device, which is CuPy's current device during the test."""
    api, _, number = NAME.partition(":")
    if api != "cuda":
        leave_out("tests with CuPy on hardware: SWATH_TEST_DEVICE names no CUDA device", request.node.nodeid)
    try:
        import cupy
    except ImportError:
        leave_out("tests with CuPy on hardware: CuPy is not installed", request.node.nodeid)
    # The images are small, and a fallback to the CPU would hide a failure of the device.
    monkeypatch.setenv("SWATH_PLACEMENT", "device")
    monkeypatch.setenv("SWATH_STRICT", "1")
    with cupy.cuda.Device(int(number or 0)):
        yield int(number or 0)


def dem(dtype: str = "float32", height: int = 170, width: int = 190, **attrs: Any) -> xr.DataArray:
    rows, columns = np.mgrid[:height, :width]
    pixels = (1000 + 30 * np.sin(rows / 9) + 20 * np.cos(columns / 7)).astype(dtype)
    pixels[5:9, 11:17] = 0
    coords = {"y": 100.0 - 2 * np.arange(height), "x": 5.0 + 2 * np.arange(width)}
    return xr.DataArray(pixels, coords, ("y", "x"), attrs={"crs": 32632, **attrs})


def written(path: Path, data: xr.DataArray, **keywords: Any) -> str:
    import swath

    return str(swath.to_geotiff(data, str(path), tile_size=64, gpu=False, **keywords))


def same(on_gpu: xr.DataArray, on_cpu: xr.DataArray) -> None:
    """Checks that two arrays are equal, one of them in device memory."""
    import cupy

    assert isinstance(on_gpu.data, cupy.ndarray)
    xr.testing.assert_identical(on_gpu.copy(data=on_gpu.data.get()), on_cpu)


@pytest.mark.parametrize("decoder", ["builtin", "auto"])
@pytest.mark.parametrize(
    ("compression", "predictor"),
    [("none", 1), ("deflate", 1), ("deflate", 2), ("lzw", 3), ("packbits", 1), ("zstd", 1), ("zstd", 3)],
)
def test_array_is_that_of_the_cpu(tmp_path: Path, compression: str, predictor: int, decoder: Any) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem(nodata=0.0), compression=compression, predictor=predictor)
    report: dict[str, Any] = {}
    array = swath.open_geotiff(path, gpu=True, on_gpu_failure="strict", decoder=decoder, report=report)
    assert (report["device"], report["fallbacks"]) == ("cuda", [])
    same(array, swath.open_geotiff(path))


@pytest.mark.parametrize(
    "keywords",
    [{"masked": True}, {"unpack": True}, {"window": (10, 20, 150, 161), "masked": True}, {"overview_level": 1}],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_masks_scales_and_windows_are_those_of_the_cpu(tmp_path: Path, dtype: str, keywords: dict[str, Any]) -> None:
    import swath

    data = dem(dtype, nodata=0, gdal_metadata={"SCALE": "0.5", "OFFSET": "10"})
    path = written(tmp_path / "a.tif", data, cog=True, overview_levels=[2])
    same(swath.open_geotiff(path, gpu=True, **keywords), swath.open_geotiff(path, **keywords))


def test_chunks_are_decoded_by_several_threads(tmp_path: Path) -> None:
    import swath

    path = written(tmp_path / "a.tif", dem("int16"), compression="deflate")
    lazy = swath.open_geotiff(path, gpu=True, chunks=64)
    same(lazy.compute(scheduler="threads"), swath.open_geotiff(path))


@pytest.mark.parametrize("cog", [False, True])
@pytest.mark.parametrize("compression", ["none", "lzw", "packbits"])
def test_written_bytes_are_those_of_the_cpu(tmp_path: Path, compression: str, cog: bool) -> None:
    import cupy

    import swath

    data = dem()
    on_device = data.copy(data=cupy.asarray(data.values))
    keywords: dict[str, Any] = {"compression": compression, "predictor": 2, "cog": cog, "tile_size": 64}
    swath.to_geotiff(data, str(tmp_path / "cpu.tif"), gpu=False, **keywords)
    swath.to_geotiff(on_device, str(tmp_path / "gpu.tif"), encoder="builtin", **keywords)
    assert swath.last_report()["device"] == "cuda"
    assert (tmp_path / "gpu.tif").read_bytes() == (tmp_path / "cpu.tif").read_bytes()


@pytest.mark.parametrize("compression", ["deflate", "zstd"])
def test_written_pixels_are_those_of_the_array(tmp_path: Path, compression: str) -> None:
    import cupy

    import swath

    data = dem("uint16")
    path = str(tmp_path / "a.tif")
    swath.to_geotiff(data.copy(data=cupy.asarray(data.values)), path, compression=compression, tile_size=64)
    xr.testing.assert_equal(swath.open_geotiff(path), data)


@pytest.mark.parametrize("stream", ["own", "default"])
def test_work_of_the_producer_is_waited_for(tmp_path: Path, stream: str) -> None:
    import cupy

    import swath

    data = dem()
    path = str(tmp_path / "a.tif")
    # Often, because a missing wait gives the right pixels most of the time.
    for round_ in range(8):
        with cupy.cuda.Stream() if stream == "own" else nullcontext():
            array = cupy.asarray(data.values)
            for _ in range(20):
                array = array + 1
            swath.to_geotiff(array, path, overwrite=True)
        np.testing.assert_array_equal(swath.open_geotiff(path).values, data.values + np.float32(20), str(round_))


def test_pytorch_takes_the_memory_and_gives_it_back(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    import swath

    try:
        import torch
    except ImportError:
        leave_out("tests with PyTorch on hardware: PyTorch is not installed", request.node.nodeid)
    path = written(tmp_path / "a.tif", dem())
    tensor = torch.from_dlpack(swath.read_device(path, device=NAME, strict=True))
    np.testing.assert_array_equal(tensor.cpu().numpy().squeeze(), dem().values)
    copy = str(tmp_path / "b.tif")
    swath.to_geotiff(tensor.squeeze() * 2, copy)
    assert swath.last_report()["device"] == "cuda"
    np.testing.assert_array_equal(swath.open_geotiff(copy).values, dem().values * 2)


def test_cupy_uses_the_memory_without_a_copy(tmp_path: Path) -> None:
    import cupy

    import swath

    array = swath.read_device(written(tmp_path / "a.tif", dem()), device=NAME, strict=True)
    view = cupy.asarray(array)
    assert view.__cuda_array_interface__["data"][0] == array.__cuda_array_interface__["data"][0]
    del array
    np.testing.assert_array_equal(view.get().squeeze(), dem().values)
