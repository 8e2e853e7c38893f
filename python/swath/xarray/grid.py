"""Compares the grid of a file with that of an array: coordinates as pixel positions, and whether both have the same
CRS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._swath import epsg_of_wkt
from ..read.open_geotiff import open_geotiff
from ..read.prepare import prepare
from ..read.request import coerce, is_vrt

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray as xr

NEARLY = 1e-6
"""The largest difference, as a fraction of a pixel, between coordinates that count as equal."""

HEADER_KEYWORDS = ("overview_level", "allow_rotated", "allow_unparseable_crs", "allow_invalid_nodata")


@dataclass(frozen=True)
class Axis:
    """Evenly spaced pixel centres."""

    first: float
    step: float
    count: int

    @staticmethod
    def of(values: npt.NDArray[Any], step: float | None) -> Axis:
        """Returns the axis of these coordinates. `step` applies to an axis with a single value."""
        if len(values) > 1:
            step = float(values[-1] - values[0]) / (len(values) - 1)
        return Axis(float(values[0]), step or 1.0, len(values))

    def places(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns coordinates as pixel positions, counted from the first centre."""
        places: npt.NDArray[np.float64] = (np.asarray(values, np.float64) - self.first) / self.step
        return places

    def under(self, values: npt.NDArray[Any]) -> tuple[int, int]:
        """Returns the range of pixels that these coordinates cover, each as wide as a pixel of this axis; empty if
        there are none.
        """
        places = self.places(values)
        if not len(places) or not np.isfinite(places).all():
            raise ValueError("Caller has coordinates that are not finite numbers, or none")
        start, stop = math.floor(np.min(places) + NEARLY), math.ceil(np.max(places) - NEARLY) + 1
        return max(0, start), min(self.count, stop)


@dataclass(frozen=True)
class Header:
    """The metadata of a file."""

    coords: dict[str, npt.NDArray[Any]]
    attrs: dict[str, Any]

    @staticmethod
    def of(array: xr.DataArray) -> Header:
        return Header({name: array[name].values for name in ("y", "x")}, array.attrs)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.coords["y"]), len(self.coords["x"])

    def axis(self, name: str) -> Axis:
        transform = self.attrs.get("transform")
        step = None if transform is None else float(transform[0 if name == "x" else 4])
        return Axis.of(self.coords[name], step)


def header_of(source: Any, keywords: dict[str, Any]) -> Header:
    """Returns the coordinates and attributes of a file, with the keywords that affect them."""
    keywords = {name: keywords[name] for name in HEADER_KEYWORDS if name in keywords}
    if is_vrt(coerce(source)):
        return Header.of(open_geotiff(source, chunks=-1, **keywords))
    ready = prepare(source, **keywords)
    return Header(ready.coords(), ready.attrs())


def check_crs(template: xr.DataArray, header: Header, may_differ: bool) -> None:
    ours, theirs = _crs_of(template.attrs), _crs_of(header.attrs)
    if ours is None or theirs is None or _same_crs(ours, theirs):
        return
    shown = f"EPSG:{theirs}" if isinstance(theirs, int) else repr(theirs)
    if may_differ:
        raise NotImplementedError(
            f"The caller has {ours!r} but the file has {shown}, and Swath does not reproject. Read the file as it is "
            "with swath.open_geotiff(source, bbox=...) and reproject it with xrspatial.reproject or rioxarray's "
            "rio.reproject_match (swath.open_geotiff(..., spatial_ref=True) gives what rioxarray needs)."
        )
    raise ValueError(
        f"CRS mismatch: caller has {ours!r} but file has {shown}. Reproject the caller to the CRS of the file first: "
        "Swath does not reproject, with auto_reproject=True neither."
    )


def _crs_of(attrs: dict[Any, Any]) -> int | str | None:
    crs = attrs.get("crs", attrs.get("crs_wkt"))
    if crs is None:
        return None
    if isinstance(crs, int | np.integer):
        return int(crs)
    return str(crs)


def _same_crs(one: int | str, other: int | str) -> bool:
    codes = [_epsg_of(crs) for crs in (one, other)]
    if None not in codes or one == other:
        return one == other or codes[0] == codes[1]
    try:
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    except ImportError:
        return False
    try:
        return bool(CRS.from_user_input(one) == CRS.from_user_input(other))
    except CRSError as error:
        raise ValueError(f"attrs['crs']={one!r} is not a valid CRS: {error}") from None


def _epsg_of(crs: int | str) -> int | None:
    if isinstance(crs, int):
        return crs
    authority, _, code = crs.partition(":")
    if authority.upper() == "EPSG" and code.isdigit():
        return int(code)
    return epsg_of_wkt(crs) if "[" in crs else None
