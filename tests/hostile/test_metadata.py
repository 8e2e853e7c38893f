"""Metadata that is small in the file and large in memory: each case has a bound on memory and time."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import BINARY

SHORT, LONG, ASCII = 3, 4, 2
PEAK_BYTES = 600_000_000
SECONDS = 20
"""Generous, because other processes may use the cores. Before the limits, the cases took gigabytes."""


# A new process starts with the peak memory of the one that starts it, so a small one does.
LAUNCHER = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
sys.stderr.write(f"launcher: {os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def measured(*arguments: object) -> tuple[int, str]:
    """Runs a program within the bounds. Returns its exit code and its messages."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, arguments)], capture_output=True, text=True
    )
    messages, _, result = done.stderr.rpartition("launcher: ")
    code, kilobytes = map(int, result.split())
    assert kilobytes * 1024 < PEAK_BYTES, f"{kilobytes / 1024:.0f} MiB"
    assert time.monotonic() - start < SECONDS
    return code, messages


def python(path: Path, call: str = "open_geotiff") -> tuple[int, str]:
    program = f"import sys, swath; swath.{call}(sys.argv[1])"
    return measured(sys.executable, "-W", "ignore", "-c", program, path)


def tiff(path: Path, directories: list[list[tuple[int, int, int, int]]], tail: bytes) -> None:
    """Writes directories of (tag, type, count, value or offset). The tail lies behind a header of 8 bytes."""
    body = bytearray(b"II*\0" + bytes(4) + tail)
    link = 4
    for entries in directories:
        body += bytes(len(body) % 2)
        struct.pack_into("<I", body, link, len(body))
        body += struct.pack("<H", len(entries))
        for tag, kind, count, value in sorted(entries):
            body += struct.pack("<HHII", tag, kind, count, value)
        link = len(body)
        body += bytes(4)
    path.write_bytes(body)


def image(**more: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    entries = [(256, SHORT, 1, 4), (257, SHORT, 1, 4), (258, SHORT, 1, 8), (259, SHORT, 1, 1), (262, SHORT, 1, 1)]
    entries += [(273, LONG, 1, 8), (277, SHORT, 1, 1), (278, SHORT, 1, 4), (279, LONG, 1, 16)]
    return entries + list(more.values())


@pytest.mark.parametrize("tag", [258, 338, 339])
def test_directories_that_share_one_large_value_cost_little(tmp_path: Path, tag: int) -> None:
    """255 overviews with an ExtraSamples (or another) value of 16 MB, which is stored once."""
    path, size = tmp_path / "shared.tif", 16 << 20
    first = image()
    shared = (tag, SHORT, size // 2, 8)
    others = [[*(entry for entry in image() if entry[0] != tag), (254, LONG, 1, 1), shared] for _ in range(254)]
    tiff(path, [first, *others], bytes(size))
    assert measured(BINARY, "info", path)[0] == 0
    assert measured(BINARY, "read", path, tmp_path / "out.npy")[0] == 0
    assert python(path)[0] == 0


@pytest.mark.parametrize("kind", [ASCII, SHORT])
def test_entries_that_share_one_large_value_cost_little(tmp_path: Path, kind: int) -> None:
    """4,000 tags of one directory with a value of 16 MB, which is stored once."""
    path, size = tmp_path / "entries.tif", 16 << 20
    count = size if kind == ASCII else size // 2
    tiff(path, [[*image(), *((tag, kind, count, 8) for tag in range(60000, 64000))]], b"a" * size)
    assert measured(BINARY, "info", path, "--tags", "--json")[0] == 0
    assert python(path)[0] == 0
    assert python(path, "open_rasterio")[0] == 0
    assert measured(BINARY, "convert", path, tmp_path / "out.tif")[0] in (0, 1)


FLOODS: dict[str, Callable[[], bytes]] = {
    "elements": lambda: b"<a/>" * (12 << 20),
    "nested": lambda: b"<a>" * (6 << 20) + b"</a>" * (6 << 20),
    "attributes": lambda: b"<a " + b" ".join(b'a%d=""' % i for i in range(4 << 20)) + b"/>",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_sidecar_full_of_nodes_costs_little(tmp_path: Path, flood: str) -> None:
    """A document of about 48 MB is below the limit of bytes."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((16, 16), "uint8"))
    Path(f"{path}.aux.xml").write_bytes(b"<PAMDataset>" + FLOODS[flood]() + b"</PAMDataset>")
    assert measured(BINARY, "info", path)[0] == 0
    assert python(path)[0] == 0


@pytest.mark.parametrize("flood", FLOODS)
def test_mosaic_full_of_nodes_is_refused(tmp_path: Path, flood: str) -> None:
    path = tmp_path / "a.vrt"
    path.write_bytes(b"<VRTDataset rasterXSize='1' rasterYSize='1'>" + FLOODS[flood]() + b"</VRTDataset>")
    code, messages = python(path)
    assert code == 1
    assert "SWATH_MAX_XML_" in messages


def test_mosaic_of_20000_files_is_not_refused(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "tile.tif", np.zeros((1, 1), "uint8"))
    source = (
        '<SimpleSource><SourceFilename relativeToVRT="1">tile.tif</SourceFilename><SourceBand>1</SourceBand>'
        '<SrcRect xOff="0" yOff="0" xSize="1" ySize="1"/><DstRect xOff="{}" yOff="0" xSize="1" ySize="1"/>'
        "</SimpleSource>"
    )
    path = tmp_path / "a.vrt"
    path.write_text(
        '<VRTDataset rasterXSize="20000" rasterYSize="1"><VRTRasterBand dataType="Byte" band="1">'
        + "".join(source.format(column) for column in range(20_000))
        + "</VRTRasterBand></VRTDataset>"
    )
    program = "import sys, swath; assert swath.open_geotiff(sys.argv[1], chunks=4096).shape == (1, 20000)"
    code, messages = measured(sys.executable, "-W", "ignore", "-c", program, path)
    assert code == 0, messages


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_long_text_of_a_sidecar_is_not_copied_again_and_again(tmp_path: Path, flags: list[str]) -> None:
    """45 MB of text, within the limits: the file, the item and the value that is printed."""
    path = tmp_path / "text.tif"
    tifffile.imwrite(path, np.zeros((4, 4), "uint8"))
    item = "x" * 45_000_000
    xml = f'<PAMDataset><Metadata><MDI key="long">{item}</MDI></Metadata></PAMDataset>'
    (tmp_path / "text.tif.aux.xml").write_text(xml)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, str(BINARY), "info", str(path), *flags],
        capture_output=True,
        text=True,
    )
    assert item in done.stdout
    assert int(done.stderr.split()[-1]) * 1024 < 200_000_000, done.stderr
