"""The `.aux.xml` (PAM) file beside an image: the category names and colours that GDAL keeps there."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from .._xml import MAX_BYTES, parse_xml
from ..xarray.structured import Structured

Color = tuple[int, int, int, int]

MAX_CATEGORIES = 1_000_000
# GDALRATFieldUsage
USAGE_NAME, USAGE_MIN_MAX, USAGE_COLORS = 2, 5, (6, 7, 8, 9)


def pam_path(path: str) -> str:
    """The PAM file of an image."""
    return f"{path}.aux.xml"


def read_pam(path: Any) -> dict[str, Any]:
    """The attrs `category_names` and `category_colors` of a local file. What is broken counts as missing."""
    root = read_document(path) if isinstance(path, str) and "://" not in path else None
    if root is None:
        return {}
    for table in root.iter("GDALRasterAttributeTable"):
        if table.get("tableType") == "thematic" and (attrs := _table_attrs(table)):
            return attrs
    for names in root.iter("CategoryNames"):
        categories = names.findall("Category")
        return {"category_names": [name.text or "" for name in categories]} if len(categories) <= MAX_CATEGORIES else {}
    return {}


def read_document(path: str) -> Element | None:
    """The parsed PAM file of an image; None if it is missing, broken or too large."""
    try:
        with open(pam_path(path), "rb") as file:
            data = file.read(MAX_BYTES + 1)
        return parse_xml(data) if len(data) <= MAX_BYTES else None
    except (OSError, ValueError):
        return None


def _table_attrs(table: Element) -> dict[str, Any]:
    """Names, and colours where all four parts are there, by value. What the table leaves out is empty, transparent."""
    columns: dict[int, int] = {}
    for index, field in enumerate(table.findall("FieldDefn")):
        usage = (field.findtext("Usage") or "").strip()
        if usage.isdecimal():
            columns[int(usage)] = index
    if USAGE_NAME not in columns:
        return {}
    colored = all(usage in columns for usage in USAGE_COLORS)
    rows: dict[int, tuple[str, Color]] = {}
    try:
        for index, row in enumerate(table.findall("Row")):
            cells = [cell.text or "" for cell in row.findall("F")]
            value = int(float(cells[columns[USAGE_MIN_MAX]])) if USAGE_MIN_MAX in columns else index
            r, g, b, a = (color_component(cells[columns[usage]]) for usage in USAGE_COLORS) if colored else (0, 0, 0, 0)
            rows[value] = cells[columns[USAGE_NAME]], (r, g, b, a)
    except (ValueError, IndexError, OverflowError):
        return {}
    if not rows or min(rows) < 0 or max(rows) >= MAX_CATEGORIES:
        return {}
    every = [rows.get(value, ("", (0, 0, 0, 0))) for value in range(max(rows) + 1)]
    attrs: dict[str, Any] = {"category_names": [name for name, _ in every]}
    if colored:
        attrs["category_colors"] = Structured([color for _, color in every])
    return attrs


def color_component(value: Any) -> int:
    """A number, or its text, as one of 0 to 255."""
    return min(max(int(float(value)), 0), 255)
