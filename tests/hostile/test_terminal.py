"""Text from files and names of files must not control the terminal that shows it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile
from conftest import BINARY, Command, Result

ESCAPES = "\x1b]0;title\x07\x1b[2J\x1b[31m\x9b5m\u202e\u2066\x7f\x08\r"
DIRECTIONS = {"\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}


def assert_harmless(result: Result) -> None:
    for text in (result.stdout, result.stderr):
        bad = {c for c in text if (unicodedata.category(c) == "Cc" and c not in "\n\t") or c in DIRECTIONS}
        assert not bad, f"{bad!r} in {text!r}"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A file with escape sequences in every text that a writer can set."""
    path = tmp_path / "hostile.tif"
    profile = {"driver": "GTiff", "count": 1, "height": 16, "width": 16, "dtype": "uint8", "crs": "EPSG:4326"}
    visible = "\u202e\u2066\x7f\x9b31m"
    with rasterio.open(path, "w", **profile) as out:
        out.write(np.zeros((1, 16, 16), "uint8"))
        out.update_tags(TIFFTAG_SOFTWARE=ESCAPES, TIFFTAG_ARTIST=f"a\nepsg: 1{ESCAPES}", **{f"key{visible}": visible})
        out.update_tags(1, unit=visible)
        out.set_band_description(1, visible)
    Path(f"{path}.aux.xml").write_text(
        "<PAMDataset><PAMRasterBand band='1'><CategoryNames>"
        "<Category>&#27;[31m&#155;&#8238;</Category></CategoryNames></PAMRasterBand></PAMDataset>"
    )
    return path


@pytest.mark.parametrize(
    "arguments", [["info"], ["info", "--json"], ["info", "--tags"], ["info", "--tags", "--json"], ["validate"]]
)
def test_metadata_cannot_control_the_terminal(command: Command, hostile: Path, arguments: list[str]) -> None:
    result = command.run(*arguments, hostile)
    assert_harmless(result)
    if "--json" in arguments:
        texts = json.loads(result.stdout)["texts"]
        assert texts["Software"].startswith("\x1b]0;title\x07"), "JSON keeps the text, escaped"


def test_metadata_cannot_forge_lines(command: Command, hostile: Path) -> None:
    lines = command.succeed("info", hostile).stdout.splitlines()
    assert [line for line in lines if line.startswith("epsg:")] == ["epsg: 4326"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "FILE"],
        ["read", "FILE", "out.npy"],
        ["convert", "FILE", "FILE", "--timings"],
        ["convert", "missing FILE", "out.tif"],
        ["validate", "FILE", "--json"],
        ["info", "--FILE"],
        ["bench", "missing FILE"],
    ],
)
def test_name_of_a_file_cannot_control_the_terminal(command: Command, tmp_path: Path, arguments: list[str]) -> None:
    name = f"a{ESCAPES}\n.tif"
    tifffile.imwrite(tmp_path / name, np.zeros((16, 16), "uint8"))
    result = command.run(*(one.replace("FILE", name) for one in arguments), cwd=tmp_path)
    assert_harmless(result)
    if result.code != 0:
        assert result.stderr.count("\n") <= 1, "one sentence is one line"


def test_corrupt_block_message_is_harmless(command: Command, tmp_path: Path) -> None:
    path = tmp_path / f"b{ESCAPES}.tif"
    tifffile.imwrite(path, np.zeros((16, 16), "uint8"), compression="zlib")
    with tifffile.TiffFile(path) as file:
        offset = file.pages[0].dataoffsets[0]
    data = bytearray(path.read_bytes())
    data[offset : offset + 4] = b"\xff" * 4
    path.write_bytes(data)
    fill = ["--on-corrupt", "fill"]
    for arguments in (["read", path, "o.npy", *fill], ["read", path, "o.npy"], ["convert", path, "o.tif"]):
        result = command.run(*arguments, cwd=tmp_path)
        assert result.stderr
        assert_harmless(result)


def test_libraries_are_not_searched_beside_a_relative_program_name(tmp_path: Path) -> None:
    """Started as `bin/swath`, the command must not load what lies in `lib` of the working folder."""
    if not shutil.which("ldconfig") and os.name != "posix":
        pytest.skip("libraries are searched on Linux only")
    folder = tmp_path / "lib" / "python3.12" / "site-packages" / "nvidia" / "nvcomp" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "swath").symlink_to(BINARY)
    (folder / "libnvcomp.so.6").write_bytes(b"not a library")
    done = subprocess.run(
        ["bin/swath", "devices", "--verbose"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert str(folder) not in done.stdout and "lib/python3.12/site-packages/nvidia/nvcomp" not in done.stdout
