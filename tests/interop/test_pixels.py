"""Full reads of every file of the matrix."""

import pytest

from binary import Swath
from case import Case, assert_same, expected
from matrix import matrix

CASES, _ = matrix()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_same_pixels_as_peer(case: Case, swath: Swath, written) -> None:
    path, array = written(case)
    assert_same(swath.read(path), expected(case, path, array), case.lossy)
