"""Arrays to write, and how rasterio and tifffile read the written files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import tifffile
import xarray as xr

from samples import ramp


@dataclass(frozen=True)
class Write:
    """An array and the options with which it is written."""

    id: str
    data: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)


def place(
    array: Any,
    dims: tuple[str, ...] = ("y", "x"),
    *,
    coords: bool = True,
    step: tuple[float, float] = (10.0, -20.0),
    **attrs: Any,
) -> xr.DataArray:
    """An array with coordinates in UTM 33."""
    sizes = dict(zip(dims, array.shape, strict=True))
    found = {}
    for dim in dims if coords else ():
        if dim in ("y", "lat", "latitude", "row"):
            found[dim] = 4599990.0 + step[1] * np.arange(sizes[dim])
        elif dim in ("x", "lon", "longitude", "col"):
            found[dim] = 500005.0 + step[0] * np.arange(sizes[dim])
    return xr.DataArray(array, dims=dims, coords=found, attrs={"crs": 32633, **attrs})


def lazy(array: Any, chunks: Any = 16, **attrs: Any) -> xr.DataArray:
    import dask.array

    dims = ("y", "x") if array.ndim == 2 else ("y", "x", "band")
    return place(dask.array.from_array(array, chunks=chunks), dims, **attrs)


def with_nan(dtype: str = "f4") -> np.ndarray[Any, Any]:
    array = ramp((40, 50), dtype)
    array[3:7, 5:20] = np.nan
    return array


def seen_by_rasterio(path: Path | str) -> dict[str, Any]:
    """Everything that rasterio reports for a file, including pixels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path) as dataset:
            profile = dict(dataset.profile)
            seen: dict[str, Any] = {
                "profile": {key: profile[key] for key in sorted(profile) if key not in ("crs", "nodata", "transform")},
                "crs": dataset.crs.to_wkt() if dataset.crs else None,
                "transform": tuple(dataset.transform),
                "nodata": dataset.nodata,
                "tags": dataset.tags(),
                "domains": sorted(set(dataset.tag_namespaces()) - {"IMAGE_STRUCTURE", "DERIVED_SUBDATASETS"}),
                "band tags": [dataset.tags(band) for band in dataset.indexes],
                "structure": {
                    key: value
                    for key, value in dataset.tags(ns="IMAGE_STRUCTURE").items()
                    if key in ("COMPRESSION", "INTERLEAVE", "PREDICTOR", "MINISWHITE", "SOURCE_COLOR_SPACE")
                },
                "scales": dataset.scales,
                "offsets": dataset.offsets,
                "units": dataset.units,
                "descriptions": dataset.descriptions,
                "colours": [value.name for value in dataset.colorinterp],
                "overviews": [dataset.overviews(band) for band in dataset.indexes],
                "pixels": dataset.read(),
            }
            try:
                seen["colormap"] = dataset.colormap(1)
            except ValueError:
                seen["colormap"] = None
    return seen


def levels_of(path: Path | str) -> list[np.ndarray[Any, Any]]:
    """Every level as tifffile decodes it."""
    with tifffile.TiffFile(path) as file:
        return [page.asarray() for page in file.pages]


def tag_of(path: Path | str, code: int, page: int = 0) -> Any:
    with tifffile.TiffFile(path) as file:
        tag = file.pages[page].tags.get(code)  # type: ignore[union-attr]
        return None if tag is None else tag.value


def view_differences(ours: dict[str, Any], theirs: dict[str, Any], ignore: frozenset[str] = frozenset()) -> list[str]:
    from agreement import same_crs, same_pixels, same_value

    found = []
    for key in ours:
        if key in ignore:
            continue
        a, b = ours[key], theirs[key]
        if key == "pixels":
            same = same_pixels(a, b)
        elif key == "crs" and a and b:
            same = same_crs(a, b)
        else:
            same = same_value(a, b)
        if not same:
            found.append(f"rasterio's {key}: {str(a)[:200]} / {str(b)[:200]}")
    return found
