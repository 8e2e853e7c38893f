"""Streams that cost their decoder far more memory than the tile that they describe honestly."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from conftest import BINARY
from PIL import Image
from test_memory import JPEG2000, JPEG_XL, LERC, WEBP, ZSTD, one_tile
from test_metadata import LAUNCHER

import swath

JPEG, LZMA, GROUP4 = 7, 34925, 4
SIDE = 8192
MB = 1_000_000


def measured(*arguments: object) -> tuple[int, str, int]:
    """Runs the command. Returns its exit code, its messages and its largest resident memory in bytes."""
    call = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(BINARY), *map(str, arguments), "--threads", "1"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    messages, _, result = done.stderr.rpartition("launcher: ")
    code, kilobytes = map(int, result.split())
    return code, messages, kilobytes * 1024


def refused(path: Path, limit: int, tmp_path: Path) -> tuple[str, int]:
    """Reads a pixel with this limit. Returns the message and the memory."""
    code, message, memory = measured(
        "read", path, tmp_path / "out.npy", "--window", "0,0,1,1", "--limit", f"max_codec_memory={limit}"
    )
    assert code == 1 and message.count("\n") == 1, (code, message)
    return message, memory


def zeros(samples: int = 1) -> np.ndarray:
    return np.zeros((SIDE, SIDE) if samples == 1 else (SIDE, SIDE, samples), "uint8")


def progressive(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", progressive=True)
    return out.getvalue()


def lerc_in_zstd(path: Path) -> None:
    blob = imagecodecs.zstd_encode(imagecodecs.lerc_encode(zeros()))
    one_tile(path, SIDE, 8, 1, LERC, blob)
    data = bytearray(path.read_bytes())
    # The second LERC parameter is the codec around the blob.
    place = data.index((4).to_bytes(4, "little") + bytes(4), 8 + len(blob) // 4 * 4)
    data[place + 4] = 2
    path.write_bytes(data)


Make = Callable[[Path], None]
BOMBS: dict[str, tuple[Make, int, int]] = {
    # A codec: a file, a limit that it exceeds, and the memory that reading it may take. The decoded tile counts.
    "jpeg2000": (
        lambda path: one_tile(path, SIDE, 8, 1, JPEG2000, imagecodecs.jpeg2k_encode(zeros(), codecformat="j2k")),
        500 * MB,
        150 * MB,
    ),
    "jpegxl": (
        lambda path: one_tile(path, SIDE, 8, 1, JPEG_XL, imagecodecs.jpegxl_encode(zeros(4), effort=1), 4),
        500 * MB,
        150 * MB,
    ),
    "webp": (
        lambda path: one_tile(path, SIDE, 8, 1, WEBP, imagecodecs.webp_encode(zeros(3), lossless=True), 3),
        200 * MB,
        300 * MB,
    ),
    "lerc": (lambda path: one_tile(path, SIDE, 8, 1, LERC, imagecodecs.lerc_encode(zeros())), 100 * MB, 150 * MB),
    "lerc in zstd": (lerc_in_zstd, 300 * MB, 150 * MB),
    "progressive jpeg": (
        lambda path: one_tile(path, SIDE, 8, 1, JPEG, progressive(zeros())),
        100 * MB,
        150 * MB,
    ),
    "lzma dictionary": (
        lambda path: one_tile(path, SIDE, 8, 1, LZMA, imagecodecs.lzma_encode(zeros().tobytes(), level=9)),
        16 * MB,
        100 * MB,
    ),
    # The rows of a window are decoded in pieces, for which zstd keeps its window.
    "zstd window": (
        lambda path: one_tile(path, SIDE, 8, 1, ZSTD, imagecodecs.zstd_encode(zeros().tobytes(), level=22)),
        16 * MB,
        100 * MB,
    ),
    "fax of wide rows": (
        lambda path: one_tile(path, 16_384, 1, 1, GROUP4, bytes(range(256)) * 4096),
        MB // 10,
        100 * MB,
    ),
}


@pytest.mark.parametrize("codec", BOMBS)
def test_decoder_that_needs_more_than_the_limit_does_not_start(codec: str, tmp_path: Path) -> None:
    make, limit, bound = BOMBS[codec]
    path = tmp_path / "bomb.tif"
    make(path)
    message, memory = refused(path, limit, tmp_path)
    assert "--limit max_codec_memory=" in message, message
    assert memory < bound, memory
    with pytest.raises(swath.PixelSafetyLimitError, match="max_codec_memory"):
        swath.open_geotiff(str(path), window=(0, 0, 1, 1), limits={"max_codec_memory": limit})


def test_picture_within_the_limit_of_a_block_cannot_take_gigabytes_by_default(tmp_path: Path) -> None:
    """268 million pixels in a few hundred bytes: 3.5 GB in the JPEG 2000 decoder."""
    path, side = tmp_path / "bomb.tif", 16_384
    stream = imagecodecs.jpeg2k_encode(np.zeros((side, side), "uint8"), codecformat="j2k")
    one_tile(path, side, 8, 1, JPEG2000, stream)
    assert path.stat().st_size < 10_000
    code, message, memory = measured("read", path, tmp_path / "out.npy", "--window", "0,0,1,1")
    assert code == 1 and "max_codec_memory" in message, message
    assert memory < 400 * MB


@pytest.mark.parametrize("codec", ["jpeg2000", "jpegxl", "webp", "lerc", "progressive jpeg", "lzma dictionary"])
def test_same_file_is_read_within_the_default_limit(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "honest.tif"
    BOMBS[codec][0](path)
    code, message, memory = measured("read", path, tmp_path / "out.npy", "--window", "0,0,1,1")
    assert code == 0, message
    assert memory < 2_500 * MB


class Bits:
    """Bits of a lossless WebP stream, the least significant first."""

    def __init__(self) -> None:
        self.value, self.count, self.parts = 0, 0, bytearray()

    def put(self, value: int, count: int) -> None:
        self.value |= value << self.count
        self.count += count
        while self.count >= 8:
            self.parts.append(self.value & 255)
            self.value >>= 8
            self.count -= 8

    def single(self) -> None:
        """A prefix code of one symbol, 0, whose codes have no bits."""
        self.put(1, 1)
        self.put(0, 3)

    def flat(self, symbols: int) -> None:
        """A prefix code in which each of the first 256 symbols has 8 bits."""
        self.put(0, 1)
        order = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8]
        self.put(len(order) - 4, 4)
        for length in order:
            self.put(1 if length in (0, 8) else 0, 3)
        self.put(0, 1)
        for symbol in range(symbols):
            self.put(1 if symbol < 256 else 0, 1)


def webp_of_many_codes(side: int = 1024) -> bytes:
    """A picture of one colour that has prefix codes of its own for each 4 x 4 pixels."""
    bits = Bits()
    bits.put(0x2F, 8)
    bits.put(side - 1, 14)
    bits.put(side - 1, 14)
    bits.put(0, 4)
    bits.put(0, 1)  # no transform
    bits.put(0, 1)  # no colour cache
    bits.put(1, 1)  # several groups of prefix codes
    bits.put(0, 3)  # for each 4 x 4 pixels
    bits.put(0, 1)  # no colour cache
    bits.flat(256 + 24)
    bits.flat(256)
    for _ in range(3):
        bits.single()
    parts = (side // 4) ** 2
    for part in range(parts):
        for byte in (part & 255, part >> 8):
            bits.put(int(f"{byte:08b}"[::-1], 2), 8)
    for _ in range(parts * 5):
        bits.single()
    bits.put(0, 64)
    chunk = bytes(bits.parts)
    chunk += bytes(len(chunk) % 2)
    body = b"WEBPVP8L" + len(chunk).to_bytes(4, "little") + chunk
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def test_prefix_codes_of_a_webp_picture_count(tmp_path: Path) -> None:
    """3 MB of pixels in 300 KB, for which libwebp needs hundreds of megabytes."""
    path, stream = tmp_path / "bomb.tif", webp_of_many_codes()
    assert not imagecodecs.webp_decode(stream)[..., :3].any(), "the stream must be valid"
    one_tile(path, 1024, 8, 1, WEBP, stream, 3)
    message, memory = refused(path, 100 * MB, tmp_path)
    assert "--limit max_codec_memory=" in message
    assert memory < 50 * MB
    code, message, memory = measured("read", path, tmp_path / "out.npy")
    assert code == 0, message
    assert memory < 500 * MB
