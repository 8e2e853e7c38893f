"""Exit codes and messages of the command line."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile

from binary import PATH, Swath
from zoo import small


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.tif"
    path.write_bytes(small())
    return path


@pytest.mark.parametrize(
    "args",
    [
        [], ["frobnicate"], ["read"], ["read", "FILE"], ["info"], ["read", "FILE", "OUT", "--frobnicate"],
        ["read", "FILE", "OUT", "--window", "1,2,3"], ["read", "FILE", "OUT", "--window", "a,b,c,d"],
        ["read", "FILE", "OUT", "--bands", "x"], ["read", "FILE", "OUT", "--level", "x"],
        ["read", "FILE", "OUT", "--layout", "diagonal"], ["read", "FILE", "OUT", "--threads", "-3"],
    ],
    ids=lambda args: " ".join(args) or "nothing",
)  # fmt: skip
def test_misuse_is_exit_code_2(args: list[str], good: Path, swath: Swath, tmp_path: Path) -> None:
    places = {"FILE": str(good), "OUT": str(tmp_path / "out.npy")}
    run = swath.run(*[places.get(arg, arg) for arg in args])
    assert run.code == 2, f"exit code {run.code}: {run.stderr}"
    assert run.stderr.strip() and "panicked" not in run.stderr


@pytest.mark.parametrize("bands", ["0", "2", "1,99", "4294967296"])
def test_band_that_is_not_there_is_an_error(bands: str, good: Path, swath: Swath, tmp_path: Path) -> None:
    run = swath.run("read", good, tmp_path / "out.npy", "--bands", bands)
    assert run.code in (1, 2)
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(("name", "number"), [("png", 34933), ("jpegxr", 34934)])
def test_unknown_codec_is_named_by_number(name: str, number: int, swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.tif"
    tifffile.imwrite(path, np.zeros((16, 16), np.uint8), compression=name)
    run = swath.run("read", path, tmp_path / "out.npy")
    assert run.code == 1
    assert len(run.stderr.splitlines()) == 1
    assert str(number) in run.stderr


def test_address_is_said_to_be_one(swath: Swath) -> None:
    run = swath.run("info", "https://example.com/scene.tif")
    assert run.code == 1
    assert "is an address" in run.stderr and len(run.stderr.splitlines()) == 1


def test_stats_do_not_change_pixels(good: Path, swath: Swath) -> None:
    assert np.array_equal(swath.read(good, "--stats"), swath.read(good))


def test_help_is_on_stdout(swath: Swath) -> None:
    run = swath.run("--help")
    assert run.code == 0
    assert "read" in run.stdout and "info" in run.stdout


@pytest.mark.parametrize("args", [["--help"], ["info", "FILE"], ["info", "FILE", "--json"], ["validate", "FILE"]])
def test_reader_that_has_had_enough_is_no_crash(args: list[str], good: Path) -> None:
    writing = closed_pipe()
    run = started([arg.replace("FILE", str(good)) for arg in args], writing)
    os.close(writing)
    assert run.stderr == b"" and run.returncode in (0, 1), (run.returncode, run.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_disk_behind_stdout_is_one_sentence(good: Path) -> None:
    with open("/dev/full", "wb") as full:
        run = started(["info", str(good)], full.fileno())
    assert run.returncode == 1
    assert run.stderr.startswith(b"swath: standard output: ") and run.stderr.count(b"\n") == 1


def closed_pipe() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def started(args: list[str], stdout: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(PATH), *args], stdout=stdout, stderr=subprocess.PIPE, timeout=30, check=False)
