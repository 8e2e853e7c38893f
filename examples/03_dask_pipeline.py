# %% [markdown]
# # A dask pipeline, from file to file
#
# `chunks=` reads only the header, and the write computes a few rows at a time. So files may be larger than
# memory, also COGs.

# %%
import tempfile
from pathlib import Path

import dask
import numpy as np
import xarray as xr

import swath

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# Two bands, red and near infrared, on one grid.

# %%
rows, columns = np.mgrid[:1536, :1536]
place = {"y": 5_000_000 - 10.0 * np.arange(1536), "x": 300_000 + 10.0 * np.arange(1536)}
for name, scale in (("red", 300), ("nir", 200)):
    values = (3000 + 2000 * np.sin(rows / scale) * np.cos(columns / scale)).astype("uint16")
    values[:64, :64] = 0
    band = xr.DataArray(values, dims=("y", "x"), coords=place)
    swath.to_geotiff(band, str(folder / f"{name}.tif"), crs=32632, nodata=0, predictor=True)

# %% [markdown]
# `chunks="auto"` makes chunks of whole tiles, so that no tile is decoded twice. Nothing is read yet.

# %%
red = swath.open_geotiff(folder / "red.tif", chunks="auto", masked=True)
nir = swath.open_geotiff(folder / "nir.tif", chunks="auto", masked=True)
print(red.chunks, red.dtype)

# %%
ndvi = ((nir - red) / (nir + red)).astype("float32")
ndvi.attrs = {"crs": 32632, "nodata": -1}
print(ndvi.data)

# %% [markdown]
# The write computes rows when it needs them, and each chunk once. `streaming_buffer_bytes` limits the memory.

# %%
path = swath.to_geotiff(ndvi, str(folder / "ndvi.tif"), cog=True, streaming_buffer_bytes=16 << 20)
print(f"{Path(path).stat().st_size:,} bytes")

# %% [markdown]
# `compute=False` returns a Delayed, which can be part of a larger graph.

# %%
later = swath.to_geotiff(ndvi, str(folder / "later.tif"), cog=True, compute=False)
dask.compute(later)

# %% [markdown]
# The bytes of a file depend only on the pixels and the options, not on how they were computed.

# %%
at_once = swath.to_geotiff(ndvi.compute(), str(folder / "at_once.tif"), cog=True)
files = [Path(name).read_bytes() for name in (path, folder / "later.tif", at_once)]
assert files[0] == files[1] == files[2]
result = swath.open_geotiff(path, masked=True)
print(f"NDVI from {float(result.min()):.2f} to {float(result.max()):.2f}")
assert int(result.isnull().sum()) == 64 * 64
