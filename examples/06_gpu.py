# %% [markdown]
# # Decoding on a GPU
#
# `gpu=True` decodes on the device and returns a CuPy array: the compressed bytes cross the bus, not the pixels. This
# script also runs without a GPU, and shows what happens then.

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
# List the devices. For a device that cannot be used, the list has the reason.

# %%
for device in swath.devices():
    print(device)

# %% [markdown]
# With CuPy and a device, the pixels are on the GPU. Without CuPy, the call raises ImportError, and without a device
# RuntimeError. Without `gpu=True`, the CPU reads the file.

# %%
try:
    scene = swath.open_geotiff(path, gpu=True)
    print("on the GPU:", type(scene.data))
except (ImportError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")
    scene = swath.open_geotiff(path)
    print("on the CPU:", type(scene.data))

# %% [markdown]
# The report states what ran where, and which work the CPU did instead of the device, and why.

# %%
report = swath.last_report()
assert report is not None
print({key: report[key] for key in ("device", "codec", "blocks", "fallbacks")})

# %% [markdown]
# `on_gpu_failure="strict"` raises an error where the default uses the CPU for work that a device cannot do.

# %%
try:
    strict = swath.open_geotiff(path, gpu=True, on_gpu_failure="strict")
    print("every block was decoded on the device:", strict.shape)
except (ImportError, RuntimeError) as error:
    print(f"strict: {type(error).__name__}")

# %% [markdown]
# `gpu=True` compresses on the device when writing. Without a device, the CPU writes the file and a warning says so.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    written = swath.to_geotiff(pixels, str(folder / "written.tif"), gpu=True)
print([str(warning.message) for warning in caught if issubclass(warning.category, swath.GeoTIFFFallbackWarning)])
assert np.array_equal(swath.open_geotiff(written).values, pixels)
