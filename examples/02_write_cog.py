# %% [markdown]
# # Writing a Cloud Optimized GeoTIFF
#
# One call writes tiles, overviews and the header in the order of a COG. The file appears complete or not at all.

# %%
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

import swath

folder = Path(tempfile.mkdtemp())

# %% [markdown]
# A scene of three bands as reflectance times 10,000, as satellite products store it.

# %%
rows, columns = np.mgrid[:512, :768]
bands = [2000 + 1500 * np.sin(rows / scale) * np.cos(columns / scale) for scale in (60, 90, 150)]
scene = xr.DataArray(
    np.stack(bands).astype("uint16"),
    dims=("band", "y", "x"),
    coords={"y": 60.0 - 0.0001 * (np.arange(512) + 0.5), "x": 10.0 + 0.0001 * (np.arange(768) + 0.5)},
    attrs={"crs": 4326, "nodata": 0},
)

# %% [markdown]
# zstd is the default. A predictor makes smooth data much smaller; it costs next to nothing.

# %%
plain = swath.to_geotiff(scene, str(folder / "plain.tif"), cog=True)
smaller = swath.to_geotiff(scene, str(folder / "predicted.tif"), cog=True, predictor=True, compression_level=15)
sizes = [Path(name).stat().st_size for name in (plain, smaller)]
print(f"{scene.nbytes:,} bytes of pixels, {sizes[0]:,} without and {sizes[1]:,} with a predictor, overviews included")
assert sizes[1] < sizes[0] < scene.nbytes * 1.4

# %% [markdown]
# Overviews are made until one fits in a tile. You can also choose the factors and the resampling method.

# %%
classes = (scene[0] // 500).astype("uint8")
path = swath.to_geotiff(
    classes,
    str(folder / "classes.tif"),
    cog=True,
    overview_levels=[2, 4],
    overview_resampling="mode",
    compression="deflate",
)
print([swath.open_geotiff(path, overview_level=level).shape for level in (0, 1, 2)])

# %% [markdown]
# Reading returns what was written: pixels, georeferencing and metadata.

# %%
again = swath.open_geotiff(smaller)
assert again.dims == ("y", "x", "band")
assert np.array_equal(again.values, scene.transpose("y", "x", "band").values)
assert again.attrs["crs"] == 4326 and again.attrs["nodata"] == 0
np.testing.assert_allclose(again.x, scene.x)

# %% [markdown]
# A NumPy array needs only a CRS. Lossy codecs take a quality or a maximum error.

# %%
noise = np.random.default_rng(0).normal(100, 5, (512, 512)).astype("float32")
bounded = swath.to_geotiff(noise, str(folder / "lerc.tif"), compression="lerc", max_z_error=0.01)
error = np.abs(swath.open_geotiff(bounded).values - noise).max()
print(f"largest error {error:.4f}")
assert error <= 0.0101
