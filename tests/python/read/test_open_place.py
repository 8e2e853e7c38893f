"""The georeferencing of pixels: transforms, coordinates, CRS, boxes, and contradictory files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import Affine

import swath
from open_files import FLOATS, PIXELS, UTM_KEYS, UTM_POINT_KEYS, WGS84_KEYS, by_gdal, tagged
from swath import open_geotiff


def matrix(a: float, b: float, c: float, d: float, e: float, f: float, zx: float = 0, zy: float = 0) -> list[float]:
    return [a, b, zx, c, d, e, zy, f, 0, 0, 0, 0, 0, 0, 0, 1]


def test_area_has_centres_and_the_corner(tmp_path: Path) -> None:
    array = open_geotiff(tagged(tmp_path / "a.tif"))
    assert array.attrs["transform"] == (10.0, 0.0, 100.0, 0.0, -10.0, 200.0)
    assert array.attrs["georef_status"] == "full"
    assert "raster_type" not in array.attrs
    assert "_swath_no_georef" not in array.attrs
    np.testing.assert_array_equal(array.x, [105, 115, 125, 135, 145, 155])
    np.testing.assert_array_equal(array.y, [195, 185, 175, 165])
    assert array.x.dtype == array.y.dtype == np.float64


def test_point_is_not_moved_by_half_a_pixel(tmp_path: Path) -> None:
    array = open_geotiff(tagged(tmp_path / "a.tif", keys=UTM_POINT_KEYS))
    assert array.attrs["transform"] == (10.0, 0.0, 100.0, 0.0, -10.0, 200.0)
    assert array.attrs["raster_type"] == "point"
    assert array.x.values[0] == 100
    assert array.y.values[0] == 200
    # Rasterio, whose transform refers to corners, has the same centres.
    with rasterio.open(tmp_path / "a.tif") as file:
        assert file.xy(0, 0) == (100, 200)


@pytest.mark.parametrize("keys", [UTM_KEYS, UTM_POINT_KEYS])
@pytest.mark.parametrize(
    "place", [(-180, 90, 0.1, 0.1), (500000.3, 4649776.22, 30.1, 30.7), (1 / 3, 2 / 3, 1 / 7, 1 / 9)]
)
def test_coordinates_of_a_window_are_those_of_the_whole(tmp_path: Path, keys: Any, place: Any) -> None:
    """Bit for bit, so that windows and chunks of one file align."""
    x, y, wide, high = place
    path = tagged(
        tmp_path / "a.tif",
        np.zeros((300, 400), np.uint8),
        keys=keys,
        scale=(wide, high, 0),
        tie=(0, 0, 0, x, y, 0),
    )
    whole, part = open_geotiff(path), open_geotiff(path, window=(100, 33, 250, 355))
    lazy = open_geotiff(path, window=(100, 33, 250, 355), chunks=64)
    assert part.coords.to_dataset().identical(whole[100:250, 33:355].coords.to_dataset())
    assert lazy.coords.to_dataset().identical(part.coords.to_dataset())
    assert part.attrs["transform"] == (wide, 0.0, x + 33 * wide, 0.0, -high, y + 100 * -high)
    half = 0 if keys is UTM_POINT_KEYS else 0.5
    np.testing.assert_array_equal(whole.x, np.arange(400) * wide + x + half * wide)
    np.testing.assert_array_equal(whole.y, np.arange(300) * -high + y + half * -high)


def test_without_a_transform_pixels_are_numbered(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", scale=None, tie=None, keys=None)
    whole, part = open_geotiff(path), open_geotiff(path, window=(1, 2, 3, 5))
    assert whole.attrs["georef_status"] == "none"
    assert repr(whole.attrs["_swath_no_georef"]) == "1"
    assert "transform" not in whole.attrs
    assert whole.x.dtype == np.int64
    assert part.x.values.tolist() == [2, 3, 4]
    assert part.y.values.tolist() == [1, 2]
    with pytest.raises(ValueError, match="requires a georeferenced source"):
        open_geotiff(path, bbox=(0, 0, 1, 1))


def test_a_crs_without_a_transform(tmp_path: Path) -> None:
    array = open_geotiff(tagged(tmp_path / "a.tif", scale=None, tie=None))
    assert array.attrs["georef_status"] == "crs_only"
    assert array.attrs["crs"] == 32633
    assert array.x.dtype == np.int64


def test_a_transform_without_a_crs(tmp_path: Path) -> None:
    array = open_geotiff(tagged(tmp_path / "a.tif", keys=None))
    assert array.attrs["georef_status"] == "transform_only"
    assert not {"crs", "crs_wkt"} & array.attrs.keys()


def test_parse_coordinates_false_leaves_only_bands(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", np.zeros((4, 6, 2), np.uint8))
    array = open_geotiff(path, parse_coordinates=False)
    assert list(array.coords) == ["band"]
    assert array.attrs["transform"] == open_geotiff(path).attrs["transform"]


@pytest.mark.parametrize(
    ("tags", "transform"),
    [
        ({"tie": (2, 1, 0, 100, 200, 0)}, (10.0, 0.0, 80.0, 0.0, -10.0, 210.0)),
        ({"tie": None}, (10.0, 0.0, 0.0, 0.0, -10.0, 0.0)),
        ({"scale": None}, (1.0, 0.0, 100.0, 0.0, -1.0, 200.0)),
        ({"scale": (10, -10, 0)}, (10.0, 0.0, 100.0, 0.0, 10.0, 200.0)),
        ({"matrix": matrix(20, 0, 7, 0, -20, 8)}, (20.0, 0.0, 7.0, 0.0, -20.0, 8.0)),
        ({"matrix": matrix(20, 1e-12, 7, 0, -20, 8)}, (20.0, 0.0, 7.0, 0.0, -20.0, 8.0)),
        ({"tie": (0, 0, 0, 100, 200, 0, 6, 4, 0, 160, 160, 0)}, (10.0, 0.0, 100.0, 0.0, -10.0, 200.0)),
    ],
)
def test_transforms_of_tags(tmp_path: Path, tags: dict[str, Any], transform: Any) -> None:
    assert open_geotiff(tagged(tmp_path / "a.tif", **tags)).attrs["transform"] == transform


@pytest.mark.parametrize(
    "tags",
    [
        {"scale": (0, 10, 0)},
        {"scale": (10, 0, 0)},
        {"scale": (float("nan"), 10, 0)},
        {"scale": (10, float("inf"), 0)},
        {"matrix": matrix(0, 0, 7, 0, -20, 8)},
    ],
)
def test_pixels_without_a_size_are_refused(tmp_path: Path, tags: dict[str, Any]) -> None:
    with pytest.raises(swath.DegeneratePixelSizeError, match="degenerate pixel_"):
        open_geotiff(tagged(tmp_path / "a.tif", **tags))


def test_tie_points_that_contradict_the_pixel_size_are_refused(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", tie=(0, 0, 0, 100, 200, 0, 6, 4, 0, 161, 160, 0))
    with pytest.raises(NotImplementedError, match="multiple non-affine tiepoints"):
        open_geotiff(path)


def test_ground_control_points_open_as_pixels(tmp_path: Path) -> None:
    ties = (0, 0, 0, 100, 200, 0, 6, 0, 0, 160, 210, 0, 0, 4, 0, 110, 160, 0, 6, 4, 0, 177, 171, 0)
    array = open_geotiff(tagged(tmp_path / "a.tif", scale=None, tie=ties))
    assert array.attrs["georef_status"] == "crs_only"
    np.testing.assert_array_equal(array, PIXELS)


@pytest.mark.parametrize(
    "terms",
    [matrix(10, 1, 100, 1, -10, 200), matrix(10, 1.1e-11, 100, 0, -10, 200), matrix(10, 0, 100, 0, -10, 200, zx=1)],
)
def test_rotation_is_refused_or_dropped(tmp_path: Path, terms: Any) -> None:
    path = tagged(tmp_path / "a.tif", scale=None, tie=None, matrix=terms)
    with pytest.raises(swath.RotatedTransformError, match="allow_rotated=True"):
        open_geotiff(path)
    array = open_geotiff(path, allow_rotated=True, window=(1, 2, 3, 5))
    assert array.attrs["georef_status"] == "rotated_dropped"
    assert array.attrs["rotated_affine"] == (terms[0], terms[1], 100.0, terms[4], -10.0, 200.0)
    assert not {"crs", "crs_wkt", "transform"} & array.attrs.keys()
    # The affine refers to the whole image, and so do the pixel numbers.
    assert array.x.values.tolist() == [2, 3, 4]
    with pytest.raises(ValueError, match="axis-aligned"):
        open_geotiff(path, allow_rotated=True, bbox=(100, 150, 120, 200))


def test_overview_with_a_transform_of_its_own_has_that_of_the_image(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif")
    # The `.ovr` of another image: another origin, another pixel size.
    tagged(tmp_path / "a.tif.ovr", FLOATS[::2, ::2].copy(), scale=(33, 33, 0), tie=(0, 0, 0, 7, 9, 0), subfiletype=1)
    array = open_geotiff(path, overview_level=1)
    with rasterio.open(path, overview_level=0) as file:
        assert array.attrs["transform"] == tuple(file.transform)[:6] == (20.0, 0.0, 100.0, 0.0, -20.0, 200.0)
        assert array.attrs["crs"] == file.crs.to_epsg()


def test_overviews_cover_the_same_ground(tmp_path: Path) -> None:
    path = by_gdal(tmp_path / "a.tif", np.zeros((100, 120), np.uint8), levels=[2, 3])
    array = open_geotiff(path, overview_level=2)
    assert array.shape == (34, 40)
    assert array.attrs["transform"] == (30.0, 0.0, 100.0, 0.0, -10 * (100 / 34), 200.0)
    np.testing.assert_allclose(array.y[[0, -1]], [200 - 500 / 34, -800 + 500 / 34])
    with rasterio.open(path, "r+") as file:
        file.update_tags(AREA_OR_POINT="Point")
    point = open_geotiff(path, overview_level=2)
    np.testing.assert_allclose(point.y, array.y)
    np.testing.assert_allclose(point.attrs["transform"], (30, 0, 115, 0, -10 * (100 / 34), 200 - 500 / 34))


@pytest.mark.parametrize(
    ("bbox", "window"),
    [
        ((100, 160, 120, 200), (0, 0, 4, 2)),
        ((101, 171, 109, 179), (2, 0, 3, 1)),
        ((110, 180, 120, 190), (1, 1, 2, 2)),
        ((-1e9, -1e9, 1e9, 1e9), (0, 0, 4, 6)),
        ([119.9, 160, 120.1, 200], (0, 1, 4, 3)),
    ],
)
def test_a_box_takes_the_pixels_it_touches(tmp_path: Path, bbox: Any, window: Any) -> None:
    path = tagged(tmp_path / "a.tif")
    assert open_geotiff(path, bbox=bbox).identical(open_geotiff(path, window=window))
    assert open_geotiff(path, bbox=bbox, chunks=2).compute().equals(open_geotiff(path, window=window))


def test_a_box_over_an_image_that_is_upside_down(tmp_path: Path) -> None:
    path = by_gdal(tmp_path / "a.tif", PIXELS.astype(np.uint8), transform=Affine(-10, 0, 100, 0, 10, 200))
    assert open_geotiff(path, bbox=(70, 210, 90, 230)).identical(open_geotiff(path, window=(1, 1, 3, 3)))


@pytest.mark.parametrize(
    ("bbox", "says"),
    [
        ((100, 160, 120), "4-tuple"),
        ("abcd", "4-tuple"),
        (5, "4-tuple"),
        ((120, 160, 100, 200), "non-positive size"),
        ((100, 160, 120, 160), "non-positive size"),
        ((float("nan"), 0, 1, 1), "finite"),
        ((0, 0, float("inf"), 1), "finite"),
        ((0, 0, 1, 1), "does not overlap"),
        ((160, 160, 170, 200), "does not overlap"),
    ],
)
def test_an_invalid_box_is_an_error(tmp_path: Path, bbox: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        open_geotiff(tagged(tmp_path / "a.tif"), bbox=bbox)


def test_a_box_of_words(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="bbox must contain numbers"):
        open_geotiff(tagged(tmp_path / "a.tif"), bbox=("a", 1, 2, 3))  # type: ignore[arg-type]


def test_the_crs_is_a_code_and_the_text_of_pyproj(tmp_path: Path) -> None:
    pyproj = pytest.importorskip("pyproj")
    for keys, code in ((UTM_KEYS, 32633), (WGS84_KEYS, 4326)):
        attrs = open_geotiff(tagged(tmp_path / f"{code}.tif", keys=keys)).attrs
        assert attrs["crs"] == code
        assert type(attrs["crs"]) is int
        assert attrs["crs_wkt"] == pyproj.CRS.from_epsg(code).to_wkt()


def test_without_pyproj_the_engine_provides_the_wkt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import warnings

    from swath.read.crs import text_of_epsg

    with_pyproj = text_of_epsg(32633)
    monkeypatch.setitem(sys.modules, "pyproj", None)
    text_of_epsg.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attrs = open_geotiff(tagged(tmp_path / "a.tif")).attrs
    monkeypatch.undo()
    text_of_epsg.cache_clear()
    assert attrs["crs"] == 32633
    assert attrs["crs_wkt"].startswith("PROJCS")
    pyproj = pytest.importorskip("pyproj")
    assert pyproj.CRS(attrs["crs_wkt"]) == pyproj.CRS(with_pyproj)


@pytest.mark.parametrize("code", [4326, 3857, 32633, 27700, 2154, 5070, 3035, 4269, 28992])
def test_the_engine_means_the_same_as_pyproj(code: int) -> None:
    pyproj = pytest.importorskip("pyproj")
    from swath import _swath

    assert pyproj.CRS.from_wkt(_swath.wkt_of_epsg(code)) == pyproj.CRS.from_epsg(code)


@pytest.mark.filterwarnings("ignore")
def test_every_text_of_the_engine_means_its_code() -> None:
    """Also names and directions of axes: depths point down, and some geographic codes have longitude first."""
    pyproj = pytest.importorskip("pyproj")
    from pyproj.database import query_crs_info

    from swath import _swath

    def axes(crs: Any) -> list[tuple[str, str]]:
        return [(axis.name.split()[-1].lower(), axis.direction) for axis in crs.axis_info]

    seen = 0
    for info in query_crs_info("EPSG", allow_deprecated=True):
        text = _swath.wkt_of_epsg(int(info.code))
        if text is None:
            continue
        seen += 1
        own, known = pyproj.CRS.from_wkt(text), pyproj.CRS.from_epsg(info.code)
        assert axes(own) == axes(known), info.code
        # For 4266, 9311 and some others WKT 1 contains less than the EPSG register; pyproj's WKT does too.
        assert own == known or own == pyproj.CRS.from_wkt(known.to_wkt("WKT1_GDAL")), info.code
    assert seen > 4000


def test_an_unknown_code_is_kept_with_a_warning_each_time(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", keys=[*UTM_KEYS[:2], (3072, 0, 1, 29999)])
    for _ in range(2):
        with pytest.warns(swath.GeoTIFFFallbackWarning, match="29999") as caught:
            attrs = open_geotiff(path).attrs
        assert caught[0].filename == __file__
    assert attrs["crs"] == 29999
    assert "crs_wkt" not in attrs


def test_a_code_in_another_unit_is_not_that_code(tmp_path: Path) -> None:
    """EPSG:32633 with ProjLinearUnits 9003, US survey feet: as EPSG:32633 the pixels would be 3.28 times too far
    away.
    """
    pyproj = pytest.importorskip("pyproj")
    path = tagged(tmp_path / "feet.tif", keys=[*UTM_KEYS, (3076, 0, 1, 9003)])
    array = open_geotiff(path)
    assert "crs" not in array.attrs
    swath.to_geotiff(array, str(tmp_path / "again.tif"))
    for name in ("feet.tif", "again.tif"):
        with rasterio.open(tmp_path / name) as file:
            theirs = pyproj.CRS.from_wkt(file.crs.to_wkt())
            assert file.crs.units_factor[1] == pytest.approx(0.3048006)
    assert pyproj.CRS.from_wkt(array.attrs["crs_wkt"]) == theirs


def test_a_code_in_its_own_unit_is_that_code(tmp_path: Path) -> None:
    assert open_geotiff(tagged(tmp_path / "a.tif", keys=[*UTM_KEYS, (3076, 0, 1, 9001)])).attrs["crs"] == 32633


@pytest.mark.parametrize(
    "keys",
    [
        {1024: 1, 3072: 26915, 2048: 4267},
        {1024: 1, 3072: 32633, 2048: 4258},
        {1024: 1, 3072: 27700, 2048: 4326},
        {1024: 1, 3072: 3857, 2048: 4267},
        {1024: 1, 3072: 27572, 2051: 8901},
        {1024: 2, 2048: 4277, 2056: 7030},
        {1024: 2, 2048: 4807, 2051: 8901},
        {1024: 2, 2048: 4277, 2061: 2},
    ],
)
def test_a_code_over_another_datum_is_not_that_code(tmp_path: Path, keys: dict[int, int]) -> None:
    pyproj = pytest.importorskip("pyproj")
    path = tagged(tmp_path / "a.tif", keys=[(key, 0, 1, value) for key, value in sorted(keys.items())])
    array = open_geotiff(path)
    swath.to_geotiff(array, str(tmp_path / "again.tif"))
    with rasterio.open(path) as file, rasterio.open(tmp_path / "again.tif") as again:
        assert array.attrs.get("crs") == file.crs.to_epsg() == again.crs.to_epsg()
        for crs in (pyproj.CRS.from_wkt(array.attrs["crs_wkt"]), pyproj.CRS.from_wkt(again.crs.to_wkt())):
            assert crs.ellipsoid == pyproj.CRS.from_wkt(file.crs.to_wkt()).ellipsoid


def test_a_modified_code_without_wkt_warns(tmp_path: Path) -> None:
    # An unknown code, with a unit that therefore cannot be checked.
    path = tagged(tmp_path / "a.tif", keys=[*UTM_KEYS[:2], (3072, 0, 1, 29999), (3076, 0, 1, 9003)])
    with pytest.warns(swath.GeoTIFFFallbackWarning, match="EPSG:29999"):
        attrs = open_geotiff(path).attrs
    assert "crs" not in attrs and "crs_wkt" not in attrs


def test_a_projection_without_a_code_has_a_text(tmp_path: Path) -> None:
    """Also on a base with a code: ProjectedCSType 32767 over GeographicType 4269 is not a contradiction."""
    pyproj = pytest.importorskip("pyproj")
    for proj in (
        "+proj=laea +lat_0=30 +lon_0=10 +ellps=WGS84",
        "+proj=aea +lat_1=20 +lat_2=60 +lat_0=40 +lon_0=-96 +datum=NAD83",
    ):
        attrs = open_geotiff(by_gdal(tmp_path / "a.tif", PIXELS.astype(np.uint8), crs=proj)).attrs
        assert attrs["georef_status"] == "full"
        assert "crs" not in attrs
        with rasterio.open(tmp_path / "a.tif") as file:
            assert pyproj.CRS.from_wkt(attrs["crs_wkt"]) == pyproj.CRS.from_wkt(file.crs.to_wkt())


@pytest.mark.parametrize(
    "keys",
    [
        [(1024, 0, 1, 1), (1025, 0, 1, 1), (2048, 0, 1, 4326)],
        [(1024, 0, 1, 2), (1025, 0, 1, 1), (3072, 0, 1, 32633)],
        [(1024, 0, 1, 2), (1025, 0, 1, 1), (2048, 0, 1, 4326), (3072, 0, 1, 32633)],
    ],
)
def test_keys_that_contradict_each_other(tmp_path: Path, keys: Any) -> None:
    with pytest.raises(swath.InconsistentGeoKeysError, match="ModelTypeGeoKey"):
        open_geotiff(tagged(tmp_path / "a.tif", keys=keys))


def with_citation(path: Path, text: str, key: int = 1026) -> str:
    keys = sorted([(1024, 0, 1, 1), (1025, 0, 1, 1), (key, 34737, len(text) + 1, 0), (3072, 0, 1, 32767)])
    return tagged(path, keys=keys, text=text + "|")


def test_a_text_in_a_citation_is_the_crs(tmp_path: Path) -> None:
    pyproj = pytest.importorskip("pyproj")
    text = pyproj.CRS("+proj=laea +lat_0=30 +lon_0=10 +ellps=WGS84").to_wkt()
    for key in (1026, 3073):
        attrs = open_geotiff(with_citation(tmp_path / f"{key}.tif", text, key)).attrs
        assert attrs["crs_wkt"] == text
        assert "crs" not in attrs
    attrs = open_geotiff(with_citation(tmp_path / "name.tif", "My CRS")).attrs
    assert "crs_wkt" not in attrs


def test_a_text_that_cannot_be_parsed_is_refused_or_kept(tmp_path: Path) -> None:
    pytest.importorskip("pyproj")
    path = with_citation(tmp_path / "a.tif", 'PROJCS["nonsense"')
    for _ in range(2):
        with pytest.raises(swath.UnparseableCRSError, match="allow_unparseable_crs=True"):
            open_geotiff(path)
        assert open_geotiff(path, allow_unparseable_crs=True).attrs["crs_wkt"] == 'PROJCS["nonsense"'


def test_a_world_file_places_an_image(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", scale=None, tie=None, keys=None)
    (tmp_path / "a.tfw").write_text("10\n0\n0\n-10\n105\n195\n")
    array = open_geotiff(path)
    assert array.attrs["transform"] == (10.0, 0.0, 100.0, 0.0, -10.0, 200.0)
    assert array.attrs["georef_status"] == "transform_only"
    assert array.x.values[0] == 105


def test_pam_places_an_image(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", scale=None, tie=None, keys=None)
    with rasterio.open(path) as file:
        pass
    (tmp_path / "a.tif.aux.xml").write_text(
        "<PAMDataset><SRS>EPSG:32633</SRS><GeoTransform>100, 10, 0, 200, 0, -10</GeoTransform></PAMDataset>"
    )
    with rasterio.open(path) as file:
        expected = tuple(file.transform)[:6]
    array = open_geotiff(path)
    assert array.attrs["transform"] == expected == (10.0, 0.0, 100.0, 0.0, -10.0, 200.0)
    assert array.attrs["crs"] == 32633
    assert array.attrs["georef_status"] == "full"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_does_not_move_pixels(tmp_path: Path, orientation: int) -> None:
    """As in GDAL, for full reads, windows and chunks."""
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), extra=[(274, "H", 1, orientation, True)])
    np.testing.assert_array_equal(open_geotiff(path), PIXELS)
    np.testing.assert_array_equal(open_geotiff(path, window=(1, 1, 3, 4)), PIXELS[1:3, 1:4])
    np.testing.assert_array_equal(open_geotiff(path, chunks=2), PIXELS)


def test_a_crs_in_a_sidecar_takes_precedence_over_geokeys(tmp_path: Path) -> None:
    """As in GDAL; this also applies to nodata."""
    path = by_gdal(tmp_path / "a.tif", PIXELS.astype(np.int16), crs="EPSG:32633", nodata=5)
    (tmp_path / "a.tif.aux.xml").write_text(
        "<PAMDataset><SRS>EPSG:32631</SRS>"
        '<PAMRasterBand band="1"><NoDataValue>3</NoDataValue></PAMRasterBand></PAMDataset>'
    )
    with rasterio.open(path) as file:
        assert (file.crs.to_epsg(), file.nodata) == (32631, 3)
    attrs = open_geotiff(path).attrs
    assert (attrs["crs"], attrs["nodata"]) == (32631, 3)
    assert "zone 31N" in attrs["crs_wkt"]
    assert swath.open_geotiff(path, masked=True).isnull().sum() == (PIXELS.astype(np.int16) == 3).sum()
