"""Targets of `swath convert`: files, pipes, links, and files it must not touch."""

import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import binary
from binary import Swath
from case import assert_same, gdal_pixels
from gdal_cases import write_gdal
from pixels import pixels

ARRAY = pixels("command", "uint16", 2, 50, 70)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.tif"
    write_gdal(path, ARRAY)
    return path


def assert_failed(run: binary.Run, *codes: int) -> None:
    assert run.code in codes, f"exit {run.code}: {run.stderr}"
    assert len(run.stderr.splitlines()) == 1 and "panicked" not in run.stderr, run.stderr


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize(
    "flags",
    [
        ["--frobnicate"], ["--compression", "gzip"], ["--compression"], ["--compression", "jxl"],
        ["--compression-level", "x"], ["--compression-level", "23"], ["--compression-level", "0"],
        ["--compression", "lzw", "--compression-level", "3"], ["--quality", "75"],
        ["--compression", "jpeg", "--quality", "101"], ["--compression", "webp", "--quality", "nan"],
        ["--max-z-error", "1"], ["--compression", "lerc", "--max-z-error", "-1"], ["--subsampling", "420"],
        ["--compression", "lerc", "--max-z-error", "inf"], ["--compression", "jpeg", "--subsampling", "411"],
        ["--predictor", "4"], ["--predictor", "x"], ["--tile", "x"], ["--tile", "16x"], ["--tile", "16x16x16"],
        ["--tile", "-16"], ["--strips", "x"], ["--strips", "-1"], ["--tile", "16", "--strips", "4"],
        ["--interleave", "line"], ["--overviews", "x"], ["--overviews", "2,x"], ["--resampling", "sinc"],
        ["--nodata", "x"], ["--bigtiff", "maybe"],
        ["--window", "1,2,3"], ["--window", "0,0,a,b"], ["--bands", "x"], ["--image", "x"], ["--threads", "x"],
        ["--threads", "-1"], ["--memory", "x"], ["--memory", "-1"], ["--memory", "1TB5"], ["third-operand"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_misuse_is_exit_code_2(flags: list[str], good: Path, swath: Swath, tmp_path: Path) -> None:
    assert_failed(swath.run("convert", good, tmp_path / "out.tif", *flags), 2)
    assert names(tmp_path) == ["good.tif"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--tile", "0"], ["--tile", "17"], ["--tile", "65536x65536"], ["--strips", "0"], ["--cog", "--strips", "4"],
        ["--overviews", "1"], ["--overviews", "0"], ["--overviews", "4,2"], ["--overviews", "2,2"],
        ["--window", "0,0,51,70"], ["--window", "5,5,5,9"], ["--window", "9,9,5,5"], ["--bands", "0"], ["--bands", "3"],
        ["--image", "1"], ["--nodata", "-1"], ["--nodata", "65536"], ["--nodata", "0.5"], ["--nodata", "nan"],
        ["--predictor", "3"], ["--compression", "none", "--predictor", "2"], ["--compression", "jpeg"],
        ["--compression", "webp"], ["--threads", "0"], ["--overviews", ""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_impossible_request_is_an_error_and_no_file(flags: list[str], good: Path, swath: Swath, tmp_path: Path) -> None:
    assert_failed(swath.run("convert", good, tmp_path / "out.tif", *flags), 1, 2)
    assert names(tmp_path) == ["good.tif"]


def test_existing_file_is_untouched_without_overwrite(good: Path, swath: Swath, tmp_path: Path) -> None:
    out = tmp_path / "out.tif"
    out.write_bytes(b"precious")
    before = out.stat()
    assert_failed(swath.run("convert", good, out), 1)
    assert out.read_bytes() == b"precious"
    assert (out.stat().st_ino, out.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    swath.succeed("convert", good, out, "--overwrite")
    assert_same(gdal_pixels(out), ARRAY)
    assert names(tmp_path) == ["good.tif", "out.tif"]


def test_failed_overwrite_keeps_the_old_file(good: Path, swath: Swath, tmp_path: Path) -> None:
    """The source is truncated in the middle."""
    out, broken = tmp_path / "out.tif", tmp_path / "broken.tif"
    out.write_bytes(b"precious")
    broken.write_bytes(good.read_bytes()[:-2000])
    assert_failed(swath.run("convert", broken, out, "--overwrite"), 1)
    assert out.read_bytes() == b"precious"
    assert names(tmp_path) == ["broken.tif", "good.tif", "out.tif"]


@pytest.mark.parametrize("cog", [[], ["--cog"]], ids=["plain", "cog"])
def test_stdout_gets_the_same_bytes_as_a_file(cog: list[str], good: Path, swath: Swath, tmp_path: Path) -> None:
    out = tmp_path / "out.tif"
    swath.succeed("convert", good, out, "--tile", 16, *cog)
    piped = subprocess.run([swath.binary, "convert", good, "-", "--tile", "16", *cog], capture_output=True, timeout=30)
    assert piped.returncode == 0 and not piped.stderr
    assert piped.stdout == out.read_bytes()


def test_closed_pipe_is_an_error_not_a_panic(good: Path, swath: Swath) -> None:
    child = subprocess.Popen([swath.binary, "convert", good, "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    _, errors = child.communicate(timeout=30)
    assert b"panicked" not in errors
    assert child.returncode in (0, 1, -13)


def test_fifo_and_null_device_are_written_to_not_replaced(good: Path, swath: Swath, tmp_path: Path) -> None:
    fifo, out = tmp_path / "fifo", tmp_path / "out.tif"
    os.mkfifo(fifo)
    swath.succeed("convert", good, out)
    received = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()), daemon=True)
    reader.start()
    run = swath.run("convert", good, fifo, "--overwrite")
    reader.join(timeout=10)
    assert fifo.is_fifo()
    assert run.code == 0, run.stderr
    assert received == [out.read_bytes()]
    swath.succeed("convert", good, "/dev/null", "--overwrite")
    assert Path("/dev/null").is_char_device()
    assert not [name for name in os.listdir("/dev") if "swath" in name or "null." in name]


@pytest.mark.parametrize("flags", [["--cog"], ["--compression", "keep"], ["--window", "10,10,40,60"]], ids=" ".join)
def test_a_file_can_be_written_over_itself(flags: list[str], good: Path, swath: Swath, tmp_path: Path) -> None:
    want = swath.read(good, *(flags if "--window" in flags else []))
    assert_failed(swath.run("convert", good, good, *flags), 1)
    swath.succeed("convert", good, good, "--overwrite", *flags)
    assert_same(gdal_pixels(good), want)
    assert names(tmp_path) == ["good.tif"]


@pytest.mark.parametrize("place", ["missing/out.tif", "good.tif/out.tif", "/proc/out.tif", "folder", "folder/", ""])
def test_target_that_cannot_be_written_is_an_error(place: str, good: Path, swath: Swath, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    out = f"{tmp_path}/{place}" if place and not place.startswith("/") else place
    assert_failed(swath.run("convert", good, out, "--overwrite"), 1, 2)
    assert names(tmp_path) == ["folder", "good.tif"]
    assert not names(tmp_path / "folder")


def test_symbolic_link_is_followed_and_its_target_is_replaced(good: Path, swath: Swath, tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "target.tif", tmp_path / "link.tif"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to(target)
    assert_failed(swath.run("convert", good, link), 1)
    swath.succeed("convert", good, link, "--overwrite")
    assert link.is_symlink()
    assert_same(gdal_pixels(target), ARRAY)
    assert names(target.parent) == ["target.tif"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(mask: int, good: Path, swath: Swath, tmp_path: Path) -> None:
    out = tmp_path / "out.tif"
    command = f'umask {mask:03o}; exec "$0" convert "$1" "$2"'
    subprocess.run(["sh", "-c", command, swath.binary, good, out], check=True, timeout=30)
    assert out.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize(
    "name", ["x" * 251 + ".tif", "é" * 125 + ".tif", "two\nlines .tif", "-dash.tif", "no_extension"]
)
def test_any_name_that_the_file_system_accepts(name: str, good: Path, swath: Swath, tmp_path: Path) -> None:
    out = tmp_path / name
    swath.succeed("convert", good, out)
    assert names(tmp_path) == sorted(["good.tif", name])
    assert_same(swath.read(out), ARRAY)
    assert_failed(swath.run("convert", good, tmp_path / ("x" * 300)), 1)


def test_relative_path_without_folder(good: Path, swath: Swath, tmp_path: Path) -> None:
    words = [swath.binary, "convert", "good.tif", "out.tif"]
    run = subprocess.run(words, cwd=tmp_path, timeout=30, capture_output=True)
    assert run.returncode == 0, run.stderr
    assert_same(gdal_pixels(tmp_path / "out.tif"), ARRAY)


def test_nodata_can_be_set_and_removed(good: Path, swath: Swath, tmp_path: Path) -> None:
    first, second = tmp_path / "first.tif", tmp_path / "second.tif"
    swath.succeed("convert", good, first, "--nodata", int(ARRAY[0, 0, 0]))
    assert swath.info(first)["nodata"] is not None
    swath.succeed("convert", first, second, "--nodata", "none")
    assert swath.info(second)["nodata"] is None
    assert np.array_equal(swath.read(second), ARRAY)
