"""What `swath info --json` must say, taken from rasterio.

`FIELDS` is the only place that knows the shape of the JSON: a dotted path per field, `[]` steps into a list.
"""

import math
from pathlib import Path

import rasterio

FIELDS = {
    "width": "width",
    "height": "height",
    "band count": "band_count",
    "dtype": "dtype",
    "geotransform": "geotransform",
    "epsg": "crs.epsg",
    "nodata": "nodata",
    "block height": "block.height",
    "block width": "block.width",
    "compression": "compression",
    "overview heights": "overviews[].height",
    "overview widths": "overviews[].width",
    "descriptions": "bands[].description",
    "scales": "bands[].scale",
    "offsets": "bands[].offset",
    "units": "bands[].unit",
    "tags": "tags",
}

# GDAL keeps these apart from the items the file's author wrote, or makes them up.
GENERATED_TAGS = {"AREA_OR_POINT"}
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


def expected(path: Path) -> dict[str, object]:
    """The same fields as rasterio reports them."""
    with rasterio.open(path) as dataset:
        levels = len(dataset.overviews(1))
        georeferenced = dataset.transform != rasterio.Affine.identity()
        fields = {
            "width": dataset.width,
            "height": dataset.height,
            "band count": dataset.count,
            "dtype": dataset.dtypes[0],
            "geotransform": list(dataset.transform.to_gdal()) if georeferenced else None,
            "epsg": dataset.crs.to_epsg() if dataset.crs else None,
            "nodata": dataset.nodata,
            "block height": dataset.block_shapes[0][0],
            "block width": dataset.block_shapes[0][1],
            "compression": dataset.compression.name if dataset.compression else "none",
            "descriptions": list(dataset.descriptions),
            "scales": list(dataset.scales),
            "offsets": list(dataset.offsets),
            "units": list(dataset.units),
            "tags": {key: value for key, value in dataset.tags().items() if key not in GENERATED_TAGS},
        }
    sizes = []
    for level in range(levels):
        with rasterio.open(path, overview_level=level) as overview:
            sizes.append(overview.shape)
    return fields | {"overview heights": [h for h, _ in sizes], "overview widths": [w for _, w in sizes]}


def same(got: object, want: object) -> bool:
    """Equal, where a number may come as text (NaN has no JSON form) and floats may differ in the last digits."""
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
    """One sentence per field that is not as wanted."""
    found = []
    for name, want in wanted.items():
        got = lookup(document, FIELDS[name])
        if name in UNSET and isinstance(got, list):
            got = [UNSET[name] if item in (None, "") else item for item in got]
        if name in UNSET and isinstance(want, list):
            want = [UNSET[name] if item in (None, "") else item for item in want]
        if name == "tags":
            got = {key: value for key, value in (got or {}).items() if key not in GENERATED_TAGS}
        if not same(got, want):
            found.append(f"{name} ({FIELDS[name]}): {got!r}, expected {want!r}")
    return found
