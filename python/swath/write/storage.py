"""Determines how the values of an array are stored: type, scale, offset and nodata value.

`encoding` takes precedence, because xarray drops it when values are computed. Attributes are used if they describe
the values regardless of later operations.
"""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ConflictingNodataError, InvalidIntegerNodataError
from ..read.nodata import matchable
from ..xarray.state import Number, ReadState, state_of
from .bands import Bands, as_sequence, is_mixed
from .pack import AlphaGuard, NodataGuard, Packing, check_packed_nodata, per_band
from .raster import Raster

Scaling = tuple[tuple[float, float], ...]

FILL_NAMES = ("_FillValue", "missing_value", "fill_value")
# Without fill_value: xarray stores Zarr's fill value there, which is 0 for arrays without missing pixels.
_ENCODED_FILL_NAMES = ("_FillValue", "missing_value", "nodata")
_LEGACY = ("scale_factor", "add_offset", "mask_and_scale_dtype")
"""The attrs that xarray-spatial sets for `unpack=True`."""


@dataclass(frozen=True)
class Storage:
    """The stored type, and the scale, offset and nodata value of the file."""

    raster: Raster
    """The raster with its stored type and the steps that convert to it."""
    nodata: Number | None
    nan_to_nodata: bool
    scaling: Scaling | None = None
    """Scale and offset of each band for the file; None takes them from the metadata."""
    otherwise: Storage | None = None
    """The storage to use if the values turn out not to fit the type of the file."""


def storage_of(
    raster: Raster, data: Any, bands: Bands, *, nodata: Any, pack: bool | None, has_mask: bool, alpha: int | None
) -> Storage:
    """Returns the storage for a DataArray, or for an array without dims if `data` is None. `pack=None` restores the
    type of the file if nothing is lost.

    `has_mask`: the file gets a mask. `alpha`: the band that marks missing pixels.
    """
    explicit = None if nodata is None else number(nodata, "nodata")
    if data is None:
        if pack:
            raise ValueError(
                "pack=True requires a DataArray carrying the attrs from an open_geotiff(unpack=True) read; got a bare "
                "array with no metadata to reverse."
            )
        return Storage(raster, _fitting(explicit, raster.dtype), nan_to_nodata=True)
    by_other = has_mask or alpha is not None
    packing = None if pack is False else _packing(data, bands, raster, explicit, by_other, exact=not pack)
    if pack and packing is None:
        packing = _legacy_packing(data.attrs, raster, explicit)
    plain = _plain(raster, data, bands, explicit)
    # The values are no longer those of the file, so its nodata value may be a valid value.
    otherwise = plain if explicit is not None else replace(plain, nodata=math.nan)
    if packing is None:
        # NaN becomes this value, so no valid pixel may have it.
        nodata = plain.nodata if explicit is None and fill_of(data) is not None else None
        if nodata is None or raster.dtype.kind != "f" or math.isnan(nodata):
            return plain
        checked = replace(raster, steps=(*raster.steps, NodataGuard(nodata)))
        return replace(plain, raster=checked, otherwise=otherwise)
    guards = () if alpha is None or packing.nodata is not None or has_mask else (AlphaGuard(alpha),)
    values = replace(raster, dtype=packing.dtype, steps=(*raster.steps, *guards, packing))
    # Values that were masked but not scaled are still packed.
    stated = _needed(packing.scaling) or plain.scaling
    return Storage(values, packing.nodata, False, stated, otherwise if packing.exact else None)


def _plain(raster: Raster, data: Any, bands: Bands, explicit: Number | None) -> Storage:
    """Returns the storage of unchanged values."""
    state = state_of(data.encoding)
    if explicit is not None:
        value: Number | None = _fitting(explicit, raster.dtype)
    else:
        value = _stated_nodata(data, raster, bands, state)
    if state is not None:
        from_nan = state.masked
    else:
        # In the contract of xarray-spatial, an array that was not masked may hold both NaN and nodata. Swath's arrays
        # record that in their state.
        given = data.attrs.get("masked_nodata")
        from_nan = "_swath_contract" in data.attrs or given is None or bool(given)
    return Storage(raster, value, from_nan, _stated_scaling(data, bands, state))


def _packing(
    data: Any, bands: Bands, raster: Raster, explicit: Number | None, has_mask: bool, *, exact: bool
) -> Packing | None:
    """Returns the conversion to the type of the file; None if the array does not record it or needs no conversion."""
    dtype = _packed_type(data)
    scaling = _applied_scaling(data, bands)
    if dtype is None or scaling is None or dtype.kind not in "iuf" or raster.dtype.kind == "c":
        return None
    if dtype == raster.dtype and _needed(scaling) is None:
        return None
    if dtype.kind == "f" and _needed(scaling) is None:
        return None
    nodata = explicit
    if nodata is None:
        nodata = matchable(_packed_fill(data.encoding), dtype)
    elif dtype.kind in "iu":
        if exact and matchable(nodata, dtype) is None:
            return None
        check_packed_nodata(nodata, dtype)
    fill = 0 if nodata is None and has_mask else nodata
    return Packing(dtype, scaling, nodata, fill, exact)


def _packed_type(data: Any) -> np.dtype[Any] | None:
    """Returns the type of the packed samples."""
    encoding, state = data.encoding, state_of(data.encoding)
    if state is not None:
        if state.cast or not (state.masked or state.unpacked):
            return None
        named = encoding.get("dtype", state.dtype)
    elif "rasterio_dtype" in encoding and data.dtype.kind == "f":
        named = encoding["rasterio_dtype"]
    elif "_swath_contract" in data.attrs and data.dtype.kind == "f":
        # An array of Swath that went through a netCDF file or a Zarr store.
        named = encoding.get("dtype")
    else:
        return None
    try:
        return None if named is None else np.dtype(named).newbyteorder("=")
    except TypeError:
        return None


def _applied_scaling(data: Any, bands: Bands) -> Scaling | None:
    """Returns the scale and offset that were applied to each band; None if they are ambiguous."""
    count, encoding, state = bands.labels.count, data.encoding, state_of(data.encoding)
    if state is not None:
        return _by_sample(state, bands) if state.unpacked else ((1.0, 0.0),) * count
    if "scale_factor" in encoding or "add_offset" in encoding:
        return per_band([encoding.get("scale_factor")] * count, [encoding.get("add_offset")] * count)
    return _listed(encoding, bands) or ((1.0, 0.0),) * count


def _by_sample(state: ReadState, bands: Bands) -> Scaling | None:
    """Returns the scale and offset by band of the file. If all bands have the same, any entry is correct."""
    if not state.scaling:
        return ((1.0, 0.0),) * bands.labels.count
    if all(number is None for number in bands.samples):
        every = {state.scaling.get(number, (1.0, 0.0)) for number in range(state.bands)}
        return (every.pop(),) * bands.labels.count if len(every) == 1 else None
    return tuple((1.0, 0.0) if number is None else state.scaling.get(number, (1.0, 0.0)) for number in bands.samples)


def _listed(where: Mapping[Any, Any], bands: Bands) -> Scaling | None:
    """Returns rioxarray's `scales` and `offsets` by label."""
    lists = [as_sequence(where.get(name)) for name in ("scales", "offsets")]
    if lists[0] is None and lists[1] is None:
        return None
    size = max(len(entries) for entries in lists if entries is not None)
    picked = [
        [None] * bands.labels.count if entries is None or len(entries) != size else bands.labels.pick(entries)
        for entries in lists
    ]
    known = any(place is not None for place in bands.labels.positions(size))
    return per_band(*picked) if known else None


def _needed(scaling: Scaling) -> Scaling | None:
    return None if all(pair == (1.0, 0.0) for pair in scaling) else scaling


def _legacy_packing(attrs: Mapping[str, Any], raster: Raster, explicit: Number | None) -> Packing:
    """Returns the packing for `pack=True` from the attrs of an array of xarray-spatial, which has no encoding."""
    if all(attrs.get(name) is None for name in _LEGACY) and not attrs.get("masked_nodata"):
        raise ValueError(
            "pack=True but the array carries no unpack state to reverse (no scale_factor / mask_and_scale_dtype / "
            "masked_nodata, and no encoding). It was not produced by open_geotiff(unpack=True), or was computed since."
        )
    if raster.dtype.kind == "c":
        raise ValueError(f"pack=True cannot pack {raster.dtype} values")
    scale, offset = _factor(attrs, "scale_factor", 1.0), _factor(attrs, "add_offset", 0.0)
    if not math.isfinite(scale) or scale == 0.0 or not math.isfinite(offset):
        raise ValueError(
            f"pack=True cannot reverse scale_factor={scale} / add_offset={offset}: the inverse divides by "
            "scale_factor, so it must be non-zero and finite, and add_offset must be finite."
        )
    nodata = explicit if explicit is not None else nodata_of_attrs(attrs)
    if nodata is not None and math.isnan(nodata):
        nodata = None
    dtype = _legacy_type(raster, attrs)
    if dtype.kind in "iu" and nodata is not None:
        check_packed_nodata(nodata, dtype)
    return Packing(dtype, ((scale, offset),) * raster.bands, nodata, nodata, exact=False)


def _factor(attrs: Mapping[str, Any], name: str, default: float) -> float:
    value = attrs.get(name)
    if value is None:
        return default
    if isinstance(value, str | bytes):
        raise TypeError(f"pack=True: attrs[{name!r}] must be a number, not {value!r}")
    return float(value)


def _legacy_type(raster: Raster, attrs: Mapping[str, Any]) -> np.dtype[Any]:
    """Returns the type of the source: the recorded one, else that of an integer nodata value, else that of the
    values.
    """
    recorded = attrs.get("mask_and_scale_dtype")
    if recorded is not None:
        dtype: np.dtype[Any] = np.dtype(recorded).newbyteorder("=")
        if dtype.kind not in "iuf" or dtype.itemsize < 1 or dtype.itemsize > 8:
            raise TypeError(f"pack=True: attrs['mask_and_scale_dtype']={recorded!r} is not a type that a TIFF can hold")
        return dtype
    sentinel = attrs.get("nodata")
    if isinstance(sentinel, np.integer | int) and not isinstance(sentinel, bool):
        width: np.dtype[Any] = np.asarray(sentinel).dtype
        return width
    return raster.dtype


def _stated_scaling(data: Any, bands: Bands, state: ReadState | None) -> Scaling | None:
    """Returns the scale and offset of the samples for the file; None if those of GDAL_METADATA in attrs apply."""
    none = ((1.0, 0.0),) * bands.labels.count
    if state is not None:
        if state.unpacked:
            return none
        scaling = _by_sample(state, bands)
        if scaling is None:
            warnings.warn(
                "the bands of the source have different scales and the array has lost the labels of its bands, so it "
                "is written without a scale; keep the `band` coordinate (isel without drop=True)",
                UserWarning,
                stacklevel=5,
            )
        return scaling or none
    attrs, encoding = data.attrs, data.encoding
    if "_swath_contract" in attrs:
        return none
    # rioxarray's arrays keep these attributes when values are computed, but lose the encoding.
    computed = "AREA_OR_POINT" in attrs and "rasterio_dtype" not in encoding
    if computed or {"scales", "offsets", "scale_factor", "add_offset"} & encoding.keys():
        return none
    if listed := _listed(attrs, bands):
        return listed
    if "AREA_OR_POINT" in attrs and ("scale_factor" in attrs or "add_offset" in attrs):
        count = bands.labels.count
        return per_band([attrs.get("scale_factor")] * count, [attrs.get("add_offset")] * count)
    return none if attrs.get("scale_factor") is not None or attrs.get("add_offset") is not None else None


def _stated_nodata(data: Any, raster: Raster, bands: Bands, state: ReadState | None) -> Number | None:
    """Returns the nodata value that the array states, if samples of the raster's type can equal it."""
    attrs = data.attrs
    is_float = raster.dtype.kind in "fc"
    if data.dtype.kind == "b":
        return None  # The result of a comparison whose operands had a nodata value.
    fill = fill_of(data)
    if fill is not None:
        scaling = _applied_scaling(data, bands)
        was_scaled = scaling is None or _needed(scaling) is not None
        return _fitting_or_none(math.nan if was_scaled and is_float else fill, raster.dtype)
    stated = nodata_of_attrs(attrs)
    if stated is None:
        stated = _of_accessors(data)
    if stated is None:
        return None
    if state is not None and state.masked and state.nodata is None and state.dtype.kind in "fc" and math.isnan(stated):
        return None  # NaN marks masked pixels, or missing pixels of a float file that does not declare them.
    if is_mixed(data):
        return math.nan if is_float else None
    if state is not None and not state.masked and _equal(stated, state.nodata) and state.dtype == data.dtype:
        return stated  # As in the file, valid or not.
    if isinstance(stated, float) and math.isnan(stated) and not is_float:
        return None  # Integers made from a masked array have no missing pixels.
    return _fitting_or_none(stated, raster.dtype)


def _equal(one: Number, two: Number | None) -> bool:
    """Whether two nodata values are equal; NaN equals NaN."""
    return one == two or (two is not None and math.isnan(one) and math.isnan(two))


def _packed_fill(encoding: Mapping[Any, Any]) -> Number | None:
    """Returns the sample that stands for NaN in the file.

    For unpacked bands with several scales it comes from the state.
    """
    state = state_of(encoding)
    if state is None or not state.masked or not encoding.keys().isdisjoint(_ENCODED_FILL_NAMES):
        return encoded_fill(encoding)
    return state.nodata


def fill_of(data: Any) -> Number | None:
    """Returns the value that NaN represents in an array; None if the array is not masked.

    xarray sets NaN for all floats that it stores, even for those with another value.
    """
    fill = encoded_fill(data.encoding)
    is_default = fill is not None and math.isnan(fill) and nodata_of_attrs(data.attrs) is not None
    return None if is_default else fill


def encoded_fill(encoding: Mapping[Any, Any]) -> Number | None:
    """Returns the value that NaN represents: rioxarray and xarray store it in the encoding of masked arrays."""
    for name in _ENCODED_FILL_NAMES:
        if encoding.get(name) is not None:
            return _as_in_file(number(encoding[name], f"encoding[{name!r}]"), state_of(encoding))
    return None


def _as_in_file(value: Number, state: ReadState | None) -> Number:
    """Returns the nodata value of the file if it equals this one in the type of the samples: as texts, -9999 and
    -9999.0 differ.
    """
    if state is None or state.nodata is None:
        return value
    own, other = (matchable(each, state.dtype) for each in (value, state.nodata))
    return state.nodata if own is not None and _equal(own, other) else value


def _of_accessors(data: Any) -> Number | None:
    """Returns the value set with `rio.set_nodata`, which is not in the attributes."""
    if "rioxarray" not in sys.modules or "nodatavals" in data.attrs:
        return None
    value = data.rio.nodata
    return None if value is None else number(value, "rio.nodata")


def _fitting(nodata: Number | None, dtype: np.dtype[Any]) -> Number | None:
    """Checks the value that the caller passed.

    A value that no pixel can equal is an error, because readers would refuse the file.
    """
    if nodata is None or dtype.kind == "c" or matchable(nodata, dtype) is not None:
        return nodata
    raise InvalidIntegerNodataError(
        f"nodata={nodata!r} is not a value of {dtype.name}, so no pixel could have it. Pass a value that {dtype.name} "
        "can hold, or convert the array with astype()."
    )


def _fitting_or_none(nodata: Number, dtype: np.dtype[Any]) -> Number | None:
    if dtype.kind == "c" or matchable(nodata, dtype) is not None:
        return nodata
    if math.isfinite(nodata):
        warnings.warn(
            f"the nodata value {nodata!r} of the array is not a value of {dtype.name} and is not written; pass the one "
            "that is meant as nodata=",
            UserWarning,
            stacklevel=6,
        )
    return None


def nodata_of_attrs(attrs: Mapping[str, Any]) -> Number | None:
    """Returns attrs['nodata'], 'nodatavals', or '_FillValue' and its other names."""
    per_band_values = _nodatavals(attrs)
    scalar = attrs.get("nodata")
    fill = next((attrs[name] for name in FILL_NAMES if attrs.get(name) is not None), None)
    if scalar is not None and fill is not None and "_swath_contract" in attrs:
        # Swath's reads set only attrs['nodata'], so a later rio.write_nodata takes precedence.
        scalar = None
    if scalar is not None:
        value = number(scalar, "attrs['nodata']")
        if per_band_values and value not in per_band_values:
            raise ConflictingNodataError(
                f"attrs['nodata']={scalar!r} disagrees with every concrete entry in "
                f"attrs['nodatavals']={attrs['nodatavals']!r}. Drop the stale attribute, or pass the value that is "
                "meant as nodata=."
            )
    if len(per_band_values) > 1:
        raise ConflictingNodataError(
            f"attrs['nodatavals']={attrs['nodatavals']!r} declares distinct nodata values for different bands, but a "
            "GeoTIFF has one for all. Make them one, or pass the value that is meant as nodata=."
        )
    if scalar is not None:
        return value
    if per_band_values:
        return per_band_values[0]
    return None if fill is None else number(fill, "attrs['_FillValue']")


def _nodatavals(attrs: Mapping[str, Any]) -> list[Number]:
    """Returns the distinct values of rioxarray's attribute. None and NaN mean that a band has no value."""
    given = attrs.get("nodatavals")
    if given is None:
        return []
    entries = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    found: list[Number] = []
    foreign = 0
    for entry in entries:
        if entry is None:
            continue
        try:
            value = number(entry, "attrs['nodatavals']")
        except ValueError:
            foreign += 1
            continue
        if not math.isnan(value) and value not in found:
            found.append(value)
    if foreign and not found:
        warnings.warn(
            f"attrs['nodatavals']={given!r} contained only non-numeric entries, so there is no nodata value in it. "
            "Pass nodata= or correct the attribute.",
            UserWarning,
            stacklevel=7,
        )
    return found


def number(value: Any, name: str) -> Number:
    """Returns a Python number. Raises TypeError for bools and texts of numbers, ValueError for other values."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be numeric (int or float), got {value!r}")
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return whole if -(2**63) <= whole < 2**64 else float(whole)
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        # With the written digits: 0.1 as float32 means 0.1.
        return float(str(value))
    if isinstance(value, float | np.floating):
        return float(value)
    wrong = (
        f"{name} must be numeric or None, got {value!r} (type {type(value).__name__}): it is not numeric, so no pixel "
        "can have it"
    )
    try:
        is_number_as_text = not np.ndim(value) and float(value) is not None
    except (TypeError, ValueError):
        is_number_as_text = False
    raise TypeError(wrong) if is_number_as_text else ValueError(wrong)
