"""Resamples the pixels of a file to the grid of an array."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..read.open_geotiff import open_geotiff
from ..read.prepare import prepare
from ..read.request import coerce, is_vrt
from ..read.source import is_content, is_file_like
from .dask import Indexed, by_axis, check_chunks
from .grid import HEADER_KEYWORDS, NEARLY, Axis, Header, check_crs
from .resample import REACH, sample

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray as xr


def coregistered(template: xr.DataArray, source: Any, resampling: str, keywords: dict[str, Any]) -> xr.DataArray:
    """Returns the pixels of a file on the grid of a template, from the coarsest level that is fine enough."""
    import xarray as xr

    if keywords.get("gpu") or is_vrt(coerce(source)):
        raise ValueError(
            "coregister=True resamples on the CPU and is not supported with gpu=True or .vrt sources. Read on CPU, or "
            "pass coregister=False."
        )
    if keywords.get("allow_rotated"):
        raise ValueError(
            "coregister=True is not supported with allow_rotated=True: a rotated file reads as a pixel grid without "
            "coordinates. Read the file without coregister and resample it explicitly."
        )
    chunks = keywords.pop("chunks", None)
    keywords = {name: value for name, value in keywords.items() if name != "gpu"} | {"unpack": True}
    keywords["parse_coordinates"] = True
    down, across = _grid_of(template, "y"), _grid_of(template, "x")
    if keywords.get("overview_level") is None:
        keywords["overview_level"] = _coarsest(source, abs(down.step), abs(across.step), keywords)
    indexed: Any = None if is_content(source) or is_file_like(source) else Indexed()
    ready = open_geotiff(source, chunks=indexed, **keywords)
    pixels: Any = ready.values if indexed is None else indexed.pixels
    header = Header.of(ready)
    check_crs(template, header, may_differ=True)
    rows, columns = (header.axis(name).places(template[name].values) for name in ("y", "x"))
    covered = [np.floor(places + 0.5) for places in (rows, columns)]
    inside = [(c >= 0) & (c < size) for c, size in zip(covered, header.shape, strict=True)]
    share = float(np.prod([i.mean() for i in inside]))
    if share == 0.0:
        raise ValueError(
            f"{source!r} does not overlap the caller grid; the coregistered result would be entirely NaN. Check the "
            "caller's coords / attrs['crs'] against the file's georeferencing."
        )
    if share < 0.1:
        warnings.warn(
            f"{source!r} covers {share:.1%} of the caller grid: crop the caller to the file's bounds first.",
            UserWarning,
            stacklevel=4,
        )
    method = _method(resampling, pixels.dtype, ready.attrs)
    keeps_type = method == "nearest" and share == 1.0
    placed = OnGrid(pixels, rows, columns, method, pixels.dtype if keeps_type else np.dtype(np.float64))
    attrs = _attrs_on(ready.attrs, down, across, placed.dtype)
    coords: dict[Any, Any] = {name: template[name] for name in ("y", "x")}
    if "band" in ready.coords:
        coords["band"] = ready["band"]
    return xr.DataArray(placed.array(chunks), dims=ready.dims, coords=coords, attrs=attrs, name=ready.name)


def _grid_of(template: xr.DataArray, name: str) -> Axis:
    """Returns the evenly spaced axis of a template; x must ascend and y must descend."""
    values = np.asarray(template[name].values, np.float64)
    sign, order = (1, "ascending") if name == "x" else (-1, "descending")
    if len(values) < 2:
        index = 0 if name == "x" else 4
        if "res" in template.attrs:
            step = abs(float(np.atleast_1d(template.attrs["res"])[0 if name == "x" else -1]))
        elif "transform" in template.attrs:
            step = abs(float(template.attrs["transform"][index]))
        else:
            raise ValueError(
                f"coregister cannot infer {name} resolution for a single-cell template; use a template with 2+ cells "
                f"along {name}, or set attrs['res'] / attrs['transform']"
            )
        return Axis(float(values[0]), sign * step, len(values))
    steps = np.diff(values)
    if (steps * sign <= 0).any():
        raise ValueError(
            f"coregister=True needs the caller's {name} coords in {order} order; sort the caller along {name} first "
            f"(e.g. .sortby({name!r}, ascending={sign > 0}))."
        )
    if np.ptp(steps) > 1e-5 * np.max(abs(steps)):
        raise ValueError(
            f"coregister=True needs a regular caller grid, but the {name} coords are not evenly spaced (max spacing "
            f"{np.max(abs(steps)):g}, min {np.min(abs(steps)):g}). Resample the caller onto a regular grid first."
        )
    return Axis.of(values, None)


def _coarsest(source: Any, tall: float, wide: float, keywords: dict[str, Any]) -> int:
    """Returns the coarsest level whose pixels are no larger than the template's."""
    allowed = {name: keywords[name] for name in HEADER_KEYWORDS if name in keywords}
    ready = prepare(source, **allowed)
    header = Header(ready.coords(), ready.attrs())
    height, width = header.shape
    pixel = abs(header.axis("y").step), abs(header.axis("x").step)
    fits = [
        level
        for level, (rows, columns, _, _) in enumerate(ready.header.levels)
        if pixel[0] * height / rows <= tall * (1 + NEARLY) and pixel[1] * width / columns <= wide * (1 + NEARLY)
    ]
    coarsest: int = max(fits, default=0)
    return coarsest


def _method(resampling: str, dtype: np.dtype[Any], attrs: dict[str, Any]) -> str:
    if resampling != "auto":
        return resampling
    if "colormap" in attrs:
        return "nearest"
    if dtype.kind not in "iu":
        return "bilinear"
    warnings.warn(
        f"resampling='auto' chose 'nearest' because the data has an integer dtype ({dtype}) and no colormap. If this "
        "raster is continuous (e.g. a DEM), pass resampling='bilinear'; pass resampling='nearest' to keep it and "
        "silence this.",
        UserWarning,
        stacklevel=5,
    )
    return "nearest"


def _attrs_on(attrs: dict[str, Any], down: Axis, across: Axis, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Returns the attributes of a file for its pixels on another grid."""
    moved = {name: value for name, value in attrs.items() if name not in ("raster_type", "masked_nodata")}
    left, top = across.first - across.step / 2, down.first - down.step / 2
    moved["transform"] = (across.step, 0.0, left, 0.0, down.step, top)
    if dtype.kind == "f":
        moved["nodata"] = math.nan
    return moved


@dataclass(frozen=True)
class OnGrid:
    """The pixels of a file on another grid, computed when they are indexed."""

    pixels: Any
    """The indexable pixels of the file, lazy or not."""
    rows: npt.NDArray[np.float64]
    columns: npt.NDArray[np.float64]
    method: str
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), len(self.columns), *self.pixels.shape[2:])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: tuple[slice, ...]) -> npt.NDArray[Any]:
        rows, columns = self.rows[key[0]], self.columns[key[1]]
        above, left = (
            _around(places, size) for places, size in zip((rows, columns), self.pixels.shape[:2], strict=True)
        )
        if above.start >= above.stop or left.start >= left.stop:
            return np.full((len(rows), len(columns), *self.pixels.shape[2:]), np.nan, self.dtype)
        near = self.pixels[above, left]
        return sample(near, rows - above.start, columns - left.start, self.method).astype(self.dtype, copy=False)

    def array(self, chunks: Any) -> Any:
        """Returns the whole as a numpy array or, with chunks, as a dask array."""
        if chunks is None:
            return self[tuple(slice(None) for _ in self.shape)]
        import dask.array

        check_chunks(chunks)
        sizes = by_axis(chunks)[: self.ndim]
        return dask.array.from_array(self, chunks=sizes, lock=False, asarray=False, fancy=False)  # type: ignore[no-untyped-call]


def _around(places: npt.NDArray[np.float64], size: int) -> slice:
    """Returns the range of pixels that the positions can use."""
    start, stop = math.floor(np.min(places)) - REACH, math.ceil(np.max(places)) + REACH + 1
    return slice(min(max(0, start), size), max(0, min(size, stop)))
