"""Invalid arguments: the class of the error, its words, and that it is raised before the file is opened."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

import swath
from open_files import PIXELS, by_gdal, tagged
from swath import _swath, open_geotiff


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tagged(tmp_path_factory.mktemp("request") / "one.tif", PIXELS.astype(np.uint8), nodata="3")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> str:
    pixels = np.stack([PIXELS, PIXELS + 1, PIXELS + 2], -1).astype(np.uint16)
    return tagged(tmp_path_factory.mktemp("request") / "three.tif", pixels)


# These checks do not need the file, so it does not have to exist.
WITHOUT_FILE: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"gpu": 1}, TypeError, "gpu must be a bool"),
    ({"gpu": None}, TypeError, "gpu must be a bool"),
    ({"gpu": "yes"}, TypeError, "gpu must be a bool"),
    ({"overview_level": True}, TypeError, "overview_level"),
    ({"overview_level": 1.0}, TypeError, "overview_level"),
    ({"overview_level": "1"}, TypeError, "overview_level"),
    ({"on_gpu_failure": "auto"}, ValueError, "only applies when gpu=True"),
    ({"gpu": True, "on_gpu_failure": "never"}, ValueError, "'auto' or 'strict'"),
    ({"gpu": True, "on_gpu_failure": None}, ValueError, "'auto' or 'strict'"),
    ({"gpu": True, "parse_coordinates": False}, ValueError, "parse_coordinates=False"),
    ({"missing_sources": "raise"}, ValueError, "only applies to VRT"),
    ({"missing_sources": None}, ValueError, "only applies to VRT"),
    ({"band_nodata": "first"}, ValueError, "only applies to VRT"),
    ({"max_cloud_bytes": 5, "chunks": 2}, ValueError, "max_cloud_bytes"),
    ({"max_cloud_bytes": None, "chunks": 2}, ValueError, "max_cloud_bytes"),
    ({"max_cloud_bytes": 5, "gpu": True}, ValueError, "max_cloud_bytes"),
    ({"window": (0, 0, 1, 1), "bbox": (0, 0, 1, 1)}, ValueError, "mutually exclusive"),
    ({"default_name": "a", "name": "b"}, TypeError, "not both"),
    ({"masked": True, "mask_nodata": True}, TypeError, "not both"),
    ({"unpack": True, "mask_and_scale": False}, TypeError, "not both"),
    ({"chunks": 0}, ValueError, "chunks must be a positive int"),
    ({"chunks": (2, 3, 4)}, ValueError, "length 2"),
    ({"chunks": True}, ValueError, "chunks must be a positive int"),
]


@pytest.mark.parametrize(("keywords", "error", "says"), WITHOUT_FILE)
def test_a_bad_request_is_refused_before_the_file_is_looked_for(
    keywords: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        open_geotiff("there is no such file.tif", **keywords)


OF_MOSAICS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"unpack": True}, ValueError, "unpack=True is not supported for .vrt"),
    ({"parse_coordinates": False}, ValueError, "parse_coordinates=False is not supported for .vrt"),
    ({"max_cloud_bytes": 5}, ValueError, "max_cloud_bytes"),
    ({"overview_level": 1}, ValueError, "overview_level is not supported for VRT"),
    ({"gpu": True, "on_gpu_failure": "strict"}, ValueError, "on_gpu_failure is not supported for VRT"),
    ({"missing_sources": "ignore"}, ValueError, "missing_sources must be 'warn' or 'raise'"),
    ({"missing_sources": None}, ValueError, "missing_sources must be 'warn' or 'raise'"),
    ({"band_nodata": "last"}, ValueError, "band_nodata must be None or 'first'"),
    ({"stable_only": True}, swath.VRTStableSourcesOnlyError, "stable_only=True"),
    ({"stable_only": True, "missing_sources": "ignore"}, swath.VRTStableSourcesOnlyError, "stable_only=True"),
]


@pytest.mark.parametrize(("keywords", "error", "says"), OF_MOSAICS)
@pytest.mark.parametrize("name", ["none.vrt", "NONE.VRT"])
def test_a_bad_request_for_a_mosaic_is_refused(
    name: str, keywords: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        open_geotiff(name, **keywords)


@pytest.mark.parametrize("url", ["http://host/a.tif", "HTTPS://host/a.tif", "s3://bucket/a.tif", "memory://a.tif"])
def test_stable_only_refuses_urls_without_fetching(url: str) -> None:
    with pytest.raises(swath.RemoteStableSourcesOnlyError, match="stable_only=True"):
        open_geotiff(url, stable_only=True)


@pytest.mark.parametrize(
    ("band", "error"),
    [
        (3, IndexError),
        (-1, IndexError),
        (True, ValueError),
        (np.True_, ValueError),
        (1.0, TypeError),
        ("1", TypeError),
        ({0}, TypeError),
        ([0, 3], IndexError),
        ([0, 1.0], TypeError),
        ([True], ValueError),
        ([1, 0, 1], ValueError),
        ([], ValueError),
        ([[0, 1]], TypeError),
    ],
)
def test_a_missing_band_is_an_error(three: str, band: Any, error: type[Exception]) -> None:
    for chunks in (None, 2):
        with pytest.raises(error, match="band"):
            open_geotiff(three, band=band, chunks=chunks)


def test_bands_are_chosen_by_any_integer(three: str) -> None:
    for band in (1, np.int64(1), np.uint8(1)):
        chosen = open_geotiff(three, band=band)
        assert chosen.dims == ("y", "x")
        np.testing.assert_array_equal(chosen, PIXELS + 1)
    every = open_geotiff(three)
    assert every.dims == ("y", "x", "band")
    assert every.band.dtype == np.int64
    assert every.band.values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("chunks", [None, 2])
@pytest.mark.parametrize("bands", [[2, 0], (1, 2), np.array([2, 1]), [1], range(1, 3)])
def test_a_list_of_bands_keeps_its_order_and_the_band_axis(three: str, bands: Any, chunks: Any) -> None:
    chosen = open_geotiff(three, band=bands, chunks=chunks)
    assert chosen.dims == ("y", "x", "band")
    assert chosen.band.dtype == np.int64
    assert chosen.band.values.tolist() == list(bands)
    np.testing.assert_array_equal(chosen, np.stack([PIXELS + band for band in bands], -1))
    assert open_geotiff(three, band=bands, parse_coordinates=False, chunks=chunks).band.values.tolist() == list(bands)


def test_one_of_several_bands_has_its_number_as_a_coordinate(one: str, three: str) -> None:
    chosen = open_geotiff(three, band=2)
    assert list(chosen.coords) == ["y", "x", "band"]
    assert chosen.band.ndim == 0
    assert chosen.band.item() == 2
    assert list(open_geotiff(one).coords) == list(open_geotiff(one, band=0).coords) == ["y", "x"]
    assert open_geotiff(one, band=[0]).dims == ("y", "x", "band")
    assert "band" not in (chosen - open_geotiff(three, band=0)).coords


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("request") / "named.tif"
    with rasterio.open(by_gdal(path, np.stack([PIXELS + band for band in range(4)]).astype("u2")), "r+") as file:
        file.descriptions = ("red", "nir", "twin", "twin")
    return str(path)


@pytest.mark.parametrize("chunks", [None, 2])
def test_bands_are_chosen_by_name(named: str, chunks: Any) -> None:
    one = open_geotiff(named, band="nir", chunks=chunks)
    assert one.dims == ("y", "x")
    assert one.band.item() == 1
    np.testing.assert_array_equal(one, PIXELS + 1)
    some = open_geotiff(named, band=["nir", "red", 3], chunks=chunks)
    assert some.band.values.tolist() == [1, 0, 3]
    np.testing.assert_array_equal(some, np.stack([PIXELS + band for band in (1, 0, 3)], -1))
    assert open_geotiff(named, band=["red"], chunks=chunks).dims == ("y", "x", "band")


@pytest.mark.parametrize(
    ("band", "says"),
    [
        ("NIR", r"no band is named 'NIR'.*\['red', 'nir', 'twin', 'twin'\]"),
        ("", "no band is named ''"),
        (["red", "blue"], "no band is named 'blue'"),
        ("twin", r"bands \[2, 3\]"),
        (["red", 0], "more than once"),
    ],
)
def test_names_that_choose_no_band(named: str, band: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        open_geotiff(named, band=band)


def test_a_name_where_bands_have_none(three: str) -> None:
    with pytest.raises(TypeError, match="have no names"):
        open_geotiff(three, band="nir")


def test_band_error_names_a_single_band_file(one: str) -> None:
    with pytest.raises(IndexError, match="band=1 requested on a single-band file"):
        open_geotiff(one, band=1)


@pytest.mark.parametrize(
    "window",
    [
        (2, 2, 2, 2),
        (2, 2, 1, 1),
        (-1, 0, 2, 2),
        (0, 0, 5, 6),
        (0, 0, 4, 7),
        (4, 0, 4, 6),
        (0, 0, 10**12, 10**12),
        (0, 0, 10**30, 2),
    ],
)
def test_a_window_must_lie_in_the_image(one: str, window: Any) -> None:
    for chunks in (None, 2):
        with pytest.raises(ValueError, match=r"outside the source extent \(4x6\) or has non-positive size"):
            open_geotiff(one, window=window, chunks=chunks)


def test_a_window_is_four_integers(one: str) -> None:
    for window in ((0, 0, 2), (0, 0, 2, 2, 2), ()):
        with pytest.raises(ValueError, match="four integers"):
            open_geotiff(one, window=window)  # type: ignore[arg-type]
    for window in ((0, 0, 2.5, 2), ("a", 0, 1, 1), 5, (None, 0, 2, 2)):
        with pytest.raises(TypeError, match="four integers"):
            open_geotiff(one, window=window)  # type: ignore[arg-type]
    for window in ([0, 0, 2, 3], np.array([0, 0, 2, 3]), (np.int64(0), 0, 2, 3)):
        assert open_geotiff(one, window=window).shape == (2, 3)  # type: ignore[arg-type]


def test_a_missing_overview_is_an_error(tmp_path: Path, one: str) -> None:
    levelled = by_gdal(tmp_path / "levels.tif", np.zeros((64, 64), np.uint8), levels=[2, 4])
    assert open_geotiff(levelled, overview_level=2).shape == (16, 16)
    assert open_geotiff(levelled, overview_level=np.int64(0)).shape == (64, 64)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"overview_level=3 is out of range.*0\.\.2"):
        open_geotiff(levelled, overview_level=3)
    with pytest.raises(ValueError, match="overview_level must be >= 0"):
        open_geotiff(levelled, overview_level=-1)
    with pytest.raises(ValueError, match=r"Valid overview_level values are 0\.\.0"):
        open_geotiff(one, overview_level=1)
    # The window is in pixels of the level.
    with pytest.raises(ValueError, match=r"\(32x32\)"):
        open_geotiff(levelled, overview_level=1, window=(0, 0, 64, 64))


def test_too_many_pixels_are_refused_with_a_way_out(one: str, three: str) -> None:
    assert open_geotiff(one, max_pixels=24).shape == (4, 6)
    with pytest.raises(swath.PixelSafetyLimitError, match="23 pixels") as caught:
        open_geotiff(one, max_pixels=23)
    for hint in ("max_pixels=", "window=(0, 0, 4, 4)", "bbox=", "chunks=4", "GB"):
        assert hint in str(caught.value)
    with pytest.raises(swath.PixelSafetyLimitError, match="6 x 4 x 3 = 72"):
        open_geotiff(three, max_pixels=24)
    assert open_geotiff(one, max_pixels=6, window=(0, 0, 1, 6)).shape == (1, 6)
    with pytest.raises(TypeError, match="max_pixels"):
        open_geotiff(one, max_pixels="a")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [float("inf"), np.inf, 1e300, 10**30], ids=str)
@pytest.mark.parametrize("chunks", [None, 3])
def test_max_pixels_may_be_infinite(one: str, tmp_path: Path, limit: float, chunks: int | None) -> None:
    array = open_geotiff(one, max_pixels=limit, chunks=chunks)
    np.testing.assert_array_equal(array.values, PIXELS)
    swath.to_geotiff(array, str(tmp_path / "a.vrt"))
    np.testing.assert_array_equal(open_geotiff(tmp_path / "a.vrt", max_pixels=limit, chunks=chunks).values, PIXELS)
    with pytest.raises(ValueError, match="NaN"):
        open_geotiff(one, max_pixels=float("nan"))


def test_max_pixels_bounds_chunks_not_the_whole(one: str) -> None:
    assert open_geotiff(one, max_pixels=5, chunks=2).values.sum() == PIXELS.sum()
    with pytest.raises(swath.PixelSafetyLimitError, match="2 x 2 x 1"):
        open_geotiff(one, max_pixels=3, chunks=2).compute()


def test_max_pixels_is_checked_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "huge.tif"
    import rasterio

    with rasterio.open(
        path, "w", driver="GTiff", width=200_000, height=200_000, count=1, dtype="uint8", tiled=True, sparse_ok=True
    ):
        pass
    with pytest.raises(swath.PixelSafetyLimitError, match="40,000,000,000 pixels, ~40.00 GB"):
        open_geotiff(path)


def test_coordinates_of_a_lazy_array_are_bounded_too(tmp_path: Path) -> None:
    import rasterio

    path = tmp_path / "wide.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=2_100_000_000, height=1, count=1, dtype="uint8", sparse_ok=True, bigtiff=True
    ):
        pass
    with pytest.raises(swath.PixelSafetyLimitError, match="coordinates of 1 rows and 2,100,000,000 columns"):
        open_geotiff(path, chunks=(1, 1_000_000))
    lazy = open_geotiff(path, chunks=(1, 1_000_000), parse_coordinates=False)
    assert lazy.shape == (1, 2_100_000_000)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [("name", "default_name", "x"), ("mask_nodata", "masked", True), ("mask_and_scale", "unpack", True)],
)
def test_renamed_parameters_work_and_warn(one: str, old: str, new: str, value: Any) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old}=.*use {new}=") as caught:
        before = open_geotiff(one, **{old: value})
    assert caught[0].filename == __file__
    assert before.identical(open_geotiff(one, **{new: value}))


def test_lock_and_cache_have_no_effect_and_warn(one: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_geotiff(one, lock=None, cache=True)
    for keywords in ({"lock": False}, {"cache": False}):
        with pytest.warns(swath.GeoTIFFFallbackWarning, match="no effect"):
            open_geotiff(one, **keywords)  # type: ignore[arg-type]


def test_every_kind_of_source_reads_the_same(one: str) -> None:
    expected = open_geotiff(one)
    assert expected.name == "one"
    assert open_geotiff(Path(one)).identical(expected)
    data = Path(one).read_bytes()
    with Path(one).open("rb") as file:
        for source in (data, io.BytesIO(data), file):
            array = open_geotiff(source)  # type: ignore[arg-type]
            assert array.name is None
            assert array.rename("one").identical(expected)


def test_a_file_object_is_left_where_it_was(one: str) -> None:
    file = io.BytesIO(Path(one).read_bytes())
    file.seek(5)
    open_geotiff(file)
    assert file.tell() == 5
    assert not file.closed


def test_file_objects_are_read_at_once_on_the_cpu(one: str) -> None:
    data = Path(one).read_bytes()
    for source in (data, io.BytesIO(data)):
        with pytest.raises(ValueError, match=r"chunks=.*file-like"):
            open_geotiff(source, chunks=2)
        with pytest.raises(ValueError, match="gpu=True is not supported for file-like"):
            open_geotiff(source, gpu=True)


def test_invalid_source_is_an_error(tmp_path: Path) -> None:
    for source in (123, None, ["a.tif"], object()):
        with pytest.raises(TypeError, match="os.PathLike"):
            open_geotiff(source)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError) as missing:
        open_geotiff(tmp_path / "missing.tif")
    assert missing.value.filename == str(tmp_path / "missing.tif")
    with pytest.raises(IsADirectoryError):
        open_geotiff(tmp_path)
    (tmp_path / "text.tif").write_text("import this")
    with pytest.raises(ValueError, match="text.tif"):
        open_geotiff(tmp_path / "text.tif")


def test_names(one: str, tmp_path: Path) -> None:
    assert open_geotiff(one, default_name="dem").name == "dem"
    dotted = tagged(tmp_path / "a.b.tiff")
    assert open_geotiff(dotted).name == "a.b"


def test_the_report_describes_the_work(one: str) -> None:
    report: dict[str, Any] = {"mine": 1}
    open_geotiff(one, report=report)
    assert report["device"] == "cpu"
    assert report["blocks"] == 1
    assert report["mine"] == 1
    assert swath.last_report() is report


def test_codec_flags_are_accepted_and_do_nothing(one: str) -> None:
    with_flags = open_geotiff(one, allow_experimental_codecs=True, allow_internal_only_jpeg=True, stable_only=True)
    assert with_flags.identical(open_geotiff(one))


@pytest.mark.parametrize("size", [2**63, 2**64, 10**30])
def test_size_of_more_than_64_bits_exceeds_every_pixel_limit(size: int) -> None:
    assert _swath.has_window((0, 0, 2, 2), size, size)
    assert not _swath.within_max_pixels(size, size, 1, 2**63 - 1)
    assert not _swath.within_max_pixels(1, 1, 1, -1)
    assert _swath.within_max_pixels(2, 3, 4, 24) and not _swath.within_max_pixels(2, 3, 4, 23)
