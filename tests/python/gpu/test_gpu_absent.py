"""Machines without a GPU or without CuPy: the errors of the contract, and files that are written by the CPU."""

from __future__ import annotations

import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import swath

PIXELS = np.arange(40 * 50, dtype="u2").reshape(40, 50)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the GPU, if there is one, and CuPy."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("SWATH_STRICT", raising=False)
    monkeypatch.delenv("SWATH_DEVICE", raising=False)
    monkeypatch.setitem(sys.modules, "cupy", None)


@pytest.mark.parametrize("keywords", [{}, {"chunks": 16}, {"on_gpu_failure": "strict"}, {"band": 9}], ids=str)
def test_reading_without_cupy_names_the_package_to_install(tmp_path: Path, keywords: dict[str, Any]) -> None:
    # Raised before the file is opened, because the read would be impossible.
    with pytest.raises(ImportError, match="cupy is required for GPU reads. Install it with: pip install cupy"):
        swath.open_geotiff(str(tmp_path / "none.tif"), gpu=True, **keywords)


def test_arguments_are_looked_at_before_cupy(tmp_path: Path) -> None:
    path = str(tmp_path / "none.tif")
    with pytest.raises(TypeError, match="gpu must be a bool"):
        swath.open_geotiff(path, gpu="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_gpu_failure"):
        swath.open_geotiff(path, gpu=True, on_gpu_failure="maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chunks"):
        swath.open_geotiff(path, gpu=True, chunks=0)


@pytest.mark.parametrize("count", [0, "cudaErrorNoDevice", "cudaErrorInsufficientDriver"])
def test_cupy_without_a_device_is_a_runtime_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | str
) -> None:
    def devices() -> int:
        if isinstance(count, str):
            raise RuntimeError(f"{count}: it is what it is")
        return count

    cupy: Any = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=devices))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    message = "0 CUDA devices" if count == 0 else f"not usable .*{count}"
    for keywords in ({}, {"chunks": 16}, {"on_gpu_failure": "strict"}):
        with pytest.raises(RuntimeError, match=message):
            swath.open_geotiff(str(tmp_path / "none.tif"), gpu=True, **keywords)


@pytest.mark.parametrize("cog", [False, True])
def test_writing_without_a_device_is_done_by_the_cpu_with_a_warning(tmp_path: Path, cog: bool) -> None:
    path, plain = tmp_path / "a.tif", tmp_path / "b.tif"
    report: dict[str, Any] = {}
    with pytest.warns(
        swath.GeoTIFFFallbackWarning, match=r"falling back to CPU. \(DeviceError: there is no CUDA"
    ) as caught:
        assert swath.to_geotiff(PIXELS, str(path), gpu=True, cog=cog, report=report) == str(path)
    assert [each.filename for each in caught] == [__file__]
    assert report["device"] == "cpu" and "no CUDA device" in report["fallbacks"][0]["reason"]
    assert swath.last_report() == report
    swath.to_geotiff(PIXELS, str(plain), cog=cog)
    assert path.read_bytes() == plain.read_bytes()


def test_writing_without_a_device_is_an_error_in_strict_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tif"
    for word in ("1", "true", "YES"):
        monkeypatch.setenv("SWATH_STRICT", word)
        for kind in (swath.DeviceError, RuntimeError, ImportError):
            with pytest.raises(kind, match="no CUDA device"):
                swath.to_geotiff(PIXELS, str(path), gpu=True)
    assert not path.exists()
    monkeypatch.setenv("SWATH_STRICT", "0")
    with pytest.warns(swath.GeoTIFFFallbackWarning):
        swath.to_geotiff(PIXELS, str(path), gpu=True)


def test_writing_on_the_cpu_does_not_warn(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for gpu in (None, False):
            swath.to_geotiff(PIXELS, str(tmp_path / "a.tif"), gpu=gpu)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif"), PIXELS)


def test_reading_to_a_missing_device_names_the_searched_places(tmp_path: Path) -> None:
    path = str(tmp_path / "a.tif")
    swath.to_geotiff(PIXELS, path)
    with pytest.raises(swath.DeviceError, match="there is no CUDA device: "):
        swath.read_device(path)
    with pytest.raises(FileNotFoundError):
        swath.read_device(str(tmp_path / "none.tif"))
    with pytest.raises(ValueError, match="window"):
        swath.read_device(path, window=(0, 0, 99, 99))


def test_gpu_true_is_refused_as_the_reference_refuses_it(tmp_path: Path, reference: types.ModuleType) -> None:
    path = str(tmp_path / "a.tif")
    swath.to_geotiff(PIXELS, path)
    for keywords in (
        {},
        {"chunks": 16},
        {"chunks": 0},
        {"band": 7},
        {"on_gpu_failure": "x"},
        {"parse_coordinates": False},
    ):
        raised = []
        for module in (swath, reference):
            with pytest.raises(Exception) as caught:
                module.open_geotiff(path, gpu=True, **keywords)
            raised.append(caught.type)
        assert raised[0] is raised[1], keywords


def test_package_does_not_import_cupy() -> None:
    code = "import sys, swath; assert not {'cupy', 'torch', 'dask', 'xarray'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numpy_bools_are_bools(tmp_path: Path) -> None:
    # Comparing numbers of an array gives a numpy bool.
    path = tmp_path / "a.tif"
    swath.to_geotiff(PIXELS, str(path), gpu=np.bool_(False))
    np.testing.assert_array_equal(swath.open_geotiff(path, gpu=np.bool_(False)).values, PIXELS)
    with pytest.warns(swath.GeoTIFFFallbackWarning, match="gpu=True"):
        swath.to_geotiff(PIXELS, str(path), gpu=np.bool_(True))
