"""A direct computation of overviews: each output pixel comes from its block of source pixels, one at a time."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np


def reduced(band: np.ndarray, method: str, nodata: float | None, valid: np.ndarray | None, factor: int) -> np.ndarray:
    """One band at `1 / factor` of its size. Pixels that are nodata, NaN or not `valid` do not contribute."""
    if method == "nearest":
        return np.ascontiguousarray(band[::factor, ::factor])
    good = ~is_missing(band, nodata) if valid is None else valid & ~is_missing(band, nodata)
    height, width = (-(-side // factor) for side in band.shape)
    out = np.full((height, width), fill(band.dtype, nodata), band.dtype)
    for row, col in np.ndindex(height, width):
        block = np.s_[row * factor : (row + 1) * factor, col * factor : (col + 1) * factor]
        values = band[block][good[block]]
        if values.size:
            out[row, col] = beside(METHODS[method](values), band.dtype, nodata)
    return out


def reduced_mask(valid: np.ndarray, method: str, factor: int) -> np.ndarray:
    """The mask of an overview: a pixel is valid if a valid pixel contributes."""
    if method == "nearest":
        return np.ascontiguousarray(valid[::factor, ::factor])
    height, width = (-(-side // factor) for side in valid.shape)
    out = np.zeros((height, width), bool)
    for row, col in np.ndindex(height, width):
        out[row, col] = valid[row * factor : (row + 1) * factor, col * factor : (col + 1) * factor].any()
    return out


def is_missing(values: np.ndarray, nodata: float | None) -> np.ndarray:
    """Whether samples are missing: NaN always; nodata exactly, or within GDAL's tolerance for float32 and float64."""
    missing = np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, bool)
    if nodata is None or values.dtype.kind == "c":
        return missing
    if values.dtype.kind != "f" or values.dtype.itemsize == 2:
        return missing | (values == np.array(nodata).astype(values.dtype))
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
        near = np.abs(wide - nodata) < 2 * float(np.finfo(np.float32).eps) * np.abs(wide + nodata)
    return missing | near | (wide == nodata)


def fill(dtype: np.dtype, nodata: float | None) -> float:
    """The value of a pixel to which nothing contributes."""
    if nodata is not None:
        return nodata
    return np.nan if dtype.kind in "fc" else 0


def beside(value: float, dtype: np.dtype, nodata: float | None) -> float:
    """Replaces a computed value that equals nodata with the nearest other value."""
    one = np.array([value]).astype(dtype)
    if nodata is None or not is_missing(one, nodata)[0]:
        return one[0]
    if dtype.kind in "iu":
        return int(nodata) + 1 if nodata < np.iinfo(dtype).max else int(nodata) - 1
    while is_missing(one, nodata)[0]:
        one = np.nextafter(one, np.array(np.inf, dtype))
    return one[0]


def mean(values: np.ndarray) -> float:
    if values.dtype.kind not in "iu":
        return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64).sum() / values.size
    return rounded(Fraction(sum(map(int, values)), values.size))


def rounded(value: Fraction) -> int:
    """Rounds halves away from zero."""
    return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


def median(values: np.ndarray) -> float:
    ordered, middle = np.sort(values), values.size // 2
    return ordered[middle] if values.size % 2 else mean(ordered[middle - 1 : middle + 1])


def mode(values: np.ndarray) -> float:
    """The most frequent value; of several, the one that reaches that count first."""
    counts: dict[float, int] = {}
    best = values[0]
    for value in values.tolist():
        counts[value] = counts.get(value, 0) + 1
        if counts[value] > counts[best]:
            best = value
    return best


METHODS: dict[str, Callable[[np.ndarray], float]] = {
    "mean": mean, "min": np.min, "max": np.max, "median": median, "mode": mode,
}  # fmt: skip
