"""The installed package: its imports, exports and size."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import swath

HEAVY = ("xarray", "dask", "pandas", "pyproj", "cupy", "fsspec", "rasterio", "tqdm")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_brings_numpy_and_nothing_else() -> None:
    loaded = run(f"import sys, swath; print([name for name in {HEAVY} if name in sys.modules])")
    assert loaded.strip() == "[]"


def test_the_first_open_does_not_import_dask(tmp_path: Path) -> None:
    # xarray imports dask when it checks the type of an array. That takes 0.15 s, a third of the first open.
    path = tmp_path / "a.tif"
    swath.to_geotiff(np.zeros((4, 4, 2), np.uint8), path)
    opened = f"import sys, swath; swath.open_geotiff({str(path)!r}, band=1); "
    assert run(opened + "print([name for name in ('dask', 'scipy') if name in sys.modules])").strip() == "[]"


def test_import_takes_less_than_a_tenth_of_a_second() -> None:
    # CPU seconds of the fastest of several runs, because the machine may be busy.
    code = "import time, numpy; t = time.process_time(); import swath; print(time.process_time() - t)"
    assert min(float(run(code)) for _ in range(5)) < 0.1


def test_every_public_name_exists_and_is_documented() -> None:
    for name in swath.__all__:
        assert getattr(swath, name) is not None, name
    for name in ("open_geotiff", "to_geotiff", "read_windows", "read_info", "read_device", "last_report"):
        assert getattr(swath, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'read_geotiff'"):
        _ = swath.read_geotiff  # type: ignore[attr-defined]


def test_the_features_are_those_of_the_engine() -> None:
    codecs = {name.removeprefix("codec.") for name in swath.SUPPORTED_FEATURES if name.startswith("codec.")}
    engine = {name for name, can in swath._swath.features().items() if can["read"] and can["write"]}
    assert codecs == engine | {"j2k"}
    assert set(swath.SUPPORTED_FEATURES.values()) <= {"stable", "advanced", "experimental"}


def test_the_extension_is_small_enough_for_a_wheel() -> None:
    extension = Path(swath._swath.__file__)
    assert extension.stat().st_size < 20e6
    assert extension.name == "_swath.abi3.so"


def test_xarray_finds_the_engine_by_name() -> None:
    try:
        installed = importlib.metadata.distribution("swath")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("swath is not installed, only on the path: `make python-test` installs it")
    points = [point for point in installed.entry_points if point.group == "xarray.backends"]
    assert [(point.name, point.load()) for point in points] == [("swath", swath.SwathBackendEntrypoint)]
    extras = installed.metadata.get_all("Provides-Extra") or []
    assert {"xarray", "dask", "gpu", "cloud", "all"} <= set(extras)
    assert any(str(file).endswith("py.typed") for file in installed.files or [])
