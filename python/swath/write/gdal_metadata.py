"""The items of GDAL_METADATA that attrs hold, and what they say of bands."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from .. import _swath

if TYPE_CHECKING:
    from .._swath import BandInfo

Item = tuple[str, str, int | None, str | None, str | None]

_ROLE_KEYS = {
    "scale": "scale",
    "offset": "offset",
    "unittype": "units",
    "description": "description",
    "colorinterp": "color",
}
# Names of band items that GDAL knows by their role.
_ROLES = {
    "SCALE": "scale",
    "OFFSET": "offset",
    "UNITTYPE": "unittype",
    "DESCRIPTION": "description",
    "COLORINTERP": "colorinterp",
}


def band_infos(attrs: Mapping[str, Any], total: int) -> list[BandInfo]:
    """What GDAL_METADATA says of the bands of the source by the roles of its items."""
    return band_info_of(items_of(attrs)[0], total)


def items_of(attrs: Mapping[str, Any]) -> tuple[list[Item], str | None]:
    """The items of GDAL_METADATA, those of the text, which knows domains and roles, or of the dict; and the text.

    A text without items, be it no XML at all, is written as it is.
    """
    given = attrs.get("gdal_metadata")
    xml = attrs.get("gdal_metadata_xml")
    if xml is None and isinstance(given, str):
        xml = str.__str__(given)  # As a netCDF file gave it back.
    if xml is None:
        return _items_of_dict(given) if isinstance(given, Mapping) else [], None
    if not isinstance(xml, str):
        raise TypeError(f"attrs['gdal_metadata_xml'] must be a str, not {type(xml).__name__}")
    try:
        items = _swath.metadata_items(xml)
    except ValueError:
        items = []
    return [_with_sound_role(item) for item in items], xml


def _with_sound_role(item: Item) -> Item:
    """A scale that is no number is no scale, but still what somebody wrote."""
    name, value, band, domain, role = item
    return item if role not in ("scale", "offset") or _finite(value) is not None else (name, value, band, domain, None)


def _items_of_dict(given: Mapping[Any, Any]) -> list[Item]:
    items: list[Item] = []
    for key, value in given.items():
        name, band = (key, None) if isinstance(key, str) else _name_and_band(key)
        role = _ROLES.get(name) if band is not None else None
        items.append(_with_sound_role((name, "" if value is None else str(value), band, None, role)))
    return items


def _name_and_band(key: Any) -> tuple[str, int]:
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], numbers.Integral) and int(key[1]) >= 0:
        return str(key[0]), int(key[1])
    raise ValueError(f"attrs['gdal_metadata'] has the key {key!r}: keys are a name, or (name, band) with bands from 0")


def band_info_of(items: list[Item], bands: int) -> list[BandInfo]:
    """What items say of bands by their role. The engine writes those items from here."""
    info: list[dict[str, Any]] = [{} for _ in range(bands)]
    for _, value, band, _, role in items:
        if band is None or band >= bands or role not in _ROLE_KEYS:
            continue
        key = _ROLE_KEYS[role]
        info[band][key] = _finite(value) if key in ("scale", "offset") else value
    return cast("list[BandInfo]", info)


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
