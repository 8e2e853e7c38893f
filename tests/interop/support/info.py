"""The expected output of `swath info --json`, taken from rasterio.

Only `FIELDS` contains the structure of the JSON: one dotted path per field; `[]` steps into a list.
"""

import math
from pathlib import Path

import rasterio

FIELDS = {
    "width": "width",
    "height": "height",
    "band count": "bands",
    "dtype": "dtype",
    "geotransform": "transform",
    "epsg": "epsg",
    "nodata": "nodata",
    "block": "block",
    "compression": "compression",
    "interleave": "interleave",
    "raster type": "raster_type",
    "mask": "mask",
    "level heights": "levels[].height",
    "level widths": "levels[].width",
    "colors": "band_info[].color",
    "descriptions": "band_info[].description",
    "scales": "band_info[].scale",
    "offsets": "band_info[].offset",
    "units": "band_info[].units",
    "tags": "metadata.",
    "texts": "texts",
}

# GDAL's mask flags, and the origin of the mask that Swath reports for each.
MASKS = {
    "all_valid": "all-valid",
    "nodata": "nodata",
    "per_dataset": "mask",
    "per_dataset alpha": "alpha",
    "per_dataset nodata": "nodata-values",
}

# GDAL also shows some TIFF tags as metadata items, under its own names.
TEXTS = {"TIFFTAG_SOFTWARE": "Software", "TIFFTAG_IMAGEDESCRIPTION": "ImageDescription", "TIFFTAG_ARTIST": "Artist",
         "TIFFTAG_DATETIME": "DateTime", "TIFFTAG_COPYRIGHT": "Copyright", "TIFFTAG_DOCUMENTNAME": "DocumentName",
         "TIFFTAG_HOSTCOMPUTER": "HostComputer"}  # fmt: skip
UNSET = {"descriptions": None, "scales": 1.0, "offsets": 0.0, "units": None}


def lookup(document: object, path: str) -> object:
    """The value at a path; None where any step is missing."""
    for step in path.split("."):
        name, into_list = step.removesuffix("[]"), step.endswith("[]")
        if isinstance(document, list):
            document = [item.get(name) for item in document]
        else:
            document = document.get(name) if isinstance(document, dict) else None
        if into_list and document is None:
            document = []
    return document


def is_tag(name: str) -> bool:
    """Whether GDAL derived a metadata item from a TIFF tag instead of reading it from GDAL_METADATA."""
    return name == "AREA_OR_POINT" or name.startswith("TIFFTAG_")


def expected(path: Path) -> dict[str, object]:
    """The same fields as reported by rasterio."""
    with rasterio.open(path) as dataset:
        levels = len(dataset.overviews(1))
        items = dataset.tags()
        # Deflate or Zstandard around LERC is not a codec of its own here; GDAL ignores LERC's masks.
        codec = dataset.compression.name.split("_")[0] if dataset.compression else "none"
        block = list(dataset.block_shapes[0])
        mask = MASKS[" ".join(flag.name for flag in dataset.mask_flag_enums[0])]
        georeferenced = dataset.transform != rasterio.Affine.identity()
        fields = {
            "width": dataset.width,
            "height": dataset.height,
            "band count": dataset.count,
            "dtype": dataset.dtypes[0],
            "geotransform": list(dataset.transform.to_gdal()) if georeferenced else None,
            "epsg": dataset.crs.to_epsg() if dataset.crs else None,
            "nodata": dataset.nodata,
            "block": None if codec == "none" and block[1] == dataset.width else block,
            "compression": codec,
            "interleave": dataset.interleaving.name if dataset.interleaving else None,
            "raster type": items.get("AREA_OR_POINT", "Area"),
            "mask": "lerc" if codec == "lerc" and mask == "all-valid" else mask,
            "colors": [color.name for color in dataset.colorinterp],
            "descriptions": list(dataset.descriptions),
            "scales": list(dataset.scales),
            "offsets": list(dataset.offsets),
            "units": list(dataset.units),
            "tags": {key: value for key, value in items.items() if not is_tag(key)},
            "texts": {TEXTS[key]: value for key, value in items.items() if key in TEXTS},
        }
        sizes = [dataset.shape]
    for level in range(levels):
        with rasterio.open(path, overview_level=level) as overview:
            sizes.append(overview.shape)
    return fields | {"level heights": [h for h, _ in sizes], "level widths": [w for _, w in sizes]}


def same(got: object, want: object) -> bool:
    """Whether two values are equal.

    A number may be given as text (NaN has no JSON form), and floats may differ in the last digits.
    """
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, int) and isinstance(got, int | str):
        return str(got) == str(want)
    if isinstance(want, float) and got is not None:
        try:
            number = float(got)
        except (TypeError, ValueError):
            return False
        return math.isnan(want) and math.isnan(number) or math.isclose(number, want, rel_tol=1e-12, abs_tol=1e-300)
    if isinstance(want, str) and isinstance(got, str):
        return got.casefold() == want.casefold()
    return got == want


def differences(document: dict, wanted: dict[str, object]) -> list[str]:
    """One sentence per field that differs from the expected value."""
    found = []
    for name, want in wanted.items():
        if name == "block" and want is None:
            continue  # for uncompressed strips GDAL reports how it reads them, not how they are stored
        got = lookup(document, FIELDS[name])
        if name in UNSET and isinstance(got, list):
            got = [UNSET[name] if item in (None, "") else item for item in got]
        if name in UNSET and isinstance(want, list):
            want = [UNSET[name] if item in (None, "") else item for item in want]
        if name == "tags":
            # GDAL drops metadata items without text.
            got = {key: value for key, value in (got or {}).items() if value != ""}
        if not same(got, want):
            found.append(f"{name} ({FIELDS[name]}): {got!r}, expected {want!r}")
    return found
