"""Rasters in rioxarray's layout: arrays of (band, y, x), or datasets with one variable per band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._swath import MAX_PIXELS
from ..errors import PixelSafetyLimitError
from ..read.georef import SHEAR
from ..read.nodata import Finish
from ..read.pixels import Pixels
from ..read.plan import ReadPlan
from ..read.source import Handle, is_remote
from ..write.mask import FileMask
from ..xarray.dask import dask_array
from ..xarray.spatial_ref import NAME
from ..xarray.state import ReadState
from . import netcdf_tags
from .attrs import band_attrs, color_attrs, file_attrs, move_to_encoding
from .grid_mapping import grid_mapping_attrs
from .rotated import rotated_coords

if TYPE_CHECKING:
    import xarray as xr

    from ..mosaic.source import Mosaic
    from .raster_info import RasterInfo


@dataclass(frozen=True)
class Raster:
    """An opened file or mosaic."""

    info: RasterInfo
    handle: Handle | Mosaic
    level: int = 0


@dataclass(frozen=True)
class Reading:
    """The options of a read."""

    raster: Raster
    chunks: Any
    cache: bool
    unpacked: bool
    masked: bool
    """Also True if scales are applied."""
    parse_coordinates: bool
    decode_times: bool
    decode_timedelta: bool
    threads: int | None
    max_pixels: int

    @property
    def info(self) -> RasterInfo:
        return self.raster.info

    def array(self, bands: tuple[int, ...], name: str | None) -> xr.DataArray:
        """Returns the bands, counted from 0, as one array."""
        info = self.info
        attrs = band_attrs(info, bands, {**info.tags, **info.band_tags[bands[0]]})
        attrs.update(color_attrs(info))
        axis = netcdf_tags.take_dimension(attrs, bands, info.count) or ("band", np.array(bands) + 1)
        coords = {axis[0]: axis[1], **self._coords()}
        name = attrs.pop(netcdf_tags.NAME, name)
        return self._array(bands, (axis[0], "y", "x"), attrs, coords, name)

    def dataset(self, bands: tuple[int, ...]) -> xr.Dataset:
        """Returns the bands, counted from 0, as variables."""
        import xarray as xr

        coords = self._coords()
        variables = {}
        for band in bands:
            attrs = band_attrs(self.info, (band,), self.info.band_tags[band])
            variables[f"band_{band + 1}"] = self._array((band,), ("y", "x"), attrs, coords, None)
        return xr.Dataset(variables, attrs=file_attrs(self.info))

    def _array(
        self,
        bands: tuple[int, ...],
        dims: tuple[str, ...],
        attrs: dict[str, Any],
        coords: dict[str, Any],
        name: str | None,
    ) -> xr.DataArray:
        import xarray as xr

        handle, plan = self._plan(bands, flat=len(dims) == 2)
        encoding = move_to_encoding(self.info, plan, attrs, self._state(plan))
        pixels = Pixels(handle, plan)  # type: ignore[arg-type]
        sizes = None if self.chunks is None else _chunk_sizes(self.chunks, dims, plan, self.info)
        data = self._lazy(pixels) if sizes is None else _dask(pixels, sizes)
        array = xr.DataArray(data, dims=dims, coords=coords, attrs=attrs)
        # Without a name, xarray takes that of the dask array.
        array.name = name
        array.coords[NAME] = xr.Variable((), 0, grid_mapping_attrs(self.info))
        if any("#" in key for key in attrs):
            array = netcdf_tags.with_cf_attrs(array, self.decode_times, self.decode_timedelta)
        if sizes is None:
            blocks = (*(1,) * (len(dims) - 2), *self.info.block)
            encoding["preferred_chunks"] = dict(zip(dims, blocks, strict=True))
        else:
            # Also for two-dimensional coordinates.
            array = array.chunk(dict(zip(dims, sizes, strict=True)))
        array.encoding = encoding
        return array

    def _lazy(self, pixels: Pixels) -> Any:
        """Returns pixels that are read when they are indexed, and cached if requested."""
        # Imports xarray on first use.
        from xarray.core import indexing

        from ..xarray.lazy_array import lazy_array

        data = indexing.CopyOnWriteArray(lazy_array(pixels))
        return indexing.MemoryCachedArray(data) if self.cache else data  # type: ignore[no-untyped-call]

    def _plan(self, bands: tuple[int, ...], *, flat: bool) -> tuple[Handle | Mosaic, ReadPlan]:
        """Returns the source and the plan of a read."""
        info, handle = self.info, self.raster.handle
        by_nodata = self.masked and info.validity == "nodata"
        nodata = _sentinel(info, bands[0]) if by_nodata else None
        by_mask = self.masked and info.validity in ("mask", "alpha", "nodata-values")
        promoted = _promoted(info.dtype) if self.masked else info.dtype
        source = info.dtype
        if by_nodata and len({str(info.nodata[band]) for band in bands}) > 1:
            assert not isinstance(handle, Handle), "all bands of a TIFF have one nodata value"
            handle = handle.masked(promoted)
            source, nodata = promoted, float("nan")
        finish = Finish.of(
            source,
            nodata,
            masked=self.masked,
            scaling=[info.scaling[band] for band in bands] if self.unpacked else (),
            by_mask=by_mask,
            promoted=promoted,
        )
        plan = ReadPlan(
            window=(0, 0, info.height, info.width),
            level=self.raster.level,
            bands=bands,
            flat=flat,
            finish=finish,
            samples=info.count,
            max_pixels=self.max_pixels,
            threads=self.threads,
            bands_last=False,
            alpha=info.count - 1 if by_mask and info.validity == "alpha" else None,
            nodata_values=info.nodata_values if by_mask else (),
        )
        return handle, plan

    def _state(self, plan: ReadPlan) -> ReadState:
        info = self.info
        return ReadState(
            dtype=info.dtype,
            shape=(info.height, info.width),
            nodata=info.file_nodata,
            masked=self.masked,
            unpacked=self.unpacked,
            scaling={band: pair for band, pair in enumerate(info.scaling) if pair != (1.0, 0.0)},
            by_mask=plan.finish.by_mask,
            mask_in_samples=info.validity == "alpha",
            mask=self._mask(plan),
            bands=info.count,
            sample=plan.bands[0] if plan.flat else None,
            first_label=1,
            attrs=info.attrs,
        )

    def _mask(self, plan: ReadPlan) -> FileMask | None:
        """Returns the mask of a local file that the read does not apply."""
        info, handle = self.info, self.raster.handle
        if not isinstance(handle, Handle) or not isinstance(handle.source, str) or is_remote(handle.source):
            return None
        if info.validity != "mask" or plan.finish.by_mask:
            return None
        coords = self._coords()
        if not {"x", "y"} <= coords.keys():
            return None
        ends = tuple(float(coords[name][1][at]) for name in ("y", "x") for at in (0, -1))
        return FileMask(handle, plan.window, plan.level, ends)

    def _coords(self) -> dict[str, Any]:
        """Returns x and y of pixel centres; for a rotated image, two-dimensional coordinates with other names."""
        info = self.info
        if not self.parse_coordinates or info.gcps or info.rpc is not None:
            return {}
        if info.height + info.width > MAX_PIXELS:
            raise PixelSafetyLimitError(
                f"The coordinates of {info.height:,} rows and {info.width:,} columns alone would take "
                f"~{(info.height + info.width) * 8 / 1e9:.2f} GB. Pass parse_coordinates=False."
            )
        a, b, c, d, e, f = info.transform
        if max(abs(b), abs(d)) > SHEAR * max(abs(a), abs(e), 1.0):
            return rotated_coords(info.transform, info.height, info.width)
        return {
            "x": ("x", np.arange(info.width) * a + (a * 0.5 + b * 0.5 + c)),
            "y": ("y", np.arange(info.height) * e + (d * 0.5 + e * 0.5 + f)),
        }


def _sentinel(info: RasterInfo, band: int) -> int | float | None:
    """Returns the sample that means nodata: for integers GDAL truncates the fraction of the value."""
    nodata = info.nodata[band]
    return int(nodata) if nodata is not None and info.dtype.kind in "iu" else nodata


def _promoted(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type that can hold NaN and the values of another type, as xarray chooses it."""
    if dtype.kind not in "iu":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def _chunk_sizes(chunks: Any, dims: tuple[str, ...], plan: ReadPlan, info: RasterInfo) -> tuple[tuple[int, ...], ...]:
    """Returns the lengths of chunks along each dimension, with the meaning that xarray and rioxarray give to
    `chunks`.
    """
    if isinstance(chunks, bool | str) and chunks in (True, "auto"):
        one = (1,) * (len(dims) - 2)
        return _normalized((*one, "auto", "auto"), plan.shape, info.dtype, (*one, *info.block))
    if isinstance(chunks, tuple | list):
        # Variables without a band dimension ignore the length along it.
        if len(chunks) not in (3, len(dims)):
            raise ValueError(f"chunks={chunks!r} must have {len(dims)} lengths, for {', '.join(dims)}.")
        by_dim = dict(zip(dims, chunks[len(chunks) - len(dims) :], strict=True))
    elif isinstance(chunks, int | float | str):
        by_dim = dict.fromkeys(dims, chunks)
    else:
        by_dim = dict(chunks)
        unknown = [name for name in by_dim if name not in (*dims, "band")]
        if unknown:
            raise ValueError(f"chunks has no dimension {unknown[0]!r}: the dimensions are {', '.join(dims)}.")
    wanted = tuple(by_dim.get(dim, size) for dim, size in zip(dims, plan.shape, strict=True))
    return _normalized(wanted, plan.shape, plan.dtype)


def _normalized(
    chunks: tuple[Any, ...], shape: tuple[int, ...], dtype: np.dtype[Any], previous: tuple[int, ...] | None = None
) -> tuple[tuple[int, ...], ...]:
    from dask.array.core import normalize_chunks

    sizes = normalize_chunks(chunks, shape=shape, dtype=dtype, previous_chunks=previous)  # type: ignore[no-untyped-call]
    return tuple(tuple(map(int, along)) for along in sizes)


def _dask(pixels: Pixels, sizes: tuple[tuple[int, ...], ...]) -> Any:
    meta = np.empty((0,) * pixels.ndim, pixels.dtype)
    # A mosaic may have very many sources, so it is one node of the graph to which all tasks refer.
    inline = isinstance(pixels.handle, Handle)
    return dask_array(pixels, sizes, (pixels, sizes), meta, inline=inline, prefix="open_rasterio")
