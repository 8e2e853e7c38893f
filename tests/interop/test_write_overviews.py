"""Compares the pixels of overviews with an independent computation."""

from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp

from binary import Swath
from case import assert_same, gdal_mask, gdal_pixels
from overview_oracle import METHODS, is_missing, reduced, reduced_mask
from pixels import generator

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
SIZES = cycle([(37, 53), (64, 32), (1, 41), (33, 1), (17, 33), (50, 49)])
FACTORS = cycle([[2], [2, 4], [2, 4, 8], [3], [2, 6], [5]])
KINDS = cycle(["plain", "nodata", "mask", "alpha", "collision"])


@dataclass(frozen=True)
class Pyramid:
    """An image, the resampling of its overviews, and the kind of its missing pixels."""

    dtype: str
    method: str
    size: tuple[int, int]
    factors: list[int]
    kind: str

    @property
    def id(self) -> str:
        height, width = self.size
        return f"{self.dtype}-{self.method}-{self.kind}-{height}x{width}-{'-'.join(map(str, self.factors))}"

    @property
    def nodata(self) -> float | None:
        """A nodata value that no mean can equal, or one that many means equal."""
        if self.kind == "nodata":
            # rasterio passes nodata as a double, so it must be one.
            return -9999.0 if self.dtype.startswith("float") else min(np.iinfo(self.dtype).max // 2, 2**30)
        return 2 if self.kind == "collision" else None

    def array(self) -> np.ndarray:
        """Small values, so that sums of floats are exact and values repeat; and some of the largest integers."""
        rng = generator(self.id)
        kind = np.dtype(self.dtype)
        array = rng.integers(0 if kind.kind == "u" else -4, 9, (2, *self.size)).astype(kind)
        if kind.kind == "c":
            return array + 1j * np.flip(array, 2)
        if kind.kind == "f":
            array /= 4
            array[rng.random(array.shape) < 0.2] = np.nan
        else:
            limits = np.iinfo(kind)
            array[rng.random(array.shape) < 0.1] = limits.max
            array[rng.random(array.shape) < 0.1] = limits.max - 1
            array[rng.random(array.shape) < 0.05] = limits.min
        if self.nodata is not None:
            array[rng.random(array.shape) < 0.3] = self.nodata
            array[:, :9, :11] = self.nodata
        if self.kind == "alpha":
            array[1] = np.where(rng.random(self.size) < 0.4, 0, np.iinfo(kind).max)
        return array

    def valid(self) -> np.ndarray:
        valid = generator(self.id + "mask").random(self.size) < 0.6
        valid[:8, :8] = False
        return valid

    def write(self, path: Path) -> None:
        header = {"count": 2, "height": self.size[0], "width": self.size[1], "dtype": self.dtype, "nodata": self.nodata}
        header |= {"alpha": "yes"} if self.kind == "alpha" else {}
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "w", driver="GTiff", **header) as dataset:
            if self.kind == "alpha":
                dataset.colorinterp = [ColorInterp.gray, ColorInterp.alpha]
            dataset.write(self.array())
            if self.kind == "mask":
                dataset.write_mask(self.valid())

    def levels(self) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Pixels and mask of every level.

        Each level is computed from the coarsest level whose factor divides its own.
        """
        made = {1: (self.array(), self.valid() if self.kind == "mask" else None)}
        for factor in self.factors:
            parent = max(f for f in made if factor % f == 0)
            made[factor] = self.coarser(*made[parent], factor // parent)
        return list(made.values())

    def coarser(self, array: np.ndarray, valid: np.ndarray | None, factor: int) -> tuple:
        bands = []
        for index, band in enumerate(array):
            opaque = array[1] != 0 if self.kind == "alpha" and index == 0 else valid
            bands.append(reduced(band, self.method, self.nodata, opaque, factor))
        return np.stack(bands), None if valid is None else reduced_mask(valid, self.method, factor)


def pyramids() -> list[Pyramid]:
    made = []
    for dtype, method in product([*INTEGERS, "float16", "float32", "float64"], ["nearest", *METHODS]):
        kind = next(KINDS)
        if kind == "alpha" and dtype not in ("uint8", "uint16"):
            kind = "mask"
        if kind == "collision" and dtype == "float64":
            kind = "nodata"  # in single precision, 2 ** 34 doubles count as equal to nodata
        # For doubles, means of means depend on the order of the sum.
        factors = [2] if dtype == "float64" else next(FACTORS)
        made.append(Pyramid(dtype, method, next(SIZES), factors, kind))
    for dtype, method in product(["complex64", "complex128"], ["nearest", "mean"]):
        made.append(Pyramid(dtype, method, next(SIZES), [2, 4], "plain"))
    for method in ["nearest", *METHODS]:
        made.append(Pyramid("uint8", method, (51, 70), [2, 4], "alpha"))
        made.append(Pyramid("float32", method, (51, 70), [2, 4], "collision"))
        made.append(Pyramid("int16", method, (51, 70), [2], "collision"))
    return made


@pytest.mark.parametrize("made", pyramids(), ids=lambda made: made.id)
def test_overviews_are_those_of_the_oracle(made: Pyramid, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    made.write(source)
    factors = [factor for factor, size in zip(made.factors, sizes(made), strict=True) if size]
    flags = ["--overviews", ",".join(map(str, factors)), "--resampling", made.method]
    swath.succeed("convert", source, path, "--cog", "--tile", 16, "--compression", "deflate", *flags)
    for level, (want, valid) in enumerate(made.levels()[: len(factors) + 1]):
        assert_same(canonical(swath.read(path, "--overview", level)), canonical(want))
        assert_same(canonical(gdal_pixels(path, level)), canonical(want))
        if valid is not None:
            mask = np.where(valid, 255, 0).astype(np.uint8)
            assert_same(swath.read(path, "--mask", "--overview", level), mask)
            assert_same(gdal_mask(path, level), mask)


def sizes(made: Pyramid) -> list[tuple[int, int] | None]:
    """The size of every overview; None as soon as nothing gets smaller."""
    found: list[tuple[int, int] | None] = []
    last = made.size
    for factor in made.factors:
        size = -(-made.size[0] // factor), -(-made.size[1] // factor)
        found.append(size if size != last and last else None)
        last = size
    return found


def canonical(array: np.ndarray) -> np.ndarray:
    """Replaces all forms of NaN and zero with one, because the form of a mean is not specified."""
    if array.dtype.kind not in "fc":
        return array
    out = array + 0
    out[np.isnan(out)] = np.nan
    return out


@pytest.mark.parametrize("nodata", [None, 0, 255])
def test_overview_is_never_nodata_where_there_is_data(nodata: int | None, swath: Swath, tmp_path: Path) -> None:
    """Means of 254 and 0 are never 0 or 255 where those are nodata, and no other value takes part."""
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    array = generator(f"holes{nodata}").choice(np.array([0, 1, 254, 255], np.uint8), (1, 64, 64))
    with rasterio.open(source, "w", driver="GTiff", count=1, height=64, width=64, dtype="uint8", nodata=nodata) as file:
        file.write(array)
    swath.succeed("convert", source, path, "--cog", "--tile", 16)
    blocks = array[0].reshape(32, 2, 32, 2)
    has_data = (~is_missing(blocks, nodata)).any(axis=(1, 3))
    assert np.array_equal(gdal_mask(path, 1) > 0, has_data)


def test_oracle_can_fail() -> None:
    band = np.array([[1, 2], [2, 9]], np.uint8)
    answers = {"mean": 4, "min": 1, "max": 9, "median": 2, "mode": 2, "nearest": 1}
    for method, want in answers.items():
        assert reduced(band, method, None, None, 2) == want
    assert reduced(band, "mean", 9, None, 2) == 2
    assert reduced(np.array([[1, 3]], np.uint8), "mean", 2, None, 2) == 3
    assert reduced(np.array([[-1, -2]], np.int8), "mean", None, None, 2) == -2
    assert reduced(np.array([[5, 3], [3, 5]], np.uint8), "mode", None, None, 2) == 3
