"""The dataset mask: 0 or 255 per pixel."""

import numpy as np
import pytest

import mask_cases
from binary import Swath
from case import Case, assert_same, gdal_mask

CASES = list(mask_cases.all_cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_generator_masks_something(case: Case, written) -> None:
    path, truth = written(case)
    mask = gdal_mask(path) if truth is None else truth
    kinds = {0, 255} if "none" not in case.id.split("-")[:2] else {255}
    assert set(np.unique(mask)) == kinds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_same_mask_as_peer(case: Case, swath: Swath, written) -> None:
    path, truth = written(case)
    assert_same(swath.read(path, "--mask"), gdal_mask(path) if truth is None else truth)


@pytest.mark.parametrize("case", CASES[::7], ids=lambda case: case.id)
def test_mask_of_a_window_is_that_window_of_the_mask(case: Case, swath: Swath, written) -> None:
    path, truth = written(case)
    whole = gdal_mask(path) if truth is None else truth
    got = swath.read(path, "--mask", "--window", "3,5,44,39")
    assert_same(got, np.ascontiguousarray(whole[3:44, 5:39]))
