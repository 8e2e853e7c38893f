"""GDAL (through rasterio) and Swath read each other's files with the same result."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import rasterio.windows
from rio_cogeo.cogeo import cog_validate

import swath
from sample_layouts import all_layouts
from sample_metadata import placed
from samples import Sample, ramp, write_rasterio
from written import lazy, place, seen_by_rasterio, with_nan

# rasterio's wheels cannot read it.
UNREADABLE = {"codec-jpeg2000"}
# The contract of open_geotiff refuses these.
REFUSED = {
    "keys-geographic-with-projected-code",
    "keys-projected-without-code",
    "keys-ties-disagree",
    "keys-scale-zero",
    "keys-scale-nan",
    "keys-matrix-zero",
}
# The contract georeferences these differently from GDAL: a matrix takes precedence over a scale, and a single tie point
# means pixels of one unit.
PLACED_OTHERWISE = {"keys-scale-negative", "keys-tie-only", "keys-matrix-and-scale"}
SAMPLES = [sample for sample in [*all_layouts(), *placed()] if sample.id not in UNREADABLE | REFUSED]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sample], Path]:
    folder = tmp_path_factory.mktemp("rasterio")

    def make(sample: Sample) -> Path:
        path = folder / f"{sample.id}.tif"
        if not path.exists():
            sample.make(path)
        return path

    return make


def bands_first(array: Any) -> np.ndarray[Any, Any]:
    values = np.asarray(array)
    return values[None] if values.ndim == 2 else np.moveaxis(values, -1, 0)


def equal(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(ours, theirs.astype(ours.dtype), strict=True)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
@pytest.mark.filterwarnings("ignore")
def test_pixels_transform_and_levels_are_those_of_gdal(sample: Sample, made: Callable[[Sample], Path]) -> None:
    path = made(sample)
    ours = swath.open_geotiff(path, allow_rotated=True, allow_unparseable_crs=True, allow_invalid_nodata=True)
    with rasterio.open(path) as dataset:
        equal(bands_first(ours), dataset.read())
        window = rasterio.windows.Window.from_slices((1, min(30, dataset.height)), (0, min(40, dataset.width)))
        if dataset.height > 1:
            part = swath.open_geotiff(
                path,
                window=(1, 0, min(30, dataset.height), min(40, dataset.width)),
                allow_rotated=True,
                allow_unparseable_crs=True,
            )
            equal(bands_first(part), dataset.read(window=window))
        if "transform" in ours.attrs and sample.id not in PLACED_OTHERWISE:
            half = 0.5 if ours.attrs.get("raster_type") == "point" else 0.0
            a, _, c, _, e, f = ours.attrs["transform"]
            expected = dataset.transform
            assert (a, c - half * a, e, f - half * e) == pytest.approx(
                (expected.a, expected.c, expected.e, expected.f), rel=1e-14
            )
            columns, rows = np.arange(dataset.width), np.arange(dataset.height)
            np.testing.assert_allclose(ours.x, expected.c + (columns + 0.5) * expected.a, rtol=1e-12)
            np.testing.assert_allclose(ours.y, expected.f + (rows + 0.5) * expected.e, rtol=1e-12)
        for number, factor in enumerate(dataset.overviews(1), 1):
            level = bands_first(swath.open_geotiff(path, overview_level=number, allow_rotated=True))
            with rasterio.open(path, overview_level=number - 1) as overview:
                equal(level, overview.read())
            assert factor > 1


@pytest.mark.filterwarnings("ignore")
def test_gdal_options_over_a_wide_matrix(tmp_path: Path) -> None:
    """Creation options in all combinations, each file read in full, by band and by window."""
    path = tmp_path / "a.tif"
    array = ramp((3, 70, 90), "i2")
    for compress, interleave, tiled, bigtiff, endian in itertools.product(
        ("deflate", "lzw", "zstd", "packbits", None), ("pixel", "band"), (True, False), ("yes", "no"), ("little", "big")
    ):
        options = {"blockxsize": 16, "blockysize": 48, "tiled": True} if tiled else {"blockysize": 9}
        codec = {"compress": compress} if compress else {}
        write_rasterio(path, array, interleave=interleave, bigtiff=bigtiff, endianness=endian, **options, **codec)
        equal(bands_first(swath.open_geotiff(path)), array)
        equal(swath.open_geotiff(path, band=1, window=(11, 13, 50, 77)).values, array[1, 11:50, 13:77])
        equal(bands_first(swath.open_geotiff(path, chunks=(17, 40))), array)


def test_crs_of_many_codes_is_that_of_gdal(tmp_path: Path) -> None:
    import pyproj

    path = tmp_path / "a.tif"
    for code in (
        4326,
        3857,
        32633,
        32733,
        27700,
        2193,
        3035,
        5070,
        2056,
        28992,
        3031,
        3413,
        25832,
        4269,
        4267,
        2263,
        26918,
        3347,
        31370,
        4807,
    ):
        write_rasterio(path, ramp((5, 6), "u1"), crs=f"EPSG:{code}")
        attrs = swath.open_geotiff(path).attrs
        assert attrs["crs"] == code
        assert pyproj.CRS.from_wkt(attrs["crs_wkt"]) == pyproj.CRS.from_epsg(code)


@pytest.mark.parametrize("nodata", [0, 7, 255])
def test_masked_read_has_the_holes_of_gdal_mask(tmp_path: Path, nodata: int) -> None:
    path = tmp_path / "a.tif"
    write_rasterio(path, ramp((3, 40, 50), "u1"), nodata=nodata)
    with rasterio.open(path) as dataset:
        theirs = dataset.read(out_dtype="float64", masked=True).filled(np.nan)
    np.testing.assert_array_equal(bands_first(swath.open_geotiff(path, masked=True)), theirs)


CODECS = ("none", "deflate", "lzw", "packbits", "zstd", "lerc")
TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.filterwarnings("ignore")
def test_gdal_reads_what_swath_writes(codec: str, tmp_path: Path) -> None:
    for kind, bands, tiled in itertools.product(TYPES, (1, 3), (True, False)):
        array = ramp((70, 90, bands)[: 2 if bands == 1 else 3], kind)
        dims = ("y", "x") if bands == 1 else ("y", "x", "band")
        path = tmp_path / "a.tif"
        swath.to_geotiff(place(array, dims), path, compression=codec, tiled=tiled, tile_size=32 if tiled else 256)
        with rasterio.open(path) as dataset:
            equal(bands_first(array), dataset.read())
            assert dataset.crs.to_epsg() == 32633
            assert tuple(dataset.transform)[:6] == (10, 0, 500000, 0, -20, 4600000)
            assert dataset.profile["tiled"] is tiled


PREDICTED = [*itertools.product(("u1", "i2", "u4", "f4", "f8"), (1, 2)), ("f4", 3), ("f8", 3)]


@pytest.mark.parametrize(("kind", "predictor"), PREDICTED)
def test_gdal_undoes_predictors(kind: str, predictor: int, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    for codec, bands in itertools.product(("deflate", "lzw", "zstd"), (1, 4)):
        array = ramp((70, 90, bands), kind)
        swath.to_geotiff(array, path, compression=codec, predictor=predictor, tile_size=48)
        with rasterio.open(path) as dataset:
            equal(bands_first(array), dataset.read())


def test_jpeg_of_swath_is_readable_by_gdal(tmp_path: Path) -> None:
    """The JPEG files of xarray-spatial are not readable by GDAL."""
    path = tmp_path / "a.tif"
    y, x = np.mgrid[0:256, 0:256]
    array = np.dstack([x, y, (x + y) // 2]).astype("u1")
    swath.to_geotiff(array, path, compression="jpeg", photometric="rgb", tile_size=128)
    with rasterio.open(path) as dataset:
        difference = np.abs(dataset.read().astype(int) - bands_first(array))
    assert difference.mean() < 4 and difference.max() < 64


@pytest.mark.parametrize("source", ["numpy", "dask"])
@pytest.mark.filterwarnings("ignore")
def test_cog_is_one_for_gdals_validator(source: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    array = with_nan()
    array = np.tile(array, (30, 25))
    data = place(array) if source == "numpy" else lazy(array, (100, 333))
    for options in (
        {},
        {"overview_levels": [2, 8]},
        {"tile_size": 512, "compression": "deflate", "predictor": 3},
        {"nodata": -9999},
    ):
        swath.to_geotiff(data, path, cog=True, **options)
        valid, errors, complaints = cog_validate(path, strict=True)
        assert valid and not errors and not complaints, (options, errors, complaints)
        seen = seen_by_rasterio(path)
        assert seen["overviews"][0] == options.get("overview_levels", seen["overviews"][0])
        expected = np.nan_to_num(array, nan=-9999) if "nodata" in options else array
        equal(seen["pixels"][0], expected)


def test_overview_of_means_is_that_of_gdal_within_rounding(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.tif", tmp_path / "theirs.tif"
    array = ramp((512, 768), "f4")
    swath.to_geotiff(place(array), ours, cog=True, overview_levels=[2, 4])
    write_rasterio(theirs, array)
    with rasterio.open(theirs, "r+") as dataset:
        dataset.build_overviews([2, 4], rasterio.enums.Resampling.average)
    for level in (0, 1):
        with rasterio.open(ours, overview_level=level) as a, rasterio.open(theirs, overview_level=level) as b:
            np.testing.assert_allclose(a.read(), b.read(), rtol=1e-5, atol=1e-4)


def test_metadata_survives_gdal_to_swath_to_gdal(tmp_path: Path) -> None:
    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    write_rasterio(
        source,
        ramp((3, 40, 50), "u2"),
        nodata=3,
        tags={"A": "1", "TIFFTAG_IMAGEDESCRIPTION": "d", "TIFFTAG_SOFTWARE": "s", "TIFFTAG_XRESOLUTION": "72.5",
            "TIFFTAG_RESOLUTIONUNIT": "2 (pixels/inch)"},
        band_tags={1: {"B": "x"}, 3: {"C": "<&>"}},
        namespaces={"DOMAIN": {"K": "v"}},
        descriptions=("red", "green", None),
        units=("m", None, "s"),
        scales=(0.1, 1, 2),
        offsets=(0, 5, 0),
    )  # fmt: skip
    swath.to_geotiff(swath.open_geotiff(source), target)
    first, second = seen_by_rasterio(source), seen_by_rasterio(target)
    for key in (
        "crs",
        "transform",
        "nodata",
        "tags",
        "domains",
        "band tags",
        "scales",
        "offsets",
        "units",
        "descriptions",
    ):
        assert first[key] == second[key], key
    with rasterio.open(source) as a, rasterio.open(target) as b:
        assert a.tags(ns="DOMAIN") == b.tags(ns="DOMAIN")
    equal(first["pixels"], second["pixels"])


def test_texts_with_marks_of_xml_are_those_of_gdal(tmp_path: Path) -> None:
    """GDAL escapes them twice; xarray-spatial unescapes once and returns `a&lt;b`."""
    path, text = tmp_path / "a.tif", 'a<b> & "c"'
    write_rasterio(path, ramp((4, 5), "u1"), tags={"A": text})
    assert swath.open_geotiff(path).attrs["gdal_metadata"] == {"A": text}
    swath.to_geotiff(place(ramp((4, 5), "u1"), gdal_metadata={"A": text}), path, allow_experimental_codecs=True)
    assert swath.open_geotiff(path).attrs["gdal_metadata"] == {"A": text}
    with rasterio.open(path) as dataset:
        assert dataset.tags()["A"] == text


@pytest.mark.parametrize("name", ["palette", "rgba"])
def test_colours_survive(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source.tif", tmp_path / "target.tif"
    if name == "palette":
        colours = {value: (value, 255 - value, 7, 255) for value in range(256)}
        write_rasterio(source, ramp((40, 50), "u1"), photometric="palette", colormap=colours)
    else:
        write_rasterio(source, ramp((4, 40, 50), "u1"), photometric="rgb", alpha="yes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        swath.to_geotiff(
            swath.open_geotiff(source), target, **({"photometric": "rgba"} if name == "rgba" else {"photometric": 3})
        )
    first, second = seen_by_rasterio(source), seen_by_rasterio(target)
    assert (first["colormap"], first["colours"]) == (second["colormap"], second["colours"])
    equal(first["pixels"], second["pixels"])
