"""Malformed files, made byte by byte: truncated, contradictory, recursive, huge.

`ZOO` maps a name to a function that makes the bytes; a file is made only when a test needs it.
"""

import lzma
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import product

import raw
from raw import BYTE, DOUBLE, LONG, LONG8, SHORT, Directory, Field, long, short, tiff

DEFLATE, LZW, ZSTD, LZMA, PACKBITS, JPEG, LERC, WEBP, FAX4 = 8, 5, 50000, 34925, 32773, 7, 34887, 50001, 4
CODECS = {"deflate": DEFLATE, "lzw": LZW, "zstd": ZSTD, "lzma": LZMA, "packbits": PACKBITS, "jpeg": JPEG, "lerc": LERC,
          "webp": WEBP, "fax4": FAX4, "jpeg2000": 34712, "jpegxl": 50002, "lz4": 50004}  # fmt: skip
GRADIENT = bytes(x * 3 + y & 0xFF for y in range(32) for x in range(32))
FLIPS = 500


def small(codec: int = DEFLATE, order: str = "<", big: bool = False, levels: int = 2) -> bytes:
    """A valid tiled image with an overview, from which truncated and bit-flipped files are made."""
    directories = []
    for level in range(levels):
        side = 32 >> level
        tile = bytes(GRADIENT[(y * 32 + x) << level & 1023] for y in range(16) for x in range(16))
        fields = raw.tiled(side, side, (16, 16), compression=short(codec)) | {254: long(level and 1)}
        directories.append(Directory(fields, [zlib.compress(tile) if codec == DEFLATE else tile] * (side // 16) ** 2))
    return tiff(directories, order, big)


def lying(order: str = "<", big: bool = False, drop: tuple[int, ...] = (), **tags: Field | None) -> bytes:
    """An uncompressed 32x32 image in one strip, with some tags replaced or removed."""
    fields = raw.image(32, 32) | {getattr(raw, name.upper()): value for name, value in tags.items()}
    return tiff([Directory(fields | dict.fromkeys(drop), [GRADIENT])], order, big)


def lying_tiles(tile: tuple[int, int] = (16, 16), blocks: int = 4, **tags: Field | None) -> bytes:
    """The same image in tiles of 16x16."""
    fields = raw.tiled(32, 32, tile) | {getattr(raw, name.upper()): value for name, value in tags.items()}
    return tiff([Directory(fields, [GRADIENT[:256]] * blocks)])


def headers() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Files that end inside the header or the first directory."""
    valid = small()
    for length in range(9):
        yield f"first-{length}-bytes", lambda n=length: valid[:n]
    yield "zeros", lambda: bytes(4096)
    yield "text", lambda: b"this is not a TIFF\n" * 50
    yield "wrong-magic", lambda: b"II\x2b\x01" + valid[4:]
    yield "mixed-order-mark", lambda: b"IM" + valid[2:]
    yield "bigtiff-offset-size-4", lambda: b"II" + struct.pack("<HHHQ", 43, 4, 0, 16) + bytes(64)
    yield "bigtiff-cut-header", lambda: b"II" + struct.pack("<HHH", 43, 8, 0)
    for offset in (0, 1, 4, 7, 0xFFFFFFFF, len(valid), len(valid) - 1):
        yield f"ifd-at-{offset}", lambda o=offset: valid[:4] + struct.pack("<I", o) + valid[8:]
    for offset in (2**63, 2**64 - 1, 2**64 - 16):
        yield f"bigtiff-ifd-at-{offset:x}", lambda o=offset: b"II" + struct.pack("<HHHQ", 43, 8, 0, o) + bytes(64)


def directories() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Directory chains and entry counts without an end."""
    head = b"II*\0" + struct.pack("<I", 8)
    yield "ifd-cycle-self", lambda: tiff([Directory(raw.image(32, 32), [GRADIENT])], next_ifd=8 + 1024)
    yield "ifd-cycle-two", ifd_two_cycle
    yield "ifd-cycle-without-image", lambda: head + struct.pack("<HI", 0, 8)
    yield "ifd-no-entries", lambda: head + struct.pack("<HI", 0, 0)
    yield "ifd-65535-entries-cut", lambda: head + struct.pack("<H", 65535) + bytes(600)
    yield "ifd-65535-entries", lambda: head + struct.pack("<H", 65535) + b"".join(
        struct.pack("<HHII", tag, SHORT, 1, 1) for tag in range(65535)
    ) + bytes(4)  # fmt: skip
    yield "bigtiff-2e64-entries", lambda: b"II" + struct.pack("<HHHQQ", 43, 8, 0, 16, 2**64 - 1) + bytes(64)
    yield "ifd-chain-20000", lambda: long_chain(20000)
    yield "subifd-cycle-self", lambda: lying(sub_ifds=long(8 + 1024))
    yield "subifd-nested-500", lambda: nested_sub_ifds(500)
    yield "subifd-count-absurd", lambda: lying(sub_ifds=Field(LONG, [8], count=0x3FFFFFFF, offset=8))
    yield "next-ifd-past-end", lambda: tiff([Directory(raw.image(32, 32), [GRADIENT])], next_ifd=0x7FFFFFFF)
    yield "duplicate-width", lambda: tiff([Directory(raw.image(32, 32), [GRADIENT], [(raw.WIDTH, long(64))])])
    wild = [(raw.STRIP_OFFSETS, long(0xFFFFFFF0))]
    yield "duplicate-offsets", lambda: tiff([Directory(raw.image(32, 32), [GRADIENT], wild)])


def ifd_two_cycle() -> bytes:
    """Two directories that each name the other as the next one."""
    body = tiff([Directory(raw.image(32, 32), [GRADIENT]), Directory(raw.image(32, 32), [GRADIENT])])
    first = struct.unpack_from("<I", body, 4)[0]
    return body[:-4] + struct.pack("<I", first)


def long_chain(count: int) -> bytes:
    """A chain of directories with one entry each."""
    out = bytearray(b"II*\0" + struct.pack("<I", 8))
    for index in range(count):
        following = len(out) + 18 if index + 1 < count else 0
        out += struct.pack("<HHHIII", 1, raw.WIDTH, LONG, 1, 1, following)
    return bytes(out)


def nested_sub_ifds(depth: int) -> bytes:
    """Each directory has one SubIFD, which again has one SubIFD, and so on."""
    start = 2048
    out = bytearray(lying(sub_ifds=long(start)).ljust(start, b"\0"))
    for _ in range(depth):
        out += struct.pack("<HHHIII", 1, raw.SUB_IFDS, LONG, 1, len(out) + 18, 0)
    return bytes(out)


def counts() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Value counts whose size in bytes overflows, and values of a wrong type."""
    for tag, kind in product(("strip_offsets", "strip_counts", "bits", "color_map"), (LONG, DOUBLE)):
        lie = Field(kind, [8], count=0xFFFFFFFF, offset=8)
        yield f"count-4e9-{tag}-type{kind}", lambda t=tag, f=lie: lying(**{t: f})
    for count in (2**61, 2**63, 2**64 - 1):
        lie = Field(LONG8, [8], count=count, offset=16)
        yield f"count-{count:x}-big", lambda f=lie: lying(big=True, strip_offsets=f, strip_counts=f)
    for kind in (0, 14, 99, 65535):
        yield f"width-of-type-{kind}", lambda k=kind: lying(width=Field(k, [32]))
        yield f"offsets-of-type-{kind}", lambda k=kind: lying(strip_offsets=Field(k, [8]))
    yield "offsets-of-type-byte", lambda: lying(strip_offsets=Field(BYTE, [8]))
    yield "offsets-of-type-double", lambda: lying(strip_offsets=Field(DOUBLE, [8.0]))
    yield "offsets-of-type-ascii", lambda: lying(strip_offsets=Field(raw.ASCII, b"8\0"))
    yield "width-of-count-0", lambda: lying(width=Field(LONG, []))
    yield "values-past-end", lambda: lying(bits=Field(SHORT, [8] * 4, count=4, offset=0x7FFFFFF0), samples=short(4))


def shapes() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Sizes that are zero, huge, or inconsistent."""
    for tag, value in product(("width", "length", "bits", "samples", "rows_per_strip"), (0,)):
        yield f"{tag}-0", lambda t=tag, v=value: lying(**{t: long(v)})
    yield "no-width", lambda: lying(drop=(raw.WIDTH,))
    yield "no-length", lambda: lying(drop=(raw.LENGTH,))
    yield "no-offsets", lambda: lying(strip_offsets=None)
    for side in (2**31 - 1, 2**31, 2**32 - 1):
        yield f"side-{side}-one-strip", lambda s=side: lying(width=long(s), length=long(s))
        yield f"side-{side}-one-tile", lambda s=side: lying_tiles(width=long(s), length=long(s), blocks=1)
        yield f"tile-side-{side}", lambda s=side: lying_tiles((s, s), blocks=1)
        yield f"wide-{side}x1", lambda s=side: lying(width=long(s), length=long(1))
    yield "side-2e40-bigtiff", lambda: lying(big=True, width=Field(LONG8, [2**40]), length=Field(LONG8, [2**40]))
    for value in (3, 65535):
        yield f"bits-{value}", lambda v=value: lying(bits=short(v))
        yield f"samples-{value}", lambda v=value: lying(samples=short(v))
    yield "bits-per-sample-differ", lambda: lying(bits=short(8, 16, 1), samples=short(3))
    yield "bits-per-sample-too-few", lambda: lying(bits=short(8, 8), samples=short(5))
    yield "tile-width-0", lambda: lying_tiles((0, 16))
    yield "tile-length-0", lambda: lying_tiles((16, 0))
    for blocks in (0, 1, 3, 5):
        yield f"tiles-{blocks}-of-4", lambda b=blocks: lying_tiles(blocks=b)
    yield "fewer-counts-than-offsets", lambda: lying_tiles(tile_counts=long(256, 256))
    yield "strips-fewer-than-rows", lambda: lying(rows_per_strip=long(1))
    yield "negative-width", lambda: lying(width=Field(raw.SLONG, [-32]))
    for tag, value in (("planar", 7), ("predictor", 9), ("sample_format", 77), ("compression", 4711), ("fill_order", 9),
                       ("photometric", 999), ("orientation", 0)):  # fmt: skip
        yield f"{tag}-{value}", lambda t=tag, v=value: lying(**{t: short(v)})
    yield "predictor-3-on-bytes", lambda: garbage("deflate", zlib.compress(GRADIENT), predictor=short(3))
    yield "color-map-short", lambda: lying(photometric=short(3), color_map=short(*range(10)))


def blocks() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Blocks at wrong positions or with wrong content."""
    for offset in (0xFFFFFFFF, 0x7FFFFFFF, 1000000):
        yield f"strip-at-{offset:x}", lambda o=offset: lying(strip_offsets=long(o))
    yield "strip-bytes-past-end", lambda: lying(strip_counts=long(0xFFFFFFFF))
    yield "strip-in-header", lambda: lying(strip_offsets=long(0))
    overflow = {"strip_offsets": Field(LONG8, [2**64 - 8]), "strip_counts": Field(LONG8, [1024])}
    yield "offset-plus-count-overflow", lambda: lying(big=True, **overflow)
    for name in CODECS:
        for label, data in (("empty", b"\0"), ("zeros", bytes(500)), ("ones", b"\xff" * 500), ("noise", noise(500))):
            yield f"{name}-{label}", lambda n=name, d=data: garbage(n, d)
    cut = zlib.compress(GRADIENT)
    yield "deflate-cut", lambda: garbage("deflate", cut[: len(cut) // 2])
    yield "deflate-wrong-checksum", lambda: garbage("deflate", cut[:-4] + b"abcd")
    yield "deflate-short", lambda: garbage("deflate", zlib.compress(GRADIENT[:100]))
    yield "deflate-bomb-1GB", lambda: garbage("deflate", zero_deflate(1 << 30))
    yield "zstd-bomb-1GB", lambda: garbage("zstd", zero_zstd(1 << 30))
    yield "lzma-bomb-1GB", lambda: garbage("lzma", zero_xz(1 << 30))
    yield "packbits-bomb", lambda: garbage("packbits", b"\x81\0" * 200000)
    yield "small-file-large-image", one_stream_many_tiles


def garbage(codec: str, data: bytes, **tags: Field) -> bytes:
    """A 32x32 image whose one strip is `data`."""
    return tiff([Directory(raw.image(32, 32, compression=short(CODECS[codec]), **tags), [data])])


def noise(length: int) -> bytes:
    return random.Random(length).randbytes(length)


def zero_deflate(length: int) -> bytes:
    """A valid zlib stream of zeros, a thousandth of the size of its content, composed of one flushed megabyte."""
    step = 1 << 20
    packer = zlib.compressobj(9)
    first = packer.compress(bytes(step)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(step)) + packer.flush(zlib.Z_FULL_FLUSH)
    # A stored, empty last block; the Adler-32 of n zeros is n mod 65521 over 1.
    return first + again * (length // step - 1) + b"\x01\0\0\xff\xff" + struct.pack(">HH", length % 65521, 1)


def zero_zstd(length: int) -> bytes:
    """A Zstandard frame of run-length blocks: 4 bytes for every 128 KiB."""
    block = 1 << 17
    count = length // block
    runs = [struct.pack("<I", block << 3 | 1 << 1 | (index == count - 1))[:3] + b"\0" for index in range(count)]
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x70) + b"".join(runs)


def zero_xz(length: int) -> bytes:
    """An .xz stream of zeros: one LZMA2 chunk that resets the decoder, repeated."""
    step = 1 << 20
    chunk = lzma.compress(bytes(step), lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}])[:-1]
    data = chunk * (length // step) + b"\0"

    def checked(part: bytes) -> bytes:
        return part + struct.pack("<I", zlib.crc32(part))

    def number(value: int) -> bytes:
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    # Block header: 12 bytes, filter LZMA2 (0x21), one property byte: a dictionary of 256 KiB (12).
    block = checked(bytes([2, 0, 0x21, 1, 12, 0, 0, 0])) + data
    index = b"\0\1" + number(len(block)) + number(length)
    index = checked(index + bytes(-len(index) % 4))
    footer = struct.pack("<I", len(index) // 4 - 1) + b"\0\0"
    flags = b"\0\0" + struct.pack("<I", zlib.crc32(b"\0\0"))
    end = struct.pack("<I", zlib.crc32(footer)) + footer + b"YZ"
    return b"\xfd7zXZ\0" + flags + block + bytes(-len(block) % 4) + index + end


def one_stream_many_tiles() -> bytes:
    """About 10 KB that decode to 3.6 GB: every tile is the same megabyte of zeros."""
    side, tile = 60000, 10000
    count = (side // tile) ** 2
    data = zero_deflate(tile * tile)[: 10 * 1024]
    fields = raw.tiled(side, side, (tile, tile), compression=short(DEFLATE))
    fields |= {raw.TILE_OFFSETS: long(*[8] * count), raw.TILE_COUNTS: long(*[len(data)] * count)}
    return tiff([Directory(fields, [data])])


def damaged() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """A valid file truncated at every 64th byte, and with single bits flipped."""
    variants = {"classic": small(), "bigtiff-be": small(order=">", big=True)}
    for name, valid in variants.items():
        for length in range(0, len(valid), 64):
            yield f"cut-{name}-{length}", lambda v=valid, n=length: v[:n]
    rng = random.Random(20)
    for index in range(FLIPS):
        valid = variants["classic" if index % 3 else "bigtiff-be"]
        bits = [rng.randrange(len(valid) * 8) for _ in range(1 + index % 4)]
        yield f"flip-{index}", lambda v=valid, b=bits: flipped(v, b)


def flipped(data: bytes, bits: list[int]) -> bytes:
    out = bytearray(data)
    for bit in bits:
        out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


ZOO: dict[str, Callable[[], bytes]] = dict(
    entry for group in (headers, directories, counts, shapes, blocks, damaged) for entry in group()
)

# No pixel of these files can be read: exit code 0 would mean that Swath invented pixels.
HOPELESS = {
    *(f"first-{n}-bytes" for n in range(9)),
    "zeros", "text", "wrong-magic", "mixed-order-mark", "bigtiff-offset-size-4", "bigtiff-cut-header",
    "ifd-at-0", "ifd-at-4294967295", "ifd-no-entries", "ifd-65535-entries-cut", "bigtiff-2e64-entries",
    "ifd-cycle-without-image", "width-0", "length-0", "samples-0", "no-width", "no-length", "tile-width-0",
    "tile-length-0", "bits-65535", "compression-4711", "strip-at-ffffffff", "strip-at-7fffffff", "deflate-cut",
    "deflate-noise", "zstd-noise", "lzma-noise", "lerc-noise", "webp-noise", "jpeg-noise", "deflate-short",
    "side-2147483648-one-strip", "side-2147483648-one-tile", "side-2e40-bigtiff", "small-file-large-image",
    "offset-plus-count-overflow",
}  # fmt: skip
assert set(ZOO) >= HOPELESS, f"not in the zoo: {HOPELESS - set(ZOO)}"
