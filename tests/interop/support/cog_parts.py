"""Splits a COG into directories and tiles and assembles it again, correctly or with deliberate errors.

Little-endian files only. `Tiff` patches a file in place; `take_apart` and `assemble` move whole parts.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import field as default
from itertools import zip_longest

from raw import FORMAT, LONG, LONG8, SHORT, STRIP_COUNTS, STRIP_OFFSETS, TILE_COUNTS, TILE_OFFSETS

SUBFILE_TYPE = 254
OFFSETS, COUNTS = (TILE_OFFSETS, STRIP_OFFSETS), (TILE_COUNTS, STRIP_COUNTS)
SIZES = {kind: struct.calcsize("<" + code) for kind, code in FORMAT.items()} | {5: 8, 10: 8}

KEYS = {
    "LAYOUT": "IFDS_BEFORE_DATA",
    "BLOCK_ORDER": "ROW_MAJOR",
    "BLOCK_LEADER": "SIZE_AS_UINT4",
    "BLOCK_TRAILER": "LAST_4_BYTES_REPEATED",
    "KNOWN_INCOMPATIBLE_EDITION": "NO",
}


def ghost(keys: dict[str, str] | None = None, mask: bool = False) -> bytes:
    """GDAL's ghost area; a space follows KNOWN_INCOMPATIBLE_EDITION=NO so that YES fits."""
    keys = dict(KEYS if keys is None else keys)
    if mask:
        keys["MASK_INTERLEAVED_WITH_IMAGERY"] = "YES"
    lines = (f"{key}={value}\n" + (" " if (key, value) == ("KNOWN_INCOMPATIBLE_EDITION", "NO") else "")
             for key, value in keys.items())  # fmt: skip
    text = "".join(lines)
    return f"GDAL_STRUCTURAL_METADATA_SIZE={len(text):06} bytes\n{text}".encode()


@dataclass(frozen=True)
class Entry:
    """One directory entry, and the positions of the entry and its values in the file."""

    tag: int
    kind: int
    count: int
    at: int
    values_at: int


class Tiff:
    """A file that is patched in place."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        assert data[:2] == b"II"
        self.big = data[2] == 43
        self.first_at = 8 if self.big else 4
        self.ifds: list[dict[int, Entry]] = []
        self.ifd_at: list[int] = []
        self.next_at: list[int] = []
        offset = self.number(self.first_at)
        while offset:
            self.ifd_at.append(offset)
            head, size = (8, 20) if self.big else (2, 12)
            (count,) = struct.unpack_from("<Q" if self.big else "<H", data, offset)
            entries = [self._entry(offset + head + i * size) for i in range(count)]
            self.ifds.append({entry.tag: entry for entry in entries})
            self.next_at.append(offset + head + count * size)
            offset = self.number(self.next_at[-1])

    def number(self, at: int) -> int:
        """Reads an offset."""
        return struct.unpack_from("<Q" if self.big else "<I", self.data, at)[0]

    def put(self, at: int, value: int) -> None:
        """Overwrites an offset."""
        struct.pack_into("<Q" if self.big else "<I", self.data, at, value)

    def _entry(self, at: int) -> Entry:
        tag, kind = struct.unpack_from("<HH", self.data, at)
        count, inline_at, room = self.number(at + 4), at + (12 if self.big else 8), 8 if self.big else 4
        inline = count * SIZES[kind] <= room
        return Entry(tag, kind, count, at, inline_at if inline else self.number(inline_at))

    def values(self, ifd: int, tag: int) -> list[int]:
        entry = self.ifds[ifd][tag]
        return list(struct.unpack_from(f"<{entry.count}{FORMAT[entry.kind]}", self.data, entry.values_at))

    def set(self, ifd: int, tag: int, values: Iterable[int]) -> None:
        """Overwrites as many values as are given."""
        entry = self.ifds[ifd][tag]
        values = list(values)
        struct.pack_into(f"<{len(values)}{FORMAT[entry.kind]}", self.data, entry.values_at, *values)

    def payload(self, entry: Entry) -> bytes:
        return bytes(self.data[entry.values_at : entry.values_at + entry.count * SIZES[entry.kind]])


@dataclass
class Part:
    """A directory with its tiles; an empty tile is sparse."""

    fields: dict[int, tuple[int, int, bytes]]
    blocks: list[bytes] = default(default_factory=list)

    @property
    def subfile_type(self) -> int:
        kind = self.fields.get(SUBFILE_TYPE)
        return struct.unpack("<I", kind[2])[0] if kind else 0

    def set(self, tag: int, *values: int, kind: int = SHORT) -> None:
        self.fields[tag] = (kind, len(values), struct.pack(f"<{len(values)}{FORMAT[kind]}", *values))


def take_apart(data: bytes) -> list[Part]:
    """The directories of a file, in the order of the chain."""
    tiff = Tiff(data)
    parts = []
    for i, entries in enumerate(tiff.ifds):
        spans = zip(tiff.values(i, TILE_OFFSETS), tiff.values(i, TILE_COUNTS), strict=True)
        blocks = [data[offset : offset + count] for offset, count in spans]
        fields = {tag: (e.kind, e.count, tiff.payload(e)) for tag, e in entries.items()}
        parts.append(Part(fields, blocks))
    return parts


def gdal_order(parts: list[Part]) -> list[tuple[int, int]]:
    """Pairs (part, tile) in the order of GDAL's COG driver: the smallest level first, each mask tile after its tile."""
    levels = [i for i, part in enumerate(parts) if not part.subfile_type & 4]
    masks = [i for i, part in enumerate(parts) if part.subfile_type & 4]
    order = []
    for level, mask in reversed(list(zip_longest(levels, masks))):
        for tile in range(len(parts[level].blocks)):
            order.append((level, tile))
            if mask is not None:
                order.append((mask, tile))
    return order


@dataclass
class Recipe:
    """How `assemble` lays out a file; the defaults give the layout of GDAL's COG driver."""

    ghost: bytes | None = None
    big: bool = False
    order: list[tuple[int, int]] | None = None
    ifd_order: list[int] | None = None
    """The order in which directories lie in the file; the chain always follows the list of parts."""
    data_first: bool = False
    tables_last: bool = False
    """Put the tables of offsets and sizes behind the tiles."""
    gap: int = 0
    """Zero bytes before the first directory."""
    leader: Callable[[int, int, bytes], bytes] = lambda part, tile, data: struct.pack("<I", len(data))
    trailer: Callable[[int, int, bytes], bytes] = lambda part, tile, data: data[-4:]
    table: Callable[[int, int, list[int]], list[int]] = lambda part, tag, values: values
    """Changes a table of offsets or sizes, its length included."""


def no_bytes(part: int, tile: int, data: bytes) -> bytes:
    """An absent leader or trailer."""
    return b""


def bare(**recipe) -> Recipe:
    """A layout without ghost area, leaders and trailers."""
    return Recipe(**{"ghost": b"", "leader": no_bytes, "trailer": no_bytes, **recipe})


def assemble(parts: list[Part], recipe: Recipe | None = None) -> bytes:
    """Returns the bytes of the file."""
    recipe = recipe or Recipe()
    masks = any(part.subfile_type & 4 for part in parts)
    order = gdal_order(parts) if recipe.order is None else recipe.order
    # The first pass determines the offsets; the second pass writes them, and nothing moves.
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    offsets: dict[int, int] = {}
    tables: dict[tuple[int, int], int] = {}
    for _ in range(2):
        out = bytearray(b"II" + (struct.pack("<HHHQ", 43, 8, 0, 0) if recipe.big else struct.pack("<HI", 42, 0)))
        out += ghost(mask=masks) if recipe.ghost is None else recipe.ghost
        out += bytes(recipe.gap)
        steps = [_directories, _tables, _data]
        if recipe.data_first:
            steps = [_data, _directories, _tables]
        elif recipe.tables_last:
            steps = [_directories, _data, _tables]
        for step in steps:
            step(out, parts, recipe, order, spans, offsets, tables)
        struct.pack_into("<Q" if recipe.big else "<I", out, 8 if recipe.big else 4, offsets[0])
    return bytes(out)


def _align(out: bytearray) -> None:
    out += bytes(len(out) % 2)


def _directories(out, parts, recipe, _order, spans, offsets, tables) -> None:
    link, room = ("<Q", 8) if recipe.big else ("<I", 4)
    for i in range(len(parts)) if recipe.ifd_order is None else recipe.ifd_order:
        _align(out)
        offsets[i] = len(out)
        fields = parts[i].fields
        entry_bytes = 20 if recipe.big else 12
        body = bytearray(struct.pack("<Q" if recipe.big else "<H", len(fields)))
        values_at = len(out) + len(body) + len(fields) * entry_bytes + room
        values = bytearray()
        for tag, (kind, count, payload) in sorted(fields.items()):
            outside = None
            if tag in OFFSETS + COUNTS:
                kind, count, outside, payload = _table(parts, recipe, i, tag, spans, tables)
            elif len(payload) > room:
                outside = values_at + len(values)
                values += payload + bytes(len(payload) % 2)
            if outside is not None:
                payload = struct.pack(link, outside)
            body += struct.pack("<HH", tag, kind) + struct.pack(link, count) + payload.ljust(room, b"\0")
        next_ifd = offsets.get(i + 1, 0) if i + 1 < len(parts) else 0
        out += body + struct.pack(link, next_ifd) + values


def _table(parts, recipe, i, tag, spans, tables) -> tuple[int, int, int | None, bytes]:
    column = 0 if tag in OFFSETS else 1
    kind, code, room = (LONG8, "Q", 8) if recipe.big else (LONG, "I", 4)
    numbers = [spans.get((i, tile), (0, 0))[column] for tile in range(len(parts[i].blocks))]
    numbers = recipe.table(i, tag, numbers)
    payload = struct.pack(f"<{len(numbers)}{code}", *numbers)
    outside = None if len(payload) <= room else tables.get((i, tag), 0)
    return kind, len(numbers), outside, payload


def _tables(out, parts, recipe, _order, spans, _offsets, tables) -> None:
    for i in range(len(parts)):
        for tag in sorted(parts[i].fields.keys() & {*OFFSETS, *COUNTS}):
            _, _, outside, payload = _table(parts, recipe, i, tag, spans, tables)
            if outside is not None:
                _align(out)
                tables[i, tag] = len(out)
                out += payload


def _data(out, parts, recipe, order, spans, _offsets, _tables) -> None:
    for part, tile in order:
        data = parts[part].blocks[tile]
        if not data:
            spans[part, tile] = (0, 0)
            continue
        out += recipe.leader(part, tile, data)
        spans[part, tile] = (len(out), len(data))
        out += data + recipe.trailer(part, tile, data)
