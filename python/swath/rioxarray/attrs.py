"""The attrs and encoding of an array as in `rioxarray.open_rasterio`, and what Swath adds."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from ..read.attrs import COLORLESS
from ..xarray.spatial_ref import NAME
from ..xarray.state import KEY, ReadState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..read.plan import ReadPlan
    from .gdal_tags import Tags
    from .raster_info import RasterInfo

UNWANTED = ("_FillValue", "missing_value", "fill_value", "nodata", "nodatavals", "is_tiled", "res")
"""Tags that could contradict the attributes for nodata and resolution."""


def parse_tags(tags: Tags) -> dict[str, Any]:
    """Returns tags as attributes: numbers and lists of numbers as such, everything else as text."""
    return {name.split("NC_GLOBAL#")[-1]: _parsed(value) for name, value in tags.items()}


def _parsed(value: str) -> Any:
    import numpy as np

    if value.startswith("{") and value.endswith("}"):
        try:
            return np.array([float(part) for part in value.strip("{}").split(",")])
        except ValueError:
            return value
    for number in (int, float):
        try:
            parsed = number(value)
        except ValueError:
            continue
        # No file format has a type for longer integers.
        return parsed if not isinstance(parsed, int) or -(1 << 63) <= parsed < 1 << 64 else value
    return value


def file_attrs(info: RasterInfo) -> dict[str, Any]:
    """Returns the attributes of the whole file for a Dataset with one variable per band: tags and colours."""
    return {**parse_tags(info.tags), **color_attrs(info)}


def color_attrs(info: RasterInfo) -> dict[str, Any]:
    """Returns the colour interpretation of all bands of the file, and the palette. rioxarray has neither."""
    attrs: dict[str, Any] = {}
    if not COLORLESS.issuperset(info.colors):
        attrs["colorinterp"] = tuple(info.colors)
    if info.colormap is not None:
        attrs["colormap"] = info.colormap
    return attrs


def band_attrs(info: RasterInfo, bands: Sequence[int], tags: Tags) -> dict[str, Any]:
    """Returns the attributes of the bands of an array, with the tags that apply to it."""
    attrs = parse_tags(tags)
    for name in UNWANTED:
        attrs.pop(name, None)
    if info.nodata[bands[0]] is not None:
        attrs["_FillValue"] = info.nodata[bands[0]]
    scales, offsets = zip(*(info.scaling[band] for band in bands), strict=True)
    attrs.update(_common("scale_factor", "scales", scales))
    attrs.update(_common("add_offset", "offsets", offsets))
    names = [info.descriptions[band] for band in bands]
    if any(names):
        attrs["long_name"] = names[0] if len(set(names)) == 1 else _texts(names)
    units = [info.units[band] for band in bands]
    if any(units):
        attrs["units"] = units[0] if len(units) == 1 else _texts(units)
    return attrs


def _common(one: str, many: str, values: tuple[float, ...]) -> dict[str, Any]:
    """Returns a factor that all bands share under its CF name, others under rioxarray's names."""
    if len(set(values)) == 1:
        return {one: values[0]}
    warnings.warn(
        f"{many.capitalize()} differ across bands. The {one!r} attribute will not be added. See the {many!r} "
        "attribute.",
        stacklevel=5,
    )
    return {many: values}


def _texts(values: Sequence[str | None]) -> tuple[str, ...]:
    """Replaces None, which netCDF and Zarr cannot store."""
    return tuple(value or "" for value in values)


def move_to_encoding(info: RasterInfo, plan: ReadPlan, attrs: dict[str, Any], state: ReadState) -> dict[str, Any]:
    """Returns the encoding of an array and moves the entries that undo masking and scaling there from `attrs`."""
    encoding: dict[str, Any] = {}
    if "_FillValue" in attrs:
        attrs["_FillValue"] = plan.dtype.type(attrs["_FillValue"])
    if state.unpacked:
        for name in ("scale_factor", "scales", "add_offset", "offsets"):
            if name in attrs:
                encoding[name] = attrs.pop(name)
    if state.masked:
        if "_FillValue" in attrs:
            encoding["_FillValue"] = attrs.pop("_FillValue")
        if _can_be_packed(info, encoding, state):
            encoding["dtype"] = str(info.dtype)
        else:
            # The nodata value of packed samples may be a valid unpacked value.
            encoding.pop("_FillValue", None)
        # odc-geo uses the value in the encoding as that of the pixels, and the encoding is lost when values are
        # computed.
        attrs["nodata"] = math.nan
    elif "_FillValue" in attrs and info.count > 1:
        # With this attribute the writer can distinguish an index of two bands, which has lost its label, from a band.
        attrs["_swath_bands"] = info.count
    encoding["grid_mapping"] = NAME
    if info.name is not None:
        encoding["source"] = info.name
    encoding["rasterio_dtype"] = info.stored_dtype
    encoding[KEY] = state
    return encoding


def _can_be_packed(info: RasterInfo, encoding: dict[str, Any], state: ReadState) -> bool:
    """Whether xarray can write the values in the type of the file: it supports one scale and needs a value for NaN."""
    if info.dtype.kind not in "iu":
        return True
    return not {"scales", "offsets"} & encoding.keys() and ("_FillValue" in encoding or not state.by_mask)
