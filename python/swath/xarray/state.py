"""Records what a read did to the samples of a file, in the encoding of the array, for a later write.

xarray keeps `encoding` through selections and drops it when values are computed. As long as the record exists, the
values are those of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

KEY = "swath"
"""The key of the state in `encoding`."""

Number = int | float


@dataclass(frozen=True)
class ReadState:
    """The relation between the values of an array and the samples of the file from which they were read."""

    dtype: np.dtype[Any]
    """Type of the samples in the file."""
    shape: tuple[int, int]
    """Rows and columns that were read."""
    nodata: Number | None = None
    """The file's nodata value."""
    masked: bool = False
    """Whether NaN represents nodata."""
    unpacked: bool = False
    """Whether scale and offset were applied."""
    scaling: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Scale and offset of the bands of the file that have them, by band number from 0."""
    cast: bool = False
    """Whether the caller chose the type of the values (`dtype=`)."""
    by_mask: bool = False
    """Whether NaN also represents pixels that the mask of the file marks as invalid."""
    mask_in_samples: bool = False
    """Whether that mask is the last band of the file (alpha); writing that band also writes the mask."""
    mask: Any = field(default=None, compare=False)
    """The mask of the file (`FileMask`) if the read did not apply it; a write of the same pixels writes it again."""
    bands: int = 1
    """The number of bands of the file."""
    sample: int | None = None
    """The band of the file, counted from 0, of a variable without a `band` coordinate."""
    first_label: int = 0
    """The label of the first band of the file in the `band` coordinate: 0 in `open_geotiff`, 1 in `open_rasterio`."""
    attrs: Mapping[str, Any] | None = None
    """Metadata of the file in the form of `open_geotiff`'s attrs, for entries that the array's own attrs lack."""


def state_of(encoding: Mapping[Any, Any]) -> ReadState | None:
    """Returns the state of an array whose values have not been changed since the read."""
    state = encoding.get(KEY)
    return state if isinstance(state, ReadState) else None
