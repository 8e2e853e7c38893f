"""The targets of the project, checked against the results of a run."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from results import best, best_peer, measured, ratio, to_limit

MAIN = ("none", "deflate", "zstd", "lzw")
GDAL_DRIVERS = ("GTiff", "LIBERTIFF")


@dataclass(frozen=True)
class Target:
    """One target. `values` gives the measured values with the name of their row; the worst one counts."""

    text: str
    bound: float
    values: Callable[[list[dict]], Iterable[tuple[float | None, str]]]
    at_most: bool = False

    def check(self, rows: list[dict]) -> list[str]:
        """One line of the table: text, value, met or not."""
        found = [(value, name) for value, name in self.values(rows) if value is not None]
        if not found:
            return [self.text, "", "not measured"]
        value, name = max(found) if self.at_most else min(found)
        met = value <= self.bound if self.at_most else value >= self.bound
        shown = f"{value:.2f}" if value < 100 else f"{value:.0f}"
        return [self.text, f"{shown} ({name})", "met" if met else "**not met**"]


def name_of(row: dict) -> str:
    return f"{row['title']}, {row['threads']} thread{'s' * (row['threads'] > 1)}"


def of_kind(rows: list[dict], kind: str, *titles: str) -> list[dict]:
    return [row for row in rows if row["kind"] == kind and (not titles or row["title"] in titles)]


def ratios(kind: str, *titles: str) -> Callable:
    return lambda rows: [(ratio(row), name_of(row)) for row in of_kind(rows, kind, *titles)]


def reads(*titles: str) -> Callable:
    return ratios("full read", *titles)


def limits(*titles: str) -> Callable:
    return lambda rows: [(to_limit(row), name_of(row)) for row in of_kind(rows, "full read", *titles)]


def against(kind: str, peers: tuple[str, ...], *titles: str) -> Callable:
    """The ratio to the fastest of some peers; Swath counts with its fastest way."""

    def values(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
        for row in of_kind(rows, kind, *titles):
            theirs = [seconds for peer in peers if (seconds := best(row, peer))]
            mine = measured(row, "swath")
            if theirs and mine:
                name, seconds = next(iter(mine.items()))
                yield min(theirs) / seconds, f"{name_of(row)}, {name}"

    return values


def geometric_mean(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
    titles = [f"{raster} {codec}" for raster in ("dem", "scene") for codec in MAIN]
    found = [value for row in of_kind(rows, "full read", *titles) if (value := ratio(row))]
    if found:
        yield math.exp(sum(map(math.log, found)) / len(found)), f"{len(found)} rows of dem and scene"


def speeds(kind: str) -> Callable:
    def values(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
        for row in of_kind(rows, kind):
            if seconds := best(row, "Swath"):
                yield row["amount"] / seconds, row["title"]

    return values


def seconds_of(kind: str) -> Callable:
    return lambda rows: [(best(row, "Swath"), row["title"]) for row in of_kind(rows, kind)]


def memory(kind: str, name: str, *titles: str) -> Callable:
    """Peak memory over the start, in MB."""

    def values(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
        for row in of_kind(rows, kind, *titles):
            if found := best(row, name, "memory"):
                yield found / 1e6, row["title"]

    return values


def sizes(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
    """The size of Swath's file divided by that of GDAL's; of the best peer's where GDAL takes no part."""
    for row in rows:
        entries = row["contestants"]
        peer = "GTiff" if entries.get("GTiff", {}).get("file_bytes") else best_peer(row)
        mine = next((entries[name]["file_bytes"] for name in ("Swath", "Swath command") if name in entries), 0)
        theirs = entries[peer]["file_bytes"] if peer else 0
        if mine and theirs:
            yield mine / theirs, f"{row['kind']}, {row['title']}, against {peer}"


def thread_scaling(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
    """The speed with all threads divided by that with one, for compressed files."""
    alone = {row["title"]: best(row, "Swath") for row in of_kind(rows, "full read") if row["threads"] == 1}
    for row in of_kind(rows, "full read"):
        one, all_threads = alone.get(row["title"]), best(row, "Swath")
        if row["threads"] == 2 and one and all_threads and " none" not in row["title"]:
            yield one / all_threads, row["title"]


def linearity(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
    """The speed on the largest image divided by that on the smallest."""
    for kind in ("scaling of a full read", "scaling of a COG write"):
        found = [row["amount"] / seconds for row in of_kind(rows, kind) if (seconds := best(row, "Swath"))]
        if len(found) > 1:
            yield found[-1] / found[0], kind


def height_growth(rows: list[dict]) -> Iterable[tuple[float | None, str]]:
    """The memory for the tallest image divided by that for the shortest one of the same width."""
    found = of_kind(rows, "memory of a COG write")
    shapes = {tuple(int(word) for word in row["title"].split() if word.isdigit()): row for row in found}
    if shapes:
        width = min(width for width, _ in shapes)
        column = sorted((height, row) for (w, height), row in shapes.items() if w == width)
        least, most = (best(row, "Swath command", "memory") for _, row in (column[0], column[-1]))
        if least and most:
            yield most / least, f"{column[-1][0]} rows against {column[0][0]}"


WINDOWS = "windows, open file, no cache"
TARGETS = [
    Target("full read: every row at least 1.05 x the best peer", 1.05, reads()),
    Target("full read, dem deflate: at least 1.7 x", 1.7, reads("dem deflate")),
    Target("full read, scene deflate: at least 1.4 x", 1.4, reads("scene deflate")),
    Target("full read, dem zstd: at least 1.25 x", 1.25, reads("dem zstd")),
    Target("full read, scene zstd: at least 1.15 x", 1.15, reads("scene zstd")),
    Target("full read, lzw: at least 1.9 x", 1.9, reads("dem lzw", "scene lzw")),
    Target("full read, uncompressed: at least 0.95 of the limit", 0.95, limits("dem none", "scene none")),
    Target("full read: geometric mean at least 1.5", 1.5, geometric_mean),
    Target("full read, LERC uint8: at least 1.0 x", 1.0, reads("rgb lerc")),
    Target("full read, LERC uint16: at least 1.0 x", 1.0, reads("scene lerc")),
    Target("full read, JPEG XL: at least 1.0 x", 1.0, reads("rgb jpegxl", "rgb jpegxl-lossy")),
    Target("full read, JPEG 2000: at least 1.0 x", 1.0, reads("rgb jpeg2000")),
    Target("windows without a cache: at least 1.3 x the best GDAL driver", 1.3, against(WINDOWS, GDAL_DRIVERS)),
    Target("open_geotiff: at least 6,000 small files per second", 6000, speeds("read small files")),
    Target("import and first read: at most 0.5 s", 0.5, seconds_of("import and first read"), at_most=True),
    Target("write, uncompressed: at least 1.2 x", 1.2, ratios("write", "dem none", "scene none")),
    Target("write, zstd: at least 1.1 x", 1.1, ratios("write", "dem zstd", "scene zstd")),
    Target("write, deflate: at least 1.3 x", 1.3, ratios("write", "dem deflate", "scene deflate")),
    Target("write, lzw: at least 1.6 x", 1.6, ratios("write", "dem lzw", "scene lzw")),
    Target("COG, float32: at least 2.2 x GDAL", 2.2, against("write a COG", GDAL_DRIVERS, "dem deflate")),
    Target("COG, uint16: at least 1.6 x GDAL", 1.6, against("write a COG", GDAL_DRIVERS, "scene deflate")),
    Target("COG from dask: at least 2.5 x odc-geo", 2.5, against("write a COG from dask", ("odc-geo",))),
    Target(
        "COG from dask: at most 200 MB above the start", 200, memory("write a COG from dask", "Swath"), at_most=True
    ),
    Target("files at most 1 % larger than the peer's", 1.01, sizes, at_most=True),
    Target("2 threads at least 1.85 x one thread, compressed files", 1.85, thread_scaling),
    Target("cost linear in pixels: largest image at least 0.9 x the speed of the smallest", 0.9, linearity),
    Target("memory of a COG write does not grow with the height", 1.1, height_growth, at_most=True),
]
