"""What a read did to the samples of a file, kept in the encoding of the array for the write that may follow.

xarray keeps `encoding` through selections and drops it when values are computed, so it says just what a writer has to
know: as long as it is there, the values are those of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

KEY = "swath"
"""Where the state is in `encoding`."""

Number = int | float


@dataclass(frozen=True)
class ReadState:
    """How values of an array relate to the samples of the file they were read from."""

    dtype: np.dtype[Any]
    """Type of the samples in the file."""
    shape: tuple[int, int]
    """Rows and columns that were read."""
    nodata: Number | None = None
    """The file's nodata value."""
    masked: bool = False
    """Whether NaN stands for nodata."""
    unpacked: bool = False
    """Whether scale and offset were applied."""
    scaling: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Scale and offset of the bands of the file that have them, by band number from 0."""
    cast: bool = False
    """Whether the caller chose the type of the values (`dtype=`)."""
    by_mask: bool = False
    """Whether NaN also stands for what the file's mask leaves out."""
    mask_in_samples: bool = False
    """Whether that mask is the last band of the file (alpha), which a write of that band writes again."""
    mask: Any = field(default=None, compare=False)
    """The file's mask (`FileMask`) where the read did not apply it; a write of the same pixels writes it again."""
    bands: int = 1
    """Bands of the file."""
    sample: int | None = None
    """The band of the file, from 0, of a variable that has no `band` coordinate to say it."""
    first_label: int = 0
    """The label of the first band of the file in the `band` coordinate: 0 in `open_geotiff`, 1 in `open_rasterio`."""
    attrs: Mapping[str, Any] | None = None
    """What the file says besides pixels and place, as attrs of `open_geotiff`, where the array's own attrs do not."""


def state_of(encoding: Mapping[Any, Any]) -> ReadState | None:
    """The state of an array whose values are as they were read."""
    state = encoding.get(KEY)
    return state if isinstance(state, ReadState) else None
