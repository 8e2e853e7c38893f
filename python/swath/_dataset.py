"""A Dataset as one array to write: its variables become bands that have their names."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ._bands import Labels, source_names
from ._errors import ConflictingCRSError, ConflictingNodataError
from ._raster import X_DIMS, Y_DIMS
from ._state import KEY, ReadState, state_of

if TYPE_CHECKING:
    import xarray as xr

_NUMBERED = re.compile(r"band_?\d+", re.IGNORECASE)
"""Names that rioxarray's `band_as_variable` makes, which say less than the `long_name` of the variable."""
_OF_VALUES = ("_FillValue", "missing_value", "dtype", "scale_factor", "add_offset", "rasterio_dtype", "grid_mapping")


def array_of(dataset: xr.Dataset) -> xr.DataArray:
    """The variables of a Dataset as the bands of one DataArray, or its only one as it is."""
    arrays = _variables(dataset)
    if len(arrays) == 1:
        only: xr.DataArray = arrays[0].copy(deep=False)
        only.attrs = {**dataset.attrs, **only.attrs}
        return only
    for array in arrays:
        if array.ndim != 2:
            raise ValueError(
                f"the variable {array.name!r} has the dimensions {array.dims}: of several variables each becomes one "
                f"band, so each must have two. Write it on its own: ds[{array.name!r}].swath.to_geotiff(path)"
            )
    _check_agreement(arrays)
    return _stacked(dataset, [array.transpose(*arrays[0].dims) for array in arrays])


def _variables(dataset: xr.Dataset) -> list[xr.DataArray]:
    """The variables that are images. Others are an error, but for those that only say where the images lie."""
    images, others = [], []
    for name, array in dataset.data_vars.items():
        if {*Y_DIMS} & {*array.dims} and {*X_DIMS} & {*array.dims}:
            images.append(array)
        elif array.ndim:
            others.append(name)
    if not images:
        raise ValueError("Dataset has no variable with 'y' and 'x' dimensions to write: pass var='<name>'")
    if others and len(images) > 1:
        raise ValueError(
            f"the variables {others} of the Dataset have no 'y' and 'x' dimensions and cannot be bands of a file: drop "
            "them, or pass var='<name>' to write one variable"
        )
    return images


def _check_agreement(arrays: list[xr.DataArray]) -> None:
    """One file has one place and one nodata value."""
    for name, error in (("crs", ConflictingCRSError), ("crs_wkt", ConflictingCRSError)):
        if len({str(array.attrs[name]) for array in arrays if name in array.attrs}) > 1:
            raise error(
                f"the variables of the Dataset have different attrs[{name!r}]: reproject them to one system, or write "
                "each on its own"
            )
    for name in ("nodata", "_FillValue"):
        stated = {repr(float(array.attrs[name])) for array in arrays if array.attrs.get(name) is not None}
        if len(stated) > 1:
            raise ConflictingNodataError(
                f"the variables of the Dataset have different attrs[{name!r}] ({', '.join(sorted(stated))}), but a "
                "GeoTIFF has one for all bands. Read them with masked=True, or make them one."
            )


def _stacked(dataset: xr.Dataset, arrays: list[xr.DataArray]) -> xr.DataArray:
    import xarray as xr

    dtype = np.result_type(*(array.dtype for array in arrays))
    parts = [array.data.astype(dtype, copy=False) for array in arrays]
    if any(hasattr(part, "dask") for part in parts):
        import dask.array

        data = dask.array.stack(parts)  # type: ignore[no-untyped-call]
    else:
        data = np.stack(parts) if isinstance(parts[0], np.ndarray) else type(parts[0]).stack(parts)
    stacked = xr.DataArray(data, dims=("band", *arrays[0].dims), coords=_shared_coords(arrays))
    states = [_state_of(array) for array in arrays]
    labels, state = _one_state([each for each in states if each is not None], len(arrays))
    stacked.attrs = _shared(dict(dataset.attrs), [array.attrs for array in arrays], keep_file=state is not None)
    if any(isinstance(array.attrs.get("units"), str) for array in arrays):
        stacked.attrs["units"] = [str(array.attrs.get("units", "")) for array in arrays]
    if state is not None:
        stacked.encoding = {KEY: state}
    shared = _shared({}, [array.encoding for array in arrays], keep_file=False)
    stacked.encoding |= {name: shared[name] for name in _OF_VALUES if name in shared}
    _list_scales(stacked.attrs, [array.attrs for array in arrays])
    _list_scales(stacked.encoding, [array.encoding for array in arrays])
    names = [_name(array) for array in arrays]
    named: xr.DataArray = stacked.assign_coords(band=labels, long_name=("band", names))
    return named


def _state_of(array: xr.DataArray) -> ReadState | None:
    """How a variable was read, and of which band of its file: the one that it is named after, as `to_dataset` does."""
    state = state_of(array.encoding)
    if state is None or state.sample is not None or state.bands == 1:
        return state
    labels = Labels([array.name], 1, state.first_label)
    (sample,) = labels.positions(state.bands, source_names({**(state.attrs or {}), **array.attrs}, state.bands))
    if sample is None and len(set(state.scaling.values())) > 1:
        warnings.warn(
            f"the bands of the source have different scales, and which of them the variable {array.name!r} is cannot "
            "be told by its name, so it is written without a scale",
            UserWarning,
            stacklevel=5,
        )
    return replace(state, sample=sample)


def _shared_coords(arrays: list[xr.DataArray]) -> dict[Any, Any]:
    return {name: coord for name, coord in arrays[0].coords.items() if name not in ("band", "long_name")}


def _list_scales(stacked: dict[Any, Any], each: list[Any]) -> None:
    """Scale and offset of each variable, as rioxarray lists those of bands."""
    for one, many, plain in (("scale_factor", "scales", 1.0), ("add_offset", "offsets", 0.0)):
        if any(one in where for where in each):
            stacked.pop(one, None)
            stacked[many] = tuple(float(where.get(one, plain)) for where in each)


def _name(array: xr.DataArray) -> str:
    given = array.attrs.get("long_name")
    return given if isinstance(given, str) and _NUMBERED.fullmatch(str(array.name)) else str(array.name)


def _shared(common: dict[str, Any], each: list[Any], *, keep_file: bool) -> dict[str, Any]:
    """What all variables say. What a file says of its bands is not true of bands from several files."""
    for name, value in each[0].items():
        if all(name in other and _same(other[name], value) for other in each[1:]):
            common[name] = value
    if not keep_file:
        for name in ("gdal_metadata", "gdal_metadata_xml", "colorinterp", "_swath_bands", KEY):
            common.pop(name, None)
    common.pop("long_name", None)
    return common


def _same(one: Any, two: Any) -> bool:
    try:
        return bool(np.array_equal(one, two, equal_nan=True))
    except TypeError:
        return bool(one == two)


def _one_state(states: list[ReadState], count: int) -> tuple[list[int], ReadState | None]:
    """Labels for the bands, and how they were read if all were read alike."""
    numbers = list(range(count))
    if len(states) < count:
        return numbers, None
    first = states[0]
    samples = [state.sample for state in states]
    if None not in samples and len(set(samples)) == count and all(_alike(state, first) for state in states):
        return [sample + first.first_label for sample in samples if sample is not None], first
    factors = [_only_scaling(state) for state in states]
    if None in factors or not all(_alike(replace(state, scaling={}), replace(first, scaling={})) for state in states):
        return numbers, None
    scaling = {number: pair for number, pair in enumerate(factors) if pair is not None and pair != (1.0, 0.0)}
    return numbers, replace(first, scaling=scaling, bands=count, first_label=0, attrs=None)


def _only_scaling(state: ReadState) -> tuple[float, float] | None:
    """Scale and offset of a variable: of the only band of its file, or of all bands where they have the same."""
    every = {state.scaling.get(number, (1.0, 0.0)) for number in range(state.bands)}
    return every.pop() if len(every) == 1 else None


def _alike(one: ReadState, two: ReadState) -> bool:
    return replace(one, sample=None, attrs=None, bands=1) == replace(two, sample=None, attrs=None, bands=1)
