"""The xarray engine `swath`: datasets whose pixels are read when they are accessed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import xarray as xr
from xarray.backends import BackendEntrypoint

from ..read.open_geotiff import open_geotiff
from ..read.request import coerce, is_vrt
from ..read.source import is_content, is_file_like, local_path
from .accessor import SwathDataArray, register, template_of
from .dask import Indexed, on_grid
from .lazy_array import lazy_array
from .spatial_ref import with_spatial_ref

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

    from ..read.pixels import Pixels

NAMELESS = "band_data"
"""The name of the variable if the source has no name."""

DECODERS = ("decode_times", "decode_timedelta", "use_cftime", "concat_characters", "decode_coords")
"""Decoding options that `xr.open_dataset` passes to every engine and that do not apply to rasters."""

TARGETS = ("coregister", "auto_reproject")
"""Keywords whose value is the target grid."""

STRIP_BYTES = 1 << 20
"""Strips often have only a few rows: a chunk of strips has at least this many bytes."""


class SwathBackendEntrypoint(BackendEntrypoint):
    """`xr.open_dataset(file, engine="swath")`: opens GeoTIFF, COG and VRT mosaics with Swath, without GDAL."""

    description = "Open GeoTIFF, COG and VRT files with Swath, lazily and without GDAL"
    open_dataset_parameters: ClassVar[tuple[str, ...]] = ("filename_or_obj", "drop_variables")

    def open_dataset(
        self,
        filename_or_obj: str | os.PathLike[Any] | Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        spatial_ref: bool = False,
        **reading: Any,
    ) -> xr.Dataset:
        """Open a file as a Dataset of one variable, named like the array of `open_geotiff`, else `band_data`.

        Parameters
        ----------
        filename_or_obj : str, os.PathLike, bytes or binary file object
            As in `swath.open_geotiff`.
        drop_variables : str or iterable of str, optional
            Variables and coordinates to leave out.
        spatial_ref : bool
            Add the `spatial_ref` coordinate that rioxarray reads.
        **reading
            As in `swath.open_geotiff`: band, window, bbox, overview_level, masked, unpack (or mask_and_scale),
            default_name and so on. `coregister=<array or dataset>` resamples to the grid of that target, with
            `resampling` and `var` as in `DataArray.swath.open_geotiff`.
        """
        register()
        for name in DECODERS:
            reading.pop(name, None)
        if reading.get("mask_and_scale") is not None:
            reading["unpack"] = reading.pop("mask_and_scale")
        dataset: xr.Dataset
        target = _target(reading)
        if target is not None:
            var = reading.pop("var", None)
            dataset = _dataset_of(SwathDataArray(template_of(target, var)).open_geotiff(filename_or_obj, **reading))
        elif is_vrt(coerce(filename_or_obj)) and not ({"chunks", "gpu"} & reading.keys()):
            dataset = _mosaic(filename_or_obj, reading)
        else:
            dataset = _dataset(filename_or_obj, reading)
        dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        dataset = dataset.drop_vars(dropped, errors="ignore")
        if spatial_ref:
            dataset = with_spatial_ref(dataset)
        dataset.set_close(_close)
        return dataset

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether the name ends in .tif, .tiff or .vrt."""
        try:
            path = local_path(filename_or_obj) or filename_or_obj
        except TypeError:
            return False
        if not isinstance(path, str) or isinstance(filename_or_obj, bytes):
            return False
        return urlsplit(path).path.lower().endswith((".tif", ".tiff", ".vrt"))


def _close() -> None:
    """Does nothing, because a file is closed when its last reference is gone. xarray needs a function to call."""


class _Computed:
    """An indexable object that computes the pixels of a dask array."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        part = self.array
        # One axis at a time: several index arrays mean their outer product here.
        for axis in reversed(range(len(key))):
            part = part[(slice(None),) * axis + (key[axis],)]
        pixels: npt.NDArray[Any] = part.compute()
        return pixels


def _dataset(source: Any, reading: dict[str, Any]) -> xr.Dataset:
    """Opens a file with `open_geotiff`, which checks the arguments; pixels stay in the file if they can be read
    later.
    """
    # Two kinds of reads are not lazy: those of a file object, which may be closed later, and those with a limit on the
    # bytes fetched from the cloud.
    at_once = {"chunks", "gpu", "max_cloud_bytes"} & reading.keys() or is_content(source) or is_file_like(source)
    if at_once:
        return _dataset_of(open_geotiff(source, **reading))
    indexed: Any = Indexed()
    dataset = _dataset_of(open_geotiff(source, chunks=indexed, **reading))
    for variable in dataset.data_vars.values():
        variable.encoding["preferred_chunks"] = _preferred_chunks(indexed.pixels)
    return dataset


def _preferred_chunks(pixels: Pixels) -> dict[str, int | tuple[int, ...]]:
    """Returns the size of a tile, or of enough strips for one task."""
    plan = pixels.plan
    rows, columns = pixels.handle.file().levels[plan.level][2:]
    if columns >= plan.shape[1]:
        row_bytes = plan.shape[1] * plan.finish.source.itemsize * len(plan.bands)
        rows *= max(1, STRIP_BYTES // (rows * row_bytes))
    preferred: dict[str, int | tuple[int, ...]] = {}
    steps, starts = (rows, columns, len(plan.bands)), (*plan.window[:2], 0)
    for name, size, step, start in zip(plan.dims, plan.shape, steps, starts, strict=False):
        preferred[name] = on_grid(size, start, step) if start % step else min(step, size)
    return preferred


def _mosaic(source: Any, reading: dict[str, Any]) -> xr.Dataset:
    """Opens a mosaic as a dask array whose chunks are computed when they are indexed."""
    array = open_geotiff(source, chunks="auto", **reading)
    variable = xr.Variable(array.dims, lazy_array(_Computed(array.data)), array.attrs)
    variable.encoding["preferred_chunks"] = {str(name): sizes for name, sizes in array.chunksizes.items()}
    return xr.Dataset({_name_of(array): variable}, coords=array.coords)


def _dataset_of(array: xr.DataArray) -> xr.Dataset:
    return array.to_dataset(name=_name_of(array))


def _name_of(array: xr.DataArray) -> Hashable:
    """Returns the name of the variable; the default if the file is named like a coordinate."""
    return NAMELESS if not array.name or array.name in {*array.coords, "spatial_ref"} else array.name


def _target(reading: dict[str, Any]) -> xr.DataArray | xr.Dataset | None:
    """Returns the array or dataset passed as `coregister=` or `auto_reproject=`; these keywords become flags of the
    accessor.
    """
    if "like" in reading:
        raise ValueError(
            "the 'like=' backend kwarg was removed; pass the target grid as the value of 'coregister' or "
            "'auto_reproject', e.g. backend_kwargs={'coregister': target}."
        )
    targets = {name: value for name in TARGETS if isinstance(value := reading.get(name), xr.DataArray | xr.Dataset)}
    if len(targets) > 1:
        raise ValueError("pass the target grid on exactly one of 'coregister' and 'auto_reproject', not on both.")
    for name, target in targets.items():
        for other in TARGETS:
            reading[other] = other == name or bool(reading.get(other))
        return target
    without = [name for name in TARGETS if reading.get(name) not in (None, False)]
    without += [name for name in ("resampling", "var") if reading.get(name) is not None]
    if without:
        raise ValueError(
            f"{', '.join(without)} need a target grid. Pass it as the value of 'coregister' or 'auto_reproject', "
            "e.g. backend_kwargs={'coregister': target}."
        )
    for name in (*TARGETS, "resampling", "var"):
        reading.pop(name, None)
    return None
