# %% [markdown]
# # Reading
#
# A GeoTIFF becomes an `xarray.DataArray`: pixels, coordinates of the pixel centres, the CRS and the rest in `attrs`.

# %%
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

import swath

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# An elevation model of 1000 x 1200 pixels of 30 m, with a hole in it, as a file to read from.

# %%
x = 500_000 + 30 * (np.arange(1200) + 0.5)
y = 4_200_000 - 30 * (np.arange(1000) + 0.5)
height = 800 + 300 * np.sin(x[None, :] / 4000) * np.cos(y[:, None] / 5000)
height[200:250, 300:400] = -9999
dem = xr.DataArray(height.astype("float32"), dims=("y", "x"), coords={"y": y, "x": x})
path = swath.to_geotiff(dem, str(folder / "dem.tif"), crs=32633, nodata=-9999, cog=True)

# %% [markdown]
# The whole file. The nodata value stays what it is in the file, and `attrs` says what it is.

# %%
whole = swath.open_geotiff(path)
print(whole.shape, whole.dtype, whole.name)
print(whole.attrs["crs"], whole.attrs["nodata"], whole.attrs["transform"])
assert float(whole.min()) == -9999

# %% [markdown]
# `masked=True` makes holes NaN, so that means and plots are right.

# %%
masked = swath.open_geotiff(path, masked=True)
print(f"mean {float(masked.mean()):.1f} m, {int(masked.isnull().sum())} pixels are missing")
assert int(masked.isnull().sum()) == 50 * 100

# %% [markdown]
# A part of it: by rows and columns, or by coordinates. Only the tiles that are touched are read and decoded.

# %%
window = swath.open_geotiff(path, window=(100, 200, 356, 456))
box = swath.open_geotiff(path, bbox=(506_000, 4_180_000, 512_000, 4_190_000))
print(window.shape, box.shape, float(box.x[0]), float(box.y[0]))
assert window.equals(whole[100:356, 200:456])

# %% [markdown]
# A coarser level of the pyramid: what a map at low zoom needs.

# %%
small = swath.open_geotiff(path, overview_level=2)
print(small.shape)
assert small.shape == (250, 300)

# %% [markdown]
# Bytes and file objects are sources too, and so are `https://`, `s3://`, `gs://` URLs: of those, only the header and
# the tiles of the window are fetched.

# %%
in_memory = swath.open_geotiff((folder / "dem.tif").read_bytes())
with (folder / "dem.tif").open("rb") as file:
    from_object = swath.open_geotiff(file)
assert in_memory.equals(whole) and from_object.equals(whole)

# %% [markdown]
# What the last read did: how many tiles, how long, on what device.

# %%
report = swath.last_report()
assert report is not None
print({key: report[key] for key in ("device", "codec", "blocks", "threads")})
