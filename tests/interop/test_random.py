"""Random re-encodings: compares pixels, masks, levels, windows and metadata of each file with GDAL."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from rasterio.windows import Window

import info
import random_cases
from binary import Swath
from case import assert_same, gdal_mask, gdal_pixels
from random_cases import Recipe

WINDOWS = 2
MOST_REFUSED = 0.1


@pytest.fixture(scope="module")
def refused() -> dict[str, bool]:
    return {}


@pytest.mark.parametrize("made", list(random_cases.recipes()), ids=lambda made: made.id)
def test_same_as_peer_in_every_way(made: Recipe, swath: Swath, tmp_path: Path, refused: dict[str, bool]) -> None:
    path = random_cases.written(made, tmp_path)
    refused[made.id] = path is None
    if path is None:
        return
    facts = info.expected(path)
    assert not info.differences(swath.info(path), facts)
    sizes = list(zip(facts["level heights"], facts["level widths"], strict=True))
    for level in range(len(sizes)):
        whole = gdal_pixels(path, level)
        assert_same(swath.read(path, "--overview", level), whole, made.lossy)
        if (level == 0 or made.masks_levels) and not made.has_broken_mask:
            assert_same(swath.read(path, "--overview", level, "--mask"), gdal_mask(path, level))
    rng = Random(made.number)
    for _ in range(WINDOWS):
        level = rng.randrange(min(len(sizes), 2))
        (top, bottom), (left, right) = (part(rng, size) for size in sizes[level])
        bands = [rng.randint(1, facts["band count"]) for _ in range(rng.randint(1, facts["band count"]))]
        bands_last = rng.random() < 0.5
        want = gdal_pixels(path, level, Window.from_slices((top, bottom), (left, right)), bands)
        flags = ["--window", f"{top},{left},{bottom},{right}", "--bands", ",".join(map(str, bands))]
        flags += ["--overview", level, "--threads", rng.choice([1, 3])]
        flags += ["--layout", "bands-last" if bands_last else "bands-first"]
        want = np.ascontiguousarray(np.moveaxis(want, 0, -1)) if bands_last else want
        assert_same(swath.read(path, *flags), want, made.lossy)


def part(rng: Random, size: int) -> tuple[int, int]:
    start = rng.randrange(size)
    return start, rng.randint(start + 1, size)


def test_few_recipes_are_refused(refused: dict[str, bool]) -> None:
    """Too many refused recipes would leave the comparison without cases and nobody would see it."""
    assert sum(refused.values()) <= MOST_REFUSED * max(len(refused), 1), [name for name, no in refused.items() if no]
