"""Class names and colours, which GDAL stores in the `.aux.xml` (PAM) file of an image."""

from __future__ import annotations

from typing import Any

from .. import _swath
from ..xarray.structured import Structured

Color = tuple[int, int, int, int]
"""Red, green, blue and alpha from 0 to 255."""


def pam_attrs(path: Any) -> dict[str, Any]:
    """Returns the attrs `category_names` and `category_colors` of a local image that is not a TIFF."""
    classes = _swath.read_classes(path) if isinstance(path, str) and "://" not in path else None
    return {} if classes is None else class_attrs(*classes)


def class_attrs(names: list[str] | None, colors: list[Color] | None) -> dict[str, Any]:
    """Returns the attrs for the classes that the engine reports."""
    attrs: dict[str, Any] = {}
    if names is not None:
        attrs["category_names"] = names
    if colors is not None:
        attrs["category_colors"] = Structured(colors)
    return attrs
