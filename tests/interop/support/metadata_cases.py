"""Files with every kind of metadata that a GeoTIFF can hold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rasterio
import tifffile
from rasterio import Affine
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp, Resampling
from rasterio.rpc import RPC

from pixels import pixels

SIZE = (45, 61)
NORTH_UP = Affine(10, 0, 500000, 0, -10, 5100000)
DEGREES = Affine(0.25, 0, -12.3456789, 0, -0.25, 51.5)
TMERC = (
    'PROJCS["mine",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],PARAMETER["latitude_of_origin",49.5],'
    'PARAMETER["central_meridian",8.25],PARAMETER["scale_factor",0.9997],PARAMETER["false_easting",1000],'
    'PARAMETER["false_northing",-2000.5],UNIT["metre",1]]'
)
LAEA = "+proj=laea +lat_0=52 +lon_0=10 +x_0=4321000 +y_0=3210000 +ellps=GRS80 +units=m +no_defs"
SYSTEMS: dict[str, object] = {
    "utm": "EPSG:32633", "geographic": "EPSG:4326", "mercator": "EPSG:3857", "feet": "EPSG:2225",
    "us-feet": "EPSG:2263", "grads": "EPSG:4807", "geocentric": "EPSG:4978", "geographic-3d": "EPSG:4979",
    "compound": "EPSG:9518", "compound-feet": "EPSG:2225+6360", "lambert": "EPSG:2154", "polar": "EPSG:3031",
    "krovak": "EPSG:5514", "swiss": "EPSG:2056", "albers": "EPSG:5070", "oblique": "EPSG:3375",
    "tmerc": TMERC, "laea": LAEA,
    "sphere": "+proj=longlat +R=6371000 +no_defs", "bound": "+proj=longlat +ellps=bessel +towgs84=598,73,418,0,0,0,0",
    "lcc-feet": "+proj=lcc +lat_1=33 +lat_2=45 +lat_0=39 +lon_0=-96 +datum=NAD83 +units=us-ft +no_defs",
}  # fmt: skip
NODATA = [
    ("uint8", 0), ("uint8", 255), ("int8", -128), ("uint16", 65535), ("int16", -9999), ("uint32", 2**32 - 1),
    ("int32", -(2**31)), ("float32", -9999.0), ("float32", float("nan")), ("float32", float("-inf")),
    ("float32", float("inf")), ("float32", -3.4028234663852886e38), ("float64", -1.7976931348623157e308),
    ("float64", 1e-300), ("float64", 0.1), ("float16", -99.0), ("complex64", 0.0), ("uint8", 3),
]  # fmt: skip


@dataclass
class Described:
    """A file with metadata. `describe` gets the open dataset; `env` are GDAL's settings while it is written."""

    name: str
    options: dict[str, object] = field(default_factory=dict)
    describe: Callable[[rasterio.io.DatasetWriter], None] = lambda dataset: None
    env: dict[str, object] = field(default_factory=dict)
    dtype: str = "uint8"
    bands: int = 3
    beside: str = ""

    def write(self, path: Path) -> None:
        header = {"count": self.bands, "height": SIZE[0], "width": SIZE[1], "dtype": self.dtype}
        with rasterio.Env(**self.env), rasterio.open(path, "w", driver="GTiff", **header, **self.options) as dataset:
            self.describe(dataset)
            dataset.write(pixels(self.name, self.dtype, self.bands, *SIZE, bits=self.options.get("nbits")))
        beside = path.with_name(path.name + self.beside)
        assert beside.exists(), f"{self.name}: GDAL wrote no {self.beside}"
        if self.beside == ".aux.xml":
            # rasterio puts a key before XML documents, which makes them invalid.
            beside.write_text(beside.read_text().replace("xml:NOTES=\n", "\n"))


def places() -> Iterator[Described]:
    """Georeferencing of every kind."""
    for name, system in SYSTEMS.items():
        degrees = name in ("geographic", "grads", "geographic-3d", "compound", "sphere", "bound")
        yield Described(f"crs-{name}", {"crs": system, "transform": DEGREES if degrees else NORTH_UP})
    yield Described("crs-version-1.0", {"crs": "EPSG:9518", "transform": DEGREES, "geotiff_version": "1.0"})
    yield Described("crs-esri-pe", {"crs": LAEA, "transform": NORTH_UP, "geotiff_keys_flavor": "ESRI_PE"})
    for name, transform in {
        "rotated": Affine(10, 3, 500000, 2.5, -10, 5100000),
        "south-up": Affine(10, 0, 500000, 0, 10, 5100000),
        "mirrored": Affine(-10, 0, 500000, 0, -10, 5100000),
        "thirds": Affine(1 / 3, 0, 1e7 / 3, 0, -1 / 3, 2e7 / 3),
        "oblong": Affine(1e-9, 0, 180, 0, -1e9, 0),
    }.items():
        yield Described(f"transform-{name}", {"crs": "EPSG:32633", "transform": transform})
        yield Described(f"transform-{name}-alone", {"transform": transform})
    point = {"crs": "EPSG:32633", "transform": NORTH_UP}
    yield Described("point", point, lambda dataset: dataset.update_tags(AREA_OR_POINT="Point"))
    rotated = {"crs": "EPSG:32633", "transform": Affine(10, 3, 500000, 2.5, -10, 5100000)}
    yield Described("point-rotated", rotated, lambda dataset: dataset.update_tags(AREA_OR_POINT="Point"))
    yield Described("crs-alone", {"crs": "EPSG:32633"})
    yield Described("gcps", describe=gcps)
    yield Described("gcps-point", describe=lambda dataset: (gcps(dataset), dataset.update_tags(AREA_OR_POINT="Point")))
    yield Described("rpcs", describe=rpcs)
    yield Described("rpcs-and-transform", {"crs": "EPSG:4326", "transform": DEGREES}, rpcs)
    yield Described("tfw", {"transform": NORTH_UP, "tfw": "yes", "profile": "BASELINE"})


def gcps(dataset: rasterio.io.DatasetWriter) -> None:
    points = [GroundControlPoint(i * 7.25, 3 * i % 7 + 0.5, 10 + i / 3, 50 - i, i * 1.5, str(i + 1)) for i in range(7)]
    dataset.gcps = points, rasterio.crs.CRS.from_epsg(4326)


def rpcs(dataset: rasterio.io.DatasetWriter) -> None:
    numbers = [[(-1) ** i * (i + 1) * 10.0**-power for i in range(20)] for power in range(4)]
    dataset.rpcs = RPC(
        height_off=500.5, height_scale=501.0, lat_off=45.123, lat_scale=0.075, long_off=-120.5, long_scale=0.0825,
        line_off=22.0, line_scale=23.5, samp_off=30.0, samp_scale=31.25, line_num_coeff=numbers[0],
        line_den_coeff=[1.0, *numbers[1][1:]], samp_num_coeff=numbers[2], samp_den_coeff=[1.0, *numbers[3][1:]],
        err_bias=1.5, err_rand=0.25,
    )  # fmt: skip


def words() -> Iterator[Described]:
    """Names, units, metadata items, texts."""
    yield Described("scales", describe=scales)
    yield Described("scale-only", describe=lambda dataset: setattr(dataset, "scales", (1.0, 0.1, 1e-20)))
    yield Described("offset-only", describe=lambda dataset: setattr(dataset, "offsets", (0.0, -273.15, 1e20)))
    # For a single band with a vertical CRS, GDAL keeps scale and offset in the third dimension of the georeferencing
    # and not in its metadata items.
    heights = {"crs": "EPSG:32633+5773", "transform": NORTH_UP}
    yield Described("scales-of-heights", heights, height_scales, dtype="int16", bands=1)
    yield Described("scales-of-many-heights", heights, scales)
    awkward = ("bleu é", None, "a <b> & \"c\" 'd' \n")
    yield Described("descriptions", describe=lambda dataset: setattr(dataset, "descriptions", awkward))
    yield Described("units", describe=lambda dataset: setattr(dataset, "units", ("m", "", "µg/m³")))
    yield Described("items", describe=items)
    yield Described("items-big-endian", {"endianness": "BIG"}, items)
    yield Described("items-bigtiff", {"bigtiff": "YES"}, items)
    yield Described("items-aux-xml", {"profile": "BASELINE"}, items, beside=".aux.xml")
    yield Described("texts", describe=texts)
    yield Described("statistics", describe=statistics)
    yield Described("everything", {"crs": "EPSG:32633", "transform": NORTH_UP, "nodata": 7}, everything)
    yield Described("everything-big", {"crs": TMERC, "transform": NORTH_UP, "endianness": "BIG"}, everything)


def scales(dataset: rasterio.io.DatasetWriter) -> None:
    dataset.scales, dataset.offsets = (0.1, 1.0, 1e-4), (-1.5, 0.0, 1 / 3)


def height_scales(dataset: rasterio.io.DatasetWriter) -> None:
    dataset.scales, dataset.offsets = (0.1,), (-500.5,)


def items(dataset: rasterio.io.DatasetWriter) -> None:
    dataset.update_tags(TITLE="a <b> & \"c\" 'd' é ☃", LINES="one\ntwo", SPACES="  in and around ", EQUALS="a=b=c")
    dataset.update_tags(ns="PROCESSING", LEVEL="L2A", ÜMLAUT="ß")
    dataset.update_tags(ns="xml:NOTES", **{"xml:NOTES": "<notes kind='x'><n>1 &amp; 2</n></notes>"})
    dataset.update_tags(1, WAVELENGTH="0.49")
    dataset.update_tags(3, WAVELENGTH="0.86", ns="OPTICS")


def texts(dataset: rasterio.io.DatasetWriter) -> None:
    names = ["DOCUMENTNAME", "IMAGEDESCRIPTION", "SOFTWARE", "ARTIST", "HOSTCOMPUTER", "COPYRIGHT"]
    values = {f"TIFFTAG_{name}": f"the {name.lower()}" for name in names}
    values |= {"TIFFTAG_MINSAMPLEVALUE": "3", "TIFFTAG_MAXSAMPLEVALUE": "250"}
    values["TIFFTAG_DATETIME"] = "2024:02:29 23:59:59"
    resolution = {"TIFFTAG_XRESOLUTION": "300", "TIFFTAG_YRESOLUTION": "72.5", "TIFFTAG_RESOLUTIONUNIT": "2"}
    dataset.update_tags(**values, **resolution)


def statistics(dataset: rasterio.io.DatasetWriter) -> None:
    for band in dataset.indexes:
        dataset.update_tags(band, STATISTICS_MINIMUM=str(band), STATISTICS_MAXIMUM="250", STATISTICS_MEAN="100.5")


def everything(dataset: rasterio.io.DatasetWriter) -> None:
    for part in (scales, items, texts, statistics):
        part(dataset)
    dataset.descriptions, dataset.units = ("red", "edge", "infrared"), ("m", "K", "1")


def colours() -> Iterator[Described]:
    """Colour interpretations, nodata values and masks."""
    yield Described("palette", {"photometric": "palette"}, palette, bands=1)
    yield Described("palette-16", {"photometric": "palette"}, palette, dtype="uint16", bands=1)
    yield Described("palette-4bit", {"photometric": "palette", "nbits": 4}, palette, bands=1)
    yield Described("miniswhite", {"photometric": "miniswhite"}, bands=1)
    yield Described("one-bit", {"nbits": 1}, bands=1)
    yield Described("one-bit-white", {"nbits": 1, "photometric": "miniswhite"}, bands=1)
    for name, wanted in {
        "bgr": ["blue", "green", "red"], "rgb-nir": ["red", "green", "blue", "nir"],
        "rgba": ["red", "green", "blue", "alpha"], "gray-alpha": ["gray", "alpha"],
        "spectral": ["coastal", "rededge", "nir", "swir", "pan"], "alpha-first": ["alpha", "gray"],
        "undefined": ["undefined", "undefined"], "cmyk-like": ["cyan", "magenta", "yellow", "black"],
    }.items():  # fmt: skip
        colors = [ColorInterp[color] for color in wanted]
        yield Described(f"colors-{name}", {}, lambda d, c=colors: setattr(d, "colorinterp", c), bands=len(wanted))
    for dtype, value in NODATA:
        yield Described(f"nodata-{dtype}-{value:g}", {"nodata": value}, dtype=dtype, bands=2)
    yield Described("nbits-12", {"nbits": 12}, dtype="uint16", bands=2)
    yield Described("mask-inside", describe=masked, env={"GDAL_TIFF_INTERNAL_MASK": True})
    yield Described("mask-beside", describe=masked, env={"GDAL_TIFF_INTERNAL_MASK": False}, beside=".msk")
    yield Described("overviews-beside", describe=overviews, env={"TIFF_USE_OVR": True}, beside=".ovr")


def palette(dataset: rasterio.io.DatasetWriter) -> None:
    count = 16 if dataset.tags(1, ns="IMAGE_STRUCTURE").get("NBITS") == "4" else 256
    dataset.write_colormap(1, {i: (i, 255 - i, i // 2, 255) for i in range(count)})


def masked(dataset: rasterio.io.DatasetWriter) -> None:
    dataset.write_mask(np.add.outer(np.arange(SIZE[0]), np.arange(SIZE[1])) % 7 > 2)


def overviews(dataset: rasterio.io.DatasetWriter) -> None:
    dataset.build_overviews([2, 4], Resampling.nearest)


PRIVATE = [
    (65000, "B", 3, (1, 2, 255)), (65001, "s", 0, "private text"), (65002, "H", 2, (1, 65535)),
    (65003, "I", 1, 2**32 - 1), (65004, "2I", 2, (1, 3, 22, 7)), (65005, "b", 2, (-1, 127)),
    (65006, 7, 5, b"\0\1\2\xff\xfe"), (65007, "h", 1, -32768), (65008, "i", 2, (-1, 2**31 - 1)),
    (65009, "2i", 1, (-1, 3)), (65010, "f", 2, (0.5, -1e30)), (65011, "d", 3, (0.1, 1e300, -2.0)),
    (700, "B", 0, tuple(b"<x:xmpmeta xmlns:x='adobe:ns:meta/'>\xc3\xa9</x:xmpmeta>")),
    (34675, 7, 0, bytes(range(256)) * 2),
    # tifffile cannot read these three types if the value is short and stored inside the entry.
    (33723, 7, 13, b"iptc\0\1\2345678"), (50341, 7, 12, b"PIM\0and more."), (37724, 7, 12, b"8BIM no more"),
]  # fmt: skip
LONG8 = [(65016, "Q", 1, 2**64 - 1), (65017, "q", 2, (-(2**63), 5))]


WIDE_NODATA = [("uint64", 2**64 - 1), ("uint64", 2**53 + 1), ("int64", -(2**63)), ("int64", 2**63 - 1)]


def write_wide_nodata(path: Path, dtype: str, value: int) -> None:
    """A nodata value that neither a double nor rasterio can hold exactly."""
    array = pixels("wide", dtype, 1, *SIZE)[0]
    array[10:20] = value
    tags = [(42113, "s", 0, str(value), True)]
    tifffile.imwrite(path, array, photometric="minisblack", extratags=tags, metadata=None)


def write_private(path: Path, byteorder: str, bigtiff: bool) -> None:
    """Private tags of every TIFF type."""
    tags = [*PRIVATE, *(LONG8 if bigtiff else [])]
    extra = [(code, kind, count or len(value), value, True) for code, kind, count, value in tags]
    array = pixels("private", "uint8", 1, *SIZE)[0]
    options = {"byteorder": byteorder, "bigtiff": bigtiff, "metadata": None, "software": "tests"}
    tifffile.imwrite(path, array, photometric="minisblack", extratags=extra, resolution=(254, 72.5), **options)


def all_cases() -> list[Described]:
    """Every file with metadata."""
    return [*places(), *words(), *colours()]
