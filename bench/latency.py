"""Latency of small requests: one window of a COG, and `swath info` on a file of ten million tiles."""

import argparse
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
import rasterio
from rasterio.windows import Window

from make_data import scene
from report import Swath, save, table

import raw  # isort: skip  (importing report adds its folder to the path)

COG_SIZE = 4096
TRANSFORM = rasterio.Affine(10, 0, 500000, 0, -10, 5100000)
WINDOW = 256
WINDOW_BUDGET_MS = 1.0
TILES_ACROSS, TILES_DOWN, TILE = 4000, 2500, 256
INFO_BUDGET_MS, INFO_BUDGET_MB = 50.0, 100.0


def write_cog(path: Path, tile: int) -> None:
    """A Cloud Optimized GeoTIFF of one band with sensor noise, which is slow to inflate."""
    array = scene(COG_SIZE)[:1]
    shape = {"count": 1, "height": COG_SIZE, "width": COG_SIZE, "dtype": array.dtype}
    options = {
        "compress": "deflate",
        "predictor": "yes",
        "blocksize": tile,
        "crs": "EPSG:32633",
        "transform": TRANSFORM,
    }
    with rasterio.open(path, "w", driver="COG", **shape, **options) as dataset:
        dataset.write(array)


def write_ten_million_tiles(path: Path, filled: bool) -> None:
    """A BigTIFF with two tables of ten million entries: all tiles sparse, or all entries naming the same tile."""
    count = TILES_ACROSS * TILES_DOWN
    offsets_at = 4096
    counts_at = offsets_at + 8 * count
    data_at = counts_at + 4 * count
    fields = raw.tiled(TILES_ACROSS * TILE, TILES_DOWN * TILE, (TILE, TILE))
    fields[raw.TILE_OFFSETS] = raw.Field(raw.LONG8, [], count=count, offset=offsets_at)
    fields[raw.TILE_COUNTS] = raw.Field(raw.LONG, [], count=count, offset=counts_at)
    with path.open("wb") as file:
        file.write(raw.tiff([raw.Directory(fields)], big=True))
        if filled:
            file.seek(offsets_at)
            np.full(count, data_at, "<u8").tofile(file)
            np.full(count, TILE * TILE, "<u4").tofile(file)
        file.truncate(data_at + TILE * TILE)


def peer_open(path: Path) -> float:
    """Seconds that rasterio takes to open and close a file."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        rasterio.open(path).close()
    return time.perf_counter() - start


def peer_windows(path: Path, corners: list[tuple[int, int]]) -> list[float]:
    """Seconds that rasterio takes to open the file and read one window, for each corner."""
    seconds = []
    for row, col in corners:
        start = time.perf_counter()
        with rasterio.open(path) as dataset:
            dataset.read(window=Window(col, row, WINDOW, WINDOW))
        seconds.append(time.perf_counter() - start)
    return seconds


def swath_windows(swath: Swath, path: Path, corners: list[tuple[int, int]]) -> list[float]:
    """Seconds that Swath takes for the same on one thread."""
    seconds = []
    for row, col in sorted(set(corners)):
        window = f"{row},{col},{row + WINDOW},{col + WINDOW}"
        flags = ["--threads", 1, "--repeat", corners.count((row, col)), "--window", window]
        seconds += swath.bench(path, *flags)["seconds"]
    return seconds


def window_row(swath: Swath, what: str, path: Path, corners: list[tuple[int, int]], rounds: int) -> dict:
    peer, ours = [], []
    for _ in range(rounds):
        peer += peer_windows(path, corners)
        ours += swath_windows(swath, path, corners)
    return {"what": what, "rasterio": peer, "swath": ours}


def window_rows(swath: Swath, folder: Path, rounds: int, repeat: int) -> list[dict]:
    """Times a window that is one tile, a window in the corner of a larger tile, and windows at random positions."""
    paths = {tile: folder / f"cog_{COG_SIZE}_{tile}.tif" for tile in (256, 512)}
    for tile, path in paths.items():
        if not path.exists():
            write_cog(path, tile)
    rng = np.random.default_rng(0)
    anywhere = [tuple(int(value) for value in rng.integers(0, COG_SIZE - WINDOW, 2)) for _ in range(repeat)]
    cases = {
        "256 tiles, a tile": (paths[256], [(1024, 2048)] * repeat),
        "512 tiles, corner of a tile": (paths[512], [(1024, 2048)] * repeat),
        "512 tiles, anywhere": (paths[512], anywhere),
    }
    return [
        window_row(swath, f"open a COG, read {WINDOW}x{WINDOW}: {what}", path, corners, rounds)
        for what, (path, corners) in cases.items()
    ]


def info_row(swath: Swath, path: Path, rounds: int) -> dict:
    """Time and peak memory of `swath info`, and rasterio's time to open the same file."""
    ours, peaks, peer = [], [], []
    for _ in range(rounds):
        run = swath.succeed("info", path, "--json")
        ours.append(run.seconds)
        peaks.append(run.peak_bytes)
        peer.append(peer_open(path))
    return {"what": f"info, {path.stem}", "rasterio": peer, "swath": ours, "peak_bytes": max(peaks)}


def line(row: dict) -> list[str]:
    ours, peer = (statistics.median(row[who]) * 1e3 for who in ("swath", "rasterio"))
    peak = row.get("peak_bytes", 0) / 1e6
    within = ours < (INFO_BUDGET_MS if peak else WINDOW_BUDGET_MS) and peak < INFO_BUDGET_MB
    best = f"{min(row['swath']) * 1e3:.3f}"
    return [row["what"], f"{peer:.3f}", f"{ours:.3f}", best, f"{peak:.1f}" if peak else "", "yes" if within else "NO"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="cache folder for the files")
    parser.add_argument("--rounds", type=int, default=5, help="alternations (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=40, help="windows per alternation (default %(default)s)")
    parser.add_argument("--name", default="latency", help="results go to bench/results/NAME.json (default %(default)s)")
    args = parser.parse_args()

    args.dir.mkdir(parents=True, exist_ok=True)
    tables = {args.dir / f"ten_million_{kind}.tif": kind == "filled" for kind in ("sparse", "filled")}
    for path, filled in tables.items():
        if not path.exists():
            write_ten_million_tiles(path, filled)

    swath = Swath()
    rows = window_rows(swath, args.dir, args.rounds, args.repeat)
    rows += [info_row(swath, path, args.rounds) for path in tables]
    header = ["what", "rasterio ms", "swath ms", "swath best ms", "swath peak MB", "within budget"]
    print(table(header, [line(row) for row in rows]))
    budgets = f"window {WINDOW_BUDGET_MS} ms; info, as a process, {INFO_BUDGET_MS} ms and {INFO_BUDGET_MB} MB"
    print(f"\nmedians; budgets: {budgets}")
    print(f"raw results: {save(args.name, swath, rows)}")
    swath.close()


if __name__ == "__main__":
    main()
