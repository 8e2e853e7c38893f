"""`to_geotiff` to a name that ends in `.vrt`: writes a folder of tiles and an index that makes one mosaic of them."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from .._swath import File, default_threads
from .._xml import add, replace_file, to_bytes
from ..gpu.arrays import is_on_device, to_host
from ..read.crs import crs_of
from ..write.sidecars import STATISTICS, number_text, qml_path, write_beside
from ..write.stream import as_announced, finish, make_parent
from ..write.to_geotiff import write_array
from .document import DTYPES, METADATA_DOMAIN, POINT_TRANSFORM

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .._swath import BandInfo, Options
    from ..write.progress import Progress
    from ..write.raster import Raster
    from ..write.to_geotiff import Job

Report = dict[str, Any]
_ADDED = {"blocks", "sparse_blocks", "bytes_encoded", "file_bytes", "fallbacks"}
"""The entries of the tiles' reports that are summed."""


@dataclass(frozen=True)
class Tile:
    """A file of the mosaic: its name and its position in pixels."""

    name: str
    row: int
    column: int
    height: int
    width: int

    def of(self, raster: Raster) -> Any:
        """Returns its part of a raster's array."""
        rows = slice(self.row, self.row + self.height)
        columns = slice(self.column, self.column + self.width)
        return raster.array[:, rows, columns] if raster.bands_first else raster.array[rows, columns]


def write_vrt(job: Job, progress: Progress | None) -> Report:
    """Writes the tiles and the index. They get their final names when all of them are written."""
    start = time.perf_counter()
    path = str(job.target)
    stem = os.path.splitext(path)[0]
    folder = f"{stem}_tiles"
    if os.path.isdir(folder) and os.listdir(folder):
        raise FileExistsError(f"Tiles directory already contains files: {os.path.abspath(folder)}")
    if os.path.exists(path) and not job.overwrite:
        raise FileExistsError(f"{path} already exists; pass overwrite=True to replace it")
    make_parent(path)
    staged = f"{folder}.tmp-{os.urandom(16).hex()}"
    tiles = _tiles(job.raster, job.tile_size)
    os.mkdir(staged)
    try:
        reports = _write_tiles(job, tiles, staged, progress)
        report = _merged(reports)
        index = _index(job, tiles, os.path.basename(folder), staged, report)
        # An empty folder of that name is replaced. The index comes last, so that a reader that finds it finds all
        # tiles.
        os.rename(staged, folder)
        try:
            with _replaced_sidecars(path):
                write_beside(path, job.sidecars.contents(report))
                replace_file(path, index)
        except BaseException:
            os.rename(folder, staged)
            raise
    except BaseException:
        # This needs no descriptor; listing the folder does.
        for tile in tiles:
            with suppress(OSError):
                os.unlink(os.path.join(staged, tile.name))
        with suppress(OSError):
            os.rmdir(staged)
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return report | {"seconds": time.perf_counter() - start}


@contextmanager
def _replaced_sidecars(path: str) -> Iterator[None]:
    """Removes the old sidecars, which would be read as those of the new mosaic. An error brings them back."""
    old: dict[str, bytes] = {}
    names = (f"{path}.aux.xml", qml_path(path))
    for name in names:
        with suppress(FileNotFoundError):
            old[name] = Path(name).read_bytes()
    try:
        Path(names[0]).unlink(missing_ok=True)
        yield
    except BaseException:
        for name in names:
            with suppress(OSError):
                if name in old:
                    replace_file(name, old[name])
                else:
                    os.unlink(name)
        raise


def _tiles(raster: Raster, size: int) -> list[Tile]:
    """Returns blocks of a NumPy array or chunks of a dask array, row by row."""
    if raster.is_dask:
        heights, widths = raster.array.chunks[1:] if raster.bands_first else raster.array.chunks[:2]
    else:
        heights, widths = ([min(size, n - at) for at in range(0, n, size)] for n in (raster.height, raster.width))
    digits = max(2, len(str(max(len(heights), len(widths)) - 1)))
    return [
        Tile(f"tile_{i:0{digits}}_{j:0{digits}}.tif", row, column, height, width)
        for i, (row, height) in enumerate(_steps(heights))
        for j, (column, width) in enumerate(_steps(widths))
    ]


def _steps(lengths: Any) -> Iterator[tuple[int, int]]:
    return zip(accumulate(lengths, initial=0), lengths, strict=False)


def _write_tiles(job: Job, tiles: list[Tile], folder: str, progress: Progress | None) -> list[Report]:
    """Writes tiles with several threads. dask's scheduler computes as many chunks as fit in the buffer."""
    threads = job.threads or default_threads()
    workers = max(1, min(threads, len(tiles)))
    reports: list[Report] = []
    pool = ThreadPoolExecutor(workers, "swath-tiles")
    try:
        for some in _batches(job, tiles):
            blocks = [tile.of(job.raster) for tile in some]
            if job.raster.is_dask:
                from dask.base import compute

                blocks = list(compute(*blocks))  # type: ignore[no-untyped-call]
            written = [
                pool.submit(_write_tile, job, tile, block, folder, threads // workers)
                for tile, block in zip(some, blocks, strict=True)
            ]
            del blocks
            for future in written:
                reports.append(future.result())
                if progress is not None:
                    progress(len(reports), len(tiles))
    finally:
        pool.shutdown(cancel_futures=True)
    return reports


def _batches(job: Job, tiles: list[Tile]) -> Iterator[list[Tile]]:
    """Returns groups of tiles that fit in the buffer, at least one tile each."""
    batch: list[Tile] = []
    held = 0
    for tile in tiles:
        size = tile.height * tile.width * job.raster.bands * job.raster.dtype.itemsize
        if batch and held + size > job.buffer_bytes:
            yield batch
            batch, held = [], 0
        batch.append(tile)
        held += size
    yield batch


def _write_tile(job: Job, tile: Tile, block: Any, folder: str, threads: int) -> Report:
    block = as_announced(block, job.raster.array.dtype, f"the chunk at row {tile.row} and column {tile.column}")
    if is_on_device(block):
        block = to_host(block)
    pixels: npt.NDArray[Any] = finish(job.raster, block)
    if pixels.shape[:2] != (tile.height, tile.width):
        raise ValueError(
            f"the chunk at row {tile.row} and column {tile.column} should have {tile.height} x {tile.width} pixels, "
            f"but computing it gave {pixels.shape[0]} x {pixels.shape[1]}: the chunks that the graph makes are not as "
            "declared"
        )
    options: Options = {**job.options, "transform": _moved(job.options.get("transform"), tile)}
    if job.sidecars.needs_statistics:
        options["measure"] = True
    return write_array(pixels, os.path.join(folder, tile.name), options, threads=max(1, threads))


def _moved(
    transform: tuple[float, float, float, float, float, float] | None, tile: Tile
) -> tuple[float, float, float, float, float, float] | None:
    if transform is None:
        return None
    a, b, c, d, e, f = transform
    return a, b, c + tile.column * a + tile.row * b, d, e, f + tile.column * d + tile.row * e


def _index(job: Job, tiles: list[Tile], folder: str, staged: str, report: Report) -> bytes:
    """Returns the XML of the mosaic."""
    raster, options = job.raster, job.options
    root = Element("VRTDataset", {"rasterXSize": str(raster.width), "rasterYSize": str(raster.height)})
    _, system = crs_of(File.open(os.path.join(staged, tiles[0].name)).describe(), allow_unparseable=True)
    if system is not None:
        add(root, "SRS", system)
    transform = options.get("transform")
    if transform is not None:
        a, b, c, d, e, f = transform
        if options.get("raster_type") == "point":
            # GDAL reads this transform as that of a corner, whatever AREA_OR_POINT says; other readers do not.
            add(add(root, "Metadata", domain=METADATA_DOMAIN), "MDI", _six(c, a, b, f, d, e), key=POINT_TRANSFORM)
            c, f = c - (a + b) / 2, f - (d + e) / 2
        add(root, "GeoTransform", _six(c, a, b, f, d, e))
    for number in range(1, raster.bands + 1):
        band = add(root, "VRTRasterBand", dataType=_data_type(raster.dtype), band=number)
        _describe(band, options, number - 1)
        if number == 1:
            _classify(band, job, report)
        for tile in tiles:
            source = add(band, "SimpleSource")
            add(source, "SourceFilename", f"{folder}/{tile.name}", relativeToVRT=1)
            add(source, "SourceBand", number)
            size = {"xSize": tile.width, "ySize": tile.height}
            add(source, "SrcRect", xOff=0, yOff=0, **size)
            add(source, "DstRect", xOff=tile.column, yOff=tile.row, **size)
    return to_bytes(root)


def _six(*numbers: float) -> str:
    return ", ".join(repr(float(number)) for number in numbers)


def _data_type(dtype: np.dtype[Any]) -> str:
    for name, known in DTYPES.items():
        if known == dtype.name:
            return name
    raise ValueError(
        f"a VRT cannot be made of {dtype.name} pixels: write a GeoTIFF, or convert the array with astype()."
    )


def _describe(band: Element, options: Options, index: int) -> None:
    """Adds the metadata of a band."""
    nodata = options.get("nodata")
    if nodata is not None:
        add(band, "NoDataValue", nodata)
    infos: list[BandInfo] = options.get("band_info", [])
    if index < len(infos):
        for tag, name in (
            ("Description", "description"),
            ("UnitType", "units"),
            ("Offset", "offset"),
            ("Scale", "scale"),
        ):
            value = infos[index].get(name)
            if value is not None:
                add(band, tag, value)
    colors = options.get("colormap")
    if colors is not None and index == 0:
        add(band, "ColorInterp", "Palette")
        table = add(band, "ColorTable")
        count = len(colors) // 3
        for value in range(count):
            # 16 bits to 8, as in GDAL.
            r, g, b = (colors[value + part * count] // 257 for part in range(3))
            add(table, "Entry", c1=r, c2=g, c3=b, c4=255)


def _classify(band: Element, job: Job, report: Report) -> None:
    """Adds the class names and colours to the index too, because GDAL does not read the `.aux.xml` of a VRT."""
    if job.sidecars.categories is not None:
        names = add(band, "CategoryNames")
        for name in job.sidecars.categories[0]:
            add(names, "Category", name)
    elif job.sidecars.needs_statistics and report["statistics"][0]["count"]:
        metadata = add(band, "Metadata")
        measured = report["statistics"][0]
        for key, name in zip(STATISTICS, ("min", "max", "mean", "std"), strict=True):
            add(metadata, "MDI", number_text(measured[name]), key=key)


def _merged(reports: list[Report]) -> Report:
    """Returns one report for all tiles."""
    merged: Report = {**reports[0], "files": len(reports)}
    for report in reports[1:]:
        for key in _ADDED & report.keys():
            merged[key] += report[key]
        if report.get("statistics"):
            pairs = zip(merged["statistics"], report["statistics"], strict=True)
            merged["statistics"] = [_joined(one, other) for one, other in pairs]
    return merged


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Combines the statistics of two sets of pixels (Chan, Golub and LeVeque)."""
    if not one["count"] or not other["count"]:
        return one if one["count"] else other
    count = one["count"] + other["count"]
    shift = other["mean"] - one["mean"]
    squares = one["std"] ** 2 * one["count"] + other["std"] ** 2 * other["count"]
    squares += shift * shift * one["count"] * other["count"] / count
    return {
        "count": count,
        "min": min(one["min"], other["min"]),
        "max": max(one["max"], other["max"]),
        "mean": one["mean"] + shift * other["count"] / count,
        "std": math.sqrt(squares / count),
    }
