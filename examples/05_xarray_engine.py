# %% [markdown]
# # The xarray engine
#
# With Swath installed, `xarray.open_dataset(..., engine="swath")` opens GeoTIFFs lazily, and arrays have an accessor.

# %%
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

import swath

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# Three days of temperature, one file each.

# %%
place = {"y": 50.0 - 0.01 * np.arange(600), "x": 5.0 + 0.01 * np.arange(800)}
rows, columns = np.mgrid[:600, :800]
for day in range(3):
    values = (15 + day + 5 * np.sin(rows / 100) * np.cos(columns / 80)).astype("float32")
    swath.to_geotiff(xr.DataArray(values, dims=("y", "x"), coords=place), str(folder / f"day{day}.tif"), crs=4326)

# %% [markdown]
# Opening reads headers. A selection reads the tiles that it overlaps.

# %%
dataset = xr.open_dataset(folder / "day0.tif", engine="swath")
print(dataset)
(name,) = dataset.data_vars
part = dataset[name].isel(y=slice(100, 200), x=slice(300, 400))
print(float(part.mean()))

# %% [markdown]
# With `chunks=` the arrays are dask arrays. `open_mfdataset` stacks many files.

# %%
stack = xr.open_mfdataset(
    [str(folder / f"day{day}.tif") for day in range(3)],
    engine="swath",
    combine="nested",
    concat_dim="time",
    preprocess=lambda one: one.rename({next(iter(one.data_vars)): "temperature"}),
    chunks={},
)
mean = stack["temperature"].mean("time")
print(mean)

# %% [markdown]
# The accessor writes arrays. It also reads the area of an array from another file, of any size.

# %%
mean.attrs["crs"] = 4326
path = mean.swath.to_geotiff(str(folder / "mean.tif"), cog=True)
under = part.swath.open_geotiff(path)
print(under.shape)
np.testing.assert_allclose(under.values, part.values + 1, rtol=1e-5)
