"""`devices=[0, 1]`: several GPUs share one read to host memory or one write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import xarray as xr

from simulated_gpu import events, on_gpu, reset, simulator_variables


def raster(path: Path) -> str:
    pixels = np.random.default_rng(3).integers(0, 900, (3, 200, 70)).astype("u2")
    tags = [(42113, "s", 0, "7", True)]
    kind: dict[str, Any] = {"photometric": "rgb", "planarconfig": "separate", "compression": "zlib"}
    tifffile.imwrite(path, pixels, tile=(16, 16), extratags=tags, metadata=None, **kind)
    return str(path)


@on_gpu
def test_read_by_two_devices_is_that_of_the_cpu(tmp_path: Path) -> None:
    import swath

    path = raster(tmp_path / "a.tif")
    with simulator_variables(DEVICES="2"):
        for keywords in ({}, {"masked": True}, {"window": (5, 6, 190, 50), "band": [2, 0]}, {"chunks": 64}):
            report: dict[str, Any] = {}
            array = swath.open_geotiff(path, devices=[0, "cuda:1"], on_gpu_failure="strict", report=report, **keywords)
            array = array.compute()
            assert any(event.startswith("launch") for event in events())
            reset()
            expected = swath.open_geotiff(path, **{k: v for k, v in keywords.items() if k != "chunks"})
            assert isinstance(array.data, np.ndarray)
            xr.testing.assert_equal(array, expected)
            # A lazy read has no report.
            if report:
                assert report["device"] == "cuda" and report["device_name"].count("simulated") == 2, report


@on_gpu
def test_file_by_two_devices_has_the_same_bytes(tmp_path: Path) -> None:
    import swath

    array = swath.open_geotiff(raster(tmp_path / "a.tif"))
    with simulator_variables(DEVICES="2"):
        for compression in ("deflate", "zstd"):
            one, two = str(tmp_path / "one.tif"), str(tmp_path / "two.tif")
            report: dict[str, Any] = {}
            swath.to_geotiff(array, one, gpu=True, tile_size=16, compression=compression)
            swath.to_geotiff(array, two, gpu=True, tile_size=16, compression=compression, devices=[0, 1], report=report)
            assert Path(one).read_bytes() == Path(two).read_bytes()
            assert report["device_name"].count("simulated") == 2, report


@on_gpu
def test_device_that_fails_leaves_the_work_to_the_cpu_with_a_warning(tmp_path: Path) -> None:
    import swath

    path = raster(tmp_path / "a.tif")
    expected = swath.open_geotiff(path)
    with simulator_variables(DEVICES="2", FAIL="launch:1+"):
        with pytest.warns(swath.GeoTIFFFallbackWarning):
            array = swath.open_geotiff(path, devices=[0, 1])
        xr.testing.assert_identical(array, expected)
        with pytest.raises(swath.DeviceError):
            swath.open_geotiff(path, devices=[0, 1], on_gpu_failure="strict")
    with simulator_variables(DEVICES="2"), pytest.raises(swath.DeviceError):
        swath.open_geotiff(path, devices=[0, 7], on_gpu_failure="strict")


@on_gpu
def test_lists_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    import swath

    path = raster(tmp_path / "a.tif")
    with simulator_variables(DEVICES="2"):
        with pytest.raises(ValueError, match="one CuPy array are on one device"):
            swath.open_geotiff(path, gpu=True, devices=[0, 1])
        with pytest.raises(ValueError, match="twice"):
            swath.open_geotiff(path, devices=[0, 0])
        with pytest.raises(ValueError, match="at least one"):
            swath.open_geotiff(path, devices=[])
        with pytest.raises(TypeError, match=r"\[0, 1\]"):
            swath.open_geotiff(path, devices="cuda:0")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="gpu=True"):
            swath.to_geotiff(np.zeros((4, 4), "u1"), str(tmp_path / "b.tif"), devices=[0, 1])
        with pytest.raises(ValueError, match="one device"):
            swath.read_device(path, device="cuda:0,cuda:1")
        assert not any(event.startswith("launch") for event in events())
