# %% [markdown]
# # Windows for training
#
# A loader needs many small windows from many files, fast: `swath.read_windows` decodes them in parallel into one array.

# %%
import tempfile
import time
from pathlib import Path

import numpy as np

import swath

folder = Path(tempfile.mkdtemp())
random = np.random.default_rng(7)

# %% [markdown]
# Six scenes of two bands: an image and its label.

# %%
scenes = []
for number in range(6):
    rows, columns = np.mgrid[:1024, :1024]
    image = 100 + 50 * np.sin(rows / (20 + number)) * np.cos(columns / 30) + random.normal(0, 2, rows.shape)
    label = image > 110
    both = np.stack([image, label * 255], axis=-1).astype("uint8")
    scenes.append(swath.to_geotiff(both, str(folder / f"scene{number}.tif"), compression="deflate", predictor=True))

# %% [markdown]
# A batch is a list of (file, window, band). The file may be a path, a URL, or bytes.

# %%
SIZE = 128


def draw(count: int) -> list[tuple[str, tuple[int, int, int, int]]]:
    """Random places in random scenes."""
    corners = random.integers(0, 1024 - SIZE, (count, 2)).tolist()
    chosen = random.integers(0, len(scenes), count).tolist()
    return [
        (scenes[i], (row, column, row + SIZE, column + SIZE)) for i, (row, column) in zip(chosen, corners, strict=True)
    ]


places = draw(64)
images = swath.read_windows(places, band=0)
labels = swath.read_windows(places, band=1)
print(images.shape, images.dtype, labels.mean())

# %% [markdown]
# Each window has the pixels that `open_geotiff` returns for it.

# %%
file, window = places[5]
assert np.array_equal(images[5], swath.open_geotiff(file, window=window, band=0).values)

# %% [markdown]
# `out=` fills an existing array and converts to its type: for example one buffer for the whole training, pinned
# memory, or a slice of shared memory.

# %%
batch = np.empty((64, SIZE, SIZE), "float32")
start = time.perf_counter()
for _ in range(10):
    swath.read_windows(draw(64), out=batch)
seconds = time.perf_counter() - start
print(f"{640 / seconds:,.0f} windows of {SIZE} x {SIZE} in a second")

# %% [markdown]
# With PyTorch this is a dataset of batches. Workers may be forked or spawned; each worker opens the files again.


# %%
class Batches:
    """What torch.utils.data.Dataset wants: a length and items."""

    def __init__(self, count: int) -> None:
        self.batches = [draw(32) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return tuple(swath.read_windows(self.batches[index], band=band) for band in (0, 1))


data = Batches(4)
for index in range(len(data)):
    image, label = data[index]
    assert image.shape == label.shape == (32, SIZE, SIZE)
