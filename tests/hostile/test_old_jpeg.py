"""Old-style JPEG in several strips, which are parts of one stream: the pixels are those of libtiff."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import rasterio
from conftest import Command
from PIL import Image

WIDTH, HEIGHT, ROWS = 160, 112, 16
SHORT, LONG = 3, 4


def stream() -> bytes:
    """A JPEG stream with 2 x 2 subsampled chroma and a restart marker after each 16 rows."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    pixels = np.stack([x, y * 2, 255 - x], axis=2).astype("uint8")
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "jpeg", quality=90, subsampling="4:2:0", restart_marker_rows=1)
    return out.getvalue()


def write(path: Path, per_strip: int, header: str) -> None:
    """Writes a TIFF whose strips are each `per_strip` restart intervals of the stream."""
    whole = stream()
    scan = whole.index(b"\xff\xda")
    data = scan + 2 + struct.unpack_from(">H", whole, scan + 2)[0]
    markers = [data + match.end() for match in re.finditer(rb"\xff[\xd0-\xd7]", whole[data:])]
    starts = [data, *markers][::per_strip]
    start_of_file = 8
    if header == "in the first strip":
        starts[0] = 0
    ends = [*starts[1:], len(whole)]
    offsets = [start_of_file + start for start in starts]
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    entries: list[tuple[int, int, list[int]]] = [
        (256, SHORT, [WIDTH]),
        (257, SHORT, [HEIGHT]),
        (258, SHORT, [8, 8, 8]),
        (259, SHORT, [6]),
        (262, SHORT, [6]),
        (273, LONG, offsets),
        (277, SHORT, [3]),
        (278, SHORT, [ROWS * per_strip]),
        (279, LONG, sizes),
        (284, SHORT, [1]),
        (530, SHORT, [2, 2]),
    ]
    if header == "by tag":
        entries += [(513, LONG, [start_of_file]), (514, LONG, [len(whole)])]
    entries.sort()
    body = bytearray(b"II*\0" + bytes(4) + whole)
    body += bytes(len(body) % 2)
    at = len(body)
    after = at + 2 + 12 * len(entries) + 4
    directory, values = struct.pack("<H", len(entries)), b""
    for tag, kind, numbers in entries:
        packed = struct.pack(f"<{len(numbers)}{'H' if kind == SHORT else 'I'}", *numbers)
        if len(packed) > 4:
            place = struct.pack("<I", after + len(values))
            values += packed + bytes(len(packed) % 2)
        else:
            place = packed.ljust(4, b"\0")
        directory += struct.pack("<HHI", tag, kind, len(numbers)) + place
    struct.pack_into("<I", body, 4, at)
    path.write_bytes(bytes(body) + directory + bytes(4) + values)


@pytest.mark.parametrize("per_strip", [1, 2, 3])
@pytest.mark.parametrize("header", ["by tag", "in the first strip"])
def test_strips_of_one_stream_are_decoded(command: Command, tmp_path: Path, per_strip: int, header: str) -> None:
    path, out = tmp_path / "old.tif", tmp_path / "out.npy"
    write(path, per_strip, header)
    command.succeed("read", path, out)
    pixels = np.load(out)
    direct = np.moveaxis(np.asarray(Image.open(io.BytesIO(stream())).convert("RGB")), 2, 0).astype(int)
    assert pixels.shape == (3, HEIGHT, WIDTH)
    # Pillow interpolates chroma; old-style JPEG repeats it.
    assert np.abs(pixels.astype(int) - direct).mean() < 2
    window = tmp_path / "window.npy"
    command.succeed("read", path, window, "--window", "40,50,70,70")
    assert np.array_equal(np.load(window), pixels[:, 40:70, 50:70])
    if header == "by tag" and per_strip == 1:
        try:
            with rasterio.open(path) as dataset:
                expected = dataset.read()
        except rasterio.errors.RasterioIOError as error:
            pytest.skip(f"this GDAL cannot read old-style JPEG: {error}")
        assert np.abs(pixels.astype(int) - expected.astype(int)).max() <= 2


def test_missing_strip_data_is_an_error(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "old.tif"
    write(path, 1, "by tag")
    data = path.read_bytes()
    whole = stream()
    middle = 8 + len(whole) * 2 // 3
    path.write_bytes(data[:middle] + bytes(200) + data[middle + 200 :])
    assert command.run("read", path, tmp_path / "out.npy").code in (0, 1)
