"""Invalid calls of open_geotiff and to_geotiff: the error that Swath raises, and the behaviour of the reference if it
differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OK = ""


@dataclass(frozen=True)
class Bad:
    """A call, the class of its error (OK: none), words of its message, and the behaviour of the reference if it
    differs.
    """

    call: dict[str, Any]
    error: str
    says: str = ""
    theirs: str | None = None
    why: str = ""
    file: str = "plain"
    data: str = "plain"

    @property
    def id(self) -> str:
        subject = self.file if self.file != "plain" else self.data
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.call.items())
        return f"{subject}({arguments})".replace("\n", " ")[:120]


class Opaque:
    """Neither an array nor a path nor a number."""

    def __repr__(self) -> str:
        return "Opaque()"


MORE_BANDS = "a list selects several bands"
OWN_SCALES = "each band is unpacked with its own scale and offset"
MORE_CHUNKS = "chunks of Swath may also be 'auto', -1, a dict or a list"
NO_OPT_IN = "JPEG, LERC, JPEG 2000 and LZ4 need no opt-in: what Swath writes is what GDAL reads"
NO_PERMISSION = "tags and metadata are written without a permission"
SUBCLASS = "a ValueError that says more"
VRT_ONLY, GPU_ONLY = "VRT", "gpu=True"
NAN = float("nan")

READS = [
    # window
    Bad({"window": (0, 0, 61, 80)}, "ValueError", "window"),
    Bad({"window": (-1, 0, 10, 10)}, "ValueError", "window"),
    Bad({"window": (10, 10, 10, 20)}, "ValueError", "window"),
    Bad({"window": (10, 10, 5, 20)}, "ValueError", "window"),
    Bad({"window": (0, 0, 0, 0)}, "ValueError", "window"),
    Bad({"window": (0, 0, 10)}, "ValueError"),
    Bad({"window": (0, 0, 10, 10, 1)}, "ValueError"),
    Bad({"window": "abc"}, "ValueError"),
    Bad({"window": ((0, 10), (0, 10))}, "ValueError"),
    Bad({"window": 5}, "TypeError"),
    Bad({"window": ("a", 0, 1, 1)}, "TypeError"),
    Bad({"window": (0.5, 0, 10, 10)}, "TypeError"),
    Bad({"window": (0, 0, None, 10)}, "TypeError"),
    Bad({"window": slice(0, 1)}, "TypeError"),
    Bad({"window": (0, 0, 61, 80), "chunks": 16}, "ValueError", "window"),
    Bad({"window": (0, 0, 300, 400), "overview_level": 1}, "ValueError", "window", file="levels"),
    Bad({"window": (0, 0, 1, 1), "bbox": (0, 0, 1, 1)}, "ValueError", "window"),
    # bbox
    Bad({"bbox": (500100, 4599000, 500100, 4599500)}, "ValueError", "bbox"),
    Bad({"bbox": (500200, 4599000, 500100, 4599500)}, "ValueError", "bbox"),
    Bad({"bbox": (0, 0, 1, 1)}, "ValueError", "bbox"),
    Bad({"bbox": (500800, 4598800, 500900, 4600000)}, "ValueError", "overlap"),
    Bad({"bbox": (NAN, 0, 1, 1)}, "ValueError", "finite"),
    Bad({"bbox": (-float("inf"), 0, float("inf"), 5e6)}, "ValueError", "finite"),
    Bad({"bbox": (1, 2, 3)}, "ValueError", "bbox"),
    Bad({"bbox": "abcd"}, "ValueError", "bbox"),
    Bad({"bbox": 5}, "ValueError", "bbox"),
    Bad({"bbox": ("a", 1, 2, 3)}, "TypeError"),
    Bad({"bbox": (0, 0, 10, 10)}, "ValueError", "georeferenced", file="nowhere"),
    Bad({"bbox": (0, 0, 10, 10)}, "RotatedTransformError", "allow_rotated", file="tilted"),
    Bad({"bbox": (0, 0, 10, 10), "allow_rotated": True}, "ValueError", "bbox", file="tilted"),
    # overview_level
    Bad({"overview_level": 4}, "ValueError", "overview_level", file="levels"),
    Bad({"overview_level": 1}, "ValueError", "overview_level"),
    Bad({"overview_level": -1}, "ValueError", "overview_level"),
    Bad({"overview_level": True}, "TypeError", "overview_level"),
    Bad({"overview_level": 1.0}, "TypeError", "overview_level"),
    Bad({"overview_level": "1"}, "TypeError", "overview_level"),
    # band
    Bad({"band": 3}, "IndexError", "band", file="bands"),
    Bad({"band": -1}, "IndexError", "band", file="bands"),
    Bad({"band": 1}, "IndexError", "band"),
    Bad({"band": 5, "chunks": 20}, "IndexError", "band", file="bands"),
    Bad({"band": True}, "ValueError", "band", file="bands"),
    Bad({"band": 1.0}, "TypeError", "band", file="bands"),
    Bad({"band": "0"}, "TypeError", "band", file="bands"),
    Bad({"band": (0, 1)}, OK, theirs="TypeError", why=MORE_BANDS, file="bands"),
    Bad({"band": [0, 2]}, OK, theirs="TypeError", why=MORE_BANDS, file="bands"),
    Bad({"band": [0, 0]}, "ValueError", "band", theirs="TypeError", why=MORE_BANDS, file="bands"),
    Bad({"band": [0, 3]}, "IndexError", "band", theirs="TypeError", why=MORE_BANDS, file="bands"),
    # chunks
    Bad({"chunks": 0}, "ValueError", "chunks"),
    Bad({"chunks": (0, 5)}, "ValueError", "chunks"),
    Bad({"chunks": (20,)}, "ValueError", "chunks"),
    Bad({"chunks": (20, 30, 1)}, "ValueError", "chunks"),
    Bad({"chunks": ("a", "b")}, "ValueError", "chunks"),
    Bad({"chunks": 2.0}, "ValueError", "chunks"),
    Bad({"chunks": True}, "ValueError", "chunks"),
    Bad({"chunks": False}, "ValueError", "chunks"),
    Bad({"chunks": 1}, "ValueError", "50,000", file="levels"),
    Bad({"chunks": "auto"}, OK, theirs="ValueError", why=MORE_CHUNKS),
    Bad({"chunks": -1}, OK, theirs="ValueError", why=MORE_CHUNKS),
    Bad({"chunks": {"y": 10, "x": 20}}, OK, theirs="ValueError", why=MORE_CHUNKS),
    Bad({"chunks": {}}, OK, theirs="ValueError", why=MORE_CHUNKS),
    # dtype
    Bad({"dtype": "int32"}, "ValueError", "cast", file="floats"),
    Bad({"dtype": "uint8", "chunks": 20}, "ValueError", "cast", file="floats"),
    Bad({"dtype": "nope"}, "TypeError"),
    Bad({"dtype": 5}, "TypeError"),
    Bad({"masked": True, "dtype": "int32"}, "ValueError", "cast", file="nodata"),
    Bad({"masked": True, "dtype": "uint16", "chunks": 20}, "ValueError", "cast", file="nodata"),
    Bad({"unpack": True, "dtype": "int32"}, "ValueError", "cast", file="scaled"),
    # max_pixels
    Bad({"max_pixels": 4799}, "PixelSafetyLimitError", "max_pixels"),
    Bad({"max_pixels": 0}, "PixelSafetyLimitError", "max_pixels"),
    Bad({"max_pixels": -1}, "PixelSafetyLimitError", "max_pixels"),
    Bad({"max_pixels": "5"}, "TypeError"),
    Bad({"max_pixels": 4800}, "PixelSafetyLimitError", "max_pixels", file="bands"),
    Bad({"max_pixels": 99, "window": (0, 0, 10, 10)}, "PixelSafetyLimitError", "max_pixels"),
    # arguments of one kind of source
    Bad({"gpu": 1}, "TypeError", "gpu"),
    Bad({"gpu": "yes"}, "TypeError", "gpu"),
    Bad({"gpu": None}, "TypeError", "gpu"),
    Bad({"on_gpu_failure": "auto"}, "ValueError", GPU_ONLY),
    Bad({"on_gpu_failure": "strict"}, "ValueError", GPU_ONLY),
    Bad({"gpu": True, "on_gpu_failure": "x"}, "ValueError", "on_gpu_failure"),
    Bad({"gpu": True, "parse_coordinates": False}, "ValueError", "parse_coordinates"),
    Bad({"gpu": True, "max_cloud_bytes": 5}, "ValueError", "max_cloud_bytes"),
    Bad({"chunks": 20, "max_cloud_bytes": 5}, "ValueError", "max_cloud_bytes"),
    Bad({"chunks": 20, "max_cloud_bytes": None}, "ValueError", "max_cloud_bytes"),
    Bad({"missing_sources": "raise"}, "ValueError", VRT_ONLY),
    Bad({"missing_sources": "warn"}, "ValueError", VRT_ONLY),
    Bad({"missing_sources": "x"}, "ValueError", VRT_ONLY),
    Bad({"band_nodata": "first"}, "ValueError", VRT_ONLY),
    Bad({"band_nodata": "x"}, "ValueError", VRT_ONLY),
    Bad({"name": "q", "default_name": "r"}, "TypeError", "default_name"),
    Bad({"masked": True, "mask_nodata": True}, "TypeError", "mask_nodata"),
    Bad({"unpack": True, "mask_and_scale": True}, "TypeError", "mask_and_scale"),
    Bad({"nope": 1}, "TypeError", "nope"),
    # sources
    Bad({}, "FileNotFoundError", file="missing"),
    Bad({}, "FileNotFoundError", file="missing.vrt"),
    Bad({}, "IsADirectoryError", file="folder"),
    Bad({}, "CorruptGeoTIFFError", theirs="ValueError", why=SUBCLASS, file="empty"),
    Bad({}, "CorruptGeoTIFFError", theirs="ValueError", why=SUBCLASS, file="junk"),
    Bad({}, "CorruptGeoTIFFError", theirs="ValueError", why=SUBCLASS, file="truncated"),
    Bad({"chunks": 16}, "ValueError", "chunks", file="stream"),
    Bad({"gpu": True}, "ValueError", "gpu", file="stream"),
    Bad({"overview_level": 1}, "ValueError", "overview_level", file="stream"),
    Bad({}, "TypeError", file="none"),
    Bad({}, "TypeError", file="number"),
    Bad({}, "TypeError", file="no-seek"),
    Bad({}, "UnsafeURLError", "127.0.0.1", file="http://127.0.0.1:9/a.tif"),
    Bad({"stable_only": True}, "RemoteStableSourcesOnlyError", "stable_only", file="http://example.com/a.tif"),
    Bad({"stable_only": True}, "RemoteStableSourcesOnlyError", "stable_only", file="s3://bucket/a.tif"),
    Bad({"stable_only": True}, "VRTStableSourcesOnlyError", "stable_only", file="missing.vrt"),
    # content of files
    Bad({}, "RotatedTransformError", "allow_rotated", file="tilted"),
    Bad({"chunks": 20}, "RotatedTransformError", "allow_rotated", file="tilted"),
    Bad({}, "DegeneratePixelSizeError", file="flat"),
    Bad({}, "InvalidIntegerNodataError", "allow_invalid_nodata", file="nan-in-integers"),
    Bad({"chunks": 20}, "InvalidIntegerNodataError", "allow_invalid_nodata", file="nan-in-integers"),
    Bad({}, "InconsistentGeoKeysError", file="contradiction"),
    Bad({}, "UnparseableCRSError", "allow_unparseable_crs", file="broken-wkt"),
    Bad({"unpack": True}, OK, theirs="MixedBandMetadataError", why=OWN_SCALES, file="scaled-bands"),
    Bad({"unpack": True}, "MalformedScaleOffsetError", "SCALE", file="scaled-by-nothing"),
]

WRITES = [
    # compression
    Bad({"compression": None}, "TypeError", "compression"),
    Bad({"compression": 5}, "TypeError", "compression"),
    Bad({"compression": True}, "TypeError", "compression"),
    Bad({"compression": "x"}, "ValueError", "compression"),
    Bad({"compression": ""}, "ValueError", "compression"),
    Bad({"compression_level": 0}, "ValueError", "compression_level"),
    Bad({"compression_level": 23}, "ValueError", "compression_level"),
    Bad({"compression_level": -1}, "ValueError", "compression_level"),
    Bad({"compression": "deflate", "compression_level": 10}, "ValueError", "compression_level"),
    Bad({"compression": "deflate", "compression_level": 0}, "ValueError", "compression_level"),
    Bad({"compression": "lz4", "compression_level": 17, "allow_experimental_codecs": True}, "ValueError", "level"),
    Bad({"compression_level": True}, "TypeError", "compression_level"),
    Bad({"compression_level": "6"}, "TypeError", "compression_level"),
    Bad({"compression_level": 3.5}, "TypeError", "compression_level"),
    Bad({"predictor": 3}, "ValueError", "predictor"),
    Bad({"predictor": 4}, "ValueError", "predictor"),
    Bad({"predictor": "x"}, "ValueError", "predictor"),
    Bad({"predictor": None}, "ValueError", "predictor"),
    Bad({"predictor": 2, "compression": "lerc", "allow_experimental_codecs": True}, "ValueError", "predictor"),
    Bad({"max_z_error": -1}, "ValueError", "max_z_error"),
    Bad({"max_z_error": 0.5}, "ValueError", "max_z_error"),
    Bad({"max_z_error": "x"}, "TypeError"),
    Bad({"max_z_error": None}, "TypeError"),
    Bad({"compression": "jpeg", "allow_internal_only_jpeg": True}, "ValueError", "uint8"),
    Bad({"compression": "lerc"}, OK, theirs="ValueError", why=NO_OPT_IN),
    Bad({"compression": "lz4"}, OK, theirs="ValueError", why=NO_OPT_IN),
    Bad({"compression": "jpeg2000"}, OK, theirs="ValueError", why=NO_OPT_IN),
    Bad({"compression": "j2k"}, OK, theirs="ValueError", why=NO_OPT_IN),
    Bad({"compression": "jpeg"}, OK, theirs="ValueError", why=NO_OPT_IN, data="bytes"),
    # layout
    Bad({"tile_size": 0}, "ValueError", "tile_size"),
    Bad({"tile_size": -16}, "ValueError", "tile_size"),
    Bad({"tile_size": 15}, "ValueError", "tile_size"),
    Bad({"tile_size": 100}, "ValueError", "tile_size"),
    Bad({"tile_size": 256.0}, "ValueError", "tile_size"),
    Bad({"tile_size": "256"}, "ValueError", "tile_size"),
    Bad({"tile_size": None}, "ValueError", "tile_size"),
    Bad({"tile_size": True}, "ValueError", "tile_size"),
    Bad({"cog": True, "tiled": False}, "ValueError", "tiled"),
    Bad({"cog": True, "overview_levels": [3]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [4, 2]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [2, 2]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [1]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [0]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [-2]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": ["a"]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [2.0]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [True]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": 2}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": "24"}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_levels": [2, 1024]}, "ValueError", "overview_levels"),
    Bad({"cog": True, "overview_resampling": "x", "overview_levels": [2]}, "ValueError", "resampling"),
    Bad({"gpu": 1}, "TypeError", "gpu"),
    Bad({"gpu": "x"}, "TypeError", "gpu"),
    # photometric
    Bad({"photometric": "x"}, "ValueError", "photometric"),
    Bad({"photometric": True}, "TypeError", "photometric"),
    Bad({"photometric": None}, "TypeError", "photometric"),
    Bad({"photometric": 1.0}, "TypeError", "photometric"),
    Bad({"photometric": "rgb"}, "ValueError", "3"),
    Bad({"photometric": "rgba"}, "ValueError", "4"),
    Bad({"photometric": "rgba"}, "ValueError", "4", data="bands"),
    Bad({"photometric": "miniswhite"}, OK, theirs="NotImplementedError", why="MinIsWhite is a tag", data="signed"),
    Bad({"photometric": -1}, "ValueError", "photometric", theirs="error",
        why="struct.error of the reference is an accident"),
    Bad({"photometric": 70000}, "ValueError", "photometric", theirs="error",
        why="struct.error of the reference is an accident"),
    # crs
    Bad({"crs": 99999}, "InvalidCRSCodeError", "crs", theirs="ValueError", why=SUBCLASS),
    Bad({"crs": 0}, "InvalidCRSCodeError", "crs", theirs="ValueError", why=SUBCLASS),
    Bad({"crs": -1}, "InvalidCRSCodeError", "crs", theirs="ValueError", why=SUBCLASS),
    Bad({"crs": 32767}, "InvalidCRSCodeError", "crs", theirs="ValueError", why=SUBCLASS),
    Bad({"crs": True}, "ValueError", "crs"),
    Bad({"crs": 3.5}, "TypeError", "crs"),
    Bad({"crs": {"init": "epsg:4326"}}, "TypeError", "crs"),
    Bad({"crs": "hello"}, "UnparseableCRSError", "crs"),
    Bad({"crs": ""}, "UnparseableCRSError", "crs"),
    Bad({"crs": "EPSG:99999"}, "UnparseableCRSError", "crs"),
    Bad({}, "ConflictingCRSError", "crs_wkt", data="two-crs"),
    Bad({}, "UnparseableCRSError", data="broken-crs"),
    Bad({}, "TypeError", "crs", data="float-crs"),
    # nodata
    Bad({"nodata": True}, "TypeError", "nodata"),
    Bad({"nodata": "x"}, "ValueError", "nodata"),
    Bad({"nodata": [5]}, "ValueError", "nodata"),
    Bad({"nodata": 1 + 2j}, "ValueError", "nodata"),
    Bad({}, "ConflictingNodataError", "nodatavals", data="two-nodatavals"),
    Bad({}, "ConflictingNodataError", "nodatavals", data="nodata-and-nodatavals"),
    Bad({}, "ValueError", "nodata", data="nodata-text"),
    Bad({}, "TypeError", "nodata", data="nodata-bool"),
    # georeferencing
    Bad({}, "ValueError", "transform", data="one-pixel"),
    Bad({}, "ValueError", "transform", data="one-row"),
    Bad({}, "NonUniformCoordsError", "x", data="uneven"),
    Bad({}, "NonUniformCoordsError", "x", data="slightly-uneven"),
    Bad({}, "NonUniformCoordsError", "y", data="nan-coordinate"),
    Bad({}, "NonUniformCoordsError", "y", data="constant-coordinate"),
    Bad({}, "RotatedTransformError", "transform", theirs="ValueError", why=SUBCLASS, data="sheared"),
    Bad({}, "ValueError", "rotated_affine", data="rotated"),
    # data
    Bad({}, "ValueError", "empty", data="empty"),
    Bad({}, "ValueError", "band", data="no-bands"),
    Bad({}, "ValueError", "1D", data="line"),
    Bad({}, "ValueError", "4D", data="four"),
    Bad({}, "ValueError", "time", data="time"),
    Bad({}, "ValueError", "time", data="time-last"),
    Bad({}, "ValueError", "foo", data="foo-first"),
    Bad({}, "ValueError", "foo", data="foo-last"),
    Bad({}, OK, theirs="ValueError", why="the names of the dims say which is which", data="band-between"),
    Bad({}, OK, theirs="ValueError", why="complex samples are written", data="complex"),
    Bad({}, "ValueError", data="dates"),
    Bad({}, "ValueError", data="strings"),
    Bad({}, "ValueError", data="objects"),
    Bad({"pack": True}, "ValueError", "pack"),
    Bad({"pack": True}, "ValueError", "pack", data="numpy"),
    Bad({"color_ramp": "x"}, "ValueError", "color_ramp"),
    Bad({"color_ramp": 5}, "ValueError", "color_ramp"),
    Bad({}, OK, theirs="ValueError", why=NO_PERMISSION, data="extra-tags"),
    Bad({}, OK, theirs="ValueError", why=NO_PERMISSION, data="gdal-metadata"),
    # target
    Bad({"path": None}, "TypeError", "path"),
    Bad({"path": 5}, "TypeError", "path"),
    Bad({"path": b"abc"}, "TypeError", "path"),
    Bad({"path": Opaque()}, "TypeError", "path"),
    Bad({"path": "http://x/a.tif"}, "NotImplementedError", "HTTP"),
    Bad({"path": "https://x/a.tif"}, "NotImplementedError", "HTTP"),
    Bad({"path": "folder"}, "IsADirectoryError"),
    Bad({"path": "no/such/folder/a.tif"}, "FileNotFoundError"),
    Bad({"path": "stream", "cog": True}, "ValueError", "cog"),
    Bad({"nope": 1}, "TypeError", "nope"),
]  # fmt: skip
