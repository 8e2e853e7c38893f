"""The rows of the benchmark: what is compared, on which file, with how many threads, by whom."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from files import COG_SIDE, LEVELS, SMALL_SIDE, File, Folder
from job import Job
from race import Row

CORES = len(os.sched_getaffinity(0))
STRONG = ["Swath", "GTiff", "LIBERTIFF", "tifffile", "limit"]
CRATES = ["tiff crate", "geotiff-rust"]
READERS = ["Swath", "GTiff", "LIBERTIFF", "tifffile", "async-geotiff", "xrspatial", *CRATES, "limit"]
WINDOW_READERS = ["Swath", "Swath read_windows", *READERS[1:5], "geotiff-rust", "limit"]
OPENERS = ["Swath", "Swath read_windows", *READERS[1:6]]
"""Python packages only: these rows measure what a call costs."""
PACKAGES = ["GTiff", "rioxarray", "tifffile", "xrspatial"]
WRITERS = ["Swath", "GTiff", "tifffile", "rioxarray", "xrspatial", "limit"]
COG_WRITERS = ["Swath", "GTiff", "rio-cogeo", "odc-geo", "rioxarray", "xrspatial", "limit"]
WINDOW = 512
MAIN = ("none", "deflate", "zstd", "lzw")


@dataclass(frozen=True)
class Size:
    """Rows and columns of the images."""

    normal: int
    classes: int
    slow: int
    """Images of codecs that decode a few megabytes per second."""
    windows: int

    @property
    def growing(self) -> list[int]:
        """Sides for the rows that show how time and memory grow."""
        return [self.normal // 2, self.normal, 2 * self.normal, 4 * self.normal]


QUICK, FULL = Size(4096, 8192, 1024, 40), Size(8192, 16384, 2048, 200)
TINY = Size(2048, 2048, 512, 10)
"""Shows in a minute that the harness works."""


class Rows:
    """Makes rows. Their files are written when a row runs."""

    def __init__(self, folder: Folder, size: Size) -> None:
        self.folder, self.size = folder, size

    def file(self, raster: str, codec: str = "none", tile: int = 512, planar: bool = False) -> File:
        slow = codec.startswith("jpeg2000") or codec.startswith("jpegxl")
        side = self.size.slow if slow else self.size.classes if raster == "classes" else self.size.normal
        return File(raster, side, codec, tile, planar)

    def job(self, op: str, file: File, threads: int, **more: object) -> Job:
        path, source = self.folder.path_of(file), self.folder.source(*file.raster_key)
        return Job(op, threads, str(path), source=str(source), tile=file.tile, **more)

    def full_read(self, file: File, threads: int, names: list[str] = READERS) -> Row:
        job = self.job("full_read", file, threads)
        return Row("full read", file.title, job, names, file.decoded_bytes, files=[file])

    def read_memory(self, file: File) -> Row:
        names = [name for name in READERS if name != "limit"]
        job = self.job("full_read", file, CORES)
        return Row("memory of a full read", file.title, job, names, file.decoded_bytes, fresh=True, files=[file])

    def windows(self, file: File, threads: int, op: str = "windows", uncached: bool = False) -> Row:
        """Windows of 512 x 512 at random places, all bands."""
        corners = np.random.default_rng(7).integers(0, file.size - WINDOW, (self.size.windows, 2)).tolist()
        windows = [[row, col, row + WINDOW, col + WINDOW] for row, col in corners]
        amount = self.size.windows * WINDOW * WINDOW * file.pixel_bytes
        kind = "windows, open file" if op == "windows" else "windows, file reopened"
        names = WINDOW_READERS if op == "windows" else READERS[:6]
        job = self.job(op, file, threads, windows=windows)
        kind = f"{kind}, no cache" if uncached else kind
        return Row(kind, file.title, job, names, amount, uncached=uncached, files=[file])

    def many(self, op: str, kind: str, paths: list[Path], source: tuple[str, int, int], names: list[str]) -> Row:
        """Rows that open many files; the speed is in files per second."""
        self.folder.pixels(*source)
        place = [[300, 300, 556, 556]] if op == "open_window" else []
        where = {"paths": [str(path) for path in paths], "source": str(self.folder.source(*source))}
        return Row(kind, f"{len(paths)} files", Job(op, 1, **where, windows=place), names, len(paths), "files/s")

    def opens(self) -> list[Row]:
        cogs, small = self.folder.cogs(), self.folder.small_files()
        terrain, satellite = ("dem", SMALL_SIDE, SMALL_SIDE), ("scene", COG_SIDE, COG_SIDE)
        first = self.many("first_open", "import and first read", small[:1], terrain, ["Swath", *PACKAGES])
        first.title, first.unit = "256 x 256 float32", "per s"
        return [
            self.many("small_files", "read small files", small, terrain, OPENERS),
            self.many("open_window", "open a COG, read 256 x 256", cogs, satellite, OPENERS),
            self.many("headers", "read headers", cogs, satellite, ["Swath", *READERS[1:5]]),
            first,
        ]

    def ten_million_tiles(self) -> Row:
        names = ["Swath command", "GTiff", "LIBERTIFF"]
        file, pixels = self.folder.ten_million_tiles(), ("dem", SMALL_SIDE, SMALL_SIDE)
        row = self.many("headers", "read headers", [file], pixels, names)
        row.title = "ten million tiles"
        return row

    def write(self, op: str, kind: str, file: File, threads: int, names: list[str], fresh: bool = False) -> Row:
        target = str(self.folder.path / "written.tif")
        options = {"codec": file.codec, "predictor": file.predictor, "level": LEVELS.get(file.codec), "target": target}
        job = self.job(op, file, threads, **options)
        files = [file]
        if op == "convert_cog":
            files = [replace(file, codec="none", tile=256)]
            job.path = str(self.folder.path_of(files[0]))
        checked = {"raster": file.raster_key, "overviews": op != "write"}
        return Row(kind, file.title, job, names, file.decoded_bytes, fresh=fresh, files=files, **checked)

    def plain_write(self, file: File, threads: int, names: list[str] = WRITERS) -> Row:
        return self.write("write", "write", file, threads, names)

    def cog(self, file: File, threads: int, names: list[str] = COG_WRITERS) -> Row:
        return self.write("cog", "write a COG", file, threads, names, fresh=True)

    def convert_cog(self, file: File) -> Row:
        names = ["Swath command", "GTiff", "rio-cogeo"]
        return self.write("convert_cog", "convert a file to a COG", file, CORES, names, fresh=True)

    def stream_cog(self, file: File) -> Row:
        names = ["Swath", "odc-geo", "xrspatial", "limit"]
        return self.write("stream_cog", "write a COG from dask", file, CORES, names, fresh=True)

    def scaling(self, most_bytes: int) -> list[Row]:
        """A full read and a COG write of terrain from 64 MB to the limit, by the fastest contestants."""
        found = []
        for side in self.size.growing:
            if 4 * side * side <= most_bytes:
                file = File("dem", side, "deflate")
                read = self.full_read(file, CORES, ["Swath", "GTiff", "LIBERTIFF", "limit"])
                write = self.write("cog", "scaling of a COG write", file, CORES, ["Swath", "GTiff"], fresh=True)
                read.kind = "scaling of a full read"
                read.title = write.title = f"{4 * side * side // 1_000_000} MB"
                found += [read, write]
        return found

    def cog_memory(self) -> list[Row]:
        """The memory of a COG write against the width, then against the height."""
        sides = self.size.growing[1:]
        least = sides[0]
        shapes = [(width, least) for width in sides] + [(least, height) for height in sides[1:]]
        found = []
        for width, height in shapes:
            row = self.convert_cog(File("dem", width, "deflate", rows=height))
            row.kind, row.title = "memory of a COG write", f"{width} columns, {height} rows"
            row.contestants = ["Swath command", "GTiff"]
            found.append(row)
        return found

    def machine(self) -> list[Row]:
        file = self.file("dem")
        target = str(self.folder.path / "written.bin")
        kinds = {
            "memcpy_warm": "memcpy into used memory",
            "memcpy_fresh": "memcpy into new memory",
            "read_fresh": "read() of a cached file into new memory",
            "write_cached": "write() of a new file",
            "write_synced": "write() of a new file and fsync",
        }
        found = []
        for op, title in kinds.items():
            for threads in (1,) if op.startswith("write") else dict.fromkeys((1, CORES)):
                job = self.job(op, file, threads)
                job.target = target if op.startswith("write") else ""
                found.append(Row("machine", title, job, ["limit"], file.decoded_bytes, files=[file]))
        return found


def quick(rows: Rows) -> list[Row]:
    """A subset that takes less than three minutes."""
    both = list(dict.fromkeys((1, CORES)))
    found = rows.machine()
    files = [rows.file(raster, codec) for raster in ("dem", "scene") for codec in MAIN]
    # Everyone reads the terrain with all threads. The other rows leave out those who were never near the best.
    for file in files:
        everyone = file.raster == "dem"
        found += [rows.full_read(file, threads, READERS if everyone and threads > 1 else STRONG) for threads in both]
    found += [rows.full_read(rows.file(*which), CORES) for which in EXTRA]
    found += [rows.full_read(rows.file(*which), 1, STRONG) for which in SLOW_CODECS]
    found += [rows.windows(rows.file(*which), 1, uncached=True) for which in WINDOW_FILES]
    found += [rows.windows(rows.file(*which), 1) for which in WINDOW_FILES[1:2]]
    found += rows.opens()
    found += [rows.plain_write(rows.file("dem", codec), CORES) for codec in MAIN]
    strong = ["Swath", "GTiff", "tifffile", "limit"]
    found += [rows.plain_write(rows.file("scene", codec), CORES, strong) for codec in ("none", "deflate")]
    found.append(rows.cog(rows.file("dem", "deflate"), CORES))
    found.append(rows.cog(rows.file("scene", "deflate"), CORES, ["Swath", "GTiff", "limit"]))
    return [*found, rows.stream_cog(rows.file("dem", "deflate"))]


EXTRA = [("classes", "deflate"), ("rgb", "jpeg"), ("dem", "lerc"), ("dem", "deflate", 256)]
SLOW_CODECS = [("rgb", "lerc"), ("scene", "lerc"), ("rgb", "jpeg2000"), ("rgb", "jpegxl"), ("rgb", "jpegxl-lossy")]
WINDOW_FILES = [("dem", "none"), ("dem", "deflate"), ("scene", "none"), ("scene", "deflate")]


def full(rows: Rows, most_bytes: int) -> list[Row]:
    """Everything. The largest image of the scaling rows has at most `most_bytes`."""
    both = list(dict.fromkeys((1, CORES)))
    found = rows.machine()
    files = [rows.file(raster, codec) for raster in ("dem", "scene", "rgb", "classes") for codec in MAIN]
    files += [rows.file(raster, codec, 256) for raster in ("dem", "scene") for codec in MAIN]
    files += [rows.file(raster, codec, 0) for raster in ("dem", "scene") for codec in ("none", "deflate")]
    files += [rows.file(*which) for which in [*EXTRA[1:3], *SLOW_CODECS]]
    files += [rows.file("scene", codec, 512, True) for codec in ("deflate", "zstd")]
    found += [rows.full_read(file, threads) for file in dict.fromkeys(files) for threads in both]
    found += [rows.read_memory(rows.file(raster, "deflate")) for raster in ("dem", "scene")]
    for which in [*WINDOW_FILES, ("dem", "zstd"), ("scene", "zstd")]:
        found += [rows.windows(rows.file(*which), threads) for threads in both]
        found += [rows.windows(rows.file(*which), threads, uncached=True) for threads in both]
        found.append(rows.windows(rows.file(*which), 1, "windows_reopened"))
    found += [*rows.opens(), rows.ten_million_tiles()]
    for raster in ("dem", "scene", "classes"):
        found += [rows.plain_write(rows.file(raster, codec), threads) for codec in MAIN for threads in both]
    for raster, codec in (("dem", "deflate"), ("scene", "deflate"), ("classes", "deflate"), ("dem", "zstd")):
        found += [rows.cog(rows.file(raster, codec), threads) for threads in both]
        found.append(rows.convert_cog(rows.file(raster, codec)))
    found += [rows.stream_cog(rows.file(raster, "deflate")) for raster in ("dem", "scene")]
    return found + rows.cog_memory() + rows.scaling(most_bytes)
