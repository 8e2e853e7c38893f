"""tifffile, which reads TIFF without georeferencing, and Swath read each other's files: pixels, pages, tags."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import swath
from samples import ramp, write_tifffile
from written import levels_of, place, tag_of

TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
CODECS = ("none", "deflate", "lzw", "packbits", "zstd", "lerc", "jpeg2000")


@pytest.mark.parametrize("codec", CODECS)
def test_tifffile_reads_what_swath_writes(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    for kind, bands, tiled in itertools.product(TYPES, (1, 3), (True, False)):
        if codec == "jpeg2000" and kind not in ("u1", "u2") or codec == "lerc" and kind in ("u8", "i8"):
            continue
        array = ramp((70, 90, bands) if bands > 1 else (70, 90), kind)
        swath.to_geotiff(array, path, compression=codec, tiled=tiled, tile_size=32 if tiled else 256)
        np.testing.assert_array_equal(tifffile.imread(path), array, strict=True)
        np.testing.assert_array_equal(swath.open_geotiff(path).values, array, strict=True)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "codec", [None, "zlib", "lzw", "zstd", "packbits", "lzma", "jpeg2000", "webp", "jpegxl", "lerc"]
)
def test_swath_reads_what_tifffile_writes(codec: str | None, order: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    lossless: dict[str, Any] = {
        "webp": {"lossless": True, "level": 80},
        "jpegxl": {"lossless": True},
        "jpeg2000": {"reversible": True, "level": 0},
    }
    kinds = {
        "webp": ("u1",),
        "jpegxl": ("u1",),
        "jpeg2000": ("u1", "u2"),
        "lerc": ("u1", "i2", "f4"),
        "lzma": ("u2", "f8"),
    }.get(codec or "", TYPES)
    for kind, planar, tile in itertools.product(kinds, ("contig", "separate"), (None, (32, 48))):
        if codec in ("webp", "jpegxl", "jpeg2000", "lerc") and (planar == "separate" or order == ">"):
            continue
        shape = (70, 90, 3) if planar == "contig" else (3, 70, 90)
        array = ramp(shape, kind)
        options: dict[str, Any] = {"compression": codec, "planarconfig": planar, "tile": tile, "byteorder": order}
        if codec in lossless:
            options["compressionargs"] = lossless[codec]
        write_tifffile(path, array, photometric="rgb", **options)
        expected = array if planar == "contig" else np.moveaxis(array, 0, -1)
        np.testing.assert_array_equal(swath.open_geotiff(path).values, expected, strict=True)


def test_tags_are_those_of_the_contract(tmp_path: Path) -> None:
    """Types and values of the tags that other programs read."""
    path = tmp_path / "a.tif"
    swath.to_geotiff(place(ramp((40, 50), "u2"), nodata=7), path, predictor=2, tile_size=32)
    expected = {256: 50, 257: 40, 258: 16, 259: 50000, 262: 1, 277: 1, 317: 2, 322: 32, 323: 32, 339: 1, 42113: "7"}
    assert {code: tag_of(path, code) for code in expected} == expected
    assert tag_of(path, 33550) == (10.0, 20.0, 0.0)
    assert tag_of(path, 33922) == (0.0, 0.0, 0.0, 500000.0, 4600000.0, 0.0)
    keys = tag_of(path, 34735)
    entries = {keys[at]: keys[at + 3] for at in range(4, len(keys), 4)}
    assert (entries[1024], entries[1025], entries[3072]) == (1, 1, 32633)


def test_strips_have_256_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    swath.to_geotiff(ramp((600, 20), "u1"), path, tiled=False)
    assert tag_of(path, 278) == 256 and tag_of(path, 322) is None
    swath.to_geotiff(ramp((40, 20), "u1"), path, tiled=False)
    assert tag_of(path, 278) == 40


@pytest.mark.parametrize("value", [7, -9999, 3.5, float("nan"), -9999.0, 1e20, 2**64 - 1, np.float32(0.1)], ids=repr)
def test_nodata_text_is_what_python_prints(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    swath.to_geotiff(ramp((4, 5), "u8" if value == 2**64 - 1 else "f8"), path, nodata=value)
    assert tag_of(path, 42113) == str(value)


def test_cog_pages_are_marked_as_levels(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    array = ramp((600, 700), "f4")
    swath.to_geotiff(place(array, nodata=-1), path, cog=True)
    with tifffile.TiffFile(path) as file:
        assert [page.shape for page in file.pages] == [(600, 700), (300, 350), (150, 175)]
        assert [page.tags[254].value if 254 in page.tags else 0 for page in file.pages] == [0, 1, 1]  # type: ignore[union-attr]
        offsets = [page.dataoffsets[0] for page in file.pages]  # type: ignore[union-attr]
    assert offsets[2] < offsets[1] < offsets[0], "smallest level first"
    np.testing.assert_array_equal(levels_of(path)[0], array)


def test_extra_tags_of_every_type_survive(tmp_path: Path) -> None:
    """xarray-spatial fails on most of these when it writes a file that it read."""
    from sample_metadata import EVERY_TYPE

    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    write_tifffile(source, ramp((40, 50), "u1"), EVERY_TYPE)
    swath.to_geotiff(swath.open_geotiff(source), target)
    with tifffile.TiffFile(source) as a, tifffile.TiffFile(target) as b:
        for code in [entry[0] for entry in EVERY_TYPE]:
            first, second = a.pages[0].tags[code], b.pages[0].tags.get(code)  # type: ignore[union-attr]
            assert second is not None, code
            assert (first.dtype, first.count, first.value) == (second.dtype, second.count, second.value), code


def test_big_endian_arrays_are_written_right(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    for kind in (">u2", ">i4", ">f4", ">f8"):
        array = ramp((40, 50), kind[1:]).astype(kind)
        swath.to_geotiff(array, path)
        np.testing.assert_array_equal(tifffile.imread(path), array)
