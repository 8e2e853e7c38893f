"""Random re-encodings: a seed draws every option that GDAL offers for writing a GeoTIFF.

The other cases vary one option at a time. These vary all at once, because many bugs need two options together.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import rasterio
import rasterio.shutil
from rasterio import Affine
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp, Resampling
from rasterio.windows import Window

from gdal_cases import DTYPES, predictors
from pixels import COMPLEX_INT, photo, pixels

COUNT = 160
SYSTEMS = ["EPSG:4326", "EPSG:32633", "EPSG:3857", "EPSG:2154", "EPSG:26711", "EPSG:9518", "EPSG:2225+6360", None]
LERC_DTYPES = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"}


@dataclass
class Recipe:
    """The options of one file. `options` are GDAL's creation options."""

    number: int
    dtype: str
    shape: tuple[int, int, int]
    options: dict[str, object] = field(default_factory=dict)
    place: dict[str, object] = field(default_factory=dict)
    nodata: float | None = None
    mask: str = ""
    overviews: list[int] = field(default_factory=list)
    external_overviews: bool = False
    extras: set[str] = field(default_factory=set)
    cog: dict[str, object] | None = None

    @property
    def id(self) -> str:
        words = [str(self.number), self.dtype, f"b{self.shape[0]}", str(self.options["compress"])]
        words += [str(self.options["interleave"]), str(self.options["endianness"]).lower()]
        return "-".join([*words, *sorted(self.extras), *(["cog"] if self.cog is not None else [])])

    @property
    def lossy(self) -> bool:
        return self.options["compress"] == "jpeg"

    @property
    def masks_levels(self) -> bool:
        """Whether GDAL reports masks and nodata for overviews as for the image.

        GDAL ignores a mask without overviews of its own, and the nodata value of 64-bit integers in overviews.
        """
        wide = self.dtype in ("int64", "uint64") and self.nodata is not None
        return not wide and not (self.mask and (self.external_overviews or self.cog is not None))

    @property
    def has_broken_mask(self) -> bool:
        """Whether GDAL writes a wrong mask: it passes byte-swapped samples of big-endian files to LERC, and loses
        those that then look like NaN.
        """
        swapped = self.options["endianness"] == "BIG" and self.dtype.startswith("float")
        return swapped and "lerc" in str(self.options["compress"])


def recipe(number: int) -> Recipe:
    """The recipe with this number; always the same for the same number."""
    rng = Random(number)
    bands, height, width = rng.choice([1, 1, 2, 3, 4, 5]), rng.randint(1, 150), rng.randint(1, 150)
    made = Recipe(number, rng.choice([kind for kind in DTYPES if kind != COMPLEX_INT]), (bands, height, width))
    made.options = codec(made, rng) | layout(rng)
    options = made.options
    options |= {"interleave": rng.choice(["pixel", "band"]), "endianness": rng.choice(["LITTLE", "BIG"])}
    options["bigtiff"] = rng.choice(["YES", "NO"])
    byte_codec = options["compress"] in ("none", "lzw", "deflate", "zstd", "packbits") and "predictor" not in options
    if made.dtype in ("uint8", "uint16", "uint32") and rng.random() < 0.2 and byte_codec:
        size = 8 * np.dtype(made.dtype).itemsize
        options["nbits"] = rng.randint(size // 2 + 1 if size > 8 else 1, size - 1)
    if rng.random() < 0.2:
        options["sparse_ok"] = "yes"
    if rng.random() < 0.2:
        options["profile"] = rng.choice(["GeoTIFF", "BASELINE"])
    if rng.random() < 0.2:
        options["tfw"] = "yes"
    options["geotiff_version"] = rng.choice(["AUTO", "1.0", "1.1"])
    made.place = place(rng)
    if rng.random() < 0.4:
        made.nodata = rng.choice([0, 1, 7])
    elif made.dtype.startswith("float") and rng.random() < 0.4:
        made.nodata = rng.choice([float("nan"), -9999.0, 0.1])
    made.mask = rng.choice(["", "", "", "internal", "external"])
    if min(height, width) > 8 and rng.random() < 0.5:
        made.overviews = rng.choice([[2], [2, 4], [3]])
        # GDAL stores half floats as float32 in an .ovr and then cannot fill sparse tiles of it.
        made.external_overviews = rng.random() < 0.4 and made.dtype != "float16"
    made.extras = {word for word in ("point", "items", "scale", "colors", "gcps") if rng.random() < 0.15}
    if rng.random() < 0.12:
        made.cog = {"blocksize": rng.choice([128, 256])}
    return made


def codec(made: Recipe, rng: Random) -> dict[str, object]:
    names = ["none", "lzw", "deflate", "zstd", "packbits", "lzma"]
    if made.dtype in LERC_DTYPES:
        names += ["lerc", "lerc_deflate", "lerc_zstd"]
    if made.dtype == "uint8" and made.shape[0] in (1, 3):
        names += ["jpeg"]
    name = rng.choice(names)
    if name in ("lzw", "deflate", "zstd"):
        return {"compress": name, "predictor": rng.choice(predictors(made.dtype))}
    return {"compress": name}


def layout(rng: Random) -> dict[str, object]:
    if rng.random() < 0.5:
        return {"tiled": True, "blockxsize": 16 * rng.randint(1, 10), "blockysize": 16 * rng.randint(1, 10)}
    return {"blockysize": rng.choice([8, 16, 40, 64, 1000])}


def place(rng: Random) -> dict[str, object]:
    size = rng.choice([1.0, 0.25, 30.0, 1 / 3])
    shear = rng.choice([0.0, 0.0, 0.0, size / 7])
    transform = Affine(size, shear, rng.choice([0.5, 440720.0]), -shear, -size, rng.choice([60.0, 3751320.0]))
    system = rng.choice(SYSTEMS)
    return ({"transform": transform} if rng.random() < 0.9 else {}) | ({"crs": system} if system else {})


def array_of(made: Recipe) -> np.ndarray:
    if made.lossy:
        return photo(made.id, *made.shape)
    array = pixels(made.id, made.dtype, *made.shape, bits=made.options.get("nbits"))
    if made.nodata is not None:
        array[..., : made.shape[2] // 3] = made.nodata
    if "sparse_ok" in made.options:
        array[:, made.shape[1] // 2 :] = 0
    return array


def write(made: Recipe, path: Path) -> Path:
    """Writes the file and returns its path: a COG is written as a copy."""
    bands, height, width = made.shape
    header = {"count": bands, "height": height, "width": width, "dtype": made.dtype, **made.place}
    if made.nodata is not None:
        header["nodata"] = made.nodata
    array = array_of(made)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=made.mask == "internal", TIFF_USE_OVR=made.external_overviews):
        with rasterio.open(path, "w", driver="GTiff", **header, **made.options) as dataset:
            stored = height // 2 if "sparse_ok" in made.options and height > 1 else height
            dataset.write(array[:, :stored], window=Window(0, 0, width, stored))
            describe(dataset, made)
            if made.mask:
                dataset.write_mask(np.add.outer(np.arange(height), np.arange(width)) % 7 > 2)
        if made.overviews:
            with rasterio.open(path, "r+") as dataset:
                dataset.build_overviews(made.overviews, Resampling.nearest)
        if made.cog is None:
            return path
        copy = path.with_name(f"cog-{path.name}")
        rasterio.shutil.copy(path, copy, driver="COG", **made.cog)
        return copy


def describe(dataset: rasterio.io.DatasetWriter, made: Recipe) -> None:
    bands = made.shape[0]
    if "point" in made.extras:
        dataset.update_tags(AREA_OR_POINT="Point")
    if "items" in made.extras:
        dataset.update_tags(TITLE='a <b> & "c" é')
        dataset.update_tags(1, WAVELENGTH="0.4")
        dataset.descriptions, dataset.units = [f"band {i}" for i in range(bands)], ["m"] * bands
    if "scale" in made.extras:
        dataset.scales, dataset.offsets = [0.1 * (i + 1) for i in range(bands)], [-1.5 * i for i in range(bands)]
    if "colors" in made.extras and bands > 1:
        dataset.colorinterp = [*dataset.colorinterp[:-1], [ColorInterp.alpha, ColorInterp.blue][made.number % 2]]
    if "gcps" in made.extras and not made.place:
        points = [GroundControlPoint(row=i, col=3 * i % 7, x=10 + i, y=50 - i, z=i) for i in range(5)]
        dataset.gcps = points, rasterio.crs.CRS.from_epsg(4326)


def recipes() -> Iterator[Recipe]:
    """All recipes."""
    for number in range(COUNT):
        yield recipe(number)


def written(made: Recipe, folder: Path) -> Path | None:
    """The file, or None if GDAL refuses the combination."""
    with suppress(Exception):  # GDAL's errors have no public class
        return write(made, folder / f"{made.number}.tif")
    return None
