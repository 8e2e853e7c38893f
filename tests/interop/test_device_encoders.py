"""Files that Swath's kernels compress on PoCL: zlib decodes the tiles, GDAL, tifffile and Pillow read the files."""

import os
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile
from PIL import Image
from rasterio.transform import from_origin
from rio_cogeo.cogeo import cog_validate

from binary import PATH
from segments import segments

SIZE = 203, 331
DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64", "complex64"]
KERNELS = {"deflate": "kernel deflate_encode", "lzw": "kernel lzw_encode"}
LAYOUTS = [("--tile", 512), ("--strips", 7), ("--interleave", "band", "--tile", 48), ("--cog",)]
PREDICTORS = [
    (dtype, predictor)
    for dtype in DTYPES
    for predictor in (1, 2, 3)
    if predictor == 1 or (predictor == 2 and dtype != "complex64") or (predictor == 3 and dtype.startswith("float"))
]


def on_pocl(source: Path, target: Path, *flags: object) -> str:
    """Converts a file in strict mode on PoCL and returns what the command reports."""
    device = ["--device", "opencl", "--encoder", "builtin", "--fallback", "strict", "--timings"]
    command = [PATH, "convert", source, target, *flags, *device]
    env = {**os.environ, "SWATH_OPENCL_DEVICE": "pocl"}
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    return run.stderr


def picture(dtype: str, bands: int, kind: str) -> np.ndarray:
    """A picture of one of several kinds."""
    rng = np.random.default_rng(bands)
    rows, cols = np.mgrid[: SIZE[0], : SIZE[1]]
    base = {
        "smooth": (rows // 3 + cols // 7) % 100 + rng.integers(0, 3, (bands, *SIZE)),
        "constant": np.full((bands, *SIZE), 7),
        "classes": np.broadcast_to(rows // 40 * 3 % 5 + cols // 50 % 3, (bands, *SIZE)),
        "noise": rng.integers(0, 120, (bands, *SIZE)),
    }[kind]
    return (base / 3).astype(dtype) if np.dtype(dtype).kind in "fc" else base.astype(dtype)


def write_source(path: Path, array: np.ndarray) -> None:
    bands, height, width = array.shape
    profile = {"count": bands, "height": height, "width": width, "dtype": array.dtype, "crs": "EPSG:32633"}
    profile |= {"tiled": True, "blockxsize": 128, "blockysize": 64}
    with rasterio.open(path, "w", driver="GTiff", transform=from_origin(5e5, 5e6, 10, 10), **profile) as dataset:
        dataset.write(array)


def same_in_every_reader(path: Path, array: np.ndarray) -> None:
    with rasterio.open(path) as dataset:
        np.testing.assert_array_equal(dataset.read(), array)
    found = tifffile.imread(path)
    bands = array if found.ndim == 3 and found.shape == array.shape else np.moveaxis(array, 0, -1)
    np.testing.assert_array_equal(found, bands[..., 0] if found.ndim == 2 else bands)


@pytest.mark.parametrize("codec", KERNELS)
@pytest.mark.parametrize(("dtype", "predictor"), PREDICTORS)
def test_readers_agree_on_every_type_and_predictor(codec, dtype, predictor, tmp_path):
    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    array = picture(dtype, 1, "smooth")
    write_source(source, array)
    output = on_pocl(source, target, "--compression", codec, "--predictor", predictor, "--tile", 64)
    assert f"compressed by {KERNELS[codec]}" in output, output
    with tifffile.TiffFile(target) as file:
        assert file.pages[0].predictor == predictor
    same_in_every_reader(target, array)


@pytest.mark.parametrize("codec", KERNELS)
@pytest.mark.parametrize("kind", ["smooth", "constant", "classes", "noise"])
@pytest.mark.parametrize("flags", LAYOUTS)
def test_readers_agree_on_every_layout_and_content(codec, kind, flags, tmp_path):
    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    array = picture("uint8", 3, kind)
    write_source(source, array)
    on_pocl(source, target, "--compression", codec, *flags)
    same_in_every_reader(target, array)
    if codec == "deflate":
        for tile in segments(target):
            zlib.decompress(tile)  # It verifies the checksum.
    if flags == ("--cog",):
        valid, errors, _ = cog_validate(target)
        assert valid, errors
    elif "--interleave" not in flags:
        np.testing.assert_array_equal(np.asarray(Image.open(target)), np.moveaxis(array, 0, -1))


def test_overviews_of_a_cog_are_those_of_the_cpu(tmp_path):
    source, target, expected = (tmp_path / name for name in ("source.tif", "target.tif", "cpu.tif"))
    write_source(source, picture("float32", 2, "smooth"))
    flags = ["--cog", "--compression", "deflate", "--tile", 64]
    on_pocl(source, target, *flags)
    subprocess.run([str(part) for part in [PATH, "convert", source, expected, *flags]], check=True)
    with rasterio.open(target) as dataset:
        levels = len(dataset.overviews(1))
    assert levels > 1
    for level in range(levels):
        with (
            rasterio.open(target, overview_level=level) as found,
            rasterio.open(expected, overview_level=level) as cpu,
        ):
            np.testing.assert_array_equal(found.read(), cpu.read())
