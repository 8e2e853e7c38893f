"""Compares `swath info --json` with what rasterio reports for the same file."""

from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile
from rasterio import Affine

import info
import pyramid_cases
from binary import Swath
from gdal_cases import LAYOUTS
from pixels import pixels

SIZE = (61, 45)
UTM = {"crs": "EPSG:32633", "transform": Affine(10, 0, 500000, 0, -10, 5100000)}
FILES: dict[str, dict] = {
    "plain": {},
    "projected": UTM,
    "geographic": {"crs": "EPSG:4326", "transform": Affine(0.1, 0, -12.3456789, 0, -0.1, 78.9)},
    "rotated": {"crs": "EPSG:3857", "transform": Affine(10, 3, 500000, 2.5, -10, 5100000)},
    "south-up": {"crs": "EPSG:32733", "transform": Affine(10, 0, 500000, 0, 10, 5100000)},
    "lambert": {"crs": "EPSG:2154", "transform": Affine(5, 0, 650000, 0, -5, 6860000)},
    "polar": {"crs": "EPSG:3031", "transform": Affine(500, 0, -3e6, 0, -500, 3e6)},
    "big-endian": {**UTM, "endianness": "BIG", "nodata": 12},
    "bigtiff": {**UTM, "bigtiff": "YES", "nodata": 12},
    "tiled-deflate": {**UTM, "compress": "deflate", "predictor": 2, **LAYOUTS["tile48x32"]},
    "strips-lzw": {"compress": "lzw", "blockysize": 7},
    "planar-zstd": {"compress": "zstd", "interleave": "band"},
    "int16-nodata": {"dtype": "int16", "nodata": -9999},
    "float32-nodata": {"dtype": "float32", "nodata": -3.4028234663852886e38},
    "float64-nan": {"dtype": "float64", "nodata": float("nan")},
    "complex": {"dtype": "complex64"},
    "float16": {"dtype": "float16"},
    "four-bits": {"nbits": 4},
}


def write(path: Path, dtype: str = "uint8", bands: int = 2, nbits: int | None = None, **options: object) -> None:
    shape = {"count": bands, "height": SIZE[0], "width": SIZE[1], "dtype": dtype}
    extra = {"nbits": nbits} if nbits else {}
    with rasterio.open(path, "w", driver="GTiff", **shape, **options, **extra) as dataset:
        dataset.write(pixels(str(path.name), dtype, bands, *SIZE, bits=nbits))


@pytest.mark.parametrize("name", FILES)
def test_same_facts_as_peer(name: str, swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.tif"
    write(path, **FILES[name])
    assert not info.differences(swath.info(path), info.expected(path))


def test_band_metadata_and_items(swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / "items.tif"
    write(path)
    with rasterio.open(path, "r+") as dataset:
        dataset.descriptions = ("near infrared", "red & <green>")
        dataset.scales, dataset.offsets, dataset.units = (0.0001, 2.0), (-0.1, 0.0), ("m", "K")
        dataset.update_tags(
            TIFFTAG_ARTIST="Jané",
            TIFFTAG_IMAGEDESCRIPTION="two\nlines",
            TITLE="Ünïcode <&> quotes \"'",
            EMPTY_LIKE=" ",
            NUMBER="1",
        )
    assert not info.differences(swath.info(path), info.expected(path))


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 2**53 + 1])
def test_nodata_of_64_bits_is_exact(value: int, swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / "wide.tif"
    array = np.zeros((5, 5), np.int64)
    tifffile.imwrite(path, array, extratags=[(42113, "s", 0, str(value), True)], metadata=None)
    got = info.lookup(swath.info(path), info.FIELDS["nodata"])
    assert info.same(got, value), got


@pytest.mark.parametrize("case", list(pyramid_cases.all_cases()), ids=lambda case: case.id)
def test_same_facts_of_pyramids(case, swath: Swath, written) -> None:
    path, _ = written(case)
    assert not info.differences(swath.info(path), info.expected(path))


def test_comparison_can_fail() -> None:
    assert info.lookup({"a": [{"b": 1}, {"b": 2}]}, "a[].b") == [1, 2]
    assert info.lookup({"a": {"b": 1}}, "a.b") == 1
    assert info.lookup({}, "a.b") is None
    for got, want in ((6, 5), (0, float("nan")), ([0.25], [0.5]), ({}, {"A": "b"}), (None, 4326), ("lzw", "deflate")):
        assert not info.same(got, want)
    for got, want in ((5, 5), ("nan", float("nan")), ([0.5], [0.5]), (str(2**53 + 1), 2**53 + 1), ("LZW", "lzw")):
        assert info.same(got, want)
