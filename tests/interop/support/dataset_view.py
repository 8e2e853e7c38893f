"""All metadata that rasterio reports for a file."""

from pathlib import Path

import numpy as np
import rasterio
import tifffile

# Items that describe storage, or that GDAL adds.
OTHER_NAMESPACES = {"IMAGE_STRUCTURE", "DERIVED_SUBDATASETS"}
# Tags about storage or georeferencing, and tags that GDAL interprets; all other tags belong to the author.
STORAGE_TAGS = {
    254, 255, 256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 317, 320, 322, 323, 324, 325, 330, 338, 339,
    347, 530, 532, 50674,
}  # fmt: skip
VIEWED_TAGS = {33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113, 50844}


def view(path: Path) -> dict[str, object]:
    """One entry per fact; files with the same metadata have equal views."""
    with rasterio.open(path) as dataset:
        facts: dict[str, object] = {
            "crs": dataset.crs.to_wkt() if dataset.crs else None,
            "transform": tuple(dataset.transform),
            "gcps": [(p.row, p.col, p.x, p.y, p.z) for p in dataset.gcps[0]],
            "gcp crs": dataset.gcps[1].to_wkt() if dataset.gcps[1] else None,
            "rpcs": dataset.rpcs.to_dict() if dataset.rpcs else None,
            "nodata": [text(value) for value in dataset.nodatavals],
            "descriptions": dataset.descriptions,
            "scales": dataset.scales,
            "offsets": dataset.offsets,
            "units": tuple(unit or None for unit in dataset.units),
            "colors": [color.name for color in dataset.colorinterp],
            "mask flags": [[flag.name for flag in flags] for flags in dataset.mask_flag_enums],
            "mask": (dataset.dataset_mask() > 0).tobytes(),
            "tags": tags(dataset, 0),
        }
        for band in dataset.indexes:
            facts[f"tags of band {band}"] = tags(dataset, band)
            facts[f"colormap of band {band}"] = colormap(dataset, band)
    return facts


def text(value: float | None) -> str:
    """The text of a value; as text, NaN equals NaN."""
    return str(value)


def tags(dataset: rasterio.DatasetReader, band: int) -> dict[str, dict[str, str]]:
    """The metadata items of all namespaces; band 0 is the dataset."""
    names = [None, *(set(dataset.tag_namespaces(band)) - OTHER_NAMESPACES)]
    found = {name or "": dataset.tags(band, ns=name) for name in names}
    return {name: items for name, items in found.items() if items}


def colormap(dataset: rasterio.DatasetReader, band: int) -> dict | None:
    try:
        return dataset.colormap(band)
    except ValueError:
        return None


def differences(got: dict[str, object], want: dict[str, object], but: tuple[str, ...] = ()) -> list[str]:
    """One sentence per fact that differs, without those named in `but`."""
    names = (want.keys() | got.keys()) - set(but)
    wrong = [name for name in sorted(names) if differ(got, want, name)]
    return [f"{name}: {got.get(name)!r}, expected {want.get(name)!r}" for name in wrong]


def differ(got: dict[str, object], want: dict[str, object], name: str) -> bool:
    if name not in got or name not in want:
        return True
    if name == "transform":
        return not np.allclose(got[name], want[name], rtol=1e-14, atol=1e-15)
    return got[name] != want[name]


def own_tags(path: Path) -> dict[int, tuple[int, int, object]]:
    """The tags that concern neither storage nor GDAL, with type, count and value."""
    with tifffile.TiffFile(path) as tif:
        found = tif.pages[0].tags.values()
        return {
            tag.code: (int(tag.dtype), tag.count, tag.value)
            for tag in found
            if tag.code not in STORAGE_TAGS | VIEWED_TAGS
        }
