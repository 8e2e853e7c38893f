"""The `spatial_ref` coordinate in rioxarray's form: the CRS as text and with CF names, and the transform."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .. import _swath

if TYPE_CHECKING:
    from .raster_info import Gcp, RasterInfo

WGS84 = 4326
RPC_SCALARS = (
    *("err_bias", "err_rand", "line_off", "samp_off", "lat_off", "long_off", "height_off"),
    *("line_scale", "samp_scale", "lat_scale", "long_scale", "height_scale"),
)
RPC_COEFFICIENTS = ("line_num_coeff", "line_den_coeff", "samp_num_coeff", "samp_den_coeff")
"""In the order of the RPC tag: 20 numbers each, after the scalars."""


def grid_mapping_attrs(info: RasterInfo) -> dict[str, Any]:
    """Returns the attributes of the coordinate."""
    # RPC coefficients refer to longitude and latitude, regardless of the CRS of the file.
    wkt = info.wkt if info.rpc is None else _swath.wkt_of_epsg(WGS84)
    attrs = {} if wkt is None else dict(_crs_attrs(wkt))
    a, b, c, d, e, f = info.transform
    attrs["GeoTransform"] = " ".join(str(float(value)) for value in (c, a, b, f, d, e))
    if info.gcps:
        attrs["gcps"] = json.dumps(_geojson(info.gcps))
    if info.rpc is not None:
        attrs["rpcs"] = json.dumps(_rpcs(info.rpc))
    return attrs


@lru_cache(maxsize=64)
def _crs_attrs(wkt: str) -> dict[str, Any]:
    """Returns the CRS as text and, if pyproj is installed and CF has names for it, with CF names."""
    return {**_cf(wkt), "spatial_ref": wkt, "crs_wkt": wkt}


def _cf(wkt: str) -> dict[str, Any]:
    try:
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    except ImportError:
        return {}
    try:
        return dict(CRS.from_wkt(wkt).to_cf())
    except (CRSError, KeyError):
        return {}


def _geojson(gcps: tuple[Gcp, ...]) -> dict[str, Any]:
    features = [
        {
            "type": "Feature",
            "properties": {"id": str(number), "info": "", "row": line, "col": pixel},
            "geometry": {"type": "Point", "coordinates": [x, y, z]},
        }
        for number, (pixel, line, x, y, z) in enumerate(gcps, 1)
    ]
    return {"type": "FeatureCollection", "features": features}


def _rpcs(numbers: tuple[float, ...]) -> dict[str, Any]:
    """Returns the RPCs with rasterio's names, in its order and with GDAL's number of digits."""
    numbers = tuple(float(f"{number:.15g}") for number in numbers)
    named: dict[str, Any] = dict(zip(RPC_SCALARS, numbers, strict=False))
    for index, name in enumerate(RPC_COEFFICIENTS):
        start = len(RPC_SCALARS) + 20 * index
        named[name] = list(numbers[start : start + 20])
    errors = {name: named.pop(name) for name in ("err_bias", "err_rand")}
    return {**dict(sorted(named.items())), **errors}
