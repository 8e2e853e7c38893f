"""The memory of a streamed write does not grow with the image."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHILD = """
import resource, sys
import dask.array as da, dask.base, numpy as np, swath

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def make(block_info=None):
    (top, bottom), (left, right) = block_info[None]["array-location"]
    return np.add.outer(np.arange(top, bottom, dtype="f4"), np.arange(left, right, dtype="f4"))

def write(rows):
    chunks = da.core.normalize_chunks((512, 512), (rows, 8192))
    lazy = da.map_blocks(make, chunks=chunks, dtype="f4", meta=np.empty((0, 0), "f4"))
    swath.to_geotiff(lazy, sys.argv[1], cog=True, compression="lz4", tile_size=512, streaming_buffer_bytes=64 << 20)

write(512)
before = peak()
write(2048)
small = peak()
write(8192)
print(before, small, peak())
"""

MIB = 1 << 20


def test_a_quarter_of_a_gigabyte_of_dask_streams_into_a_cog(tmp_path: Path) -> None:
    """8192 rows of 8192 float32: 114 MiB by docs/writing.md, plus four strips of rows of 16 MiB while dask
    concatenates one.
    """
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "it.tif")], check=True, capture_output=True, text=True
    )
    before, small, large = map(int, done.stdout.split())
    assert large - before < (114 + 4 * 16) * MIB
    assert large - small < 32 * MIB
