"""A separate process that writes or reads something large and prints its memory use.

    python peak_memory.py write ROWS COLUMNS CHUNK COG CODEC FILE
    python peak_memory.py copy SOURCE FILE CHUNK
    python peak_memory.py read FILE

The output is JSON: `before` and `peak` in bytes of resident memory, the first after all imports.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import dask
import dask.array
import numpy as np
import xarray as xr

import swath


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def block(block_info: Any = None) -> np.ndarray[Any, Any]:
    """Pixels that depend on their position: floats in steps of 16 pixels."""
    (top, bottom), (left, right) = block_info[None]["array-location"]
    made = np.empty((bottom - top, right - left), "f4")
    np.add(np.arange(top, bottom, dtype="f4")[:, None] // 16, np.arange(left, right, dtype="f4") // 16, out=made)
    return made


def steps(rows: int, columns: int, chunk: int) -> xr.DataArray:
    chunks = tuple((chunk,) * (side // chunk) for side in (rows, columns))
    pixels = dask.array.map_blocks(block, chunks=chunks, dtype="f4", meta=np.empty((0, 0), "f4"))
    return xr.DataArray(pixels, dims=("y", "x"), attrs={"crs": 32633, "transform": (1.0, 0.0, 0.0, 0.0, -1.0, 0.0)})


def main(verb: str, *arguments: str) -> None:
    with dask.config.set(num_workers=2):
        # Modules imported on first use and memory that threads take once are not part of the measurement.
        steps(64, 64, 32).compute()
        if verb == "write":
            rows, columns, chunk = map(int, arguments[:3])
            cog, codec, file = arguments[3] == "cog", arguments[4], arguments[5]
            array = steps(rows, columns, chunk)
            before = resident()
            swath.to_geotiff(array, file, cog=cog, compression=codec)
        elif verb == "copy":
            source, file, chunk = arguments
            before = resident()
            swath.to_geotiff(swath.open_geotiff(source, chunks=int(chunk)), file, cog=True)
        else:
            before = resident()
            assert swath.open_geotiff(arguments[0]).shape
    print(json.dumps({"before": before, "peak": resident()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
