"""Files of to_geotiff look the same as those of the reference to both readers and rasterio."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from rasterio.transform import Affine

import swath
from agreement import attempt, differences, lacks_a_package
from deliberate import WRITE
from sample_writes import all_writes
from samples import ramp, spell, write_rasterio
from written import Write, levels_of, seen_by_rasterio, view_differences

WRITES = all_writes()


def ignored(label: str) -> frozenset[str]:
    return frozenset(what for entry in WRITE if fnmatch.fnmatchcase(label, entry.call) for what in entry.what)


def test_every_write_has_its_own_name() -> None:
    assert len({write.id for write in WRITES}) == len(WRITES)


def compared(write: Write, folder: Path, reference: ModuleType, ignore: frozenset[str]) -> list[str]:
    """The visible differences between the two files."""
    paths = folder / "ours.tif", folder / "theirs.tif"
    ours = attempt(lambda: swath.to_geotiff(write.data(), str(paths[0]), **write.options))
    theirs = attempt(lambda: reference.to_geotiff(write.data(), str(paths[1]), **write.options))
    if ours.kind != theirs.kind:
        return [] if "outcome" in ignore or lacks_a_package(theirs) else [f"outcome: {ours} / {theirs}"]
    if ours.error:
        return []
    found = [] if ours.value == str(paths[0]) else [f"returned {ours.value!r}"]
    kinds = [{kind for kind, _ in outcome.warned} for outcome in (ours, theirs)]
    if kinds[0] != kinds[1] and "warnings" not in ignore:
        found.append(f"warnings: {ours.warned} / {theirs.warned}"[:400])
    found += view_differences(seen_by_rasterio(paths[0]), seen_by_rasterio(paths[1]), ignore)
    readers = {"swath": swath.open_geotiff, "reference": reference.open_geotiff}
    for name, read in readers.items():
        reads = [
            attempt(lambda path=path, read=read: read(str(path), default_name="d", allow_unparseable_crs=True))
            for path in paths
        ]
        if reads[0].kind != reads[1].kind:
            found += [] if "read" in ignore else [f"read by {name}: {reads[0]} / {reads[1]}"]
        elif not reads[0].error:
            found += [f"{name}'s {line}" for line in differences(reads[0].value, reads[1].value, ignore=ignore)]
    levels = [levels_of(path) for path in paths]
    shapes = [[level.shape for level in side] for side in levels]
    if shapes[0] != shapes[1] and "levels" not in ignore:
        found.append(f"levels: {shapes[0]} / {shapes[1]}")
    for number, (a, b) in enumerate(zip(*levels, strict=False)):
        if a.shape == b.shape and "levels" not in ignore:
            # Sums of floats in another order may differ in the last bit, but not at the full resolution.
            near = 4 * np.finfo(a.dtype).eps if number and a.dtype.kind == "f" else 0.0
            where = np.argwhere(~np.isclose(a, b, rtol=near, atol=0, equal_nan=True))
            if len(where):
                at = tuple(map(int, where[0]))
                found.append(f"level {number}: {len(where)} pixels, first {at}: {a[at]} / {b[at]}")
    return found


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.id)
def test_same_file_for_all_readers(write: Write, tmp_path: Path, reference: ModuleType) -> None:
    label = f"{write.id}: {spell(write.options)}"
    wrong = compared(write, tmp_path, reference, ignored(label))
    assert not wrong, "ours / theirs:\n" + "\n".join(wrong)


def test_every_listed_difference_is_one(tmp_path: Path, reference: ModuleType) -> None:
    """An entry of the table that is no longer needed could hide defects."""
    idle = []
    for entry in WRITE:
        matching = [write for write in WRITES if fnmatch.fnmatchcase(f"{write.id}: {spell(write.options)}", entry.call)]
        if not any(compared(write, tmp_path, reference, frozenset()) for write in matching):
            idle.append(entry.call)
    assert not idle, f"these writes agree with the reference: {idle}"


ROUND_TRIPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "nodata": ({"nodata": 5}, {}),
    "nodata masked": ({"nodata": 5}, {"masked": True}),
    "about": ({"tags": {"A": "1", "TIFFTAG_IMAGEDESCRIPTION": "d", "TIFFTAG_SOFTWARE": "s",
        "TIFFTAG_XRESOLUTION": "72.5", "TIFFTAG_YRESOLUTION": "72", "TIFFTAG_RESOLUTIONUNIT": "2"},
            "descriptions": ("b",)}, {}),
    "point": ({"tags": {"AREA_OR_POINT": "Point"}}, {}),
    "nowhere": ({"crs": None, "transform": None}, {}),
    "crs only": ({"transform": None}, {}),
    "south-up": ({"transform": Affine(10, 0, 5, 0, 20, 6)}, {}),
    "fractions": ({"transform": Affine(1 / 3, 0, 1 / 7, 0, -1 / 9, 2 / 3)}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_round_trip_keeps_every_attr(name: str, tmp_path: Path, reference: ModuleType) -> None:
    """Read with either package, written by Swath, read by both: attrs, coordinates and pixels are bit for bit the
    same.
    """
    made, call = ROUND_TRIPS[name]
    source = str(tmp_path / "source.tif")
    write_rasterio(Path(source), ramp((37, 53), "u2"), **made)
    target = str(tmp_path / "d.tif")
    expected = reference.open_geotiff(source, default_name="d", **call)
    for package in (swath, reference):
        swath.to_geotiff(package.open_geotiff(source, default_name="d", **call), target)
        for reader in (swath, reference):
            wrong = differences(reader.open_geotiff(target, **call), expected)
            assert not wrong, f"{package.__name__} -> swath -> {reader.__name__}: {wrong}"
