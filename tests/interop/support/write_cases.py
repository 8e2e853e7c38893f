"""Random conversions: an image of any type, and flags of `swath convert`, drawn from a seed.

Each case states its expected result: the pixels, or the reason why Swath must refuse it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import rasterio
from rasterio.enums import ColorInterp

from gdal_cases import DTYPES
from pixels import photo, pixels
from tifffile_cases import write_tifffile

COUNT = 420
PACKED = [("uint8", 1), ("uint8", 2), ("uint8", 4), ("uint16", 12)]
PREDICTING = ["lzw", "deflate", "zstd", "lz4", "lzma"]
LERCS = ["lerc", "lerc_deflate", "lerc_zstd"]
PICTURES = ["jpeg", "jpeg2000", "webp"]
CODECS = ["none", "packbits", *PREDICTING, *LERCS, *PICTURES]
LERC_DTYPES = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"}
TILES = [("16", 16, 16), ("32", 32, 32), ("64", 64, 64), ("48x32", 48, 32), ("16x128", 16, 128), ("256", 256, 256)]
SIZES = [(1, 1), (1, 61), (97, 1), (2, 3), (37, 53), (17, 33), (65, 49), (129, 65), (16, 16), (127, 131), (257, 33)]


@dataclass
class Conversion:
    """One image and one way to convert it. `shape` is bands, rows, columns."""

    number: int
    dtype: str
    bits: int | None
    shape: tuple[int, int, int]
    codec: str
    predictor: str = "auto"
    layout: str = "tiles"
    block: tuple[int, int] = (512, 512)
    interleave: str = "pixel"
    quality: float | None = None
    max_z_error: float = 0.0
    overviews: list[int] = field(default_factory=list)
    nodata: float | None = None
    new_nodata: float | None = None
    mask: str = ""
    bigtiff: bool = False
    flags: list[object] = field(default_factory=list)
    source: dict[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        bands, height, width = self.shape
        kind = f"{self.dtype}-{self.bits}bit" if self.bits else self.dtype
        words = [str(self.number), kind, f"{bands}x{height}x{width}", self.codec, f"p{self.predictor}", self.layout]
        words += [self.interleave, *([self.mask] if self.mask else []), *(["big"] if self.bigtiff else [])]
        return "-".join(words)

    @property
    def lossy(self) -> bool:
        """Whether the codec may change pixels by more than a stated error."""
        return self.codec == "jpeg" or (self.codec in PICTURES and self.quality is not None)

    @property
    def is_bytes_or_words(self) -> bool:
        """Whether the sample type is one that the lossy codecs accept."""
        return self.dtype in ("uint8", "int8", "uint16", "int16") and not self.bits

    @property
    def block_bands(self) -> int:
        """The number of bands in one block."""
        return self.shape[0] if self.interleave == "pixel" else 1

    @property
    def refusal(self) -> str:
        """The reason why this cannot be written; empty if it can."""
        if self.layout == "cog-strips":
            return "a COG has tiles"
        if self.predictor in "23" and self.codec not in PREDICTING:
            return "no predictor before this codec"
        if self.predictor == "3" and not self.dtype.startswith("float"):
            return "predictor 3 is for floats"
        if self.predictor == "2" and (self.bits or self.dtype == "complex128"):
            return "predictor 2 is for samples of 8 to 64 bits"
        if self.codec in LERCS and (self.dtype not in LERC_DTYPES or self.bits):
            return "LERC has no such type"
        if self.codec == "jpeg" and (self.dtype != "uint8" or self.bits or self.block_bands > 4):
            return "JPEG is for up to four bands of bytes"
        if self.codec == "webp" and (self.dtype != "uint8" or self.bits or self.block_bands not in (3, 4)):
            return "WebP is for three or four bands of bytes"
        if self.codec == "jpeg2000" and not self.is_bytes_or_words:
            return "JPEG 2000 is for integers of 8 or 16 bits"
        sizes = self.level_sizes()
        if any(finer == coarser for finer, coarser in zip(sizes, sizes[1:], strict=False)):
            return "an overview that is not smaller"
        return ""

    def level_sizes(self) -> list[tuple[int, int]]:
        """Rows and columns of every level, rounded up."""
        _, height, width = self.shape
        return [(-(-height // factor), -(-width // factor)) for factor in [1, *self.overviews]]

    def array(self) -> np.ndarray:
        """The pixels of the source."""
        bands, height, width = self.shape
        if self.lossy and self.is_bytes_or_words:
            # A corner of a larger picture, so that small pictures are smooth too.
            large = photo(self.id, bands, max(height, 64), max(width, 64), self.dtype, np.iinfo(self.dtype).max)
            array = np.ascontiguousarray(large[:, :height, :width])
        else:
            array = pixels(self.id, self.dtype, *self.shape, bits=self.bits)
        if self.dtype == "complex_int16":
            array += 0  # integers have no -0.0
        if "--skip-empty" in self.flags or self.nodata is not None:
            # An edge inside one block of a lossy codec would not be smooth.
            rows = height // 2 // 16 * 16 if self.lossy else height // 2
            array[:, :rows] = 0 if self.nodata is None else self.nodata
        if self.mask == "alpha":
            array[-1] = np.where(np.arange(width) % 5 < 2, 0, np.iinfo(self.dtype).max)
        return array

    def valid(self) -> np.ndarray:
        """The mask of the source, or None."""
        _, height, width = self.shape
        return np.add.outer(np.arange(height), np.arange(width)) % 7 > 2

    def expected(self) -> np.ndarray:
        """The pixels that a lossless codec must return: NaN becomes the requested nodata value."""
        array = self.array()
        if self.new_nodata is not None and array.dtype.kind == "f":
            array[np.isnan(array)] = self.new_nodata
        return array

    def write_source(self, path: Path) -> None:
        """Writes the file that Swath converts."""
        bands, height, width = self.shape
        array = self.array()
        if self.source.get("by") == "tifffile":
            options = {key: value for key, value in self.source.items() if key != "by"}
            write_tifffile(path, array, metadata=None, **options)
            return
        header = {"count": bands, "height": height, "width": width, "dtype": self.dtype, "nodata": self.nodata}
        header |= ({"nbits": self.bits} if self.bits else {}) | ({"alpha": "yes"} if self.mask == "alpha" else {})
        header |= self.source
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "w", driver="GTiff", **header) as dataset:
            if self.mask == "alpha":
                dataset.colorinterp = [*dataset.colorinterp[:-1], ColorInterp.alpha]
            dataset.write(array)
            if self.mask == "mask":
                dataset.write_mask(self.valid())

    def arguments(self) -> list[object]:
        """The flags of `swath convert`."""
        words: list[object] = ["--compression", self.codec, "--interleave", self.interleave, *self.flags]
        if self.predictor != "auto":
            words += ["--predictor", self.predictor]
        if self.quality is not None:
            words += ["--quality", self.quality]
        if self.max_z_error:
            words += ["--max-z-error", self.max_z_error]
        if self.new_nodata is not None:
            words += ["--nodata", self.new_nodata]
        if self.bigtiff:
            words += ["--bigtiff", "yes"]
        return words


def conversion(number: int) -> Conversion:
    """The conversion with this number; always the same for the same number."""
    rng = Random(10_000 + number)
    codec = CODECS[number % len(CODECS)]
    bands = rng.choice([1, 1, 2, 3, 3, 4, 5])
    size = rng.choice(SIZES)
    dtype, bits = draw_type(codec, rng)
    if codec == "webp" and rng.random() < 0.9:
        bands = rng.choice([3, 4])
    made = Conversion(number, dtype, bits, (bands, *size), codec)
    made.interleave = rng.choice(["pixel", "pixel", "band"])
    draw_tuning(made, rng)
    draw_blocks(made, rng)
    draw_overviews(made, rng)
    draw_validity(made, rng)
    made.bigtiff = rng.random() < 0.3
    made.flags += ["--threads", rng.choice([1, 2, 7]), "--memory", rng.choice(["1", "64KiB", "256MiB"])]
    made.source |= draw_source(made, rng)
    return made


def draw_type(codec: str, rng: Random) -> tuple[str, int | None]:
    """Draws a type, mostly one that the codec accepts."""
    if rng.random() < 0.9:
        if codec in LERCS:
            return rng.choice(sorted(LERC_DTYPES)), None
        if codec in ("jpeg", "webp"):
            return "uint8", None
        if codec == "jpeg2000":
            return rng.choice(["uint8", "int8", "uint16", "int16"]), None
    return rng.choice([*((dtype, None) for dtype in DTYPES), *PACKED])


def draw_tuning(made: Conversion, rng: Random) -> None:
    if made.codec in PREDICTING:
        made.predictor = rng.choice(["auto", "auto", "1", "2", "3" if made.dtype.startswith("float") else "2"])
        if rng.random() < 0.1:
            made.predictor = "3"
        if made.codec == "lz4" and made.dtype.startswith("complex"):
            made.predictor = "1"  # no peer reads both; see readers.py
    elif rng.random() < 0.1:
        made.predictor = rng.choice("123")
    if made.codec in ("jpeg2000", "webp") and made.dtype == "uint8" and not made.bits and rng.random() < 0.4:
        made.quality = rng.choice([80, 95])
    if made.codec == "jpeg":
        made.quality = rng.choice([None, 75, 90, 100])
        made.flags += rng.choice([[], [], ["--subsampling", rng.choice(["420", "422", "444", "rgb"])]])
    if made.codec in LERCS and rng.random() < 0.4:
        made.max_z_error = rng.choice([0.5, 0.01, 1, 3, 17])
    levels = {"deflate": 12, "zstd": 19, "lzma": 9, "lerc_deflate": 12, "lerc_zstd": 19}
    if made.codec in levels and rng.random() < 0.3:
        made.flags += ["--compression-level", rng.randint(1, levels[made.codec])]


def draw_blocks(made: Conversion, rng: Random) -> None:
    made.layout = rng.choice(["tiles", "strips", "cog", "cog"])
    if made.layout == "strips" or rng.random() < 0.02:
        rows = rng.choice([1, 7, 16, 40, 1000])
        made.flags += ["--strips", rows]
        made.block = rows, made.shape[2]
        if made.layout != "strips":
            made.flags, made.layout = [*made.flags, "--cog"], "cog-strips"
        return
    word, across, down = rng.choice(TILES)
    made.flags += ["--tile", word, *(["--cog"] if made.layout == "cog" else [])]
    made.block = down, across


def draw_overviews(made: Conversion, rng: Random) -> None:
    choice = rng.choice(["default", "auto", "none", "2", "2,4", "3", "2,6", "3,5", "2,3,4,12"])
    if choice == "auto" or (choice == "default" and made.layout.startswith("cog")):
        made.overviews = automatic(made)
    elif choice not in ("default", "none"):
        made.overviews = [int(factor) for factor in choice.split(",")]
    if choice != "default":
        made.flags += ["--overviews", choice]
    if made.overviews and rng.random() < 0.5:
        made.flags += ["--resampling", rng.choice(["nearest", "mean", "average", "bilinear", "cubic", "gauss"])]


def automatic(made: Conversion) -> list[int]:
    """Factors of two until one level fits in a block; strips count as 512."""
    down, across = (512, 512) if "strips" in made.layout else made.block
    _, height, width = made.shape
    factors = []
    while -(-height // 2 ** len(factors)) > down or -(-width // 2 ** len(factors)) > across:
        factors.append(2 ** (len(factors) + 1))
    return factors


def draw_validity(made: Conversion, rng: Random) -> None:
    real, whole = made.dtype.startswith("float"), made.dtype.removeprefix("u").startswith("int")
    if rng.random() < 0.3:
        made.nodata = rng.choice([0, 1])
    elif real and rng.random() < 0.4:
        made.nodata = rng.choice([float("nan"), -9999.0, float("-inf")])
    if rng.random() < 0.15 and (real or whole):
        made.new_nodata = rng.choice([7.0, -32.0] if real else [1])
        if made.bits:
            made.new_nodata = None
    if made.nodata is None and made.new_nodata is None:
        made.mask = rng.choice(["", "", "mask", "alpha"])
    bands = made.shape[0]
    if made.mask == "alpha" and (made.dtype not in ("uint8", "uint16") or made.bits or bands not in (2, 4)):
        made.mask = ""
    if rng.random() < 0.2:
        made.flags += ["--skip-empty"]


def draw_source(made: Conversion, rng: Random) -> dict[str, object]:
    """Draws how the source is stored: the result must not depend on it."""
    bands = made.shape[0]
    special = made.bits or made.mask or made.nodata is not None or made.dtype == "complex_int16"
    if not special and rng.random() < 0.3:
        order = {"byteorder": rng.choice("<>"), "bigtiff": rng.random() < 0.3}
        return {"by": "tifffile", "planar": bands > 1 and rng.random() < 0.5, **order}
    blocks = rng.choice([{}, {"tiled": True, "blockxsize": 32, "blockysize": 16}, {"blockysize": 5}])
    order = {"endianness": rng.choice(["LITTLE", "BIG"]), "interleave": rng.choice(["pixel", "band"])}
    # GDAL does not swap the bytes of constant big-endian tiles that it stores uncompressed.
    codecs = ["lzw", "deflate"] if order["endianness"] == "BIG" else ["none", "lzw", "deflate"]
    return {"compress": rng.choice(codecs), **blocks, **order}


def conversions() -> Iterator[Conversion]:
    """All conversions."""
    return map(conversion, range(COUNT))
