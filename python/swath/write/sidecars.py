"""Sidecar files of an image:

`.aux.xml`, in which GDAL stores classes and statistics, and `.qml`, the style for QGIS.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from .. import _swath
from .._xml import add, replace_file, to_bytes, writable
from ..read.sidecars import Color
from .ramps import RAMPS

Numbers = tuple[float | int, float | int, float, float]

Contents = tuple[tuple[list[str], list[Color] | None] | None, list[tuple[str, str]], bytes | None]
"""Classes, statistics (names and texts) and the style of a sidecar."""
NO_CONTENTS: Contents = (None, [], None)

STATISTICS = ("STATISTICS_MINIMUM", "STATISTICS_MAXIMUM", "STATISTICS_MEAN", "STATISTICS_STDDEV")


def qml_path(path: str) -> str:
    """Returns the path of the style file of an image."""
    return f"{os.path.splitext(path)[0]}.qml"


def categories_of(names: Any, colors: Any) -> tuple[list[str], list[Color] | None]:
    """Returns the checked categories of attrs. Call it before anything is written.

    Names may be a mapping from value to name. Colours are ignored if their number differs from that of the names.
    """
    listed = _by_value(names, "", "category_names")
    if len(listed) > _swath.MAX_CLASSES:
        raise ValueError(
            f"category_names has {len(listed)} names; {_swath.MAX_CLASSES} are the most that can be written"
        )
    texts = ["" if name is None else writable(name) for name in listed]
    if colors is None or not len(colors):
        return texts, None
    rows = _by_value(colors, (0, 0, 0, 0), "category_colors", len(texts))
    if len(rows) != len(texts):
        return texts, None
    return texts, [_color(row) for row in rows]


def _by_value(given: Any, missing: Any, attribute: str, length: int | None = None) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"attrs[{attribute!r}] must be a list in the order of the values, not {given!r}")
    if not isinstance(given, Mapping):
        return list(given)
    if not all(isinstance(value, int) and 0 <= value < _swath.MAX_CLASSES for value in given):
        raise ValueError(f"attrs[{attribute!r}] must have values from 0 to {_swath.MAX_CLASSES - 1} as its keys")
    return [given.get(value, missing) for value in range(length or max(given, default=-1) + 1)]


def _color(row: Any) -> Color:
    try:
        parts = [color_component(part) for part in row]
        r, g, b, a = [*parts, 255] if len(parts) == 3 else parts
    except (TypeError, ValueError):
        raise ValueError(
            f"attrs['category_colors'] must have (red, green, blue, alpha) from 0 to 255, not {row!r}"
        ) from None
    return r, g, b, a


def class_contents(names: list[str], colors: list[Color] | None) -> Contents:
    """Returns the sidecars for the names and colours of the first band's values, checked by `categories_of`."""
    return ((names, colors) if names else None), [], None


def color_component(value: Any) -> int:
    """Returns a number, or a text of a number, as an integer from 0 to 255."""
    return min(max(int(float(value)), 0), 255)


def ramp_contents(ramp: str, span: tuple[float, float] | None, statistics: Numbers | None) -> Contents:
    """Returns a style for a band: over a range of values, or from the minimum to the maximum of `statistics`.

    The statistics go into the `.aux.xml` file, the style into the `.qml` file. A single value gets no ramp, and an
    image without valid pixels gets no statistics.
    """
    numbers = span or statistics
    if numbers is None:
        return NO_CONTENTS
    items = [(key, number_text(value)) for key, value in zip(STATISTICS, numbers, strict=False)]
    low, high = float(numbers[0]), float(numbers[1])
    return None, items, _style(ramp, low, high) if low < high else None


def write_beside(path: str, contents: Contents) -> None:
    """Writes the sidecars of a mosaic. The engine writes those of a file."""
    classes, items, style = contents
    if classes is not None:
        _swath.write_classes(path, *classes)
    if items:
        _swath.write_statistics(path, items)
    if style is not None:
        replace_file(qml_path(path), style)


def number_text(value: float | int) -> str:
    """Returns the shortest text of a number that keeps its value."""
    return repr(value if isinstance(value, int) else float(value)).removesuffix(".0")


def _style(ramp: str, low: float, high: float) -> bytes:
    colors = RAMPS[ramp]
    steps = len(colors) - 1
    root = Element("qgis", {"version": "3.34.0", "styleCategories": "Symbology"})
    pipe = add(root, "pipe")
    ends = number_text(low), number_text(high)
    renderer = {"band": 1, "alphaBand": -1, "opacity": 1, "nodataColor": ""}
    renderer |= {"classificationMin": ends[0], "classificationMax": ends[1]}
    shader = add(
        add(add(pipe, "rasterrenderer", type="singlebandpseudocolor", **renderer), "rastershader"),
        "colorrampshader",
        colorRampType="INTERPOLATED",
        classificationMode=1,
        clip=0,
        minimumValue=ends[0],
        maximumValue=ends[1],
    )
    options = add(add(shader, "colorramp", type="gradient", name="[source]"), "Option", type="Map")
    stops = ":".join(f"{step / steps:g};{_rgba(colors[step])}" for step in range(1, steps))
    settings = {"color1": _rgba(colors[0]), "color2": _rgba(colors[-1]), "discrete": "0", "rampType": "gradient"}
    for name, value in (settings | {"stops": stops}).items():
        add(options, "Option", type="QString", name=name, value=value)
    for step, color in enumerate(colors):
        at = high if step == steps else low + (high - low) * (step / steps)
        add(shader, "item", value=number_text(at), color=color, alpha=255, label=f"{at:.10g}")
    add(pipe, "brightnesscontrast", brightness=0, contrast=0, gamma=1)
    add(pipe, "huesaturation", saturation=0, colorizeOn=0)
    add(pipe, "rasterresampler", maxOversampling=2)
    add(root, "blendMode", 0)
    return to_bytes(root, "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n")


def _rgba(color: str) -> str:
    return ",".join(str(int(color[at : at + 2], 16)) for at in (1, 3, 5)) + ",255"
