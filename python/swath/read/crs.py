"""The coordinate reference system of a file: its EPSG code and its WKT."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .. import _swath
from ..errors import GeoTIFFFallbackWarning, InconsistentGeoKeysError, UnparseableCRSError

if TYPE_CHECKING:
    from .._swath import Description

MODEL_TYPE, CITATION, GEOGRAPHIC, PROJECTED, PROJECTED_CITATION = 1024, 1026, 2048, 3072, 3073
PROJECTION, TRANSFORM_METHOD = 3074, 3075
USER_DEFINED = 32767
MODEL_PROJECTED, MODEL_GEOGRAPHIC = 1, 2
KNOWN_TO_KEYS = range(1024, USER_DEFINED)
"""Codes that GeoKeys may state: those below are obsolete, those above private."""

WKT_WORD = re.compile(
    r"\s*(PROJ(CS|CRS|ECTEDCRS)|GEOG(CS|CRS|RAPHICCRS)|GEOCCS|GEOD(CRS|ETICCRS)|COMP(D_CS|OUNDCRS)|LOCAL_CS|FITTED_CS"
    r"|ENG(CRS|INEERINGCRS)|VERT(_CS|CRS|ICALCRS)|BOUNDCRS|DERIVEDPROJCRS)\s*[\[(]",
    re.IGNORECASE,
)


def crs_of(description: Description, allow_unparseable: object = False) -> tuple[int | None, str | None]:
    """Returns the EPSG code and the WKT of a file's CRS, each None if there is none."""
    # A CRS in a sidecar takes precedence over the GeoKeys, as in GDAL.
    keys = {} if description["crs_from_pam"] else description["geo_keys"]
    _check_keys(keys)
    code = _code(keys)
    horizontal = description["horizontal_epsg"]
    if code in KNOWN_TO_KEYS and horizontal is None:
        # Other keys modify the system of the code, for example its unit: with that code alone the pixels would be
        # displaced.
        if description["wkt"] is None:
            warn_of_changed(code)
        return None, description["wkt"]
    if code in KNOWN_TO_KEYS and code == keys.get(PROJECTED):
        # The same projection with another datum may have its own code.
        code = horizontal
    if code is None:
        text = citation_wkt(keys)
        if text is not None:
            if not allow_unparseable:
                _check_text(text)
            return None, text
        code = description["epsg"]
    if code is None:
        text = description["wkt"]
        # An engineering CRS contains only a name.
        return None, None if text is None or text.startswith("LOCAL_CS") else text
    return code, text_of_epsg(code)


def _code(keys: dict[int, Any]) -> int | None:
    """Returns the code that a key states."""
    projected, geographic = keys.get(PROJECTED), keys.get(GEOGRAPHIC)
    if projected is None and keys.get(MODEL_TYPE) != MODEL_PROJECTED:
        projected = geographic
    return projected if isinstance(projected, int) and 0 < projected != USER_DEFINED else None


def citation_wkt(keys: dict[int, Any]) -> str | None:
    """Returns the WKT of a CRS that has neither a code nor keys, only a citation."""
    for key in (CITATION, PROJECTED_CITATION):
        text = keys.get(key)
        if isinstance(text, str) and WKT_WORD.match(text):
            return text.rstrip("|\0")
    return None


def _check_keys(keys: dict[int, Any]) -> None:
    """Raises an error for contradictory keys: either choice could give wrong coordinates."""
    model, projected, geographic = keys.get(MODEL_TYPE), keys.get(PROJECTED), keys.get(GEOGRAPHIC)
    if model == MODEL_GEOGRAPHIC and projected not in (None, 0, USER_DEFINED):
        raise InconsistentGeoKeysError(
            "GeoTIFF source declares ModelTypeGeoKey=geographic (2) but populates "
            f"ProjectedCSTypeGeoKey={projected}. A geographic model has no projected CRS: fix the source's GeoKey "
            "directory so that both say the same."
        )
    # A CRS without a code is stored as a user-defined projection (32767, or its parameters) on a geographic base.
    defined = projected not in (None, 0) or PROJECTION in keys or TRANSFORM_METHOD in keys
    if model == MODEL_PROJECTED and geographic not in (None, 0, USER_DEFINED) and not defined:
        raise InconsistentGeoKeysError(
            "GeoTIFF source declares ModelTypeGeoKey=projected (1) but carries only "
            f"GeographicTypeGeoKey={geographic} with no resolved ProjectedCSTypeGeoKey: the geographic key alone "
            "does not name a projection. Fix the source's GeoKey directory."
        )


def _check_text(text: str) -> None:
    try:
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    except ImportError:
        return
    try:
        CRS.from_wkt(text)
    except CRSError as error:
        raise UnparseableCRSError(
            f"GeoTIFF source advertises a CRS string that pyproj cannot parse: {text!r} ({error}). Pass "
            "allow_unparseable_crs=True to keep the text in attrs['crs_wkt'] as it is, or write the file again with "
            "a valid CRS."
        ) from None


@lru_cache(maxsize=256)
def text_of_epsg(code: int) -> str | None:
    """Returns the WKT of a code: pyproj's if pyproj is installed, so that it equals that of other packages, else the
    engine's.
    """
    try:
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    except ImportError:
        return _swath.wkt_of_epsg(code)
    try:
        return str(CRS.from_epsg(code).to_wkt())
    except CRSError:
        return _swath.wkt_of_epsg(code)


def warn_of_changed(code: int | None) -> None:
    """Warns that the code is not the CRS of the file, and that the CRS has no WKT."""
    warnings.warn(
        f"the GeoKeys name EPSG:{code} and change it (by another unit or datum) into a system that has no text here: "
        "attrs['crs'] and attrs['crs_wkt'] are left out.",
        GeoTIFFFallbackWarning,
        stacklevel=4,
    )


def warn_of_unknown(code: int) -> None:
    """Warns that no WKT is known for a code."""
    warnings.warn(
        f"No WKT of EPSG:{code} is known here; attrs['crs'] has the code, attrs['crs_wkt'] is left out.",
        GeoTIFFFallbackWarning,
        stacklevel=4,
    )
