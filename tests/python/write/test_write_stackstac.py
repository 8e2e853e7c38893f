"""Arrays in the form of stackstac: coordinates of upper left corners, bands by name, an Affine in attrs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rasterio
import xarray as xr

import swath

CORNER, SIZE = (500_000.0, 4_000_000.0), 10.0


def stack(xy_coords: str = "topleft") -> xr.DataArray:
    """(band, y, x) after `isel(time=0)`."""
    shift = SIZE / 2 if xy_coords == "center" else 0.0
    return xr.DataArray(
        np.arange(480, dtype="uint16").reshape(2, 12, 20),
        dims=("band", "y", "x"),
        coords={
            "band": ["B04", "B08"],
            "y": CORNER[1] - SIZE * np.arange(12) - shift,
            "x": CORNER[0] + SIZE * np.arange(20) + shift,
            "title": ("band", ["Red", "Near infrared"]),
            "epsg": 32633,
            "time": np.datetime64("2026-01-01", "ns"),
        },
        attrs={
            "spec": SimpleNamespace(epsg=32633, bounds=(500_000.0, 3_999_880.0, 500_200.0, 4_000_000.0)),
            "crs": "epsg:32633",
            "transform": rasterio.Affine(SIZE, 0, CORNER[0], 0, -SIZE, CORNER[1]),
            "resolution": SIZE,
        },
    )


@pytest.mark.parametrize("xy_coords", ["topleft", "center"])
@pytest.mark.parametrize(
    ("rows", "columns", "transform"),
    [
        (slice(None), slice(None), (10, 0, 500_000, 0, -10, 4_000_000)),
        (slice(2, None), slice(3, 9), (10, 0, 500_030, 0, -10, 3_999_980)),
        (slice(None, None, 2), slice(None, None, 2), (20, 0, 499_995, 0, -20, 4_000_005)),
        (slice(4, 5), slice(None), (10, 0, 500_000, 0, -10, 3_999_960)),
    ],
)
def test_corner_coordinates_are_not_read_as_centres(
    xy_coords: str, rows: slice, columns: slice, transform: tuple[float, ...], tmp_path: Path
) -> None:
    swath.to_geotiff(stack(xy_coords)[:, rows, columns], tmp_path / "a.tif")
    with rasterio.open(tmp_path / "a.tif") as file:
        assert tuple(file.transform)[:6] == transform
        assert file.crs.to_epsg() == 32633
        assert file.descriptions == ("B04", "B08")
        np.testing.assert_array_equal(file.read(), stack().values[:, rows, columns])
