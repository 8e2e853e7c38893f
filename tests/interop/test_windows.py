"""Random windows, bands, levels, layouts and thread counts."""

from dataclasses import dataclass

import numpy as np
import pytest
from rasterio.windows import Window

import pyramid_cases
from binary import Swath
from case import Case, assert_same, gdal_pixels
from pixels import generator

FILES = {case.id: case for case in pyramid_cases.all_cases()}
PER_FILE = 8


@dataclass(frozen=True)
class Request:
    """One read of a part of a file. The ranges of rows and columns exclude their end."""

    file: str
    number: int
    level: int
    rows: tuple[int, int]
    cols: tuple[int, int]
    bands: tuple[int, ...] | None
    bands_last: bool
    threads: int

    @property
    def id(self) -> str:
        bands = "all" if self.bands is None else "".join(map(str, self.bands))
        return f"{self.file}-{self.number}-level{self.level}-bands{bands}"

    def flags(self) -> list[str]:
        flags = ["--window", f"{self.rows[0]},{self.cols[0]},{self.rows[1]},{self.cols[1]}"]
        flags += ["--overview", str(self.level), "--threads", str(self.threads)]
        if self.bands is not None:
            flags += ["--bands", ",".join(map(str, self.bands))]
        return flags + (["--layout", "bands-last"] if self.bands_last else [])


def span(rng: np.random.Generator, size: int) -> tuple[int, int]:
    """A range within 0..size that is never empty and often touches an edge."""
    start, end = sorted(rng.integers(0, size + 1, 2))
    if rng.random() < 0.2:
        start = 0
    if rng.random() < 0.2:
        end = size
    return (int(start), int(end)) if start < end else (int(min(start, size - 1)), int(min(start, size - 1)) + 1)


def requests() -> list[Request]:
    made = []
    for name in FILES:
        rng = generator(name)
        count = next((int(part[1:]) for part in name.split("-") if part[0] == "b" and part[1:].isdigit()), 1)
        if name.startswith("masked"):
            count = 3
        for number in range(PER_FILE):
            level = int(rng.integers(0, 3))
            height, width = pyramid_cases.level_size(name, level)
            bands = tuple(int(b) for b in rng.permutation(np.arange(1, count + 1))[: rng.integers(1, count + 1)])
            made.append(
                Request(
                    name, number, level, span(rng, height), span(rng, width),
                    None if rng.random() < 0.3 else bands, bool(rng.random() < 0.3), int(rng.integers(1, 4)),
                )
            )  # fmt: skip
    return made


@pytest.mark.parametrize("request_", requests(), ids=lambda request: request.id)
def test_same_window_as_peer(request_: Request, swath: Swath, written) -> None:
    case: Case = FILES[request_.file]
    path, _ = written(case)
    window = Window.from_slices(request_.rows, request_.cols)
    want = gdal_pixels(path, request_.level, window, list(request_.bands) if request_.bands else None)
    if request_.bands_last:
        want = np.ascontiguousarray(np.moveaxis(want, 0, -1))
    assert_same(swath.read(path, *request_.flags()), want, case.lossy)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", ["internal-uint16-b3-lzw", "cog-float32-b2-deflate"])
def test_threads_do_not_change_pixels(name: str, threads: int, swath: Swath, written) -> None:
    path, _ = written(FILES[name])
    assert_same(swath.read(path, "--threads", threads), gdal_pixels(path))


@pytest.mark.parametrize("window", ["0,0,204,10", "0,0,10,152", "5,5,5,9", "9,9,3,12", "-1,0,5,5"])
def test_window_outside_or_empty_is_an_error(window: str, swath: Swath, written, tmp_path) -> None:
    path, _ = written(FILES["internal-uint8-b1-none"])
    run = swath.run("read", path, tmp_path / "out.npy", f"--window={window}")
    assert run.code in (1, 2)
    assert len(run.stderr.splitlines()) == 1
    assert "panicked" not in run.stderr
