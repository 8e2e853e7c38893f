"""The GeoTIFF files of the benchmark. They are written once and cached by name; the name holds all parameters."""

import functools
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio

from rasters import make

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "interop" / "support"))

import raw  # noqa: E402

PLACE = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 5100000)}
LEVELS = {"deflate": 6, "zstd": 9}
"""GDAL's default compression levels."""
PREDICTORS = {"dem": 3, "scene": 2, "rgb": 2, "classes": 1}
PREDICTED = ("deflate", "zstd", "lzw")
SHAPES = {"dem": (1, 4), "scene": (4, 2), "rgb": (3, 1), "classes": (1, 1)}
"""Bands, and bytes of a sample."""
TIFFFILE_CODECS = {
    "jpeg2000": {"compression": "jpeg2000"},
    "jpegxl": {"compression": "jpegxl", "compressionargs": {"lossless": True}},
    "jpegxl-lossy": {"compression": "jpegxl", "compressionargs": {"distance": 1.0}},
}
"""Codecs that the GDAL of the rasterio wheel cannot write."""
GEOTIFF_TAGS = [
    (33550, "d", 3, (10.0, 10.0, 0.0), True),
    (33922, "d", 6, (0.0, 0.0, 0.0, 500000.0, 5100000.0, 0.0), True),
    (34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633), True),
]
"""PLACE as tags, for tifffile: pixel scale, tie point, GeoKeys."""
SMALL_FILES, SMALL_SIDE = 300, 256
COGS, COG_SIDE = 40, 1024
TILES_ACROSS, TILES_DOWN, TILE = 4000, 2500, 256


@dataclass(frozen=True)
class File:
    """One image of the benchmark. `tile` 0 means strips, `planar` means that each band has its own blocks."""

    raster: str
    size: int
    codec: str = "none"
    tile: int = 512
    planar: bool = False
    rows: int = 0
    """The height if it is not `size`, which then is the width only."""

    @property
    def raster_key(self) -> tuple[str, int, int]:
        """Identifies the pixels: name, width, height."""
        return self.raster, self.size, self.rows or self.size

    @property
    def pixel_bytes(self) -> int:
        """Bytes of all bands of a pixel."""
        bands, sample = SHAPES[self.raster]
        return bands * sample

    @property
    def decoded_bytes(self) -> int:
        return self.size * (self.rows or self.size) * self.pixel_bytes

    @property
    def predictor(self) -> int:
        return PREDICTORS[self.raster] if self.codec in PREDICTED else 1

    @property
    def title(self) -> str:
        """The name in tables. Tiles of 512 and interleaved bands are the normal case."""
        words = [self.raster, self.codec]
        if self.tile != 512:
            words.append(f"{self.tile} tiles" if self.tile else "strips")
        return " ".join(words + ["planar"] * self.planar)

    @property
    def name(self) -> str:
        words = [pixels_name(*self.raster_key), self.codec, str(self.tile or "strips")]
        return "_".join(words + ["planar"] * self.planar)


class Folder:
    """The cache folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    @functools.lru_cache(maxsize=2)  # noqa: B019 - the program has one folder
    def pixels(self, raster: str, width: int, height: int) -> np.ndarray:
        path = self.source(raster, width, height)
        if not path.exists():
            print(f"making {path.name}", flush=True)
            unfinished = path.with_suffix(".part.npy")
            np.save(unfinished, make(raster, width, height))
            unfinished.rename(path)
        return np.load(path, mmap_mode="r")

    def source(self, raster: str, width: int, height: int) -> Path:
        """Path of the array that the contestants' pixels are compared with."""
        return self.path / f"{pixels_name(raster, width, height)}.npy"

    def path_of(self, file: File) -> Path:
        return self.path / f"{file.name}.tif"

    def write(self, file: File) -> Path:
        """Writes the file if it is missing. A temporary name keeps an interrupted run out of the cache."""
        path = self.path_of(file)
        array = self.pixels(*file.raster_key)
        if not path.exists():
            print(f"writing {path.name}", flush=True)
            unfinished = path.with_suffix(".part")
            by_tifffile(unfinished, array, file) if file.codec in TIFFFILE_CODECS else by_gdal(unfinished, array, file)
            unfinished.rename(path)
        return path

    def mean_error(self, file: File) -> float:
        """Mean absolute difference between the file and its source: 0 unless the codec is lossy.

        The program that wrote the file decodes it.
        """
        path = self.path / f"{file.name}.json"
        if not path.exists():
            path.write_text(json.dumps(mean_error(self.write(file), file, self.pixels(*file.raster_key))))
        return json.loads(path.read_text())

    def copies(self, count: int, name: str, source: File, driver: str) -> list[Path]:
        """Many equal small files."""
        folder = self.path / f"{name}_{count}_{source.name}"
        paths = [folder / f"{index:04}.tif" for index in range(count)]
        if not paths[-1].exists():
            folder.mkdir(exist_ok=True)
            by_gdal(paths[0], self.pixels(*source.raster_key), source, driver)
            for path in paths[1:]:
                shutil.copyfile(paths[0], path)
        return paths

    def small_files(self) -> list[Path]:
        return self.copies(SMALL_FILES, "small", File("dem", SMALL_SIDE, "deflate", 256), "GTiff")

    def cogs(self) -> list[Path]:
        return self.copies(COGS, "cog", File("scene", COG_SIDE, "deflate", 256), "COG")

    def ten_million_tiles(self) -> Path:
        """A BigTIFF whose two tables have ten million entries; all entries name the same tile."""
        path = self.path / "ten_million_tiles.tif"
        count = TILES_ACROSS * TILES_DOWN
        if path.exists():
            return path
        offsets_at = 4096
        counts_at = offsets_at + 8 * count
        data_at = counts_at + 4 * count
        fields = raw.tiled(TILES_ACROSS * TILE, TILES_DOWN * TILE, (TILE, TILE))
        fields[raw.TILE_OFFSETS] = raw.Field(raw.LONG8, [], count=count, offset=offsets_at)
        fields[raw.TILE_COUNTS] = raw.Field(raw.LONG, [], count=count, offset=counts_at)
        with path.open("wb") as file:
            file.write(raw.tiff([raw.Directory(fields)], big=True))
            file.seek(offsets_at)
            np.full(count, data_at, "<u8").tofile(file)
            np.full(count, TILE * TILE, "<u4").tofile(file)
            file.truncate(data_at + TILE * TILE)
        return path


def pixels_name(raster: str, width: int, height: int) -> str:
    return f"{raster}_{width}" if width == height else f"{raster}_{width}x{height}"


def gdal_options(file: File) -> dict[str, object]:
    """Creation options of the GTiff driver."""
    options: dict[str, object] = {"compress": file.codec, "bigtiff": "if_safer"}
    options["interleave"] = "band" if file.planar else "pixel"
    options |= {"tiled": True, "blockxsize": file.tile, "blockysize": file.tile} if file.tile else {"blockysize": 64}
    if file.codec in LEVELS:
        options["zlevel" if file.codec == "deflate" else "zstd_level"] = LEVELS[file.codec]
    if file.codec in PREDICTED:
        options["predictor"] = file.predictor
    if file.codec == "lerc":
        options["max_z_error"] = 0.001 if file.raster == "dem" else 0
    if file.codec == "jpeg":
        options |= {"photometric": "ycbcr", "jpeg_quality": 75}
    return options


def by_gdal(path: Path, array: np.ndarray, file: File, driver: str = "GTiff") -> None:
    height, width, bands = array.shape
    shape = {"count": bands, "height": height, "width": width, "dtype": array.dtype}
    options = gdal_options(file) | {"num_threads": "all_cpus"}
    if driver == "COG":
        options = {"compress": file.codec, "blocksize": file.tile, "predictor": "yes", "num_threads": "all_cpus"}
    with rasterio.open(path, "w", driver=driver, **shape, **PLACE, **options) as dataset:
        dataset.write(np.moveaxis(array, 2, 0))


def by_tifffile(path: Path, array: np.ndarray, file: File) -> None:
    import tifffile

    kind = {"tile": (file.tile, file.tile), "photometric": "rgb" if file.raster == "rgb" else "minisblack"}
    options = TIFFFILE_CODECS[file.codec] | {"metadata": None, "maxworkers": 2, "extratags": GEOTIFF_TAGS}
    tifffile.imwrite(path, np.asarray(array).squeeze(), **kind, **options)


def mean_error(path: Path, file: File, array: np.ndarray) -> float:
    """Compares a part of the image, which is enough to judge a lossy codec."""
    rows = min(1024, array.shape[0])
    if file.codec in TIFFFILE_CODECS:
        import tifffile

        found = tifffile.imread(path).reshape(array.shape)[:rows]
    else:
        with rasterio.open(path) as dataset:
            found = np.moveaxis(dataset.read(window=((0, rows), (0, array.shape[1]))), 0, 2)
    return float(np.abs(found.astype(np.float64) - array[:rows]).mean())
