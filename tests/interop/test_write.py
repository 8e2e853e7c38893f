"""GDAL, tifffile and Swath read back every file that Swath writes with equal pixels."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
import rasterio

import write_cases
from binary import Swath
from case import assert_same, gdal_mask, gdal_pixels
from readers import gdal_lacks, tifffile_levels, without_lost_nan
from write_cases import Conversion

CASES = list(write_cases.conversions())
# The noise of the pictures is at 42 dB; a wrong colour model, band order or quantisation table gives less than 20 dB.
LEAST_PSNR = 32
MOST_REFUSED, MOST_WITHOUT_GDAL = 0.25, 0.2


@pytest.mark.parametrize("made", CASES, ids=lambda made: made.id)
def test_three_readers_agree_with_what_went_in(made: Conversion, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    made.write_source(source)
    run = swath.run("convert", source, path, *made.arguments())
    if made.refusal:
        assert_refused(run, path, made.refusal)
        return
    assert run.code == 0, run.stderr
    assert [file.name for file in tmp_path.iterdir() if file != source] == ["out.tif"]
    want = made.expected()
    levels = [swath.read(path, "--overview", level) for level in range(len(made.level_sizes()))]
    assert_close(levels[0], want, made)
    assert [level.shape[1:] for level in levels] == made.level_sizes()

    others, limit = tifffile_levels(path, made)
    for level, other in enumerate(others):
        assert_same(without_lost_nan(other, levels[level], made), levels[level], made.lossy)
    if gdal_lacks(made.codec):
        assert not limit, f"no peer can read this: {limit}"
    else:
        check_with_gdal(made, path, levels)
    if made.mask == "mask":
        assert_same(swath.read(path, "--mask"), np.where(made.valid(), 255, 0).astype(np.uint8))


def check_with_gdal(made: Conversion, path: Path, levels: list[np.ndarray]) -> None:
    for level, ours in enumerate(levels):
        assert_same(gdal_pixels(path, level), ours, made.lossy)
    with rasterio.open(path) as dataset:
        structure = dataset.tags(ns="IMAGE_STRUCTURE")
        assert len(dataset.overviews(1)) == len(made.overviews)
        assert structure.get("LAYOUT") == ("COG" if made.layout == "cog" else None)
        assert path.read_bytes()[2] == (43 if made.bigtiff else 42)
        nodata = made.nodata if made.new_nodata is None else made.new_nodata
        assert dataset.nodata == pytest.approx(nodata, nan_ok=True)
        if made.layout != "strips":
            assert dataset.block_shapes[0] == made.block
        if made.shape[0] > 1:
            assert structure["INTERLEAVE"].lower() == made.interleave
        if made.mask == "alpha":
            assert dataset.colorinterp[-1].name == "alpha"
    if made.mask == "mask":
        assert_same(gdal_mask(path), np.where(made.valid(), 255, 0).astype(np.uint8))


def assert_refused(run, path: Path, reason: str) -> None:
    assert run.code in (1, 2), f"exit {run.code}, but {reason}"
    assert len(run.stderr.splitlines()) == 1 and "panicked" not in run.stderr, run.stderr
    assert not path.exists()
    assert [file.name for file in path.parent.iterdir()] == ["in.tif"]


def assert_close(got: np.ndarray, want: np.ndarray, made: Conversion) -> None:
    """Checks that pixels are equal, or within the error that the codec allows."""
    if made.lossy:
        assert got.shape == want.shape and got.dtype == want.dtype
        error = np.mean((got.astype(float) - want.astype(float)) ** 2)
        psnr = 20 * np.log10(np.iinfo(want.dtype).max / np.sqrt(max(error, 1e-9)))
        assert psnr > LEAST_PSNR, f"{psnr:.1f} dB"
    elif made.max_z_error:
        assert got.shape == want.shape and got.dtype == want.dtype
        numbers = np.isfinite(want)
        assert_same(got[~numbers], want[~numbers])
        error = np.abs(got[numbers].astype(np.longdouble) - want[numbers].astype(np.longdouble))
        assert error.size == 0 or error.max() <= made.max_z_error
    else:
        assert_same(got, want)


@pytest.mark.parametrize("made", [made for made in CASES if not made.lossy][::4], ids=lambda made: made.id)
def test_part_of_an_image(made: Conversion, swath: Swath, tmp_path: Path) -> None:
    """A window and some of the bands, in any order and with one repeated."""
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    made.write_source(source)
    rng = Random(made.number)
    bands, height, width = made.shape
    top, left = rng.randrange(height), rng.randrange(width)
    bottom, right = rng.randint(top + 1, height), rng.randint(left + 1, width)
    chosen = [rng.randint(1, bands) for _ in range(rng.randint(1, bands + 1))]
    flags = ["--window", f"{top},{left},{bottom},{right}", "--bands", ",".join(map(str, chosen))]
    layout = rng.choice([["--cog", "--tile", 16], ["--tile", "32x48"], ["--strips", 5], ["--interleave", "band"]])
    swath.succeed("convert", source, path, *flags, *layout, "--memory", rng.choice(["1", "1GiB"]))
    want = np.ascontiguousarray(made.array()[[band - 1 for band in chosen], top:bottom, left:right])
    assert_same(swath.read(path), want)
    assert_same(gdal_pixels(path), want)
    if made.mask == "mask":
        valid = np.where(made.valid()[top:bottom, left:right], 255, 0).astype(np.uint8)
        assert_same(gdal_mask(path), valid)


def test_most_cases_are_written_and_read_by_all() -> None:
    """Too many refused cases would leave the comparison without content and nobody would see it."""
    refused = [made.id for made in CASES if made.refusal]
    assert len(refused) <= MOST_REFUSED * len(CASES), len(refused)
    without = [made.id for made in CASES if gdal_lacks(made.codec)]
    assert len(without) <= MOST_WITHOUT_GDAL * len(CASES), len(without)
