"""Files written on the simulated NVIDIA GPU: zlib, zstd and LZ4 decode the tiles, GDAL reads the files, validators
check the COGs.
"""

import json
import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.transform import from_origin
from rio_cogeo.cogeo import cog_validate

from binary import PATH
from gdal_validator import GDAL_PYTHON, JUDGE
from readers import gdal_lacks
from segments import segments

SIZE = 300, 410
TILE = 64
# Decodes one stored tile and verifies its checksum if it has one.
DECODE: dict[str, Callable[[bytes], bytes]] = {
    "deflate": zlib.decompress,
    "zstd": imagecodecs.zstd_decode,
    "lz4": imagecodecs.lz4f_decode,
}
DTYPES = ["uint8", "int16", "uint32", "float32", "float64"]
KINDS = [(codec, dtype, predictor) for codec in DECODE for dtype in DTYPES for predictor in (1, 2, 3)
         if predictor < 3 or dtype.startswith("float")]  # fmt: skip


def on_gpu(simulated: dict[str, str], *arguments: object) -> str:
    """Runs `swath` in strict mode on the simulated GPU and returns its output."""
    device = ["--device", "cuda", "--fallback", "strict", "--timings"]
    run = subprocess.run([PATH, *map(str, arguments), *device], capture_output=True, text=True, env=simulated)
    assert run.returncode == 0, run.stderr
    return run.stderr


def picture(dtype: str, bands: int) -> np.ndarray:
    """A smooth slope with some noise."""
    rng = np.random.default_rng(bands)
    rows, cols = np.mgrid[: SIZE[0], : SIZE[1]]
    slope = (rows // 3 + cols // 7) % 100 + rng.integers(0, 3, (bands, *SIZE))
    return (slope / 3).astype(dtype) if dtype.startswith("float") else slope.astype(dtype)


def write_source(path: Path, array: np.ndarray) -> None:
    """Writes a source with GDAL that the simulated GPU can decode without the CPU."""
    bands, height, width = array.shape
    profile = {"count": bands, "height": height, "width": width, "dtype": array.dtype, "compress": "deflate"}
    profile |= {"tiled": True, "blockxsize": 128, "blockysize": 64, "crs": "EPSG:32633"}
    with rasterio.open(path, "w", driver="GTiff", transform=from_origin(5e5, 5e6, 10, 10), **profile) as dataset:
        dataset.write(array)


def undo(tile: bytes, predictor: int, dtype: np.dtype) -> np.ndarray:
    """Returns the samples of a tile of one band, with the predictor undone."""
    if predictor == 3:
        encoded = np.frombuffer(tile, dtype).reshape(TILE, TILE)
        return imagecodecs.floatpred_decode(encoded, axis=-1)
    if predictor == 2:
        # The floating-point predictor stores differences of the bits.
        differences = np.frombuffer(tile, f"<u{dtype.itemsize}").reshape(TILE, TILE)
        return np.cumsum(differences, axis=1, dtype=differences.dtype).view(dtype)
    return np.frombuffer(tile, dtype).reshape(TILE, TILE)


@pytest.mark.parametrize(("codec", "dtype", "predictor"), KINDS)
def test_seed3_every_tile_is_read_by_the_library_of_its_codec(codec, dtype, predictor, simulated, tmp_path):
    array = picture(dtype, 1)
    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    write_source(source, array)
    flags = ["--compression", codec, "--predictor", predictor, "--tile", TILE]
    output = on_gpu(simulated, "convert", source, target, *flags, "--encoder", "nvcomp", "--storage", "cufile")
    assert "compressed by nvCOMP 6.0" in output and "written by cuFile" in output, output
    tiles = segments(target)
    down, across = -(-SIZE[0] // TILE), -(-SIZE[1] // TILE)
    assert len(tiles) == down * across
    whole = np.zeros((down * TILE, across * TILE), array.dtype)
    for number, stored in enumerate(tiles):
        decoded = DECODE[codec](stored)
        assert len(decoded) == TILE * TILE * array.itemsize
        row, col = number // across * TILE, number % across * TILE
        whole[row : row + TILE, col : col + TILE] = undo(decoded, predictor, array.dtype)
    np.testing.assert_array_equal(whole[: SIZE[0], : SIZE[1]], array[0])


def test_seed3_checksum_of_a_tile_is_verified(simulated, tmp_path):
    """zlib refuses a tile with a wrong checksum; the other tests of this file rely on that."""
    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    write_source(source, picture("uint8", 1))
    on_gpu(simulated, "convert", source, target, "--compression", "deflate", "--predictor", 1, "--tile", TILE)
    tile = segments(target)[0]
    assert len(zlib.decompress(tile)) == TILE * TILE
    with pytest.raises(zlib.error):
        zlib.decompress(tile[:-1] + bytes([tile[-1] ^ 1]))


@pytest.fixture(scope="module")
def cogs(simulated: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, np.ndarray]]:
    """COGs compressed by nvCOMP, written through cuFile and through host memory, with their pixels."""
    folder = tmp_path_factory.mktemp("nvidia")
    files = {}
    for codec in DECODE:
        for dtype, bands, interleave in [("uint8", 3, "pixel"), ("int16", 3, "band"), ("float32", 1, "pixel")]:
            array = picture(dtype, bands)
            source = folder / "source.tif"
            write_source(source, array)
            flags = ["--cog", "--compression", codec, "--tile", TILE, "--interleave", interleave, "--overwrite"]
            made = {}
            for storage in ("cufile", "posix"):
                target = folder / f"{codec}-{dtype}-{interleave}-{storage}.tif"
                output = on_gpu(simulated, "convert", source, target, *flags, "--storage", storage, "--memory", 1)
                assert ("written by cuFile" in output) == (storage == "cufile"), output
                made[storage] = target.read_bytes()
            assert made["cufile"] == made["posix"]
            files[target.stem] = target, array
    return files


def test_seed3_gdal_and_tifffile_read_what_was_written(cogs):
    for name, (path, array) in cogs.items():
        codec = name.split("-")[0]
        if not gdal_lacks(codec) and codec != "lz4":
            with rasterio.open(path) as dataset:
                np.testing.assert_array_equal(dataset.read(), array, name)
                assert dataset.overviews(1) == [2, 4, 8] and dataset.checksum(1) >= 0
        pixels = tifffile.imread(path, key=0)
        pixels = pixels if "band" in name or array.shape[0] == 1 else np.moveaxis(pixels, -1, 0)
        np.testing.assert_array_equal(pixels.reshape(array.shape), array, name)


def test_seed3_validators_find_no_error_in_the_cogs(cogs):
    by_gdal = {name: path for name, (path, _) in cogs.items() if not name.startswith("lz4")}
    paths = json.dumps([str(path) for path in by_gdal.values()])
    environment = {"PATH": "/usr/bin:/bin"}
    run = subprocess.run([GDAL_PYTHON, "-c", JUDGE], input=paths, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {str(path): [] for path in by_gdal.values()}
    for name, path in by_gdal.items():
        valid, errors, warnings = cog_validate(str(path), strict=True, quiet=True)
        assert valid, (name, errors, warnings)
    for name, (path, _) in cogs.items():
        run = subprocess.run([PATH, "validate", path], capture_output=True, text=True)
        assert run.returncode == 0, f"{name}: {run.stdout}"


def test_seed5_streamed_file_has_the_bytes_of_one_written_at_once(simulated, tmp_path):
    source = tmp_path / "source.tif"
    write_source(source, picture("float32", 1))
    for flags in (["--cog"], []):
        flags = [*flags, "--compression", "deflate", "--tile", TILE]
        files = []
        for memory in ("1", "100KiB", "256MiB"):
            files.append(tmp_path / f"{memory}.tif")
            on_gpu(simulated, "convert", source, files[-1], *flags, "--memory", memory, "--overwrite")
        assert len({file.read_bytes() for file in files}) == 1
        # Standard output, too.
        command = [PATH, "convert", source, "-", *map(str, flags), "--memory", "1", "--device", "cuda"]
        run = subprocess.run(command, capture_output=True, env=simulated)
        assert run.stdout == files[0].read_bytes(), run.stderr


def test_seed5_write_that_is_killed_keeps_the_old_file(simulated, tmp_path):
    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    array = np.tile(picture("uint8", 3), (1, 5, 5))
    write_source(source, array)
    flags = ["--cog", "--compression", "deflate", "--tile", TILE, "--memory", "1", "--overwrite", "--device", "cuda"]
    command = [PATH, "convert", str(source), str(target), *map(str, flags)]
    on_gpu(simulated, "convert", source, target, "--cog", "--compression", "deflate", "--tile", TILE, "--memory", 1)
    complete = target.read_bytes()
    killed = 0
    for seconds in (0.05, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0):
        target.write_bytes(b"old")
        process = subprocess.Popen(command, env=simulated, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
        assert target.read_bytes() in (b"old", complete)
    assert killed > 0, "the process ended before it was killed"
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".tif")] == []
