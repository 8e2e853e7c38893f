"""The coordinate reference system of an image to write: selects it and checks that GeoKeys can represent it."""

from __future__ import annotations

import numbers
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from ..errors import (
    ConflictingCRSError,
    InvalidCRSCodeError,
    NonRepresentableEPSGCRSError,
    UnparseableCRSError,
)
from .placement import grid_mappings

if TYPE_CHECKING:
    from .._swath import Options

# GTModelTypeGeoKey, GTCitationGeoKey, ProjectedCRSGeoKey
_MODEL_TYPE, _CITATION, _PROJECTED = 1024, 1026, 3072
_USER_DEFINED = 32767
_CODE = re.compile(r"\s*(?:EPSG:)?\s*(\d+)\s*", re.IGNORECASE)


def crs_options(crs: Any, data: Any, *, allow_unparseable: bool) -> Options:
    """Returns the CRS options of the engine: from the argument, else the coordinate `spatial_ref`, attrs['crs'] or
    attrs['crs_wkt'].

    Reprojection by rioxarray and odc-geo sets the coordinate and leaves outdated attributes, so the coordinate comes
    first.
    """
    if crs is not None:
        return _options(crs, allow_unparseable)
    if data is None:
        return {}
    mapped = _of_grid_mapping(data)
    if mapped is not None:
        return _options(mapped, allow_unparseable)
    named, text = data.attrs.get("crs"), data.attrs.get("crs_wkt")
    text = text if isinstance(text, str) else None
    if named is None and text is None:
        named = _of_accessors(data)
        return {} if named is None else _options(named, allow_unparseable)
    if named is None or text is None:
        return _options(text if named is None else named, allow_unparseable)
    _check_agreement(named, text)
    try:
        return _options(named, False)
    except UnparseableCRSError:
        try:
            return _options(text, False)
        except UnparseableCRSError:
            return _options(named, allow_unparseable)


def _of_accessors(data: Any) -> Any:
    """Returns the CRS that the accessors of rioxarray or odc-geo find if the array has no attribute of its own."""
    for module, accessor in (("rioxarray", "rio"), ("odc.geo.xr", "odc")):
        if module not in sys.modules:
            continue
        try:
            crs = getattr(data, accessor).crs
        except Exception:
            # If they cannot parse an attribute, the accessors raise exceptions of libraries that may not be installed.
            continue
        if crs is not None:
            return crs
    return None


def _options(crs: Any, allow_unparseable: bool) -> Options:
    if isinstance(crs, bool):
        raise ValueError(
            f"crs must be an int (EPSG code), str (WKT/PROJ), or None; got bool ({crs}), which is not an EPSG code"
        )
    if callable(getattr(crs, "to_wkt", None)):
        crs = crs.to_wkt()  # An object of pyproj, rasterio or odc-geo.
    if isinstance(crs, np.bool_) or not isinstance(crs, str | numbers.Integral):
        raise TypeError(
            "crs must be int (EPSG code), str (WKT/PROJ), an object of pyproj or rasterio, or None; got "
            f"{type(crs).__name__}."
        )
    if not isinstance(crs, str):
        return {"wkt": _text_of_code(int(crs))}
    text = _understood(crs)
    if text is not None:
        return {"wkt": text}
    if allow_unparseable:
        warnings.warn(
            f"crs={crs!r} is stored as it is, in the citation of the GeoKeys: other programs will not know where the "
            "image lies",
            UserWarning,
            stacklevel=4,
        )
        return {"geo_keys": {_MODEL_TYPE: 1, _PROJECTED: _USER_DEFINED, _CITATION: crs}}
    raise UnparseableCRSError(
        f"crs is not an EPSG code, and as WKT or PROJ text it could not be parsed or put into GeoKeys: got {crs!r}. "
        "Pass an EPSG code or WKT (PROJ texts need pyproj), or allow_unparseable_crs=True to store the text as it is."
    )


def _text_of_code(code: int) -> str:
    if 0 < code < 2**31:
        if _swath.crs_kind(code) == "vertical":
            raise NonRepresentableEPSGCRSError(
                f"EPSG:{code} has heights only, and GeoKeys cannot place an image by heights. Pass a horizontal or a "
                "compound CRS."
            )
        text = _understood(f"EPSG:{code}")
        if text is not None:
            return text
    raise InvalidCRSCodeError(f"crs={code} is not a valid EPSG code. Pass a valid EPSG integer, a WKT string, or None.")


def _understood(text: str) -> str | None:
    """Returns a text of the same CRS that the engine can convert to GeoKeys, if the engine or pyproj can interpret
    it.
    """
    code = _CODE.fullmatch(text)
    own = f"EPSG:{code[1]}" if code else text
    if _has_keys(own):
        return own
    parsed = _parse(text)
    if parsed is None:
        return None
    epsg = parsed.to_epsg()
    texts = [f"EPSG:{epsg}"] if epsg else []
    versions = (_written_as(parsed, version) for version in ("WKT2_2019", "WKT1_GDAL"))
    return next(filter(_has_keys, [*texts, *filter(None, versions)]), None)


def _written_as(parsed: Any, version: str) -> str | None:
    """Returns the text of a pyproj CRS in a version of WKT; None if that version cannot represent it."""
    from pyproj.exceptions import CRSError

    try:
        text: str | None = parsed.to_wkt(version)
    except CRSError:
        return None
    return text


def _has_keys(text: str) -> bool:
    try:
        _swath.geo_keys_of_crs(text)
    except ValueError:
        return False
    return True


def _parse(crs: Any) -> Any:
    """Returns the pyproj CRS if pyproj is installed and can parse the value."""
    try:
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    except ImportError:
        return None
    try:
        return CRS.from_user_input(crs)
    except CRSError:
        return None


def _check_agreement(named: Any, text: str) -> None:
    """Raises ConflictingCRSError if the two attributes name different systems.

    Attributes that cannot be parsed are ignored.
    """
    if isinstance(named, bool) or not isinstance(named, str | numbers.Integral):
        return
    code = _CODE.fullmatch(str(named))
    own = _swath.epsg_of_wkt(f"EPSG:{code[1]}" if code else str(named))
    other = _swath.epsg_of_wkt(text)
    if own is not None and own == other:
        return
    one, two = _parse(named if isinstance(named, str) else int(named)), _parse(text)
    if one is not None and two is not None:
        differ = not one.equals(two, ignore_axis_order=True) and (one.to_epsg() or one) != (two.to_epsg() or two)
    else:
        differ = own is not None and other is not None
    if differ:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise ConflictingCRSError(
            f"attrs['crs']={named!r} and attrs['crs_wkt']={shown!r} are different coordinate reference systems. Drop "
            "the stale attribute, or pass the one that is meant as crs=."
        )


def _of_grid_mapping(data: Any) -> str | None:
    """Returns the text that rioxarray and CF store in a coordinate without values."""
    for attrs in grid_mappings(data):
        for key in ("crs_wkt", "spatial_ref"):
            if isinstance(attrs.get(key), str) and attrs[key]:
                return str(attrs[key])
    return None
