"""A bad call raises the class of the contract, with a sentence that names the problem, and the reference agrees.

The tables list what Swath raises; if the reference raises another error, `theirs` names it and `why` states the
reason.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr
from rasterio.transform import Affine

import swath
from agreement import attempt
from bad_calls import OK, READS, WRITES, Bad, Opaque
from samples import ramp, write_rasterio, write_tifffile

NAN = float("nan")


def tags_of_place(*keys: int) -> list[tuple[int, int, int, Any]]:
    scale, tie = (33550, 12, 3, (10.0, 10.0, 0.0)), (33922, 12, 6, (0.0, 0.0, 0.0, 5.0, 6.0, 0.0))
    return [scale, tie, (34735, 3, 4 + len(keys), (1, 1, 0, len(keys) // 4, *keys))]


def plain_file(path: Path) -> None:
    write_rasterio(path, ramp((60, 80), "u2"))


@dataclass
class Files:
    """Files and other sources by name, made on first use."""

    folder: Path
    made: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        if name == "stream":
            return io.BytesIO(Path(self.get("plain")).read_bytes())
        if name not in self.made:
            self.made[name] = self.make(name)
        return self.made[name]

    def make(self, name: str) -> Any:
        plain, three = ramp((60, 80), "u2"), ramp((3, 60, 80), "u2")
        path = self.folder / f"{name}.tif"
        sources = {"none": None, "number": 3, "no-seek": Opaque(), "folder": str(self.folder)}
        if name in sources:
            return sources[name]
        if "://" in name:
            return name
        if name.startswith("missing"):
            return str(self.folder / ("missing.vrt" if name.endswith("vrt") else "missing.tif"))
        zero = "<GDALMetadata><Item name='SCALE' sample='0'>0</Item></GDALMetadata>"
        broken = 'PROJCS["xx"|'
        makers: dict[str, Callable[[], object]] = {
            "plain": lambda: plain_file(path),
            "bands": lambda: write_rasterio(path, three),
            "floats": lambda: write_rasterio(path, plain.astype("f4") + 0.5),
            "nodata": lambda: write_rasterio(path, plain, nodata=5),
            "scaled": lambda: write_rasterio(path, plain, scales=(0.1,), nodata=5),
            "scaled-bands": lambda: write_rasterio(path, three, scales=(0.1, 0.2, 0.3)),
            "scaled-by-nothing": lambda: write_tifffile(path, plain, [(42112, 2, len(zero) + 1, zero)]),
            "nowhere": lambda: write_rasterio(path, plain, crs=None, transform=None),
            "tilted": lambda: write_rasterio(path, plain, transform=Affine(10, 2, 5, 1, -20, 4)),
            "levels": lambda: write_rasterio(path, ramp((300, 400), "u2"), overviews=[2, 4, 8]),
            "empty": lambda: path.write_bytes(b""),
            "junk": lambda: path.write_bytes(b"hello world, this is no image" * 10),
            "truncated": lambda: path.write_bytes(Path(self.get("plain")).read_bytes()[:300]),
            "flat": lambda: write_tifffile(path, plain, [(33550, 12, 3, (0.0, 1.0, 0.0)), *tags_of_place()[1:2]]),
            "nan-in-integers": lambda: write_tifffile(path, plain, [(42113, 2, 4, "nan")]),
            "contradiction": lambda: write_tifffile(path, plain, tags_of_place(1024, 0, 1, 2, 3072, 0, 1, 32633)),
            "broken-wkt": lambda: write_tifffile(
                path,
                plain,
                [*tags_of_place(1024, 0, 1, 1, 1026, 34737, 12, 0, 3072, 0, 1, 32767), (34737, 2, 13, broken)],
            ),
        }
        makers[name]()
        return str(path)


def placed_array(array: Any, dims: tuple[str, ...] = ("y", "x"), **attrs: Any) -> xr.DataArray:
    """An array with evenly spaced coordinates."""
    sizes = dict(zip(dims, array.shape, strict=True))
    coords = {}
    if "y" in sizes and "x" in sizes:
        coords = {"y": 100.0 - 2 * np.arange(sizes["y"]), "x": 10.0 + 2 * np.arange(sizes["x"])}
    return xr.DataArray(array, dims=dims, coords=coords, attrs={"crs": 32633, **attrs})


def array_of(name: str) -> Any:
    import pyproj

    plain, three = ramp((600, 700), "u2"), ramp((3, 20, 30), "u1")
    moved = np.moveaxis(three, 0, -1)
    wgs84 = pyproj.CRS(4326).to_wkt()
    made: dict[str, Callable[[], Any]] = {
        "plain": lambda: placed_array(plain),
        "numpy": lambda: plain,
        "bands": lambda: placed_array(three, ("band", "y", "x")),
        "bytes": lambda: placed_array(ramp((20, 30), "u1")),
        "signed": lambda: placed_array(ramp((20, 30), "i2")),
        "two-crs": lambda: placed_array(plain, crs=32633, crs_wkt=wgs84),
        "broken-crs": lambda: placed_array(plain, crs="hello"),
        "float-crs": lambda: placed_array(plain, crs=4326.0),
        "two-nodatavals": lambda: placed_array(plain, nodatavals=(5, 6)),
        "nodata-and-nodatavals": lambda: placed_array(plain, nodata=5, nodatavals=(6,)),
        "nodata-text": lambda: placed_array(plain, nodata="x"),
        "nodata-bool": lambda: placed_array(plain, nodata=True),
        "one-pixel": lambda: placed_array(plain[:1, :1]),
        "one-row": lambda: placed_array(plain[:1]),
        "uneven": lambda: placed_array(plain[:3, :4]).assign_coords(x=[0.0, 1, 2, 4]),
        "slightly-uneven": lambda: placed_array(plain[:3, :4]).assign_coords(x=[0.0, 1, 2 + 5e-6, 3]),
        "nan-coordinate": lambda: placed_array(plain[:3, :4]).assign_coords(y=[3.0, 2, NAN]),
        "constant-coordinate": lambda: placed_array(plain[:3, :4]).assign_coords(y=[3.0, 3, 3]),
        "sheared": lambda: placed_array(plain, transform=(10.0, 1.0, 1.0, 0, -10.0, 2.0)),
        "rotated": lambda: placed_array(plain, rotated_affine=(1, 2, 3, 4, 5, 6)),
        "empty": lambda: np.zeros((0, 5)),
        "no-bands": lambda: np.zeros((5, 5, 0)),
        "line": lambda: np.zeros(5),
        "four": lambda: np.zeros((1, 1, 5, 5)),
        "time": lambda: placed_array(three, ("time", "y", "x")),
        "time-last": lambda: placed_array(moved, ("y", "x", "time")),
        "foo-first": lambda: placed_array(three, ("foo", "y", "x")),
        "foo-last": lambda: placed_array(moved, ("y", "x", "foo")),
        "band-between": lambda: placed_array(np.moveaxis(three, 0, 1), ("y", "band", "x")),
        "complex": lambda: np.zeros((5, 5), "c8"),
        "dates": lambda: np.zeros((5, 5), "M8[s]"),
        "strings": lambda: np.zeros((5, 5), "S3"),
        "objects": lambda: np.zeros((5, 5), "O"),
        "extra-tags": lambda: placed_array(plain, extra_tags=[(65000, 3, 1, 7)]),
        "gdal-metadata": lambda: placed_array(plain, gdal_metadata={"A": "1"}),
    }
    return made[name]()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("sources"))


def write(package: ModuleType, bad: Bad, folder: Path) -> Any:
    call = dict(bad.call)
    path = call.pop("path", "out.tif")
    if path == "stream":
        path = io.BytesIO()
    elif path == "folder":
        path = str(folder)
    elif isinstance(path, str) and "://" not in path:
        path = str(folder / path)
    return package.to_geotiff(array_of(bad.data), path, **call)


def check(bad: Bad, outcome: Any) -> None:
    assert outcome.kind == bad.error, f"{outcome} in place of {bad.error or 'an answer'}"
    assert bad.says.lower() in str(outcome.error).lower(), f"{outcome.error} does not speak of {bad.says}"


@pytest.mark.parametrize("bad", READS, ids=lambda bad: bad.id)
def test_bad_read(bad: Bad, files: Files) -> None:
    check(bad, attempt(lambda: swath.open_geotiff(files.get(bad.file), **bad.call)))


@pytest.mark.parametrize("bad", WRITES, ids=lambda bad: bad.id)
def test_bad_write(bad: Bad, tmp_path: Path) -> None:
    check(bad, attempt(lambda: write(swath, bad, tmp_path)))
    assert bad.error == OK or not list(tmp_path.rglob("*")), "a refused write left something behind"


@pytest.mark.parametrize("bad", READS, ids=lambda bad: bad.id)
def test_reference_refuses_the_same_reads(bad: Bad, files: Files, reference: ModuleType) -> None:
    theirs = attempt(lambda: reference.open_geotiff(files.get(bad.file), **bad.call))
    assert theirs.kind == (bad.error if bad.theirs is None else bad.theirs), str(theirs)


@pytest.mark.parametrize("bad", WRITES, ids=lambda bad: bad.id)
def test_reference_refuses_the_same_writes(bad: Bad, tmp_path: Path, reference: ModuleType) -> None:
    theirs = attempt(lambda: write(reference, bad, tmp_path))
    assert theirs.kind == (bad.error if bad.theirs is None else bad.theirs), str(theirs)


def test_every_difference_has_a_reason() -> None:
    assert all(bad.why for bad in (*READS, *WRITES) if bad.theirs is not None)


def test_classes_are_those_of_the_contract(reference: ModuleType) -> None:
    """The same names with the same bases, so that existing except clauses keep working."""
    for name in reference.__all__:
        theirs = getattr(reference, name)
        ours = getattr(swath, name)
        if isinstance(theirs, type):
            assert [base.__name__ for base in ours.__mro__] == [base.__name__ for base in theirs.__mro__], name
        elif name.startswith("GEOREF"):
            assert ours == theirs, name
