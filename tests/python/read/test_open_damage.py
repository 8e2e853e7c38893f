"""Files that are broken or exceed a limit: an error that names the location, never zeros."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import tifffile

from swath import CorruptGeoTIFFError, open_geotiff

PIXELS = np.random.default_rng(5).integers(0, 60_000, (3, 40, 40)).astype("u2")
OFFSETS, COUNTS = (324, 273), (325, 279)


def written(path: Path, tile: tuple[int, int] | None, **options: object) -> str:
    rows = None if tile else 16
    tifffile.imwrite(path, photometric="minisblack", tile=tile, rowsperstrip=rows, metadata=None, **options)
    return str(path)


def shorten(path: str, tags: tuple[int, ...], count: int) -> None:
    """Shortens the tables of a classic little-endian TIFF to `count` entries of 4 bytes; `count` must be more than
    one.
    """
    data = bytearray(Path(path).read_bytes())
    (ifd,) = struct.unpack_from("<I", data, 4)
    (entries,) = struct.unpack_from("<H", data, ifd)
    for entry in range(ifd + 2, ifd + 2 + 12 * entries, 12):
        tag, _, before = struct.unpack_from("<HHI", data, entry)
        if tag in tags:
            assert 1 < count < before
            struct.pack_into("<I", data, entry + 4, count)
    Path(path).write_bytes(data)


@pytest.mark.parametrize("reading", [{}, {"band": 0}, {"chunks": 16}, {"window": (0, 0, 4, 4)}], ids=str)
@pytest.mark.parametrize("tags", [OFFSETS, COUNTS, OFFSETS + COUNTS], ids=["offsets", "counts", "both"])
@pytest.mark.parametrize("tile", [(16, 16), None], ids=["tiles", "strips"])
def test_planar_table_without_the_last_bands_is_an_error_and_not_zeros(
    tmp_path: Path, tile: tuple[int, int] | None, tags: tuple[int, ...], reading: dict[str, object]
) -> None:
    path = written(tmp_path / "a.tif", tile, data=PIXELS, planarconfig="separate")
    np.testing.assert_array_equal(open_geotiff(path).values, np.moveaxis(PIXELS, 0, -1))
    shorten(path, tags, 3)
    blocks = 27 if tile else 9
    with pytest.raises(CorruptGeoTIFFError, match=rf"planar image has {blocks} blocks.*only 3 entries") as caught:
        open_geotiff(path, **reading)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("reading", [{}, {"chunks": 16}, {"window": (0, 0, 4, 4)}], ids=str)
@pytest.mark.parametrize(
    "tile, block", [((16, 16), r"tile \([0-9], [0-9]\)"), (None, "strip [0-9]")], ids=["tiles", "strips"]
)
def test_too_large_block_names_the_variable_that_lets_it_pass(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tile: tuple[int, int] | None,
    block: str,
    reading: dict[str, object],
) -> None:
    path = written(tmp_path / "a.tif", tile, data=PIXELS[0], compression="zlib")
    monkeypatch.setenv("SWATH_MAX_TILE_BYTES", "100")
    with pytest.raises(ValueError, match=rf"{block} has [0-9]+ compressed bytes.*SWATH_MAX_TILE_BYTES"):
        open_geotiff(path, **reading).compute()
    # The file is still open: the current value of the variable counts.
    for limit in ("5000", "0", "-1", "many"):
        monkeypatch.setenv("SWATH_MAX_TILE_BYTES", limit)
        np.testing.assert_array_equal(
            open_geotiff(path, **reading).values, PIXELS[0] if "window" not in reading else PIXELS[0, :4, :4]
        )
