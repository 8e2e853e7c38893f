"""Overviews: level 0 is the image, level 1 its first overview."""

from pathlib import Path

import numpy as np
import pytest

import pyramid_cases
from binary import Swath
from case import Case, assert_same, gdal_mask, gdal_pixels, tifffile_pixels
from pyramid_cases import LEVELS, level_size

CASES = list(pyramid_cases.all_cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_generator_makes_two_levels(case: Case, written) -> None:
    path, _ = written(case)
    for level in range(LEVELS + 1):
        got = gdal_pixels(path, level)
        assert got.shape[1:] == level_size(case.id, level)
        if case.id.startswith("subifds"):
            assert_same(got, tifffile_pixels(path, level))


@pytest.mark.parametrize("level", range(LEVELS + 1))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_same_level_as_peer(case: Case, level: int, swath: Swath, written) -> None:
    path, _ = written(case)
    assert_same(swath.read(path, "--overview", level), gdal_pixels(path, level), case.lossy)


# For an .ovr of an image with an internal mask, the overviews have no mask, so no answer is correct.
MASKED = [case for case in CASES if case.id.startswith("masked") and not case.id.endswith("ovr")]


@pytest.mark.parametrize("level", range(LEVELS + 1))
@pytest.mark.parametrize("case", MASKED, ids=lambda case: case.id)
def test_same_mask_of_a_level_as_peer(case: Case, level: int, swath: Swath, written) -> None:
    path, _ = written(case)
    mask = gdal_mask(path, level)
    assert set(np.unique(mask)) == {0, 255}
    assert_same(swath.read(path, "--mask", "--overview", level), mask)


def test_missing_level_is_an_error(swath: Swath, written, tmp_path: Path) -> None:
    path, _ = written(CASES[0])
    run = swath.run("read", path, tmp_path / "out.npy", "--overview", LEVELS + 1)
    assert run.code in (1, 2)
    assert len(run.stderr.splitlines()) == 1
