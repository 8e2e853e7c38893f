"""Files written by tifffile and imagecodecs: codecs and layouts that GDAL does not write."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import tifffile

from case import Case
from pixels import photo, pixels

JPEG_XL, JPEG_XL_DNG = 50002, 52546


def write_tifffile(path: Path, array: np.ndarray, planar: bool = False, **options: object) -> None:
    """Writes bands-first pixels; three or more 8-bit bands become a colour image."""
    bands = len(array)
    if bands == 1:
        tifffile.imwrite(path, array[0], **{"photometric": "minisblack", **options})
        return
    colour = {"photometric": "rgb" if bands >= 3 else "minisblack"}
    if bands > 3 or bands == 2:
        colour["extrasamples"] = ["unspecified"] * (bands - 3 if bands > 3 else 1)
    config = "separate" if planar else "contig"
    data = array if planar else np.moveaxis(array, 0, -1)
    tifffile.imwrite(path, np.ascontiguousarray(data), planarconfig=config, **{**colour, **options})


def lossless(
    name: str, dtype: str, bands: int = 1, oracle: str = "rasterio", bits: int | None = None, **options
) -> Case:
    if bits:
        options["bitspersample"] = bits

    def write(path: Path) -> np.ndarray:
        array = pixels(name, dtype, bands, 51, 70, bits=bits)
        write_tifffile(path, array, **options)
        return array

    return Case(name, write, oracle=oracle)


def lossy(name: str, bands: int, oracle: str, **options: object) -> Case:
    def write(path: Path) -> None:
        write_tifffile(path, photo(name, bands, 75, 91), **options)

    return Case(name, write, lossy=True, oracle=oracle)


def image_codecs() -> Iterator[Case]:
    """JPEG 2000 and JPEG XL, which the rasterio wheel cannot decode: tifffile is the oracle."""
    for dtype, bands, tile in product(("uint8", "uint16"), (1, 3), (None, (32, 48))):
        blocks = "tiles" if tile else "strip"
        for label, code in (("jpeg2000", "jpeg2000"), ("jpegxl", JPEG_XL), ("jpegxl-dng", JPEG_XL_DNG)):
            name = f"tf-{label}-{dtype}-b{bands}-{blocks}"
            yield lossless(name, dtype, bands, "tifffile", compression=code, tile=tile)
    yield smooth_float("tf-jpegxl-float32", compression=JPEG_XL)
    for bands in (1, 3):
        yield lossy(f"tf-jpegxl-lossy-b{bands}", bands, "tifffile", compression=JPEG_XL, compressionargs={"level": 80})
        options = {"compression": "jpeg2000", "compressionargs": {"level": 45}}
        yield lossy(f"tf-jpeg2000-lossy-b{bands}", bands, "tifffile", **options)
    for subsampling in ((1, 1), (2, 1), (2, 2), (4, 1)):
        label = "x".join(map(str, subsampling))
        options = {"compression": "jpeg", "subsampling": subsampling, "compressionargs": {"level": 90}}
        yield lossy(f"tf-jpeg-ycbcr-{label}-tiles", 3, "rasterio", tile=(32, 32), **options)
        yield lossy(f"tf-jpeg-ycbcr-{label}-strip", 3, "rasterio", **options)
    yield lossy("tf-jpeg-gray", 1, "rasterio", compression="jpeg", rowsperstrip=16)
    yield lossless("tf-webp-lossless", "uint8", 3, compression="webp", tile=(32, 32))


def smooth_float(name: str, **options: object) -> Case:
    """Float samples for JPEG XL: within 0..1, without NaN and infinity."""

    def write(path: Path) -> np.ndarray:
        array = photo(name, 1, 51, 70, dtype="float32", top=1)
        write_tifffile(path, array, **options)
        return array

    return Case(name, write, oracle="tifffile")


def byte_codecs() -> Iterator[Case]:
    """Codecs that GDAL also has, written by other encoders, in both byte orders."""
    codecs = ("packbits", "lzw", "deflate", "zstd", "lzma")
    for codec, order, dtype in product(codecs, "<>", ("uint8", "int16", "float32")):
        endian = "le" if order == "<" else "be"
        for bands, planar in ((1, False), (3, False), (3, True)):
            layout = "planar" if planar else "pixel"
            name = f"tf-{codec}-{dtype}-{endian}-{layout}-b{bands}"
            options = {"compression": codec, "byteorder": order, "planar": planar, "rowsperstrip": 13}
            yield lossless(name, dtype, bands, **options)
    for dtype, order, tile in product(("float16", "float32", "float64"), "<>", (None, (16, 32))):
        endian, blocks = "le" if order == "<" else "be", "tiles" if tile else "strips"
        options = {"compression": "deflate", "predictor": 3, "byteorder": order, "tile": tile}
        yield lossless(f"tf-predictor3-{dtype}-{endian}-{blocks}", dtype, 3, **options)
    for dtype in ("uint8", "int16", "uint32", "int64"):
        options = {"compression": "zstd", "predictor": 2, "byteorder": ">", "tile": (16, 32)}
        yield lossless(f"tf-predictor2-{dtype}-be", dtype, 3, **options)
    for dtype in ("uint8", "int16", "float32", "float64"):
        yield lossless(f"tf-lerc-{dtype}", dtype, compression="lerc", tile=(32, 32))
    for codec in ("deflate", "zstd"):
        options = {"compression": "lerc", "compressionargs": {"compression": codec}}
        yield lossless(f"tf-lerc-{codec}", "int32", **options)


def layouts() -> Iterator[Case]:
    """Strips that extend beyond the image, tiles larger than the image, many bands, bilevel images, packed integers."""
    for rows in (1, 5, 50, 51, 1000):
        yield lossless(f"tf-rowsperstrip{rows}", "uint16", 3, rowsperstrip=rows)
    for tile in ((16, 48), (256, 256), (64, 16)):
        yield lossless(f"tf-tile{tile[0]}x{tile[1]}", "uint8", 3, tile=tile)
    for bands, planar in product((2, 5, 11), (False, True)):
        yield lossless(f"tf-bands{bands}-{'planar' if planar else 'pixel'}", "uint8", bands, planar=planar)
    for bits, dtype in ((2, "uint8"), (4, "uint8"), (10, "uint16"), (12, "uint16"), (14, "uint16"), (24, "uint32")):
        yield lossless(f"tf-packed{bits}", dtype, bits=bits)
    for dtype in ("complex64", "complex128"):
        yield lossless(f"tf-{dtype}-be", dtype, byteorder=">")
    for order in "<>":
        endian = "le" if order == "<" else "be"
        yield lossless(f"tf-bigtiff-{endian}", "float64", 3, bigtiff=True, byteorder=order, tile=(16, 16))
    for codec in (None, "packbits"):
        yield bilevel(f"tf-bilevel-{codec}", compression=codec)
    yield second_page("tf-two-pages")


def bilevel(name: str, **options: object) -> Case:
    def write(path: Path) -> np.ndarray:
        array = pixels(name, "uint8", 1, 51, 70) > 100
        tifffile.imwrite(path, array[0], photometric="minisblack", **options)
        return array.astype(np.uint8)

    return Case(name, write)


def second_page(name: str) -> Case:
    """Two unrelated pages: readers must take the first one as the image."""

    def write(path: Path) -> np.ndarray:
        first, second = pixels(name, "uint16", 1, 51, 70), pixels(name, "uint8", 1, 20, 30)
        with tifffile.TiffWriter(path) as tif:
            tif.write(first[0], photometric="minisblack")
            tif.write(second[0], photometric="minisblack")
        return first

    return Case(name, write)


def all_cases() -> list[Case]:
    """Every file that tifffile writes for the pixel comparison."""
    return [*image_codecs(), *byte_codecs(), *layouts()]
