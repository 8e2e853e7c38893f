"""The georeferencing and the nodata value of a written image: every source of them, and the order of precedence."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
import xarray as xr

import swath
from swath._swath import File

UTM = pyproj.CRS(32633).to_wkt()
LAEA = "+proj=laea +lat_0=10 +lon_0=20 +datum=WGS84"


def grid(y: Any, x: Any, dims: tuple[str, str] = ("y", "x"), **attrs: Any) -> xr.DataArray:
    y, x = np.asarray(y), np.asarray(x)
    return xr.DataArray(np.zeros((y.size, x.size), "f4"), dims=dims, coords={dims[0]: y, dims[1]: x}, attrs=attrs)


def placed(**attrs: Any) -> xr.DataArray:
    return grid(100 - 10 * (np.arange(4) + 0.5), 500 + 10 * (np.arange(6) + 0.5), **attrs)


def nowhere(shape: tuple[int, int] = (4, 6), code: str = "f4", **attrs: Any) -> xr.DataArray:
    return xr.DataArray(np.zeros(shape, code), dims=("y", "x"), attrs=attrs)


def written(data: Any, tmp_path: Path, **options: Any) -> Any:
    swath.to_geotiff(data, tmp_path / "it.tif", **options)
    return File.open(str(tmp_path / "it.tif")).describe()


STEPS = np.arange(6.0)
ROWS = np.arange(4.0)


@pytest.mark.parametrize(
    ("y", "x", "transform"),
    [
        (100 - ROWS, STEPS, (1, 0, -0.5, 0, -1, 100.5)),
        (ROWS, STEPS, (1, 0, -0.5, 0, 1, -0.5)),
        (100 - ROWS, -STEPS, (-1, 0, 0.5, 0, -1, 100.5)),
        (np.arange(4)[::-1], np.arange(6), (1, 0, -0.5, 0, -1, 3.5)),
        (np.arange(4, dtype="u1")[::-1], np.arange(6, dtype="u1"), (1, 0, -0.5, 0, -1, 3.5)),
        (0.7 - 0.1 * ROWS, 0.3 * STEPS, (0.3, 0, -0.15, 0, (0.7 - 0.1) - 0.7, 0.7 + (0.7 - (0.7 - 0.1)) / 2)),
    ],
)
def test_coordinates_give_the_transform(y: Any, x: Any, transform: Any, tmp_path: Path) -> None:
    assert written(grid(y, x), tmp_path)["transform"] == pytest.approx(transform, abs=0, rel=1e-15)


@pytest.mark.parametrize("dims", [("lat", "lon"), ("latitude", "longitude"), ("row", "col"), ("north", "east")])
def test_the_names_of_two_dims_do_not_matter(dims: tuple[str, str], tmp_path: Path) -> None:
    assert written(grid(100 - ROWS, STEPS, dims), tmp_path)["transform"] == (1, 0, -0.5, 0, -1, 100.5)


def test_points_are_written_at_their_coordinates(tmp_path: Path) -> None:
    found = written(placed(raster_type="point"), tmp_path)
    assert found["raster_type"] == "point"
    assert found["raw_transform"] == (10, 0, 505, 0, -10, 95)
    assert found["transform"] == (10, 0, 500, 0, -10, 100)
    with rasterio.open(tmp_path / "it.tif") as file:
        assert tuple(file.transform)[:6] == (10, 0, 500, 0, -10, 100)


ODD = (0.1 + 0.2, 0.0, 1 / 3, 0.0, -np.nextafter(0.1, 1), 1e-300)
"""A transform that coordinates do not give back to the bit."""


def test_a_transform_without_coordinates_stays_to_the_bit(tmp_path: Path) -> None:
    assert written(nowhere(transform=ODD), tmp_path)["raw_transform"] == ODD
    again = swath.open_geotiff(tmp_path / "it.tif")
    assert again.attrs["transform"] == ODD
    swath.to_geotiff(again, tmp_path / "again.tif")
    assert swath.open_geotiff(tmp_path / "again.tif").attrs["transform"] == ODD


@pytest.mark.parametrize("raster_type", ["area", "point"])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (slice(1, 3), slice(2, 6)),
        (slice(None, None, 2), slice(1, None, 3)),
        (slice(None, None, -1), slice(None, None, -2)),
        (slice(2, 3), slice(None)),
        (slice(None), slice(5, 6)),
        ([0, 2], [1, 3, 5]),
    ],
)
def test_selections_lie_on_the_grid_of_the_file_to_the_bit(
    rows: Any, columns: Any, raster_type: str, tmp_path: Path
) -> None:
    whole = open_geotiff_of(nowhere(transform=ODD, raster_type=raster_type), tmp_path)
    part = whole[rows, columns]
    a, _, c, _, e, f = ODD
    (top, high), (left, wide) = (
        (picked[0], picked[1] - picked[0] if len(picked) > 1 else 1)
        for picked in (np.arange(size)[some].tolist() for size, some in ((4, rows), (6, columns)))
    )
    if raster_type == "area":
        # From the corner of the first pixel to that of a larger pixel with the same centre.
        top, left = top + (1 - high) / 2, left + (1 - wide) / 2
    found = written(part, tmp_path)
    assert found["raw_transform"] == (wide * a, 0, c + left * a, 0, high * e, f + top * e)
    again = swath.open_geotiff(tmp_path / "it.tif")
    np.testing.assert_allclose(again.x, part.x, rtol=1e-15)
    np.testing.assert_allclose(again.y, part.y, rtol=1e-14, atol=1e-16)


def open_geotiff_of(data: Any, tmp_path: Path, **options: Any) -> xr.DataArray:
    """The array as read back from a file."""
    keywords = {name: options.pop(name) for name in ("allow_rotated", "parse_coordinates") if name in options}
    swath.to_geotiff(data, tmp_path / "source.tif", **options)
    return swath.open_geotiff(tmp_path / "source.tif", **keywords)


@pytest.mark.parametrize("stale", [(10, 0, 700, 0, -10, 900), (1, 0, 500, 0, -1, 100), (0.3, 0, 7, 0, 0.7, 9)])
def test_coordinates_count_more_than_the_attribute(stale: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert written(placed(transform=stale), tmp_path)["transform"] == (10, 0, 500, 0, -10, 100)
        moved = placed(transform=(10, 0, 500, 0, -10, 100)).assign_coords(x=7 + 2 * STEPS)
        assert written(moved, tmp_path)["transform"] == (2, 0, 6, 0, -10, 100)


@pytest.mark.parametrize("transform", [[10, 0, 500, 0, -10, 100], np.array([10.0, 0, 500, 0, -10, 100])])
def test_transforms_of_all_kinds(transform: Any, tmp_path: Path) -> None:
    assert written(nowhere(transform=transform), tmp_path)["transform"] == (10, 0, 500, 0, -10, 100)
    affine = rasterio.Affine(*transform)
    assert written(nowhere(transform=affine), tmp_path)["transform"] == (10, 0, 500, 0, -10, 100)


@pytest.mark.parametrize("transform", [(1, 2, 3), "abc", 5, {"a": 1}, ("a", 0, 1, 0, 1, 1)])
def test_invalid_transform_is_ignored_with_a_warning(transform: Any, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="transform"):
        assert written(placed(transform=transform), tmp_path)["transform"] == (10, 0, 500, 0, -10, 100)


@pytest.mark.parametrize("transform", [(0, 0, 5, 0, -1, 1), (1, 0, np.nan, 0, -1, 1), (np.inf, 0, 0, 0, -1, 0)])
def test_pixels_without_a_size_are_refused(transform: Any, tmp_path: Path) -> None:
    with pytest.raises(swath.DegeneratePixelSizeError):
        written(nowhere(transform=transform), tmp_path)


@pytest.mark.parametrize("attr", ["transform", "rotated_affine"])
def test_rotation_is_refused_written_or_dropped(attr: str, tmp_path: Path) -> None:
    rotated = (8.0, 6.0, 100.0, 6.0, -8.0, 200.0)
    data = nowhere(**{attr: rotated})
    with pytest.raises(ValueError, match="rotat"):
        written(data, tmp_path)
    assert written(data, tmp_path, keep_rotation=True)["transform"] == rotated
    with rasterio.open(tmp_path / "it.tif") as file:
        assert tuple(file.transform)[:6] == rotated
    if attr == "rotated_affine":
        assert written(data, tmp_path, drop_rotation=True)["transform"] is None


def test_rounding_error_is_not_a_rotation(tmp_path: Path) -> None:
    assert written(nowhere(transform=(10, 1e-13, 5, 0, -10, 7)), tmp_path)["transform"] == (10, 0, 5, 0, -10, 7)
    with pytest.raises(swath.RotatedTransformError):
        written(nowhere(transform=(10, 1e-9, 5, 0, -10, 7)), tmp_path)


@pytest.mark.parametrize(
    "x",
    [
        [0, 1, 2, 3, 4, 6],
        [0, 1, 2, np.nan, 4, 5],
        [0, 1, 2, np.inf, 4, 5],
        [np.nan] * 6,
        [7.0] * 6,
        [0, 1, 0, 1, 0, 1],
        [0, 1, 2, 3, 4, 5 + 2e-6],
    ],
)
def test_uneven_coordinates_are_refused(x: list[float], tmp_path: Path) -> None:
    with pytest.raises(swath.NonUniformCoordsError, match="coords"):
        written(grid(100 - ROWS, x), tmp_path)
    with pytest.raises(swath.NonUniformCoordsError):
        written(grid(ROWS[::-1], np.array(x) * 1.0)[:, ::-1], tmp_path)
    # Coordinates that the user assigns to pixels without georeferencing must be valid too.
    with pytest.raises(swath.NonUniformCoordsError):
        written(grid(100 - ROWS, np.array(x) * 1.0, _swath_no_georef=1), tmp_path)


@pytest.mark.parametrize("columns", [[0, 1, 2, 3, 4, 6], [5, 1, 1, 0, 2, 3]])
def test_pixel_numbers_need_not_be_even(columns: list[int], tmp_path: Path) -> None:
    assert written(grid(np.arange(4), columns, _swath_no_georef=1), tmp_path)["transform"] is None


def test_an_attribute_does_not_excuse_uneven_coordinates(tmp_path: Path) -> None:
    (tmp_path / "it.tif").write_bytes(b"old")
    for uneven in (1.0, 5e-6):
        with pytest.raises(swath.NonUniformCoordsError):
            written(grid(100 - ROWS, [0, 1, 2, 3, 4, 5 + uneven], transform=(1, 0, -0.5, 0, -1, 100.5)), tmp_path)
    assert (tmp_path / "it.tif").read_bytes() == b"old"
    # Coordinates within the tolerance get the exact numbers of their grid.
    close = STEPS.copy()
    close[-1] += 5e-7
    found = written(grid(100 - ROWS, close, transform=(1, 0, -0.5, 0, -1, 100.5)), tmp_path)
    assert found["transform"] == (1, 0, -0.5, 0, -1, 100.5)


def test_coordinates_that_were_rounded_to_float32_are_even(tmp_path: Path) -> None:
    lon, lat = np.linspace(-180, 179.9, 3600, dtype="f4"), np.linspace(90, -90, 1801, dtype="f4")
    found = written(grid(lat, lon), tmp_path)["transform"]
    assert found == pytest.approx((0.1, 0, -180.05, 0, -0.1, 90.05), rel=1e-5)


@pytest.mark.parametrize("y", [list("abcd"), np.array(["2020", "2021", "2022", "2023"], "M8[Y]"), [1j, 2j, 3j, 4j]])
def test_coordinates_must_be_numbers(y: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="coords"):
        written(grid(y, STEPS), tmp_path)


@pytest.mark.parametrize(("y", "x"), [([5.0], [7.0]), ([5.0], STEPS), (ROWS, [5.0]), ([0], [0])])
def test_one_coordinate_has_no_pixel_size(y: Any, x: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="transform"):
        written(grid(y, x), tmp_path)
    # The attribute gives the size, the coordinate the position.
    stated = grid(y, x, transform=(2, 0, 1, 0, -2, 9))
    wide, high = 2 if len(x) == 1 else 1, -2 if len(y) == 1 else 1
    place = (wide, 0, x[0] - wide / 2, 0, high, y[0] - high / 2)
    assert written(stated, tmp_path)["transform"] == place
    assert written(grid(y, x).drop_vars(["x", "y"]), tmp_path)["transform"] is None


@pytest.mark.parametrize(
    ("y", "x", "transform"),
    [
        ([5.0], 3 * STEPS, (3, 0, -1.5, 0, -3, 6.5)),
        (3 * ROWS, [5.0], (3, 0, 3.5, 0, 3, -1.5)),
        (-3 * ROWS, [5.0], (3, 0, 3.5, 0, -3, 1.5)),
        ([5.0], -3 * STEPS, (-3, 0, 1.5, 0, -3, 6.5)),
    ],
)
def test_a_strip_may_have_square_pixels(y: Any, x: Any, transform: Any, tmp_path: Path) -> None:
    data = grid(y, x, assume_square_pixels_for_degenerate_axis=True)
    assert written(data, tmp_path)["transform"] == transform
    data.attrs["assume_square_pixels_for_degenerate_axis"] = 1
    with pytest.raises(ValueError, match="assume_square"):
        written(data, tmp_path)


@pytest.mark.parametrize("marker", ["_swath_no_georef", "_xrspatial_no_georef"])
def test_pixel_numbers_are_not_georeferencing(marker: str, tmp_path: Path) -> None:
    found = written(grid(np.arange(4), np.arange(6), **{marker: True}), tmp_path)
    assert found["transform"] is None and not found["geo_keys"]
    assert written(grid(np.arange(4), np.arange(6), **{marker: True}), tmp_path, crs=4326)["epsg"] == 4326
    # netCDF returns the marker as a number.
    assert written(grid(np.arange(4), np.arange(6), **{marker: np.int64(1)}), tmp_path)["transform"] is None
    for no in (0, False):
        assert written(grid(np.arange(4), np.arange(6), **{marker: no}), tmp_path)["transform"] is not None
    # The user assigned coordinates that are not pixel numbers.
    later = grid(100 - ROWS, STEPS, **{marker: True})
    assert written(later, tmp_path)["transform"] == (1, 0, -0.5, 0, -1, 100.5)


@pytest.mark.parametrize(
    "crs",
    [32633, np.int64(32633), "EPSG:32633", "epsg:32633", "32633", UTM, pyproj.CRS(32633).to_wkt("WKT1_GDAL")]
    + ["+proj=utm +zone=33 +datum=WGS84", "urn:ogc:def:crs:EPSG::32633", "WGS 84 / UTM zone 33N"],
)
def test_a_crs_by_all_its_names(crs: Any, tmp_path: Path) -> None:
    as_argument = written(placed(), tmp_path, crs=crs)
    assert as_argument["epsg"] == 32633
    assert written(placed(crs=crs), tmp_path)["geo_keys"] == as_argument["geo_keys"]
    with rasterio.open(tmp_path / "it.tif") as file:
        assert file.crs.to_epsg() == 32633


@pytest.mark.parametrize("crs", [LAEA, pyproj.CRS(LAEA).to_wkt(), "ESRI:54009", "OGC:CRS84", 7415, 4978, "EPSG:7415"])
def test_systems_beyond_one_code_are_read_by_gdal(crs: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written(placed(), tmp_path, crs=crs)
    with rasterio.open(tmp_path / "it.tif") as file:
        found = pyproj.CRS(file.crs.to_wkt())
    expected = pyproj.CRS(crs)
    assert (
        found.equals(expected, ignore_axis_order=True)
        or found.to_json_dict()["type"] == expected.to_json_dict()["type"]
    )
    assert len(found.axis_info) == len(expected.axis_info)


@pytest.mark.parametrize("crs", [0, -1, 12345, 999999, 10**12])
def test_invalid_epsg_codes_are_refused(crs: int, tmp_path: Path) -> None:
    with pytest.raises(swath.InvalidCRSCodeError, match="EPSG"):
        written(placed(), tmp_path, crs=crs)


@pytest.mark.parametrize("crs", [4326.0, [4326], {"init": "epsg:4326"}, b"EPSG:4326", np.True_, object()])
def test_a_crs_of_another_type_is_refused(crs: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="crs must be"):
        written(placed(), tmp_path, crs=crs)
    with pytest.raises(TypeError, match="crs must be"):
        written(placed(crs=crs), tmp_path)


def test_true_is_not_an_epsg_code(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bool"):
        written(placed(), tmp_path, crs=True)


@pytest.mark.parametrize("crs", ["", "  ", "not a crs", "EPSG:999999", "+proj=foo", 'PROJCS["x"'])
def test_texts_that_cannot_be_understood(crs: str, tmp_path: Path) -> None:
    with pytest.raises(swath.UnparseableCRSError, match="allow_unparseable_crs"):
        written(placed(), tmp_path, crs=crs)
    with pytest.raises(swath.UnparseableCRSError):
        written(placed(crs_wkt=crs), tmp_path)
    if crs.strip():
        with pytest.warns(UserWarning, match="citation"):
            assert written(placed(), tmp_path, crs=crs, allow_unparseable_crs=True)["geo_keys"][1026] == crs


def test_crs_without_wkt1_is_written_or_refused_without_a_crash(tmp_path: Path) -> None:
    """pyproj cannot write Equal Earth or a rotated globe as WKT 1 and raises its own exception."""
    pyproj = pytest.importorskip("pyproj")
    equal = "+proj=eqearth +datum=WGS84 +type=crs"
    array = swath.open_geotiff(swath.to_geotiff(placed(), str(tmp_path / "equal.tif"), crs=equal))
    assert pyproj.CRS.from_wkt(array.attrs["crs_wkt"]).to_dict()["proj"] == "eqearth"
    turned = "+proj=ob_tran +o_proj=longlat +o_lon_p=0 +o_lat_p=37 +lon_0=10 +datum=WGS84 +type=crs"
    with pytest.raises(swath.UnparseableCRSError, match="allow_unparseable_crs"):
        written(placed(), tmp_path, crs=turned)
    with pytest.warns(UserWarning, match="citation"):
        assert written(placed(), tmp_path, crs=turned, allow_unparseable_crs=True)["geo_keys"][1026] == turned


def test_vertical_crs_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(swath.NonRepresentableEPSGCRSError):
        written(placed(), tmp_path, crs=5773)


def test_which_crs_counts(tmp_path: Path) -> None:
    wkt = pyproj.CRS(3857).to_wkt()
    assert written(placed(crs=4326, crs_wkt=wkt), tmp_path, crs=32633)["epsg"] == 32633
    assert written(placed(crs=32633, crs_wkt=UTM), tmp_path)["epsg"] == 32633
    assert written(placed(crs=None, crs_wkt=UTM), tmp_path)["epsg"] == 32633
    assert written(placed(crs="EPSG:999999", crs_wkt=UTM), tmp_path)["epsg"] == 32633
    assert written(placed(crs=32633, crs_wkt="EPSG:999999"), tmp_path)["epsg"] == 32633
    assert written(placed(crs_wkt=4326), tmp_path)["epsg"] is None
    for other in (4326, "EPSG:4326", LAEA):
        with pytest.raises(swath.ConflictingCRSError, match="crs_wkt"):
            written(placed(crs=other, crs_wkt=wkt), tmp_path)
    same = pyproj.CRS(LAEA).to_wkt()
    assert written(placed(crs=LAEA, crs_wkt=same), tmp_path)["wkt"] is not None


@pytest.mark.parametrize("code", [32633, 4326])
def test_crs_objects_of_other_libraries(code: int, tmp_path: Path) -> None:
    from odc.geo import CRS

    for crs in (pyproj.CRS(code), rasterio.CRS.from_epsg(code), CRS(code)):
        assert written(placed(), tmp_path, crs=crs)["epsg"] == code
        assert written(placed(crs=crs), tmp_path)["epsg"] == code
        assert written(placed(crs=5773), tmp_path, crs=crs)["epsg"] == code
    with rasterio.open(tmp_path / "it.tif") as file:
        assert file.crs.to_epsg() == code


def test_a_crs_object_without_a_code_is_written_in_full(tmp_path: Path) -> None:
    for crs in (pyproj.CRS(LAEA), rasterio.CRS.from_string(LAEA)):
        written(placed(), tmp_path, crs=crs)
        with rasterio.open(tmp_path / "it.tif") as file:
            assert pyproj.CRS(file.crs.to_wkt()).to_dict()["proj"] == "laea"
    with pytest.raises(swath.UnparseableCRSError):
        written(placed(), tmp_path, crs=pyproj.CRS(5773))


def test_rioxarray_keeps_its_crs_at_a_coordinate_that_counts_more_than_attrs(tmp_path: Path) -> None:
    import rioxarray  # noqa: F401

    data = placed().rio.write_crs(32633)
    assert written(data, tmp_path)["epsg"] == 32633
    # Reprojection by rioxarray and odc-geo changes the coordinate and leaves an outdated attribute.
    for stale in ({"crs": 4326}, {"crs_wkt": pyproj.CRS(4326).to_wkt()}, {"crs": 4326, "crs_wkt": UTM}):
        assert written(data.assign_attrs(stale), tmp_path)["epsg"] == 32633
    assert written(data.assign_attrs(crs=4326), tmp_path, crs=3857)["epsg"] == 3857
    empty = placed(crs=4326).assign_coords(spatial_ref=0)
    assert written(empty, tmp_path)["epsg"] == 4326


@pytest.mark.parametrize(
    ("nodata", "found"),
    [
        (-9999, -9999),
        (-9999.0, -9999.0),
        (np.float32(0.25), 0.25),
        (np.int16(-5), -5),
        (np.array(5), 5),
        (float("inf"), float("inf")),
        (10**30, 1e30),
    ],
)
def test_nodata_of_all_types(nodata: Any, found: float, tmp_path: Path) -> None:
    assert written(nowhere(), tmp_path, nodata=nodata)["nodata"] == pytest.approx(found)
    assert written(nowhere(nodata=nodata), tmp_path)["nodata"] == pytest.approx(found)


@pytest.mark.parametrize(("code", "value"), [("u8", 2**64 - 1), ("i8", -(2**63)), ("i8", 2**53 + 1)])
def test_64_bits_of_nodata_stay(code: str, value: int, tmp_path: Path) -> None:
    assert written(nowhere(code=code), tmp_path, nodata=value)["nodata"] == value


@pytest.mark.parametrize("nodata", [-9999, 256, 1.5, float("nan"), float("inf")])
@pytest.mark.parametrize("data", [nowhere(code="u1"), np.zeros((4, 6), "u1"), nowhere(code="u1", nodata=7)])
def test_nodata_that_no_pixel_can_have_is_refused(nodata: float, data: Any, tmp_path: Path) -> None:
    """open_geotiff refuses files with such a value."""
    (tmp_path / "it.tif").write_bytes(b"old")
    with pytest.raises(swath.InvalidIntegerNodataError, match="uint8.*astype"):
        written(data, tmp_path, nodata=nodata)
    assert issubclass(swath.InvalidIntegerNodataError, ValueError)
    assert (tmp_path / "it.tif").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["nodata", "_FillValue", "nodatavals"])
@pytest.mark.parametrize("nodata", [-9999, 256, 1.5])
def test_nodata_of_attrs_that_no_pixel_can_have_is_left_out(name: str, nodata: float, tmp_path: Path) -> None:
    """astype keeps attrs, so floats that were converted to uint8 can still have the nodata value -9999."""
    data = nowhere(code="u1", **{name: (nodata,) if name == "nodatavals" else nodata})
    with pytest.warns(UserWarning, match="uint8 and is not written"):
        assert written(data, tmp_path)["nodata"] is None
    assert written(data, tmp_path, nodata=3)["nodata"] == 3


@pytest.mark.parametrize("nodata", [float("nan"), float("inf")])
def test_integers_made_from_masked_floats_have_no_nodata(nodata: float, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert written(nowhere(code="u1", nodata=nodata), tmp_path)["nodata"] is None
    assert swath.open_geotiff(tmp_path / "it.tif").dtype == np.uint8


@pytest.mark.parametrize("text", ["-9999", "256", "1.5", "nan"])
def test_a_file_with_such_a_nodata_survives_a_plain_round_trip(text: str, tmp_path: Path) -> None:
    from open_files import PIXELS, tagged

    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), nodata=text)
    array = swath.open_geotiff(path, allow_invalid_nodata=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(written(array, tmp_path)["nodata_text"]) == pytest.approx(float(text), nan_ok=True)
        assert written(array[::2], tmp_path)["nodata_text"] is not None


@pytest.mark.parametrize("nodata", [True, np.True_, "5", b"5", Fraction(1, 3)])
def test_nodata_must_be_a_number(nodata: Any, tmp_path: Path) -> None:
    for data, options in ((nowhere(), {"nodata": nodata}), (nowhere(nodata=nodata), {})):
        with pytest.raises(TypeError, match="numeric"):
            written(data, tmp_path, **options)


@pytest.mark.parametrize("nodata", [[5], (5,), {}, 1 + 2j, "x", np.array([5])])
def test_nodata_must_be_one_number(nodata: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="numeric"):
        written(nowhere(), tmp_path, nodata=nodata)


@pytest.mark.parametrize(
    ("attrs", "found"),
    [
        ({"_FillValue": -5}, -5),
        ({"_FillValue": float("nan")}, float("nan")),
        ({"missing_value": -5}, -5),
        ({"fill_value": -5}, -5),
        ({"_FillValue": -5, "missing_value": -6}, -5),
        ({"nodatavals": (-1.0, -1)}, -1),
        ({"nodatavals": (None, -1)}, -1),
        ({"nodatavals": (float("nan"), 1)}, 1),
        ({"nodatavals": (float("nan"),)}, None),
        ({"nodatavals": 5}, 5),
        ({"nodatavals": ()}, None),
        ({"nodatavals": (2.0,), "_FillValue": 3}, 2),
        ({"nodatavals": (None,), "_FillValue": 3}, 3),
        ({"nodata": None, "nodatavals": (2.0,)}, 2),
        ({"nodata": 1, "_FillValue": 2}, 1),
        ({"nodata": 1, "nodatavals": (1.0, None)}, 1),
    ],
)
def test_which_nodata_counts(attrs: dict[str, Any], found: float | None, tmp_path: Path) -> None:
    assert written(nowhere(**attrs), tmp_path)["nodata"] == (
        found if found is None else pytest.approx(found, nan_ok=True)
    )
    assert written(nowhere(**attrs), tmp_path, nodata=77)["nodata"] == 77


@pytest.mark.parametrize(
    "attrs",
    [{"nodatavals": (1, 2)}, {"nodata": 1, "nodatavals": (2,)}, {"nodata": 1, "nodatavals": (1, 2)}]
    + [{"nodata": float("nan"), "nodatavals": (-9999.0,)}],
)
def test_nodata_values_that_disagree(attrs: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(swath.ConflictingNodataError, match="nodatavals"):
        written(nowhere(**attrs), tmp_path)
    assert written(nowhere(**attrs), tmp_path, nodata=5)["nodata"] == 5


def test_invalid_nodatavals_warn(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="non-numeric"):
        assert written(nowhere(nodatavals=("a",), _FillValue=3), tmp_path)["nodata"] == 3


def test_crs_after_reprojection_by_rioxarray_is_the_new_one(tmp_path):
    import rioxarray  # noqa: F401

    array = xr.DataArray(
        np.ones((40, 50), "f4"),
        dims=("y", "x"),
        coords={"y": 5e6 - 10 * np.arange(40.0), "x": 5e5 + 10 * np.arange(50.0)},
    )
    swath.to_geotiff(array, tmp_path / "utm.tif", crs=32633)
    moved = swath.open_geotiff(tmp_path / "utm.tif", spatial_ref=True).rio.reproject(4326)
    swath.to_geotiff(moved, tmp_path / "moved.tif")
    found = swath.open_geotiff(tmp_path / "moved.tif")
    assert found.attrs["crs"] == 4326
    np.testing.assert_allclose(found.x, moved.x)


OPERATIONS: dict[str, Any] = {
    "slice": lambda a: a[10:20, 5:9],
    "stride": lambda a: a[::2, 1::3],
    "flip": lambda a: a[::-1, ::-1],
    "sel": lambda a: a.sel(x=slice(600, 900), y=slice(4800, 4700)),
    "coarsen": lambda a: a.coarsen(y=4, x=5).mean(),
    "interp": lambda a: a.interp(x=np.linspace(600, 700, 7), y=np.linspace(4900, 4800, 5)),
    "concat": lambda a: xr.concat([a[:, 30:], a[:, 30:].assign_coords(x=a.x[30:] + 200)], "x"),
    "where": lambda a: a.where((a > 30 * 50).compute(), drop=True),
    "sortby": lambda a: a.sortby("y"),
    "assign_coords": lambda a: a.assign_coords(x=a.x / 2 + 7, y=a.y * 3),
    "pad": lambda a: a.pad(x=(2, 0)).assign_coords(x=np.r_[a.x.values[0] - [20, 10], a.x.values]),
    "arithmetic": lambda a: (a * 2 + 1)[3:, 3:],
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("lazy", [False, True])
def test_transform_after_operations_is_written_without_a_warning(name: str, lazy: bool, tmp_path: Path) -> None:
    # The type that interpolation returns, because dask declares the type of the source.
    pixels = np.arange(2000, dtype="f8").reshape(40, 50)
    source = xr.DataArray(pixels, dims=("y", "x"), attrs={"transform": (10, 0, 500, 0, -10, 5000), "crs": 32633})
    swath.to_geotiff(source, tmp_path / "source.tif")
    array = OPERATIONS[name](swath.open_geotiff(tmp_path / "source.tif", chunks=16 if lazy else None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        swath.to_geotiff(array, tmp_path / "it.tif")
    with rasterio.open(tmp_path / "it.tif") as file:
        np.testing.assert_allclose([file.xy(0, column)[0] for column in range(file.width)], array.x, rtol=1e-12)
        np.testing.assert_allclose([file.xy(row, 0)[1] for row in range(file.height)], array.y, rtol=1e-12)
        np.testing.assert_array_equal(file.read(1), array)
        assert file.crs.to_epsg() == 32633


@pytest.mark.parametrize("name", ["row", "column", "pixel"])
@pytest.mark.parametrize("door", ["open_geotiff", "open_rasterio"])
def test_a_single_row_or_column_keeps_its_pixel_size_and_position(name: str, door: str, tmp_path: Path) -> None:
    swath.to_geotiff(nowhere((8, 9), transform=(3, 0, 100, 0, -7, 200)), tmp_path / "source.tif")
    whole = getattr(swath, door)(tmp_path / "source.tif").squeeze()
    part = whole.isel({"row": {"y": [5]}, "column": {"x": [4]}, "pixel": {"y": [5], "x": [4]}}[name])
    left, top = (100 if name == "row" else 112), (200 if name == "column" else 165)
    assert written(part, tmp_path)["transform"] == (3, 0, left, 0, -7, top)
    # For a row that has moved, only the size is known.
    moved = part.assign_coords(y=part.y + 0.25)
    assert written(moved, tmp_path)["transform"] == (3, 0, left, 0, -7, top + 0.25)


def test_a_row_without_a_dimension_is_not_an_image(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1D"):
        written(placed().isel(y=0), tmp_path)


def test_a_part_without_coordinates_is_nowhere_that_is_known(tmp_path: Path) -> None:
    whole = open_geotiff_of(placed(), tmp_path, parse_coordinates=False)
    assert written(whole, tmp_path)["transform"] == (10, 0, 500, 0, -10, 100)
    for part in (whole[:, 1:], whole[::2]):
        with pytest.raises(ValueError, match="no coordinates.*assign coordinates"):
            written(part, tmp_path)
        del part.attrs["transform"]
        assert written(part, tmp_path)["transform"] is None


ROTATED = (8.0, 6.0, 100.0, 6.0, -8.0, 200.0)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (slice(None), slice(None)),
        (slice(1, 4), slice(2, 5)),
        (slice(None, None, 2), slice(1, None, 3)),
        (slice(None, None, -1), slice(None)),
        (slice(2, 3), slice(4, 5)),
    ],
)
@pytest.mark.parametrize("raster_type", ["area", "point"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_rotated_image_keeps_its_pixels_in_place_through_slices_and_strides(
    rows: slice, columns: slice, raster_type: str, lazy: bool, tmp_path: Path
) -> None:
    data = nowhere((5, 7), transform=ROTATED, raster_type=raster_type, crs=32633)
    swath.to_geotiff(data, tmp_path / "source.tif", keep_rotation=True)
    whole = swath.open_geotiff(tmp_path / "source.tif", allow_rotated=True, chunks=3 if lazy else None)
    part = whole[rows, columns]
    swath.to_geotiff(part, tmp_path / "it.tif", keep_rotation=True, crs=32633)
    with rasterio.open(tmp_path / "source.tif") as one, rasterio.open(tmp_path / "it.tif") as two:
        assert two.crs.to_epsg() == 32633
        for row, from_row in enumerate(np.arange(5)[rows]):
            for column, from_column in enumerate(np.arange(7)[columns]):
                assert two.xy(row, column) == pytest.approx(one.xy(from_row, from_column))
        a, b, _, d, e, _ = two.transform[:6]
        assert np.hypot(a, d) == pytest.approx(10 * abs(columns.step or 1))
        assert np.hypot(b, e) == pytest.approx(10 * abs(rows.step or 1))
    for refused in ({}, {"crs": 32633}):
        with pytest.raises(ValueError, match="keep_rotation"):
            written(part, tmp_path, **refused)


def test_a_part_of_a_rotated_image_without_coordinates_is_refused(tmp_path: Path) -> None:
    swath.to_geotiff(nowhere((5, 7), transform=ROTATED), tmp_path / "source.tif", keep_rotation=True)
    whole = swath.open_geotiff(tmp_path / "source.tif", allow_rotated=True, parse_coordinates=False)
    assert written(whole, tmp_path, keep_rotation=True)["transform"] == ROTATED
    with pytest.raises(ValueError, match="no coordinates"):
        written(whole[2:], tmp_path, keep_rotation=True)


@pytest.mark.parametrize("dims", [("x", "y"), ("lon", "lat"), ("col", "row"), ("x", "latitude")])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_transposed_image_is_not_mirrored(dims: tuple[str, str], lazy: bool, tmp_path: Path) -> None:
    x, y = dims
    array = grid(100 - ROWS, STEPS, (y, x)).copy(data=np.arange(24, dtype="f4").reshape(4, 6))
    turned = array.transpose(x, y)
    found = written(turned.chunk(2) if lazy else turned, tmp_path)
    assert found["transform"] == (1, 0, -0.5, 0, -1, 100.5)
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif"), array)


def test_cf_attributes_identify_the_axes_with_any_names(tmp_path: Path) -> None:
    array = grid(100 - ROWS, STEPS, ("northing", "easting")).copy(data=np.arange(24, dtype="f4").reshape(4, 6))
    array["northing"].attrs["axis"] = "Y"
    array["easting"].attrs["standard_name"] = "projection_x_coordinate"
    for given in (array, array.T):
        assert written(given, tmp_path)["transform"] == (1, 0, -0.5, 0, -1, 100.5)
        np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif"), array)
