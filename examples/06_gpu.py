# %% [markdown]
# # Decoding on a GPU
#
# `gpu=True` decodes on the device and gives a CuPy array: the compressed bytes cross the bus, not the pixels. This
# script runs without a GPU too, and shows what happens then.

# %%
import tempfile
import warnings
from pathlib import Path

import numpy as np

import swath

folder = Path(tempfile.mkdtemp())
rows, columns = np.mgrid[:2048, :2048]
pixels = (1000 + 500 * np.sin(rows / 70) * np.cos(columns / 90)).astype("uint16")
path = swath.to_geotiff(pixels, str(folder / "scene.tif"), compression="deflate", predictor=True)

# %% [markdown]
# What there is. A device that cannot be used says why.

# %%
for device in swath.devices():
    print(device)

# %% [markdown]
# With CuPy and a device: pixels on the GPU. Without: an ImportError (no CuPy) or a RuntimeError (no device) that
# says so, and the read on the CPU is one keyword away.

# %%
try:
    scene = swath.open_geotiff(path, gpu=True)
    print("on the GPU:", type(scene.data))
except (ImportError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")
    scene = swath.open_geotiff(path)
    print("on the CPU:", type(scene.data))

# %% [markdown]
# What ran where, and what fell back and why.

# %%
report = swath.last_report()
assert report is not None
print({key: report[key] for key in ("device", "codec", "blocks", "fallbacks")})

# %% [markdown]
# `on_gpu_failure="strict"` raises where the default falls back to the CPU for what a device cannot do.

# %%
try:
    strict = swath.open_geotiff(path, gpu=True, on_gpu_failure="strict")
    print("every block was decoded on the device:", strict.shape)
except (ImportError, RuntimeError) as error:
    print(f"strict: {type(error).__name__}")

# %% [markdown]
# Writing with `gpu=True` compresses on the device. Where there is none, the CPU writes the file and a warning says so.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    written = swath.to_geotiff(pixels, str(folder / "written.tif"), gpu=True)
print([str(warning.message) for warning in caught if issubclass(warning.category, swath.GeoTIFFFallbackWarning)])
assert np.array_equal(swath.open_geotiff(written).values, pixels)
