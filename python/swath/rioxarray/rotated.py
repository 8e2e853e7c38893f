"""Two-dimensional coordinates of the pixels of a rotated or sheared image, computed when they are accessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..read.georef import Affine


class Centres:
    """x or y of pixel centres as an indexable object: for a large image they would need more memory than its pixels."""

    def __init__(self, factors: tuple[float, float, float], height: int, width: int) -> None:
        self.factors = factors
        self.shape = height, width
        self.dtype = np.dtype(np.float64)

    def __getitem__(self, key: tuple[Any, Any]) -> npt.NDArray[np.float64]:
        """Accepts integers, slices and one-dimensional index arrays; each applies to its own axis."""
        rows, columns = (np.arange(size)[part] for size, part in zip(self.shape, key, strict=True))
        of_column, of_row, start = self.factors
        start += 0.5 * of_column + 0.5 * of_row
        by_column, by_row = np.asarray(columns * of_column), np.asarray(rows * of_row)
        centres: npt.NDArray[np.float64] = by_column + by_row.reshape(by_row.shape + (1,) * by_column.ndim) + start
        return centres


def rotated_coords(transform: Affine, height: int, width: int) -> dict[str, Any]:
    """Returns xc and yc; the names are rioxarray's."""
    # Imports xarray on first use.
    from ..xarray.lazy_array import lazy_array

    a, b, c, d, e, f = transform
    return {
        name: (("y", "x"), lazy_array(Centres(factors, height, width)))
        for name, factors in (("xc", (a, b, c)), ("yc", (d, e, f)))
    }
