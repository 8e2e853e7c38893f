"""Compares the Python package with other Python readers of GeoTIFF: full reads, random windows, dask chunks.

All readers alternate in one process and one run, with a warm page cache; the minimum of the rounds counts. Each is
used as its documentation shows: the readers that keep a file open (rasterio, rioxarray, async-geotiff) open it once
for all windows and benefit from their caches of decoded blocks.
"""

import argparse
import asyncio
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import async_geotiff
import numpy as np
import rasterio
import rasterio.windows
import rioxarray
import tifffile
import xrspatial.geotiff
from async_tiff.store import LocalStore

import swath
from read import write_files
from report import Swath, save, table

WINDOWS, SIDE, CHUNKS = 1000, 256, 8
Reader = Callable[[], Any]


def full_reads(path: Path) -> dict[str, Reader]:
    """Opens and decodes the whole image."""

    async def by_async_geotiff() -> Any:
        store = LocalStore(str(path.parent))
        file = await async_geotiff.GeoTIFF.open(path.name, store=store)
        return (await file.read()).data

    def by_rasterio() -> Any:
        with rasterio.open(path, num_threads=2) as dataset:
            return dataset.read()

    return {
        "swath": lambda: swath.open_geotiff(path).values,
        "rasterio": by_rasterio,
        "rioxarray": lambda: rioxarray.open_rasterio(path, cache=False).values,
        "tifffile": lambda: tifffile.imread(path, maxworkers=2),
        "async-geotiff": lambda: asyncio.run(by_async_geotiff()),
        "xrspatial": lambda: xrspatial.geotiff.open_geotiff(str(path)).values,
    }


def window_reads(path: Path, size: int, bands: int) -> dict[str, Reader]:
    """Reads a thousand windows at random positions, with all bands."""
    corners = np.random.default_rng(7).integers(0, size - SIDE, (WINDOWS, 2)).tolist()
    windows = [(row, col, row + SIDE, col + SIDE) for row, col in corners]

    def by_rasterio() -> None:
        with rasterio.open(path) as dataset:
            for row, col in corners:
                dataset.read(window=rasterio.windows.Window(col, row, SIDE, SIDE))

    def by_rioxarray() -> None:
        with rioxarray.open_rasterio(path, cache=False) as array:
            for row, col in corners:
                array[:, row : row + SIDE, col : col + SIDE].load()

    def by_tifffile() -> None:
        import zarr

        with tifffile.imread(path, aszarr=True) as store:
            array = zarr.open(store, mode="r")
            for row, col in corners:
                array[row : row + SIDE, col : col + SIDE]

    async def by_async_geotiff() -> None:
        store = LocalStore(str(path.parent))
        file = await async_geotiff.GeoTIFF.open(path.name, store=store)
        for row, col in corners:
            await file.read(window=async_geotiff.Window(col_off=col, row_off=row, width=SIDE, height=SIDE))

    def each(open_geotiff: Callable[..., Any]) -> Reader:
        return lambda: [open_geotiff(str(path), window=window) for window in windows]

    readers: dict[str, Reader] = {
        "swath": each(swath.open_geotiff),
        "rasterio": by_rasterio,
        "rioxarray": by_rioxarray,
        "tifffile": by_tifffile,
        "async-geotiff": lambda: asyncio.run(by_async_geotiff()),
        "xrspatial": each(xrspatial.geotiff.open_geotiff),
    }
    if bands == 1:
        readers["swath read_windows"] = lambda: swath.read_windows([(path, window) for window in windows])
    return readers


def dask_reads(path: Path, size: int) -> dict[str, Reader]:
    """Reads 64 chunks with dask's threads."""
    side = size // CHUNKS
    return {
        "swath": lambda: swath.open_geotiff(path, chunks=side).compute(scheduler="threads"),
        "rioxarray": lambda: rioxarray.open_rasterio(path, chunks={"y": side, "x": side}).compute(scheduler="threads"),
        "xrspatial": lambda: xrspatial.geotiff.open_geotiff(str(path), chunks=side).compute(scheduler="threads"),
    }


def check_full(path: Path, readers: dict[str, Reader]) -> None:
    """Checks that all readers return the same pixels, in any order of axes."""
    found = {name: np.asarray(read()).astype("f8").sum() for name, read in readers.items()}
    assert len({round(float(total), 3) for total in found.values()}) == 1, f"{path.name}: {found}"


def measure(path: Path, readers: dict[str, Reader], rounds: int) -> dict[str, list[float]]:
    """Times each reader with empty caches: the other readers close their files; Swath sees another modification time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, read in readers.items():
            gc.collect()
            # A time in the past, because Swath does not cache blocks of a file that has just changed.
            other = path.stat().st_mtime_ns - 3_600_000_000_001
            os.utime(path, ns=(other, other))
            start = time.perf_counter()
            read()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="folder in which the benchmark keeps its files")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    files = write_files(arguments.dir, arguments.size, ["none", "deflate", "zstd", "lzw"], ["dem"])
    files += write_files(arguments.dir, arguments.size, ["deflate"], ["scene"])
    rows = []
    for product, codec, path in files:
        kinds = {"full read": full_reads(path)}
        if codec in ("deflate", "none"):
            kinds["1000 windows"] = window_reads(path, arguments.size, 4 if product == "scene" else 1)
        if codec == "deflate":
            kinds["dask, 64 chunks"] = dask_reads(path, arguments.size)
        check_full(path, kinds["full read"])
        for kind, readers in kinds.items():
            seconds = measure(path, readers, arguments.rounds)
            rows.append({"what": kind, "file": f"{product} {codec}", "seconds": seconds})
            print(
                f"{kind}, {product} {codec}: {', '.join(f'{n} {min(s):.2f} s' for n, s in seconds.items())}", flush=True
            )
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    lines = []
    for row in rows:
        best = {name: min(values) for name, values in row["seconds"].items()}
        cells = [f"{best[name] / best['swath']:.2f}" if name in best else "-" for name in names[1:]]
        lines.append([f"{row['what']}, {row['file']}", f"{best['swath']:.2f} s", *cells])
    print(table(["seconds, relative to swath", *names], lines))
    runner = Swath()
    print(f"raw results: {save('python', runner, rows)}")
    runner.close()


if __name__ == "__main__":
    main()
