"""Deliberate differences between Swath and the reference, with reasons; docs/differences.md is the page for users."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Calls by pattern (`sample: arguments`), the differences in the words of agreement.py, and the reason."""

    call: str
    what: tuple[str, ...]
    why: str


PIXELS = ("pixels",)
ANSWERS = ("outcome",)
PLACE = ("coord", "attrs crs", "attrs crs_wkt", "attrs georef_status", "attrs transform", "attrs _swath_no_georef")
HEIGHTS = ("attrs gdal_metadata", "attrs gdal_metadata_xml")
NODATA = (
    "pixels",
    "dtype",
    "attrs nodata",
    "attrs masked_nodata",
    "attrs nodata_pixels_present",
    "attrs mask_and_scale_dtype",
    "attrs nodata_dtype_cast",
    "outcome",
)
ORIENTED = ("outcome", "pixels", "shape", "coord", "attrs transform", "chunks")

READ: tuple[Difference, ...] = (
    # Pixels equal those of GDAL.
    Difference(
        "f[248]-*-p3-*-[23]c-*",
        PIXELS,
        "predictor 3 of interleaved samples: the reference takes bytes of other samples",
    ),
    Difference(
        "gdal-float*-p3-pixel: *",
        PIXELS,
        "predictor 3 of interleaved samples: the reference takes bytes of other samples",
    ),
    Difference("*-bit-53: *", ANSWERS, "rows of less than whole bytes are padded; the reference refuses them"),
    Difference(
        "about-palette-4-bit: *", ANSWERS, "rows of less than whole bytes are padded; the reference refuses them"
    ),
    Difference("min-is-white-*", ("pixels", "outcome"), "samples are given as they are in the file, not turned round"),
    Difference(
        "orientation-[2-8]*", ORIENTED, "GDAL gives rows and columns as they are stored; windows and chunks work"
    ),
    # Swath reads more files.
    Difference("complex: *", ANSWERS, "complex samples are read"),
    Difference("10-bit: *", ANSWERS, "all depths up to 64 bits are read"),
    Difference("codec-lzma: *", ANSWERS, "more codecs are read"),
    Difference("codec-ccitt: *", ANSWERS, "more codecs are read"),
    Difference("codec-lerc_*: *", ANSWERS, "LERC with Deflate or zstd behind it is read"),
    Difference("codec-lerc: ", ANSWERS, "LERC needs no opt-in"),
    Difference("codec-jpeg: ", ANSWERS, "JPEG needs no opt-in"),
    Difference("codec-jpeg2000: ", ANSWERS, "JPEG 2000 needs no opt-in"),
    Difference(
        "codec-jpeg: allow*",
        ("attrs extra_tags",),
        "tables of a codec are no metadata: copied, they spoil the next file",
    ),
    Difference("codec-lerc: allow*", ("attrs extra_tags",), "parameters of a codec are no metadata"),
    Difference("place-gcps: *", ANSWERS, "a file placed by control points is read without coordinates"),
    # Swath interprets more metadata.
    Difference("mask-inside: masked=True", ("dtype", "pixels"), "masks inside the file are applied by masked=True"),
    Difference("place-world-file: *", PLACE, "world files are read"),
    Difference("pam-place: *", PLACE, "the place that .aux.xml gives wins, as in GDAL"),
    Difference(
        "pam-nodata: *",
        ("attrs nodata", "attrs masked_nodata", "attrs nodata_pixels_present"),
        "nodata of .aux.xml is read",
    ),
    Difference("crs-compound: *", HEIGHTS, "the unit of a height system is that of the bands"),
    Difference("keys-vertical: *", HEIGHTS, "the unit of a height system is that of the bands"),
    Difference("crs-laea: *", PLACE, "user-defined projections are read from their GeoKeys"),
    Difference("crs-geocentric: *", PLACE, "geocentric codes are read"),
    Difference("crs-esri: *", ANSWERS, "a user-defined projection with the code of its datum is no contradiction"),
    Difference(
        "levels*overview_level=[12]*",
        ("attrs gdal_metadata", "attrs gdal_metadata_xml"),
        "metadata is the image's, not RESAMPLING of GDAL's overview",
    ),
    Difference("pages: overview_level=[12]", ANSWERS, "another page is no overview"),
    Difference("xml-doctype: unpack=True", ANSWERS, "a scale that cannot be read is an error, not packed numbers"),
    *(
        Difference(f"xml-{case}: *", ("attrs gdal_metadata",), "GDAL_METADATA is read as GDAL reads it")
        for case in ("scale-spaces", "empty", "other-root", "sample-text", "white-space")
    ),
    Difference("nodata-u2-text-1_0: *", NODATA, "an underscore is no part of a number"),
    Difference("xml-sample-text: unpack=True", ANSWERS, "a scale that cannot be read is an error, not packed numbers"),
    Difference("*: *band=[0-9]*", ("coords",), "one of several bands has its number as a coordinate"),
    Difference("scale-bands-differ: *unpack=True*", ANSWERS, "each band is unpacked with its own scale and offset"),
    Difference(
        "scale-one-band-only: *unpack=True*",
        ("pixels", "attrs scale_factor", "attrs add_offset"),
        "each band is unpacked with its own scale and offset",
    ),
)

TRANSFORM = ("transform", "coord", "attrs transform")
STALE = "coordinates place an array; attrs['transform'] counts only where there are none"
CRS = ("crs", "warnings", "attrs crs_wkt", "attrs georef_status")
LEVELS = ("levels",)

WRITE: tuple[Difference, ...] = (
    Difference(
        "*crs=4979: *", ("attrs crs", "attrs crs_wkt"), "as GDAL writes it: the code of the plane, keys of heights"
    ),
    Difference(
        "cog mode floats: *", LEVELS, "the first of equally frequent values, as in GDAL; the reference takes the lowest"
    ),
    Difference(
        "cog mode holes: *", LEVELS, "the first of equally frequent values, as in GDAL; the reference takes the lowest"
    ),
    Difference(
        "codec packbits predictor *",
        PIXELS,
        "libtiff knows no predictor of PackBits: it is left out, not written into files it spoils",
    ),
    Difference("no coords, nodata: *", ("crs", "tags"), "a file that lies nowhere has no GeoKeys"),
    Difference("nodata of numpy: *", ("crs", "tags"), "a file that lies nowhere has no GeoKeys"),
    Difference("*crs=None: *", ("crs", "tags"), "a file without a CRS has no GeoKeys; GDAL calls theirs a LOCAL_CS"),
    Difference("transform too short: *", ("warnings",), "a transform that is left out is worth a warning"),
    Difference("transform is text: *", ("warnings",), "a transform that is left out is worth a warning"),
    Difference("transform as list: *", TRANSFORM, STALE),
    Difference("transform south-up: *", TRANSFORM, STALE),
    Difference("transform of attrs wins: *", TRANSFORM, STALE),
    Difference("transform with a hair of shear: *", TRANSFORM, STALE),
    Difference("one pixel with transform: *", TRANSFORM, STALE),
    Difference("marked as nowhere: *", (*TRANSFORM, *PLACE), "coordinates that are no pixel numbers place the array"),
    Difference(
        "dims x before y: *",
        (*TRANSFORM, "profile", "pixels", "shape", "levels"),
        "the names of the dims say which is which; the reference takes x for rows",
    ),
    Difference(
        "names of others: *",
        ("units", "descriptions", "attrs gdal_metadata", "attrs gdal_metadata_xml"),
        "long_name and units are the name and unit of a band, as in rioxarray",
    ),
    Difference(
        "attrs {'missing_value': 5}: *",
        ("nodata", "pixels", "attrs nodata", "attrs masked_nodata", "attrs nodata_pixels_present", "levels"),
        "missing_value is another name of nodata, as in rioxarray",
    ),
    Difference(
        "*crs='PROJCRS[*unknown*",
        CRS,
        "a user-defined CRS is written as GeoKeys that GDAL reads, which the reference cannot",
    ),
    Difference(
        "metadata escapes*",
        ("tags", "attrs gdal_metadata", "attrs gdal_metadata_xml"),
        "escaped twice, as GDAL does and reads",
    ),
    Difference("crs nobody understands*", ("warnings",), "one warning says all"),
    Difference("levels without cog: *", ("warnings",), "overviews that are not written are worth a warning"),
    Difference("tag photometric*", ANSWERS, "MinIsWhite says nothing about the samples"),
    Difference("photometric=5: *", ANSWERS, "CMYK of three bands is no CMYK"),
    Difference("cog bands: *", LEVELS, "means of integers are rounded, halves away from zero"),
    Difference("cog mean bytes: *", LEVELS, "means of integers are rounded, halves away from zero"),
    Difference("cog median bytes: *", LEVELS, "medians of integers are rounded, halves away from zero"),
)
