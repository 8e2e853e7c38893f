"""Peak memory of a conversion: it stays below the formula of docs/writing.md and does not grow with the height."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import raw
from binary import Swath

MIB = 1 << 20
THREADS = 2
# An image four times as high may use this much more memory: overviews of a few rows, and its table of blocks.
GROWTH, TABLE = 1.05, 2 * MIB
ATTEMPTS = 4
# Memory that a codec uses per thread.
CODEC = {"none": MIB, "lz4": MIB, "lzw": MIB, "deflate": 8 * MIB, "zstd": 24 * MIB}


@dataclass(frozen=True)
class Image:
    """An input that is large to read and small on disk: all its tiles are the same one."""

    width: int
    dtype: str
    bands: int = 1
    tile: int = 512

    @property
    def row_bytes(self) -> int:
        return self.width * self.bands * np.dtype(self.dtype).itemsize

    def write(self, path: Path, height: int) -> None:
        dtype = np.dtype(self.dtype)
        rows, cols = np.mgrid[0 : self.tile, 0 : self.tile] // 16
        block = np.repeat((rows + cols)[:, :, None], self.bands, axis=2).astype(dtype).tobytes()
        count = math.ceil(self.width / self.tile) * math.ceil(height / self.tile)
        sample_format = raw.short(*[3 if dtype.kind == "f" else 1] * self.bands)
        depth = {"bits": dtype.itemsize * 8, "samples": self.bands}
        fields = raw.tiled(self.width, height, (self.tile, self.tile), sample_format=sample_format, **depth)
        # The first block directly follows the header.
        fields[raw.TILE_OFFSETS] = raw.Field(raw.LONG8, [16] * count)
        fields[raw.TILE_COUNTS] = raw.Field(raw.LONG, [len(block)] * count)
        path.write_bytes(raw.tiff([raw.Directory(fields, [block])], big=True))


@dataclass(frozen=True)
class Case:
    """An image with two heights and the flags of its conversion."""

    image: Image
    heights: tuple[int, int]
    codec: str = "lz4"
    cog: bool = True
    tile: int = 512
    memory: int = 256 * MIB
    flags: list[object] = field(default_factory=list)

    def bound(self, height: int, file_bytes: int) -> int:
        """The formula of docs/writing.md."""
        image, row_bytes = self.image, self.image.row_bytes
        most = max(self.tile, min(self.memory // 4, 16 * MIB) // row_bytes)
        band = max(image.tile, most // image.tile * image.tile)
        held = blocks = 0
        for factor in self.factors(height):
            rows = math.ceil(band / factor)
            if rows % self.tile:
                rows = self.tile if self.tile % rows == 0 else self.tile + rows
            held += rows * row_bytes // factor
            blocks += math.prod(math.ceil(side / factor / self.tile) for side in (image.width, height))
        block = self.tile**2 * row_bytes // image.width
        waiting = held * file_bytes // (height * row_bytes)
        return 2 * held + waiting + THREADS * (4 * block + 4 * MIB + CODEC[self.codec]) + 64 * blocks + 32 * MIB

    def factors(self, height: int) -> list[int]:
        """The factors of all levels: 1, and overviews until one fits in a tile."""
        if not self.cog:
            return [1]
        larger = itertools.takewhile(
            lambda factor: max(self.image.width, height) > self.tile * factor, (1 << i for i in range(32))
        )
        return [1, *(2 * factor for factor in larger)]

    def peak(self, swath: Swath, folder: Path, height: int) -> int:
        """The peak memory that the system reports; it must be below the bound."""
        source, target = folder / "in.tif", folder / "out.tif"
        self.image.write(source, height)
        flags = ["--compression", self.codec, "--predictor", 1, "--tile", self.tile, "--memory", self.memory]
        flags += [*["--cog"] * self.cog, *self.flags, "--threads", THREADS, "--overwrite"]
        run = swath.succeed("convert", source, target, *flags, timeout=600)
        bound = self.bound(height, target.stat().st_size)
        target.unlink()
        assert run.peak_bytes < bound, (
            f"{height} rows: {run.peak_bytes / 1e6:.1f} MB, the bound is {bound / 1e6:.1f} MB"
        )
        return run.peak_bytes


@pytest.fixture
def swath() -> Iterator[Swath]:
    """A spawner that has not run anything yet, because its own peak counts as that of its children."""
    fresh = Swath()
    yield fresh
    fresh.close()


FLOATS = Image(8192, "<f4")
CASES = {
    "1 and 4 GB as COG": Case(FLOATS, (32768, 131072)),
    "1 and 4 GB plain": Case(FLOATS, (32768, 131072), cog=False),
    "little memory": Case(Image(8192, "<f4", tile=128), (8192, 32768), tile=128, memory=16 * MIB),
    "three bands of bytes": Case(Image(8192, "u1", bands=3), (16384, 65536)),
    "blocks that bands do not end at": Case(FLOATS, (8192, 32768), tile=384),
}


@pytest.mark.parametrize("name", CASES)
def test_memory_does_not_grow_with_the_height(name: str, swath: Swath, tmp_path: Path) -> None:
    case = CASES[name]
    low = case.peak(swath, tmp_path, case.heights[0])
    most = low * GROWTH + TABLE
    # The time at which threads free their blocks varies and may add some blocks to the peak. Memory that grows with the
    # height grows in every run.
    for _ in range(ATTEMPTS):
        high = case.peak(swath, tmp_path, case.heights[1])
        if high < most:
            break
    found = " and ".join(f"{peak / 1e6:.1f} MB" for peak in (low, high))
    assert high < most, f"{found} at {case.heights} rows"


FITTING = {
    "very small blocks": Case(FLOATS, (2048, 8192), tile=32),
    "deflate": Case(FLOATS, (4096, 16384), codec="deflate", flags=["--compression-level", 1]),
    "zstd 9": Case(FLOATS, (4096, 16384), codec="zstd", flags=["--compression-level", 9]),
    # The file grows more slowly than the blocks are encoded, so encoded blocks accumulate, but at most one strip of
    # rows.
    "blocks that do not compress": Case(Image(8192, "<f4", tile=256), (4096, 16384), codec="none"),
}


@pytest.mark.parametrize("name", FITTING)
def test_memory_stays_below_the_formula(name: str, swath: Swath, tmp_path: Path) -> None:
    case = FITTING[name]
    for height in case.heights:
        case.peak(swath, tmp_path, height)


def test_less_memory_is_used_when_less_is_given(swath: Swath, tmp_path: Path) -> None:
    image = Image(8192, "<f4", tile=128)
    peaks = [Case(image, (8192, 0), tile=128, memory=size * MIB).peak(swath, tmp_path, 8192) for size in (16, 256)]
    assert peaks[0] < peaks[1] / 1.5, f"{peaks[0] / 1e6:.1f} MB with 16 MiB, {peaks[1] / 1e6:.1f} MB with 256 MiB"
