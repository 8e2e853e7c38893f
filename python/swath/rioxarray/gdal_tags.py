"""The metadata items of a TIFF and of its bands, with the names and in the form of GDAL and rasterio."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._swath import Description

Tags = dict[str, str]

TEXTS = {
    269: "TIFFTAG_DOCUMENTNAME",
    270: "TIFFTAG_IMAGEDESCRIPTION",
    305: "TIFFTAG_SOFTWARE",
    306: "TIFFTAG_DATETIME",
    315: "TIFFTAG_ARTIST",
    316: "TIFFTAG_HOSTCOMPUTER",
    33432: "TIFFTAG_COPYRIGHT",
}
LIMITS = {280: "TIFFTAG_MINSAMPLEVALUE", 281: "TIFFTAG_MAXSAMPLEVALUE"}
RESOLUTIONS = {282: "TIFFTAG_XRESOLUTION", 283: "TIFFTAG_YRESOLUTION"}
RESOLUTION_UNIT = 296
UNITS = {1: "1 (unitless)", 2: "2 (pixels/inch)", 3: "3 (pixels/cm)"}
DGIWG_TEXTS = {50908: "TIFF_RSID", 50909: "GEO_METADATA"}
RASTER_TYPE_KEY = 1025
AREA_OR_POINT = "AREA_OR_POINT"


def file_tags(description: Description) -> Tags:
    """Returns the same as rasterio's `dataset.tags()`."""
    fields = {tag: value for tag, _, _, value in description["tags"]}
    texts = {tag: value for tag, value in fields.items() if isinstance(value, str)} | description["texts"]
    tags = {name: texts[tag] for tag, name in TEXTS.items() if tag in texts}
    for tag, name in RESOLUTIONS.items():
        if (ratio := _ratio(fields.get(tag))) is not None:
            tags[name] = f"{_single(ratio):.8g}"
    if isinstance(unit := fields.get(RESOLUTION_UNIT), int):
        tags["TIFFTAG_RESOLUTIONUNIT"] = UNITS.get(unit, str(unit))
    for tag, name in LIMITS.items():
        if tag in fields:
            value = fields[tag]
            tags[name] = str(value[0] if isinstance(value, tuple) else value)
    for tag, name in DGIWG_TEXTS.items():
        if tag in fields:
            value = fields[tag]
            tags[name] = value.decode("utf-8", "replace").rstrip("\0") if isinstance(value, bytes) else str(value)
    placed_by_pam = description["crs_from_pam"] and description["transform_source"] == "pam"
    if RASTER_TYPE_KEY in description["geo_keys"] and not placed_by_pam:
        tags[AREA_OR_POINT] = description["raster_type"].capitalize()
    tags.update(_items(description, None))
    # GDAL stores items as "name=value" and skips spaces after the equals sign.
    return {name: value.lstrip(" \t") for name, value in tags.items()}


def band_tags(description: Description) -> tuple[Tags, ...]:
    """Returns the same as rasterio's `dataset.tags(band)`, for each band."""
    return tuple(_items(description, band) for band in range(description["bands"]))


def _items(description: Description, band: int | None) -> Tags:
    """Returns the items of the default domain, without those that have a role (scale, description, ...)."""
    return {
        name: value.lstrip(" \t")
        for name, value, sample, domain, role in description["metadata"]
        if sample == band and value and not domain and not role
    }


def _ratio(value: Any) -> float | None:
    if isinstance(value, tuple) and len(value) == 2:
        return value[0] / value[1] if value[1] else 0.0
    return float(value) if isinstance(value, int | float) else None


def _single(value: float) -> float:
    """Rounds to single precision, as libtiff does."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return value
