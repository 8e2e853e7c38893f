"""Valid files that neither GDAL nor tifffile writes: unusual directories, bit orders, old codecs."""

import zlib
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import imagecodecs
import numpy as np

import raw
from case import Case
from pixels import pixels
from raw import LONG8, Directory, Field, long, short, tiff

REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
ADOBE_DEFLATE, OLD_DEFLATE, LZW, LZ4 = 8, 32946, 5, 50004
HEIGHT, WIDTH = 21, 35


def gray(name: str, dtype: str = "uint8", bits: int | None = None) -> np.ndarray:
    return pixels(name, dtype, 1, HEIGHT, WIDTH, bits=bits)[0]


def one(
    name: str,
    build: Callable[[np.ndarray], bytes],
    dtype: str = "uint8",
    bits: int | None = None,
    changed: bool = False,
    oracle: str = "rasterio",
) -> Case:
    """A one-band case:

    `build` makes the file from the pixels; `changed`, if given, turns them into the expected pixels.
    """

    def write(path: Path) -> np.ndarray | None:
        array = gray(name, dtype, bits)
        path.write_bytes(build(array))
        return None if changed else array[None]

    return Case(name, write, oracle=oracle)


def strips(array: np.ndarray, rows: int, encode: Callable[[bytes], bytes] = bytes) -> list[bytes]:
    return [encode(array[at : at + rows].tobytes()) for at in range(0, len(array), rows)]


def pack(array: np.ndarray, bits: int) -> bytes:
    """Samples of `bits` bits, most significant first, each row padded to a byte."""
    shifts = np.arange(bits - 1, -1, -1, dtype=np.uint32)
    single = (array.astype(np.uint32)[..., None] >> shifts & 1).astype(np.uint8)
    return np.packbits(single.reshape(len(array), -1), axis=1).tobytes()


def float24(array: np.ndarray, order: str) -> bytes:
    """1 sign, 7 exponent, 16 fraction bits; for normal numbers near 1."""
    whole = array.astype("<f4").view("<u4")
    packed = (whole >> 31 << 23) | (((whole >> 23 & 0xFF) - 127 + 63) << 16) | (whole >> 7 & 0xFFFF)
    octets = packed.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]
    return (octets if order == "<" else octets[:, ::-1]).tobytes()


def old_lzw(data: bytes) -> bytes:
    """LZW as libtiff wrote it before 1990: least significant bit first, without early change of the code width."""
    bits = width_used = 0
    width, table = 9, {bytes([i]): i for i in range(256)}
    out, following = bytearray(), 258

    def put(code: int) -> None:
        nonlocal bits, width_used
        bits |= code << width_used
        width_used += width
        while width_used >= 8:
            out.append(bits & 0xFF)
            bits >>= 8
            width_used -= 8

    put(256)
    prefix = b""
    for byte in data:
        longer = prefix + bytes([byte])
        if longer in table:
            prefix = longer
            continue
        put(table[prefix])
        table[longer] = following
        following += 1
        width += following > 1 << width
        if following == 4094:
            put(256)
            width, following, table = 9, 258, {bytes([i]): i for i in range(256)}
        prefix = bytes([byte])
    if prefix:
        put(table[prefix])
        following += 1
        width += following > 1 << width and width < 12
    put(257)
    if width_used:
        out.append(bits & 0xFF)
    return bytes(out)


def bit_orders() -> Iterator[Case]:
    """FillOrder 2 reverses the bits of every byte, compressed or not."""
    for bits, dtype in ((1, "uint8"), (4, "uint8"), (8, "uint8"), (12, "uint16")):
        yield one(f"raw-fillorder2-{bits}bit", lambda a, b=bits: turned(pack(a, b), bits=b), dtype, bits)
    codecs = (("packbits", 32773, imagecodecs.packbits_encode), ("deflate", ADOBE_DEFLATE, zlib.compress),
              ("lzw", LZW, imagecodecs.lzw_encode))  # fmt: skip
    for label, code, encode in codecs:
        yield one(f"raw-fillorder2-{label}", lambda a, c=code, e=encode: turned(e(a.tobytes()), codec=c))


def turned(data: bytes, bits: int = 8, codec: int = 1) -> bytes:
    fields = raw.image(WIDTH, HEIGHT, bits, fill_order=short(2), compression=short(codec))
    return tiff([Directory(fields, [data.translate(REVERSED)])])


def codecs() -> Iterator[Case]:
    """Old codec numbers and streams, and LZ4, which of all writers only xarray-spatial writes."""
    for big, order in product((False, True), "<>"):
        name = f"raw-old-deflate-{'big' if big else 'classic'}-{'le' if order == '<' else 'be'}"
        yield one(name, lambda a, o=order, b=big: old_deflate(a.astype(o + "u2"), o, b), "uint16")
    fields = raw.image(WIDTH, HEIGHT, compression=short(LZW))
    yield one("raw-old-lzw", lambda a: tiff([Directory(fields, [old_lzw(a.tobytes())])]))
    yield one("raw-old-lzw-runs", lambda a: tiff([Directory(fields, [old_lzw((a // 64).tobytes())])]), changed=True)
    lz4 = raw.image(WIDTH, HEIGHT, 16, compression=short(LZ4), rows_per_strip=long(5))
    framed = imagecodecs.lz4f_encode
    yield one("raw-lz4-frame", lambda a: tiff([Directory(lz4, strips(a, 5, framed))]), "uint16", oracle="written")


def old_deflate(array: np.ndarray, order: str, big: bool) -> bytes:
    fields = raw.image(WIDTH, HEIGHT, 16, compression=short(OLD_DEFLATE), rows_per_strip=long(4))
    return tiff([Directory(fields, strips(array, 4, zlib.compress))], order, big)


def directories() -> Iterator[Case]:
    """Directories with missing, additional or unusually ordered entries."""
    plain = raw.image(WIDTH, HEIGHT)

    def built(name: str, rows: int = HEIGHT, order: str = "<", big: bool = False, repeat=(), **tags) -> Case:
        fields = raw.image(WIDTH, HEIGHT) | {getattr(raw, key.upper()): value for key, value in tags.items()}
        moved = [(tag, plain[tag]) for tag in repeat]
        fields |= dict.fromkeys(repeat)
        return one(name, lambda a: tiff([Directory(fields, strips(a, rows), moved)], order, big))

    yield built("raw-no-rowsperstrip", rows_per_strip=None)
    yield built("raw-rowsperstrip-max", rows_per_strip=long(0xFFFFFFFF))
    yield built("raw-rowsperstrip-too-large", rows_per_strip=long(HEIGHT + 100))
    yield built("raw-rowsperstrip-short", 4, rows_per_strip=short(4))
    yield built("raw-no-stripbytecounts", strip_counts=None)
    yield built("raw-no-samplesperpixel", samples=None)
    yield built("raw-no-compression", compression=None)
    yield built("raw-short-sizes", width=short(WIDTH), length=short(HEIGHT))
    yield built("raw-long-bits", bits=long(8))
    yield built("raw-short-offsets", strip_offsets=short(8), strip_counts=short(WIDTH * HEIGHT))
    yield built("raw-tags-out-of-order", repeat=(raw.WIDTH, raw.BITS))
    yield built("raw-long8-sizes", big=True, width=Field(LONG8, [WIDTH]), length=Field(LONG8, [HEIGHT]))
    yield built("raw-bigtiff-be", 5, order=">", big=True, rows_per_strip=long(5))
    for orientation in range(1, 9):
        yield built(f"raw-orientation{orientation}", orientation=short(orientation))
    yield one("raw-shared-strip", shared_strip, changed=True)
    for order in "<>":
        yield one(f"raw-float24-{'le' if order == '<' else 'be'}", lambda a, o=order: small_floats(a, o), changed=True)
    for tile in ((24, 40), (10, 3), (16, 8)):
        yield one(f"raw-tile{tile[0]}x{tile[1]}", lambda a, t=tile: odd_tiles(a, t))


def shared_strip(array: np.ndarray) -> bytes:
    """All strips point to the same bytes, as deduplicating writers store them."""
    rows = 7
    fields = raw.image(WIDTH, HEIGHT, rows_per_strip=long(rows), strip_offsets=long(8, 8, 8))
    return tiff([Directory(fields | {raw.STRIP_COUNTS: long(*[WIDTH * rows] * 3)}, [array[:rows].tobytes()])])


def small_floats(array: np.ndarray, order: str) -> bytes:
    fields = raw.image(WIDTH, HEIGHT, 24, sample_format=short(3))
    return tiff([Directory(fields, [float24(array / np.float32(64) + np.float32(0.5), order)])], order)


def odd_tiles(array: np.ndarray, tile: tuple[int, int]) -> bytes:
    """Tiles whose sides are not multiples of 16. The specification forbids them, but such files exist."""
    width, height = tile
    padded = np.pad(array, ((0, -HEIGHT % height), (0, -WIDTH % width)), mode="edge")
    blocks = [
        padded[y : y + height, x : x + width].tobytes()
        for y in range(0, padded.shape[0], height)
        for x in range(0, padded.shape[1], width)
    ]
    return tiff([Directory(raw.tiled(WIDTH, HEIGHT, tile), blocks)])


def all_cases() -> list[Case]:
    """Every hand-made file for the pixel comparison."""
    return [*bit_orders(), *codecs(), *directories()]
