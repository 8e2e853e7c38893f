"""Files of other projects' test suites: open_geotiff returns the same as GDAL, and as the reference if it can read
them.

The corpus is outside the repository (in SWATH_CORPUS); `make corpus` runs the engine alone over all of it.
"""

from __future__ import annotations

import hashlib
import html
import math
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr

import swath
from agreement import Outcome, attempt, disagreement
from corpus_index import Row, rows
from deliberate import HEIGHTS

PARTS = 8
# Larger files are left to the engine's test, because every call here decodes twice.
MOST_SAMPLES = 3_000_000
LENIENT = {"allow_rotated": True, "allow_unparseable_crs": True, "allow_invalid_nodata": True}
# The errors that a broken file may raise.
REFUSALS = (ValueError, OSError, NotImplementedError, MemoryError)
# The contract refuses the georeferencing of these files.
CONTRADICTIONS = {"DegeneratePixelSizeError", "InconsistentGeoKeysError"}
# Files that are read differently from GDAL; docs/corpus.md gives the reason for each.
KNOWN = (
    "test_ifd_loop_subifd.tif",
    "test_ifd_loop_to_first.tif",
    "multipage_multiple_frame_loop.tiff",
    "bad-offsets-lengths.tiff",
    "flower-ycbcr44-contig-08.tif",
    "epsg_2193_override.tif",
    "90b2a82bfa2d5387cc8a201900dc70b46306ae85-2",
    "crash-74d2a78403a5a59db1fb0a2b8735ac068a75f6e3.tif",
)
# The contract differs from GDAL: a negative scale is allowed, and Python does not parse Microsoft's infinities.
CONTRACT = ("negative_scaley.tif", "stats_nodata_neginf_msvc.tif", "stats_nodata_posinf_msvc.tif")


def samples_of(row: Row) -> int:
    return math.prod(int(side) for side in row["pix_shape"].split("x")) if row["pix_shape"] else 0


def part(root: Path, number: int, *oracles: str) -> list[Row]:
    """Every eighth file of these oracles that is not too large."""
    chosen = [row for row in rows(root) if row["oracle"] in oracles and samples_of(row) <= MOST_SAMPLES]
    return chosen[number::PARTS]


def is_known(row: Row) -> bool:
    return row["path"].endswith((*KNOWN, *CONTRACT))


def bands_first(array: xr.DataArray) -> np.ndarray[Any, Any]:
    values = array.values
    return values[None] if values.ndim == 2 else np.moveaxis(values, -1, 0)


def digest(values: np.ndarray[Any, Any]) -> str:
    """The hash of the corpus' README."""
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
    head = f"{values.dtype.kind}{values.dtype.itemsize}:{tuple(int(side) for side in values.shape)}"
    return hashlib.sha256(head.encode() + little.tobytes()).hexdigest()


def opened(root: Path, row: Row) -> Outcome:
    return attempt(lambda: swath.open_geotiff(str(root / row["path"]), **LENIENT))


def pixels_wrong(array: xr.DataArray, row: Row) -> list[str]:
    values = bands_first(array)
    if row["pix_dtype"] == "float16" and values.dtype == np.float32:  # by contract
        values = values.astype("f2")
    shape = "x".join(map(str, values.shape))
    if shape != row["pix_shape"] or values.dtype.name != row["pix_dtype"]:
        return [f"{values.dtype} {shape}, not {row['pix_dtype']} {row['pix_shape']}"]
    if row["oracle"] != "lossy":
        return [] if digest(values) == row["pix_sha256"] else ["pixels differ"]
    low, high, mean = (float(row[key]) for key in ("pix_min", "pix_max", "pix_mean"))
    allowed = 2.0 if values.dtype == np.uint8 else 2 * (float(values.max()) - float(values.min())) / 255
    near = abs(values.mean(dtype="f8") - mean) <= allowed / 8
    near = near and abs(values.min() - low) <= allowed and abs(values.max() - high) <= allowed
    return (
        [] if near else [f"range and mean {values.min()}..{values.max()}, {values.mean()}, not {low}..{high}, {mean}"]
    )


def place_wrong(array: xr.DataArray, row: Row) -> list[str]:
    """The difference between attrs and GDAL's transform; for PixelIsPoint attrs keep the tie point unchanged."""
    expected = [float(text) for text in row["geotransform"].split(",") if text]
    stated = array.attrs.get("transform", array.attrs.get("rotated_affine"))
    if stated is None:
        return [] if not expected else [f"no transform, not {expected}"]
    a, b, c, d, e, f = stated
    if array.attrs.get("raster_type") == "point":
        c, f = c - (a + b) / 2, f - (d + e) / 2
    given = [c, a, b, f, d, e]
    if not expected:
        return [] if given == [0, 1, 0, 0, 0, 1] else [f"transform {given}, GDAL has none"]
    return [] if np.allclose(given, expected, rtol=1e-12, atol=1e-12) else [f"transform {given}, not {expected}"]


@cache
def horizontal(code: int) -> int | None:
    """The code without the vertical part: the contract returns the code in the horizontal GeoKeys."""
    import pyproj

    crs = pyproj.CRS.from_epsg(code)
    flat = crs.sub_crs_list[0] if crs.is_compound else crs.to_2d()
    return flat.to_epsg()


def crs_wrong(array: xr.DataArray, row: Row) -> list[str]:
    stated = array.attrs.get("crs")
    if not row["epsg"] or "rotated_affine" in array.attrs:
        return []
    same = stated is not None and horizontal(stated) == horizontal(int(row["epsg"]))
    return [] if same else [f"crs {stated}, not {row['epsg']}"]


def nodata_wrong(array: xr.DataArray, row: Row) -> list[str]:
    stated = array.attrs.get("nodata")
    if not row["nodata"]:
        outside = stated is not None and array.dtype.kind in "iu" and not fits(stated, array.dtype)
        return [] if stated is None or outside else [f"nodata {stated}, GDAL has none"]
    if stated is None:
        return [f"no nodata, not {row['nodata']}"]
    # rasterio returns it in the type of the samples.
    kind = array.dtype.type if array.dtype.kind == "f" else float
    same = str(stated) == row["nodata"] or kind(stated) == kind(float(row["nodata"]))
    return (
        []
        if same or (math.isnan(stated) and math.isnan(float(row["nodata"])))
        else [f"nodata {stated}, not {row['nodata']}"]
    )


def fits(value: float, dtype: np.dtype[Any]) -> bool:
    return math.isfinite(value) and value == int(value) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


@pytest.mark.parametrize("number", range(PARTS))
def test_pixels_and_transform_are_those_of_the_index(number: int, corpus: Path) -> None:
    wrong = []
    for row in part(corpus, number, "exact", "exact-gdal-only", "convention", "disputed", "lossy"):
        outcome = opened(corpus, row)
        if outcome.kind in CONTRADICTIONS:
            continue
        if outcome.error:
            found = [str(outcome)]
        else:
            array = outcome.value
            found = [*pixels_wrong(array, row), *nodata_wrong(array, row)]
            if row["n_gcp"] == "0":
                found += place_wrong(array, row)
            found += crs_wrong(array, row)
        if found and not is_known(row):
            wrong.append(f"{row['path']} ({row['oracle']}): {'; '.join(found)}"[:300])
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("number", range(PARTS))
def test_windows_and_chunks_are_parts_of_the_whole(number: int, corpus: Path) -> None:
    wrong = []
    for row in part(corpus, number, "exact")[::3]:
        path = str(corpus / row["path"])
        outcome = opened(corpus, row)
        if outcome.error or min(outcome.value.shape[:2]) < 4:
            continue
        whole = outcome.value
        height, width = whole.shape[:2]
        window = (height // 4, width // 3, height - height // 5, width - width // 6)
        cut = swath.open_geotiff(path, window=window, **LENIENT)
        lazy = swath.open_geotiff(path, chunks=(max(height // 2, 1), max(width // 3, 1)), **LENIENT).compute()
        expected = whole[window[0] : window[2], window[1] : window[3]]
        if not np.array_equal(cut.values, expected.values, equal_nan=whole.dtype.kind in "fc"):
            wrong.append(f"{row['path']}: window")
        if not np.array_equal(lazy.values, whole.values, equal_nan=whole.dtype.kind in "fc"):
            wrong.append(f"{row['path']}: chunks")
        for axis in ("y", "x"):
            if not np.array_equal(cut[axis].values, expected[axis].values):
                wrong.append(f"{row['path']}: coordinate {axis} of a window")
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("number", range(PARTS))
def test_broken_files_end_in_an_error_or_an_array(number: int, corpus: Path) -> None:
    """A panic would be a BaseException and fail this test."""
    for row in part(corpus, number, "reject", "open-only", "gdal-lenient"):
        outcome = attempt(
            lambda row=row: swath.open_geotiff(str(corpus / row["path"]), max_pixels=10_000_000, **LENIENT)
        )
        assert outcome.error is None or isinstance(outcome.error, REFUSALS), f"{row['path']}: {outcome}"


def excused(row: Row, ours: xr.DataArray, theirs: xr.DataArray) -> frozenset[str]:
    """The allowed differences from the reference for a file like this one; deliberate.py gives the reasons."""
    found: set[str] = set()
    bits = int(row["bits"] or 8)
    if row["photometric"] == "MINISWHITE" or row["orientation"] not in ("", "1") or row["fillorder"] == "2":
        found |= {"pixels", "shape", "coord", "attrs transform", "chunks"}
    if row["predictor"] == "3" and row["planar"] == "1" and row["bands"] != "1":
        found.add("pixels")
    if bits < 8 or bits == 12 or row["photometric"] in ("YCBCR", "SEPARATED", "CIELAB", "LOGLUV", "LOGL"):
        found |= {"pixels", "shape", "coord", "dtype", "dims", "coords"}
    if row["oracle"] == "lossy" or row["comp_name"] in ("JPEG", "OJPEG", "LERC"):
        found.add("pixels")
    if row["sidecars"]:
        found |= {"coord", "attrs"}
    if "crs" not in theirs.attrs and ours.attrs.get("crs", -1) == int(row["epsg"] or -1):
        found |= {"attrs crs", "attrs crs_wkt", "attrs georef_status"}  # GeoKeys that the reference cannot combine
    if not row["epsg"] and row["geokeys"] == "True":
        found |= {"attrs crs", "attrs crs_wkt", "attrs georef_status"}
    if row["n_gcp"] != "0":
        found |= {"coord", "attrs transform", "attrs georef_status", "attrs _swath_no_georef"}
    items = {key[0] for key in ours.attrs.get("gdal_metadata", {}) if isinstance(key, tuple)}
    if "gdal_metadata" not in theirs.attrs and items <= {"SCALE", "OFFSET", "UNITTYPE"}:
        found |= {*HEIGHTS}  # of a vertical CRS, or of the georeferencing
    return frozenset(found)


# Tags of the layout and of codecs, which are not metadata: SubfileType, FillOrder, JPEGTables, LERC parameters ...
LAYOUT = {255, 266, 347, 512, 513, 514, 515, 519, 520, 521, 529, 530, 531, 532, 50674}


def tidied(array: xr.DataArray) -> xr.DataArray:
    """Tags in order, without those of the layout; texts without non-ASCII characters, which the reference loses."""
    attrs = dict(array.attrs)
    tags = [tag for tag in attrs.pop("extra_tags", []) if tag[0] not in LAYOUT and tag[1] != 13]
    if tags:
        attrs["extra_tags"] = sorted((*tag[:3], plain_text(tag[3])) for tag in tags)
    if "image_description" in attrs:
        attrs["image_description"] = plain_text(attrs["image_description"])
    if "gdal_metadata" in attrs:
        attrs["gdal_metadata"] = {key: unescaped(value) for key, value in attrs["gdal_metadata"].items()}
    tidy = array.copy(deep=False)
    tidy.attrs = attrs
    return tidy


def unescaped(value: Any) -> Any:
    """GDAL escapes twice; the reference unescapes once."""
    return html.unescape(value) if isinstance(value, str) else value


def plain_text(value: Any) -> Any:
    return "".join(letter for letter in value if letter.isascii()) if isinstance(value, str) else value


@pytest.mark.parametrize("number", range(PARTS))
def test_reference_gives_the_same(number: int, corpus: Path, reference: ModuleType) -> None:
    """Files that both can read: pixels, coordinates, attrs.

    A file that only the reference can read is a defect of Swath.
    """
    wrong, counted = [], Counter[str]()
    flags = {**LENIENT, "allow_experimental_codecs": True, "allow_internal_only_jpeg": True}
    for row in part(corpus, number, "exact", "lossy"):
        if samples_of(row) > MOST_SAMPLES // 4:
            continue
        path = str(corpus / row["path"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = attempt(lambda path=path: reference.open_geotiff(path, **flags))
        if theirs.error:
            counted["refused by the reference"] += 1
            continue
        ours = attempt(lambda path=path: swath.open_geotiff(path, **flags))
        counted["compared"] += 1
        excuses: frozenset[str] = frozenset()
        if not ours.error:
            excuses = excused(row, ours.value, theirs.value)
            ours.value, theirs.value = tidied(ours.value), tidied(theirs.value)
        found = disagreement(ours, theirs, ignore=excuses, warned=False)
        if found and not is_known(row):
            wrong.append(
                f"{row['path']} ({row['photometric']}, {row['bits']} bits, {row['comp_name']}): "
                + "; ".join(found)[:400]
            )
    assert not wrong, f"{dict(counted)}, {len(wrong)} differ (ours / theirs):\n" + "\n".join(wrong)
