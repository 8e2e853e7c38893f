"""open_rasterio returns the same as rioxarray.open_rasterio, attribute by attribute, for generated files and the
corpus.

`DIFFERENCES` lists the deliberate differences, each with a rule. A difference that no rule allows fails a test, and
so does a rule that no file needs any more.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
import rioxarray
import xarray as xr
from rasterio.enums import ColorInterp
from rasterio.transform import Affine

import swath
from agreement import Outcome, attempt
from corpus_index import Row, rows
from sample_layouts import all_layouts
from sample_metadata import all_metadata
from samples import Sample, doubles, gdal, ramp, raw_tags, text, write_rasterio
from swath.read.nodata import parse_nodata

PARTS = 6
MOST_SAMPLES = 1_000_000
"""Of larger images a window is compared."""
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "masked": {"masked": True},
    "mask_and_scale": {"mask_and_scale": True},
    "band_as_variable": {"band_as_variable": True},
    "variables, mask_and_scale": {"band_as_variable": True, "mask_and_scale": True},
    "chunks": {"chunks": {"x": 40, "y": 24}},
    "chunks auto, masked": {"chunks": "auto", "masked": True},
    "chunks of a tuple": {"chunks": (1, 16, 32)},
    "no coordinates": {"parse_coordinates": False},
    "name": {"default_name": "elevation", "cache": False},
}
CORPUS_CALLS = ("plain", "masked")
MORE_CORPUS_CALLS = ("mask_and_scale", "band_as_variable", "chunks")
"""For one of them on each file."""
ABSENT = "<absent>"


@dataclass(frozen=True)
class Found:
    """One difference between two results."""

    what: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.what}: {_short(self.ours)} / {_short(self.theirs)}"


def _short(value: Any) -> str:
    shown = f"{type(value).__name__}: {value}" if isinstance(value, Exception) else str(value)
    return " ".join(shown.split())[:200]


@dataclass(frozen=True)
class Case:
    """One call on one file, and its results."""

    path: str
    call: str
    ours: Any
    theirs: Any

    @property
    def info(self) -> Any:
        return _described(self.path)


@cache
def _described(path: str) -> Any:
    return swath._swath.File.open(path).describe()


@dataclass(frozen=True)
class Difference:
    """A deliberate difference: a pattern of what differs, a rule for when, and the reason."""

    what: str
    holds: Callable[[Found, Case], bool]
    why: str


def is_refused(found: Found, case: Case) -> bool:
    return isinstance(found.ours, ValueError | NotImplementedError) and not isinstance(found.theirs, Exception)


def is_only_ours(found: Found, case: Case) -> bool:
    return not isinstance(found.ours, Exception) and isinstance(found.theirs, Exception)


def is_half(found: Found, case: Case) -> bool:
    return str(found.theirs) == "float16" and str(found.ours) == "float32"


def is_of_halves(found: Found, case: Case) -> bool:
    return isinstance(found.theirs, np.float16) and isinstance(found.ours, np.float32)


def is_same_system(found: Found, case: Case) -> bool:
    """Whether two texts describe the same CRS: by code, by definition, or by projection and ellipsoid within a
    micrometre.
    """
    if ABSENT in (found.ours, found.theirs):
        return False
    systems = [pyproj.CRS.from_wkt(wkt) for wkt in (found.ours, found.theirs)]
    if systems[0].equals(systems[1], ignore_axis_order=True):
        return True
    codes = [system.to_epsg(20) for system in systems]
    return (codes[0] is not None and codes[0] == codes[1]) or _same_places(*systems)


def _same_places(one: pyproj.CRS, other: pyproj.CRS) -> bool:
    """Whether the ellipsoids are equal and the projections of a few points agree within a tenth of a millimetre."""
    if one.ellipsoid is None or other.ellipsoid is None or not _near(one.ellipsoid, other.ellipsoid):
        return False
    if not (one.is_projected and other.is_projected):
        return one.is_geographic and other.is_geographic
    return bool(np.allclose(_projected(one), _projected(other), rtol=0, atol=1e-4))


def _near(one: Any, other: Any) -> bool:
    radius = math.isclose(one.semi_major_metre, other.semi_major_metre)
    return radius and math.isclose(one.inverse_flattening, other.inverse_flattening, rel_tol=1e-9)


def _projected(crs: pyproj.CRS) -> Any:
    """A few points near the middle of a projection, in metres."""
    values = {parameter.name: parameter.value for parameter in crs.coordinate_operation.params}
    lon = next((value for name, value in values.items() if "ongitude" in name), 0.0)
    lat = next((value for name, value in values.items() if "atitude" in name), 0.0)
    transformer = pyproj.Transformer.from_crs(crs.geodetic_crs, crs, always_xy=True)
    return transformer.transform([lon + 0.5, lon - 1.0], [lat * 0.9 + 1.0, lat * 0.8])


def follows_from_the_text(found: Found, case: Case) -> bool:
    """CF attributes are derived from the text of the CRS: they differ if the text does."""
    one, other = (_grid_mapping(side) for side in (case.ours, case.theirs))
    return one.get("crs_wkt") != other.get("crs_wkt")


def _grid_mapping(side: Any) -> dict[str, Any]:
    return dict(side["spatial_ref"].attrs)


def engine_knows_no_system(found: Found, case: Case) -> bool:
    return same(found.ours, ABSENT) and case.info["wkt"] is None and case.info["epsg"] is None


def is_written_in_a_citation(found: Found, case: Case) -> bool:
    citations = [case.info["geo_keys"].get(key) for key in (1026, 3073)]
    return case.info["epsg"] is None and any(isinstance(c, str) and re.match(r"\w+\[", c) for c in citations)


def is_long_strip(found: Found, case: Case) -> bool:
    """libtiff splits long strips of rows, and GDAL reports the pieces as blocks."""
    info = case.info
    return not info["tiled"] and found.ours["y"] > found.theirs["y"] and found.ours["x"] == found.theirs["x"]


def is_dead_dimension(found: Found, case: Case) -> bool:
    return {**found.ours, "band": 1} == found.theirs or is_long_strip(found, case)


def has_colors(found: Found, case: Case) -> bool:
    return same(found.theirs, ABSENT) and any(
        info["color"] not in ("gray", "undefined", "palette", "") for info in case.info["band_info"]
    )


def has_palette(found: Found, case: Case) -> bool:
    return same(found.theirs, ABSENT) and case.info["colormap"] is not None


def would_be_destroyed(found: Found, case: Case) -> bool:
    """Integers with a mask and no nodata value, or bands of different scales."""
    if not same(found.ours, ABSENT):
        return False
    by_mask = case.info["mask"] in ("mask", "alpha", "nodata-values")
    scales = {(info["scale"], info["offset"]) for info in case.info["band_info"]}
    return by_mask or len(scales) > 1


def is_nan_of_masked(found: Found, case: Case) -> bool:
    keywords = CALLS[case.call]
    masked = keywords.get("masked") or keywords.get("mask_and_scale")
    return bool(masked) and same(found.theirs, ABSENT) and math.isnan(found.ours)


def has_bands_and_nodata(found: Found, case: Case) -> bool:
    return same(found.theirs, ABSENT) and found.ours == case.info["bands"] > 1 and case.info["nodata"] is not None


def is_no_number(found: Found, case: Case) -> bool:
    text = case.info["nodata_text"]
    return text is not None and parse_nodata(text) is None


def is_beyond_doubles(found: Found, case: Case) -> bool:
    return case.info["dtype"] in ("int64", "uint64") and abs(int(case.info["nodata_text"])) > 2**53


def is_missing_text(found: Found, case: Case) -> bool:
    tuples = isinstance(found.ours, tuple) and isinstance(found.theirs, tuple)
    return tuples and "" in found.ours and found.ours == tuple(text or "" for text in found.theirs)


def is_not_unicode(found: Found, case: Case) -> bool:
    return same(found.theirs, ABSENT) and isinstance(found.ours, str) and not found.ours.isascii()


def is_long_integer(found: Found, case: Case) -> bool:
    return isinstance(found.ours, str) and isinstance(found.theirs, int) and found.theirs.bit_length() > 63


def is_odd_xml(found: Found, case: Case) -> bool:
    xml = case.info["gdal_metadata_xml"] or ""
    return "<!DOCTYPE" in xml or "&amp;" in xml


def is_height_unit(found: Found, case: Case) -> bool:
    return same(found.theirs, ABSENT) and any(key in case.info["geo_keys"] for key in (4096, 4099))


def is_page(found: Found, case: Case) -> bool:
    with rasterio.open(case.path) as file:
        return bool(file.subdatasets)


def is_complex_nodata(found: Found, case: Case) -> bool:
    """GDAL compares the real part only."""
    return "complex" in case.info["dtype"] and case.info["nodata"] is not None


def is_turned(found: Found, case: Case) -> bool:
    """Rotated by 90 degrees: x depends on rows alone, and rioxarray gives all columns the same x."""
    a, b, _, d, e, _ = case.info["transform"] or Affine.identity()[:6]
    return a == e == 0 and b != 0 and d != 0


def is_one_pixel_wide(found: Found, case: Case) -> bool:
    return 1 in (case.info["height"], case.info["width"])


def is_known_by_gdal_alone(found: Found, case: Case) -> bool:
    return case.path.endswith(KNOWN)


def gcps_have_names(found: Found, case: Case) -> bool:
    """Ground control points of .aux.xml, whose names Swath does not read."""
    one, other = (json.loads(side) for side in (found.ours, found.theirs))
    for side in (one, other):
        for feature in side["features"]:
            feature["properties"].pop("id")
    return bool(one == other)


KNOWN = (
    "flower-ycbcr44-contig-08.tif",
    "90b2a82bfa2d5387cc8a201900dc70b46306ae85-2",
    "004b591a0d7156de5a9900269fc572bb62e1e75d-6",
)
"""Not read as GDAL reads them, each for a reason that docs/corpus.md gives."""

DIFFERENCES = (
    # Outcomes.
    Difference("outcome", is_refused, "a file whose directories are broken or contradict themselves is an error"),
    Difference("outcome", is_only_ours, "codecs and tags that GDAL or rioxarray cannot read are read"),
    Difference("pixels", is_refused, "damaged blocks are an error, not zeros"),
    Difference("pixels", is_only_ours, "codecs that GDAL cannot read are read"),
    Difference("pixels", is_known_by_gdal_alone, "docs/corpus.md says why"),
    Difference("pages", is_page, "rioxarray gives a dataset of all pages; Swath gives the first and warns"),
    # Additions.
    Difference("attrs colorinterp", has_colors, "the colours of bands survive a round trip"),
    Difference("dataset attrs colorinterp", has_colors, "the colours of bands survive a round trip"),
    Difference("attrs colormap", has_palette, "the palette survives a round trip"),
    Difference("dataset attrs colormap", has_palette, "the palette survives a round trip"),
    Difference("encoding swath", lambda found, case: True, "what restores the file's tags in a plain round trip"),
    # Types.
    Difference("dtype", is_half, "half floats are read as float32"),
    Difference("encoding dtype", is_half, "half floats are read as float32"),
    Difference("encoding rasterio_dtype", is_half, "half floats are read as float32"),
    Difference("* _FillValue", is_of_halves, "half floats are read as float32"),
    Difference("encoding dtype", would_be_destroyed, "to_netcdf would cast NaN, or scaled values, to integers"),
    Difference("encoding _FillValue", would_be_destroyed, "the value of packed numbers may be one of the unpacked"),
    Difference("attrs nodata", is_nan_of_masked, "NaN is missing to odc-geo too, and when encoding is gone"),
    Difference("attrs _swath_bands", has_bands_and_nodata, "the writer can tell an index of two bands from a band"),
    # Nodata.
    Difference("* _FillValue", is_no_number, "a nodata text that is no number is none; GDAL takes it for 0"),
    Difference("pixels", is_no_number, "a nodata text that is no number is none; GDAL takes it for 0"),
    Difference("* _FillValue", is_beyond_doubles, "nodata of 64-bit integers is exact; rioxarray rounds or drops it"),
    Difference("pixels", is_complex_nodata, "a complex sample is nodata if both parts agree, not by its real part"),
    # Texts.
    Difference("attrs long_name", is_missing_text, "netCDF and Zarr cannot hold None"),
    Difference("attrs units", is_missing_text, "netCDF and Zarr cannot hold None"),
    Difference("*attrs *", is_not_unicode, "text that is not UTF-8 is read as Latin-1"),
    Difference("*attrs *", is_long_integer, "integers of more than 64 bits stay text: no file format holds them"),
    Difference("*attrs *", is_odd_xml, "GDAL_METADATA with a document type is not read; escapes are undone once more"),
    Difference("attrs units", is_height_unit, "the unit of a height system is that of the bands"),
    # Georeferencing.
    Difference("spatial_ref crs_wkt", is_same_system, "the same system in other words"),
    Difference("spatial_ref spatial_ref", is_same_system, "the same system in other words"),
    Difference("spatial_ref *", is_written_in_a_citation, "a system written into a citation is read"),
    Difference("spatial_ref *", engine_knows_no_system, "Swath has no text for a code that other keys change"),
    Difference("spatial_ref *", follows_from_the_text, "CF attributes follow the text of the system"),
    Difference("spatial_ref gcps", gcps_have_names, "names of control points in .aux.xml are not read"),
    Difference("coord*", is_turned, "an image turned by 90 degrees has two-dimensional coordinates"),
    # Layout.
    Difference("encoding preferred_chunks", is_long_strip, "blocks are those of the file, where libtiff cuts strips"),
    Difference("encoding preferred_chunks", is_dead_dimension, "variables of bands have no dimension `band`"),
    Difference("dims", is_one_pixel_wide, "rioxarray drops y or x of a single row or column from variables of bands"),
    Difference("shape", is_one_pixel_wide, "rioxarray drops y or x of a single row or column from variables of bands"),
    Difference("coord *", is_one_pixel_wide, "rioxarray drops y or x of a single row or column"),
)


def same(ours: Any, theirs: Any) -> bool:
    """Whether values are equal in value and type: 5 is not 5.0, a numpy scalar is not a Python number, NaN equals
    NaN.
    """
    if isinstance(ours, np.ndarray) or isinstance(theirs, np.ndarray):
        arrays = isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray)
        return arrays and ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=ours.dtype.kind in "fc")
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, tuple | list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs) or bool(ours != ours and theirs != theirs)


def differing(what: str, ours: dict[Any, Any], theirs: dict[Any, Any]) -> Iterator[Found]:
    for key in ours.keys() | theirs.keys():
        one, other = ours.get(key, ABSENT), theirs.get(key, ABSENT)
        if not same(one, other):
            yield Found(f"{what} {key}", one, other)


def compared(ours: xr.DataArray, theirs: xr.DataArray) -> Iterator[Found]:
    for what in ("dims", "shape", "dtype", "name", "chunks"):
        one, other = getattr(ours, what), getattr(theirs, what)
        if one != other:
            yield Found(what, one, other)
    if set(ours.coords) != set(theirs.coords):
        yield Found("coords", list(ours.coords), list(theirs.coords))
    for name in set(ours.coords) & set(theirs.coords):
        one, other = ours.coords[name], theirs.coords[name]
        if name != "spatial_ref":
            if not same(one.values, other.values):
                yield Found(f"coord {name}", one.values.ravel()[:4], other.values.ravel()[:4])
            yield from differing(f"coord {name} attrs", one.attrs, other.attrs)
        else:
            yield from differing("spatial_ref", one.attrs, other.attrs)
    yield from differing("attrs", ours.attrs, theirs.attrs)
    yield from differing("encoding", ours.encoding, theirs.encoding)


def pixels_compared(ours: xr.DataArray, theirs: xr.DataArray, path: str) -> Iterator[Found]:
    if ours.dims != theirs.dims or ours.shape != theirs.shape:
        return
    if ours.size > MOST_SAMPLES:
        window = {dim: slice(size // 2, size // 2 + 64) for dim, size in ours.sizes.items() if dim in ("x", "y")}
        ours, theirs = ours.isel(window), theirs.isel(window)
    one, other = attempt(lambda: ours.values), attempt(lambda: theirs.values)
    if one.error or other.error:
        if not (one.error and other.error):
            yield Found("pixels", one.error or one.value.dtype, other.error or other.value.dtype)
        return
    a, b = one.value, other.value
    if b.dtype == np.float16:
        b = b.astype(a.dtype)
    if not (same(a, b) or is_lossy(path) and close(a, b)):
        yield Found("pixels", a.ravel()[:4], b.ravel()[:4])


def is_lossy(path: str) -> bool:
    return _described(path)["compression"] in ("jpeg", "webp", "jpeg2000", "lerc", "jpegxl", "old-jpeg")


def close(ours: Any, theirs: Any) -> bool:
    """JPEG decoders may round differently."""
    return bool(np.nanmax(np.abs(ours.astype("f8") - theirs.astype("f8"))) <= 2)


def examined(path: str, call: str) -> tuple[Case, list[Found]]:
    """The results of both, and their differences."""
    keywords = CALLS[call]
    ours: Outcome = attempt(lambda: swath.open_rasterio(path, **keywords))
    theirs: Outcome = attempt(lambda: rioxarray.open_rasterio(path, **keywords))
    case = Case(path, call, ours.value, theirs.value)
    if ours.error or theirs.error:
        both = ours.error and theirs.error
        return case, [] if both else [Found("outcome", ours.error or ours.value, theirs.error or theirs.value)]
    is_dataset = isinstance(theirs.value, xr.Dataset) and set(theirs.value.data_vars) == set(
        ours.value.data_vars if isinstance(ours.value, xr.Dataset) else ()
    )
    if not is_dataset and not (isinstance(ours.value, xr.DataArray) and isinstance(theirs.value, xr.DataArray)):
        return case, [Found("pages", type(ours.value).__name__, type(theirs.value).__name__)]
    if isinstance(ours.value, xr.DataArray):
        return case, [*compared(ours.value, theirs.value), *pixels_compared(ours.value, theirs.value, path)]
    found = list(differing("dataset attrs", ours.value.attrs, theirs.value.attrs))
    for name in ours.value.data_vars:
        found += compared(ours.value[name], theirs.value[name])
        found += pixels_compared(ours.value[name], theirs.value[name], path)
    return case, found


@dataclass
class Verdict:
    """The number of comparisons, the unexpected differences, and the rules that were needed."""

    count: int
    wrong: list[str]
    used: set[int]

    def check(self) -> None:
        if self.wrong:
            pytest.fail("ours / theirs\n" + "\n".join(self.wrong), pytrace=False)


def judged(paths: list[str], calls: tuple[str, ...]) -> Verdict:
    wrong, used = [], set()
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, call in itertools.product(paths, calls):
            case, found = examined(path, call)
            count += 1
            for entry in found:
                allowed = {number for number, rule in enumerate(DIFFERENCES) if is_allowed(rule, entry, case)}
                used |= allowed
                if not allowed:
                    wrong.append(f"{Path(path).name} ({call}) {entry}")
    return Verdict(count, wrong, used)


def is_allowed(rule: Difference, found: Found, case: Case) -> bool:
    return fnmatch.fnmatchcase(found.what, rule.what) and rule.holds(found, case)


def colored(path: Path, colors: tuple[str, ...], dtype: str, **profile: Any) -> None:
    pixels = ramp((len(colors), 37, 53), dtype)
    pixels[-1, 5:9] = 0
    write_rasterio(path, pixels, **profile)
    with rasterio.open(path, "r+") as file:
        file.colorinterp = [ColorInterp[color] for color in colors]


def from_netcdf(path: Path) -> None:
    tags = {"NETCDF_DIM_EXTRA": "{time}", "NETCDF_DIM_time_DEF": "{3,6}", "NETCDF_DIM_time_VALUES": "{1,2.5,4}"}
    tags |= {"time#units": "days since 2020-01-01", "x#long_name": "easting", "NETCDF_VARNAME": "rain"}
    write_rasterio(path, ramp((3, 37, 53), "f4"), tags={**tags, "rain#long_name": "rainfall"})


def more_samples() -> list[Sample]:
    """Files with properties that the samples of other tests lack."""
    rpc = tuple(float(number % 7) + 0.125 for number in range(92))
    tilted = ramp((37, 53), "u1")
    return [
        Sample("colors-rgba", lambda path: colored(path, ("red", "green", "blue", "alpha"), "u1")),
        Sample("colors-rgba-16", lambda path: colored(path, ("red", "green", "blue", "alpha"), "u2")),
        Sample("colors-rgba-nodata", lambda path: colored(path, ("red", "green", "blue", "alpha"), "u1", nodata=3)),
        Sample("colors-gray-alpha", lambda path: colored(path, ("gray", "alpha"), "u1")),
        Sample("colors-bgr", lambda path: colored(path, ("blue", "green", "red"), "u1")),
        Sample("colors-floats", lambda path: colored(path, ("gray", "alpha"), "f4")),
        Sample("netcdf-dimension", from_netcdf),
        gdal("turned", tilted, transform=Affine(0, 2, 5, 1, 0, 4)),
        gdal("tilted-alike", tilted, transform=Affine(2, 1, 5, 1, -2, 4)),
        gdal("one-row", ramp((1, 53), "u2"), nodata=3),
        gdal("one-column", ramp((2, 37, 1), "u2"), nodata=3),
        gdal("names-of-some", ramp((3, 37, 53), "i2"), descriptions=("red", None, "blue"), units=("m", None, None)),
        gdal("names-alike", ramp((2, 37, 53), "i2"), descriptions=("a", "a"), units=("m", "m")),
        gdal("numbers", tags={"A": "5", "B": "1.5", "C": "{1,2,3}", "D": "{a,b}", "E": "1" * 30, "F": "nan"}),
        gdal("band-items", ramp((2, 37, 53), "u2"), band_tags={1: {"X": "one"}, 2: {"X": "two", "Y": "3"}}),
        gdal("refused-items", tags={"nodata": "7", "_FillValue": "8", "res": "9", "is_tiled": "1"}),
        raw_tags("rpc", [doubles(50844, *rpc)]),
        raw_tags("limits", [(280, 3, 1, 5), (281, 3, 1, 500), text(316, "host"), text(33432, "Some One")]),
    ]


SAMPLES = [*all_layouts(), *all_metadata(), *more_samples()]


@pytest.fixture(scope="session")
def sample_paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("rioxarray")
    paths = []
    for sample in SAMPLES:
        paths.append(str(folder / f"{sample.id.replace(' ', '_')}.tif"))
        sample.make(Path(paths[-1]))
    return paths


verdicts: dict[str, Verdict] = {}


def verdict_on(name: str, paths: list[str], calls: tuple[str, ...]) -> Verdict:
    """Computed once: the last test uses all verdicts."""
    if name not in verdicts:
        verdicts[name] = judged(paths, calls)
    return verdicts[name]


def verdict_on_corpus(root: Path, number: int) -> Verdict:
    chosen: list[Row] = [row for row in rows(root) if row["oracle"] not in ("reject", "huge")][number::PARTS]
    paths = [str(root / row["path"]) for row in chosen]
    whole = verdict_on(f"corpus {number}", paths, CORPUS_CALLS)
    for index, call in enumerate(MORE_CORPUS_CALLS):
        part = verdict_on(f"corpus {number} {call}", paths[index :: len(MORE_CORPUS_CALLS)], (call,))
        whole = Verdict(whole.count + part.count, whole.wrong + part.wrong, whole.used | part.used)
    return whole


@pytest.mark.parametrize("call", CALLS)
def test_generated_files(call: str, sample_paths: list[str]) -> None:
    verdict = verdict_on(call, sample_paths, (call,))
    assert verdict.count > 350
    verdict.check()


@pytest.mark.parametrize("number", range(PARTS))
def test_corpus(number: int, corpus: Path) -> None:
    verdict = verdict_on_corpus(corpus, number)
    assert verdict.count > 400
    verdict.check()


def test_every_listed_difference_occurs(sample_paths: list[str], corpus: Path) -> None:
    """A rule that no file needs could hide defects."""
    for call in CALLS:
        verdict_on(call, sample_paths, (call,))
    for number in range(PARTS):
        verdict_on_corpus(corpus, number)
    used = set().union(*(verdict.used for verdict in verdicts.values()))
    idle = [rule.what + ": " + rule.why for number, rule in enumerate(DIFFERENCES) if number not in used]
    assert not idle, "\n".join(idle)
