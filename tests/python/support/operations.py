"""Ordinary xarray operations, the files they start from, and which metadata of a file each operation keeps."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import odc.geo.xr  # noqa: F401  registers .odc
import pandas as pd
import rasterio
import rioxarray
import xarray as xr
from rasterio.enums import ColorInterp
from rasterio.transform import Affine

import swath

HEIGHT, WIDTH = 24, 30
UTM, GEOGRAPHIC, OTHER_UTM = 32633, 4326, 32632
NORTH_UP = Affine(10.0, 0.0, 500_000.0, 0.0, -10.0, 5_000_000.0)
SOUTH_UP = Affine(10.0, 0.0, 500_000.0, 0.0, 10.0, 5_000_000.0)
ROTATED = Affine(8.0, 6.0, 500_000.0, 6.0, -8.0, 5_000_000.0)
DEGREES = Affine(1 / 1200, 0.0, 12.0 + 1 / 7, 0.0, -1 / 3600, 48.1)

Y_NAMES = ("y", "lat", "latitude", "row")
X_NAMES = ("x", "lon", "longitude", "col")
BAND_NAMES = ("band", "bands", "channel")


@dataclass(frozen=True)
class Source:
    """A file made by rasterio, with everything that a round trip must restore."""

    name: str
    values: np.ndarray
    transform: Affine | None = NORTH_UP
    epsg: int | None = UTM
    nodata: float | None = None
    names: tuple[str | None, ...] = ()
    scales: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()
    units: tuple[str | None, ...] = ()
    colours: tuple[ColorInterp, ...] = ()
    palette: dict[int, tuple[int, int, int, int]] | None = None
    mask: np.ndarray | None = None
    tags: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.values.shape[0]

    @property
    def scaled(self) -> bool:
        return bool(self.scales)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of reading: masking needs missing pixels, and unpacking needs a scale."""
        masked = ("masked",) if self.nodata is not None or self.mask is not None else ()
        return ("plain", *masked, *(("unpacked",) if self.scaled else ()))

    def missing(self) -> np.ndarray:
        """The pixels that GDAL reports as missing, by band."""
        if self.mask is not None:
            return np.broadcast_to(~self.mask, self.values.shape)
        if self.nodata is None:
            return np.zeros(self.values.shape, bool)
        return np.isnan(self.values) if np.isnan(self.nodata) else self.values == self.nodata

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.tif"
        profile: dict[str, Any] = {
            "driver": "GTiff",
            "count": self.count,
            "height": self.values.shape[1],
            "width": self.values.shape[2],
            "dtype": self.values.dtype.name,
            "nodata": self.nodata,
        }
        if self.transform is not None:
            profile |= {"transform": self.transform, "crs": f"EPSG:{self.epsg}"}
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "w", **profile, **self.options) as file:
            file.write(self.values)
            if self.names:
                file.descriptions = self.names
            if self.scales:
                file.scales, file.offsets = self.scales, self.offsets
            if self.units:
                file.units = self.units
            if self.colours:
                file.colorinterp = self.colours
            if self.palette:
                file.write_colormap(1, self.palette)
            if self.tags:
                file.update_tags(**self.tags)
            if self.mask is not None:
                file.write_mask(self.mask)
        return path


def sources() -> dict[str, Source]:
    """The files. `scene` has one band and `scene4` four, each with its own name, scale, offset and unit."""
    rng = np.random.default_rng(14)
    shape = (HEIGHT, WIDTH)

    counts = rng.integers(1, 4000, (4, *shape)).astype("uint16")
    counts[:, 3:5, 4:9] = 0
    counts[2, 20, 25:28] = 0
    # Equal values in two bands, so that a difference has real zeros.
    counts[3, 10:12, 10:15] = counts[2, 10:12, 10:15]
    heights = (rng.random((1, *shape)) * 900 + 100).astype("float32")
    heights[0, :2, :3] = -9999
    classes = rng.integers(0, 5, (1, *shape)).astype("uint8")
    classes[0, 7, 2:9] = 255
    levels = rng.integers(-500, 500, (1, *shape)).astype("int16")
    levels[0, -1, -4:] = -32768
    warmth = (rng.random((1, *shape)) * 40 - 10).astype("float32")
    warmth[0, 5:7, 5:7] = np.nan
    colours = rng.integers(0, 256, (3, *shape)).astype("uint8")
    inside = np.ones(shape, bool)
    inside[:6, :7] = False

    table = (
        Source(
            "scene",
            counts[:1],
            nodata=0,
            names=("blue",),
            scales=(1e-4,),
            offsets=(-0.1,),
            units=("W/m2",),
            tags={"SENSOR": "MSI"},
        ),
        Source(
            "scene4",
            counts,
            nodata=0,
            names=("blue", "green", "red", "nir"),
            scales=(1e-4, 2e-4, 5e-4, 1e-3),
            offsets=(0.0, -0.1, 0.2, -0.3),
            units=("W/m2", "W/sr", "W/um", "lux"),
            tags={"SENSOR": "MSI"},
        ),
        Source("dem", heights, nodata=-9999, tags={"PRODUCER": "survey"}),
        Source(
            "palette",
            classes,
            nodata=255,
            palette={
                0: (0, 0, 0, 255),
                1: (255, 0, 0, 255),
                2: (0, 255, 0, 255),
                3: (0, 0, 255, 255),
                4: (9, 9, 9, 255),
            },
        ),
        Source(
            "rgb",
            colours,
            colours=(ColorInterp.red, ColorInterp.green, ColorInterp.blue),
            options={"photometric": "RGB"},
        ),
        Source("point", levels, nodata=-32768, tags={"AREA_OR_POINT": "Point"}),
        Source("south_up", heights, nodata=-9999, transform=SOUTH_UP),
        Source("degrees", warmth, nodata=np.nan, transform=DEGREES, epsg=GEOGRAPHIC),
        Source("no_georeference", colours[:1], transform=None, epsg=None),
        Source("internal_mask", colours[:1], mask=inside),
        Source("rotated", heights, nodata=-9999, transform=ROTATED),
    )
    return {source.name: source for source in table}


SOURCES = sources()

Door = Literal["open_geotiff", "open_rasterio", "rioxarray"]
Mode = Literal["plain", "masked", "unpacked"]
Backend = Literal["numpy", "dask"]

DOORS: tuple[str, ...] = ("open_geotiff", *(("open_rasterio",) if hasattr(swath, "open_rasterio") else ()), "rioxarray")
OUR_DOORS = tuple(door for door in DOORS if door != "rioxarray")
FIRST_LABEL = {"open_geotiff": 0, "open_rasterio": 1, "rioxarray": 1}


def open_source(path: Path, door: str, mode: str = "plain", backend: str = "numpy", **options: Any) -> xr.DataArray:
    """Reads `path` with one of Swath's two open functions, or with rioxarray itself, whose arrays the writer must
    support.
    """
    if door == "open_geotiff":
        if mode != "plain":
            options["masked" if mode == "masked" else "unpack"] = True
        if backend == "dask":
            options["chunks"] = (13, 20)
        return swath.open_geotiff(path, **options)
    if mode != "plain":
        options["masked" if mode == "masked" else "mask_and_scale"] = True
    if backend == "dask":
        options["chunks"] = {"band": 2, "y": 13, "x": 20}
    module = swath if door == "open_rasterio" else rioxarray
    return module.open_rasterio(path, **options)


def dim(array: xr.DataArray, names: tuple[str, ...]) -> str | None:
    """The dimension of `array` that has one of the names."""
    return next((str(name) for name in array.dims if name in names), None)


def band_first(array: xr.DataArray) -> xr.DataArray:
    """(band, y, x) or (y, x), as rioxarray and odc-geo need it."""
    band = dim(array, BAND_NAMES)
    return array if band is None else array.transpose(band, ...)


@dataclass(frozen=True)
class Operation:
    """An operation that a user applies between reading and writing.

    `numbers` states what the numbers of a plain or masked array mean afterwards:
    - "file": the same as in the file, so each band keeps its own scale and offset. xarray keeps `encoding`.
    - "new": physical values, so scale is 1 and offset 0. xarray drops `encoding`.
    - "open": xarray keeps `encoding` although the values have changed; both results are accepted.

    `sentinel` states whether the nodata value of a plain, unmasked array still marks missing pixels: "kept", "lost",
    or "open" if the array does not show it: its attrs still state the value, and no band is missing.
    """

    name: str
    apply: Callable[[xr.DataArray], xr.DataArray]
    numbers: Literal["file", "new", "open"]
    sentinel: Literal["kept", "lost", "open"]
    bands: Literal["any", "one", "several"] = "any"
    regular: bool = True
    # Coordinates decide; without coordinates, the transform of the file does.
    place: Literal["coordinates", "file"] = "coordinates"
    epsg: int | None = None
    # The bands of the file that the result has, if labels do not state it: the writer may not know them, but must not
    # guess.
    picks: tuple[int, ...] | None = None
    # The operation fills new pixels with a value that it stores in `attrs["nodata"]`.
    fills: bool = False
    # The operation may decode values by `encoding["scale_factor"]`.
    decodes: bool = False
    # The values do not fit the packed type in `encoding`: an error is as good as a file that holds them.
    may_refuse: bool = False
    # Applies to every file, not only to the scenes.
    everywhere: bool = False
    # The result equals the array that was read, in order, position and value.
    same: bool = False
    modes: tuple[str, ...] = ("plain", "masked", "unpacked")
    backends: tuple[str, ...] = ("numpy", "dask")

    def fits(self, source: Source) -> bool:
        if self.bands == "several" and source.count < 4:
            return False
        return self.bands != "one" or source.count == 1


def selects(name: str, apply: Callable[[xr.DataArray], xr.DataArray], **more: Any) -> Operation:
    """An operation that keeps `encoding`: the numbers keep their meaning."""
    return Operation(name, apply, **({"numbers": "file", "sentinel": "kept"} | more))


def computes(name: str, apply: Callable[[xr.DataArray], xr.DataArray], **more: Any) -> Operation:
    """An operation that drops `encoding`: the numbers are physical values."""
    return Operation(name, apply, **({"numbers": "new", "sentinel": "open"} | more))


def replaces(name: str, apply: Callable[[xr.DataArray], xr.DataArray], **more: Any) -> Operation:
    """An operation that keeps `encoding` although the values change."""
    return Operation(name, apply, **({"numbers": "open", "sentinel": "open"} | more))


def step(array: xr.DataArray, axis: str) -> float:
    values = array[axis].values
    return float(values[-1] - values[0]) / (len(values) - 1)


def finer(array: xr.DataArray, axis: str, factor: int) -> np.ndarray:
    """Centres of pixels that are `factor` times smaller, inside the outer centres."""
    values = array[axis].values
    return np.linspace(values[0], values[-1], (len(values) - 1) * factor + 1)


def padded(array: xr.DataArray, by: int = 2) -> xr.DataArray:
    """Pads both axes and assigns coordinates to the new rows and columns."""
    wider = array.astype("float64").pad(y=by, x=by)
    for axis in ("y", "x"):
        centres = array[axis].values[0] + step(array, axis) * np.arange(-by, array.sizes[axis] + by)
        wider = wider.assign_coords({axis: centres})
    return wider


def extended(array: xr.DataArray) -> xr.DataArray:
    """Reindexes to one more column on the left, which becomes NaN."""
    columns = array.x.values[0] + step(array, "x") * np.arange(-1, array.sizes["x"])
    columns[1:] = array.x.values
    return array.reindex(x=columns)


def index_of(array: xr.DataArray) -> xr.DataArray:
    """The normalized difference of the last two bands."""
    nir, red = array.isel(band=3).astype("float64"), array.isel(band=2).astype("float64")
    return (nir - red) / (nir + red)


def difference(array: xr.DataArray) -> xr.DataArray:
    """Keeps the integer type of a plain array; missing pixels become 0, and so do equal ones."""
    return array.isel(band=3) - array.isel(band=2)


def added_in_place(array: xr.DataArray) -> xr.DataArray:
    array = array.copy()
    array += 1
    return array


def assigned_in_place(array: xr.DataArray) -> xr.DataArray:
    # A lazily read array does not support assignment; dask does.
    array = array.copy() if array.chunks else array.load().copy()
    array[{"y": slice(12, 14), "x": slice(0, 5)}] = 1
    return array


def net_cdf(array: xr.DataArray) -> xr.DataArray:
    """A round trip through a netCDF file."""
    name = array.name or "values"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.nc"
        array.to_dataset(name=name).to_netcdf(path, engine="netcdf4")
        with xr.open_dataset(path, engine="netcdf4", decode_coords="all") as opened:
            return opened[name].load()


def zarr_store(array: xr.DataArray) -> xr.DataArray:
    name = array.name or "values"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.zarr"
        array.to_dataset(name=name).to_zarr(path, zarr_format=2)
        with xr.open_dataset(path, engine="zarr", chunks=None, decode_coords="all") as opened:
            return opened[name].load()


def wrapped(array: xr.DataArray) -> xr.DataArray:
    with xr.set_options(keep_attrs=False):
        return array * 2


def through_the_accessor(array: xr.DataArray, call: Callable[[xr.DataArray], xr.DataArray]) -> xr.DataArray:
    return call(band_first(array))


def moved_by_odc(array: xr.DataArray) -> xr.DataArray:
    geobox = band_first(array).odc.geobox
    return band_first(array).odc.reproject(geobox.zoom_out(2), resampling="nearest")


def split_and_joined(array: xr.DataArray, axis: str) -> xr.DataArray:
    return xr.concat([array.isel({axis: slice(0, 7)}), array.isel({axis: slice(7, None)})], axis)


def box(array: xr.DataArray, margin: float) -> tuple[float, float, float, float]:
    """Bounds of the outer pixel centres, reduced by `margin` pixels."""
    dx, dy = abs(step(array, "x")) * margin, abs(step(array, "y")) * margin
    x, y = array.x.values, array.y.values
    return float(x.min() + dx), float(y.min() + dy), float(x.max() - dx), float(y.max() - dy)


OPERATIONS: tuple[Operation, ...] = (
    # The same pixels at the same position.
    selects("no_op", lambda a: a, everywhere=True, same=True),
    selects("copy", lambda a: a.copy(), same=True),
    selects("compute", lambda a: a.compute(), same=True),
    selects("persist", lambda a: a.persist(), same=True, backends=("dask",)),
    selects("rechunk", lambda a: a.chunk({"y": 11, "x": 16}), same=True),
    selects("one_chunk", lambda a: a.chunk(), same=True),
    selects("pickle", lambda a: pickle.loads(pickle.dumps(a)), everywhere=True, same=True),
    selects("rename_array", lambda a: a.rename("reflectance"), same=True),
    selects("assign_attrs", lambda a: a.assign_attrs(comment="checked"), same=True),
    selects("to_dataset_and_back", lambda a: a.to_dataset(name="values")["values"], same=True),
    selects("all_dims_reversed", lambda a: a.T, everywhere=True, same=True),
    selects("band_first", lambda a: a.transpose("band", "y", "x"), bands="several", same=True),
    selects("band_last", lambda a: a.transpose("y", "x", "band"), bands="several", same=True),
    selects("band_middle", lambda a: a.transpose("y", "band", "x"), bands="several", same=True),
    selects("expand_dims", lambda a: a.squeeze(drop=True).expand_dims("band"), bands="one"),
    selects("squeeze", lambda a: a.squeeze(), same=True),
    selects("stack_and_unstack", lambda a: a.stack(z=("y", "x")).unstack("z").sortby("y", ascending=False)),
    selects("drop_spatial_ref", lambda a: a.drop_vars("spatial_ref", errors="ignore"), same=True),
    selects("rio_write_crs", lambda a: band_first(a).rio.write_crs(OTHER_UTM), epsg=OTHER_UTM),
    replaces("drop_attrs", lambda a: a.drop_attrs(deep=False)),
    replaces("drop_encoding", lambda a: a.drop_encoding()),
    # Selections of pixels.
    selects("slice", lambda a: a.isel(y=slice(4, 17), x=slice(6, 29)), everywhere=True),
    selects("stride", lambda a: a.isel(y=slice(None, None, 2), x=slice(None, None, 3)), everywhere=True),
    selects("stride_from_one", lambda a: a.isel(y=slice(1, None, 2), x=slice(2, 28, 3))),
    selects("thin", lambda a: a.thin(y=4, x=2)),
    selects("head_and_tail", lambda a: a.head(y=9).tail(x=11)),
    selects("flip_y", lambda a: a.isel(y=slice(None, None, -1)), everywhere=True),
    selects("flip_x", lambda a: a.isel(x=slice(None, None, -1)), everywhere=True),
    selects("flip_both_with_stride", lambda a: a.isel(y=slice(20, 2, -3), x=slice(None, None, -2))),
    selects("isel_list", lambda a: a.isel(y=[2, 4, 6, 8], x=[3, 4, 5])),
    selects("isel_array_reversed", lambda a: a.isel(x=np.array([9, 6, 3]))),
    selects("sel_slice", lambda a: a.sel(x=slice(*a.x.values[[5, 20]]), y=slice(*a.y.values[[2, 9]])), everywhere=True),
    selects("sel_nearest", lambda a: a.sel(x=a.x.values[2:9] + step(a, "x") / 5, method="nearest")),
    selects("sel_list", lambda a: a.sel(y=a.y.values[[8, 5, 2]])),
    selects("loc", lambda a: a.loc[{"x": a.x.values[3:8]}]),
    selects("first_dim_reversed", lambda a: a[::-1]),
    selects("two_columns", lambda a: a.isel(x=slice(4, 6))),
    selects("one_row", lambda a: a.isel(y=[5]), everywhere=True),
    selects("one_column", lambda a: a.isel(x=slice(8, 9))),
    selects("one_pixel", lambda a: a.isel(y=[6], x=[7])),
    selects("sortby_y", lambda a: a.sortby("y"), everywhere=True),
    selects("sortby_x_descending", lambda a: a.sortby("x", ascending=False)),
    selects("align", lambda a: xr.align(a, a.isel(x=slice(3, 11)))[0]),
    selects("drop_isel", lambda a: a.drop_isel(x=[0, 1, 29])),
    # Other coordinates.
    selects("shift_coords", lambda a: a.assign_coords(x=a.x + 1234.5, y=a.y - 67.25), everywhere=True),
    selects("scale_coords", lambda a: a.assign_coords(x=a.x * 2, y=a.y * 3)),
    selects("integer_coords", lambda a: a.assign_coords(x=np.arange(30) * 20 + 100, y=np.arange(24)[::-1] * 20)),
    selects("rename_lon_lat", lambda a: a.rename(x="lon", y="lat")),
    selects("rename_longitude_latitude", lambda a: a.rename(x="longitude", y="latitude"), everywhere=True),
    selects("rename_row_col", lambda a: a.rename(x="col", y="row")),
    selects("drop_coords", lambda a: a.drop_vars(["x", "y"]), place="file", everywhere=True),
    selects("slice_then_rename", lambda a: a.isel(x=slice(4, 24, 2)).rename(x="lon", y="lat")),
    selects("extra_coordinates", lambda a: a.assign_coords(time=0, row_number=("y", np.arange(24))), same=True),
    selects("two_dimensional_coordinate", lambda a: a.assign_coords(area=(("y", "x"), np.ones((24, 30)))), same=True),
    # Joined arrays.
    selects("concat_x", lambda a: split_and_joined(a, "x")),
    selects("concat_y", lambda a: split_and_joined(a, "y"), everywhere=True),
    selects("concat_moved", lambda a: xr.concat([a, a.assign_coords(x=a.x + 30 * step(a, "x"))], "x")),
    # xarray keeps `encoding`, while a plain integer array becomes float to hold NaN.
    replaces("shift_values", lambda a: a.shift(x=2)),
    replaces("reindex", extended),
    replaces("reindex_like", lambda a: a.isel(x=slice(0, 10)).reindex_like(a)),
    replaces("roll_values", lambda a: a.roll(x=3), sentinel="kept"),
    replaces("copy_with_data", lambda a: a.copy(data=a.data + 1)),
    replaces("halved_data", lambda a: a.copy(data=a.data * 0.5), may_refuse=True),
    replaces("zero_data", lambda a: a.copy(data=a.data * 0), may_refuse=True),
    replaces("large_data", lambda a: a.copy(data=a.data * 1e6), may_refuse=True),
    replaces("negative_data", lambda a: a.copy(data=a.data * -1.0), may_refuse=True),
    replaces("add_in_place", added_in_place),
    replaces("assign_in_place", assigned_in_place, sentinel="kept"),
    # New values.
    computes("add_scalar", lambda a: a + 10, everywhere=True),
    computes("multiply_scalar", lambda a: a * 0.5),
    computes("negate", lambda a: -a.astype("float64")),
    computes("reversed_division", lambda a: 1.0 / (a + 1.0)),
    computes("add_array", lambda a: a + a),
    computes("subtract_itself", lambda a: a - a),
    computes("add_row", lambda a: a + xr.DataArray(np.arange(30.0), dims="x", coords={"x": a.x})),
    computes("inner_join", lambda a: a.isel(x=slice(0, 20)) + a.isel(x=slice(10, None))),
    computes("astype_float32", lambda a: a.astype("float32"), everywhere=True),
    computes("astype_float64", lambda a: a.astype("float64")),
    computes("astype_int32", lambda a: a.fillna(0).astype("int32")),
    computes("astype_float16", lambda a: a.astype("float16")),
    computes("astype_big_endian", lambda a: a.astype(">f4")),
    computes("astype_int64", lambda a: a.fillna(0).astype("int64") * -(2**40)),
    computes("infinite_column", lambda a: a.where(a.x != a.x[3], np.inf)),
    computes("rebuilt_by_hand", lambda a: xr.DataArray(a.data, a.coords, a.dims), sentinel="lost"),
    computes("rebuilt_with_attrs", lambda a: xr.DataArray(a.data * 2.0, a.coords, a.dims, attrs=a.attrs)),
    computes("where", lambda a: a.where(a > a.mean())),
    computes("where_with_other", lambda a: a.where(a > a.mean(), -5.0)),
    computes("where_drop", lambda a: a.where((a.x > a.x[6]) & (a.x < a.x[21]), drop=True), everywhere=True),
    computes("xr_where", lambda a: xr.where(a > 100, a, 0.5)),
    computes("fillna_with_sentinel", lambda a: a.fillna(0)),
    computes("fillna", lambda a: a.fillna(7.5)),
    computes("clip", lambda a: a.clip(0.1, 1500)),
    computes("round", lambda a: a.round(1)),
    computes("isnull", lambda a: a.isnull(), sentinel="lost"),
    computes("compare", lambda a: a > 5, sentinel="lost", everywhere=True),
    computes("sqrt", lambda a: np.sqrt(a.clip(0))),
    computes("log1p_keep_attrs", lambda a: xr.apply_ufunc(np.log1p, a, keep_attrs=True, dask="allowed")),
    computes("apply_ufunc", lambda a: xr.apply_ufunc(lambda v: v * 3.0, a, dask="allowed")),
    computes("no_keep_attrs", wrapped),
    computes("map_blocks", lambda a: a.map_blocks(lambda block: block * 2.0, template=a * 2.0)),
    computes("coarsen_mean", lambda a: a.coarsen(y=4, x=3).mean(), everywhere=True),
    computes("coarsen_max_trim", lambda a: a.coarsen(y=5, x=7, boundary="trim").max()),
    computes("rolling_mean", lambda a: a.astype("float64").rolling(x=3, center=True).mean()),
    computes("diff", lambda a: a.astype("float64").diff("x")),
    computes("cumsum", lambda a: a.astype("float64").cumsum("x")),
    computes("interp_finer", lambda a: a.interp(x=finer(a, "x", 2), y=finer(a, "y", 3)), everywhere=True),
    computes("interp_shifted", lambda a: a.interp(x=a.x.values[1:-1] + step(a, "x") / 2)),
    computes("interp_like", lambda a: a.interp_like(a.isel(x=slice(3, 20, 4), y=slice(2, 9)))),
    computes("pad_with_coords", padded),
    computes("broadcast", lambda a: xr.broadcast(a, a.isel(x=slice(0, None)))[0]),
    computes("combine_first", lambda a: a.isel(x=slice(0, 12)).combine_first(a + 1.0)),
    computes("scale_after_slice", lambda a: a.isel(x=slice(None, None, 2), y=slice(3, 9)) * 1e-3),
    computes("mean_of_two_dates", lambda a: xr.concat([a, a + 1], "time").mean("time")),
    # Bands.
    selects("band_scalar", lambda a: a.isel(band=3), bands="several"),
    selects("band_scalar_by_label", lambda a: a.sel(band=a.band.values[2]), bands="several"),
    selects("band_of_length_one", lambda a: a.isel(band=[1]), bands="several"),
    selects("bands_list", lambda a: a.isel(band=[3, 1]), bands="several"),
    selects("bands_by_label", lambda a: a.sel(band=a.band.values[[2, 0, 3]]), bands="several"),
    selects("bands_reversed", lambda a: a.isel(band=slice(None, None, -1)), bands="several"),
    selects("bands_stride", lambda a: a.isel(band=slice(1, None, 2)), bands="several"),
    selects("bands_sorted", lambda a: a.isel(band=[2, 0, 3, 1]).sortby("band"), bands="several"),
    selects("band_and_slice", lambda a: a.isel(band=2, x=slice(5, 20, 5)), bands="several"),
    selects("drop_band", lambda a: a.drop_sel(band=a.band.values[0]), bands="several"),
    selects("band_repeated", lambda a: a.isel(band=[1, 1, 2]), bands="several"),
    selects("concat_bands", lambda a: xr.concat([a.isel(band=[3]), a.isel(band=[0, 2])], "band"), bands="several"),
    selects("concat_scalar_bands", lambda a: xr.concat([a.isel(band=3), a.isel(band=1)], "band"), bands="several"),
    selects(
        "concat_named_bands",
        lambda a: xr.concat([a.isel(band=3), a.isel(band=1)], pd.Index(["near", "far"], name="band")),
        bands="several",
        picks=(3, 1),
    ),
    selects(
        "concat_unlabelled_bands",
        lambda a: xr.concat([a.isel(band=3, drop=True), a.isel(band=1, drop=True)], "band"),
        bands="several",
        picks=(3, 1),
    ),
    selects("rename_band_channel", lambda a: a.rename(band="channel"), bands="several"),
    selects(
        "string_labels",
        lambda a: a.assign_coords(band=["b02", "b03", "b04", "b08"]),
        bands="several",
        picks=(0, 1, 2, 3),
    ),
    selects(
        "string_labels_selected",
        lambda a: a.assign_coords(band=list("abcd")).sel(band=["d", "b"]),
        bands="several",
        picks=(3, 1),
    ),
    selects("drop_band_labels", lambda a: a.drop_vars("band"), bands="several", picks=(0, 1, 2, 3)),
    selects("drop_band_labels_of_two", lambda a: a.isel(band=[3, 1]).drop_vars("band"), bands="several", picks=(3, 1)),
    selects("drop_scalar_band_label", lambda a: a.isel(band=3, drop=True), bands="several", picks=(3,)),
    replaces(
        "unknown_number_labels",
        lambda a: a.assign_coords(band=[10, 20, 30, 40]),
        bands="several",
        picks=(0, 1, 2, 3),
    ),
    replaces(
        "wavelength_labels",
        lambda a: a.assign_coords(band=[492.4, 559.8, 664.6, 832.8]).isel(band=[3, 1]),
        bands="several",
        picks=(3, 1),
    ),
    computes("map_over_bands", lambda a: a.groupby("band").map(lambda band: band * 2), bands="several"),
    computes(
        "stack_of_indices",
        lambda a: xr.concat([index_of(a), index_of(a) * 2], pd.Index(["ndvi", "twice"], name="band")),
        bands="several",
        sentinel="lost",
    ),
    computes(
        "dataset_to_array",
        lambda a: xr.Dataset({"ndvi": index_of(a), "nir": a.isel(band=3, drop=True) * 1.0}).to_array("band"),
        bands="several",
    ),
    computes("normalized_difference", index_of, bands="several", sentinel="lost"),
    computes("band_difference", difference, bands="several", sentinel="lost"),
    computes("band_ratio", lambda a: a.isel(band=3) / (a.isel(band=0) + 1.0), bands="several"),
    computes("band_scalar_times_two", lambda a: a.isel(band=3) * 2, bands="several"),
    computes("band_mean", lambda a: a.mean("band"), bands="several"),
    computes("band_max", lambda a: a.max("band"), bands="several"),
    computes("band_mean_keepdims", lambda a: a.mean("band", keepdims=True), bands="several"),
    computes("band_argmax", lambda a: a.fillna(0).argmax("band"), bands="several", sentinel="lost"),
    computes("band_quantile", lambda a: a.chunk(band=-1).quantile(0.5, "band"), bands="several"),
    computes("bands_minus_mean", lambda a: a - a.mean("band"), bands="several"),
    computes(
        "bands_weighted",
        lambda a: a.dot(xr.DataArray([0.1, 0.2, 0.3, 0.4], dims="band", coords={"band": a.band})),
        bands="several",
    ),
    computes("bands_swapped_then_scaled", lambda a: a.isel(band=[3, 0]) * 1e-4, bands="several"),
    computes(
        "concat_index_to_bands",
        lambda a: xr.concat([a * 1.0, index_of(a).expand_dims(band=[99])], "band"),
        bands="several",
    ),
    computes("to_dataset_by_band_and_back", lambda a: a.to_dataset("band").to_array("band"), bands="several"),
    # Stores of other libraries.
    replaces("net_cdf", net_cdf, decodes=True),
    replaces("zarr", zarr_store, decodes=True),
    # rioxarray and odc-geo.
    replaces(
        "rio_reproject",
        lambda a: through_the_accessor(a, lambda b: b.rio.reproject(f"EPSG:{OTHER_UTM}")),
        epsg=OTHER_UTM,
    ),
    replaces(
        "rio_reproject_to_degrees",
        lambda a: through_the_accessor(a, lambda b: b.rio.reproject("EPSG:4326")),
        epsg=GEOGRAPHIC,
    ),
    replaces(
        "rio_reproject_bilinear",
        lambda a: through_the_accessor(a, lambda b: b.rio.reproject(f"EPSG:{OTHER_UTM}", resampling=1)),
        epsg=OTHER_UTM,
        may_refuse=True,
    ),
    replaces("rio_clip_box", lambda a: through_the_accessor(a, lambda b: b.rio.clip_box(*box(a, 4))), sentinel="kept"),
    replaces("rio_pad_box", lambda a: through_the_accessor(a, lambda b: b.rio.pad_box(*box(a, -3)))),
    replaces("odc_reproject", moved_by_odc, fills=True),
    replaces(
        "odc_reproject_to_degrees",
        lambda a: band_first(a).odc.reproject("EPSG:4326", resampling="nearest"),
        epsg=GEOGRAPHIC,
        fills=True,
    ),
    # Irregular coordinates have no transform.
    selects("irregular_rows", lambda a: a.isel(y=[0, 1, 5]), regular=False, everywhere=True),
    selects("irregular_columns", lambda a: a.isel(x=[0, 2, 4, 7]), regular=False),
    selects("same_rows_twice", lambda a: xr.concat([a, a], "y"), regular=False),
    selects("one_row_twice", lambda a: a.isel(y=[3, 3]), regular=False),
    selects("rolled_coords", lambda a: a.roll(x=4, roll_coords=True), regular=False, everywhere=True),
    selects("gap_in_x", lambda a: xr.concat([a.isel(x=slice(0, 5)), a.isel(x=slice(9, None))], "x"), regular=False),
    computes("interp_irregular", lambda a: a.interp(x=a.x.values[[0, 2, 3, 9, 20]]), regular=False),
    selects("nearest_twice", lambda a: a.sel(x=a.x.values[[4, 4, 5, 5]], method="nearest"), regular=False),
    selects("shuffled_rows", lambda a: a.isel(y=[4, 2, 7, 1, 9]), regular=False),
    selects(
        "one_coord_off",
        lambda a: a.assign_coords(x=np.where(np.arange(30) == 12, a.x + step(a, "x") / 4, a.x)),
        regular=False,
    ),
    selects("coord_with_nan", lambda a: a.assign_coords(y=np.where(np.arange(24) == 3, np.nan, a.y)), regular=False),
    computes("padded_without_coords", lambda a: a.astype("float64").pad(x=1), regular=False),
)
