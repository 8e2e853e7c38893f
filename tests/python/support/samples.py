"""Sample files for differential tests: how each is made, and the calls that are compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import tifffile
from rasterio.transform import Affine, from_origin

Call = dict[str, Any]
UTM = "EPSG:32633"
PLACE = from_origin(500000, 4600000, 10, 20)

# Calls that must give the same result for every layout.
EVERY: tuple[Call, ...] = (
    {},
    {"window": (3, 5, 20, 31)},
    {"chunks": 16},
    {"chunks": (20, 13), "window": (1, 1, 30, 50)},
    {"band": 0},
    {"dtype": "float64"},
)
PLACED: tuple[Call, ...] = (
    {},
    {"window": (3, 5, 20, 31)},
    {"chunks": (13, 20)},
    {"parse_coordinates": False},
    {"allow_rotated": True},
    {"allow_rotated": True, "window": (3, 5, 20, 31), "chunks": 8},
    {"default_name": "n"},
)
MASKED: tuple[Call, ...] = (
    {},
    {"masked": True},
    {"unpack": True},
    {"chunks": 16},
    {"masked": True, "chunks": 16},
    {"unpack": True, "chunks": 16},
    {"masked": True, "dtype": "float32"},
    {"masked": True, "dtype": "int32"},
    {"dtype": "float64"},
    {"dtype": "int64", "chunks": 16},
    {"masked": True, "window": (20, 20, 30, 30)},
    {"unpack": True, "dtype": "float32", "band": 0},
    {"allow_invalid_nodata": True},
    {"allow_invalid_nodata": True, "masked": True},
    {"allow_invalid_nodata": True, "unpack": True, "chunks": 16},
)


@dataclass(frozen=True)
class Sample:
    """A file: `make` writes it; `calls` are the keyword arguments of open_geotiff to compare."""

    id: str
    make: Callable[[Path], object]
    calls: Sequence[Call] = EVERY


def spell(call: Call) -> str:
    """A call as written in code: `window=(0, 0, 1, 1), masked=True`."""
    return ", ".join(f"{key}={value!r}" for key, value in call.items())


def ramp(shape: tuple[int, ...], dtype: Any, seed: int = 1) -> np.ndarray[Any, Any]:
    """Partly smooth and partly noisy pixels over the whole range of the type."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape))
    noise = np.random.default_rng(seed)
    if dtype.kind == "f":
        values = np.linspace(-1000, 1000, size) + noise.normal(size=size) * (np.arange(size) % 3 == 0)
        return values.astype(dtype).reshape(shape)
    info = np.iinfo(dtype)
    steps = np.arange(size, dtype=np.uint64).astype(dtype)
    wild = noise.integers(info.min, info.max, size=size, dtype=dtype, endpoint=True)
    return np.where(np.arange(size) % 5 == 0, wild, steps).astype(dtype).reshape(shape)


def write_rasterio(
    path: Path, array: np.ndarray[Any, Any], *, crs: Any = UTM, transform: Affine | None = PLACE, **profile: Any
) -> None:
    """Writes a file with GDAL.

    Entries of `profile` that are not creation options are removed: tags, scales, colours, overviews ...
    """
    bands = array if array.ndim == 3 else array[None]
    extra = {
        key: profile.pop(key, None)
        for key in (
            "tags",
            "namespaces",
            "band_tags",
            "descriptions",
            "scales",
            "offsets",
            "units",
            "colormap",
            "overviews",
        )
    }
    place = {} if transform is None else {"transform": transform}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            count=bands.shape[0],
            height=bands.shape[1],
            width=bands.shape[2],
            dtype=bands.dtype.name,
            crs=crs,
            **place,
            **profile,
        ) as dataset:
            dataset.write(bands)
            dataset.update_tags(**extra["tags"] or {})
            for namespace, tags in (extra["namespaces"] or {}).items():
                dataset.update_tags(ns=namespace, **tags)
            for band, tags in (extra["band_tags"] or {}).items():
                dataset.update_tags(band, **tags)
            for key in ("descriptions", "scales", "offsets", "units"):
                if extra[key]:
                    setattr(dataset, key, extra[key])
            if extra["colormap"]:
                dataset.write_colormap(1, extra["colormap"])
        if extra["overviews"]:
            with rasterio.open(path, "r+") as dataset:
                dataset.build_overviews(extra["overviews"], rasterio.enums.Resampling.nearest)


def write_tifffile(
    path: Path, array: np.ndarray[Any, Any], tags: Sequence[tuple[int, int, int, Any]] = (), **options: Any
) -> None:
    options.setdefault("photometric", "minisblack")
    tifffile.imwrite(path, array, metadata=None, extratags=[(*tag, True) for tag in tags], **options)


def gdal(id: str, array: np.ndarray[Any, Any] | None = None, calls: Sequence[Call] = EVERY, **options: Any) -> Sample:
    """A sample that GDAL writes."""
    pixels = ramp((37, 53), "u2") if array is None else array
    return Sample(id, lambda path: write_rasterio(path, pixels, **options), calls)


def raw_tags(
    id: str,
    tags: Sequence[tuple[int, int, int, Any]],
    array: np.ndarray[Any, Any] | None = None,
    calls: Sequence[Call] = EVERY,
    **options: Any,
) -> Sample:
    """A sample that tifffile writes, with the given tags."""
    pixels = ramp((37, 53), "u2") if array is None else array
    return Sample(id, lambda path: write_tifffile(path, pixels, tags, **options), calls)


def text(tag: int, value: str) -> tuple[int, int, int, str]:
    return tag, 2, len(value) + 1, value


def doubles(tag: int, *values: float) -> tuple[int, int, int, tuple[float, ...]]:
    return tag, 12, len(values), tuple(map(float, values))


def shorts(tag: int, *values: int) -> tuple[int, int, int, Any]:
    return tag, 3, len(values), values if len(values) > 1 else values[0]
