"""Damaged mosaics and replies of servers: an array or an expected error, in time. `mutation.py` tries more of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutation import run


@pytest.mark.parametrize(("target", "count"), [("mosaic", 400), ("reply", 100)])
def test_damaged_input_gives_an_array_or_an_expected_error(target: str, count: int, tmp_path: Path) -> None:
    tried, outcomes, bad = run(target, tmp_path, seed=1, count=count, seconds=20)
    assert not bad, bad[0]
    assert tried > 20 and outcomes["array"], "some inputs are still good"
    assert len(outcomes) > 1, "and some are not"
