"""Files written by GDAL (through rasterio): sample types, codecs, predictors, layouts, bit depths."""

from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path

import numpy as np
import rasterio
import tifffile

from case import Case
from pixels import COMPLEX_INT, photo, pixels

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES = [*INTEGERS, "float16", "float32", "float64", "complex64", "complex128", COMPLEX_INT]
PREDICTING = ["lzw", "deflate", "zstd", "lzma"]
LARGE = (513, 257)
SIZES = [(1, 1), (17, 33), LARGE]
LAYOUTS = {
    "tile16x16": {"tiled": True, "blockxsize": 16, "blockysize": 16},
    "tile48x32": {"tiled": True, "blockxsize": 48, "blockysize": 32},
    "tile16x128": {"tiled": True, "blockxsize": 16, "blockysize": 128},
    "tile512x512": {"tiled": True, "blockxsize": 512, "blockysize": 512},
    "strip1": {"blockysize": 1},
    "strip7": {"blockysize": 7},
    "stripall": {"blockysize": 4096},
}


def write_gdal(path: Path, array: np.ndarray, dtype: str | None = None, **options: object) -> None:
    """Writes a GeoTIFF with GDAL's creation options."""
    bands, height, width = array.shape
    shape = {"count": bands, "height": height, "width": width, "dtype": dtype or array.dtype}
    with rasterio.open(path, "w", driver="GTiff", **shape, **options) as dataset:
        dataset.write(array)


def lossless(name: str, dtype: str, bands: int, size: tuple[int, int], bits: int | None = None, **options) -> Case:
    """A file whose decoded pixels equal the pixels written."""
    if bits:
        options["nbits"] = bits

    def write(path: Path) -> np.ndarray:
        array = pixels(name, dtype, bands, *size, bits=bits)
        write_gdal(path, array, dtype, **options)
        return array

    return Case(name, write, needs=str(options.get("compress", "none")))


def lossy(name: str, bands: int, size: tuple[int, int], dtype: str = "uint8", top: int = 255, **options) -> Case:
    """A file whose decoded pixels depend on the decoder's rounding."""

    def write(path: Path) -> None:
        write_gdal(path, photo(name, bands, *size, dtype=dtype, top=top), **options)

    return Case(name, write, lossy=True, needs=str(options["compress"]))


def predictors(dtype: str) -> list[int]:
    """The predictors that GDAL writes and reads back for a sample type."""
    # GDAL writes predictor 2 over 128-bit samples without an error and reads it back wrong.
    return {"float32": [1, 2, 3], "float64": [1, 2, 3], "complex128": [1]}.get(dtype, [1, 2])


def sample_types() -> Iterator[Case]:
    """Every type with every lossless codec and predictor, in tiles that do not divide the image evenly."""
    tiles = LAYOUTS["tile16x16"]
    for dtype in DTYPES:
        for codec in ("none", "packbits"):
            yield lossless(f"{dtype}-{codec}", dtype, 3, (17, 33), compress=codec, interleave="pixel", **tiles)
        for codec, predictor in product(PREDICTING, predictors(dtype)):
            options = {"compress": codec, "predictor": predictor, "interleave": "pixel", **tiles}
            yield lossless(f"{dtype}-{codec}-p{predictor}", dtype, 3, (17, 33), **options)


def layouts() -> Iterator[Case]:
    """Every block shape, interleaving, band count and image size; the codecs alternate."""
    integer = cycle([("none", 1), ("lzw", 2), ("deflate", 2), ("zstd", 1), ("packbits", 1), ("lzw", 1), ("zstd", 2)])
    real = cycle([("deflate", 3), ("lzw", 3), ("none", 1), ("zstd", 3), ("lzw", 2)])
    for (layout, blocks), bands, size in product(LAYOUTS.items(), (1, 2, 3, 4, 7), SIZES):
        if size == LARGE and bands in (2, 7) and layout != "tile48x32":
            continue  # The large image with every band count would add time but no new hazard.
        for interleave in ("pixel", "band") if bands > 1 else ("pixel",):
            for dtype, codecs in (("uint16", integer), ("float32", real)):
                codec, predictor = next(codecs)
                shape = f"{layout}-{interleave}-b{bands}-{size[0]}x{size[1]}"
                options = {"compress": codec, "interleave": interleave, **blocks}
                if predictor > 1:
                    options["predictor"] = predictor
                yield lossless(f"{shape}-{dtype}-{codec}-p{predictor}", dtype, bands, size, **options)


def byte_orders() -> Iterator[Case]:
    """Big-endian files, in which predictors and bit packing combine with the byte swap; and BigTIFF."""
    for dtype, interleave in product(DTYPES, ("pixel", "band")):
        for codec, predictor in zip(("none", "lzw", "deflate"), predictors(dtype), strict=False):
            options = {"compress": codec, "interleave": interleave, "endianness": "BIG"}
            if predictor > 1:
                options["predictor"] = predictor
            yield lossless(f"big-{dtype}-{codec}-p{predictor}-{interleave}", dtype, 3, (17, 33), **options)
    for order, codec, layout in product(("LITTLE", "BIG"), ("none", "deflate", "zstd"), ("tile16x16", "strip7")):
        options = {"compress": codec, "endianness": order, "bigtiff": "YES", **LAYOUTS[layout]}
        yield lossless(f"bigtiff-{order.lower()}-{codec}-{layout}", "int16", 2, (40, 50), **options)
    for codec in ("lerc", "lerc_zstd", "webp", "jpeg"):
        options = {"compress": codec, "endianness": "BIG"}
        if codec in ("webp", "jpeg"):
            yield lossy(f"big-{codec}", 3, (50, 70), photometric="rgb", **options)
        else:
            yield lossless(f"big-{codec}", "int32", 2, (50, 70), **options)


def bit_depths() -> Iterator[Case]:
    """Samples that do not fill whole bytes; each row starts on a byte."""
    depths = [("uint8", range(1, 8)), ("uint16", range(9, 16)), ("uint32", (17, 19, 20, 23, 24, 25, 28, 31))]
    for (dtype, bits_range), (bands, interleave) in product(depths, ((1, "pixel"), (3, "pixel"), (3, "band"))):
        codecs = cycle(["none", "lzw", "deflate", "packbits"])
        for bits in bits_range:
            for order in ("LITTLE", "BIG"):
                codec = next(codecs)
                name = f"{bits}bit-{codec}-{interleave}-b{bands}-{order.lower()}"
                options = {"compress": codec, "interleave": interleave, "endianness": order}
                yield lossless(name, dtype, bands, (17, 33), bits=bits, **options)
    for bits, (layout, blocks) in product((1, 3, 12, 24), LAYOUTS.items()):
        dtype = {1: "uint8", 3: "uint8", 12: "uint16", 24: "uint32"}[bits]
        yield lossless(f"{bits}bit-{layout}", dtype, 2, (70, 51), bits=bits, compress="deflate", **blocks)
    for bits, order in product((16, 24), ("LITTLE", "BIG")):
        yield small_float(f"float32-as-{bits}bit-{order.lower()}", bits, order)


def small_float(name: str, bits: int, order: str) -> Case:
    """Floats stored in fewer bits than their type has, so the file holds rounded values."""

    def write(path: Path) -> None:
        write_gdal(path, pixels(name, "float32", 2, 17, 33) / 64, nbits=bits, endianness=order)

    return Case(name, write)


def fax() -> Iterator[Case]:
    """Bilevel images: widths around a multiple of 8, runs longer than a make-up code, both photometric
    interpretations.
    """
    sizes = [(1, 1), (9, 7), (16, 8), (17, 33), (5, 2600), (300, 1728)]
    fax_codecs = ("ccittrle", "ccittfax3", "ccittfax4")
    for codec, size, layout in product(fax_codecs, sizes, ("strip7", "stripall", "tile16x16")):
        if layout == "tile16x16" and size[1] > 1000:
            continue
        name = f"{codec}-{layout}-{size[0]}x{size[1]}"
        photometric = "miniswhite" if layout == "stripall" else "minisblack"
        yield runs(name, size, compress=codec, photometric=photometric, **LAYOUTS[layout])


def runs(name: str, size: tuple[int, int], **options: object) -> Case:
    """Black and white shapes rather than noise, so that every fax mode occurs."""

    def write(path: Path) -> np.ndarray:
        surface = pixels(name, "float64", 1, *size)
        array = (np.nan_to_num(surface) > 100).astype(np.uint8)
        write_gdal(path, array, nbits=1, **options)
        return array

    # GDAL loses the last runs of a short RLE strip; tifffile does not.
    oracle = "tifffile" if options["compress"] == "ccittrle" else "rasterio"
    return Case(name, write, oracle=oracle, needs=str(options["compress"]))


def lerc() -> Iterator[Case]:
    """LERC blobs of every type, with and without a second codec; NaN becomes LERC's own mask."""
    types = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]
    for codec, dtype, interleave in product(("lerc", "lerc_deflate", "lerc_zstd"), types, ("pixel", "band")):
        name = f"{codec}-{dtype}-{interleave}"
        yield lossless(name, dtype, 3, (50, 70), compress=codec, interleave=interleave, **LAYOUTS["tile48x32"])
    for error, dtype in product((0.01, 1, 25), ("float32", "float64", "int16")):
        # Only the encoder rounds; all decoders must return the same values, so this comparison is exact.
        yield quantised(f"lerc-{dtype}-maxzerror{error}", dtype, error)


def quantised(name: str, dtype: str, error: float) -> Case:
    def write(path: Path) -> None:
        array = photo(name, 2, 90, 70, dtype=dtype, top=900)
        if dtype != "int16":
            array[:, 20:40, 5:30] = np.nan
        write_gdal(path, array, compress="lerc", max_z_error=error)

    return Case(name, write, needs="lerc")


def lossy_codecs() -> Iterator[Case]:
    """JPEG in its colour models and table modes, 12-bit JPEG, WebP."""
    models = [("gray", 1, {}), ("two", 2, {}), ("rgb", 3, {"photometric": "rgb"}), ("four", 4, {"photometric": "rgb"}),
              ("ycbcr", 3, {"photometric": "ycbcr"}), ("cmyk", 4, {"photometric": "cmyk"})]  # fmt: skip
    for (model, bands, colour), quality, layout in product(models, (75, 95), ("tile16x128", "strip7", "stripall")):
        blocks = {"blockysize": 16} if layout == "strip7" else LAYOUTS[layout]
        name = f"jpeg-{model}-q{quality}-{'strip16' if layout == 'strip7' else layout}"
        yield lossy(name, bands, (75, 91), compress="jpeg", jpeg_quality=quality, **colour, **blocks)
    for mode, photometric in product(range(4), ("rgb", "ycbcr")):
        options = {"compress": "jpeg", "photometric": photometric, "jpegtablesmode": mode, **LAYOUTS["tile48x32"]}
        yield lossy(f"jpeg-{photometric}-tables{mode}", 3, (75, 91), **options)
    for bands in (1, 3):
        yield lossy(f"jpeg-planar-b{bands}", bands, (75, 91), compress="jpeg", interleave="band")
        # The rows have an even number of samples: with an odd number GDAL neither writes nor reads the last one.
        yield lossy(f"jpeg12-b{bands}", bands, (75, 92), "uint16", 4095, compress="jpeg", nbits=12)
    for bands, level in product((3, 4), (60, 90)):
        yield lossy(f"webp-b{bands}-q{level}", bands, (75, 91), compress="webp", webp_level=level)
    for bands, layout in product((3, 4), ("tile16x16", "stripall")):
        options = {"compress": "webp", "webp_lossless": "yes", **LAYOUTS[layout]}
        yield lossless(f"webp-lossless-b{bands}-{layout}", "uint8", bands, (75, 91), **options)
    for layout in ("tile16x16", "stripall"):
        yield lossless(f"jxl-lossless-{layout}", "uint8", 3, (75, 91), compress="jxl", **LAYOUTS[layout])
    yield lossless("icclab-none", "uint8", 3, (17, 33), photometric="icclab")
    for photometric, bands in (("cmyk", 4), ("cielab", 3)):
        yield converted(f"{photometric}-none", photometric, bands)


def converted(name: str, photometric: str, bands: int) -> Case:
    """A colour model that GDAL converts to RGBA on reading; conversions round, so the comparison has a tolerance."""

    def write(path: Path) -> None:
        write_gdal(path, photo(name, bands, 40, 50), photometric=photometric)

    return Case(name, write, lossy=True)


def sparse() -> Iterator[Case]:
    """Blocks that were never written: readers fill them with nodata, or 0."""
    for dtype, nodata, interleave in product(("uint8", "int16", "float32"), (None, 7), ("pixel", "band")):
        yield holes(f"sparse-{dtype}-nodata{nodata}-{interleave}", dtype, nodata, interleave, "deflate")
    for codec in ("none", "lzw", "jpeg"):
        yield holes(f"sparse-uint8-{codec}", "uint8", None, "pixel", codec)
    for dtype, text in product(("uint8", "int8", "int16", "uint32", "float32"), ("300", "5.5", "-70", "nan", "9e9")):
        yield wild_holes(f"sparse-{dtype}-nodata-{text}", dtype, text)


def holes(name: str, dtype: str, nodata: float | None, interleave: str, codec: str) -> Case:
    def write(path: Path) -> None:
        array = photo(name, 3, 16, 16, dtype=dtype, top=200)
        shape = {"count": 3, "height": 70, "width": 51, "dtype": dtype, "nodata": nodata}
        blocks = {"compress": codec, "interleave": interleave, **LAYOUTS["tile16x16"]}
        with rasterio.open(path, "w", driver="GTiff", sparse_ok=True, **shape, **blocks) as dataset:
            dataset.write(array, window=((16, 32), (16, 32)))

    return Case(name, write, lossy=codec == "jpeg", needs=codec)


def wild_holes(name: str, dtype: str, text: str) -> Case:
    """Nodata values that the type may not hold: GDAL fills with the nearest value of the type."""

    def write(path: Path) -> None:
        holes(name, dtype, 100, "pixel", "none").write(path)
        with tifffile.TiffFile(path) as file:
            at = file.pages[0].tags["GDAL_NODATA"].valueoffset
        with path.open("r+b") as file:
            file.seek(at)
            file.write(text.encode())

    return Case(name, write)


def palettes() -> Iterator[Case]:
    """Palette images: the indices are the pixels."""
    for bits, dtype in ((1, "uint8"), (4, "uint8"), (8, "uint8"), (16, "uint16")):
        yield palette(f"palette-{bits}bit", dtype, bits)


def palette(name: str, dtype: str, bits: int) -> Case:
    def write(path: Path) -> np.ndarray:
        array = pixels(name, dtype, 1, 17, 33, bits=bits)
        options = {"nbits": bits} if bits < 8 else {}
        shape = {"count": 1, "height": 17, "width": 33, "dtype": dtype}
        with rasterio.open(path, "w", driver="GTiff", photometric="palette", **shape, **options) as dataset:
            dataset.write(array)
            entries = min(2**bits, 999)
            dataset.write_colormap(1, {i: (i % 256, 255 - i % 256, i // 2 % 256, 255) for i in range(entries)})
        return array

    return Case(name, write)


def all_cases() -> list[Case]:
    """Every file that GDAL writes for the pixel comparison."""
    groups = [sample_types, layouts, byte_orders, bit_depths, fax, lerc, lossy_codecs, sparse, palettes]
    return [case for group in groups for case in group()]
