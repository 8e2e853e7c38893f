"""The attributes of an array that was read: version 5 of the attrs contract."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..xarray.state import KEY, ReadState
from ..xarray.structured import Structured

if TYPE_CHECKING:
    from .._swath import Description
    from .nodata import Finish, Number

CONTRACT = 5

IMAGE_DESCRIPTION, X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT, EXTRA_SAMPLES = 270, 282, 283, 296, 338
RESOLUTION_UNITS = {1: "none", 2: "inch", 3: "centimeter"}
BYTE, RATIONAL, SIGNED_RATIONAL = 1, 5, 10

MANAGED = frozenset(
    # Tags that describe the image and its blocks, that have their own attribute, that give the georeferencing, or that
    # hold GDAL's texts.
    [254, 256, 257, 258, 259, 262, 273, 274, 277, 278, 279, 284, 317, 322, 323, 324, 325, 330, 339]
    + [X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT]
    + [33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113]
    # Tags of the encoding of this file's blocks, which do not apply to another file: bit order, fax, JPEG tables and
    # colours, LERC.
    + [255, 266, 292, 293, 326, 327, 328, 347, 512, 513, 514, 515, 517, 518, 519, 520, 521, 529, 530, 531, 532, 50674]
)

Metadata = dict[str | tuple[str, int], str]
"""GDAL_METADATA by name, or by name and band (from 0)."""

COLORLESS = frozenset(["", "gray", "undefined", "palette"])
"""Colour interpretations without a colour."""


def file_attrs(description: Description) -> dict[str, Any]:
    """Returns the attrs that do not depend on the pixels that are read."""
    attrs: dict[str, Any] = {"_swath_contract": CONTRACT}
    tags = {tag: (kind, count, value) for tag, kind, count, value in description["tags"]}
    xml = description["gdal_metadata_xml"]
    if xml is not None:
        attrs["gdal_metadata"] = Structured(description["gdal_metadata"] or {}, xml)
        attrs["gdal_metadata_xml"] = xml
    if description["colormap"] is not None:
        attrs["colormap"] = description["colormap"]
    if (text := description["texts"].get(IMAGE_DESCRIPTION)) is not None:
        attrs["image_description"] = text
    if EXTRA_SAMPLES in tags:
        samples = tags[EXTRA_SAMPLES][2]
        attrs["extra_samples"] = samples if isinstance(samples, tuple) else (samples,)
    for name, tag in (("x_resolution", X_RESOLUTION), ("y_resolution", Y_RESOLUTION)):
        if tag in tags and (ratio := _plain(*tags[tag])) is not None:
            attrs[name] = float(ratio)
    if RESOLUTION_UNIT in tags and (unit := RESOLUTION_UNITS.get(tags[RESOLUTION_UNIT][2])) is not None:
        attrs["resolution_unit"] = unit
    extra = [(tag, *_plain_tag(*field)) for tag, field in tags.items() if tag not in MANAGED]
    if extra:
        attrs["extra_tags"] = Structured(extra)
    if description["bands"] > 1:
        attrs["_swath_bands"] = description["bands"]
    colors = tuple(info["color"] or "undefined" for info in description["band_info"])
    if not COLORLESS.issuperset(colors):
        attrs["colorinterp"] = colors
    return attrs


def copy_of(attrs: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy of the attrs, so that a change in one array does not affect another."""
    copied = dict(attrs)
    if "category_names" in copied:
        copied["category_names"] = copied["category_names"].copy()
    return copied


def _plain_tag(kind: int, count: int, value: Any) -> tuple[int, int, Any]:
    return kind, count, _plain(kind, count, value)


def _plain(kind: int, count: int, value: Any) -> Any:
    """Converts tag values to common types: BYTE to integers, rationals to floats, None for a division by zero."""
    if kind == BYTE and isinstance(value, bytes):
        return value[0] if count == 1 else tuple(value)
    if kind in (RATIONAL, SIGNED_RATIONAL) and isinstance(value, tuple):
        return _ratio(value) if isinstance(value[0], int) else tuple(map(_ratio, value))
    return value


def _ratio(pair: tuple[int, int]) -> float | None:
    return pair[0] / pair[1] if pair[1] else None


def nodata_attrs(
    finish: Finish, nodata: Number | None, *, masked: bool, cast: bool, seen: bool | None
) -> dict[str, Any]:
    """Returns the attrs about missing pixels. `seen` is None for lazy reads, whose pixels are not known yet.

    If NaN marks missing pixels, NaN is the nodata value of the array, and the value of the file is in `encoding`. No
    value is a bool, because netCDF cannot store bool attributes.
    """
    attrs: dict[str, Any] = {}
    is_masked = stands_for_missing(finish, nodata, masked)
    if nodata is None and not finish.by_mask:
        return attrs
    attrs["nodata"] = math.nan if is_masked else nodata
    attrs["masked_nodata"] = int(is_masked)
    if nodata is not None and seen is not None:
        attrs["nodata_pixels_present"] = int(seen)
    if nodata is not None and cast:
        attrs["nodata_dtype_cast"] = finish.dtype.name
    return attrs


def stands_for_missing(finish: Finish, nodata: Number | None, masked: bool) -> bool:
    """Whether NaN marks missing pixels; also in a float file in which no pixel can equal the nodata value."""
    return finish.by_mask or (masked and nodata is not None and finish.work.kind in "fc")


def encoding_of(state: ReadState, finish: Finish) -> dict[str, Any]:
    """Describes how the file stores the values, with xarray's names where CF defines one."""
    encoding: dict[str, Any] = {KEY: state}
    if not state.masked:
        return encoding
    factors = set(state.scaling.values()) if state.unpacked else set()
    # CF has one scale for all bands. With the packed type alone, xarray would store the values as if they had no scale
    # and, without a fill value, NaN as an arbitrary integer.
    one_scale = len(factors) <= 1 and (not factors or len(state.scaling) == state.bands)
    packs = one_scale and finish.sentinel is not None and not state.cast and state.dtype.kind in "iu"
    if finish.sentinel is not None and (packs or not factors):
        # Not for values that stay unpacked: a valid value may equal the packed nodata value.
        encoding["_FillValue"] = np.array(finish.sentinel, state.dtype)[()]
    if packs:
        encoding["dtype"] = state.dtype.name
        for scale, offset in factors:
            encoding["scale_factor"], encoding["add_offset"] = scale, offset
    return encoding
