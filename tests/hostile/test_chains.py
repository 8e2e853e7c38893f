"""Chains of directories that are loops or end in nonsense: the first image is read, with a warning."""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import Command

import swath

PIXELS = np.arange(32 * 32, dtype="uint16").reshape(32, 32)


def chain_of(path: Path) -> list[int]:
    """Where the offsets of the next directories lie, in a little-endian classic TIFF."""
    data = path.read_bytes()
    places, at = [], 4
    while (offset := struct.unpack_from("<I", data, at)[0]) != 0:
        at = offset + 2 + 12 * struct.unpack_from("<H", data, offset)[0]
        places.append(at)
    return places


def broken(path: Path, kind: str) -> Path:
    with tifffile.TiffWriter(path) as out:
        out.write(PIXELS, metadata=None)
        if kind == "second to first":
            out.write(PIXELS[:16], metadata=None)
    data = bytearray(path.read_bytes())
    first = struct.unpack_from("<I", data, 4)[0]
    targets = {
        "self": first,
        "second to first": first,
        "past the end": len(data) + 1000,
        "far past the end": 0xFFFFFFFF,
        "into the pixels": 0,
        "zeros": len(data),
        "noise": len(data),
    }
    target = targets[kind]
    if kind == "into the pixels":
        with tifffile.TiffFile(path) as file:
            target = file.pages[0].dataoffsets[0] + 100
    struct.pack_into("<I", data, chain_of(path)[-1], target)
    if kind == "zeros":
        data += bytes(64)
    if kind == "noise":
        data += bytes([3, 0]) + bytes([0xEE]) * 64
    path.write_bytes(data)
    return path


KINDS = ["self", "second to first", "past the end", "far past the end", "into the pixels", "zeros", "noise"]


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return broken(tmp_path / "broken.tif", request.param)


def test_command_reads_the_first_image_and_warns_once(command: Command, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    result = command.succeed("read", path, out)
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("swath: warning: ") and "may be missing" in lines[0]
    assert np.array_equal(np.load(out)[0], PIXELS)
    converted = tmp_path / "out.tif"
    assert len(command.succeed("convert", path, converted).stderr.splitlines()) == 1
    assert np.array_equal(tifffile.imread(converted), PIXELS)
    info = command.succeed("info", path, "--json")
    assert len(info.stderr.splitlines()) == 1
    assert any("may be missing" in text for text in json.loads(info.stdout)["warnings"])


def test_validate_calls_it_an_error(command: Command, path: Path) -> None:
    result = command.run("validate", path, "--json")
    assert result.code == 1 and not result.stderr
    assert "ifd-chain" in {finding["rule"] for finding in json.loads(result.stdout)["errors"]}


def test_python_reads_the_first_image_and_warns(path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"broken\.tif.*may be missing"):
        array = swath.open_geotiff(str(path))
    assert np.array_equal(array.values, PIXELS)
    with pytest.warns(RuntimeWarning, match="may be missing"):
        swath.open_rasterio(str(path))


def test_whole_chain_gives_no_warning(command: Command, source: Path, tmp_path: Path) -> None:
    assert command.succeed("read", source, tmp_path / "out.npy").stderr == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        swath.open_geotiff(str(source))


def test_first_directory_must_be_valid(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "none.tif"
    for first in (0, 8, 100, 0xFFFFFFFF):
        path.write_bytes(b"II*\0" + struct.pack("<I", first) + bytes(20))
        assert command.run("read", path, tmp_path / "out.npy").code == 1
