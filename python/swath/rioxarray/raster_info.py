"""The properties that rasterio reports for a dataset, computed from Swath's metadata of a TIFF or a mosaic."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from ..read.attrs import CONTRACT
from ..read.crs import citation_wkt
from ..read.georef import Affine
from .gdal_tags import Tags, band_tags, file_tags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._swath import Description
    from ..mosaic.document import Vrt
    from ..read.header import Header
    from ..read.nodata import Number

IDENTITY: Affine = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
"""The transform of an image without georeferencing."""
VRT_BLOCK = 128
RPC_TAG, RPC_NUMBERS = 50844, 92
COMPLEX_INTEGERS = 5
"""The SampleFormat of complex integers, which are read as complex floats."""

WKT1 = ("PROJCS", "GEOGCS", "COMPD_CS", "LOCAL_CS", "GEOCCS", "VERT_CS")
SHIFT_OF_KNOWN_DATUM = re.compile(r',TOWGS84\[[^\]]*\](?=,AUTHORITY\["EPSG")')

Gcp = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class RasterInfo:
    """The properties of a dataset at one level, as rasterio reports them. Tuples have one entry per band."""

    name: str | None
    """Its path or URL; None for the content of a file."""
    height: int
    width: int
    block: tuple[int, int]
    dtype: np.dtype[Any]
    stored_dtype: str
    """With rasterio's name."""
    nodata: tuple[Number | None, ...]
    scaling: tuple[tuple[float, float], ...]
    """Scale and offset."""
    descriptions: tuple[str | None, ...]
    units: tuple[str | None, ...]
    colors: tuple[str, ...]
    tags: Tags
    band_tags: tuple[Tags, ...]
    transform: Affine = IDENTITY
    wkt: str | None = None
    gcps: tuple[Gcp, ...] = ()
    rpc: tuple[float, ...] | None = None
    """The numbers of the RPC tag."""
    validity: str = "all-valid"
    """What marks valid pixels: "mask", "nodata", "nodata-values", "alpha", or "all-valid" for none."""
    nodata_values: tuple[float, ...] = ()
    """A pixel is nodata if every band has its value of this tuple; used if `validity` is "nodata-values"."""
    colormap: tuple[int, ...] | None = None
    file_nodata: Number | None = None
    """The nodata value as the file states it, even if no sample can equal it."""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    """The attrs of `open_geotiff` that do not depend on the pixels that are read."""

    @property
    def count(self) -> int:
        return len(self.band_tags)

    @classmethod
    def of_tiff(cls, header: Header, level: int, name: str | None) -> RasterInfo:
        """Returns the properties of a TIFF at a level; 0 is the full resolution."""
        description, bands = header.description, header.description["band_info"]
        height, width, *block = header.levels[level]
        nodata = _in_range(description["nodata"], header.dtype)
        return cls(
            name=name,
            height=height,
            width=width,
            block=(block[0], block[1]),
            dtype=header.dtype,
            stored_dtype=_stored_dtype(description),
            nodata=(nodata,) * header.bands,
            scaling=tuple((_or(info["scale"], 1.0), _or(info["offset"], 0.0)) for info in bands),
            descriptions=tuple(info["description"] for info in bands),
            units=tuple(info["units"] for info in bands),
            colors=tuple(info["color"] for info in bands),
            tags=file_tags(description),
            band_tags=band_tags(description),
            transform=_coarser(description["transform"] or IDENTITY, header.shape[0] / height, header.shape[1] / width),
            wkt=_wkt_of(description),
            gcps=tuple(description["gcps"]),
            rpc=_rpc(description),
            validity=description["mask"],
            nodata_values=_nodata_values(description) if description["mask"] == "nodata-values" else (),
            colormap=description["colormap"],
            file_nodata=header.nodata,
            attrs=header.attrs,
        )

    @classmethod
    def of_vrt(cls, vrt: Vrt, pam: Mapping[str, Any]) -> RasterInfo:
        """Returns the properties of a mosaic."""
        bands = vrt.bands
        dtypes = {band.dtype for band in bands}
        if len(dtypes) > 1:
            raise ValueError(f"VRT {vrt.path!r}: all bands should have the same dtype, not {sorted(map(str, dtypes))}.")
        dtype = bands[0].dtype
        colors = tuple(band.color for band in bands)
        nodata = tuple(_in_range(band.nodata, dtype) for band in bands)
        validity = "all-valid"
        if any(value is not None for value in nodata):
            validity = "nodata"
        elif len(bands) in (2, 4) and colors[-1] == "alpha" and dtype in (np.uint8, np.uint16):
            validity = "alpha"
        return cls(
            name=vrt.path,
            height=vrt.height,
            width=vrt.width,
            block=(min(VRT_BLOCK, vrt.height), min(VRT_BLOCK, vrt.width)),
            dtype=dtype,
            stored_dtype=dtype.name,
            nodata=nodata,
            scaling=tuple((band.scale, band.offset) for band in bands),
            descriptions=tuple(band.description for band in bands),
            units=tuple(band.units for band in bands),
            colors=colors,
            tags=dict(vrt.tags),
            band_tags=tuple(dict(band.tags) for band in bands),
            transform=vrt.corners or IDENTITY,
            wkt=None if vrt.srs is None else _wkt(vrt.srs),
            validity=validity,
            file_nodata=bands[0].nodata,
            attrs={"_swath_contract": CONTRACT, **pam},
        )


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _in_range(nodata: Number | None, dtype: np.dtype[Any]) -> Number | None:
    """Returns the nodata value as rasterio reports it: None if it is outside the range of the type."""
    return nodata if nodata is not None and _swath.nodata_in_range(nodata, dtype.name) else None


def _nodata_values(description: Description) -> tuple[float, ...]:
    texts = (value for name, value, band, _, _ in description["metadata"] if name == "NODATA_VALUES" and band is None)
    return tuple(map(float, next(texts, "").split()))


def _stored_dtype(description: Description) -> str:
    is_complex_int16 = description["sample_format"] == COMPLEX_INTEGERS and description["bits"] == 32
    return "complex_int16" if is_complex_int16 else description["dtype"]


def _coarser(transform: Affine, rows: float, columns: float) -> Affine:
    """Returns the transform for pixels that are larger by these factors, as GDAL does for overviews."""
    if rows == columns == 1:
        return transform
    a, b, c, d, e, f = transform
    return a * columns, b * rows, c, d * columns, e * rows, f


def _rpc(description: Description) -> tuple[float, ...] | None:
    values = next((value for tag, _, _, value in description["tags"] if tag == RPC_TAG), ())
    return values if isinstance(values, tuple) and len(values) == RPC_NUMBERS else None


def _wkt_of(description: Description) -> str | None:
    """Returns the WKT of a file's CRS."""
    wkt, code = description["wkt"], description["epsg"]
    if code is None and not description["crs_from_pam"]:
        # xarray-spatial and other programs store a CRS without a code as text in a citation.
        text = citation_wkt(description["geo_keys"])
        if text is not None and (readable := _wkt(text)) is not None:
            return readable
    if wkt is None:
        return None if code is None else _wkt(f"EPSG:{code}")
    if description["crs_from_pam"] and code is not None and "AUTHORITY" not in wkt:
        # Text of another program, which GDAL replaces with its own.
        wkt = _swath.wkt_of_epsg(code) or wkt
    # A datum with a code may have many shifts to WGS 84, so a stated shift is dropped; GDAL chooses one when it
    # transforms coordinates.
    return SHIFT_OF_KNOWN_DATUM.sub("", wkt)


def _wkt(text: str) -> str | None:
    """Returns a CRS as GDAL's WKT 1 if possible; None for text that pyproj cannot parse."""
    if text.upper().startswith("EPSG:") and text[5:].isdigit() and (known := _swath.wkt_of_epsg(int(text[5:]))):
        return known
    try:
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    except ImportError:
        return text
    try:
        crs = CRS.from_user_input(text)
    except CRSError:
        return None
    if text.lstrip().upper().startswith(WKT1):
        return text
    try:
        return str(crs.to_wkt("WKT1_GDAL"))
    except CRSError:
        # WKT 1 cannot describe every CRS.
        return str(crs.to_wkt())
