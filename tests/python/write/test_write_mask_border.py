"""Masks at the border to the engine: the keyword `mask` of `_swath.write`, checked with GDAL."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import rasterio
import tifffile
from rasterio.enums import MaskFlags
from rio_cogeo.cogeo import cog_validate

from simulated_gpu import on_gpu
from swath import _swath

LIBRARIES = ("libnvcomp.so.6",)
HEIGHT, WIDTH = 301, 277
CODECS = [name for name, can in _swath.features().items() if can["write"]]
NOT_OF_GDAL = {"lz4", "jpeg2000"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "tiles": {"tile": 64},
    "tiles-overviews": {"tile": 64, "overviews": [2, 4]},
    "planes": {"tile": 64, "planar": "separate", "overviews": [2]},
    "strips": {"tile": 0, "strip_rows": 17},
    "strips-overviews": {"tile": 0, "strip_rows": 32, "overviews": [2, 8]},
    "cog": {"tile": 128, "cog": True, "overviews": "auto"},
    "cog-planes": {"tile": 128, "cog": True, "overviews": "auto", "planar": "separate"},
    "big-cog": {"tile": 128, "cog": True, "overviews": "auto", "big_tiff": True},
}

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.uint8]


def image(bands: int = 3, dtype: str = "uint8") -> Array:
    rows, columns, band = np.mgrid[:HEIGHT, :WIDTH, :bands]
    return ((rows // 3 + columns // 5 + 20 * band) % 200).astype(dtype)


def holes() -> Mask:
    """A mask with holes of one pixel, of a few tiles, and at the lower right edge."""
    mask = np.full((HEIGHT, WIDTH), 255, np.uint8)
    mask[np.random.default_rng(3).random(mask.shape) < 0.2] = 0
    mask[64:200, :130] = 0
    mask[-3:, -5:] = 0
    return mask


def write(target: Any, source: Any, pixels: Array, options: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    height, width, bands = pixels.shape
    given: Any = {"photometric": 1} | options
    return _swath.write(
        target, source, shape=(bands, height, width), dtype=pixels.dtype.name, options=given, **keywords
    )


def producer(pixels: Array, mask: Mask) -> Callable[[int, int], tuple[Array, Mask]]:
    return lambda start, stop: (np.ascontiguousarray(pixels[start:stop]), mask[start:stop])


def any_of_blocks(mask: Mask, factor: int) -> Mask:
    """255 where any pixel of a block of `factor` x `factor` is valid, as for averages."""
    rows, columns = (-(-side // factor) for side in mask.shape)
    padded = np.zeros((rows * factor, columns * factor), bool)
    padded[: mask.shape[0], : mask.shape[1]] = mask != 0
    return padded.reshape(rows, factor, columns, factor).any((1, 3)).astype(np.uint8) * 255


def assert_masked(path: Path, mask: Mask) -> None:
    """Checks that GDAL finds one mask for all bands in the file, and one for each overview."""
    with rasterio.open(path) as file:
        assert file.mask_flag_enums == ([MaskFlags.per_dataset],) * file.count
        assert not path.with_name(path.name + ".msk").exists()
        np.testing.assert_array_equal(file.dataset_mask(), np.where(mask, 255, 0))
        factors = file.overviews(1)
    for level, factor in enumerate(factors):
        with rasterio.open(path, overview_level=level) as file:
            assert file.mask_flag_enums == ([MaskFlags.per_dataset],) * file.count
            np.testing.assert_array_equal(file.dataset_mask(), any_of_blocks(mask, factor), f"overview {factor}")


def assert_cog(path: Path) -> None:
    valid, errors, warnings = cog_validate(str(path), strict=True, quiet=True)
    assert (valid, errors, warnings) == (True, [], [])


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gdal_reads_the_mask_of_every_level(layout: str, threads: int, tmp_path: Path) -> None:
    pixels, mask = image(), holes()
    path = tmp_path / "a.tif"
    report = write(str(path), pixels, pixels, LAYOUTS[layout], mask=mask, threads=threads)
    assert (report["device"], report["fallbacks"]) == ("cpu", [])
    assert_masked(path, mask)
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(file.read().transpose(1, 2, 0), pixels, "pixels under the mask are kept")
    if "cog" in layout:
        assert_cog(path)


@pytest.mark.parametrize("cog", [False, True], ids=["plain", "cog"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_takes_a_mask(codec: str, cog: bool, tmp_path: Path) -> None:
    pixels, mask = image(), holes()
    path = tmp_path / "a.tif"
    options = {"tile": 128, "cog": cog, "overviews": "auto", "compression": codec, "photometric": None}
    write(str(path), pixels, pixels, options, mask=mask)
    if codec in NOT_OF_GDAL:
        with tifffile.TiffFile(path) as file:
            masks = [page.asarray() for page in file.pages if page.photometric == tifffile.PHOTOMETRIC.MASK]
        for found, factor in zip(masks, (1, 2, 4), strict=True):
            np.testing.assert_array_equal(found * np.uint8(255), any_of_blocks(mask, factor))
        return
    assert_masked(path, mask)
    if cog:
        assert_cog(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_array_rows_and_file_objects_give_the_same_bytes(layout: str, tmp_path: Path) -> None:
    pixels, mask, options = image(2, "int16"), holes(), LAYOUTS[layout]
    path = tmp_path / "a.tif"
    write(str(path), pixels, pixels, options, mask=mask, threads=1)
    expected = path.read_bytes()
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    rows = producer(pixels, mask)
    chunks = [50, 1, 120, 30, 100]
    for source, keywords in [
        (pixels, {"mask": mask, "threads": 3, "buffer_bytes": 1}),
        (planes, {"mask": mask, "bands_last": False}),
        (rows, {"mask": True}),
        (rows, {"mask": True, "chunk_rows": chunks, "buffer_bytes": 1, "threads": 3}),
        (rows, {"mask": True, "rows_on_device": True}),
    ]:
        write(str(path), source, pixels, options, **keywords)
        assert path.read_bytes() == expected
        target = io.BytesIO()
        write(target, source, pixels, options, **keywords)
        assert target.getvalue() == expected


@pytest.mark.parametrize("value", [1, 7, 128, 255])
def test_all_values_but_zero_are_valid(value: int, tmp_path: Path) -> None:
    pixels, mask = image(1), holes()
    path = tmp_path / "a.tif"
    for given in (np.where(mask, value, 0).astype(np.uint8), mask != 0):
        write(str(path), pixels, pixels, LAYOUTS["cog"], mask=given)
        assert_masked(path, mask)


@pytest.mark.parametrize("value", [0, 255])
def test_mask_of_one_value_is_written(value: int, tmp_path: Path) -> None:
    pixels, mask = image(1), np.full((HEIGHT, WIDTH), value, np.uint8)
    path = tmp_path / "a.tif"
    write(str(path), pixels, pixels, LAYOUTS["cog"], mask=mask)
    assert_masked(path, mask)
    assert_cog(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_blocks_left_out_keep_their_mask(layout: str, tmp_path: Path) -> None:
    pixels, mask = image(), holes()
    mask[128:256] = 0
    pixels[mask == 0] = 0
    path = tmp_path / "a.tif"
    report = write(str(path), pixels, pixels, LAYOUTS[layout] | {"skip_empty": True}, mask=mask)
    assert report["sparse_blocks"] > 0
    assert_masked(path, mask)


@pytest.mark.parametrize("absent", [None, False])
def test_no_mask_is_the_default(absent: None | bool, tmp_path: Path) -> None:
    pixels = image(1)
    path = tmp_path / "a.tif"
    write(str(path), pixels, pixels, LAYOUTS["cog"])
    expected = path.read_bytes()
    for source in (pixels, lambda start, stop: pixels[start:stop]):
        write(str(path), source, pixels, LAYOUTS["cog"], mask=absent)
        assert path.read_bytes() == expected
    with rasterio.open(path) as file:
        assert file.mask_flag_enums == ([MaskFlags.all_valid],)


@pytest.mark.parametrize("nodata", [None, 65535, 0])
@pytest.mark.parametrize("resampling", [None, "average", "bilinear", "cubic", "mode", "max"])
def test_overviews_and_statistics_leave_masked_pixels_out(
    resampling: str | None, nodata: int | None, tmp_path: Path
) -> None:
    mask = holes()
    pixels = np.where(mask, 100, 60000).astype("u2")[..., None]
    path = tmp_path / "a.tif"
    options = {"tile": 64, "overviews": [2, 4], "resampling": resampling, "nodata": nodata, "statistics": True}
    report = write(str(path), pixels, pixels, options, mask=mask)
    measured = report["statistics"][0]
    assert (measured["min"], measured["max"], measured["count"]) == (100, 100, np.count_nonzero(mask))
    for level in (0, 1):
        with rasterio.open(path, overview_level=level) as file:
            valid = file.dataset_mask() != 0
            overview = file.read(1)
            assert valid.any() and not valid.all()
            assert set(np.unique(overview[valid])) == {100}
            assert set(np.unique(overview[~valid])) == {nodata or 0}


def test_mean_is_that_of_the_valid_pixels(tmp_path: Path) -> None:
    mask, pixels = holes(), image(1, "float32")
    path = tmp_path / "a.tif"
    write(str(path), pixels, pixels, {"tile": 64, "overviews": [2]}, mask=mask)
    even = np.where(mask, pixels[..., 0], np.nan)[:300, :276].reshape(150, 2, 138, 2)
    valid = any_of_blocks(mask, 2)[:150, :138] != 0
    count = np.maximum((~np.isnan(even)).sum((1, 3)), 1)
    with rasterio.open(path, overview_level=0) as file:
        overview = file.read(1)[:150, :138]
    np.testing.assert_allclose(overview[valid], (np.nansum(even, (1, 3)) / count)[valid], rtol=1e-6)


BAD_ARRAYS: list[tuple[Any, type[Exception], str]] = [
    (np.zeros((HEIGHT, WIDTH), "u2"), TypeError, "uint16"),
    (np.zeros((HEIGHT, WIDTH), ">u2"), TypeError, "u2"),
    (np.zeros((HEIGHT, WIDTH), "i1"), TypeError, "int8"),
    (np.zeros((HEIGHT, WIDTH), object), TypeError, "object"),
    (np.zeros((HEIGHT, WIDTH + 1), "u1"), ValueError, "shape"),
    (np.zeros((HEIGHT + 1, WIDTH), "u1"), ValueError, "shape"),
    (np.zeros((WIDTH, HEIGHT), "u1"), ValueError, "shape"),
    (np.zeros(HEIGHT * WIDTH, "u1"), ValueError, "shape"),
    (np.zeros((1, HEIGHT, WIDTH), "u1"), ValueError, "shape"),
    (np.zeros((0, 0), "u1"), ValueError, "shape"),
    (np.zeros((WIDTH, HEIGHT), "u1").T, ValueError, "C-contiguous"),
    (np.zeros((HEIGHT, 2 * WIDTH), "u1")[:, ::2], ValueError, "C-contiguous"),
    ([[255]], TypeError, "list"),
    (1, TypeError, "int"),
    (b"\xff" * HEIGHT * WIDTH, TypeError, "bytes"),
]


@pytest.mark.parametrize(("mask", "error", "text"), BAD_ARRAYS)
def test_mask_that_does_not_fit_is_refused(mask: Any, error: type[Exception], text: str, tmp_path: Path) -> None:
    pixels = image(1)
    path = tmp_path / "a.tif"
    with pytest.raises(error, match=text):
        write(str(path), pixels, pixels, {}, mask=mask)
    whole = np.ascontiguousarray(pixels)
    with pytest.raises(error, match=text):
        write(str(path), lambda start, stop: (whole, mask), pixels, {}, mask=True, chunk_rows=[HEIGHT])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", ["pixels", "one", "three", "none", "list"])
def test_producer_that_returns_no_pair_is_refused(made: str, tmp_path: Path) -> None:
    pixels, mask = image(1), holes()
    answers = {"pixels": pixels, "one": (pixels,), "three": (pixels, mask, mask), "none": None, "list": [pixels, mask]}
    with pytest.raises(TypeError, match=r"must return \(pixels, mask\)"):
        write(str(tmp_path / "a.tif"), lambda *_: answers[made], pixels, {}, mask=True, chunk_rows=[HEIGHT])
    assert list(tmp_path.iterdir()) == []


def test_mask_must_come_as_the_source_does(tmp_path: Path) -> None:
    pixels, mask = image(1), holes()
    path = str(tmp_path / "a.tif")
    with pytest.raises(TypeError, match="source that makes rows"):
        write(path, pixels, pixels, {}, mask=True)
    with pytest.raises(TypeError, match="mask=True"):
        write(path, producer(pixels, mask), pixels, {}, mask=mask)
    with pytest.raises(TypeError, match="no array"):
        write(path, producer(pixels, mask), pixels, {})
    assert list(tmp_path.iterdir()) == []


def test_error_of_the_producer_passes_through(tmp_path: Path) -> None:
    pixels, mask = image(1), holes()

    def rows(start: int, stop: int) -> tuple[Array, Mask]:
        if start > 100:
            raise LookupError("row 101")
        return np.ascontiguousarray(pixels[start:stop]), mask[start:stop]

    with pytest.raises(LookupError, match="row 101"):
        write(str(tmp_path / "a.tif"), rows, pixels, {"tile": 16}, mask=True, buffer_bytes=1)
    assert list(tmp_path.iterdir()) == []


def assert_left_to_the_cpu(report: dict[str, Any]) -> None:
    assert report["device"] == "cpu"
    assert any("mask" in fallback["reason"] for fallback in report["fallbacks"]), report["fallbacks"]


@on_gpu
@pytest.mark.parametrize("layout", ["tiles", "strips-overviews", "cog", "cog-planes"])
def test_cpu_writes_masks_of_pixels_on_a_device(layout: str, tmp_path: Path) -> None:
    import cupy

    pixels, mask, options = image(3, "uint16"), holes(), LAYOUTS[layout]
    path = tmp_path / "a.tif"
    write(str(path), pixels, pixels, options, mask=mask)
    expected = path.read_bytes()
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def on_device(start: int, stop: int) -> tuple[Any, Mask]:
        return cupy.asarray(np.ascontiguousarray(pixels[start:stop])), mask[start:stop]

    for source, keywords in [
        (pixels, {"mask": mask, "device": "cuda"}),
        (cupy.asarray(pixels), {"mask": mask}),
        (cupy.asarray(planes), {"mask": mask, "bands_last": False}),
        (producer(pixels, mask), {"mask": True, "device": "cuda"}),
        (on_device, {"mask": True, "device": "cuda", "rows_on_device": True, "chunk_rows": [100, 201]}),
    ]:
        assert_left_to_the_cpu(write(str(path), source, pixels, options, **keywords))
        assert path.read_bytes() == expected
    assert_masked(path, mask)


@on_gpu
def test_strict_device_refuses_a_mask(tmp_path: Path) -> None:
    import cupy

    pixels, mask = image(1), holes()
    array = cupy.asarray(pixels)
    path = tmp_path / "a.tif"
    with pytest.raises(RuntimeError, match="mask"):
        write(str(path), array, pixels, {}, mask=mask, strict=True)
    with pytest.raises(TypeError, match="source that makes rows"):
        write(str(path), array, pixels, {}, mask=True)
    with pytest.raises(TypeError, match="numpy array"):
        write(str(path), array, pixels, {}, mask=cupy.asarray(mask))
    assert list(tmp_path.iterdir()) == []


@on_gpu
def test_device_array_is_written_with_its_mask(tmp_path: Path) -> None:
    import swath

    pixels, mask = image(1), holes()
    first, second = tmp_path / "a.tif", tmp_path / "b.tif"
    write(str(first), pixels, pixels, LAYOUTS["cog"], mask=mask)
    array = swath.read_device(str(first))
    assert_left_to_the_cpu(write(str(second), array, pixels, LAYOUTS["cog"], mask=mask))
    assert second.read_bytes() == first.read_bytes()
