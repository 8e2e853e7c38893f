"""Devices in the command line: Swath reports missing libraries, and results on a GPU equal those of the CPU."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile

from binary import PATH
from simulator import LIBRARIES, environment

POCL = {**os.environ, "SWATH_OPENCL_DEVICE": "pocl"}
NONE = {**os.environ, "OCL_ICD_VENDORS": "/nonexistent", "LD_LIBRARY_PATH": ""}


def swath(*arguments, env=POCL):
    return subprocess.run([PATH, *map(str, arguments)], capture_output=True, text=True, env=env)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("devices") / "image.tif"
    rng = np.random.default_rng(1)
    pixels = (np.arange(300 * 200 * 3).reshape(300, 200, 3) // 50 + rng.integers(0, 9, (300, 200, 3))).astype("uint16")
    tifffile.imwrite(path, pixels, compression="deflate", predictor=2, tile=(64, 64), photometric="rgb")
    return path


def test_message_of_a_missing_library_names_the_searched_places(image, tmp_path):
    run = swath("read", image, tmp_path / "out.npy", "--device", "cuda")
    assert run.returncode == 1 and "libcuda.so" in run.stderr and run.stderr.count("\n") == 1
    assert not (tmp_path / "out.npy").exists()
    run = swath("read", image, tmp_path / "out.npy", "--device", "opencl", env=NONE)
    assert run.returncode == 1 and "OpenCL" in run.stderr and run.stderr.count("\n") == 1


def test_auto_without_a_gpu_uses_the_cpu_and_reports_it(image, tmp_path):
    run = swath("read", image, tmp_path / "out.npy", "--device", "auto", "--timings", env=NONE)
    assert run.returncode == 0 and "device cpu" in run.stderr and "everything on the CPU" in run.stderr
    run = swath("read", image, tmp_path / "strict.npy", "--device", "auto", "--fallback", "strict", env=NONE)
    assert run.returncode == 1 and "fallback is disabled" in run.stderr


def test_unknown_device_name_is_misuse(image, tmp_path):
    for name in ["gpu", "cuda:x", "opencl:", "cpu:0"]:
        run = swath("read", image, tmp_path / "out.npy", "--device", name)
        assert run.returncode == 2 and "is not a device" in run.stderr, name


def test_pixels_and_bytes_are_those_of_the_cpu(image, tmp_path):
    for name, device in [("cpu", ["--device", "cpu"]), ("opencl", ["--device", "opencl", "--fallback", "strict"])]:
        run = swath("read", image, tmp_path / f"{name}.npy", "--window", "10,20,290,199", "--bands", "3,1", *device)
        assert run.returncode == 0, run.stderr
        run = swath(
            "convert", image, tmp_path / f"{name}.tif", "--cog", "--tile", "64", "--compression", "zstd", *device
        )
        assert run.returncode == 0, run.stderr
    assert (tmp_path / "cpu.npy").read_bytes() == (tmp_path / "opencl.npy").read_bytes()
    assert (tmp_path / "cpu.tif").read_bytes() == (tmp_path / "opencl.tif").read_bytes()
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "opencl.tif"), tifffile.imread(image))


def test_fallback_is_reported_and_strict_mode_refuses_it(image, tmp_path):
    lerc = tmp_path / "lerc.tif"
    assert swath("convert", image, lerc, "--compression", "lerc").returncode == 0
    run = swath("read", lerc, tmp_path / "out.npy", "--device", "opencl", "--timings")
    assert run.returncode == 0 and "decoding on the CPU: no kernel decodes LERC" in run.stderr
    run = swath("read", lerc, tmp_path / "strict.npy", "--device", "opencl", "--fallback", "strict")
    assert run.returncode == 1 and "no kernel decodes LERC" in run.stderr


def test_devices_are_listed_with_what_they_can_do():
    run = swath("devices", "--json")
    listed = json.loads(run.stdout)
    assert any("pocl" in device["driver"].lower() for device in listed["devices"]["opencl"])
    assert "deflate" in listed["decoded_on_device"] and "webp" in listed["decoded_on_cpu"]
    assert "missing" in listed["devices"]["cuda"] or listed["devices"]["cuda"]
    run = swath("devices", env=NONE)
    assert run.returncode == 0 and "there is no OpenCL device" in run.stdout


def test_nvidia_libraries_are_listed_with_their_path_or_what_to_install():
    run = swath("devices", "--json")
    libraries = json.loads(run.stdout)["libraries"]
    assert list(libraries) == ["nvcomp", "nvjpeg2000", "nvjpeg", "cufile"]
    run = swath("devices", "-v", env={**os.environ, "SWATH_NVCOMP_PATH": "none", "SWATH_CUFILE_PATH": "/nowhere"})
    assert "nvCOMP is not used because SWATH_NVCOMP_PATH is 'none'" in run.stdout
    assert "/nowhere, which SWATH_CUFILE_PATH names" in run.stdout and "pip install nvidia-cufile-cu12" in run.stdout
    wheels = Path(__file__).parents[2] / "target/nvidia-wheels"
    for folder in wheels.glob("nvcomp[56]"):
        run = swath("devices", "-v", env={**os.environ, "SWATH_NVCOMP_PATH": str(folder / "nvidia/libnvcomp/lib64")})
        assert f"nvCOMP {folder.name[-1]}." in run.stdout and str(folder.resolve()) in run.stdout


def test_each_nvidia_library_has_a_path_or_an_install_hint(tmp_path):
    run = swath("devices", "-v", env=environment(tmp_path, *LIBRARIES, SWATH_SIM_CUFILE="compat"))
    lines = [line.strip() for line in run.stdout.splitlines()]
    for name in ("nvCOMP 6.0.0", "nvJPEG2000 0.11", "nvJPEG 12.4", "cuFile 1.14"):
        (line,) = (line for line in lines if line.startswith(name))
        assert "libswath_sim.so" in line and ("compatibility mode" in line) == name.startswith("cuFile")
    nowhere = {variable: "/nowhere" for variable, _ in LIBRARIES.values()}
    run = swath("devices", "-v", env={**os.environ, **nowhere})
    for package in ("libnvcomp", "nvjpeg2k", "nvjpeg", "cufile"):
        assert f"run pip install nvidia-{package}-cu12, or set SWATH_" in run.stdout
