"""Tags that GDAL writes when it converts a netCDF file: the dimension of the bands, and CF attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import xarray as xr

EXTRA, NAME = "NETCDF_DIM_EXTRA", "NETCDF_VARNAME"


def take_dimension(attrs: dict[str, Any], bands: Sequence[int], count: int) -> tuple[str, npt.NDArray[Any]] | None:
    """Returns the name and the values of the dimension of the bands, and removes its tags from `attrs`.

    None for ordinary bands. `count` is the number of bands of the file.
    """
    names = _values(attrs.get(EXTRA, ""))
    if len(names) != 1 or f"NETCDF_DIM_{names[0]}_DEF" not in attrs:
        return None
    name = str(names[0])
    values = _values(attrs.get(f"NETCDF_DIM_{name}_VALUES", ""))
    if len(values) != count:
        return None
    if attrs.pop(f"NETCDF_DIM_{name}", None) is None:
        for tag in (f"NETCDF_DIM_{name}_VALUES", f"NETCDF_DIM_{name}_DEF", EXTRA):
            attrs.pop(tag, None)
    return name, values[list(bands)]


def _values(value: Any) -> npt.NDArray[Any]:
    """Returns the values of '{2,6}', '[2. 6.]', a number or an array."""
    if isinstance(value, str):
        value = value.strip("{}").split(",") if value.startswith("{") else value.strip("[]").split()
    return np.atleast_1d(value)


def with_cf_attrs(array: xr.DataArray, decode_times: bool, decode_timedelta: bool) -> xr.DataArray:
    """Moves the attributes of coordinates (`time#units`) to the coordinates, and decodes times."""
    own = (*array.coords, array.name)
    for key, value in list(array.attrs.items()):
        coord, _, attr = key.partition("#")
        if not attr or coord not in own:
            continue
        del array.attrs[key]
        if coord in array.coords:
            array.coords[coord].attrs[attr] = value
    return _decoded(array, decode_times, decode_timedelta)


def _decoded(array: xr.DataArray, decode_times: bool, decode_timedelta: bool) -> xr.DataArray:
    from xarray.coding import times

    for name, coord in list(array.coords.items()):
        units = coord.attrs.get("units", "")
        coder: Any = None
        if decode_times and "since" in str(units):
            coder = times.CFDatetimeCoder(use_cftime=True)
        elif decode_timedelta and units in times.TIME_UNITS:
            coder = times.CFTimedeltaCoder()
        if coder is not None:
            decoded = coder.decode(coord.variable, name=name)
            array = array.assign_coords({name: decoded})
    return array
