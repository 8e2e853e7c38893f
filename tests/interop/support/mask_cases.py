"""Files with masked pixels: mask directories, .msk files, alpha, nodata, 64-bit nodata."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import rasterio
import tifffile
from rasterio.enums import ColorInterp

from case import Case
from gdal_cases import LAYOUTS, write_gdal
from pixels import photo, pixels

SIZE = (61, 45)
GDAL_NODATA = 42113


def mask_directory(name: str, internal: bool, **options: object) -> Case:
    """A one-bit mask in the file or in a .msk file."""

    def write(path: Path) -> None:
        array = pixels(name, "uint16", 2, *SIZE)
        shape = {"count": 2, "height": SIZE[0], "width": SIZE[1], "dtype": "uint16"}
        env = rasterio.Env(GDAL_TIFF_INTERNAL_MASK=internal)
        with env, rasterio.open(path, "w", driver="GTiff", **shape, **options) as dataset:
            dataset.write(array)
            dataset.write_mask(array[0] > 20000)
        assert path.with_name(path.name + ".msk").exists() != internal

    return Case(name, write)


def alpha(name: str, dtype: str, bands: int, **options: object) -> Case:
    """The last band is alpha; values between 0 and the maximum count as valid."""

    def write(path: Path) -> None:
        top = np.iinfo(dtype).max
        array = photo(name, bands, *SIZE, dtype=dtype, top=top)
        array[-1, :20] = 0
        array[-1, 20:30] = top // 2
        array[-1, 30:] = top
        shape = {"count": bands, "height": SIZE[0], "width": SIZE[1], "dtype": dtype}
        with rasterio.open(path, "w", driver="GTiff", alpha="yes", **shape, **options) as dataset:
            dataset.write(array)
            colours = {2: [ColorInterp.gray], 4: [ColorInterp.red, ColorInterp.green, ColorInterp.blue]}[bands]
            dataset.colorinterp = [*colours, ColorInterp.alpha]

    return Case(name, write)


def nodata(name: str, dtype: str, value: float, bands: int, **options: object) -> Case:
    """A pixel is valid if at least one band is not nodata."""

    def write(path: Path) -> None:
        array = pixels(name, dtype, bands, *SIZE)
        array[:, 5:25, 7:30] = value
        array[0, 40:, :] = value
        write_gdal(path, array, nodata=value, **options)

    return Case(name, write)


def alpha_and_nodata(name: str, bands: int, text: str) -> Case:
    """A nodata value that no sample can equal, so only the alpha band masks pixels."""

    def write(path: Path) -> None:
        array = photo(name, bands, *SIZE)
        array[-1, :20] = 0
        tags = [(GDAL_NODATA, "s", 0, text, True)]
        layout = {"photometric": "rgb" if bands == 4 else "minisblack", "planarconfig": "contig"}
        image = np.moveaxis(array, 0, -1)
        tifffile.imwrite(path, image, extrasamples=["unassalpha"], extratags=tags, metadata=None, **layout)

    return Case(name, write)


def wide_nodata(name: str, dtype: str, value: int) -> Case:
    """A nodata value that a double cannot hold, next to values that differ only in the last bit.

    rasterio rounds such values when it reads and writes, so tifffile writes the file and numpy computes the expected
    mask.
    """

    def write(path: Path) -> np.ndarray:
        array = pixels(name, dtype, 1, *SIZE)
        array[0, 10:20] = value
        array[0, 30:40] = value - 1 if value > 0 else value + 1
        tags = [(GDAL_NODATA, "s", 0, str(value), True)]
        tifffile.imwrite(path, array[0], photometric="minisblack", extratags=tags, metadata=None)
        return np.where(array[0] == np.array(value, dtype), 0, 255).astype(np.uint8)

    return Case(name, write, oracle="written")


def lerc_mask(name: str) -> Case:
    """NaN goes into LERC's own mask; with nodata NaN both mask the same pixels."""

    def write(path: Path) -> None:
        array = photo(name, 1, *SIZE, dtype="float32", top=100)
        array[:, 10:30, 10:20] = np.nan
        write_gdal(path, array, compress="lerc", nodata=np.nan, **LAYOUTS["tile16x16"])

    return Case(name, write)


def plain(name: str, dtype: str, bands: int) -> Case:
    """A file without any mask: every pixel is valid."""
    return Case(name, lambda path: write_gdal(path, pixels(name, dtype, bands, *SIZE)))


def all_cases() -> Iterator[Case]:
    """Every kind of mask."""
    for internal, codec, layout in product((True, False), ("none", "deflate"), ("tile16x16", "strip7")):
        label = "internal" if internal else "msk"
        yield mask_directory(f"mask-{label}-{codec}-{layout}", internal, compress=codec, **LAYOUTS[layout])
    for dtype, bands, interleave in product(("uint8", "uint16"), (2, 4), ("pixel", "band")):
        yield alpha(f"alpha-{dtype}-b{bands}-{interleave}", dtype, bands, compress="lzw", interleave=interleave)
    for bands, text in product((2, 4), ("-9999", "nan", "256", "255.5")):
        yield alpha_and_nodata(f"alpha-b{bands}-nodata-{text}", bands, text)
    values = [
        ("uint8", 0), ("int8", -128), ("uint16", 65535), ("int16", -9999), ("int32", -(2**31)), ("uint32", 2**32 - 1),
        ("float32", -9999.0), ("float32", float("nan")), ("float32", float("-inf")),
        ("float32", -3.4028234663852886e38),
        ("float64", -1.7e308), ("float64", float("nan")), ("float16", -99.0),
    ]  # fmt: skip
    for (dtype, value), bands in product(values, (1, 3)):
        yield nodata(f"nodata-{dtype}-{value:g}-b{bands}", dtype, value, bands)
    yield nodata("nodata-big-endian", "int16", -9999, 2, endianness="BIG", compress="deflate")
    for dtype, value in (("int64", -(2**63)), ("int64", 2**53 + 1), ("uint64", 2**64 - 1), ("uint64", 2**53 + 1)):
        yield wide_nodata(f"nodata-{dtype}-{value}", dtype, value)
    yield lerc_mask("mask-lerc")
    yield plain("mask-none-uint8", "uint8", 1)
    yield plain("mask-none-float32", "float32", 3)
