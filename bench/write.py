"""Compares writing by Swath and by GDAL's drivers, alternating and each in a new process; the minimum of the rounds
counts.

Both convert the same uncompressed tiled GeoTIFF with a warm page cache and the same number of threads. Swath's time
is that of the whole process until the file is on the disk (fsync); GDAL's time covers only opening and copying, and
GDAL does not sync. Swath's memory is the peak of the whole process; GDAL's memory is the increase after Python and
GDAL were loaded and the input was opened. "From memory" means that GDAL copies an image that it already holds; the
time and memory to load that image do not count.
"""

import argparse
import ctypes
import json
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.windows import Window

from make_data import SIZE
from read import write_files
from report import Swath, markdown, save

TILE = 512
SPEED_GOAL, SIZE_GOAL, MEMORY_GOAL = 1.8, 1.02, 1 / 3


@dataclass(frozen=True)
class Case:
    """One conversion, as flags of Swath and as creation options of GDAL."""

    name: str
    product: str
    flags: list[object]
    driver: str
    options: dict[str, object] = field(default_factory=dict)
    lossless: bool = True


def cog(name: str, product: str, flags: list[object], lossless: bool = True, **options: object) -> Case:
    common = {"BLOCKSIZE": TILE, "OVERVIEW_RESAMPLING": "AVERAGE", "BIGTIFF": "IF_SAFER"}
    flags = ["--cog", "--tile", TILE, "--resampling", "mean", *flags]
    return Case(name, product, flags, "COG", common | options, lossless)


def plain(name: str, product: str, flags: list[object], **options: object) -> Case:
    common = {"TILED": "YES", "BLOCKXSIZE": TILE, "BLOCKYSIZE": TILE, "INTERLEAVE": "PIXEL", "BIGTIFF": "IF_SAFER"}
    return Case(name, product, ["--tile", TILE, *flags], "GTiff", common | options)


def deflate(predictor: int) -> list[object]:
    return ["--compression", "deflate", "--compression-level", 6, "--predictor", predictor]


CASES = [
    cog("dem, COG, deflate 6", "dem", deflate(3), COMPRESS="DEFLATE", LEVEL=6, PREDICTOR="FLOATING_POINT"),
    plain("scene, deflate 6", "scene", deflate(2), COMPRESS="DEFLATE", ZLEVEL=6, PREDICTOR=2),
    plain(
        "scene, zstd 9", "scene", ["--compression", "zstd", "--compression-level", 9, "--predictor", 2],
        COMPRESS="ZSTD", ZSTD_LEVEL=9, PREDICTOR=2,
    ),
    plain("scene, lzw", "scene", ["--compression", "lzw", "--predictor", 2], COMPRESS="LZW", PREDICTOR=2),
    # A tile size other than the input's; with the same size Swath would only copy blocks.
    plain("scene, none", "scene", ["--compression", "none", "--tile", 256], BLOCKXSIZE=256, BLOCKYSIZE=256),
    cog("rgb, COG, jpeg 75", "rgb", ["--compression", "jpeg", "--quality", 75], False, COMPRESS="JPEG", QUALITY=75),
]  # fmt: skip


def status(name: str) -> int:
    """A size in bytes that Linux reports for this process: VmRSS is the current size, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def peer(source: str, target: str, request: dict) -> dict:
    """One copy by GDAL in this process: its seconds, and the memory it used beyond what the process had before."""
    warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
    dataset = in_memory(source) if request["in_memory"] else None
    # Returns unused memory to the system: what loading the input left behind must neither count for the copy nor serve
    # the copy for free.
    ctypes.CDLL(None).malloc_trim(0)
    if dataset is None:
        rasterio.open(source).close()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    start, cpu = time.perf_counter(), time.process_time()
    with dataset or rasterio.open(source) as opened:
        rasterio.shutil.copy(opened, target, driver=request["driver"], **request["options"])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu": time.process_time() - cpu, "memory": status("VmHWM") - before}


def in_memory(source: str) -> rasterio.io.DatasetWriter:
    """The image in GDAL's own memory driver."""
    with rasterio.open(source) as file:
        profile = {key: file.profile[key] for key in ("width", "height", "count", "dtype", "crs", "transform")}
        dataset = rasterio.open("input", "w", driver="MEM", **profile)
        for row in range(0, file.height, TILE):
            window = Window(0, row, file.width, min(TILE, file.height - row))
            dataset.write(file.read(window=window), window=window)
    return dataset


class Bench:
    """Runs both programs on one case."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.folder, self.threads = folder, threads
        self.swath, self.python = Swath(), Swath(Path(sys.executable))

    def close(self) -> None:
        self.swath.close()
        self.python.close()

    def ours(self, case: Case, source: Path, target: Path) -> dict:
        flags = [*case.flags, "--threads", self.threads, "--overwrite"]
        run = self.swath.succeed("convert", source, target, *flags, timeout=600)
        return {"seconds": run.seconds, "cpu": run.cpu_seconds, "memory": run.peak_bytes}

    def theirs(self, case: Case, source: Path, target: Path, from_memory: bool) -> dict:
        options = case.options | {"NUM_THREADS": self.threads}
        request = {"driver": case.driver, "options": options, "in_memory": from_memory}
        run = self.python.succeed(__file__, "--peer", source, target, json.dumps(request), timeout=600)
        return json.loads(run.stdout)

    def measure(self, case: Case, source: Path, rounds: int) -> dict:
        """Times all three alternately, so that other load on the machine affects all."""
        source.read_bytes()
        ours, theirs = (self.folder / f"written_by_{who}.tif" for who in ("swath", "gdal"))
        runs = {"swath": [], "gdal": [], "gdal_from_memory": []}
        for _ in range(rounds):
            runs["gdal_from_memory"].append(self.theirs(case, source, theirs, True))
            runs["gdal"].append(self.theirs(case, source, theirs, False))
            runs["swath"].append(self.ours(case, source, ours))
        check(case, source, ours, theirs)
        sizes = {"swath_bytes": ours.stat().st_size, "gdal_bytes": theirs.stat().st_size}
        ours.unlink()
        theirs.unlink()
        head = {"case": case.name, "threads": self.threads, "input_bytes": source.stat().st_size}
        return head | {"flags": list(map(str, case.flags)), "options": case.options} | sizes | runs


def check(case: Case, source: Path, ours: Path, theirs: Path) -> None:
    """Checks the pixels: no pixel differs, or a lossy codec changed them no more than GDAL's did."""
    our_error, their_error = mean_error(source, ours), mean_error(source, theirs)
    assert our_error <= (0 if case.lossless else 1.1 * their_error), f"{case.name}: off by {our_error}, {their_error}"
    with rasterio.open(ours) as one, rasterio.open(theirs) as other:
        assert one.overviews(1) == other.overviews(1), f"{case.name}: the overviews differ"


def mean_error(source: Path, written: Path) -> float:
    """The mean absolute difference of the pixels."""
    total = 0.0
    with rasterio.open(source) as before, rasterio.open(written) as after:
        for row in range(0, before.height, 1024):
            window = Window(0, row, before.width, min(1024, before.height - row))
            one, other = before.read(window=window), after.read(window=window)
            if not np.array_equal(one, other):
                total += np.abs(one.astype(np.float64) - other).sum()
        return total / (before.width * before.height * before.count)


WHO = ["gdal", "gdal_from_memory", "swath"]
HEADER = [
    "what", "GDAL s", "from memory s", "Swath s", "speed", "per CPU s", "GDAL MB", "Swath MB", "size",
    "GDAL peak MB", "from memory MB", "Swath peak MB", "memory", "from memory",
]  # fmt: skip


def best(row: dict, key: str) -> dict[str, float]:
    return {who: min(run[key] for run in row[who]) for who in WHO}


def ratios(row: dict) -> dict[str, float]:
    """Ratios of Swath to GDAL. Large is better for speeds, small for the others."""
    seconds, cpu, memory = (best(row, key) for key in ("seconds", "cpu", "memory"))
    return {
        "speed": seconds["gdal"] / seconds["swath"],
        "speed per CPU": cpu["gdal"] / cpu["swath"],
        "size": row["swath_bytes"] / row["gdal_bytes"],
        "memory": memory["swath"] / memory["gdal"],
        "memory from memory": memory["swath"] / memory["gdal_from_memory"],
    }


def line(row: dict) -> list[str]:
    """One table row: times, sizes, memory, and their ratios."""
    found = ratios(row)
    seconds = [f"{value:.2f}" for value in best(row, "seconds").values()]
    memory = [f"{value / 1e6:.0f}" for value in best(row, "memory").values()]
    sizes = [f"{row[f'{who}_bytes'] / 1e6:.1f}" for who in ("gdal", "swath")]
    speeds = [f"{found[what]:.2f}" for what in ("speed", "speed per CPU")]
    memories = [f"{found[what]:.2f}" for what in ("memory", "memory from memory")]
    return [row["case"], *seconds, *speeds, *sizes, f"{found['size']:.3f}", *memory, *memories]


def goals(row: dict) -> str:
    """One line that tells whether a case meets the goals of the writer."""
    found = ratios(row)
    met = {
        "speed": found["speed"] >= SPEED_GOAL,
        "size": found["size"] <= SIZE_GOAL,
        "memory": found["memory"] < MEMORY_GOAL,
        "memory from memory": found["memory from memory"] < MEMORY_GOAL,
    }
    words = [f"{what} {found[what]:.2f} ({'met' if is_met else 'NOT MET'})" for what, is_met in met.items()]
    return f"{row['case']}: {', '.join(words)}"


def main() -> None:
    if sys.argv[1:2] == ["--peer"]:
        print(json.dumps(peer(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, required=True, help="cache folder for the files")
    parser.add_argument("--size", type=int, default=SIZE, help="rows and columns (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per case (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default %(default)s)")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--name", default="write", help="results go to bench/results/NAME.json (default %(default)s)")
    args = parser.parse_args()

    cases = [case for case in CASES if args.only in case.name]
    products = list(dict.fromkeys(case.product for case in cases))
    sources = {product: path for product, _, path in write_files(args.dir, args.size, ["none"], products)}
    bench = Bench(args.dir, args.threads)
    rows = []
    for case in cases:
        rows.append(bench.measure(case, sources[case.product], args.rounds))
        print("  ".join(line(rows[-1])), flush=True)
    print()
    print(markdown(HEADER, [line(row) for row in rows]))
    print()
    print(f"goals: speed {SPEED_GOAL}, size {SIZE_GOAL}, memory {MEMORY_GOAL:.2f}")
    print("\n".join(goals(row) for row in rows))
    print(f"raw results: {save(args.name, bench.swath, rows)}")
    bench.close()


if __name__ == "__main__":
    main()
