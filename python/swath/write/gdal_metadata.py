"""The items of GDAL_METADATA in attrs. The engine interprets them."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import _swath

if TYPE_CHECKING:
    from .._swath import BandInfo

Item = tuple[str, str, int | None, str | None, str | None]


def band_infos(attrs: Mapping[str, Any], total: int) -> list[BandInfo]:
    """Returns the band metadata that the roles of the GDAL_METADATA items define."""
    return _swath.bands_of_items(items_of(attrs)[0], total)


def items_of(attrs: Mapping[str, Any]) -> tuple[list[Item], str | None]:
    """Returns the items of GDAL_METADATA and its XML. The items come from the XML, which has domains and roles, else
    from the dict.

    An XML text without items, parseable or not, is written unchanged.
    """
    given = attrs.get("gdal_metadata")
    xml = attrs.get("gdal_metadata_xml")
    if xml is None and isinstance(given, str):
        xml = str.__str__(given)  # A netCDF file stored the dict as text.
    if xml is None:
        return _items_of_dict(given) if isinstance(given, Mapping) else [], None
    if not isinstance(xml, str):
        raise TypeError(f"attrs['gdal_metadata_xml'] must be a str, not {type(xml).__name__}")
    try:
        return _swath.metadata_items(xml), xml
    except ValueError:
        return [], xml


def _items_of_dict(given: Mapping[Any, Any]) -> list[Item]:
    entries: list[tuple[str, str, int | None]] = []
    for key, value in given.items():
        name, band = (key, None) if isinstance(key, str) else _name_and_band(key)
        entries.append((name, "" if value is None else str(value), band))
    return _swath.items_by_name(entries)


def _name_and_band(key: Any) -> tuple[str, int]:
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], numbers.Integral) and int(key[1]) >= 0:
        return str(key[0]), int(key[1])
    raise ValueError(f"attrs['gdal_metadata'] has the key {key!r}: keys are a name, or (name, band) with bands from 0")
