"""Converts the metadata, colours, texts and tags of a DataArray to options of the engine."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from ..xarray.structured import value_of
from .bands import Bands, as_sequence
from .gdal_metadata import Item, items_of
from .raster import Raster

if TYPE_CHECKING:
    from .._swath import BandInfo, Options
    from .storage import Scaling

Tag = tuple[int, int, int, Any]

_ASCII, _SHORT, _RATIONAL, _IFD, _IFD8 = 2, 3, 5, 13, 18
_DESCRIPTION, _PHOTOMETRIC, _X_RESOLUTION, _Y_RESOLUTION, _RESOLUTION_UNIT = 270, 262, 282, 283, 296
_COLOR_MAP, _EXTRA_SAMPLES, _GDAL_METADATA, _RPC = 320, 338, 42112, 50844
_MIN_IS_BLACK, _RGB, _PALETTE = 1, 2, 3
_UNSPECIFIED, _ALPHA = 0, 2
_ALPHAS = (1, 2)  # Premultiplied or not.
_UNITS = {"none": 1, "inch": 2, "centimeter": 3}
# The number of samples of each photometric interpretation; further samples are extra samples.
_COLOR_SAMPLES = {_RGB: 3, 5: 4, 6: 3, 8: 3, 9: 3, 10: 3}
_NAMES = {"auto": None, "minisblack": _MIN_IS_BLACK, "miniswhite": 0, "rgb": _RGB, "rgba": _RGB}

# Tags about the layout, the encoding or positions in the old file. They would be wrong in a new file.
_OF_STORAGE = frozenset(
    [
        *(254, 255, 256, 257, 258, 259, 266, 273, 274, 277, 278, 279, 284, 288, 289, 292, 293, 317),
        *(322, 323, 324, 325, 330, 339, 347),  # tiles, SubIFDs, SampleFormat, JPEGTables
        *(512, 513, 514, 515, 517, 518, 519, 520, 521, 529, 530, 531, 532),  # old JPEG, YCbCr
        *(34665, 34853, 40965, 50674),  # EXIF, GPS, Interoperability, LercParameters
        *(33550, 33922, 34264, 34735, 34736, 34737),  # georeferencing
    ]
)
# Attributes with their own meaning, which are not tags of the image.
_OURS = frozenset(
    [
        *("AREA_OR_POINT", "long_name", "units", "grid_mapping", "crs", "crs_wkt", "spatial_ref", "transform"),
        *("gdal_metadata", "gdal_metadata_xml", "extra_tags", "image_description", "resolution_unit", "raster_type"),
        *("georef_status", "vrt_holes", "category_colors", "nodata_dtype_cast", "coordinates"),
    ]
)


def metadata_options(
    attrs: Mapping[str, Any],
    raster: Raster,
    bands: Bands,
    photometric: Any,
    *,
    scaling: Scaling | None,
    is_raw: bool,
    is_whole: bool,
) -> Options:
    """Returns the options that follow from attrs and `photometric=`.

    `scaling` is the scale and offset for the file; None takes those of attrs. `is_raw`: the values are the samples of
    a file. `is_whole`: they are all samples that were read.
    """
    tags = _extra_tags(value_of(attrs.get("extra_tags")))
    source, text = items_of(attrs)
    if text is not None and not source:
        tags.setdefault(_GDAL_METADATA, (_GDAL_METADATA, _ASCII, len(text) + 1, text))
    items = _of_these_bands(source, bands, attrs)
    if not is_whole:
        items = [item for item in items if not item[0].upper().startswith("STATISTICS_") and item[3] != "RPC"]
        tags.pop(_RPC, None)
    items += _foreign_items(attrs)
    options: Options = {
        "metadata": items,
        "metadata_xml": text,
        "band_info": _swath.bands_of_items(items, raster.bands),
    }
    _name_bands(options, attrs, bands)
    if scaling is not None:
        _scale(options, scaling, is_raw)
    colormap = _colormap(attrs, tags, raster)
    if colormap is not None:
        options["colormap"] = colormap
    meaning, extra = _meaning(photometric, attrs, tags, raster, bands, options["band_info"], colormap is not None)
    options["photometric"], options["extra_samples"] = meaning, extra
    if attrs.get("image_description") is not None:
        options["texts"] = {_DESCRIPTION: str(attrs["image_description"])}
        tags.pop(_DESCRIPTION, None)
    _resolution(options, attrs, tags)
    options["extra_tags"] = list(tags.values())
    return options


def _of_these_bands(items: list[Item], bands: Bands, attrs: Mapping[str, Any]) -> list[Item]:
    """Returns the items of the image and of the bands that the array still has, with their new band numbers."""
    if "_swath_contract" not in attrs:
        return items  # The user set these items for the current bands.
    moved: list[Item] = [item for item in items if item[2] is None]
    for number, sample in enumerate(bands.samples):
        moved += [(*item[:2], number, *item[3:]) for item in items if sample is not None and item[2] == sample]
    # If the items are those of the source, its XML is kept.
    return items if sorted(map(repr, moved)) == sorted(map(repr, items)) else moved


def _name_bands(options: Options, attrs: Mapping[str, Any], bands: Bands) -> None:
    """Names bands: the array's own names take precedence over those in GDAL_METADATA."""
    if bands.names is not None:
        for info, name in zip(options["band_info"], bands.names, strict=True):
            info["description"] = name
    units = attrs.get("units")
    listed = [units] if isinstance(units, str) and len(bands.samples) == 1 else as_sequence(units)
    if listed is not None:
        for info, unit in zip(options["band_info"], bands.labels.pick(listed), strict=True):
            if unit and isinstance(unit, str):
                info["units"] = unit
    colors = as_sequence(attrs.get("colorinterp"))
    if colors is not None:
        for info, color in zip(options["band_info"], _by_sample(colors, bands), strict=True):
            info["color"] = "undefined" if color is None else str(color)


def _by_sample(listed: list[Any], bands: Bands) -> list[Any]:
    """Returns the entry of each band in a list with entries for the bands of the source; None if there is none."""
    if all(sample is None for sample in bands.samples):
        return bands.labels.pick(listed)
    known = [-1 if sample is None else sample for sample in bands.samples]
    return [listed[sample] if 0 <= sample < len(listed) else None for sample in known]


def _foreign_items(attrs: Mapping[str, Any]) -> list[Item]:
    """Returns the texts in the attrs of an array from rioxarray, which stores the tags of a file there."""
    if "AREA_OR_POINT" not in attrs:
        return []
    return [
        (str(name), value, None, None, None)
        for name, value in attrs.items()
        if type(value) is str and name not in _OURS and not str(name).startswith("STATISTICS_")
    ]


def photometric_code(photometric: Any, bands: int) -> int | None:
    """Returns the requested value of the Photometric tag, or None for "auto": `_meaning` then chooses the value."""
    if isinstance(photometric, str):
        name = photometric.lower()
        if name not in _NAMES:
            raise ValueError(
                f"photometric={photometric!r} is not a valid name; expected one of {sorted(_NAMES)} or an int."
            )
        if name == "rgba" and bands < 4:
            raise ValueError(f"photometric='rgba' requires at least 4 bands, got samples_per_pixel={bands}.")
        code = _NAMES[name]
    elif isinstance(photometric, bool | np.bool_) or not isinstance(photometric, numbers.Integral):
        raise TypeError(f"photometric must be a str or int, got {type(photometric).__name__}")
    else:
        code = int(photometric)
        if not 0 <= code <= 0xFFFF:
            raise ValueError(f"photometric={code} does not fit the Photometric tag: it must be between 0 and 65535")
    if code == _RGB and bands < 3:
        raise ValueError(f"photometric=RGB requires at least 3 bands, got samples_per_pixel={bands}.")
    return code


def _meaning(
    photometric: Any,
    attrs: Mapping[str, Any],
    tags: dict[int, Tag],
    raster: Raster,
    bands: Bands,
    info: list[BandInfo],
    has_colors: bool,
) -> tuple[int, list[int]]:
    """Returns Photometric and ExtraSamples. Values of the two in attrs['extra_tags'] take precedence."""
    code = photometric_code(photometric, raster.bands)
    override, extra_tag = tags.pop(_PHOTOMETRIC, None), tags.pop(_EXTRA_SAMPLES, None)
    if override is not None and isinstance(photometric, str) and photometric.lower() == "auto":
        code = photometric_code(_whole_numbers(override[3])[0], raster.bands)
    given = attrs.get("extra_samples") if extra_tag is None else extra_tag[3]
    known = [] if given is None else _whole_numbers(given)
    colors = [band.get("color") or "" for band in info]
    if code is None:
        is_rgb = colors[:3] == ["red", "green", "blue"]
        if "_swath_contract" not in attrs and "colorinterp" not in attrs:
            # Extra samples come after the colours: if three samples remain, they are red, green and blue.
            is_rgb = is_rgb or (bool(known) and raster.bands - len(known) == 3)
        code = _PALETTE if has_colors else _RGB if is_rgb else _MIN_IS_BLACK
    extra = max(raster.bands - _COLOR_SAMPLES.get(code, 1), 0)
    if isinstance(photometric, str) and photometric.lower() == "rgba":
        return code, [_ALPHA] + [_UNSPECIFIED] * (extra - 1)
    is_same = bands.samples == list(range(raster.bands)) or "_swath_contract" not in attrs
    if is_same and len(known) == extra:
        return code, known
    pairs = zip(_extra_bands(known, attrs), known, strict=True)
    alphas: dict[int | None, int] = {sample: kind for sample, kind in pairs if kind in _ALPHAS}
    extras = zip(bands.samples[raster.bands - extra :], colors[raster.bands - extra :], strict=True)
    return code, [alphas.get(sample, _ALPHA) if color == "alpha" else _UNSPECIFIED for sample, color in extras]


def _extra_bands(known: list[int], attrs: Mapping[str, Any]) -> range:
    """Returns the bands of the source that its ExtraSamples describe, which are the last ones."""
    total = int(attrs.get("_swath_bands", 1))
    return range(total - len(known), total)


def _whole_numbers(value: Any) -> list[int]:
    return [int(each) for each in (value if np.ndim(value) else [value])]


def _scale(options: Options, scaling: Scaling, is_raw: bool) -> None:
    """Sets these scales and offsets and removes others: items for the whole image apply only to samples of the file."""
    if not is_raw:
        options["metadata"] = [item for item in options["metadata"] if item[0] not in ("SCALE", "OFFSET") or item[3]]
    for band, pair in zip(options["band_info"], scaling, strict=True):
        band["scale"], band["offset"] = (None, None) if pair == (1.0, 0.0) else pair


def _colormap(attrs: Mapping[str, Any], tags: dict[int, Tag], raster: Raster) -> tuple[int, ...] | None:
    """Sets the palette if the pixels can be indices into it; otherwise it stays an extra tag."""
    tag = tags.pop(_COLOR_MAP, None)
    given = attrs.get("colormap")
    if given is None and tag is not None:
        given = tag[3]
    if given is None:
        return None
    if isinstance(given, str | Mapping) or np.ndim(given) != 1:
        warnings.warn(
            "attrs['colormap'] is ignored: it must be all reds, all greens, all blues from 0 to 65535, not "
            f"{type(given).__name__}",
            UserWarning,
            stacklevel=5,
        )
        return None
    colors = tuple(_whole_numbers(given))
    if any(not 0 <= color <= 0xFFFF for color in colors):
        raise ValueError("attrs['colormap'] must have values from 0 to 65535")
    if raster.dtype in (np.uint8, np.uint16) and raster.bands == 1 and len(colors) == 3 << 8 * raster.dtype.itemsize:
        return colors
    tags[_COLOR_MAP] = (_COLOR_MAP, _SHORT, len(colors), colors)
    return None


def _resolution(options: Options, attrs: Mapping[str, Any], tags: dict[int, Tag]) -> None:
    """Sets the resolution on paper, in pixels per inch or centimetre.

    Incomplete values are written as the tags that exist.
    """
    named = attrs.get("resolution_unit")
    unit = _UNITS.get(named.lower()) if isinstance(named, str) else None
    sides = {}
    for tag, name in ((_X_RESOLUTION, "x_resolution"), (_Y_RESOLUTION, "y_resolution")):
        if attrs.get(name) is not None:
            value = float(attrs[name])
            if not 0.0 <= value < 2**32:
                raise ValueError(
                    f"attrs[{name!r}]={attrs[name]!r} must be a number of pixels per unit, from 0 to 4294967295"
                )
            sides[tag] = value
            tags.pop(tag, None)
    if unit is not None:
        tags.pop(_RESOLUTION_UNIT, None)
    if len(sides) == 2 and unit is not None:
        options["resolution"] = (sides[_X_RESOLUTION], sides[_Y_RESOLUTION], unit)
        return
    tags.update({tag: (tag, _RATIONAL, 1, value) for tag, value in sides.items()})
    if unit is not None:
        tags[_RESOLUTION_UNIT] = (_RESOLUTION_UNIT, _SHORT, 1, unit)


def _extra_tags(given: Any) -> dict[int, Tag]:
    """Returns the tags of attrs['extra_tags'] that are meaningful in another file.

    Of two tags with one id, the first counts.
    """
    if given is None:
        return {}
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"attrs['extra_tags'] must be a list of (id, type, count, value), not {type(given).__name__}")
    tags: dict[int, Tag] = {}
    for entry in given:
        try:
            tag, kind, count, value = entry
            tag, kind, count = (int(number) for number in (tag, kind, count))
        except (TypeError, ValueError):
            raise ValueError(f"attrs['extra_tags'] has {entry!r}, which is not (id, type, count, value)") from None
        if not 0 <= tag <= 0xFFFF:
            raise ValueError(f"attrs['extra_tags'] has the tag {tag}; tags go from 0 to 65535")
        if tag not in _OF_STORAGE and kind not in (_IFD, _IFD8):
            plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            tags.setdefault(tag, (tag, kind, count, tuple(plain) if isinstance(plain, list) else plain))
    return tags
