"""The `spatial_ref` coordinate, from which rioxarray and other CF readers take the georeferencing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import xarray as xr

    Placed = TypeVar("Placed", xr.DataArray, xr.Dataset)

NAME = "spatial_ref"


def with_spatial_ref(placed: Placed) -> Placed:
    """Returns the array or dataset with a `spatial_ref` coordinate (crs_wkt, GeoTransform) to which its variables
    refer.
    """
    import xarray as xr

    arrays = [placed] if isinstance(placed, xr.DataArray) else list(placed.data_vars.values())
    if not arrays:
        return placed
    attrs = _grid_mapping(arrays[0].attrs)
    done: Placed = placed.assign_coords({NAME: xr.Variable((), 0, attrs)})
    for array in [done] if isinstance(done, xr.DataArray) else done.data_vars.values():
        array.encoding["grid_mapping"] = NAME
    return done


def _grid_mapping(attrs: dict[Any, Any]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    wkt = attrs.get("crs_wkt")
    if isinstance(wkt, str):
        mapping["crs_wkt"] = mapping["spatial_ref"] = wkt
    if "transform" in attrs:
        a, b, c, d, e, f = attrs["transform"]
        if attrs.get("raster_type") == "point":
            # For points the attribute refers to pixel centres; a GeoTransform refers to corners.
            c, f = c - (a + b) / 2, f - (d + e) / 2
        mapping["GeoTransform"] = " ".join(repr(float(v)) for v in (c, a, b, f, d, e))
    return mapping
