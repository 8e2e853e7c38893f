"""Photometric and the colour interpretation follow the bands of an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr
from rasterio.enums import ColorInterp

import swath
from swath import open_geotiff, to_geotiff
from swath._swath import File

PIXELS = np.random.default_rng(5).integers(0, 256, (5, 40, 50)).astype("u1")
MIN_IS_BLACK, RGB = 1, 2
DOORS = ["open_geotiff", "open_rasterio"]
FILES: dict[str, tuple[int, dict[str, Any]]] = {
    "rgb": (3, {"photometric": "RGB"}),
    "rgba": (4, {"photometric": "RGB", "alpha": "YES"}),
    "premultiplied": (4, {"photometric": "RGB", "alpha": "PREMULTIPLIED"}),
    "rgb and infrared": (4, {"photometric": "RGB", "alpha": "NO"}),
    "rgba and one more": (5, {"photometric": "RGB", "alpha": "YES"}),
    "grey and alpha": (2, {"photometric": "MINISBLACK", "alpha": "YES"}),
    "grey": (1, {}),
    "four grey": (4, {"photometric": "MINISBLACK", "alpha": "NO"}),
    "planes": (3, {"photometric": "RGB", "interleave": "band"}),
}


def made(folder: Path, name: str) -> Path:
    count, options = FILES[name]
    profile = {"driver": "GTiff", "dtype": "uint8", "width": 50, "height": 40, "count": count}
    with rasterio.open(folder / "source.tif", "w", **profile, **options) as file:
        file.write(PIXELS[:count])
    return folder / "source.tif"


def meaning(path: Path) -> tuple[int, list[int], tuple[str, ...]]:
    described = File.open(str(path)).describe()
    with rasterio.open(path) as file:
        return described["photometric"], described["extra_samples"], tuple(color.name for color in file.colorinterp)


def opened(path: Path, door: str, lazy: bool = False, **keywords: Any) -> xr.DataArray:
    found: xr.DataArray = getattr(swath, door)(path, chunks=16 if lazy else None, **keywords)
    return found


@pytest.mark.parametrize("options", [{}, {"cog": True, "tile_size": 16}, {"interleave": "band"}])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", FILES)
def test_colour_interpretation_survives_a_round_trip(
    name: str, door: str, lazy: bool, options: dict[str, Any], tmp_path: Path
) -> None:
    path = made(tmp_path, name)
    array = opened(path, door, lazy)
    to_geotiff(array, tmp_path / "it.tif", **options)
    assert meaning(tmp_path / "it.tif") == meaning(path)
    # Parts of the image, and values computed band by band, keep their colours.
    for other in (array.isel(y=slice(3, 20)), (array // 2).astype("u1"), array.astype("f4")):
        to_geotiff(other, tmp_path / "it.tif", **options)
        found, expected = meaning(tmp_path / "it.tif"), meaning(path)
        assert (found[0], found[2]) == (expected[0], expected[2])


@pytest.mark.parametrize("name", ["grey", "four grey"])
def test_files_without_colours_have_no_colour_attributes(name: str, tmp_path: Path) -> None:
    assert "colorinterp" not in open_geotiff(made(tmp_path, name)).attrs


SELECTIONS: dict[str, tuple[Any, int, tuple[str, ...]]] = {
    "colours": ([0, 1, 2], RGB, ("red", "green", "blue")),
    "reordered": ([2, 1, 0, 3], MIN_IS_BLACK, ("blue", "green", "red", "alpha")),
    "alpha first": ([3, 0], MIN_IS_BLACK, ("alpha", "red")),
    "two": ([0, 3], MIN_IS_BLACK, ("red", "alpha")),
    "one": ([1], MIN_IS_BLACK, ("green",)),
    "scalar": (1, MIN_IS_BLACK, ("green",)),
}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", SELECTIONS)
def test_selected_bands_keep_their_own_colours(name: str, door: str, lazy: bool, tmp_path: Path) -> None:
    path = made(tmp_path, "rgba")
    numbers, photometric, colors = SELECTIONS[name]
    first = 0 if door == "open_geotiff" else 1
    labels = np.add(numbers, first).tolist()
    whole = opened(path, door, lazy)
    for part in (whole.isel(band=numbers), whole.sel(band=labels), opened(path, door, lazy, band=labels)):
        to_geotiff(part, tmp_path / "it.tif")
        found = meaning(tmp_path / "it.tif")
        assert (found[0], found[2]) == (photometric, colors)
        # Alpha is an extra sample by name, and no other band becomes alpha.
        extras = colors[len(colors) - len(found[1]) :]
        assert found[1] == [2 if color == "alpha" else 0 for color in extras]
        with rasterio.open(tmp_path / "it.tif") as file:
            np.testing.assert_array_equal(file.read(), PIXELS[np.atleast_1d(numbers)])


@pytest.mark.parametrize("door", DOORS)
def test_values_computed_from_several_bands_have_no_colour(door: str, tmp_path: Path) -> None:
    array = opened(made(tmp_path, "rgb"), door)
    for other in (array.mean("band"), array.isel(band=0) * 1.0 - array.isel(band=1)):
        to_geotiff(other, tmp_path / "it.tif")
        assert meaning(tmp_path / "it.tif")[::2] == (MIN_IS_BLACK, ("undefined",))


@pytest.mark.parametrize("door", DOORS)
def test_a_premultiplied_alpha_stays_so_beside_other_bands(door: str, tmp_path: Path) -> None:
    array = opened(made(tmp_path, "premultiplied"), door)
    to_geotiff(array.isel(band=[2, 1, 0, 3]), tmp_path / "it.tif")
    assert meaning(tmp_path / "it.tif")[1] == [0, 0, 1]


@pytest.mark.parametrize("door", DOORS)
def test_the_caller_decides_in_the_end(door: str, tmp_path: Path) -> None:
    array = opened(made(tmp_path, "rgb and infrared"), door)
    to_geotiff(array, tmp_path / "it.tif", photometric="minisblack")
    assert meaning(tmp_path / "it.tif")[0] == MIN_IS_BLACK
    to_geotiff(array, tmp_path / "it.tif", photometric="rgba")
    assert meaning(tmp_path / "it.tif")[1] == [2]
    plain = opened(made(tmp_path, "four grey"), door)
    to_geotiff(plain, tmp_path / "it.tif", photometric="rgb")
    assert meaning(tmp_path / "it.tif") == (RGB, [0], ("red", "green", "blue", "undefined"))


def test_infrared_does_not_become_alpha(tmp_path: Path) -> None:
    """Four bands of a satellite are not red, green, blue and transparency."""
    to_geotiff(np.moveaxis(PIXELS[:4], 0, -1), tmp_path / "it.tif")
    assert meaning(tmp_path / "it.tif")[:2] == (MIN_IS_BLACK, [0, 0, 0])


def test_colours_that_the_user_gives_are_written(tmp_path: Path) -> None:
    colors = ("red", "green", "blue", "alpha")
    array = xr.DataArray(PIXELS[:4], dims=("band", "y", "x"), attrs={"colorinterp": colors})
    to_geotiff(array, tmp_path / "it.tif")
    assert meaning(tmp_path / "it.tif") == (RGB, [2], colors)
    with rasterio.open(tmp_path / "it.tif") as file:
        assert file.colorinterp == (ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha)


@pytest.mark.parametrize("door", DOORS)
def test_a_palette_follows_its_band_and_no_computed_value(door: str, tmp_path: Path) -> None:
    path = made(tmp_path, "grey")
    colors = {number: (number, 255 - number, number // 2, 255) for number in range(256)}
    with rasterio.open(path, "r+") as file:
        file.write_colormap(1, colors)
    array = opened(path, door)
    to_geotiff(array.isel(x=slice(5, 9)), tmp_path / "it.tif")
    assert meaning(tmp_path / "it.tif")[::2] == (3, ("palette",))
    with rasterio.open(tmp_path / "it.tif") as file:
        assert file.colormap(1) == colors
    to_geotiff(array * 0.5, tmp_path / "it.tif")
    assert meaning(tmp_path / "it.tif")[0] == MIN_IS_BLACK
