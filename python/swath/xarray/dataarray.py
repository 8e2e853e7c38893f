"""DataArrays, made without the checks that xarray makes of what users give it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray as xr
    from xarray.indexes import PandasIndex

    Coords = dict[str, npt.NDArray[Any] | PandasIndex]
    """One-dimensional coordinates, or their indexes, by the dimension they belong to; scalars by their name."""


def index_of(values: npt.NDArray[Any], dim: str) -> PandasIndex:
    """The index of a coordinate. Parts of it are cheaper to take (`isel`) than to make."""
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    from xarray.indexes import PandasIndex

    return PandasIndex(pd.Index(values, copy=False), dim)


def data_array(
    data: Any,
    dims: tuple[str, ...],
    coords: Coords,
    attrs: dict[str, Any],
    name: Any,
    encoding: dict[str, Any] | None = None,
) -> xr.DataArray:
    """As `xr.DataArray` of these, with an encoding.

    The constructor looks at coordinates several times over and copies attrs deeply: on small windows that takes longer
    than the read (0.9 ms of a busy machine, against 0.1 ms this way).
    """
    make = _directly if _direct_way_works() else _plainly
    array = make(data, dims, coords, attrs, name)
    if encoding is not None:
        array.variable.encoding = encoding
    return array


def _plainly(data: Any, dims: tuple[str, ...], coords: Coords, attrs: dict[str, Any], name: Any) -> xr.DataArray:
    import numpy as np
    import xarray as xr

    plain: dict[str, Any] = {}
    for dim, part in coords.items():
        values = part if isinstance(part, np.ndarray) else part.index
        plain[dim] = (dim if values.ndim else (), values)
    return xr.DataArray(data, dims=dims, coords=plain, attrs=attrs, name=name)


def _directly(data: Any, dims: tuple[str, ...], coords: Coords, attrs: dict[str, Any], name: Any) -> xr.DataArray:
    import numpy as np
    import xarray as xr

    indexes: dict[Any, Any] = {}
    variables: dict[Any, Any] = {}
    for dim, part in coords.items():
        if isinstance(part, np.ndarray) and part.ndim == 0:
            variables[dim] = xr.Variable((), part)
            continue
        index = index_of(part, dim) if isinstance(part, np.ndarray) else part
        indexes[dim] = index
        variables.update(index.create_variables())
    variable = xr.Variable(dims, data, attrs, fastpath=True)
    return xr.DataArray(variable, coords=variables, indexes=indexes, name=name, fastpath=True)


@cache
def _direct_way_works() -> bool:
    """Whether this xarray still has the way in, and makes the same of it."""
    import numpy as np

    coords: Coords = {"y": np.arange(2.0), "x": np.arange(3), "band": np.array(1)}
    try:
        made, plain = (make(np.zeros((2, 3)), ("y", "x"), coords, {"a": 1}, "name") for make in (_directly, _plainly))
        return made.identical(plain) and made.sel(x=2).identical(plain.sel(x=2))
    except Exception:  # Whatever a future version says of arguments that it does not take.
        return False
