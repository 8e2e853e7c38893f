"""A TIFF writer that works byte by byte, for layouts that no library writes and for contradictory files.

The fields of a directory are a dict that maps tag numbers to `Field`. Blocks are byte strings. The writer adds their
offsets and byte counts unless the dict already has these tags.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

BYTE, ASCII, SHORT, LONG, RATIONAL, SBYTE, UNDEFINED = 1, 2, 3, 4, 5, 6, 7
SSHORT, SLONG, SRATIONAL, FLOAT, DOUBLE, IFD = 8, 9, 10, 11, 12, 13
LONG8, SLONG8, IFD8 = 16, 17, 18

FORMAT = {
    BYTE: "B", ASCII: "B", SHORT: "H", LONG: "I", SBYTE: "b", UNDEFINED: "B", SSHORT: "h", SLONG: "i",
    FLOAT: "f", DOUBLE: "d", IFD: "I", LONG8: "Q", SLONG8: "q", IFD8: "Q",
}  # fmt: skip

WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
FILL_ORDER, STRIP_OFFSETS, ORIENTATION, SAMPLES, ROWS_PER_STRIP = 266, 273, 274, 277, 278
STRIP_COUNTS, PLANAR, PREDICTOR, COLOR_MAP = 279, 284, 317, 320
TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_COUNTS, SUB_IFDS = 322, 323, 324, 325, 330
EXTRA_SAMPLES, SAMPLE_FORMAT = 338, 339


@dataclass(frozen=True)
class Field:
    """One tag: its type and values. `count` and `offset` may be set to wrong values; by default they are correct."""

    kind: int
    values: Sequence[float]
    count: int | None = None
    offset: int | None = None


@dataclass
class Directory:
    """One IFD with the blocks it points to.

    `repeat` holds entries that follow the sorted ones, including duplicates.
    """

    fields: dict[int, Field]
    blocks: list[bytes] = field(default_factory=list)
    repeat: list[tuple[int, Field]] = field(default_factory=list)


def short(*values: int) -> Field:
    return Field(SHORT, values)


def long(*values: int) -> Field:
    return Field(LONG, values)


def image(width: int, height: int, bits: int = 8, samples: int = 1, **tags: Field) -> dict[int, Field]:
    """The tags of a plain image in one strip; the keys of `tags` are the names of the constants above, in any case."""
    fields = {
        WIDTH: long(width),
        LENGTH: long(height),
        BITS: short(*[bits] * samples),
        COMPRESSION: short(1),
        PHOTOMETRIC: short(1),
        SAMPLES: short(samples),
        ROWS_PER_STRIP: long(height),
    }
    return fields | {globals()[name.upper()]: value for name, value in tags.items()}


def tiled(width: int, height: int, tile: tuple[int, int], **tags: Field) -> dict[int, Field]:
    """The tags of a tiled image; `tile` is (width, height)."""
    fields = image(width, height, **tags)
    del fields[ROWS_PER_STRIP]
    return {TILE_WIDTH: long(tile[0]), TILE_LENGTH: long(tile[1])} | fields


def tiff(directories: Sequence[Directory], order: str = "<", big: bool = False, next_ifd: int = 0) -> bytes:
    """Returns the bytes of the file. `next_ifd` is the offset that the last directory stores as the next one."""
    mark = b"II" if order == "<" else b"MM"
    if big:
        out = bytearray(mark + struct.pack(order + "HHHQ", 43, 8, 0, 0))
        link_at, offset_kind = 8, LONG8
    else:
        out = bytearray(mark + struct.pack(order + "HI", 42, 0))
        link_at, offset_kind = 4, LONG
    link = order + FORMAT[offset_kind]
    for directory in directories:
        fields = dict(directory.fields)
        offsets = []
        for block in directory.blocks:
            offsets.append(len(out))
            out += block + b"\0" * (len(block) % 2)
        is_tiled = TILE_WIDTH in fields
        fields.setdefault(TILE_OFFSETS if is_tiled else STRIP_OFFSETS, Field(offset_kind, offsets))
        counts = [len(block) for block in directory.blocks]
        fields.setdefault(TILE_COUNTS if is_tiled else STRIP_COUNTS, Field(offset_kind, counts))
        fields = {tag: value for tag, value in fields.items() if value is not None}
        entries = [*sorted(fields.items()), *directory.repeat]
        body = bytearray()
        for tag, value in entries:
            body += entry(out, tag, value, order, big)
        struct.pack_into(link, out, link_at, len(out))
        out += struct.pack(order + ("Q" if big else "H"), len(entries)) + body
        link_at = len(out)
        out += struct.pack(link, next_ifd)
    return bytes(out)


def entry(out: bytearray, tag: int, value: Field, order: str, big: bool) -> bytes:
    """One directory entry; values that do not fit in it are appended to `out`."""
    room, long_form = (8, "Q") if big else (4, "I")
    code = FORMAT.get(value.kind, "B")
    payload = struct.pack(f"{order}{len(value.values)}{code}", *value.values)
    count = len(value.values) if value.count is None else value.count
    if value.offset is not None:
        payload = struct.pack(order + long_form, value.offset)
    elif len(payload) > room:
        at = len(out)
        out += payload + b"\0" * (len(payload) % 2)
        payload = struct.pack(order + long_form, at)
    return struct.pack(f"{order}HH{long_form}", tag, value.kind, count) + payload.ljust(room, b"\0")
