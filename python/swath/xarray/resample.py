"""Samples pixels at fractional positions: nearest, bilinear and cubic along rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Taps = list[tuple[npt.NDArray[np.intp], Floats]]

REACH = 2
"""The number of pixels beyond the two neighbours of a position that contribute to it."""


def sample(pixels: npt.NDArray[Any], rows: Floats, columns: Floats, method: str) -> npt.NDArray[Any]:
    """Returns values at every (row, column) position, counted in pixels from the centre of the first; NaN outside the
    image.

    A NaN pixel has no weight: the other neighbours replace it. With nearest, integers stay integers if all positions
    are inside the image.
    """
    height, width = pixels.shape[:2]
    if method == "nearest":
        return _nearest(pixels, rows, columns)
    values = pixels.astype(np.float64)
    holes = np.isnan(values)
    values[holes] = 0.0
    down, across = _linear(rows, height), _linear(columns, width)
    weight = _mix(_mix((~holes).astype(np.float64), down, 0), across, 1)
    with np.errstate(invalid="ignore"):
        linear = _mix(_mix(values, down, 0), across, 1) / np.where(weight > 0.0, weight, np.nan)
    if method == "bilinear":
        return linear
    down, across = _cubic(rows, height), _cubic(columns, width)
    # The cubic kernel has negative weights: without the pixel of one of them, the sum of the weights is no sensible
    # divisor.
    present = _mix(_mix((~holes).astype(np.float64), _present(rows, height), 0), _present(columns, width), 1)
    return np.where(present == 16.0, _mix(_mix(values, down, 0), across, 1), linear)


def _nearest(pixels: npt.NDArray[Any], rows: Floats, columns: Floats) -> npt.NDArray[Any]:
    down, across = (np.floor(places + 0.5).astype(np.intp) for places in (rows, columns))
    inside_down, inside_across = (down >= 0) & (down < pixels.shape[0]), (across >= 0) & (across < pixels.shape[1])
    picked = pixels[np.clip(down, 0, pixels.shape[0] - 1)][:, np.clip(across, 0, pixels.shape[1] - 1)]
    if inside_down.all() and inside_across.all():
        return picked
    picked = picked.astype(np.float64)
    picked[~inside_down] = np.nan
    picked[:, ~inside_across] = np.nan
    return picked


def _taps(places: Floats, size: int, weights: list[Floats], first: int) -> Taps:
    """Returns the pixels and weights of each position; none outside the image."""
    begin = np.floor(places).astype(np.intp) + first
    taps = []
    for number, weight in enumerate(weights):
        index = begin + number
        taps.append((np.clip(index, 0, size - 1), np.where((index >= 0) & (index < size), weight, 0.0)))
    return taps


def _linear(places: Floats, size: int) -> Taps:
    t = places - np.floor(places)
    return _taps(places, size, [1.0 - t, t], 0)


def _cubic(places: Floats, size: int) -> Taps:
    # Keys' kernel with a = -1/2, as in GDAL's cubic.
    t = places - np.floor(places)
    weights = [
        ((-0.5 * t + 1.0) * t - 0.5) * t,
        (1.5 * t - 2.5) * t * t + 1.0,
        ((-1.5 * t + 2.0) * t + 0.5) * t,
        (0.5 * t - 0.5) * t * t,
    ]
    return _taps(places, size, weights, -1)


def _present(places: Floats, size: int) -> Taps:
    """Returns the taps of the cubic that lie inside the image."""
    return _taps(places, size, [np.ones_like(places)] * 4, -1)


def _mix(values: Floats, taps: Taps, axis: int) -> Floats:
    shape = [1] * values.ndim
    shape[axis] = -1
    mixed = sum(values.take(index, axis) * weight.reshape(shape) for index, weight in taps)
    assert isinstance(mixed, np.ndarray)
    return mixed
