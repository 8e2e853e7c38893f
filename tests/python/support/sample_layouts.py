"""Samples: types, layouts, codecs, predictors, bands, byte orders, depths, orientations, pages, overviews."""

from __future__ import annotations

import itertools
from pathlib import Path

import rasterio
import tifffile

from samples import EVERY, Call, Sample, gdal, ramp, raw_tags, shorts, write_rasterio, write_tifffile

TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
CODECS = ("none", "zlib", "lzw", "packbits", "zstd")
LAYOUTS = ({"tile": (16, 32)}, {"rowsperstrip": 7}, {"tile": (64, 64)}, {"rowsperstrip": 37})
BANDS = ((1, "contig"), (3, "contig"), (3, "separate"), (2, "contig"), (1, "contig"))
ORDERS = ("<", ">", "<")


def layouts() -> list[Sample]:
    """Every type with every codec and predictor; the other options cycle with periods that have no common divisor."""
    found = []
    for number, (dtype, codec, predictor) in enumerate(itertools.product(TYPES, CODECS, (1, 2, 3))):
        floating = dtype[0] == "f"
        if predictor > 1 and codec in ("none", "packbits") or predictor == 3 and not floating:
            continue
        if floating and predictor == 2:  # GDAL writes these
            continue
        layout, order = LAYOUTS[number % 4], ORDERS[number % 3]
        bands, planar = BANDS[number % 5]
        options = dict(layout, byteorder=order, bigtiff=number % 7 == 0)
        if codec != "none":
            options["compression"] = codec
        if predictor > 1:
            options["predictor"] = predictor
        if bands > 1:
            options["planarconfig"] = planar
        shape = {"contig": (37, 53, bands), "separate": (bands, 37, 53)}[planar] if bands > 1 else (37, 53)
        kind, byte_order = "tiles" if "tile" in layout else "strips", {"<": "II", ">": "MM"}[order]
        name = f"{dtype}-{codec}-p{predictor}-{kind}-{bands}{planar[0]}-{byte_order}"
        calls = (
            {},
            EVERY[1],
            EVERY[3],
            {"band": bands - 1, "window": (2, 2, 30, 30)},
            {"band": bands - 1, "chunks": 20},
        )
        array = ramp(shape, dtype, number)
        found.append(raw_tags(name, (), array, calls, **options))
    return found


def gdal_layouts() -> list[Sample]:
    found = []
    for dtype, interleave, predictor in itertools.product(
        ("uint8", "int16", "uint32", "float32", "float64"), ("pixel", "band"), (1, 2, 3)
    ):
        if predictor == 3 and not dtype.startswith("float"):
            continue
        array = ramp((4, 50, 70), dtype, predictor)
        for codec in ("deflate", "zstd"):
            options = {"tiled": True, "blockxsize": 32, "blockysize": 16, "compress": codec, "predictor": predictor}
            found.append(
                gdal(f"gdal-{dtype}-{codec}-p{predictor}-{interleave}", array, interleave=interleave, **options)
            )
    return found


def depths() -> list[Sample]:
    found = []
    for bits, width in itertools.product((1, 2, 4, 12), (48, 53)):
        dtype = "u1" if bits < 8 else "u2"
        array = ramp((37, width), dtype) % (1 << bits)
        found.append(gdal(f"{bits}-bit-{width}", array.astype(dtype), nbits=bits))
    found += [
        gdal("min-is-white-u1", ramp((37, 53), "u1"), photometric="miniswhite"),
        gdal("min-is-white-u2", photometric="miniswhite"),
        gdal("min-is-white-i2", ramp((37, 53), "i2"), photometric="miniswhite"),
        gdal("min-is-white-1-bit", ramp((37, 48), "u1") % 2, photometric="miniswhite", nbits=1),
        gdal("complex", ramp((37, 53), "f4").astype("c8"), calls=({},)),
        gdal("10-bit", ramp((37, 53), "u2") % 1024, nbits=10, calls=({},)),
    ]
    for codec in ("lzma", "lerc", "lerc_deflate", "lerc_zstd"):
        found.append(
            gdal(
                f"codec-{codec}", ramp((37, 53), "f4"), compress=codec, calls=({}, {"allow_experimental_codecs": True})
            )
        )
    found.append(
        gdal("codec-jpeg", ramp((64, 64), "u1"), compress="jpeg", calls=({}, {"allow_internal_only_jpeg": True}))
    )
    found.append(gdal("codec-ccitt", ramp((37, 48), "u1") % 2, compress="ccittfax4", nbits=1, calls=({},)))
    found.append(
        raw_tags(
            "codec-jpeg2000",
            (),
            ramp((37, 53), "u1"),
            ({}, {"allow_experimental_codecs": True}),
            compression="jpeg2000",
        )
    )
    return found


PLACE_TAGS = (
    (33550, 12, 3, (10.0, 20.0, 0.0)),
    (33922, 12, 6, (0.0, 0.0, 0.0, 500000.0, 4600000.0, 0.0)),
    (34735, 3, 12, (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32633)),
)


def orientations() -> list[Sample]:
    calls: tuple[Call, ...] = ({}, {"window": (3, 5, 20, 31)}, {"chunks": 16}, {"band": 0})
    found = []
    for orientation in range(1, 9):
        found.append(raw_tags(f"orientation-{orientation}", [shorts(274, orientation)], calls=calls))
        found.append(
            raw_tags(f"orientation-{orientation}-placed", [shorts(274, orientation), *PLACE_TAGS], calls=calls)
        )
    return found


LEVELS: tuple[Call, ...] = (
    {},
    {"overview_level": 0},
    {"overview_level": 1},
    {"overview_level": 2},
    {"overview_level": 3},
    {"overview_level": 1, "window": (5, 6, 30, 41)},
    {"overview_level": 1, "window": (0, 0, 200, 300)},
    {"overview_level": 2, "chunks": 20},
    {"overview_level": 1, "masked": True},
    {"overview_level": 1, "bbox": (500100, 4597000, 501500, 4599500)},
    {"overview_level": 1, "band": 0, "chunks": (16, 48)},
)


def external(path: Path) -> None:
    write_rasterio(path, ramp((201, 303), "u2"), nodata=7)
    with rasterio.Env(TIFF_USE_OVR="YES"), rasterio.open(path, "r+") as dataset:
        dataset.build_overviews([2, 4])


def pages(path: Path) -> None:
    with tifffile.TiffWriter(path) as writer:
        for page in range(3):
            writer.write(ramp((37, 53), "u2", page), photometric="minisblack", metadata=None)


def masked_inside(path: Path) -> None:
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES"),
        rasterio.open(
            path, "w", driver="GTiff", width=53, height=37, count=1, dtype="uint16", crs="EPSG:32633"
        ) as dataset,
    ):
        dataset.write(ramp((37, 53), "u2"), 1)
        dataset.write_mask(ramp((37, 53), "u1") > 50)


def sparse(path: Path) -> None:
    options = {"width": 200, "height": 100, "tiled": True, "blockxsize": 32, "blockysize": 32, "sparse_ok": True}
    with rasterio.open(path, "w", driver="GTiff", count=1, dtype="uint16", nodata=9, **options) as dataset:
        dataset.write(ramp((32, 32), "u2"), 1, window=rasterio.windows.Window(64, 32, 32, 32))


def levels() -> list[Sample]:
    pyramid = ramp((201, 303), "u2")
    three = ramp((3, 200, 304), "f4")
    return [
        gdal("levels", pyramid, LEVELS, overviews=[2, 4], tiled=True, blockxsize=64, blockysize=64, nodata=5),
        gdal("levels-even", pyramid[:200, :300], LEVELS, overviews=[2, 4]),
        gdal("levels-point", pyramid, LEVELS, overviews=[2, 4], tags={"AREA_OR_POINT": "Point"}),
        gdal("levels-nowhere", pyramid, LEVELS, overviews=[2, 4], crs=None, transform=None),
        gdal("levels-bands", three, LEVELS, overviews=[2, 4], nodata=-1, tags={"A": "b"}),
        gdal("levels-skewed", pyramid, LEVELS, overviews=[2, 3]),
        Sample("levels-external", external, LEVELS),
        Sample("pages", pages, ({}, {"overview_level": 1}, {"overview_level": 2}, {"overview_level": 3})),
        Sample("mask-inside", masked_inside, (*EVERY, {"masked": True}, {"overview_level": 1})),
        Sample("sparse", sparse, (*EVERY, {"masked": True}, {"window": (30, 60, 70, 100)})),
    ]


def shapes() -> list[Sample]:
    found = []
    for height, width in ((1, 1), (1, 53), (37, 1), (2, 3), (300, 5)):
        calls = ({}, {"chunks": 2 if height < 300 else 100}, {"window": (0, 0, 1, 1)}, {"masked": True})
        found.append(gdal(f"shape-{height}x{width}", ramp((height, width), "i2"), calls, nodata=1))
    found.append(
        gdal("bands-7", ramp((7, 20, 30), "u1"), (*EVERY[:1], {"band": 6}, {"band": 7}, {"band": 3, "chunks": 8}))
    )
    found.append(
        Sample(
            "strips-short-last",
            lambda path: write_tifffile(path, ramp((50, 20), "f4"), rowsperstrip=16),
            ({}, {"chunks": 9}),
        )
    )
    return found


def all_layouts() -> list[Sample]:
    return [*layouts(), *gdal_layouts(), *depths(), *orientations(), *levels(), *shapes()]
