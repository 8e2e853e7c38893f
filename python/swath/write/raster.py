"""The pixels to write: the meaning of each axis, the stored type, and whether the pixels are on a device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from ..gpu.arrays import is_on_device

BAND_DIMS = ("band", "bands", "channel")
Y_DIMS = ("y", "lat", "latitude", "row")
X_DIMS = ("x", "lon", "longitude", "col")
MANY_BANDS = 32
"""A last axis longer than this does not count as bands if the first axis could be bands."""
_TIME_DIMS = {"time", "times", "t", "date", "dates", "datetime"}

Step = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""A conversion of rows of pixels before they are written."""
Validity = Callable[[npt.NDArray[Any], int, int], npt.NDArray[np.uint8]]
"""Returns the mask, 255 for valid pixels, else 0, for rows of pixels before any step and for their row range."""


@dataclass(frozen=True)
class Raster:
    """An image of `bands` x `height` x `width` samples, stored as `dtype`."""

    array: Any
    """A NumPy, dask or device array: (y, x), (y, x, band) or, if `bands_first`, (band, y, x)."""
    bands_first: bool
    bands: int
    height: int
    width: int
    dtype: np.dtype[Any]
    """In native byte order."""
    steps: tuple[Step, ...] = ()
    valid: Validity | None = None
    """Returns which pixels are valid, if the file gets a mask."""

    @property
    def is_dask(self) -> bool:
        """Whether the pixels are still to be computed."""
        return is_dask(self.array)

    @property
    def is_on_device(self) -> bool:
        """Whether the pixels are, or will be, in GPU memory."""
        return is_on_device(self.array._meta if self.is_dask else self.array)


def is_data_array(data: Any) -> TypeGuard[Any]:
    """Whether this is a DataArray of xarray; does not import xarray."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(data, xarray.DataArray)


def is_dataset(data: Any) -> TypeGuard[Any]:
    """Whether this is a Dataset of xarray; does not import xarray."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(data, xarray.Dataset)


def is_dask(array: Any) -> bool:
    """Whether this is a dask array; does not import dask."""
    dask_array = sys.modules.get("dask.array")
    return dask_array is not None and isinstance(array, dask_array.Array)


def raster_of(data: Any) -> Raster:
    """Returns the image in `data`, or raises an error that describes why there is none."""
    array = _array_of(data.data if is_data_array(data) else data)
    if len(array.shape) not in (2, 3):
        raise ValueError(f"Expected 2D or 3D array, got {len(array.shape)}D")
    if is_dask(array) and any(np.isnan(size) for size in array.shape):
        raise ValueError(
            f"the shape {array.shape} of the dask array is not known: call compute_chunk_sizes() on it before writing"
        )
    if is_data_array(data):
        bands_first = len(array.shape) == 3 and _has_bands_first(data.dims)
    else:
        bands_first = len(array.shape) == 3 and _looks_bands_first(array.shape)
    height, width = array.shape[1:] if bands_first else array.shape[:2]
    bands = 1 if len(array.shape) == 2 else array.shape[0] if bands_first else array.shape[2]
    if height == 0 or width == 0:
        raise ValueError(
            f"to_geotiff cannot write an empty raster: got shape {tuple(array.shape)} with height={height}, "
            f"width={width}. Both spatial dims must be positive: a clip or window may have selected nothing."
        )
    if bands == 0:
        raise ValueError(
            f"to_geotiff cannot write a raster with no bands: got shape {tuple(array.shape)} with 0 bands. Select at "
            "least one band."
        )
    return Raster(array, bands_first, bands, height, width, _stored_type(array.dtype))


def upright(data: Any) -> Any:
    """Returns a DataArray with axes (y, x), (band, y, x) or (y, x, band) if names or CF attributes identify them."""
    names = {dim: found for dim in data.dims if dim not in (*X_DIMS, *Y_DIMS) and (found := _of_cf(data, dim))}
    if len(set(names.values())) == len(names) and not set(names.values()) & set(data.dims):
        data = data.rename(names) if names else data
    y, x, band = (next((dim for dim in data.dims if dim in known), None) for known in (Y_DIMS, X_DIMS, BAND_DIMS))
    if y is None or x is None:
        return data
    if len(data.dims) == 2:
        return data if data.dims == (y, x) else data.transpose(y, x)
    if len(data.dims) != 3 or band is None or data.dims in ((band, y, x), (y, x, band)):
        return data
    return data.transpose(band, y, x)


def _of_cf(data: Any, dim: Any) -> str | None:
    """Returns x or y for a dimension whose coordinate has the CF attributes for it."""
    attrs = data.coords[dim].attrs if dim in data.coords else {}
    standard_names = {"x": ("projection_x_coordinate", "longitude"), "y": ("projection_y_coordinate", "latitude")}
    for name, standard in standard_names.items():
        if str(attrs.get("axis", "")).lower() == name or attrs.get("standard_name") in standard:
            return name
    return None


def _looks_bands_first(shape: tuple[int, ...]) -> bool:
    """Whether the axes of an array without dims are (band, y, x), as in rasterio and PyTorch, and not (y, x, band).

    They are if the first axis is the shortest and the last axis is too long to be bands.
    """
    return shape[0] < min(shape[1:]) and shape[2] > MANY_BANDS


def spatial_dims(data: Any) -> tuple[str, str]:
    """Returns the names of the y and x axes of a DataArray with two or three axes."""
    dims = tuple(data.dims)
    return dims[-2:] if len(dims) == 3 and _has_bands_first(dims) else dims[:2]


def _array_of(data: Any) -> Any:
    """Returns an array that can be sliced: of NumPy, dask or a device."""
    if isinstance(data, np.ma.MaskedArray) or is_dask(data) or is_on_device(data):
        return data
    if not isinstance(data, np.ndarray) and hasattr(data, "__dlpack__"):
        return np.from_dlpack(data)
    return np.asarray(data)


def _has_bands_first(dims: tuple[Any, ...]) -> bool:
    """Whether the band axis is the first; raises ValueError if the names do not identify it."""

    def is_spatial(y: Any, x: Any) -> bool:
        return y in Y_DIMS and x in X_DIMS

    first, second, third = dims
    if first in BAND_DIMS and is_spatial(second, third):
        return True
    if third in BAND_DIMS and is_spatial(first, second):
        return False
    leads, trails = is_spatial(second, third), is_spatial(first, second)
    other = first if leads else third
    if (leads or trails) and str(other).lower() in _TIME_DIMS:
        raise ValueError(
            f"3D writer input has temporal {'leading' if leads else 'trailing'} dim {other!r} in dims {dims}: times "
            f"are not bands. Select one (``data.isel({other}=0)``), reduce them (``data.mean({other!r})``), or rename "
            f"the dim to one of {BAND_DIMS} if they are to become bands."
        )
    if trails:
        raise ValueError(
            f"3D writer input has non-band trailing dim {other!r} in dims {dims}. Rename it to one of {BAND_DIMS}, "
            f"select or reduce along it (``data.isel({other}=0)``, ``data.mean({other!r})``), or pass a bare array of "
            "shape (y, x, bands)."
        )
    raise ValueError(
        f"3D writer input has ambiguous dims {dims}. Expected (band, y, x) or (y, x, band); the band dim may be called "
        f"{BAND_DIMS}, the spatial dims y={Y_DIMS} / x={X_DIMS}. Rename or transpose the array, as in "
        "``da.transpose('y', 'x', 'band')``."
    )


def _stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind == "f" and dtype.itemsize == 2:
        return np.dtype(np.float32)
    native: np.dtype[Any] = dtype.newbyteorder("=")
    if dtype.kind in "iu" or native in (np.float32, np.float64, np.complex64, np.complex128):
        return native
    raise ValueError(
        f"Unsupported numpy dtype: {dtype}. A TIFF holds integers of 8 to 64 bits, float32, float64, complex64 and "
        "complex128 (bool becomes uint8, float16 becomes float32): convert the array with astype()."
    )
