"""The memory of a streamed COG of dask chunks stays below the formula of docs/writing.md at any height.

SWATH_SLOW=1 adds the COG of 4 GB.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from swath import _swath

MIB = 1 << 20
COLUMNS, TILE, CHUNK = 8192, 256, 1024
ROW_BYTES = 4 * COLUMNS
SUPPORT = Path(__file__).resolve().parents[1] / "support"
WORKERS = 2  # of dask, as in peak_memory.py
CODEC = {"zstd": 8 * MIB}
# An image of a quarter of the height may use this much less: overviews of a few rows, the table of blocks, allocator
# noise.
GROWTH, LUCK = 1.05, 24 * MIB


@dataclass(frozen=True)
class Peak:
    before: int
    peak: int
    file_bytes: int

    @property
    def more(self) -> int:
        return self.peak - self.before


def measured(*arguments: object) -> Peak:
    """The peak memory of a separate process; except for `read`, its last argument is the file it writes."""
    program = [sys.executable, str(SUPPORT / "peak_memory.py"), *map(str, arguments)]
    run = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    file = next(Path(str(argument)) for argument in reversed(arguments) if str(argument).endswith(".tif"))
    return Peak(**json.loads(run.stdout), file_bytes=file.stat().st_size)


def bound(rows: int, file_bytes: int, *, cog: bool, codec: str, chunk: int = CHUNK) -> int:
    """The formula of docs/writing.md, with the chunks of the source as blocks of the input, plus the memory that dask
    needs for them.
    """
    threads = _swath.default_threads()
    at_once = max(chunk, max(TILE, 16 * MIB // ROW_BYTES) // chunk * chunk)
    held = blocks = 0
    for factor in factors(rows) if cog else [1]:
        height = math.ceil(at_once / factor)
        if height % TILE:
            height = TILE if TILE % height == 0 else TILE + height
        held += height * ROW_BYTES // factor
        blocks += math.ceil(rows / factor / TILE) * math.ceil(COLUMNS / factor / TILE)
    waiting = held * file_bytes // (rows * ROW_BYTES)
    engine = 2 * held + waiting + threads * (4 * TILE * TILE * 4 + 4 * MIB + CODEC[codec]) + 64 * blocks + 32 * MIB
    # The chunks of one call, their concatenation, the same again that malloc keeps for the next call, and one chunk in
    # progress per worker.
    made = 3 * at_once * ROW_BYTES + WORKERS * chunk * chunk * 4
    tasks = 4096 * (rows // chunk) * (COLUMNS // chunk)
    return engine + made + tasks


def factors(rows: int) -> list[int]:
    found = [1]
    while max(rows, COLUMNS) > TILE * found[-1]:
        found.append(2 * found[-1])
    return found


def under_the_formula(rows: int, folder: Path) -> Peak:
    path = folder / f"{rows}.tif"
    found = measured("write", rows, COLUMNS, CHUNK, "cog", "zstd", path)
    path.unlink()
    allowed = bound(rows, found.file_bytes, cog=True, codec="zstd")
    usage = f"{rows} rows, {rows * ROW_BYTES / 1e9:.2f} GB: {found.more / 1e6:.0f} MB above {found.before / 1e6:.0f} MB"
    print(f"{usage}, the bound is {allowed / 1e6:.0f} MB")
    assert found.more < allowed, f"{usage}, the bound is {allowed / 1e6:.0f} MB"
    return found


def test_streamed_cog_takes_the_same_for_any_height(tmp_path: Path) -> None:
    """0.5 and 1 GB of dask chunks."""
    low, high = (under_the_formula(rows, tmp_path) for rows in (16384, 32768))
    assert high.more < GROWTH * low.more + LUCK, f"{low.more / 1e6:.0f} MB, then {high.more / 1e6:.0f} MB"


@pytest.mark.skipif(not os.environ.get("SWATH_SLOW"), reason="the COG of 4 GB takes a minute: SWATH_SLOW=1 runs it")
def test_streamed_cog_of_4_gb(tmp_path: Path) -> None:
    low, high = (under_the_formula(rows, tmp_path) for rows in (32768, 131072))
    assert high.more < GROWTH * low.more + LUCK


@pytest.fixture(scope="module")
def half_a_gigabyte(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Peak]:
    """A plain file of 0.5 GB and the memory that writing it used."""
    path = tmp_path_factory.mktemp("memory") / "source.tif"
    return path, measured("write", 16384, COLUMNS, CHUNK, "plain", "zstd", path)


def test_streamed_plain_file(half_a_gigabyte: tuple[Path, Peak]) -> None:
    found = half_a_gigabyte[1]
    allowed = bound(16384, found.file_bytes, cog=False, codec="zstd")
    assert found.more < allowed, f"{found.more / 1e6:.0f} MB, the bound is {allowed / 1e6:.0f} MB"


def test_lazy_copy_never_holds_the_image(half_a_gigabyte: tuple[Path, Peak], tmp_path: Path) -> None:
    """A file opened with chunks= and written as a COG: the pixels are streamed."""
    found = measured("copy", half_a_gigabyte[0], tmp_path / "target.tif", CHUNK)
    allowed = bound(16384, found.file_bytes, cog=True, codec="zstd")
    assert found.more < allowed, f"{found.more / 1e6:.0f} MB, the bound is {allowed / 1e6:.0f} MB"


def test_eager_read_holds_the_image_once(half_a_gigabyte: tuple[Path, Peak]) -> None:
    pixels = 16384 * ROW_BYTES
    found = measured("read", half_a_gigabyte[0])
    assert found.more < 1.05 * pixels + 48 * MIB, f"{found.more / 1e6:.0f} MB for {pixels / 1e6:.0f} MB of pixels"
