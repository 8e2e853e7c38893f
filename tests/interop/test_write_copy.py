"""Tests that blocks are copied when they need no re-encoding, and that equal options give equal bytes."""

import hashlib
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile

from binary import Run, Swath
from case import assert_same, gdal_pixels
from gdal_cases import write_gdal
from pixels import photo, pixels
from segments import segments

SIZE = (70, 99)
TILES, STRIPS = {"tiled": True, "blockxsize": 32, "blockysize": 16}, {"blockysize": 7}
BLOCKS = {"tiles": (TILES, ["--tile", "32x16"], 5 * 4), "strips": (STRIPS, ["--strips", 7], 10)}
CODECS = [("none", 1), ("lzw", 2), ("deflate", 1), ("deflate", 2), ("zstd", 2), ("packbits", 1), ("lerc", 1)]
CODECS += [("lzma", 1)]


def copied(run: Run) -> int:
    """The number of copied blocks that `--timings` reports."""
    return int(re.search(r"(\d+) copied", run.stderr).group(1))


def sparse(run: Run) -> int:
    return int(re.search(r"(\d+) sparse", run.stderr).group(1))


def source_file(path: Path, codec: str, predictor: int = 1, bands: int = 3, **options: object) -> None:
    more = {"predictor": predictor} if predictor > 1 else {}
    write_gdal(path, pixels("copy", "uint16", bands, *SIZE), compress=codec, **more, **{**TILES, **options})


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("layout", BLOCKS)
@pytest.mark.parametrize(("codec", "predictor"), CODECS)
def test_kept_blocks_are_the_same_bytes(codec, predictor, layout, interleave, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    options, flags, count = BLOCKS[layout]
    more = {"predictor": predictor} if predictor > 1 else {}
    array = pixels("copy", "uint16", 3, *SIZE)
    write_gdal(source, array, compress=codec, interleave=interleave, **more, **options)
    run = swath.succeed("convert", source, path, "--compression", "keep", "--timings", *flags)
    assert segments(path) == segments(source)
    assert copied(run) == (count if interleave == "pixel" else 3 * count)
    assert_same(gdal_pixels(path), array)


LOSSY = {
    "webp": (3, {"compress": "webp", "webp_level": 60}),
    "rgb": (3, {"compress": "jpeg", "photometric": "rgb"}),
    "ycbcr": (3, {"compress": "jpeg", "photometric": "ycbcr", "jpeg_quality": 60}),
    "ycbcr-own-tables": (3, {"compress": "jpeg", "photometric": "ycbcr", "jpegtablesmode": 0}),
    "gray": (1, {"compress": "jpeg"}),
    "four": (4, {"compress": "jpeg", "photometric": "rgb"}),
    "planes": (2, {"compress": "jpeg", "interleave": "band"}),
}


@pytest.mark.parametrize("cog", [[], ["--cog"]], ids=["plain", "cog"])
@pytest.mark.parametrize("name", LOSSY)
def test_lossy_blocks_are_not_compressed_a_second_time(name: str, cog: list[str], swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    bands, options = LOSSY[name]
    write_gdal(source, photo("copy", bands, *SIZE), **options, **TILES)
    run = swath.succeed("convert", source, path, "--compression", "keep", "--tile", "32x16", "--timings", *cog)
    assert copied(run) == len(segments(source))
    assert_same(gdal_pixels(path), gdal_pixels(source))
    assert_same(swath.read(path), swath.read(source))
    for level in range(1, 4 if cog else 1):
        assert_same(swath.read(path, "--overview", level), gdal_pixels(path, level), lossy=True)


def test_kept_blocks_of_a_cog(swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    source_file(source, "deflate", 2)
    run = swath.succeed("convert", source, path, "--compression", "keep", "--cog", "--tile", "32x16", "--timings")
    assert segments(path) == segments(source)
    assert copied(run) == 20
    with rasterio.open(path) as dataset:
        assert dataset.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert dataset.overviews(1)
    again = tmp_path / "again.tif"
    run = swath.succeed("convert", path, again, "--compression", "keep", "--cog", "--tile", "32x16", "--timings")
    assert copied(run) == 20
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "flags",
    [
        ["--compression-level", 9], ["--tile", "16"], ["--tile", "16x32"], ["--strips", 16], ["--predictor", 1],
        ["--bands", "1,2"], ["--bands", "3,2,1"], ["--window", "1,0,70,99"], ["--window", "0,1,70,99"],
        ["--interleave", "band"], ["--compression", "lzw"], ["--compression", "zstd"],
    ],
    ids=lambda flags: " ".join(map(str, flags)),
)  # fmt: skip
def test_option_that_changes_blocks_encodes_them_again(flags: list, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    source_file(source, "deflate", 2, interleave="pixel")
    base = {"--compression": "keep", "--tile": "32x16", "--timings": None}
    if "--strips" in flags:
        del base["--tile"]
    words = [word for name, value in base.items() if name not in flags for word in (name, value) if word]
    run = swath.succeed("convert", source, path, *words, *flags)
    assert copied(run) == 0
    window = flags[1] if "--window" in flags else "0,0,70,99"
    bands = flags[1] if "--bands" in flags else "1,2,3"
    assert_same(gdal_pixels(path), swath.read(source, "--window", window, "--bands", bands))


def test_compression_level_changes_bytes_but_not_pixels(swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    source_file(source, "deflate", zlevel=1)
    swath.succeed("convert", source, path, "--compression", "keep", "--tile", "32x16", "--compression-level", 12)
    assert sum(map(len, segments(path))) < sum(map(len, segments(source)))
    assert_same(gdal_pixels(path), gdal_pixels(source))


def test_window_on_tile_borders_keeps_its_tiles(swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    source_file(source, "lzw")
    flags = ["--compression", "keep", "--tile", "32x16", "--window", "16,32,70,99", "--timings"]
    run = swath.succeed("convert", source, path, *flags)
    grid = np.arange(20).reshape(5, 4)[1:, 1:].ravel()
    stored = segments(source)
    assert segments(path) == [stored[index] for index in grid]
    assert copied(run) == grid.size
    assert_same(gdal_pixels(path), gdal_pixels(source)[:, 16:, 32:].copy())


@pytest.mark.parametrize("endianness", ["LITTLE", "BIG"])
def test_big_endian_blocks_are_encoded_again(endianness: str, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    source_file(source, "deflate", endianness=endianness)
    run = swath.succeed("convert", source, path, "--compression", "keep", "--tile", "32x16", "--timings")
    assert copied(run) == (20 if endianness == "LITTLE" else 0)
    assert_same(gdal_pixels(path), gdal_pixels(source))


def test_block_with_nan_that_becomes_nodata_is_encoded_again(swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    array = pixels("nan", "float32", 1, *SIZE)
    write_gdal(source, array, compress="lzw", **TILES)
    flags = ["--compression", "keep", "--tile", "32x16", "--nodata", -9999, "--timings"]
    run = swath.succeed("convert", source, path, *flags)
    assert copied(run) == 0
    assert_same(gdal_pixels(path), np.where(np.isnan(array), np.float32(-9999), array))


@pytest.mark.parametrize("nodata", [None, 7])
@pytest.mark.parametrize("layout", ["--cog", "--threads"])
def test_empty_blocks_are_left_out(nodata: int | None, layout: str, swath: Swath, tmp_path: Path) -> None:
    source, path, again = tmp_path / "in.tif", tmp_path / "out.tif", tmp_path / "again.tif"
    array = pixels("sparse", "uint16", 2, *SIZE) | 8
    array[:, 16:48, 32:64] = nodata or 0
    write_gdal(source, array, nodata=nodata)
    flags = [layout, *([2] if layout == "--threads" else []), "--tile", "32x16", "--overviews", "none", "--timings"]
    assert sparse(swath.succeed("convert", source, path, *flags)) == 0
    assert sparse(swath.succeed("convert", source, again, *flags, "--skip-empty")) == 2
    assert [i for i, block in enumerate(segments(again)) if not block] == [5, 9]
    assert_same(gdal_pixels(again), array)
    assert_same(swath.read(again), array)
    # Sparse blocks stay sparse: Swath copies them as sparse, or decodes them and finds them empty.
    kept = swath.succeed("convert", again, path, "--overwrite", *flags, "--compression", "keep")
    assert copied(kept) >= 20
    assert segments(path) == segments(again)
    swath.succeed("convert", again, path, "--overwrite", *flags, "--compression", "keep", "--skip-empty")
    assert segments(path) == segments(again)
    assert_same(gdal_pixels(path), array)


@pytest.mark.parametrize("flags", [[], ["--cog"], ["--overviews", "2,4"], ["--strips", 3], ["--bigtiff", "yes"]])
def test_file_without_a_single_block(flags: list, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    array = np.zeros((2, *SIZE), np.int16)
    write_gdal(source, array)
    swath.succeed("convert", source, path, "--skip-empty", *flags)
    assert not any(segments(path))
    assert_same(swath.read(path), array)
    assert_same(gdal_pixels(path), array)


IDENTICAL = {
    "cog": ["--cog", "--tile", 32], "cog-band": ["--cog", "--tile", "48x16", "--interleave", "band"],
    "strips": ["--strips", 7, "--compression", "lzw"], "tiles": ["--tile", 16, "--compression", "deflate"],
    "odd-levels": ["--cog", "--tile", 16, "--overviews", "3,5,12", "--resampling", "cubic"],
    "lerc": ["--cog", "--tile", 64, "--compression", "lerc_zstd"], "stats": ["--cog", "--tile", 32, "--statistics"],
    "sparse": ["--cog", "--tile", 16, "--skip-empty", "--resampling", "mode"], "none": ["--compression", "none"],
}  # fmt: skip


@pytest.mark.parametrize("name", IDENTICAL)
@pytest.mark.parametrize("mask", [False, True], ids=["plain", "masked"])
def test_same_bytes_with_any_threads_and_memory(name: str, mask: bool, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    array = photo(name, 3, 203, 151, dtype="uint16", top=60000)
    array[:, 40:90, :70] = 0
    header = {"count": 3, "height": 203, "width": 151, "dtype": "uint16", "blockysize": 24}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(source, "w", driver="GTiff", **header) as dataset:
        dataset.write(array)
        if mask:
            dataset.write_mask(array[0] > 9000)
    found: dict[str, tuple] = {}
    for threads, memory in [*product([1, 2, 7], ["1", "64KiB", "1GiB"]), (2, "64KiB")]:
        flags = [*IDENTICAL[name], "--threads", threads, "--memory", memory, "--overwrite"]
        swath.succeed("convert", source, path, *flags)
        found.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), (threads, memory))
    assert len(found) == 1, found


@pytest.mark.parametrize("stated", [1000, 1 << 23], ids=["some bytes more", "more than the file has"])
def test_strip_that_states_too_many_bytes_is_copied(stated: int, swath: Swath, tmp_path: Path) -> None:
    """Swath reads such a strip because it ignores bytes after the pixels, so it must also convert it."""
    source, target = tmp_path / "in.tif", tmp_path / "out.tif"
    image = np.arange(30 * 20, dtype="uint8").reshape(30, 20)
    tifffile.imwrite(source, image, rowsperstrip=30, metadata=None)
    with tifffile.TiffFile(source, mode="r+") as file:
        file.pages[0].tags["StripByteCounts"].overwrite([stated])
    run = swath.succeed("convert", source, target, "--compression", "keep", "--strips", 30, "--timings")
    assert copied(run) == 1
    with rasterio.open(target) as file:
        np.testing.assert_array_equal(file.read(1), image)
