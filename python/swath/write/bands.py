"""The current bands of an array: their names and their positions in the source file.

Attributes survive nearly every operation of xarray, so the order of a tuple in attrs cannot be trusted. Its entries
are looked up by the labels of the `band` coordinate, which follow every selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..xarray.state import ReadState, state_of
from .gdal_metadata import band_infos
from .raster import BAND_DIMS, Raster

T = TypeVar("T")

_NAME_COORDS = ("long_name", "name", "band_name", "band_names", "description", "title", "common_name")
"""Coordinates along `band` that name the bands if the labels are numbers."""


@dataclass(frozen=True)
class Labels:
    """The labels of the bands of an array."""

    values: list[Any] | None
    """None if the array has no band coordinate."""
    count: int
    first: int
    """The label of the first band of the source: 0 in arrays of `open_geotiff`, 1 in those of rioxarray."""

    @property
    def are_names(self) -> bool:
        return self.values is not None and all(isinstance(value, str) for value in self.values)

    def positions(self, total: int, names: Sequence[str | None] = ()) -> list[int | None]:
        """Returns for each band its position among the `total` bands of the source; None if it is not known."""
        every: list[int | None] = list(range(total)) if self.count == total else [None] * self.count
        if self.values is None:
            return every
        found = [self._position(value, total, names) for value in self.values]
        if None not in found:
            return found
        # The user replaced all labels of the source, or the bands come from elsewhere.
        is_other = self.count == total and not (self.are_names and any(place is not None for place in found))
        return every if is_other else found

    def _position(self, value: Any, total: int, names: Sequence[str | None]) -> int | None:
        if isinstance(value, str):
            return names.index(value) if names.count(value) == 1 else None
        if isinstance(value, int) and 0 <= value - self.first < total:
            return value - self.first
        return None

    def pick(self, values: Sequence[T]) -> list[T | None]:
        """Selects, from a sequence with one entry for each band of the source, the entries for the bands of the
        array.
        """
        return [None if place is None else values[place] for place in self.positions(len(values))]


@dataclass(frozen=True)
class Bands:
    """The bands of an array to be written."""

    labels: Labels
    samples: list[int | None]
    """The band of the source file, counted from 0, of each band of the array."""
    names: list[str | None] | None
    """The names in the array; None takes those of the metadata of the source."""

    def position(self, sample: int) -> int | None:
        """Returns the position in the array of a band of the source file."""
        return self.samples.index(sample) if sample in self.samples else None


def bands_of(data: Any, raster: Raster, attrs: Mapping[str, Any], state: ReadState | None) -> Bands:
    """Returns the bands of a DataArray."""
    labels = Labels(_values(data), raster.bands, _first_label(attrs, state))
    total = _total(attrs, state)
    samples: list[int | None] = [None] * raster.bands
    if total:
        samples = labels.positions(total, source_names(attrs, total))
    if state is not None and state.sample is not None and raster.bands == 1:
        samples = [state.sample]
    return Bands(labels, samples, _names(data, attrs, labels))


def unlabelled(raster: Raster) -> Bands:
    """Returns the bands of an array that is not a DataArray: such an array has no names and no attributes."""
    return Bands(Labels(None, raster.bands, 0), [None] * raster.bands, None)


def is_mixed(data: Any) -> bool:
    """Whether an array was computed from several bands of a file: an index, a mean over bands, or a stack of these.

    xarray drops the label when it combines bands with different labels, and the state when it computes values.
    """
    if state_of(data.encoding) is not None or "rasterio_dtype" in data.encoding:
        return False
    attrs = data.attrs
    listed = (as_sequence(attrs.get(name)) for name in ("long_name", "scales", "offsets", "units", "colorinterp"))
    total = max([int(attrs.get("_swath_bands", 1)), *(len(each) for each in listed if each is not None)])
    dim = next((name for name in data.dims if name in BAND_DIMS), None)
    labels = Labels(_values(data), 1 if dim is None else data.sizes[dim], _first_label(attrs, None))
    return total > 1 and all(place is None for place in labels.positions(total, source_names(attrs, total)))


def as_sequence(value: Any) -> list[Any] | None:
    """Returns the entries of a tuple, list or array in attrs; None for text and single values."""
    if isinstance(value, str | bytes) or value is None or np.ndim(value) != 1:
        return None
    return [entry.item() if isinstance(entry, np.generic) else entry for entry in value]


def _values(data: Any) -> list[Any] | None:
    """Returns the labels along the band dimension, or the scalar label that a selection has left."""
    dim = next((name for name in data.dims if name in BAND_DIMS), None)
    if len(data.dims) == 2:
        dim = next((name for name in BAND_DIMS if name in data.coords and data.coords[name].ndim == 0), None)
    if dim is None or dim not in data.coords:
        return None
    values: list[Any] = np.atleast_1d(data.coords[dim].values).tolist()
    return values


def _first_label(attrs: Mapping[str, Any], state: ReadState | None) -> int:
    if state is not None:
        return state.first_label
    return 0 if "_swath_contract" in attrs or "_xrspatial_geotiff_contract" in attrs else 1


def _total(attrs: Mapping[str, Any], state: ReadState | None) -> int:
    """Returns the number of bands of the source; 0 if there is no source or the number is not known."""
    if state is not None:
        return state.bands
    if "_swath_bands" in attrs:
        return int(attrs["_swath_bands"])
    return 1 if "_swath_contract" in attrs else 0


def source_names(attrs: Mapping[str, Any], total: int) -> list[str | None]:
    """Returns the names of the bands of the source."""
    listed = as_sequence(attrs.get("long_name"))
    if listed is not None and len(listed) == total:
        return listed
    return [info.get("description") for info in band_infos(attrs, total)]


def _names(data: Any, attrs: Mapping[str, Any], labels: Labels) -> list[str | None] | None:
    if labels.are_names:
        return labels.values
    dim = next((name for name in data.dims if name in BAND_DIMS), None)
    for name in _NAME_COORDS:
        coord = data.coords.get(name)
        if coord is not None and (coord.dims == (dim,) or (coord.ndim == 0 and labels.count == 1)):
            values = np.atleast_1d(coord.values).tolist()
            if all(isinstance(value, str) for value in values):
                return [value or None for value in values]
    given = attrs.get("long_name")
    if isinstance(given, str):
        return [given] if labels.count == 1 else None
    listed = as_sequence(given)
    if listed is None:
        return None
    names = labels.pick(listed)
    return [str(name) if name else None for name in names]
