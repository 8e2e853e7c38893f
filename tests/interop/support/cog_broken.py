"""Files that break a rule of the COG layout on purpose, each with the rule that `swath validate` must name."""

import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import rasterio
import tifffile
from rasterio.enums import Resampling

from cog_cases import TILE, TILED, Write, array, cog, gtiff, rebuilt
from cog_parts import KEYS, Part, Recipe, Tiff, assemble, bare, gdal_order, ghost, no_bytes
from raw import LONG, ROWS_PER_STRIP, STRIP_COUNTS, STRIP_OFFSETS, TILE_COUNTS, TILE_LENGTH, TILE_OFFSETS, TILE_WIDTH

Order = list[tuple[int, int]]
GEO_TAGS = (33550, 33922, 34735, 34737)


def patched(change: Callable[[Tiff], None], bands: int = 1, **options) -> Write:
    """A COG of GDAL with some bytes changed."""

    def write(path: Path) -> None:
        cog(path, array(bands), **options)
        tiff = Tiff(path.read_bytes())
        change(tiff)
        path.write_bytes(tiff.data)

    return write


def laid_out(bands: int = 1, mask: bool = False, recipe: Recipe | None = None,
             order: Callable[[list[Part]], Order] | None = None, **changes) -> Write:  # fmt: skip
    """A COG of GDAL in another layout; `order` returns the order of the tiles."""

    def change(parts: list[Part]) -> bytes:
        made = {"order": order(parts)} if order else {}
        return assemble(parts, replace(recipe or Recipe(), **changes, **made))

    return rebuilt(change, bands, mask=mask)


def keys(**changes: str | None) -> bytes:
    """The ghost area with some keys changed or, with None, removed."""
    changed = {**KEYS, **changes}
    return ghost({key: value for key, value in changed.items() if value is not None})


def retyped(old: bytes, new: bytes) -> Write:
    """A COG whose ghost area is changed in place."""

    def change(tiff: Tiff) -> None:
        assert len(old) == len(new) and tiff.data.count(old) == 1
        tiff.data[:] = tiff.data.replace(old, new)

    return patched(change)


def bad_leader(ifd: int, tile: int, difference: int, bands: int = 1, **options) -> Write:
    def change(tiff: Tiff) -> None:
        size = tiff.values(ifd, TILE_COUNTS)[tile] + difference
        struct.pack_into("<I", tiff.data, tiff.values(ifd, TILE_OFFSETS)[tile] - 4, size)

    return patched(change, bands, **options)


def bad_trailer(ifd: int, tile: int, bands: int = 1, **options) -> Write:
    def change(tiff: Tiff) -> None:
        tiff.data[tiff.values(ifd, TILE_OFFSETS)[tile] + tiff.values(ifd, TILE_COUNTS)[tile]] ^= 0xFF

    return patched(change, bands, **options)


def bad_table(tag: int, tile: int, value: Callable[[Tiff, list[int]], int], ifd: int = 0) -> Write:
    def change(tiff: Tiff) -> None:
        values = tiff.values(ifd, tag)
        values[tile] = value(tiff, values)
        tiff.set(ifd, tag, values)

    return patched(change)


def swapped_entries(ifd: int, a: int, b: int, bands: int = 1, **options) -> Write:
    """Two tiles exchanged in the tables of offsets and sizes."""

    def change(tiff: Tiff) -> None:
        for tag in (TILE_OFFSETS, TILE_COUNTS):
            values = tiff.values(ifd, tag)
            values[a], values[b] = values[b], values[a]
            tiff.set(ifd, tag, values)

    return patched(change, bands, **options)


def swapped(a: tuple[int, int], b: tuple[int, int]) -> Callable[[list[Part]], Order]:
    """Two tiles exchanged in the file."""

    def order(parts: list[Part]) -> Order:
        tiles = gdal_order(parts)
        i, j = tiles.index(a), tiles.index(b)
        tiles[i], tiles[j] = tiles[j], tiles[i]
        return tiles

    return order


def by_part(*order: int) -> Callable[[list[Part]], Order]:
    """Places the tiles of one directory after those of another."""
    return lambda parts: sorted(gdal_order(parts), key=lambda item: order.index(item[0]))


def moved(tile: tuple[int, int], to_end: bool) -> Callable[[list[Part]], Order]:
    """Moves one tile before or behind all others."""

    def order(parts: list[Part]) -> Order:
        others = [item for item in gdal_order(parts) if item != tile]
        return [*others, tile] if to_end else [tile, *others]

    return order


def chained(*order: int, bands: int = 1, mask: bool = False) -> Write:
    """Removes directories or changes their order."""
    return rebuilt(lambda parts: assemble([parts[i] for i in order]), bands, mask=mask)


def striped(index: int, size: tuple[int, int] = (700, 600)) -> Write:
    """A COG with one level in a single strip."""

    def change(parts: list[Part]) -> bytes:
        part = parts[index]
        for tag in (TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_COUNTS):
            del part.fields[tag]
        part.set(ROWS_PER_STRIP, 4096)
        part.set(STRIP_OFFSETS, 0, kind=LONG)
        part.set(STRIP_COUNTS, 0, kind=LONG)
        part.blocks = [zlib.compress(bytes(4_000_000))]
        return assemble(parts)

    return rebuilt(change, size=size)


def larger_overview(parts: list[Part]) -> bytes:
    parts[2].set(256, 600, kind=LONG)
    parts[2].set(257, 350, kind=LONG)
    return assemble(parts)


def same_size_overview(parts: list[Part]) -> bytes:
    copy = Part({**parts[0].fields, 254: (LONG, 1, struct.pack("<I", 1))}, parts[0].blocks)
    return assemble([parts[0], copy, *parts[1:]])


def georeferenced_overview(parts: list[Part]) -> bytes:
    parts[1].fields |= {tag: parts[0].fields[tag] for tag in GEO_TAGS if tag in parts[0].fields}
    return assemble(parts)


def without_tag(index: int, tag: int) -> Write:
    def change(parts: list[Part]) -> bytes:
        del parts[index].fields[tag]
        return assemble(parts)

    return rebuilt(change)


def first_tiles_sparse(parts: list[Part]) -> Order:
    """A COG in which the first tile of each level is not stored and the full resolution comes first."""
    for part in parts:
        part.blocks[0] = b""
    return sorted(gdal_order(parts), key=lambda item: item[0])


def table_of_main(tag: int, change: Callable[[list[int]], list[int]], recipe: Recipe | None = None) -> Write:
    return laid_out(recipe=recipe, table=lambda part, t, values: change(values) if (part, t) == (0, tag) else values)


def other_tile(i: int, value: Callable[[list[int]], int]) -> Callable[[list[int]], list[int]]:
    return lambda values: [*values[:i], value(values), *values[i + 1 :]]


def shared(parts: list[Part]) -> bytes:
    """Two tiles that share the same bytes."""
    twice = lambda part, tag, values: [*values[:3], values[2], *values[4:]] if part == 0 else values  # noqa: E731
    return assemble(parts, Recipe(table=twice))


def cut(count: int) -> Write:
    def write(path: Path) -> None:
        cog(path)
        path.write_bytes(path.read_bytes()[:-count])

    return write


def edited(change: Callable[[rasterio.DatasetBase], None], **options) -> Write:
    """A COG after a change by GDAL."""

    def write(path: Path) -> None:
        cog(path, **options)
        options_of_open = {"ignore_cog_layout_break": "YES"}
        with rasterio.Env(GDAL_TIFF_OVR_BLOCKSIZE=TILE), rasterio.open(path, "r+", **options_of_open) as out:
            change(out)

    return write


def with_outer_overviews(**options) -> Write:
    """A COG with an .ovr file."""

    def write(path: Path) -> None:
        cog(path, **options)
        other = path.with_name("other.tif")
        gtiff(other, overviews=(2, 4), external=True, **TILED)
        other.with_name("other.tif.ovr").rename(path.with_name(path.name + ".ovr"))
        other.unlink()

    return write


def with_outer_mask(path: Path) -> None:
    cog(path)
    mask = path.with_name(path.name + ".msk")
    gtiff(mask, (array() > 90) * np.uint8(255), nbits=1, **TILED)
    with rasterio.open(mask, "r+") as out:
        out.update_tags(INTERNAL_MASK_FLAGS_1="2")


def sub_ifds(path: Path) -> None:
    """Overviews as SubIFDs, as in OME-TIFF."""
    pixels = array()[0]
    options = {"tile": (TILE, TILE), "photometric": "minisblack", "compression": "deflate"}
    with tifffile.TiffWriter(path) as tif:
        tif.write(pixels, subifds=2, **options)
        for factor in (2, 4):
            tif.write(np.ascontiguousarray(pixels[::factor, ::factor]), subfiletype=1, **options)


def mask_ghost(*names: str) -> bytes:
    return ghost({name: KEYS[name] for name in ("LAYOUT", *names)}, mask=True)


def masks_last(parts: list[Part]) -> Order:
    """Level by level, all tiles of the image and then all tiles of its mask."""
    levels = len(parts) // 2
    order = [part for level in reversed(range(levels)) for part in level_parts(level, levels)]
    return by_part(*order)(parts)


def level_parts(level: int, levels: int) -> tuple[int, int]:
    """The directories of a level and its mask: image, mask, overviews, masks of overviews."""
    return (0, 1) if level == 0 else (1 + level, levels + level)


def next_ifd_outside(tiff: Tiff) -> None:
    tiff.put(tiff.next_at[0], len(tiff.data) + 10)


def cycle(tiff: Tiff) -> None:
    tiff.put(tiff.next_at[-1], tiff.ifd_at[0])


BROKEN: dict[str, tuple[str, Write]] = {
    # Files of other tools.
    "gtiff-striped": ("tiled", gtiff),
    "gtiff-striped-wide": ("tiled", lambda path: gtiff(path, array(1, (700, 1200)))),
    "gtiff-striped-513-wide": ("tiled", lambda path: gtiff(path, array(1, (10, 513)))),
    "gtiff-striped-1025-wide": ("tiled", lambda path: gtiff(path, array(1, (10, 1025)))),
    "gtiff-striped-513-high": ("tiled", lambda path: gtiff(path, array(1, (513, 10)))),
    "gtiff-striped-overviews": ("tiled", lambda path: gtiff(path, array(1, (1200, 1100)), overviews=(2, 4))),
    "gtiff-striped-small": ("tiled-small", lambda path: gtiff(path, array(1, (300, 300)))),
    "gtiff-tiled": ("overviews", lambda path: gtiff(path, **TILED)),
    "gtiff-tiled-513-high": ("overviews", lambda path: gtiff(path, array(1, (513, 10)), **TILED)),
    "gtiff-tiled-overviews": ("data-order", lambda path: gtiff(path, overviews=(2, 4), **TILED)),
    "gtiff-mask": ("data-order", lambda path: gtiff(path, array(3), overviews=(2, 4), mask=True, **TILED)),
    "gtiff-external": ("external-overviews", lambda path: gtiff(path, overviews=(2, 4), external=True, **TILED)),
    "gtiff-rectangular": ("square-tiles", lambda path: gtiff(path, array(1, (300, 300)), tiled=True, blockxsize=64,
                                                             blockysize=128)),
    "tifffile-sub-ifds": ("data-order", sub_ifds),
    "cog-without-overviews": ("overviews", lambda path: cog(path, overviews="NONE")),
    "cog-tile-of-1024": ("overviews", lambda path: cog(path, array(1, (600, 600)), blocksize=1024)),
    "cog-external": ("external-overviews", with_outer_overviews(overviews="NONE")),
    "cog-external-besides": ("external-overviews", with_outer_overviews()),
    "cog-external-mask": ("external-mask", with_outer_mask),
    "cog-overviews-added": ("edition", edited(lambda out: out.build_overviews([2, 4], Resampling.nearest),
                                              overviews="NONE")),
    "cog-pixels-changed": ("edition", edited(lambda out: out.write(255 - array()))),
    "cog-tags-changed": ("edition", edited(lambda out: out.update_tags(NOTE="x" * 500))),
    "cog-bigtiff": ("bigtiff", lambda path: cog(path, bigtiff="YES")),
    "cog-odd-tiles": ("tile-size", lambda path: cog(path, blocksize=208)),
    "cog-without-place": ("georeferenced", lambda path: cog(path, georef=False)),
    # The ghost area.
    "edition": ("edition", laid_out(ghost=keys(KNOWN_INCOMPATIBLE_EDITION="YES"))),
    "edition-patched": ("edition", retyped(b"KNOWN_INCOMPATIBLE_EDITION=NO\n ", b"KNOWN_INCOMPATIBLE_EDITION=YES\n")),
    "edition-alone": ("edition", laid_out(recipe=bare(ghost=ghost({"KNOWN_INCOMPATIBLE_EDITION": "YES"})))),
    "edition-maybe": ("ghost-value", laid_out(ghost=keys(KNOWN_INCOMPATIBLE_EDITION="MAYBE"))),
    "layout-other": ("ghost-value", retyped(b"IFDS_BEFORE_DATA", b"DATA_BEFORE_IFDS")),
    "layout-empty": ("ghost-value", laid_out(ghost=keys(LAYOUT=""))),
    "layout-missing": ("ghost-value", laid_out(ghost=keys(LAYOUT=None))),
    "order-other": ("ghost-value", retyped(b"ROW_MAJOR", b"COL_MAJOR")),
    "leader-other": ("ghost-value", retyped(b"SIZE_AS_UINT4", b"SIZE_AS_UINT8")),
    "trailer-other": ("ghost-value", retyped(b"LAST_4_BYTES", b"LAST_8_BYTES")),
    "interleave-other": ("ghost-value", laid_out(ghost=keys(INTERLEAVE="DIAGONAL"))),
    "unknown-key": ("ghost-key", laid_out(ghost=keys(COLOUR="BLUE"))),
    "line-without-key": ("ghost-key", laid_out(ghost=b"GDAL_STRUCTURAL_METADATA_SIZE=000012 bytes\nhello world\n")),
    "line-not-text": ("ghost-key", laid_out(ghost=b"GDAL_STRUCTURAL_METADATA_SIZE=000012 bytes\nhe\xffl\0 world\n")),
    "ghost-size-long": ("first-ifd", retyped(b"SIZE=000140", b"SIZE=000142")),
    "ghost-size-short": ("first-ifd", retyped(b"SIZE=000140", b"SIZE=000100")),
    "ghost-size-huge": ("ghost-syntax", retyped(b"SIZE=000140", b"SIZE=999999")),
    "ghost-size-letters": ("ghost-syntax", retyped(b"SIZE=000140", b"SIZE=OOO140")),
    "ghost-word": ("first-ifd", retyped(b"GDAL_STRUCTURAL_METADATA", b"GDAL_STRUCTURAL_METADATE")),
    "gap-before-first-ifd": ("first-ifd", laid_out(gap=100)),
    "gap-without-ghost": ("first-ifd", laid_out(recipe=bare(gap=100))),
    "mask-declared": ("mask-declared", laid_out(ghost=ghost(mask=True))),
    # Leaders and trailers.
    "leader-of-first-tile": ("tile-leader", bad_leader(0, 0, 1)),
    "leader-of-a-tile": ("tile-leader", bad_leader(0, 17, -3)),
    "leader-of-last-tile": ("tile-leader", bad_leader(0, -1, 100)),
    "leader-of-overview": ("tile-leader", bad_leader(1, 3, 1)),
    "leader-of-mask": ("tile-leader", bad_leader(1, 3, 1, 3, mask=True)),
    "leader-of-bigtiff": ("tile-leader", bad_leader(0, 3, 1, bigtiff="YES")),
    "leader-of-second-band": ("tile-leader", bad_leader(0, 40, 1, 3, interleave="BAND")),
    "leaders-missing": ("tile-leader", laid_out(leader=no_bytes)),
    "leaders-big-endian": ("tile-leader", laid_out(leader=lambda part, tile, data: struct.pack(">I", len(data)))),
    "leaders-wrong-without-trailers": ("tile-leader", laid_out(
        ghost=keys(BLOCK_TRAILER=None), trailer=no_bytes, leader=lambda part, tile, data: b"abcd")),
    "trailer-of-first-tile": ("tile-trailer", bad_trailer(0, 0)),
    "trailer-of-a-tile": ("tile-trailer", bad_trailer(0, 17)),
    "trailer-of-last-tile": ("tile-trailer", bad_trailer(0, -1)),
    "trailer-of-overview": ("tile-trailer", bad_trailer(2, 1)),
    "trailer-of-mask": ("tile-trailer", bad_trailer(1, 3, 3, mask=True)),
    "trailers-missing": ("tile-trailer", laid_out(trailer=no_bytes)),
    "trailers-wrong-without-leaders": ("tile-trailer", laid_out(
        ghost=keys(BLOCK_LEADER=None), leader=no_bytes, trailer=lambda part, tile, data: b"abcd")),
    "both-missing": ("tile-leader", laid_out(leader=no_bytes, trailer=no_bytes)),
    # The order of tiles.
    "tiles-swapped-in-file": ("tile-order", laid_out(order=swapped((0, 4), (0, 9)))),
    "tiles-swapped-in-table": ("tile-order", swapped_entries(0, 4, 5)),
    "tiles-swapped-in-bigtiff": ("tile-order", swapped_entries(0, 4, 5, bigtiff="YES")),
    "tiles-swapped-without-leaders": ("tile-order", laid_out(
        recipe=bare(ghost=keys(BLOCK_LEADER=None, BLOCK_TRAILER=None)), order=swapped((0, 4), (0, 9)))),
    "tiles-of-overview-swapped": ("tile-order", laid_out(order=swapped((1, 2), (1, 3)))),
    "tiles-of-mask-swapped": ("tile-order", laid_out(3, True, ghost=ghost(), order=swapped((1, 4), (1, 9)))),
    "tiles-of-second-band-swapped": ("tile-order", swapped_entries(0, 40, 41, 3, interleave="BAND")),
    "tile-of-full-resolution-first": ("tile-order", laid_out(order=moved((0, 5), to_end=False))),
    "tile-of-overview-last": ("tile-order", laid_out(order=moved((1, 7), to_end=True))),
    "tile-of-full-resolution-first-without-ghost": ("data-apart", laid_out(
        recipe=bare(), order=moved((0, 5), to_end=False))),
    # The order of levels.
    "full-resolution-first": ("data-order", laid_out(order=by_part(0, 1, 2, 3))),
    "full-resolution-first-without-ghost": ("data-order", laid_out(recipe=bare(), order=by_part(0, 1, 2, 3))),
    "full-resolution-first-and-sparse": ("data-order", laid_out(order=first_tiles_sparse)),
    "full-resolution-second": ("data-order", laid_out(order=by_part(3, 0, 2, 1))),
    "full-resolution-third": ("data-order", laid_out(order=by_part(3, 2, 0, 1))),
    "overviews-swapped-in-file": ("data-order", laid_out(order=by_part(3, 1, 2, 0))),
    # Directories.
    "ifds-after-data": ("ifds-before-data", laid_out(data_first=True)),
    "ifds-after-data-without-ghost": ("ifds-before-data", laid_out(recipe=bare(data_first=True))),
    "tables-after-data": ("values-before-data", laid_out(tables_last=True)),
    "ifds-swapped-in-file": ("ifd-offsets", laid_out(ifd_order=[0, 2, 1, 3])),
    "main-ifd-last-in-file": ("ifd-offsets", laid_out(ifd_order=[1, 2, 3, 0])),
    "ifd-of-mask-last-in-file": ("ifd-order", laid_out(3, True, ifd_order=[0, 2, 3, 4, 7, 6, 5, 1])),
    "ifd-of-mask-after-overviews": ("ifd-order", chained(0, 2, 3, 4, 1, 5, 6, 7, bands=3, mask=True)),
    "ifds-of-masks-between-overviews": ("ifd-order", chained(0, 1, 2, 5, 3, 6, 4, 7, bands=3, mask=True)),
    "two-pages": ("one-image", rebuilt(lambda parts: assemble([*parts, Part(dict(parts[0].fields), parts[0].blocks)]))),
    "next-ifd-outside": ("ifd-chain", patched(next_ifd_outside)),
    "ifd-cycle": ("ifd-chain", patched(cycle)),
    # Overviews and masks.
    "overviews-small-to-large": ("overview-size", chained(0, 3, 2, 1)),
    "overview-larger": ("overview-size", rebuilt(larger_overview)),
    "overview-of-the-same-size": ("overview-size", rebuilt(same_size_overview)),
    "overview-striped": ("tiled-small", striped(1)),
    "overview-striped-700": ("tiled", striped(1, (700, 1400))),
    "overview-striped-1200": ("tiled", striped(1, (700, 2400))),
    "overview-georeferenced": ("overview-georeference", rebuilt(georeferenced_overview)),
    "factor-16": ("overview-factor", rebuilt(lambda parts: assemble([parts[0], parts[-1]]), size=(1500, 1300),
                                             overview_count=4)),
    "last-overview-left-out": ("last-overview", chained(0, 1)),
    "mask-without-overviews": ("mask-overviews", chained(0, 1, 2, 3, 4, bands=3, mask=True)),
    "mask-apart": ("mask-interleaved", laid_out(3, True, order=masks_last)),
    "mask-apart-without-leaders": ("mask-interleaved", laid_out(
        3, True, recipe=bare(ghost=mask_ghost("BLOCK_ORDER")), order=masks_last)),
    "mask-before-image": ("mask-interleaved", laid_out(3, True, order=swapped((0, 3), (1, 3)))),
    # Blocks.
    "offset-beyond-end": ("block-inside", bad_table(TILE_OFFSETS, 3, lambda tiff, _: len(tiff.data) + 1000)),
    "size-beyond-end": ("block-inside", bad_table(TILE_COUNTS, -1, lambda _, values: values[-1] + 5000)),
    "truncated": ("block-inside", cut(2000)),
    "truncated-tiles": ("block-inside", cut(50_000)),
    "truncated-trailer": ("tile-trailer", cut(2)),
    "size-one-too-many": ("tile-leader", bad_table(TILE_COUNTS, 3, lambda _, values: values[3] + 1)),
    "offset-one-too-many": ("tile-trailer", bad_table(TILE_OFFSETS, 3, lambda _, values: values[3] + 1)),
    "tile-on-tile": ("block-overlap", table_of_main(
        TILE_OFFSETS, other_tile(3, lambda values: max(values[3] - 10, 8)), bare())),
    "tile-on-tile-with-leaders": ("block-overlap", bad_table(TILE_OFFSETS, 3, lambda _, values: values[2])),
    "tile-on-ifd": ("block-overlap", table_of_main(TILE_OFFSETS, other_tile(3, lambda values: 8), bare())),
    "tile-on-ifd-with-leaders": ("block-overlap", bad_table(TILE_OFFSETS, 0, lambda tiff, _: tiff.ifd_at[0])),
    "tiles-shared": ("block-shared", rebuilt(shared)),
    "offset-without-size": ("block-sparse", bad_table(TILE_COUNTS, 3, lambda *_: 0)),
    "size-without-offset": ("block-sparse", bad_table(TILE_OFFSETS, 3, lambda *_: 0)),
    "offsets-short": ("block-table", table_of_main(TILE_OFFSETS, lambda values: values[:-2])),
    "sizes-short": ("block-table", table_of_main(TILE_COUNTS, lambda values: values[:-2])),
    "sizes-long": ("block-table", table_of_main(TILE_COUNTS, lambda values: [*values, values[-1]])),
    "sizes-missing": ("block-table", without_tag(0, TILE_COUNTS)),
    "sizes-missing-in-overview": ("block-table", without_tag(1, TILE_COUNTS)),
    "width-missing-in-overview": ("readable", without_tag(1, 256)),
}  # fmt: skip


def not_a_tiff(path: Path) -> None:
    path.write_bytes(b"GIF89a" + bytes(100))


def first_ifd_outside(tiff: Tiff) -> None:
    tiff.put(tiff.first_at, len(tiff.data) + 10)


UNREADABLE: dict[str, Write] = {
    "not-a-tiff": not_a_tiff,
    "empty": lambda path: path.write_bytes(b""),
    "header-only": lambda path: path.write_bytes(b"II*\0\x08\0\0\0"),
    "first-ifd-outside": patched(first_ifd_outside),
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
}
