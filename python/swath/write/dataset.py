"""Converts a Dataset to one array to write: its variables become bands with their names."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConflictingCRSError, ConflictingNodataError
from ..read.nodata import matchable
from ..xarray.state import KEY, Number, ReadState, state_of
from .bands import as_sequence, is_mixed
from .gdal_metadata import band_infos
from .placement import grid_mappings
from .raster import X_DIMS, Y_DIMS, is_dask
from .storage import FILL_NAMES, encoded_fill, fill_of, nodata_of_attrs

if TYPE_CHECKING:
    import xarray as xr

    from .._swath import BandInfo

_NUMBERED = re.compile(r"band_?\d+", re.IGNORECASE)
"""Names made by rioxarray's `band_as_variable`; the `long_name` of the variable is more informative."""
_OF_VALUES = (*FILL_NAMES, "dtype", "scale_factor", "add_offset", "rasterio_dtype")
_OF_FILE = ("gdal_metadata", "gdal_metadata_xml", "colorinterp", "_swath_bands", KEY)
_OF_PLACE = ("crs", "crs_wkt", "transform", "raster_type", "AREA_OR_POINT", "rotated_affine", "_swath_no_georef")
_NO_SCALE = (1.0, 0.0)


def array_of(dataset: xr.Dataset, *, has_crs: bool, has_nodata: bool) -> xr.DataArray:
    """Returns the variables of a Dataset as the bands of one DataArray, or its only variable unchanged.

    `has_crs` and `has_nodata`: whether the caller passes them, so that the variables may disagree.
    """
    # A CRS that was read from netCDF is a variable.
    dataset = dataset.set_coords([name for name, array in dataset.data_vars.items() if not array.ndim])
    arrays = _images(dataset)
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
    if not has_crs:
        _check_crs(arrays)
    # `to_dataset("band")` moves the attributes of the variables to the Dataset.
    turned = (array.transpose(*arrays[0].dims) for array in arrays)
    variables = [_Variable(array.assign_attrs({**dataset.attrs, **array.attrs})) for array in turned]
    return _stacked(variables, None if has_nodata else _common_nodata(variables))


def _images(dataset: xr.Dataset) -> list[xr.DataArray]:
    """Returns the variables that are images.

    Raises ValueError for other variables, which the caller may expect as bands.
    """
    images: list[xr.DataArray] = []
    others = []
    for name, array in dataset.data_vars.items():
        if {*Y_DIMS} & {*array.dims} and {*X_DIMS} & {*array.dims}:
            images.append(array)
        else:
            others.append(name)
    if not images:
        raise ValueError("Dataset has no variable with 'y' and 'x' dimensions to write: pass var='<name>'")
    if others and len(images) > 1:
        raise ValueError(
            f"the variables {others} of the Dataset have no 'y' and 'x' dimensions and cannot be bands of a file: drop "
            "them, or pass var='<name>' to write one variable"
        )
    return images


@dataclass(frozen=True)
class _Variable:
    """A variable that becomes a band."""

    array: xr.DataArray

    @cached_property
    def state(self) -> ReadState | None:
        """How the variable was read, by Swath or by rioxarray."""
        encoding = self.array.encoding
        if (state := state_of(encoding)) is not None or "rasterio_dtype" not in encoding:
            return state
        is_scaled = not encoding.keys().isdisjoint(("scale_factor", "add_offset"))
        where: Mapping[Any, Any] = encoding if is_scaled else self.array.attrs
        pair = float(where.get("scale_factor", 1.0)), float(where.get("add_offset", 0.0))
        fill = encoded_fill(encoding)
        return ReadState(
            dtype=np.dtype(encoding["rasterio_dtype"]),
            shape=(self.array.shape[0], self.array.shape[1]),
            nodata=fill,
            masked=fill is not None,
            unpacked=is_scaled,
            scaling={} if pair == _NO_SCALE else {0: pair},
        )

    @cached_property
    def infos(self) -> list[BandInfo]:
        """The metadata of the bands of its file."""
        state = self.state
        if state is None:
            return []
        return band_infos({**(state.attrs or {}), **self.array.attrs}, state.bands)

    @cached_property
    def sample(self) -> int | None:
        """Its band in its file, counted from 0."""
        state = self.state
        if state is None or state.sample is not None or state.bands == 1:
            return None if state is None else state.sample or 0
        label: Any = self.array.name  # `to_dataset("band")` turns labels into names.
        if "band" in self.array.coords and not self.array.coords["band"].ndim:
            label = self.array.coords["band"].item()
        if isinstance(label, str):
            names = [info.get("description") for info in self.infos]
            return names.index(label) if names.count(label) == 1 else None
        number = int(label) - state.first_label if isinstance(label, int | np.integer) else -1
        return number if 0 <= number < state.bands else None

    @property
    def scale(self) -> tuple[float, float] | None:
        """Returns the scale and offset of its samples; None if several are possible."""
        if self.state is None:
            return _NO_SCALE
        scaling = self.state.scaling
        if self.sample is not None:
            return scaling.get(self.sample, _NO_SCALE)
        every = {scaling.get(number, _NO_SCALE) for number in range(self.state.bands)}
        return every.pop() if len(every) == 1 else None

    @property
    def nodata(self) -> Number | None:
        """Returns the value of missing pixels."""
        kind = self.array.dtype.kind
        if kind == "b":
            return None
        if fill_of(self.array) is not None or (self.state is not None and self.state.masked):
            return math.nan
        if is_mixed(self.array):
            return math.nan if kind == "f" else None
        return nodata_of_attrs(self.array.attrs)

    @property
    def name(self) -> str:
        """The name of the band; empty if `to_dataset` made the name from a number."""
        name, given = self.array.name, self.array.attrs.get("long_name")
        if isinstance(name, str) and not (_NUMBERED.fullmatch(name) and self.state is not None):
            return given if isinstance(given, str) and _NUMBERED.fullmatch(name) else name
        return self._said("long_name", "description")

    @property
    def units(self) -> str:
        return self._said("units", "units")

    def _said(self, attribute: str, key: str) -> str:
        """Returns an entry of the attrs, for this band or for all bands, else of the file."""
        given = self.array.attrs.get(attribute)
        if isinstance(given, str):
            return given
        listed, sample = as_sequence(given), self.sample
        if sample is None:
            return ""
        if listed is not None and sample < len(listed):
            return str(listed[sample] or "")
        return str(self.infos[sample].get(key) or "") if sample < len(self.infos) else ""


def _check_crs(arrays: list[xr.DataArray]) -> None:
    """Checks that all variables have the same CRS. A CRS at a coordinate applies to all variables."""
    if any({"crs_wkt", "spatial_ref"} & attrs.keys() for array in arrays for attrs in grid_mappings(array)):
        return
    for name in ("crs", "crs_wkt"):
        if len({str(array.attrs[name]) for array in arrays if array.attrs.get(name) is not None}) > 1:
            raise ConflictingCRSError(
                f"the variables of the Dataset have different attrs[{name!r}]: reproject them to one system, write "
                "each on its own, or pass the one that is meant as crs="
            )


def _common_nodata(variables: list[_Variable]) -> Number | None:
    """Returns the value that marks missing pixels in all variables and is not a valid value of any."""
    stated = {variable.array.name: variable.nodata for variable in variables}
    values = {repr(float(value)): value for value in stated.values() if value is not None}
    if len(values) > 1:
        raise ConflictingNodataError(
            f"the variables of the Dataset have different nodata values ({', '.join(sorted(values))}), but a GeoTIFF "
            "has one for all bands. Read them with masked=True, make them one, or pass nodata=."
        )
    for value in values.values():
        for variable in variables:
            if variable.nodata is None and _can_have(variable.array.dtype, value):
                raise ConflictingNodataError(
                    f"the variable {variable.array.name!r} of the Dataset has no nodata value, others have {value}, "
                    "which may be a real value of it. A GeoTIFF has one for all bands: read them with masked=True, or "
                    "pass nodata=."
                )
        return value
    return None


def _can_have(dtype: np.dtype[Any], value: Number) -> bool:
    if dtype.kind == "b":
        return value in (0, 1)
    return not math.isnan(value) and matchable(value, dtype) is not None


def _stacked(variables: list[_Variable], nodata: Number | None) -> xr.DataArray:
    import xarray as xr

    arrays = [variable.array for variable in variables]
    dtype = np.result_type(*(array.dtype for array in arrays))
    parts = [_as_type(array, dtype) for array in arrays]
    if any(is_dask(part) for part in parts):
        import dask.array

        data = dask.array.stack(parts)  # type: ignore[no-untyped-call]
    else:
        data = np.stack(parts)
    coords = {name: coord for name, coord in arrays[0].coords.items() if name not in ("band", "long_name")}
    stacked = xr.DataArray(data, dims=("band", *arrays[0].dims), coords=coords)
    labels, state, is_one_file = _one_state(variables, dtype)
    stacked.attrs = _attrs(arrays, state is not None, is_one_file)
    # In the order of the source, like all lists in attrs.
    units = [""] * (len(variables) if state is None else state.bands)
    for label, variable in zip(labels, variables, strict=True):
        units[label - (0 if state is None else state.first_label)] = variable.units
    stacked.attrs["units"] = units
    if nodata is not None:
        stacked.attrs["nodata"] = nodata
    shared = _shared([array.encoding for array in arrays])
    is_as_read = state is None or state.masked or state.unpacked
    kept = ("grid_mapping", *_OF_VALUES) if is_as_read else ("grid_mapping",)
    stacked.encoding = {name: shared[name] for name in kept if name in shared}
    if state is not None:
        stacked.encoding[KEY] = state
    names = [variable.name for variable in variables]
    named: xr.DataArray = stacked.assign_coords(band=labels, long_name=("band", names))
    return named


def _as_type(array: xr.DataArray, dtype: np.dtype[Any]) -> Any:
    """Returns the pixels in a type that holds those of all variables; 64-bit integers may not fit a float."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or dtype.kind not in "fc":
        return array.data.astype(dtype, copy=False)
    name = array.name

    def cast(block: Any) -> Any:
        made = block.astype(dtype)
        with np.errstate(invalid="ignore"):
            same = made.astype(block.dtype) == block
        if not bool(same.all()):
            raise ValueError(
                f"the variable {name!r} has integers that {dtype}, the common type of all variables of the Dataset, "
                "cannot represent. Write it on its own, or convert it with astype()."
            )
        return made

    data = array.data
    return data.map_blocks(cast, dtype=dtype, meta=np.empty((0,) * data.ndim, dtype)) if is_dask(data) else cast(data)


def _attrs(arrays: list[xr.DataArray], has_state: bool, is_one_file: bool) -> dict[str, Any]:
    """Returns the attrs that all variables share.

    The band metadata of one file does not apply to bands of several files.
    """
    attrs = _shared([array.attrs for array in arrays])
    # Variables share their coordinates, so computed variables have the position of the others.
    placed = [array.attrs for array in arrays if not array.attrs.keys().isdisjoint(_OF_PLACE)]
    attrs |= {name: value for name, value in _shared(placed).items() if name in _OF_PLACE}
    dropped = {"long_name", "nodata", "nodatavals", *FILL_NAMES}
    if not is_one_file:
        dropped.update(_OF_FILE)
    if has_state:
        dropped.update(("scale_factor", "add_offset", "scales", "offsets"))
    return {name: value for name, value in attrs.items() if name not in dropped}


def _shared(each: list[Any]) -> dict[str, Any]:
    """Returns the entries that all mappings share."""
    first, *others = each or [{}]
    return {name: value for name, value in first.items() if all(_same(other.get(name), value) for other in others)}


def _same(one: Any, two: Any) -> bool:
    try:
        return bool(np.array_equal(one, two, equal_nan=True))
    except TypeError:
        return bool(one == two)


def _one_state(variables: list[_Variable], dtype: np.dtype[Any]) -> tuple[list[int], ReadState | None, bool]:
    """Returns the labels of the bands, how they were read, and whether they are bands of one file."""
    numbers = list(range(len(variables)))
    states = [variable.state for variable in variables if variable.state is not None]
    if not states:
        return numbers, None, False
    first = states[0]
    samples = [variable.sample for variable in variables if variable.sample is not None]
    if len(states) == len(set(samples)) == len(variables) and all(_alike(state, first) for state in states):
        return [sample + first.first_label for sample in samples], first, True
    scales = {number: variable.scale for number, variable in enumerate(variables) if variable.state is not None}
    known = {number: pair for number, pair in scales.items() if pair is not None and pair != _NO_SCALE}
    packed = np.result_type(*(state.dtype for state in states))
    is_type = packed.kind in "iu" or all(state.dtype == packed for state in states)
    one_way = all(_alike(_of_any_file(state, packed), _of_any_file(first, packed)) for state in states)
    if len(states) == len(variables) and is_type and one_way and None not in scales.values():
        return numbers, replace(_of_any_file(first, packed), scaling=known, bands=len(variables)), False
    # The values are stored unchanged: values that are still packed have a scale.
    raw = {number for number in scales if not getattr(variables[number].state, "unpacked", True)}
    if any(scales[number] is None for number in raw):
        warnings.warn(
            "the bands of a source have different scales and variables of the Dataset have lost the labels of their "
            "bands, so they are written without a scale; select bands with band= or keep the `band` coordinate",
            UserWarning,
            stacklevel=5,
        )
    stated = {number: pair for number, pair in known.items() if number in raw}
    return numbers, ReadState(dtype, first.shape, scaling=stated, bands=len(variables)), False


def _of_any_file(state: ReadState, packed: np.dtype[Any]) -> ReadState:
    """Removes the attributes that apply to the bands of one file only."""
    alone = replace(state, dtype=packed, scaling={}, bands=1, first_label=0, sample=None, attrs=None)
    return replace(alone, mask_in_samples=False)


def _alike(one: ReadState, two: ReadState) -> bool:
    """Whether two variables were read in the same way from files with equal bands."""
    return replace(one, sample=None, attrs=None) == replace(two, sample=None, attrs=None)
