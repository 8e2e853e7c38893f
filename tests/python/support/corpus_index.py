"""The index of the corpus: one row per file, with GDAL's results for it."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

Row = dict[str, str]


@cache
def rows(root: Path) -> list[Row]:
    with (root / "index.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) > 900, "index.csv was not understood"
    return found
