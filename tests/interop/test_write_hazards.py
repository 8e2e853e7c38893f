"""Conversions that once produced a wrong file without an error."""

from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile

from binary import Swath
from pixels import photo


def write(path: Path, array: np.ndarray, **options: object) -> Path:
    bands, height, width = array.shape
    profile = {"driver": "GTiff", "count": bands, "height": height, "width": width, "dtype": array.dtype}
    with rasterio.open(path, "w", **profile, **options) as out:
        out.write(array)
    return path


@pytest.fixture
def gray(tmp_path: Path) -> Path:
    return write(tmp_path / "gray.tif", np.arange(60 * 50, dtype="uint16").reshape(1, 60, 50) % 251)


def test_statistics_are_not_appended_to_a_file_on_standard_output(swath: Swath, gray: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.tif"
    swath.succeed("convert", gray, plain, "--statistics")
    run = swath.run("convert", gray, "-", "--statistics")
    assert run.code == 0 and "valid" in run.stderr
    assert "pixels valid" not in run.stdout


def test_any_number_of_threads_is_accepted(swath: Swath, gray: Path, tmp_path: Path) -> None:
    swath.succeed("convert", gray, tmp_path / "out.tif", "--threads", 99_999_999_999)


def test_other_subsampling_encodes_all_levels_again(swath: Swath, tmp_path: Path) -> None:
    source = tmp_path / "jpeg.tif"
    write(
        source,
        photo("jpeg", 3, 128, 128),
        compress="jpeg",
        photometric="ycbcr",
        tiled=True,
        blockxsize=64,
        blockysize=64,
    )
    target = tmp_path / "out.tif"
    swath.succeed("convert", source, target, "--cog", "--tile", 64, "--compression", "jpeg", "--subsampling", 444)
    with tifffile.TiffFile(target) as file:
        assert {page.tags[530].value for page in file.pages} == {(1, 1)}


def test_copied_lerc_blocks_keep_their_parameters(swath: Swath, gray: Path, tmp_path: Path) -> None:
    wrapped, kept, other = tmp_path / "wrapped.tif", tmp_path / "kept.tif", tmp_path / "other.tif"
    swath.succeed("convert", gray, wrapped, "--compression", "lerc_zstd", "--tile", 16)
    swath.succeed("convert", wrapped, kept, "--compression", "keep", "--tile", 32)
    swath.succeed("convert", wrapped, other, "--compression", "lerc", "--tile", 16, "--overviews", "2")
    for path, parameters in ((kept, {(4, 2)}), (other, {(4, 0)})):
        with tifffile.TiffFile(path) as file:
            assert {tuple(page.tags[50674].value) for page in file.pages} == parameters
        assert np.array_equal(swath.read(path), swath.read(gray))


def test_nodata_that_would_be_rounded_is_refused(swath: Swath, tmp_path: Path) -> None:
    source = tmp_path / "half.tif"
    tifffile.imwrite(source, np.array([[1, np.nan], [3, 4]], dtype="float16"))
    assert swath.run("convert", source, tmp_path / "out.tif", "--nodata", -9999).code == 1
    swath.succeed("convert", source, tmp_path / "out.tif", "--nodata", -8192)
    assert swath.read(tmp_path / "out.tif")[0, 0, 1] == -8192
    floats = write(tmp_path / "floats.tif", np.ones((1, 4, 4), "float32"))
    assert swath.run("convert", floats, tmp_path / "no.tif", "--nodata", "1e300").code == 2


def test_nodata_that_no_sample_can_equal_is_kept_and_can_be_removed(swath: Swath, tmp_path: Path) -> None:
    source = tmp_path / "odd.tif"
    tifffile.imwrite(source, np.zeros((20, 20), "uint8"), extratags=[(42113, 2, 0, "-9999", True)])
    for flags, left in (([], True), (["--nodata", "none"], False)):
        target = tmp_path / f"out-{left}.tif"
        swath.succeed("convert", source, target, *flags)
        with tifffile.TiffFile(target) as file:
            assert (42113 in file.pages[0].tags) == left


def test_statistics_are_dropped_when_nodata_changes(swath: Swath, gray: Path, tmp_path: Path) -> None:
    measured, changed = tmp_path / "measured.tif", tmp_path / "changed.tif"
    swath.succeed("convert", gray, measured, "--statistics")
    swath.succeed("convert", measured, changed, "--nodata", 7)
    with rasterio.open(measured) as before, rasterio.open(changed) as after:
        assert "STATISTICS_MEAN" in before.tags(1) and "STATISTICS_MEAN" not in after.tags(1)


def test_premultiplied_colours_stay_below_their_alpha(swath: Swath, tmp_path: Path) -> None:
    rows = np.zeros((32, 32, 4), "uint8")
    rows[::2] = (200, 100, 50, 255)
    for kind, expected in (("assocalpha", (100, 50, 25, 128)), ("unassalpha", (200, 100, 50, 128))):
        source, target = tmp_path / f"{kind}.tif", tmp_path / f"{kind}-out.tif"
        tifffile.imwrite(source, rows, photometric="rgb", extrasamples=[kind])
        swath.succeed("convert", source, target, "--cog", "--tile", 16)
        assert tuple(swath.read(target, "--overview", 1)[:, 3, 3]) == expected


def test_tag_that_cannot_be_copied_is_an_error(swath: Swath, tmp_path: Path) -> None:
    source = tmp_path / "large.tif"
    tifffile.imwrite(source, np.zeros((4, 4), "uint8"), extratags=[(65000, 1, 17 << 20, bytes(17 << 20), True)])
    run = swath.run("convert", source, tmp_path / "out.tif")
    assert run.code == 1 and "max_tag_bytes" in run.stderr and not (tmp_path / "out.tif").exists()


def test_stale_sidecar_is_not_used_for_the_new_file(swath: Swath, gray: Path, tmp_path: Path) -> None:
    target, sidecar = tmp_path / "out.tif", tmp_path / "out.tif.aux.xml"
    sidecar.write_text("<PAMDataset></PAMDataset>")
    run = swath.run("convert", gray, target)
    assert run.code == 1 and "out.tif.aux.xml already exists" in run.stderr and not target.exists()
    swath.succeed("convert", gray, target, "--overwrite")
    assert not sidecar.exists()


def test_metadata_item_with_its_own_role_is_kept(swath: Swath, tmp_path: Path) -> None:
    source, target = tmp_path / "role.tif", tmp_path / "out.tif"
    xml = '<GDALMetadata><Item name="D" sample="0" role="weird">q</Item></GDALMetadata>'
    tifffile.imwrite(source, np.zeros((4, 4), "uint8"), extratags=[(42112, 2, 0, xml, True)])
    swath.succeed("convert", source, target)
    with rasterio.open(target) as dataset:
        assert dataset.tags(1)["D"] == "q"
