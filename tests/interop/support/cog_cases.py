"""Valid COGs: files from GDAL's COG driver, and files of other writers that satisfy the same rules."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import rasterio
from rasterio import Affine
from rasterio.enums import Resampling

from cog_parts import Part, Recipe, assemble, bare, take_apart
from pixels import photo

Write = Callable[[Path], None]

UTM = {"crs": "EPSG:32633", "transform": Affine(10, 0, 500000, 0, -10, 5100000)}
TILE = 128
TILED = {"tiled": True, "blockxsize": TILE, "blockysize": TILE}
SIZE = (700, 600)


def array(bands: int = 1, size: tuple[int, int] = SIZE, dtype: str = "uint8") -> np.ndarray:
    return photo("cog", bands, *size).astype(dtype)


def sparse_array(bands: int = 1) -> np.ndarray:
    """Pixels with tiles that are empty at every level."""
    pixels = array(bands)
    pixels[:, 256:, :512] = 0
    return pixels


def cog(path: Path, pixels: np.ndarray | None = None, mask: bool = False, georef: bool = True, **options) -> None:
    """A file written by GDAL's COG driver."""
    pixels = array() if pixels is None else pixels
    bands, height, width = pixels.shape
    shape = {"count": bands, "height": height, "width": width, "dtype": pixels.dtype}
    options = {"blocksize": TILE, "compress": "deflate", **(UTM if georef else {}), **options}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "w", driver="COG", **shape, **options) as out:
        out.write(pixels)
        if mask:
            out.write_mask(pixels[0] > 90)


def gtiff(
    path: Path,
    pixels: np.ndarray | None = None,
    overviews: tuple[int, ...] = (),
    mask: bool = False,
    external: bool = False,
    **options,
) -> None:
    """A file written by GDAL's GTiff driver, with overviews added afterwards."""
    pixels = array() if pixels is None else pixels
    bands, height, width = pixels.shape
    shape = {"count": bands, "height": height, "width": width, "dtype": pixels.dtype}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True, TIFF_USE_OVR=external, GDAL_TIFF_OVR_BLOCKSIZE=TILE):
        with rasterio.open(path, "w", driver="GTiff", **shape, **UTM, **{"compress": "deflate", **options}) as out:
            out.write(pixels)
            if mask:
                out.write_mask(pixels[0] > 90)
        if overviews:
            with rasterio.open(path, "r+") as out:
                out.build_overviews(list(overviews), Resampling.nearest)


def rebuilt(change: Callable[[list[Part]], bytes], bands: int = 1, size: tuple[int, int] = SIZE, **options) -> Write:
    """A COG of GDAL, split into parts, changed by `change` and assembled again."""

    def write(path: Path) -> None:
        cog(path, array(bands, size), **options)
        path.write_bytes(change(take_apart(path.read_bytes())))

    return write


VALID: dict[str, Write] = {
    "default": cog,
    "codec-none": lambda path: cog(path, compress="none"),
    "codec-lzw": lambda path: cog(path, compress="lzw"),
    "codec-zstd": lambda path: cog(path, compress="zstd"),
    "codec-lzma": lambda path: cog(path, compress="lzma"),
    "codec-lerc": lambda path: cog(path, compress="lerc"),
    "codec-lerc-deflate": lambda path: cog(path, compress="lerc_deflate"),
    "codec-jpeg": lambda path: cog(path, array(3), compress="jpeg"),
    "codec-webp": lambda path: cog(path, array(3), compress="webp"),
    "predictor": lambda path: cog(path, array(1, dtype="uint16"), predictor="yes"),
    "float": lambda path: cog(path, array(1, dtype="float32"), predictor="yes", nodata=float("nan")),
    "nodata": lambda path: cog(path, nodata=7),
    "bands": lambda path: cog(path, array(5)),
    "mask": lambda path: cog(path, array(3), mask=True),
    "mask-jpeg": lambda path: cog(path, array(3), mask=True, compress="jpeg"),
    "mask-sparse": lambda path: cog(path, sparse_array(3), mask=True, sparse_ok="TRUE"),
    "planar": lambda path: cog(path, array(3), interleave="BAND"),
    "planar-by-tile": lambda path: cog(path, array(3), interleave="TILE"),
    "planar-mask": lambda path: cog(path, array(3), mask=True, interleave="BAND"),
    "planar-by-tile-mask": lambda path: cog(path, array(3), mask=True, interleave="TILE"),
    "planar-sparse": lambda path: cog(path, sparse_array(3), interleave="BAND", sparse_ok="TRUE"),
    "bigtiff": lambda path: cog(path, bigtiff="YES"),
    "bigtiff-mask": lambda path: cog(path, array(3), mask=True, bigtiff="YES"),
    "sparse": lambda path: cog(path, sparse_array(), sparse_ok="TRUE"),
    "all-sparse": lambda path: cog(path, array() * 0, sparse_ok="TRUE"),
    "tiny": lambda path: cog(path, array(1, (5, 7))),
    "one-pixel": lambda path: cog(path, array(1, (1, 1))),
    "one-tile": lambda path: cog(path, array(1, (TILE, TILE))),
    "thin": lambda path: cog(path, array(1, (3000, 4))),
    "flat": lambda path: cog(path, array(1, (3, 2100))),
    "small-without-overviews": lambda path: cog(path, array(1, (512, 512)), overviews="NONE"),
    "tiles-of-512": lambda path: cog(path, array(1, (1100, 900)), blocksize=512),
    "odd-tiles": lambda path: cog(path, blocksize=208),
    "many-levels": lambda path: cog(path, array(1, (1500, 1300)), overview_count=5),
    "not-georeferenced": lambda path: cog(path, georef=False),
    "reassembled": rebuilt(assemble),
    "reassembled-mask": rebuilt(assemble, 3, mask=True),
    "reassembled-bigtiff": rebuilt(lambda parts: assemble(parts, Recipe(big=True))),
    "no-ghost": rebuilt(lambda parts: assemble(parts, bare())),
    "no-ghost-bigtiff": rebuilt(lambda parts: assemble(parts, bare(big=True))),
    "gtiff-tiled-small": lambda path: gtiff(path, array(1, (300, 300)), **TILED),
    "gtiff-striped-small": lambda path: gtiff(path, array(1, (300, 300))),
    "big-endian": lambda path: gtiff(path, array(1, (300, 300)), endianness="BIG", **TILED),
}
