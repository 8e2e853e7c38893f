"""Arrays and options of to_geotiff that are compared with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyproj
import xarray as xr

from samples import ramp
from written import Write, lazy, place, with_nan

CONTRACT = {"_xrspatial_geotiff_contract": 5}
ONE, THREE = ramp((40, 50), "u2"), ramp((3, 40, 50), "u1")
LAST = np.moveaxis(THREE, 0, -1)
WIDE = ramp((600, 700), "f4")
LAEA = pyproj.CRS("+proj=laea +lat_0=10 +lon_0=20").to_wkt()


def layouts() -> list[Write]:
    found = [
        Write(f"type {code}", lambda code=code: place(ramp((40, 50), code)))
        for code in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
    ]
    found += [
        Write("type f2", lambda: place(ramp((40, 50), "f2"))),
        Write("type bool", lambda: place(ramp((40, 50), "u1") % 2 == 1)),
        Write("numpy", lambda: ONE),
        Write("numpy with crs and nodata", lambda: ONE, {"crs": 32633, "nodata": 7}),
        Write("numpy bands last", lambda: LAST),
        Write("numpy four square", lambda: ramp((4, 4, 4), "u1")),
        Write("list", lambda: [[1, 2], [3, 4]]),
        Write("strided", lambda: ramp((80, 150), "u2")[::2, ::3]),
        Write("reversed", lambda: ramp((40, 50), "f4")[::-1, ::-1]),
        Write("fortran", lambda: np.asfortranarray(ONE)),
        Write("read-only", lambda: np.broadcast_to(np.arange(50, dtype="i4"), (40, 50))),
        Write("strips", lambda: place(ONE), {"tiled": False}),
        Write("many strips", lambda: place(ramp((600, 20), "u2")), {"tiled": False}),
        Write("tiles of 16", lambda: place(ONE), {"tile_size": 16}),
        Write("tiles of 512", lambda: place(ONE), {"tile_size": 512}),
        Write("bigtiff", lambda: place(ONE), {"bigtiff": True}),
        Write("not bigtiff", lambda: place(ONE), {"bigtiff": False}),
        Write("strips with tile_size", lambda: place(ONE), {"tiled": False, "tile_size": 64}),
        Write("lazy", lambda: lazy(ONE)),
        Write("lazy floats", lambda: lazy(with_nan()), {"nodata": -1, "tile_size": 16}),
        Write("lazy strips", lambda: lazy(ONE), {"tiled": False}),
        Write("lazy bands", lambda: lazy(LAST, (7, 20, 2))),
        Write("lazy uneven chunks", lambda: lazy(ramp((100, 90), "i2"), ((13, 50, 37), (90,))), {"tile_size": 32}),
        Write("lazy small buffer", lambda: lazy(ramp((100, 90), "i2")),
            {"tile_size": 16, "streaming_buffer_bytes": 1}),
    ]  # fmt: skip
    for codec in ("none", "deflate", "lzw", "packbits", "zstd", "ZSTD"):
        found.append(Write(f"codec {codec}", lambda: place(ONE), {"compression": codec, "tile_size": 32}))
        for predictor in (True, 2, 3):
            kind = "f4" if predictor == 3 else "u2"
            found.append(
                Write(
                    f"codec {codec} predictor {predictor!r}",
                    lambda kind=kind: place(ramp((40, 50), kind)),
                    {"compression": codec, "predictor": predictor},
                )
            )
    found += [
        Write("predictor 2 of floats", lambda: place(ramp((40, 50), "f8")), {"predictor": 2}),
        Write("predictor 2 of bands", lambda: place(THREE, ("band", "y", "x")), {"predictor": 2}),
        Write("predictor 1", lambda: place(ONE), {"predictor": 1}),
        Write("level 22", lambda: place(ONE), {"compression_level": 22}),
        Write("deflate level 1", lambda: place(ONE), {"compression": "deflate", "compression_level": 1}),
        Write("lzw level ignored", lambda: place(ONE), {"compression": "lzw", "compression_level": 100}),
    ]  # fmt: skip
    for dims in (
        ("band", "y", "x"),
        ("bands", "lat", "lon"),
        ("channel", "latitude", "longitude"),
        ("band", "row", "col"),
    ):
        found.append(Write(f"dims {dims}", lambda dims=dims: place(THREE, dims)))
        last = (*dims[1:], dims[0])
        found.append(Write(f"dims {last}", lambda last=last: place(LAST, last)))
        found.append(Write(f"dims {dims[1:]}", lambda dims=dims: place(ONE, dims[1:])))
    found += [
        Write("dims of one band", lambda: place(THREE[:1], ("band", "y", "x"))),
        Write("dims of one band last", lambda: place(LAST[..., :1], ("y", "x", "band"))),
        Write("dims nobody knows", lambda: xr.DataArray(ONE, dims=("foo", "bar"))),
        Write("dims in capitals", lambda: place(ONE, ("Y", "X"))),
        Write("dims x before y", lambda: place(ONE, ("x", "y"))),
    ]
    return found


def placements() -> list[Write]:
    found = [
        Write("no coords", lambda: place(ONE, coords=False)),
        Write("no coords, nodata", lambda: place(ONE, coords=False, crs=None, nodata=3)),
        Write("transform of attrs wins", lambda: place(ONE, transform=(5.0, 0.0, 1.0, 0.0, -6.0, 2.0))),
        Write("transform as list", lambda: place(ONE, transform=[5.0, 0, 1.0, 0, -6.0, 2.0])),
        Write("transform without coords",
            lambda: place(ONE, coords=False, transform=(5.0, 0.0, 1.0, 0.0, -6.0, 2.0))),
        Write("transform of fractions",
            lambda: place(ONE, coords=False, transform=(1 / 3, 0.0, 1 / 7, 0.0, -1 / 9, 2 / 3))),
        Write("transform south-up", lambda: place(ONE, transform=(10, 0, 1, 0, 10, 2))),
        Write("transform too short", lambda: place(ONE, transform=(1, 2, 3))),
        Write("transform of nine", lambda: place(ONE, transform=(10, 0, 1, 0, -10, 2, 0, 0, 1))),
        Write("transform is text", lambda: place(ONE, transform="abc")),
        Write("transform is None", lambda: place(ONE, transform=None)),
        Write("transform with a hair of shear", lambda: place(ONE, transform=(10, 1e-15, 1, 0, -10, 2))),
        Write("south-up coords", lambda: place(ONE, step=(10, 20))),
        Write("coords going west", lambda: place(ONE, step=(-10, -20))),
        Write("coords going both", lambda: place(ONE, step=(-10, 20))),
        Write("point", lambda: place(ONE, raster_type="point")),
        Write("point with transform",
            lambda: place(ONE, raster_type="point", transform=(10.0, 0, 500005.0, 0, -20.0, 4599990.0))),
        Write("area stated", lambda: place(ONE, raster_type="area")),
        Write("raster type nobody knows", lambda: place(ONE, raster_type="junk")),
        Write("one row, square pixels", lambda: place(ONE[:1], assume_square_pixels_for_degenerate_axis=True)),
        Write("one column, square pixels", lambda: place(ONE[:, :1], assume_square_pixels_for_degenerate_axis=True)),
        Write("one pixel with transform", lambda: place(ONE[:1, :1], transform=(5.0, 0, 1.0, 0, -6.0, 2.0))),
        Write("one pixel without coords", lambda: place(ONE[:1, :1], coords=False)),
        Write("one pixel of numpy", lambda: ONE[:1, :1]),
        Write("coords with float noise", lambda: place(ONE[:3, :4]).assign_coords(x=[0.0, 1, 2 + 1e-9, 3])),
        Write("coords that count", lambda: place(ONE[:3, :4]).assign_coords(y=[0, 1, 2], x=[0, 1, 2, 3])),
        Write("coords of one axis", lambda: place(ONE).drop_vars("y")),
        Write("coords float32", lambda: place(ONE).assign_coords(x=np.arange(50, dtype="f4"))),
        Write("marked as nowhere", lambda: place(ONE, _xrspatial_no_georef=True)),
        Write("rotation dropped", lambda: place(ONE, coords=False, rotated_affine=(1, 2, 3, 4, 5, 6)),
            {"drop_rotation": True}),
    ]  # fmt: skip
    for crs in (
        4326, 3857, np.int64(27700), "EPSG:4326", "epsg:32633", "4326", "WGS84", "urn:ogc:def:crs:EPSG::4326",
        2193, 4979, None,
        "+proj=utm +zone=33 +datum=WGS84", pyproj.CRS(4326).to_wkt(), pyproj.CRS(32633).to_wkt("WKT1_GDAL"), LAEA,
    ):  # fmt: skip
        found.append(Write(f"crs={crs!r:.40}", lambda: place(ONE, crs=None), {"crs": crs}))
        found.append(Write(f"attrs crs={crs!r:.40}", lambda crs=crs: place(ONE, crs=crs)))
    found += [
        Write("crs of argument wins", lambda: place(ONE, crs=32633, crs_wkt=LAEA), {"crs": 4326}),
        Write("crs_wkt alone", lambda: place(ONE, crs=None, crs_wkt=pyproj.CRS(3857).to_wkt())),
        Write("crs and crs_wkt agree", lambda: place(ONE, crs=4326, crs_wkt=pyproj.CRS(4326).to_wkt())),
        Write("crs and crs_wkt that is broken", lambda: place(ONE, crs=4326, crs_wkt="junk")),
        Write("crs nobody understands, allowed", lambda: place(ONE, crs=None),
            {"crs": "hello", "allow_unparseable_crs": True}),
    ]  # fmt: skip
    return found


def missing() -> list[Write]:
    found = []
    for value in (7, -9999, 0, 3.5, float("nan"), float("inf"), np.float32(-9999), np.int16(5), 1e20):
        found.append(Write(f"nodata={value!r} floats", lambda: place(with_nan()), {"nodata": value}))
        found.append(Write(f"nodata={value!r} lazy", lambda: lazy(with_nan()), {"nodata": value}))
        if value in (7, 0):
            found.append(Write(f"nodata={value!r} integers", lambda: place(ONE), {"nodata": value}))
    for attrs in (
        {"nodata": 5}, {"_FillValue": 5}, {"nodatavals": (5,)}, {"nodatavals": (5, 5)},
        {"nodata": 5, "_FillValue": 6}, {"nodatavals": (None,)},
        {"nodatavals": ()}, {"nodatavals": 5}, {"nodatavals": ("x",)}, {"nodatavals": (float("nan"),)},
        {"nodatavals": (float("nan"), 5)},
        {"nodata": float("nan")}, {"nodata": None}, {"missing_value": 5}, {"nodata": 5, "masked_nodata": False},
        {"nodata": 5, "masked_nodata": True}, {"_FillValue": np.float32(5)}, {"nodata": 5.0},
    ):  # fmt: skip
        found.append(Write(f"attrs {attrs}", lambda attrs=attrs: place(with_nan(), **attrs)))
    found += [
        Write("nodata of argument wins", lambda: place(with_nan(), nodata=5, nodatavals=(8, 9)), {"nodata": 6}),
        Write("nodata of 64 bits", lambda: place(ramp((40, 50), "u8")), {"nodata": 2**64 - 1}),
        Write("nodata of numpy", with_nan, {"nodata": -1}),
        Write("nodata of bands", lambda: place(np.stack([with_nan()] * 3), ("band", "y", "x"), nodata=-1)),
    ]
    return found


def descriptions() -> list[Write]:
    stated: dict[str, dict[str, Any]] = {
        "metadata": {"gdal_metadata": {"A": "1", ("B", 0): "2"}},
        "metadata xml": {"gdal_metadata_xml": '<GDALMetadata><Item name="Q">z</Item></GDALMetadata>'},
        "metadata xml wins": {"gdal_metadata": {"A": "1"},
            "gdal_metadata_xml": '<GDALMetadata><Item name="Q">z</Item></GDALMetadata>'},
        "metadata number": {"gdal_metadata": {"A": 1}},
        "metadata escapes": {"gdal_metadata": {"A": 'a<b>&"c"'}},
        "tag short": {"extra_tags": [(65000, 3, 1, 7)]},
        "tag text": {"extra_tags": [(305, 2, 5, "soft")], "image_description": "dd"},
        "tag bytes": {"extra_tags": [(65000, 1, 3, b"\1\2\3")]},
        "tag undefined": {"extra_tags": [(65000, 7, 3, b"abc")]},
        "tag doubles": {"extra_tags": [(65000, 12, 2, (1.5, 2.5))]},
        "tag that is managed": {"extra_tags": [(256, 3, 1, 7), (33550, 12, 3, (1.0, 1.0, 0.0)), (254, 4, 1, 1)]},
        "tag photometric": {"extra_tags": [(262, 3, 1, 0)]},
        "tag extra samples": {"extra_tags": [(338, 3, 2, (2, 0))]},
    }  # fmt: skip
    found = []
    for name, attrs in stated.items():
        bands = name == "tag extra samples"
        data = (
            (lambda attrs=attrs: place(LAST, ("y", "x", "band"), **attrs, **CONTRACT))
            if bands
            else (lambda attrs=attrs: place(ONE, **attrs, **CONTRACT))
        )
        found.append(Write(name, data))
        fresh = (
            (lambda attrs=attrs: place(LAST, ("y", "x", "band"), **attrs))
            if bands
            else (lambda attrs=attrs: place(ONE, **attrs))
        )
        found.append(Write(f"{name} of a fresh array", fresh, {"allow_experimental_codecs": True}))
    free: dict[str, dict[str, Any]] = {
        "description": {"image_description": "hello"},
        "resolution": {"x_resolution": 72.5, "y_resolution": 72, "resolution_unit": "inch"},
        "resolution without unit": {"x_resolution": 300, "y_resolution": 300, "resolution_unit": "junk"},
        "unit alone": {"resolution_unit": "centimeter"},
        "extra samples": {"extra_samples": (2,)},
        "scale is not written": {"scale_factor": 0.5, "add_offset": 2.0},
        "names of others": {"long_name": "x", "units": "m"},
    }
    found += [
        Write(name, lambda attrs=attrs: place(ONE if "samples" not in attrs else LAST[..., :2], **attrs))
        for name, attrs in free.items()
        if name != "extra samples"
    ]
    found += [
        Write(
            "colormap",
            lambda: place(ramp((40, 50), "u1"), colormap=tuple(range(768)), extra_tags=[(262, 3, 1, 3)], **CONTRACT),
        ),
        Write("extra samples", lambda: place(LAST[..., :2], ("y", "x", "band"), extra_samples=(2,))),
    ]
    for photometric in ("auto", "minisblack", "rgb", 2, 5):
        found.append(
            Write(f"photometric={photometric!r}", lambda: place(LAST, ("y", "x", "band")), {"photometric": photometric})
        )
    found += [
        Write("photometric=rgba", lambda: place(np.dstack([LAST, LAST[..., :1]]), ("y", "x", "band")),
            {"photometric": "rgba"}),
        Write("photometric=rgba of five", lambda: place(np.dstack([LAST, LAST[..., :2]]), ("y", "x", "band")),
            {"photometric": "rgba"}),
        Write("photometric=rgb of four", lambda: place(np.dstack([LAST, LAST[..., :1]]), ("y", "x", "band")),
            {"photometric": "rgb"}),
    ]  # fmt: skip
    return found


def pyramids() -> list[Write]:
    smooth = (np.add.outer(np.arange(600), np.arange(700)) % 250).astype("u1")
    holes = WIDE.copy()
    holes[100:300, 50:351] = np.nan
    found = [
        Write("cog", lambda: place(WIDE), {"cog": True}),
        Write("cog of 64", lambda: place(WIDE), {"cog": True, "tile_size": 64}),
        Write("cog levels", lambda: place(WIDE), {"cog": True, "overview_levels": [2, 4]}),
        Write("cog level 4 alone", lambda: place(smooth), {"cog": True, "overview_levels": [4]}),
        Write("cog without levels", lambda: place(WIDE), {"cog": True, "overview_levels": []}),
        Write("cog small", lambda: place(ONE), {"cog": True}),
        Write("cog lazy", lambda: lazy(WIDE, 100), {"cog": True}),
        Write("cog bands", lambda: place(np.dstack([smooth] * 3), ("y", "x", "band")), {"cog": True}),
        Write("cog odd", lambda: place(ramp((601, 515), "f8")), {"cog": True}),
        Write("cog nodata", lambda: place(holes), {"cog": True, "nodata": -9999}),
        Write("levels without cog", lambda: place(WIDE), {"overview_levels": [2]}),
    ]
    for method in ("mean", "nearest", "min", "max", "median", "mode"):
        for name, data in (("floats", WIDE), ("bytes", smooth), ("holes", holes)):
            found.append(
                Write(
                    f"cog {method} {name}", lambda data=data: place(data), {"cog": True, "overview_resampling": method}
                )
            )
    return found


def all_writes() -> list[Write]:
    return [*layouts(), *placements(), *missing(), *descriptions(), *pyramids()]
