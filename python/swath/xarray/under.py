"""Reads the part of a file that an array covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..read.open_geotiff import open_geotiff
from .coregister import coregistered
from .grid import check_crs, header_of

if TYPE_CHECKING:
    import xarray as xr

RESAMPLINGS = ("auto", "nearest", "bilinear", "cubic")


def open_under(
    template: xr.DataArray,
    source: Any,
    *,
    auto_reproject: bool,
    coregister: bool,
    resampling: str,
    keywords: dict[str, Any],
) -> xr.DataArray:
    """The implementation of `DataArray.swath.open_geotiff`."""
    if resampling not in RESAMPLINGS:
        raise ValueError(f"resampling must be one of {list(RESAMPLINGS)}, got {resampling!r}")
    if not {"y", "x"} <= template.coords.keys():
        raise ValueError("Caller must have 'y' and 'x' coordinates to compute a spatial window")
    keywords = _like(template) | keywords
    keywords.pop("window", None)
    if coregister:
        return coregistered(template, source, resampling, keywords)
    header = header_of(source, keywords)
    check_crs(template, header, auto_reproject)
    rows, columns = (header.axis(name).under(np.atleast_1d(template[name].values)) for name in ("y", "x"))
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        raise ValueError(
            f"window={(rows[0], columns[0], rows[1], columns[1])} is outside the source extent "
            f"({header.shape[0]}x{header.shape[1]}) or has non-positive size: the file does not lie under the caller."
        )
    return open_geotiff(source, window=(rows[0], columns[0], rows[1], columns[1]), **keywords)


def _like(template: xr.DataArray) -> dict[str, Any]:
    """Returns `chunks` and `gpu` for the same kind of array as the template."""
    meta = getattr(template.data, "_meta", template.data)
    like: dict[str, Any] = {"gpu": True} if type(meta).__module__.partition(".")[0] == "cupy" else {}
    if template.chunks is not None and {"y", "x"} <= set(template.dims):
        like["chunks"] = tuple(max(template.chunksizes[name]) for name in ("y", "x"))
    return like
