"""Samples: georeferencing, missing pixels and metadata."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyproj
import rasterio
from rasterio.control import GroundControlPoint
from rasterio.transform import Affine, from_origin

from samples import MASKED, PLACED, Call, Sample, doubles, gdal, ramp, raw_tags, shorts, text, write_rasterio

LAEA = "+proj=laea +lat_0=10 +lon_0=20 +x_0=5 +y_0=6 +datum=WGS84 +units=m"
BOXES: tuple[Call, ...] = (
    {"bbox": (500000, 4599260, 500530, 4600000)},
    {"bbox": (500101, 4599401, 500199, 4599499)},
    {"bbox": (500105, 4599410, 500106, 4599411), "chunks": 8},
    {"bbox": (499000, 4599400, 500050, 4699000)},
    {"bbox": (0, 0, 1, 1)},
    {"bbox": (500100, 4599400, 500200, 4599500), "band": 0, "masked": True},
)


def with_gcps(path: Path) -> None:
    with rasterio.open(path, "w", driver="GTiff", width=53, height=37, count=1, dtype="uint16") as dataset:
        dataset.write(ramp((37, 53), "u2"), 1)
        corners = [(0, 0, 1, 2), (0, 53, 11, 2.5), (37, 0, 1.5, 12), (37, 53, 12, 13)]
        dataset.gcps = [GroundControlPoint(*corner) for corner in corners], "EPSG:4326"


def with_world_file(path: Path) -> None:
    write_rasterio(path, ramp((37, 53), "u2"), crs=None, transform=None)
    path.with_suffix(".tfw").write_text("10\n0\n0\n-10\n100\n200\n")


def with_pam(xml: str) -> Sample:
    def make(path: Path) -> None:
        write_rasterio(path, ramp((37, 53), "u1") % 3)
        Path(f"{path}.aux.xml").write_text(f"<PAMDataset>{xml}</PAMDataset>")

    return Sample("", make, ({}, {"chunks": 16}, {"window": (0, 0, 2, 2), "band": 0}))


def named(id: str, sample: Sample) -> Sample:
    return Sample(id, sample.make, sample.calls)


def placed() -> list[Sample]:
    tilted = Affine(10, 2, 500000, 1, -20, 4600000)
    calls = (*PLACED, *BOXES)
    found = [
        gdal("place-utm", calls=calls),
        gdal("place-point", calls=calls, tags={"AREA_OR_POINT": "Point"}),
        gdal("place-none", calls=calls, crs=None, transform=None),
        gdal("place-transform-only", calls=calls, crs=None),
        gdal("place-crs-only", calls=calls, transform=None),
        gdal("place-geographic", calls=PLACED, crs="EPSG:4326", transform=from_origin(-10, 50, 0.1, 0.1)),
        gdal("place-fractions", calls=PLACED, transform=from_origin(1 / 3, 2 / 3, 1 / 7, 1 / 9)),
        gdal("place-tilted", calls=calls, transform=tilted),
        gdal("place-tilted-point", calls=PLACED, transform=tilted, tags={"AREA_OR_POINT": "Point"}),
        gdal(
            "place-south-up",
            calls=(*PLACED, {"bbox": (500100, 4600100, 500200, 4600500)}),
            transform=Affine(10, 0, 500000, 0, 20, 4600000),
        ),
        gdal(
            "place-west",
            calls=(*PLACED, {"bbox": (499800, 4599400, 499900, 4599500)}),
            transform=Affine(-10, 0, 500000, 0, -20, 4600000),
        ),
        gdal("place-bands", ramp((3, 37, 53), "u1"), calls),
        Sample("place-gcps", with_gcps, PLACED),
        Sample("place-world-file", with_world_file, PLACED),
    ]
    for name, crs in {
        "mercator": "EPSG:3857", "bng": "EPSG:27700", "nztm": "EPSG:2193", "laea": LAEA, "geocentric": "EPSG:4978",
        "geographic-3d": "EPSG:4979", "compound": "EPSG:32633+5773", "esri": "ESRI:102008",
        "ellipsoid": "+proj=longlat +a=6378000 +b=6356000 +no_defs", "sphere": "+proj=longlat +R=6371000 +no_defs",
        "local": 'LOCAL_CS["x",UNIT["metre",1]]', "nad83-feet": "EPSG:2263", "paris": "EPSG:4807",
    }.items():  # fmt: skip
        found.append(gdal(f"crs-{name}", calls=({}, {"chunks": 16}), crs=crs))
    return [*found, *geo_keys()]


def keys(
    name: str, *entries: int, scale: tuple[float, ...] | None = (10, 10, 0),
    tie: tuple[float, ...] | None = (0, 0, 0, 500000, 4600000, 0),
    ascii: str = "", values: tuple[float, ...] = (), more: tuple[tuple[int, int, int, object], ...] = (),
) -> Sample:  # fmt: skip
    tags = [shorts(34735, 1, 1, 0, len(entries) // 4, *entries), *more]
    tags += [doubles(33550, *scale)] if scale else []
    tags += [doubles(33922, *tie)] if tie else []
    tags += [text(34737, ascii)] if ascii else []
    tags += [doubles(34736, *values)] if values else []
    calls = ({}, {"window": (3, 5, 20, 31)}, {"chunks": 16}, {"allow_unparseable_crs": True}, {"allow_rotated": True})
    return raw_tags(f"keys-{name}", tags, calls=calls)


def matrix(*values: float) -> tuple[int, int, int, tuple[float, ...]]:
    return doubles(34264, *values)


def geo_keys() -> list[Sample]:
    projected, code = (1024, 0, 1, 1), (3072, 0, 1, 32633)
    wkt = pyproj.CRS(LAEA).to_wkt()
    nan = float("nan")
    upright = matrix(10, 0, 0, 5, 0, -10, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1)
    return [
        keys("plain", *projected, *code),
        keys("geographic-with-projected-code", 1024, 0, 1, 2, *code),
        keys("projected-without-code", *projected, 2048, 0, 1, 4326),
        keys("geographic", 1024, 0, 1, 2, 2048, 0, 1, 4326),
        keys("both-codes", *projected, 2048, 0, 1, 4326, *code),
        keys("unknown-code", *projected, 3072, 0, 1, 40000),
        keys("no-model", *code),
        keys("geocentric", 1024, 0, 1, 3, 2048, 0, 1, 4978),
        keys("vertical", *projected, *code, 4096, 0, 1, 5773),
        keys("citation-wkt", *projected, 1026, 34737, len(wkt) + 1, 0, 3072, 0, 1, 32767, ascii=wkt + "|"),
        keys("pcs-citation-wkt", *projected, 3072, 0, 1, 32767, 3073, 34737, len(wkt) + 1, 0, ascii=wkt + "|"),
        keys("citation-broken-wkt", *projected, 1026, 34737, 12, 0, 3072, 0, 1, 32767, ascii='PROJCS["xx"|'),
        keys("citation-name", *projected, 1026, 34737, 6, 0, 3072, 0, 1, 32767, ascii="hello|"),
        keys("ellipsoid", 1024, 0, 1, 2, 2048, 0, 1, 32767, 2057, 34736, 1, 0, 2058, 34736, 1, 1,
            values=(6378137, 6356752)),
        keys("point", *projected, 1025, 0, 1, 2, *code),
        keys("scale-zero", *projected, *code, scale=(0, 10, 0)),
        keys("scale-nan", *projected, *code, scale=(nan, 10, 0)),
        keys("scale-negative", *projected, *code, scale=(10, -10, 0)),
        keys("tie-only", *projected, *code, scale=None),
        keys("scale-only", *projected, *code, tie=None),
        keys("tie-inside", *projected, *code, tie=(5, 6, 0, 500000, 4600000, 0)),
        keys("ties-agree", *projected, *code, tie=(0, 0, 0, 500000, 4600000, 0, 10, 10, 0, 500100, 4599900, 0)),
        keys("ties-disagree", *projected, *code, tie=(0, 0, 0, 500000, 4600000, 0, 10, 10, 0, 500105, 4599900, 0)),
        keys("matrix", *projected, *code, scale=None, tie=None, more=(upright,)),
        keys("matrix-and-scale", *projected, *code, more=(upright,)),
        keys("matrix-upside-down", *projected, *code, scale=None, tie=None,
            more=(matrix(-10, 0, 0, 5, 0, 10, 0, 7, *[0] * 7, 1),)),
        keys("matrix-z", *projected, *code, scale=None, tie=None,
            more=(matrix(10, 0, 3, 5, 0, -10, 0, 7, *[0] * 7, 1),)),
        keys("matrix-hair", *projected, *code, scale=None, tie=None,
            more=(matrix(10, 1e-13, 0, 5, 0, -10, 0, 7, *[0] * 7, 1),)),
        keys("matrix-zero", *projected, *code, scale=None, tie=None,
            more=(matrix(0, 0, 0, 5, 0, -10, 0, 7, *[0] * 7, 1),)),
    ]  # fmt: skip


# Values that GDAL writes, and texts that only other programs write.
NODATA: dict[str, tuple[float | None, ...]] = {
    "u2": (5, None),
    "u1": (255, 0),
    "i2": (-9999,),
    "i4": (-2147483648,),
    "f4": (-9999, float("nan"), -3.4028234663852886e38, float("inf"), 0),
    "f8": (1e20,),
}
TEXTS = {
    "u2": ("-9999", "70000", "nan", "3.5", "5.0", "inf", "-inf", "", "abc", " 5 ", "0x10", "1e2", "00005", "+5",
           "5,0", "1_0"),
    "f4": ("abc", "", "0.1", "3.4e38", "1", "NaN", "-inf"),
    "f8": ("1.0",),
    "u1": ("-1",),
    "i1": ("-128",),
    "u8": ("18446744073709551615",),
    "i8": ("9007199254740993", "-9223372036854775808"),
    "f2": ("7",),
    "u4": ("4294967295", "4294967296"),
}  # fmt: skip


def missing() -> list[Sample]:
    found = []
    for dtype, number in ((dtype, number) for dtype, numbers in NODATA.items() for number in numbers):
        array = ramp((37, 53), dtype)
        array[3:6, 7:30] = 0 if number is None else number
        found.append(gdal(f"nodata-{dtype}-{number}", array, MASKED, nodata=number))
    for dtype, value in ((dtype, value) for dtype, texts in TEXTS.items() for value in texts):
        array = ramp((37, 53), dtype)
        array[0, :8] = np.arange(8).astype(dtype)
        if dtype in ("u8", "i8", "u4") and float(value) < 2.0**64:
            array[1, :3] = min(max(int(value), np.iinfo(dtype).min), np.iinfo(dtype).max)
        if dtype == "f4" and value == "0.1":
            array[1, :3] = np.float32(0.1)
        found.append(raw_tags(f"nodata-{dtype}-text-{value!r}".replace("'", ""), [text(42113, value)], array, MASKED))
    three = ramp((3, 37, 53), "u2")
    three[1, :4] = 5
    found.append(
        gdal(
            "nodata-bands",
            three,
            (*MASKED, {"band": 1, "masked": True}, {"band": 2, "unpack": True, "chunks": 9}),
            nodata=5,
        )
    )
    return found


SCALED: tuple[Call, ...] = (
    {},
    {"unpack": True},
    {"unpack": True, "chunks": 16},
    {"unpack": True, "dtype": "float32"},
    {"unpack": True, "dtype": "int32"},
    {"unpack": True, "window": (5, 5, 20, 20)},
    {"unpack": True, "masked": False},
    {"masked": True},
    {"unpack": True, "band": 0},
)


def scaled() -> list[Sample]:
    found = []
    for dtype in ("u1", "i2", "u2", "i4", "i8", "f4", "f8"):
        array = ramp((37, 53), dtype)
        array[2, 2:9] = 7
        found.append(gdal(f"scale-{dtype}", array, SCALED, scales=(0.1,), offsets=(5.0,), nodata=7))
        found.append(gdal(f"scale-{dtype}-no-nodata", array, SCALED, scales=(0.01,), offsets=(-1.0,)))
    three = ramp((3, 37, 53), "u2")
    more = (*SCALED, {"unpack": True, "band": 1}, {"unpack": True, "band": 2, "chunks": 8})
    found += [
        gdal("scale-bands-differ", three, more, scales=(0.1, 0.2, 0.3), offsets=(5.0, 0, 1)),
        gdal("scale-bands-agree", three, more, scales=(0.1,) * 3, offsets=(5.0,) * 3, nodata=3),
        gdal("scale-one-band-only", three, more, scales=(1, 0.2, 1)),
        gdal("scale-only", calls=SCALED, scales=(0.5,)),
        gdal("offset-only", calls=SCALED, offsets=(2,)),
    ]
    item = '<Item name="{}"{}>{}</Item>'.format
    for name, body in {
        "dataset": item("SCALE", "", "0.5") + item("OFFSET", "", "1"),
        "dataset-wins": item("SCALE", "", "0.5") + item("SCALE", ' sample="0"', "0.25"),
        "zero": item("SCALE", ' sample="0" role="scale"', "0"),
        "nan": item("SCALE", ' sample="0"', "nan"),
        "text": item("SCALE", ' sample="0"', "abc"),
        "offset-inf": item("OFFSET", ' sample="0"', "inf"),
        "negative": item("SCALE", ' sample="0"', "-2"),
        "lower-case": item("scale", ' sample="0"', "2"),
        "one": item("SCALE", ' sample="0"', "1") + item("OFFSET", ' sample="0"', "0"),
        "spaces": item("SCALE", ' sample="0"', " 2 "),
    }.items():
        found.append(raw_tags(f"xml-scale-{name}", [text(42112, f"<GDALMetadata>{body}</GDALMetadata>")], calls=SCALED))
    return found


def described() -> list[Sample]:
    calls: tuple[Call, ...] = ({}, {"chunks": 16}, {"band": 0}, {"unpack": True})
    stated = {
        "A": "1", "TIFFTAG_IMAGEDESCRIPTION": "desc here", "TIFFTAG_SOFTWARE": "soft", "TIFFTAG_ARTIST": "me",
        "TIFFTAG_DATETIME": "2020:01:01 00:00:00", "TIFFTAG_COPYRIGHT": "c", "TIFFTAG_DOCUMENTNAME": "doc",
        "TIFFTAG_HOSTCOMPUTER": "h",
        "TIFFTAG_XRESOLUTION": "72.5", "TIFFTAG_YRESOLUTION": "72", "TIFFTAG_RESOLUTIONUNIT": "2 (pixels/inch)",
    }  # fmt: skip
    resolution = {"TIFFTAG_XRESOLUTION": "28", "TIFFTAG_YRESOLUTION": "28"}
    colours = {0: (1, 2, 3, 255), 1: (255, 0, 0, 255), 2: (0, 255, 0, 255), 3: (0, 0, 255, 0)}
    one, four = ramp((37, 53), "u1"), ramp((4, 37, 53), "u1")
    found = [
        gdal("about-tags", calls=calls, tags=stated, namespaces={"D": {"K": "v"}}, band_tags={1: {"B": "x"}},
            descriptions=("b",), units=("m",)),
        gdal("about-centimetres", calls=calls, tags={**resolution, "TIFFTAG_RESOLUTIONUNIT": "3"}),
        gdal("about-no-unit", calls=calls, tags={**resolution, "TIFFTAG_RESOLUTIONUNIT": "1"}),
        gdal("about-palette", one % 4, calls, photometric="palette", colormap=colours),
        gdal("about-palette-4-bit", one % 4, calls, photometric="palette", colormap=colours, nbits=4),
        gdal("about-rgb", four[:3], calls, photometric="rgb"),
        gdal("about-rgba", four, calls, photometric="rgb", alpha="yes"),
        gdal("about-premultiplied", four, calls, photometric="rgb", alpha="premultiplied"),
        gdal("about-rgb-nir", four, calls, photometric="rgb", alpha="unspecified"),
        gdal("about-grey-alpha", four[:2], calls, alpha="yes"),
        gdal("about-bands", four, calls, photometric="minisblack"),
        raw_tags("about-fractions", (), calls=calls, resolution=((300, 7), (1, 3)), resolutionunit=2),
        Sample("about-tifffile", lambda path: __import__("tifffile").imwrite(path, one), calls),
        raw_tags("about-every-type", EVERY_TYPE, calls=calls, software="s", description="d",
            datetime="2020:01:01 00:00:00"),
    ]  # fmt: skip
    for name, xml in {
        "broken": '<GDALMetadata><Item name="SCALE"',
        "doctype": '<!DOCTYPE a><GDALMetadata><Item name="A">1</Item></GDALMetadata>',
        "domain": '<GDALMetadata><Item name="A" domain="D">1</Item><Item name="A">2</Item></GDALMetadata>',
        "escape": '<GDALMetadata><Item name="A">a &lt; b &amp; c</Item></GDALMetadata>',
        "empty": '<GDALMetadata><Item name="A"></Item><Item>q</Item></GDALMetadata>',
        "no-items": "<GDALMetadata></GDALMetadata>",
        "other-root": '<Other><Item name="A">1</Item></Other>',
        "sample-text": '<GDALMetadata><Item name="A" sample="x">1</Item></GDALMetadata>',
        "white-space": '<GDALMetadata>\n  <Item name="A">  1  </Item>\n</GDALMetadata>\n',
        "twice": '<GDALMetadata><Item name="A">1</Item><Item name="A">2</Item></GDALMetadata>',
    }.items():
        found.append(raw_tags(f"xml-{name}", [text(42112, xml)], calls=calls))
    return found


EVERY_TYPE = (
    (65000, 1, 3, b"\1\2\3"), (65001, 3, 2, (1, 2)), (65002, 4, 1, 7), (65003, 5, 1, (3, 4)),
    (65004, 12, 2, (1.5, 2.5)), (65005, 11, 1, 1.5),
    (65006, 2, 4, "abc"), (65007, 7, 4, b"wxyz"), (65008, 8, 1, -3), (65009, 9, 2, (-1, -2)), (65010, 6, 1, -1),
    (65011, 10, 1, (-1, 3)),
    (65012, 16, 1, 2**40), (65013, 1, 1, 9), (65014, 5, 2, (1, 2, 3, 4)), (700, 1, 5, b"<x/>\0"),
    (34377, 7, 3, b"abc"),
)  # fmt: skip


def beside() -> list[Sample]:
    names = "<CategoryNames><Category>a</Category><Category>b</Category><Category>c</Category></CategoryNames>"
    band = '<PAMRasterBand band="1">{}</PAMRasterBand>'.format
    return [
        named("pam-categories", with_pam(band(names))),
        named("pam-statistics", with_pam(band('<Metadata><MDI key="STATISTICS_MAXIMUM">2</MDI></Metadata>'))),
        named("pam-place", with_pam("<SRS>EPSG:4326</SRS><GeoTransform>1,2,0,3,0,-2</GeoTransform>")),
        named("pam-nodata", with_pam(band("<NoDataValue>2</NoDataValue>"))),
        named("pam-broken", with_pam("<PAMRasterBand")),
        named("pam-doctype", with_pam("")),
    ]


def all_metadata() -> list[Sample]:
    return [*placed(), *missing(), *scaled(), *described(), *beside()]
