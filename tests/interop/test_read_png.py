"""PNG output of `swath read`: which bands become colours and which one becomes transparency."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp

from binary import Swath

PIXELS = np.random.default_rng(5).integers(20, 250, (5, 24, 31), np.uint8)
GRAY, ALPHA, UNDEFINED = ColorInterp.gray, ColorInterp.alpha, ColorInterp.undefined


def tif(path: Path, colors: list[ColorInterp], pixels: np.ndarray = PIXELS, **profile: Any) -> Path:
    """Writes a file whose bands have the given colour interpretations."""
    bands = len(colors)
    height, width = pixels.shape[1:]
    shape = {"width": width, "height": height, "count": bands, "dtype": pixels.dtype}
    with rasterio.open(path, "w", driver="GTiff", **shape, **profile) as file:
        file.write(pixels[:bands])
        file.colorinterp = colors
    return path


def png(path: Path) -> np.ndarray:
    with rasterio.open(path) as file:
        assert file.driver == "PNG"
        return file.read()


def four_bands(path: Path, kind: str) -> Path:
    rgb = [ColorInterp.red, ColorInterp.green, ColorInterp.blue]
    match kind:
        case "alpha":
            return tif(path, [*rgb, ALPHA], photometric="RGB", alpha="YES")
        case "premultiplied":
            return tif(path, [*rgb, ALPHA], photometric="RGB", alpha="PREMULTIPLIED")
        case "rgb-nir":
            return tif(path, [*rgb, UNDEFINED], photometric="RGB", alpha="UNSPECIFIED")
        case "named-nir":
            return tif(path, [*rgb, ColorInterp.nir], photometric="RGB", alpha="UNSPECIFIED")
        case "gray":
            return tif(path, [GRAY, UNDEFINED, UNDEFINED, UNDEFINED], photometric="MINISBLACK")
    raise ValueError(kind)


@pytest.mark.parametrize("bands", [None, "1,2,3,4", "3,2,1,4", "1,4"])
@pytest.mark.parametrize("kind", ["alpha", "premultiplied"])
def test_alpha_of_the_file_is_alpha_of_the_picture(kind: str, bands: str | None, swath: Swath, tmp_path: Path) -> None:
    file, out = four_bands(tmp_path / "a.tif", kind), tmp_path / "a.png"
    swath.succeed("read", file, out, *(["--bands", bands] if bands else []))
    chosen = [int(band) - 1 for band in (bands or "1,2,3,4").split(",")]
    assert np.array_equal(png(out), PIXELS[chosen])
    with rasterio.open(out) as picture:
        assert picture.colorinterp[-1] == ALPHA


@pytest.mark.parametrize(
    ("kind", "bands"),
    [
        ("rgb-nir", "1,2,3,4"), ("rgb-nir", "1,4"), ("named-nir", "1,2,3,4"), ("gray", "1,2"), ("gray", "1,2,3,4"),
        ("alpha", "1,2"), ("alpha", "4,1"), ("alpha", "1,2,4,3"), ("alpha", "4,1,2,3"),
    ],
)  # fmt: skip
def test_band_that_is_not_alpha_is_not_transparency(kind: str, bands: str, swath: Swath, tmp_path: Path) -> None:
    file, out = four_bands(tmp_path / "a.tif", kind), tmp_path / "a.png"
    run = swath.run("read", file, out, "--bands", bands)
    assert run.code == 2
    assert f"band {bands[-1]}, is not alpha" in run.stderr
    assert "--bands" in run.stderr and ".npy" in run.stderr and len(run.stderr.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("bands", ["1,2,3,4,5", "1,2,3,3,2,1"])
def test_more_bands_than_a_png_can_hold_are_refused(bands: str, swath: Swath, tmp_path: Path) -> None:
    file, out = tif(tmp_path / "a.tif", [GRAY] + [UNDEFINED] * 4), tmp_path / "a.png"
    run = swath.run("read", file, out, "--bands", bands)
    assert run.code == 2
    assert f"cannot hold {len(bands.split(','))} bands" in run.stderr and ".npy" in run.stderr
    assert not out.exists()


@pytest.mark.parametrize("bands", ["1", "4", "4,3,2", "1,2,3"])
@pytest.mark.parametrize("kind", ["rgb-nir", "named-nir", "gray"])
def test_one_or_three_bands_are_gray_or_colours(kind: str, bands: str, swath: Swath, tmp_path: Path) -> None:
    file, out = four_bands(tmp_path / "a.tif", kind), tmp_path / "a.png"
    swath.succeed("read", file, out, "--bands", bands)
    assert np.array_equal(png(out), PIXELS[[int(band) - 1 for band in bands.split(",")]])


@pytest.mark.parametrize(("kind", "bands"), [("rgb-nir", 3), ("named-nir", 3), ("gray", 1), ("alpha", 4)])
def test_default_bands_always_make_a_picture(kind: str, bands: int, swath: Swath, tmp_path: Path) -> None:
    file, out = four_bands(tmp_path / "a.tif", kind), tmp_path / "a.png"
    swath.succeed("read", file, out)
    assert np.array_equal(png(out), PIXELS[:bands])


@pytest.mark.parametrize(("bands", "count"), [("1", 2), ("1,2,3", 4)])
def test_nodata_is_transparent(bands: str, count: int, swath: Swath, tmp_path: Path) -> None:
    pixels = PIXELS.copy()
    pixels[:, 3:7, 5:9] = 255
    file, out = tif(tmp_path / "a.tif", [GRAY] + [UNDEFINED] * 3, pixels, nodata=255), tmp_path / "a.png"
    swath.succeed("read", file, out, "--bands", bands)
    picture = png(out)
    assert picture.shape[0] == count
    assert np.array_equal(picture[-1] == 0, pixels[0] == 255)


@pytest.mark.parametrize("bands", ["1,9", "1,2,3,9"])
def test_band_that_does_not_exist_is_named(bands: str, swath: Swath, tmp_path: Path) -> None:
    run = swath.run("read", four_bands(tmp_path / "a.tif", "gray"), tmp_path / "a.png", "--bands", bands)
    assert run.code == 1
    assert "band 9" in run.stderr and "alpha" not in run.stderr
