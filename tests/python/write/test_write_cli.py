"""`swath convert` and to_geotiff write the same bytes for the same options."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import swath
from skipped import leave_out

CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "zstd": ([], {}),
    "deflate 9, predictor 2": (
        ["--compression", "deflate", "--compression-level", "9", "--predictor", "2"],
        {"compression": "deflate", "compression_level": 9, "predictor": 2},
    ),
    "lzw": (["--compression", "lzw"], {"compression": "lzw"}),
    "strips": (["--strips", "256"], {"tiled": False}),
    "cog": (["--cog"], {"cog": True}),
    "cog, lerc, levels": (
        ["--cog", "--compression", "lerc_zstd", "--overviews", "2,8", "--resampling", "max", "--max-z-error", "0.5"],
        {
            "cog": True,
            "compression": "lerc_zstd",
            "overview_levels": [2, 8],
            "overview_resampling": "max",
            "max_z_error": 0.5,
        },
    ),
    "bands apart, statistics": (["--interleave", "band", "--statistics"], {"interleave": "band", "statistics": True}),
    "bigtiff": (["--bigtiff", "yes"], {"bigtiff": True}),
    "threads": (["--threads", "1", "--memory", "1MiB"], {"threads": 2}),
}


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    own = Path(__file__).resolve().parents[3] / "target" / "release" / "swath"
    found = os.environ.get("SWATH_BIN") or shutil.which("swath") or (str(own) if own.exists() else None)
    if found is None:
        leave_out("comparison with the command line: build it, or set SWATH_BIN", request.node.nodeid)
    assert found is not None
    return found


def sources() -> dict[str, xr.DataArray]:
    rng = np.random.default_rng(11)
    y, x = 5e6 - 20 * np.arange(300.0), 4e5 + 20 * np.arange(411.0)
    floats = np.add.outer(np.sin(y / 997), np.cos(x / 991)).astype("f4") * 100
    floats[rng.random(floats.shape) < 0.1] = np.nan
    bands = rng.integers(0, 4000, (300, 411, 3)).cumsum(1).astype("u2")
    about = {"crs": 32633, "image_description": "hello", "gdal_metadata": {"A": "é", ("UNITTYPE", 0): "m"}}
    about |= {
        "extra_tags": [(65000, 12, 2, (1.5, 2.5))],
        "x_resolution": 72.0,
        "y_resolution": 72.0,
        "resolution_unit": "inch",
    }
    return {
        "floats": xr.DataArray(floats, dims=("y", "x"), coords={"y": y, "x": x}, attrs=about | {"nodata": -9999.0}),
        "bands": xr.DataArray(bands, dims=("y", "x", "band"), coords={"y": y, "x": x}, attrs=about),
        "point": xr.DataArray(bands[..., 0], dims=("y", "x"), coords={"y": y, "x": x}, attrs={"raster_type": "point"}),
        "nowhere": xr.DataArray(bands[..., 0], dims=("y", "x"), attrs={"nodata": 7}),
    }


PAIRS = [("floats", case) for case in CASES if case != "deflate 9, predictor 2"]
PAIRS += [
    ("bands", "cog"),
    ("bands", "deflate 9, predictor 2"),
    ("bands", "bands apart, statistics"),
    ("point", "zstd"),
]
PAIRS += [("nowhere", "cog")]


@pytest.mark.parametrize(("name", "case"), PAIRS)
def test_the_command_line_writes_the_same_bytes(name: str, case: str, program: str, tmp_path: Path) -> None:
    flags, options = CASES[case]
    source = tmp_path / "source.tif"
    swath.to_geotiff(sources()[name], source, compression="packbits", tile_size=64)
    if "--predictor" not in flags and "lerc_zstd" not in flags:
        flags = [*flags, "--predictor", "1"]
    if "--strips" not in flags:
        flags = [*flags, "--tile", "256"]
    subprocess.run([program, "convert", source, tmp_path / "cli.tif", *flags], check=True, capture_output=True)
    for call in ({}, {"chunks": (77, 130)}):
        swath.to_geotiff(swath.open_geotiff(source, **call), tmp_path / "python.tif", **options)
        assert (tmp_path / "python.tif").read_bytes() == (tmp_path / "cli.tif").read_bytes(), call
