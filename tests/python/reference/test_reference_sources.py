"""Sources, names, deprecated parameters, mosaics and the xarray engine behave as in the reference."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr
from rasterio.transform import Affine

import swath
from agreement import attempt, differences, disagreement
from samples import ramp, write_rasterio
from written import lazy, place

PLAIN = ramp((60, 80), "u2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.b.tif"
    write_rasterio(path, PLAIN, nodata=5, scales=(0.1,))
    return path


class Stream(io.BytesIO):
    """A file object that is not a file."""


SOURCES: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "Path": Path,
    "file URL": lambda path: path.as_uri(),
    "stream": lambda path: Stream(path.read_bytes()),
    "open file": lambda path: path.open("rb"),
    "upper case": lambda path: str(path.rename(path.with_suffix(".TIF"))),
    "no suffix": lambda path: str(path.rename(path.with_name("name"))),
    "relative": lambda path: os.path.relpath(path),
    "none such": lambda path: str(path) + "x",
}


@pytest.mark.parametrize("name", SOURCES)
def test_same_answer_from_any_source(name: str, file: Path, reference: ModuleType) -> None:
    source = SOURCES[name](file)
    ours = attempt(lambda: swath.open_geotiff(source))
    if hasattr(source, "seek"):
        source.seek(0)
    theirs = attempt(lambda: reference.open_geotiff(source))
    assert not disagreement(ours, theirs)


def test_a_stream_is_read_from_its_start_and_left_open(file: Path, reference: ModuleType) -> None:
    for package in (swath, reference):
        stream = io.BytesIO(file.read_bytes())
        stream.seek(100)
        np.testing.assert_array_equal(package.open_geotiff(stream).values, PLAIN)
        assert not stream.closed


CALLS: list[dict[str, Any]] = [
    {"name": "q"},
    {"name": None},
    {"default_name": ""},
    {"default_name": "q"},
    {"mask_nodata": True},
    {"mask_nodata": False},
    {"mask_nodata": True, "chunks": 20},
    {"masked": False, "mask_nodata": True},
    {"mask_and_scale": True},
    {"mask_and_scale": False},
    {"unpack": False, "mask_and_scale": True},
    {"lock": True},
    {"lock": False},
    {"cache": False},
    {"lock": None, "cache": True},
    {"stable_only": True},
    {"max_cloud_bytes": 1},
    {"max_pixels": 4800},
    {"max_pixels": 100, "chunks": 10},
    {"max_pixels": 100, "window": (0, 0, 10, 10)},
    {"allow_experimental_codecs": True, "allow_internal_only_jpeg": True},
    {"overview_level": np.int64(0), "band": np.int64(0)},
    {"window": [1, 2, 30, 40]},
    {"window": np.array([1, 2, 30, 40])},
    {"window": (np.int64(1), np.uint8(2), 30, 40), "chunks": np.int64(16)},
    {"bbox": [500100, 4599000, 500200, 4599500]},
    {"bbox": (500010.0000001, 4599000, 500200, 4599500)},
    {"bbox": (500009.9999999, 4599000, 500200.0000001, 4599500)},
    {"dtype": np.float32},
    {"dtype": "bool"},
    {"dtype": ">f4"},
    {"dtype": "complex64", "chunks": 16},
    {"parse_coordinates": False, "chunks": 16, "masked": True},
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_same_answer_to_odd_calls(call: dict[str, Any], file: Path, reference: ModuleType) -> None:
    ours = attempt(lambda: swath.open_geotiff(file, **call).load())
    theirs = attempt(lambda: reference.open_geotiff(str(file), **call).load())
    assert not disagreement(ours, theirs)


@pytest.mark.parametrize("call", CALLS[:6] + CALLS[8:10], ids=str)
def test_old_spellings_warn_in_the_same_words(call: dict[str, Any], file: Path, reference: ModuleType) -> None:
    """Warning filters of users match on the message."""
    ours = attempt(lambda: swath.open_geotiff(file, **call))
    theirs = attempt(lambda: reference.open_geotiff(str(file), **call))
    start = [[text.split(";")[0] for _, text in outcome.warned] for outcome in (ours, theirs)]
    assert start[0] == start[1]


def loaded(package: ModuleType, path: Path, **call: Any) -> xr.DataArray:
    return package.open_geotiff(str(path), **call).load()


def mosaic(folder: Path, package: ModuleType, **options: Any) -> Path:
    path = folder / package.__name__ / "m.vrt"
    path.parent.mkdir(exist_ok=True)
    package.to_geotiff(place(PLAIN, nodata=7), str(path), tile_size=32, **options)
    return path


VRT_CALLS: list[dict[str, Any]] = [
    {},
    {"window": (5, 6, 50, 70)},
    {"chunks": 25},
    {"chunks": (25, 30), "window": (5, 6, 50, 70)},
    {"masked": True},
    {"masked": True, "chunks": 25},
    {"bbox": (500100, 4599000, 500200, 4599500)},
    {"dtype": "float64"},
    {"band": 0},
    {"band": 1},
    {"band": True},
    {"overview_level": 1},
    {"unpack": True},
    {"parse_coordinates": False},
    {"missing_sources": "raise"},
    {"missing_sources": "warn"},
    {"missing_sources": "x"},
    {"band_nodata": "first"},
    {"band_nodata": "x"},
    {"max_pixels": 100},
    {"max_cloud_bytes": 5},
    {"stable_only": True},
    {"stable_only": True, "allow_experimental_codecs": True},
    {"default_name": "q"},
    {"window": (0, 0, 61, 80)},
]


@pytest.mark.parametrize("call", VRT_CALLS, ids=str)
@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_mosaics(call: dict[str, Any], writer: str, tmp_path: Path, reference: ModuleType) -> None:
    """A .vrt of either package, opened by both."""
    path = str(mosaic(tmp_path, swath if writer == "ours" else reference))
    ours = attempt(lambda: swath.open_geotiff(path, **call).load())
    theirs = attempt(lambda: reference.open_geotiff(path, **call).load())
    assert not disagreement(ours, theirs)


def test_tile_directories_have_the_same_files(tmp_path: Path, reference: ModuleType) -> None:
    names = []
    for package in (swath, reference):
        path = mosaic(tmp_path, package)
        names.append(sorted(str(found.relative_to(path.parent)) for found in path.parent.rglob("*")))
    assert names[0] == names[1]


@pytest.mark.parametrize("holes", [{}, {"chunks": 16}], ids=str)
def test_a_missing_tile_is_a_hole_or_an_error(holes: dict[str, Any], tmp_path: Path, reference: ModuleType) -> None:
    # A path other than the original, because the reference caches opened files.
    path = Path(shutil.copytree(mosaic(tmp_path, reference).parent, tmp_path / "elsewhere")) / "m.vrt"
    next(path.parent.rglob("tile_00_01.tif")).unlink()
    for call in ({}, {"missing_sources": "warn"}):
        found = [attempt(loaded, package, path, **call, **holes) for package in (swath, reference)]
        ours, theirs = found
        # A hole is nodata, as in GDAL; the reference returns 0, with or without nodata.
        ignore = frozenset({"attrs vrt_holes", "pixels", *(() if "missing_sources" in call else ("outcome",))})
        assert bool(ours.error) == bool(theirs.error), (str(ours), str(theirs))
        assert not disagreement(ours, theirs, ignore=ignore)
        if not ours.error:
            keys = [[sorted(hole) for hole in outcome.value.attrs["vrt_holes"]] for outcome in found]
            assert keys[0] == keys[1]


def test_engine_gives_the_dataset_of_the_references(file: Path, reference: ModuleType) -> None:
    assert reference
    keywords = {"masked": True, "window": (1, 2, 30, 40)}
    with (
        xr.open_dataset(file, engine=swath.SwathBackendEntrypoint, backend_kwargs=keywords) as ours,
        xr.open_dataset(file, engine="xrspatial", backend_kwargs=keywords) as theirs,
    ):
        assert list(ours.data_vars) == list(theirs.data_vars)
        for name in ours.data_vars:
            assert not differences(
                ours[name].load(), theirs[name].load(), ignore=frozenset({"encoding", "attrs nodata_pixels_present"})
            )


@pytest.mark.parametrize("target", ["stream", "Path", "file URL"])
def test_written_to_any_target(target: str, tmp_path: Path, reference: ModuleType) -> None:
    """Checks the return value and the content of the target."""
    for package in (swath, reference):
        path = tmp_path / f"{package.__name__}.tif"
        to: Any = {"stream": io.BytesIO(b"x" * 100000), "Path": path, "file URL": path.as_uri()}[target]
        returned = package.to_geotiff(place(PLAIN), to)
        if target == "stream":
            assert returned is to
            to.seek(0)
            np.testing.assert_array_equal(package.open_geotiff(to).values, PLAIN)
        else:
            assert returned == (str(path) if target == "Path" else to)
            np.testing.assert_array_equal(package.open_geotiff(path).values, PLAIN)


def test_lazy_arrays_go_into_streams(reference: ModuleType) -> None:
    for package in (swath, reference):
        stream = io.BytesIO()
        assert package.to_geotiff(lazy(PLAIN), stream) is stream
        np.testing.assert_array_equal(package.open_geotiff(stream).values, PLAIN)


def test_rotation_is_dropped_only_on_request(tmp_path: Path, reference: ModuleType) -> None:
    path, target = tmp_path / "a.tif", tmp_path / "b.tif"
    write_rasterio(path, PLAIN, transform=Affine(10, 2, 500000, 1, -20, 4600000))
    for package in (swath, reference):
        array = package.open_geotiff(str(path), allow_rotated=True)
        assert attempt(lambda package=package, array=array: package.to_geotiff(array, target)).kind == "ValueError"
        package.to_geotiff(array, target, drop_rotation=True)
        assert package.open_geotiff(target).attrs["georef_status"] == "none"
