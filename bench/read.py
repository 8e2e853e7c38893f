"""Compares full reads by Swath and rasterio, alternating in one run; the minimum of the rounds counts.

Each measurement opens the file and decodes the whole image into a new buffer, with a warm page cache.
"""

import argparse
import gc
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import rasterio

from make_data import PRODUCTS, SIZE
from report import Swath, save, table

CODECS = ["none", "deflate", "zstd", "lzw"]
PREDICTOR = {"dem": 3, "scene": 2}
TILE = 512


def write_files(
    folder: Path, size: int, codecs: list[str], products: Iterable[str] = PREDICTOR
) -> list[tuple[str, str, Path]]:
    """Writes the missing files of the benchmark."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for product in products:
        paths = {codec: folder / f"{product}_{size}_{codec}.tif" for codec in codecs}
        files += [(product, codec, path) for codec, path in paths.items()]
        missing = {codec: path for codec, path in paths.items() if not path.exists()}
        if not missing:
            continue
        array = PRODUCTS[product](size)
        for codec, path in missing.items():
            print(f"writing {path.name}", flush=True)
            write(path, array, codec, PREDICTOR.get(product, 2))
    return files


def write(path: Path, array: np.ndarray, codec: str, predictor: int) -> None:
    """Writes a temporary file and renames it, so that an interrupted run leaves no partial file in the cache."""
    bands, height, width = array.shape
    options = {"count": bands, "height": height, "width": width, "dtype": array.dtype, "bigtiff": "if_safer"}
    options |= {"tiled": True, "blockxsize": TILE, "blockysize": TILE, "compress": codec, "interleave": "pixel"}
    if codec != "none":
        options |= {"predictor": predictor, "num_threads": "all_cpus"}
    unfinished = path.with_suffix(".part")
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 5100000)}
    with rasterio.open(unfinished, "w", driver="GTiff", **place, **options) as dataset:
        dataset.write(array)
    unfinished.rename(path)


def peer_seconds(path: Path, threads: int) -> tuple[float, int]:
    """Seconds and bytes of one open and full read by rasterio."""
    gc.collect()
    start = time.perf_counter()
    with rasterio.open(path, num_threads=threads) as dataset:
        size = dataset.read().nbytes
    return time.perf_counter() - start, size


def swath_seconds(swath: Swath, path: Path, threads: int) -> tuple[float, int]:
    """Seconds and bytes of the same by Swath, timed inside its process."""
    result = swath.bench(path, "--threads", threads, "--repeat", 1)
    return result["seconds"][0], result["bytes"]


def measure(swath: Swath, path: Path, threads: int, rounds: int) -> dict:
    """Times both alternately, so that other load on the machine affects both."""
    peer, ours = [], []
    for _ in range(rounds):
        seconds, size = peer_seconds(path, threads)
        peer.append(seconds)
        seconds, our_size = swath_seconds(swath, path, threads)
        ours.append(seconds)
        assert our_size == size, f"{path.name}: swath decodes {our_size} bytes, rasterio {size}"
    return {"threads": threads, "bytes": size, "rasterio": peer, "swath": ours}


def check(swath: Swath, path: Path) -> None:
    """Checks that both return the same pixels, and warms the page cache."""
    with rasterio.open(path) as dataset:
        assert np.array_equal(swath.read(path), dataset.read()), f"{path.name}: swath and rasterio differ"


def line(row: dict) -> list[str]:
    megabytes = row["bytes"] / 1e6
    peer, ours = megabytes / min(row["rasterio"]), megabytes / min(row["swath"])
    return [row["file"], str(row["threads"]), f"{peer:.0f}", f"{ours:.0f}", f"{ours / peer:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, required=True, help="cache folder for the files")
    parser.add_argument("--size", type=int, default=SIZE, help="rows and columns (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per file and thread count (default %(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts (default 1 2)")
    parser.add_argument("--codecs", nargs="+", default=CODECS, choices=CODECS)
    parser.add_argument("--name", default="read", help="results go to bench/results/NAME.json (default %(default)s)")
    parser.add_argument("--no-check", action="store_true", help="do not compare the pixels first")
    args = parser.parse_args()

    files = write_files(args.dir, args.size, args.codecs)
    swath = Swath()
    rows = []
    for product, codec, path in files:
        if args.no_check:
            path.read_bytes()
        else:
            check(swath, path)
        for threads in args.threads:
            row = {"file": path.stem, "product": product, "codec": codec, "file_bytes": path.stat().st_size}
            rows.append(row | measure(swath, path, threads, args.rounds))
            print("  ".join(line(rows[-1])), flush=True)
    print()
    print(table(["file", "threads", "rasterio MB/s", "swath MB/s", "ratio"], [line(row) for row in rows]))
    slower = [f"{row['file']} ({row['threads']})" for row in rows if min(row["swath"]) > min(row["rasterio"])]
    print(f"\nslower than rasterio: {', '.join(slower) or 'nowhere'}")
    print(f"raw results: {save(args.name, swath, rows)}")
    swath.close()


if __name__ == "__main__":
    main()
