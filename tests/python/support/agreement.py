"""The results of two readers for one file, and their differences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

# Private names of the reference and Swath's names for them.
RENAMED = {"_xrspatial_geotiff_contract": "_swath_contract", "_xrspatial_no_georef": "_swath_no_georef"}
# Attrs that only Swath has, and attrs that are 0 or 1 where the reference has bools.
ADDED = {"_swath_bands", "colorinterp"}
TRUTHS = {"masked_nodata", "nodata_pixels_present", "_swath_no_georef"}
# Warnings of the contract; others, such as numpy's about overflow, vary with versions.
KINDS = {"DeprecationWarning", "GeoTIFFFallbackWarning", "UserWarning"}


@dataclass
class Outcome:
    """The result of a call: a value or an error, and its warnings."""

    value: Any = None
    error: BaseException | None = None
    warned: list[tuple[str, str]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The class of the error; "" for none."""
        return type(self.error).__name__ if self.error else ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.error}"[:300] if self.error else describe(self.value)


def attempt(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = Outcome()
        try:
            outcome.value = call(*arguments, **keywords)
        except Exception as error:
            outcome.error = error
    warned = [(warning.category.__name__, str(warning.message)) for warning in caught]
    outcome.warned = sorted(entry for entry in warned if entry[0] in KINDS and not about_numpy(entry[1]))
    return outcome


def about_numpy(message: str) -> bool:
    """Deprecation warnings of numpy, and hints of the reference about packages that would make it faster."""
    return "NumPy" in message or "numpy" in message or "package is not installed" in message


def lacks_a_package(theirs: Outcome) -> bool:
    """Whether the reference could not run because one of its libraries is not installed; prints a notice."""
    lacking = isinstance(theirs.error, ImportError)
    if lacking:
        warnings.warn(f"LEFT OUT: the reference cannot be compared with: {theirs.error}", stacklevel=2)
    return lacking


def describe(value: Any) -> str:
    if isinstance(value, xr.DataArray):
        return f"{value.dims} {value.shape} {value.dtype}"
    return repr(value)[:300]


def same_value(ours: Any, theirs: Any) -> bool:
    """Whether values are equal in value and kind: 5 is not 5.0, NaN equals NaN; numpy scalars count as Python's."""
    ours, theirs = plain(ours), plain(theirs)
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, (tuple, list)):
        return len(ours) == len(theirs) and all(map(same_value, ours, theirs))
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same_value(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, float):
        return ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    return bool(ours == theirs)


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def same_pixels(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> bool:
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    return bool(np.array_equal(ours, theirs, equal_nan=ours.dtype.kind in "fc"))


def same_crs(ours: str, theirs: str) -> bool:
    import pyproj

    if ours == theirs:
        return True
    try:
        return bool(pyproj.CRS.from_user_input(ours).equals(pyproj.CRS.from_user_input(theirs), ignore_axis_order=True))
    except pyproj.exceptions.CRSError:
        return False


def public(attrs: dict[Any, Any]) -> dict[Any, Any]:
    return {RENAMED.get(key, key): value for key, value in attrs.items()}


def as_the_reference_says_it(array: xr.DataArray) -> dict[Any, Any]:
    """Swath's attrs in the form of the reference; docs/differences.md lists the differences and the reasons."""
    attrs = {key: value for key, value in array.attrs.items() if key not in ADDED}
    attrs = {key: getattr(value, "value", value) if isinstance(value, str) else value for key, value in attrs.items()}
    for key in TRUTHS & attrs.keys():
        attrs[key] = bool(attrs[key])
    state = array.encoding.get("swath")
    if state is None:
        return attrs
    if state.masked:
        assert np.isnan(attrs["nodata"]), "NaN is the missing value of a masked array"
        attrs["nodata"] = state.nodata
        if state.nodata is None:
            del attrs["nodata"], attrs["masked_nodata"]
    if state.unpacked:
        bands = np.atleast_1d(array.coords["band"].values).tolist() if "band" in array.coords else [0]
        factors = {state.scaling.get(band, (1.0, 0.0)) for band in bands}
        is_scaled = factors != {(1.0, 0.0)}
        if is_scaled and len(factors) == 1:
            ((attrs["scale_factor"], attrs["add_offset"]),) = factors
        if is_scaled or state.masked:
            dtype = np.dtype(np.float32) if state.dtype == np.float16 else state.dtype
            attrs["mask_and_scale_dtype"] = dtype.name
    return attrs


def differences(ours: xr.DataArray, theirs: xr.DataArray, *, ignore: frozenset[str] = frozenset()) -> list[str]:
    """The differences between two arrays, as `what: ours / theirs`."""
    found: list[str] = []

    def note(what: str, a: Any, b: Any) -> None:
        if what not in ignore and what.split(" ")[0] not in ignore:
            found.append(f"{what}: {str(a)[:160]} / {str(b)[:160]}")

    for what in ("dims", "shape", "dtype", "name", "chunks"):
        a, b = getattr(ours, what), getattr(theirs, what)
        if a != b:
            note(what, a, b)
    if set(map(str, ours.coords)) != set(map(str, theirs.coords)):
        note("coords", sorted(map(str, ours.coords)), sorted(map(str, theirs.coords)))
    for key in set(ours.coords) & set(theirs.coords):
        a, b = ours.coords[key], theirs.coords[key]
        if not same_pixels(a.values, b.values) or a.dims != b.dims or a.attrs != b.attrs:
            note(f"coord {key}", (a.dtype, a.values.ravel()[:2], a.attrs), (b.dtype, b.values.ravel()[:2], b.attrs))
    attrs = public(as_the_reference_says_it(ours)), public(as_the_reference_says_it(theirs))
    for key in sorted(attrs[0].keys() | attrs[1].keys(), key=str):
        a, b = (side.get(key, "absent") for side in attrs)
        same = same_crs(a, b) if key == "crs_wkt" and "absent" not in (a, b) else same_value(a, b)
        if not same:
            note(f"attrs {key}", repr(a), repr(b))
    if ours.shape == theirs.shape and not same_pixels(ours.values.astype(theirs.dtype), theirs.values):
        note("pixels", ours.values.ravel()[:6], theirs.values.ravel()[:6])
    return found


def disagreement(
    ours: Outcome, theirs: Outcome, *, ignore: frozenset[str] = frozenset(), warned: bool = True
) -> list[str]:
    """The differences between two outcomes of one call; empty if they agree."""
    if ours.kind != theirs.kind:
        return [f"outcome: {ours} / {theirs}"] if "outcome" not in ignore and not lacks_a_package(theirs) else []
    found = []
    kinds = [{kind for kind, _ in outcome.warned} for outcome in (ours, theirs)]
    if warned and kinds[0] != kinds[1] and "warnings" not in ignore:
        found.append(f"warnings: {ours.warned} / {theirs.warned}"[:400])
    if isinstance(ours.value, xr.DataArray) and isinstance(theirs.value, xr.DataArray):
        found += differences(ours.value, theirs.value, ignore=ignore)
    return found
