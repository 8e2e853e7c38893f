"""to_geotiff: accepted and refused arguments, and targets."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import rasterio
import xarray as xr

import swath
from swath._swath import File

FLOATS = np.linspace(-5, 80, 64 * 48, dtype="f4").reshape(64, 48)
BYTES = (np.arange(64 * 48) % 250).astype("u1").reshape(64, 48)
BANDS = np.stack([BYTES] * 5, axis=-1)


def write(data: Any, tmp_path: Path, **options: Any) -> Any:
    swath.to_geotiff(data, tmp_path / "it.tif", **options)
    return File.open(str(tmp_path / "it.tif")).describe()


LEADING = [
    (band, y, x) for band in ("band", "bands", "channel") for y, x in (("y", "x"), ("lat", "lon"), ("row", "col"))
]


@pytest.mark.parametrize("dims", [*LEADING, ("band", "latitude", "longitude"), ("band", "y", "lon")])
def test_the_names_of_dims_identify_the_band_axis(dims: tuple[str, str, str], tmp_path: Path) -> None:
    array = np.arange(24, dtype="u1").reshape(2, 3, 4)
    first, last = xr.DataArray(array, dims=dims), xr.DataArray(array, dims=(*dims[1:], dims[0]))
    found = write(first, tmp_path)
    assert (found["bands"], found["height"], found["width"]) == (2, 3, 4)
    found = write(last, tmp_path)
    assert (found["bands"], found["height"], found["width"]) == (4, 2, 3)


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (("time", "y", "x"), "temporal leading"),
        (("y", "x", "T"), "temporal trailing"),
        (("date", "lat", "lon"), "temporal leading"),
        (("y", "x", "wavelength"), "non-band trailing"),
        (("z", "y", "x"), "ambiguous dims"),
        (("band", "x", "z"), "ambiguous dims"),
        (("y", "band", "lat"), "ambiguous dims"),
        (("y", "time", "x"), "ambiguous dims"),
        (("dim_0", "dim_1", "dim_2"), "ambiguous dims"),
        (("time", "a", "b"), "ambiguous dims"),
    ],
)
def test_three_ambiguous_dims_are_refused(dims: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        write(xr.DataArray(np.zeros((2, 3, 4)), dims=dims), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dims", [("band", "x", "y"), ("y", "band", "x"), ("x", "y", "band"), ("x", "channel", "lat")])
@pytest.mark.parametrize("lazy", [False, True])
def test_an_order_of_dims_that_no_file_has_is_undone(dims: tuple[str, ...], lazy: bool, tmp_path: Path) -> None:
    sizes = {"band": 2, "channel": 2, "y": 3, "lat": 3, "x": 4}
    array = xr.DataArray(np.arange(24, dtype="u1").reshape([sizes[dim] for dim in dims]), dims=dims)
    found = write(array.chunk(2) if lazy else array, tmp_path)
    assert (found["bands"], found["height"], found["width"]) == (2, 3, 4)
    y, x, band = (next(dim for dim in dims if dim in names) for names in (("y", "lat"), ("x",), ("band", "channel")))
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif"), array.transpose(y, x, band))


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((3, 100, 200), (3, 100, 200)),
        ((1, 100, 200), (1, 100, 200)),
        ((40, 100, 200), (40, 100, 200)),
        ((100, 200, 3), (3, 100, 200)),
        ((100, 200, 1), (1, 100, 200)),
        ((2, 100, 3), (3, 2, 100)),
        ((3, 3, 3), (3, 3, 3)),
        ((200, 100, 50), (50, 200, 100)),
        ((2, 3, 32), (32, 2, 3)),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_axes_of_bare_arrays_are_those_of_rasterio_where_bands_come_first(
    shape: tuple[int, ...], found: tuple[int, ...], lazy: bool, tmp_path: Path
) -> None:
    """An array (3, 100, 200) does not mean two hundred bands of three rows."""
    array = (np.arange(np.prod(shape)) % 251).astype("u1").reshape(shape)
    write(da.from_array(array, chunks=17) if lazy else array, tmp_path)
    with rasterio.open(tmp_path / "it.tif") as file:
        assert (file.count, file.height, file.width) == found
        bands_first = array if found == shape and shape != (3, 3, 3) else np.moveaxis(array, -1, 0)
        np.testing.assert_array_equal(file.read(), bands_first)


@pytest.mark.parametrize("shape", [(), (5,), (1, 2, 3, 4)])
def test_images_have_two_or_three_dims(shape: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"got {len(shape)}D"):
        write(np.zeros(shape), tmp_path)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 4, 4), (4, 4, 0)])
def test_empty_images_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="empty raster|no bands"):
        write(np.zeros(shape), tmp_path)


def test_a_dataset_and_a_list_are_images(tmp_path: Path) -> None:
    assert write(xr.Dataset({"a": (("y", "x"), BYTES)}), tmp_path)["dtype"] == "uint8"
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif"), BYTES)
    assert write([[1, 2], [3, 4]], tmp_path)["dtype"] == "int64"
    with pytest.raises(ValueError, match="no variable with 'y' and 'x'"):
        write(xr.Dataset(), tmp_path)


LOSSLESS = ["none", "deflate", "lzw", "packbits", "zstd", "lz4", "lzma", "lerc", "lerc_deflate", "lerc_zstd"]


@pytest.mark.parametrize("codec", [*LOSSLESS, "ZSTD", "Deflate"])
@pytest.mark.parametrize("data", [FLOATS, BYTES, BANDS], ids=["f4", "u1", "5 bands"])
def test_codecs_keep_pixels_and_need_no_permission(
    codec: str, data: Any, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    found = write(data, tmp_path, compression=codec, tile_size=16)
    assert codec.lower().startswith(found["compression"].lower().split()[0])
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, data)
    assert not recwarn.list


@pytest.mark.parametrize("codec", ["jpeg2000", "j2k", "webp"])
def test_picture_codecs_are_lossless_by_default(codec: str, tmp_path: Path) -> None:
    picture = np.random.default_rng(3).integers(0, 256, (64, 48, 3), "u1")
    write(picture, tmp_path, compression=codec, photometric="rgb")
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, picture)
    exact = (tmp_path / "it.tif").stat().st_size
    write(picture, tmp_path, compression=codec, photometric="rgb", quality=20)
    assert (tmp_path / "it.tif").stat().st_size < exact


def test_jpeg_is_read_by_gdal_and_has_a_quality(tmp_path: Path) -> None:
    smooth = np.stack([np.add.outer(np.arange(64), np.arange(48))] * 3, axis=-1).astype("u1")
    write(smooth, tmp_path, compression="jpeg", photometric="rgb", quality=95)
    with rasterio.open(tmp_path / "it.tif") as file:
        assert file.profile["photometric"] == "ycbcr"
        np.testing.assert_allclose(np.moveaxis(file.read(), 0, -1).astype(int), smooth.astype(int), atol=4)
    fine = (tmp_path / "it.tif").stat().st_size
    write(smooth, tmp_path, compression="jpeg", photometric="rgb", quality=10)
    assert (tmp_path / "it.tif").stat().st_size < fine
    with pytest.raises(ValueError, match="uint8"):
        write(FLOATS, tmp_path, compression="jpeg")


def test_flags_are_accepted_and_do_nothing(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    expected = write(BYTES, tmp_path, compression="lz4")
    flags = {"allow_experimental_codecs": True, "allow_internal_only_jpeg": True}
    assert write(BYTES, tmp_path, compression="lz4", **flags) == expected
    assert not recwarn.list


BAD_ARGUMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"compression": "foo"}, ValueError, "Unknown compression"),
    ({"compression": ""}, ValueError, "Unknown compression"),
    ({"compression": None}, TypeError, "compression must be a str"),
    ({"compression": 8}, TypeError, "compression must be a str"),
    ({"compression": "deflate", "compression_level": 0}, ValueError, "out of range"),
    ({"compression": "deflate", "compression_level": 10}, ValueError, "out of range"),
    ({"compression_level": 23}, ValueError, "out of range for zstd"),
    ({"compression_level": 0}, ValueError, "out of range for zstd"),
    ({"compression": "lz4", "compression_level": 17}, ValueError, "out of range for lz4"),
    ({"compression": "lzma", "compression_level": 10}, ValueError, "out of range for lzma"),
    ({"compression_level": 6.0}, TypeError, "compression_level"),
    ({"compression_level": True}, TypeError, "compression_level"),
    ({"compression": "lzw", "compression_level": "x"}, TypeError, "compression_level"),
    *(
        ({"tile_size": size}, ValueError, "tile_size")
        for size in (0, -16, 15, 100, 256.0, "256", True, None, 1 << 32, 10**30)
    ),
    *(({"predictor": p}, ValueError, "predictor") for p in (4, -1, "2", None, "best")),
    ({"predictor": 3}, ValueError, "predictor=3"),
    ({"predictor": 2, "compression": "lerc"}, ValueError, "predictor=2 is not supported"),
    ({"predictor": True, "compression": "jpeg"}, ValueError, "predictor=2 is not supported"),
    ({"predictor": 2, "compression": "j2k"}, ValueError, "predictor=2 is not supported"),
    ({"cog": True, "tiled": False}, ValueError, "tiled=True"),
    *(({"cog": True, "overview_levels": v}, ValueError, "overview_levels") for v in ([3], [1], [4, 2], [2, 2], [2.0])),
    *(({"cog": True, "overview_levels": v}, ValueError, "overview_levels") for v in ([True], "auto", 2, [1024], ["2"])),
    *(({"cog": True, "overview_resampling": v}, ValueError, "resampling") for v in ("foo", "MEAN", None, 1)),
    ({"max_z_error": 0.5}, ValueError, "only valid with compression='lerc'"),
    ({"max_z_error": -1}, ValueError, "max_z_error must be >= 0"),
    ({"compression": "lerc", "max_z_error": float("nan")}, ValueError, "max_z_error"),
    ({"max_z_error": "0.5"}, TypeError, "max_z_error"),
    ({"quality": 50}, ValueError, "quality is only valid"),
    ({"compression": "webp", "quality": 101}, ValueError, "quality"),
    ({"photometric": "foo"}, ValueError, "photometric='foo'"),
    ({"photometric": None}, TypeError, "photometric must be"),
    ({"photometric": True}, TypeError, "photometric must be"),
    ({"photometric": 70000}, ValueError, "photometric"),
    ({"photometric": "rgb"}, ValueError, "at least 3 bands"),
    ({"photometric": "rgba"}, ValueError, "at least 4 bands"),
    ({"gpu": 1}, TypeError, "gpu must be a bool"),
    ({"gpu": "auto"}, TypeError, "gpu must be a bool"),
    ({"gpu": True, "tiled": False}, ValueError, "tiled=False"),
    ({"gpu": True, "compression": "lerc", "max_z_error": 0.1}, ValueError, "max_z_error"),
    ({"streaming_buffer_bytes": "x"}, TypeError, "streaming_buffer_bytes"),
    ({"threads": 0}, ValueError, "threads"),
    ({"threads": "2"}, TypeError, "threads"),
    ({"interleave": "line"}, ValueError, "interleave"),
    ({"progress": 5}, TypeError, "progress"),
    ({"color_ramp": "rainbow"}, ValueError, "color_ramp"),
    ({"pack": True}, ValueError, "pack=True"),
]


@pytest.mark.parametrize(("options", "error", "words"), BAD_ARGUMENTS, ids=[str(case[0]) for case in BAD_ARGUMENTS])
def test_bad_arguments_are_refused_before_anything_is_written(
    options: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    for data in (BYTES, da.from_array(BYTES, chunks=20)):
        with pytest.raises(error, match=words):
            swath.to_geotiff(data, tmp_path / "it.tif", **options)
    assert not list(tmp_path.iterdir())


def test_arguments_after_the_path_have_names() -> None:
    with pytest.raises(TypeError, match="positional"):
        swath.to_geotiff(BYTES, "x.tif", 4326)  # type: ignore[misc]


@pytest.mark.parametrize("codec", ["deflate", "zstd", "lzma"])
def test_levels_are_heard(codec: str, tmp_path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 9, (256, 256)).cumsum(1).astype("u4")
    sizes = []
    for level in (1, 9):
        write(data, tmp_path, compression=codec, compression_level=level)
        sizes.append((tmp_path / "it.tif").stat().st_size)
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    ("predictor", "tag"), [(False, 1), (0, 1), (1, 1), (True, 2), (2, 2), (np.int8(2), 2), (3, 3), ("auto", 3)]
)
def test_predictors(predictor: Any, tag: int, tmp_path: Path) -> None:
    assert write(FLOATS, tmp_path, predictor=predictor)["predictor"] == tag
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, FLOATS)


@pytest.mark.parametrize("codec", ["none", "packbits"])
def test_a_predictor_that_readers_would_not_undo_is_left_out(codec: str, tmp_path: Path) -> None:
    assert write(FLOATS, tmp_path, compression=codec, predictor=3)["predictor"] == 1
    with rasterio.open(tmp_path / "it.tif") as file:
        np.testing.assert_array_equal(file.read(1), FLOATS)


def test_strips_and_tiles(tmp_path: Path) -> None:
    tall = np.zeros((600, 20), "u1")
    assert write(tall, tmp_path, tiled=False)["block"] == (256, 20)
    assert write(tall, tmp_path)["block"] == (256, 256)
    assert write(tall, tmp_path, tile_size=np.int64(64))["block"] == (64, 64)
    with pytest.warns(UserWarning, match="tile_size=17 is ignored"):
        write(tall, tmp_path, tiled=False, tile_size=17)


def test_overviews_of_a_cog(tmp_path: Path) -> None:
    sizes = lambda found: [level[:2] for level in found["levels"]]  # noqa: E731
    wide = np.zeros((40, 700), "u1")
    assert sizes(write(wide, tmp_path, cog=True)) == [(40, 700), (20, 350), (10, 175)]
    assert sizes(write(wide, tmp_path, cog=True, overview_levels=(2, 8))) == [(40, 700), (20, 350), (5, 88)]
    assert sizes(write(wide, tmp_path, cog=True, overview_levels=[])) == [(40, 700)]
    with pytest.warns(UserWarning, match=r"overview_levels=\[2\] is ignored without cog=True"):
        assert sizes(write(wide, tmp_path, overview_levels=[2])) == [(40, 700)]
    with pytest.warns(UserWarning, match="is ignored without cog=True"):
        write(wide, tmp_path, overview_levels=np.array([2, 4]))
    for method in ("mean", "nearest", "min", "max", "median", "mode", "cubic"):
        assert len(write(FLOATS, tmp_path, cog=True, tile_size=16, overview_resampling=method)["levels"]) == 3


def test_overviews_of_classes_take_no_means(tmp_path: Path) -> None:
    classes = np.where(np.arange(64)[:, None] % 2 == np.arange(48) % 2, 1, 9).astype("u1")
    palette = tuple(range(768))
    for attrs in ({"category_names": [str(n) for n in range(10)]}, {"colormap": palette}):
        data = xr.DataArray(classes, dims=("y", "x"), attrs=attrs)
        write(data, tmp_path, cog=True, tile_size=16)
        assert set(np.unique(swath.open_geotiff(tmp_path / "it.tif", overview_level=1).values)) <= {1, 9}
    write(classes, tmp_path, cog=True, tile_size=16)
    assert np.unique(swath.open_geotiff(tmp_path / "it.tif", overview_level=1).values) == [5]


@pytest.mark.parametrize(("bigtiff", "found"), [(None, False), (True, True), (False, False)])
def test_bigtiff(bigtiff: bool | None, found: bool, tmp_path: Path) -> None:
    assert write(BYTES, tmp_path, bigtiff=bigtiff)["big_tiff"] is found


def test_bands_apart(tmp_path: Path) -> None:
    assert write(BANDS, tmp_path, interleave="band")["planar"] == "separate"
    np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, BANDS)


@pytest.mark.parametrize(
    ("bands", "photometric", "tag", "extra"),
    [
        (1, "auto", 1, []),
        (3, "auto", 1, [0, 0]),
        (4, "auto", 1, [0, 0, 0]),
        (4, "RGB", 2, [0]),
        (4, "rgba", 2, [2]),
        (5, "rgba", 2, [2, 0]),
        (3, "rgb", 2, []),
        (3, 2, 2, []),
        (4, 5, 5, []),
        (1, "miniswhite", 0, []),
        (2, "minisblack", 1, [0]),
    ],
)
def test_photometric(bands: int, photometric: Any, tag: int, extra: list[int], tmp_path: Path) -> None:
    data = BYTES if bands == 1 else BANDS[..., :bands]
    found = write(data, tmp_path, photometric=photometric)
    assert (found["photometric"], found["extra_samples"]) == (tag, extra)


@pytest.mark.parametrize("code", ["u1", "i2", "f4"])
def test_min_is_white_is_not_inverted(code: str, tmp_path: Path) -> None:
    data = BYTES.astype(code)
    for given in (data, da.from_array(data, chunks=20)):
        for cog in (False, True):
            write(given, tmp_path, photometric="miniswhite", cog=cog)
            with rasterio.open(tmp_path / "it.tif") as file:
                np.testing.assert_array_equal(file.read(1), data)
            np.testing.assert_array_equal(swath.open_geotiff(tmp_path / "it.tif").values, data)


def test_lerc_keeps_its_bound(tmp_path: Path) -> None:
    write(FLOATS, tmp_path, compression="lerc", max_z_error=0.5)
    error = np.abs(swath.open_geotiff(tmp_path / "it.tif").values - FLOATS).max()
    assert 0 < error <= 0.5


def test_statistics_are_exact(tmp_path: Path) -> None:
    data = FLOATS.copy()
    data[:5] = np.nan
    write(data, tmp_path, statistics=True, nodata=-99)
    with rasterio.open(tmp_path / "it.tif") as file:
        tags = file.tags(1)
    assert float(tags["STATISTICS_MEAN"]) == pytest.approx(np.nanmean(data.astype("f8")), rel=1e-12)
    assert float(tags["STATISTICS_STDDEV"]) == pytest.approx(np.nanstd(data.astype("f8")), rel=1e-9)


class PathLike:
    def __init__(self, path: Any) -> None:
        self.path = path

    def __fspath__(self) -> Any:
        return self.path


def test_paths_of_all_kinds_come_back_as_str(tmp_path: Path) -> None:
    path = str(tmp_path / "it.tif")
    for given in (path, Path(path), PathLike(path)):
        assert swath.to_geotiff(BYTES, given) == path
        os.remove(path)


@pytest.mark.parametrize("path", [None, 5, b"x.tif", object(), [], PathLike(b"x.tif")])
def test_invalid_path_is_an_error(path: Any) -> None:
    with pytest.raises(TypeError, match="path must be"):
        swath.to_geotiff(BYTES, path)


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        swath.to_geotiff(BYTES, tmp_path / "no" / "it.tif")
    with pytest.raises(FileNotFoundError):
        swath.to_geotiff(BYTES, "")
    with pytest.raises(IsADirectoryError):
        swath.to_geotiff(BYTES, tmp_path)
    for url in ("http://example.com/a.tif", "HTTPS://example.com/a.tif"):
        for data in (BYTES, da.from_array(BYTES, chunks=20)):
            with pytest.raises(NotImplementedError, match="HTTP"):
                swath.to_geotiff(data, url)
    assert not list(tmp_path.iterdir())


def test_a_lazy_array_makes_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "it.tif"
    swath.to_geotiff(da.from_array(BYTES, chunks=20), path)
    assert path.exists()


def test_modes_follow_the_umask(tmp_path: Path) -> None:
    swath.to_geotiff(BYTES, tmp_path / "it.tif")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "it.tif").stat().st_mode) == 0o666 & ~umask


def test_overwrite_false_keeps_the_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "it.tif"
    swath.to_geotiff(BYTES, path, overwrite=False)
    with pytest.raises(FileExistsError):
        swath.to_geotiff(FLOATS, path, overwrite=False)
    assert swath.open_geotiff(path).dtype == np.uint8
    swath.to_geotiff(FLOATS, path)
    assert swath.open_geotiff(path).dtype == np.float32


class Sink:
    """A file object with some of the methods, which records its calls."""

    def __init__(self, *broken: str) -> None:
        self.calls: list[Any] = []
        self.data = b""
        self.broken = broken

    def write(self, data: Any) -> int:
        self.calls.append("write")
        # A raw file may accept fewer bytes than it is given.
        part = bytes(data)[:1000]
        self.data += part
        return len(part)

    def __getattr__(self, name: str) -> Any:
        if name not in ("seek", "truncate"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            if name in self.broken:
                raise io.UnsupportedOperation(name)
            self.calls.append((name, *arguments))
            return 0

        return call


@pytest.mark.parametrize(
    ("broken", "before"),
    [((), [("seek", 0), ("truncate", 0)]), (("seek",), []), (("truncate",), [("seek", 0)]), (("seek", "truncate"), [])],
)
def test_file_objects_are_emptied_if_they_can_be(broken: tuple[str, ...], before: list[Any], tmp_path: Path) -> None:
    sink = Sink(*broken)
    assert swath.to_geotiff(BYTES, sink) is sink  # type: ignore[arg-type]
    assert sink.calls[: len(before)] == before
    assert set(sink.calls[len(before) :]) == {"write"}
    swath.to_geotiff(BYTES, tmp_path / "it.tif")
    assert sink.data == (tmp_path / "it.tif").read_bytes()


def test_file_objects_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        swath.to_geotiff(BYTES, io.StringIO())  # type: ignore[arg-type]
    closed = io.BytesIO()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        swath.to_geotiff(BYTES, closed)
    for options, words in (({"cog": True}, "cog=True"), ({"gpu": True}, "gpu=True")):
        with pytest.raises(ValueError, match=words):
            swath.to_geotiff(BYTES, io.BytesIO(), **options)


def test_a_file_object_gets_no_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    swath.to_geotiff(BYTES, io.BytesIO(), color_ramp="viridis")
    assert not list(tmp_path.iterdir())


def test_sidecars_come_and_go_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "it.tif"
    data = xr.DataArray(FLOATS, dims=("y", "x"))
    swath.to_geotiff(data, path, color_ramp="viridis")
    assert {p.name for p in tmp_path.iterdir()} == {"it.tif", "it.tif.aux.xml", "it.qml"}
    assert "STATISTICS_MEAN" in (tmp_path / "it.tif.aux.xml").read_text()
    assert "gdal_metadata" not in swath.open_geotiff(path).attrs
    swath.to_geotiff(data, path)
    assert {p.name for p in tmp_path.iterdir()} == {"it.tif", "it.qml"}
    named = xr.DataArray(BYTES, dims=("y", "x"), attrs={"category_names": ["a", "b"]})
    swath.to_geotiff(named, path, color_ramp="viridis")
    assert swath.open_geotiff(path).attrs["category_names"] == ["a", "b"]
    assert "STATISTICS" not in (tmp_path / "it.tif.aux.xml").read_text()


def test_a_ramp_runs_the_graph_once_and_needs_one_band(tmp_path: Path) -> None:
    runs = []
    lazy = da.map_blocks(
        lambda block: (runs.append(1), block)[1], da.from_array(FLOATS, chunks=64), meta=FLOATS[:0, :0]
    )
    swath.to_geotiff(lazy, tmp_path / "it.tif", color_ramp=True)
    assert len(runs) == 1
    with rasterio.open(tmp_path / "it.tif") as file:
        assert float(file.tags(1)["STATISTICS_MEAN"]) == pytest.approx(FLOATS.astype("f8").mean(), rel=1e-12)
    swath.to_geotiff(BANDS, tmp_path / "bands.tif", color_ramp=True)
    assert not (tmp_path / "bands.qml").exists()
    swath.to_geotiff(FLOATS, tmp_path / "ranged.tif", color_ramp="greys", color_ramp_range=(0, 10))
    assert "STATISTICS_MEAN" not in (tmp_path / "ranged.tif.aux.xml").read_text()


@pytest.mark.parametrize("options", [{"cog": True}, {"overview_levels": [2]}, {"tiled": False}])
def test_tile_directories_refuse_unsupported_options(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="VRT output"):
        swath.to_geotiff(BYTES, tmp_path / "it.vrt", **options)
