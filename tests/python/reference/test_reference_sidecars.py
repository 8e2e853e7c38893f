"""Packing, categories and colour ramps: files and sidecars equal those of the reference."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr

import swath
from agreement import attempt, differences, disagreement
from samples import ramp, write_rasterio
from written import lazy, place

CLASSES = (ramp((40, 50), "u1") % 3).astype("u1")
HEIGHTS = ramp((40, 50), "f4")


def tree(path: Path) -> Any:
    """XML without white space between elements; numbers as numbers."""

    def plain(element: ElementTree.Element) -> Any:
        attributes = {key: number(value) for key, value in element.attrib.items()}
        return element.tag, attributes, number((element.text or "").strip()), [plain(child) for child in element]

    return plain(ElementTree.fromstring(path.read_text().split("?>")[-1]))


def number(text: str) -> Any:
    try:
        # The reference sums 32-bit floats in 32 bits and prints ten digits.
        return pytest.approx(float(text), rel=1e-6, abs=1e-3)
    except ValueError:
        return text


def beside(folder: Path) -> dict[str, Path]:
    """The sidecars of a file, by suffix."""
    return {path.name.split(".", 1)[1]: path for path in folder.iterdir() if path.suffix in (".xml", ".qml")}


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "names": (lambda: place(CLASSES, category_names=["a", "b", "c"]), {}),
    "names and colours": (
        lambda: place(
            CLASSES, category_names=["a", "b", "c"], category_colors=[(1, 2, 3, 255), (4, 5, 6, 255), (7, 8, 9, 0)]
        ),
        {},
    ),
    "one name": (lambda: place(CLASSES, category_names=["only"]), {}),
    "no names": (lambda: place(CLASSES, category_names=[]), {}),
    "names of other letters": (lambda: place(CLASSES, category_names=["é<&>", "日本", '"']), {}),
    "names of a lazy array": (lambda: lazy(CLASSES, category_names=["a", "b", "c"]), {}),
    "names in a COG": (lambda: place(CLASSES, category_names=["a", "b", "c"]), {"cog": True}),
    "ramp": (lambda: place(HEIGHTS), {"color_ramp": True}),
    "ramp named": (lambda: place(HEIGHTS), {"color_ramp": "Spectral"}),
    "ramp of a range": (lambda: place(HEIGHTS), {"color_ramp": "greys", "color_ramp_range": (0, 10)}),
    "ramp with nodata": (lambda: place(np.where(HEIGHTS > 900, -1, HEIGHTS), nodata=-1), {"color_ramp": "viridis"}),
    "ramp with NaN": (lambda: place(np.where(HEIGHTS > 900, np.nan, HEIGHTS)), {"color_ramp": "terrain"}),
    "ramp of integers": (lambda: place(ramp((40, 50), "i2")), {"color_ramp": "magma"}),
    "ramp of a lazy array": (lambda: lazy(HEIGHTS), {"color_ramp": "plasma"}),
    "ramp of a lazy COG": (lambda: lazy(HEIGHTS), {"color_ramp": "inferno", "cog": True}),
    "ramp of a constant": (lambda: place(np.full((40, 50), 3.0)), {"color_ramp": "cividis"}),
    "ramp of nothing": (lambda: place(np.full((40, 50), np.nan)), {"color_ramp": True}),
    "ramp of bands": (lambda: place(np.stack([HEIGHTS] * 3), ("band", "y", "x")), {"color_ramp": True}),
    "ramp of classes": (lambda: place(CLASSES, category_names=["a"]), {"color_ramp": True}),
    "no ramp": (lambda: place(HEIGHTS), {"color_ramp": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_same_sidecars(name: str, tmp_path: Path, reference: ModuleType) -> None:
    made, options = CASES[name]
    found = []
    for package in (swath, reference):
        folder = tmp_path / package.__name__
        folder.mkdir()
        package.to_geotiff(made(), str(folder / "a.tif"), **options)
        found.append(beside(folder))
    ours, theirs = found
    assert ours.keys() == theirs.keys()
    for ending in ours:
        assert tree(ours[ending]) == tree(theirs[ending]), ending


@pytest.mark.parametrize("writer", ["ours", "theirs"])
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("names")])
def test_same_categories_read(name: str, writer: str, tmp_path: Path, reference: ModuleType) -> None:
    made, options = CASES[name]
    path = str(tmp_path / "a.tif")
    (swath if writer == "ours" else reference).to_geotiff(made(), path, **options)
    for call in ({}, {"chunks": 16}, {"window": (0, 0, 3, 3), "band": 0}):
        assert not differences(swath.open_geotiff(path, **call), reference.open_geotiff(path, **call))


def test_stale_sidecar_goes(tmp_path: Path, reference: ModuleType) -> None:
    for package in (swath, reference):
        path = tmp_path / f"{package.__name__}.tif"
        package.to_geotiff(place(CLASSES, category_names=["a"]), str(path))
        assert Path(f"{path}.aux.xml").exists()
        package.to_geotiff(place(CLASSES), str(path))
        assert not Path(f"{path}.aux.xml").exists()


def with_value(array: xr.DataArray, value: float) -> xr.DataArray:
    array = array.copy()
    array[0, 0] = value
    return array


def without(array: xr.DataArray, *keys: str, **more: Any) -> xr.DataArray:
    array = array.copy()
    array.attrs = {key: value for key, value in array.attrs.items() if key not in keys} | more
    return array


PACKED: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "as read": ({}, lambda array: array, {}),
    "lazy": ({"chunks": 16}, lambda array: array, {}),
    "other nodata": ({}, lambda array: array, {"nodata": 9}),
    "COG": ({}, lambda array: array, {"cog": True}),
    "as float32": ({"dtype": "float32"}, lambda array: array, {}),
    "too large": ({}, lambda array: with_value(array, 1e9), {}),
    "too small": ({}, lambda array: with_value(array, -1e9), {}),
    "infinite": ({}, lambda array: with_value(array, np.inf), {}),
    "too large and lazy": ({"chunks": 16}, lambda array: (array + 1e9).assign_attrs(array.attrs), {}),
    "no nodata": ({}, lambda array: without(array, "nodata"), {}),
    "no scale": ({}, lambda array: without(array, "scale_factor", "add_offset"), {}),
    "no dtype": ({}, lambda array: without(array, "mask_and_scale_dtype"), {}),
    "scale of zero": ({}, lambda array: without(array, scale_factor=0.0), {}),
    "dtype nobody knows": ({}, lambda array: without(array, mask_and_scale_dtype="junk"), {}),
    "half steps": ({}, lambda array: (array + 0.05).assign_attrs(array.attrs), {}),
    "one band": ({"band": 0}, lambda array: array, {}),
}


@pytest.mark.parametrize("kind", ["u2", "i2", "f4"])
@pytest.mark.parametrize("name", PACKED)
def test_packed_as_the_reference_packs(name: str, kind: str, tmp_path: Path, reference: ModuleType) -> None:
    call, change, options = PACKED[name]
    source = tmp_path / "source.tif"
    array = (ramp((40, 50), "i2") % 500).astype(kind)
    write_rasterio(source, array, scales=(0.1,), offsets=(5.0,), nodata=7)
    unpacked = reference.open_geotiff(str(source), unpack=True, **call)
    outcomes = []
    for package in (swath, reference):
        target = str(tmp_path / f"{package.__name__}.tif")
        written = attempt(package.to_geotiff, change(unpacked), target, pack=True, **options)
        outcomes.append(written if written.error else attempt(reference.open_geotiff, target, default_name="d"))
    # Scale and offset stay with their band; 32-bit floats are packed in 64 bits and rounded once.
    ignore = {"attrs gdal_metadata", "attrs gdal_metadata_xml"} | ({"pixels"} if kind == "f4" else set())
    wrong = disagreement(*outcomes, warned=False, ignore=frozenset(ignore))
    assert not wrong, wrong
    if not outcomes[0].error:
        again = [
            package.open_geotiff(str(tmp_path / "swath.tif"), unpack=True).values for package in (swath, reference)
        ]
        np.testing.assert_array_equal(*again)
        np.testing.assert_allclose(outcomes[0].value, outcomes[1].value, rtol=1e-6, atol=1e-5)
