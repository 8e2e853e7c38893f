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
# An elevation model of 1000 x 1200 pixels of 30 m, with missing pixels, as a file to read from.

# %%
x = 500_000 + 30 * (np.arange(1200) + 0.5)
y = 4_200_000 - 30 * (np.arange(1000) + 0.5)
height = 800 + 300 * np.sin(x[None, :] / 4000) * np.cos(y[:, None] / 5000)
height[200:250, 300:400] = -9999
dem = xr.DataArray(height.astype("float32"), dims=("y", "x"), coords={"y": y, "x": x})
path = swath.to_geotiff(dem, str(folder / "dem.tif"), crs=32633, nodata=-9999, cog=True)

# %% [markdown]
# Read the whole file. Missing pixels keep the nodata value of the file, and `attrs` states this value.

# %%
whole = swath.open_geotiff(path)
print(whole.shape, whole.dtype, whole.name)
print(whole.attrs["crs"], whole.attrs["nodata"], whole.attrs["transform"])
assert float(whole.min()) == -9999

# %% [markdown]
# `masked=True` turns missing pixels into NaN, so that means and plots are correct.

# %%
masked = swath.open_geotiff(path, masked=True)
print(f"mean {float(masked.mean()):.1f} m, {int(masked.isnull().sum())} pixels are missing")
assert int(masked.isnull().sum()) == 50 * 100

# %% [markdown]
# Read a part, by rows and columns or by coordinates. Swath reads and decodes only the tiles that overlap it.

# %%
window = swath.open_geotiff(path, window=(100, 200, 356, 456))
box = swath.open_geotiff(path, bbox=(506_000, 4_180_000, 512_000, 4_190_000))
print(window.shape, box.shape, float(box.x[0]), float(box.y[0]))
assert window.equals(whole[100:356, 200:456])

# %% [markdown]
# Read an overview, for example for a map at low zoom.

# %%
small = swath.open_geotiff(path, overview_level=2)
print(small.shape)
assert small.shape == (250, 300)

# %% [markdown]
# Bytes, file objects and `https://`, `s3://` and `gs://` URLs are sources too. Of a URL, Swath fetches only the header
# and the tiles of the window.

# %%
in_memory = swath.open_geotiff((folder / "dem.tif").read_bytes())
with (folder / "dem.tif").open("rb") as file:
    from_object = swath.open_geotiff(file)
assert in_memory.equals(whole) and from_object.equals(whole)

# %% [markdown]
# The report of the last read: number of tiles, time, device.

# %%
report = swath.last_report()
assert report is not None
print({key: report[key] for key in ("device", "codec", "blocks", "threads")})
