"""Files with overviews: internal, in an .ovr, as SubIFDs, in a COG; two overviews each."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import rasterio
import tifffile
from rasterio.enums import Resampling

from case import Case
from gdal_cases import LAYOUTS, write_gdal
from pixels import photo, pixels

LEVELS = 2
SIZE = (203, 151)
PLACES = ("internal", "external", "cog")


def level_size(name: str, level: int) -> tuple[int, int]:
    """Rows and columns of a level: the COG driver rounds down, other writers round up."""
    if name.startswith("cog"):
        return SIZE[0] >> level, SIZE[1] >> level
    return -(-SIZE[0] // 2**level), -(-SIZE[1] // 2**level)


def pyramid(name: str, place: str, dtype: str, bands: int, **options: object) -> Case:
    """An image with overviews of factors 2 and 4, stored at `place`."""
    lossy = options.get("compress") == "jpeg"

    def write(path: Path) -> None:
        array = photo(name, bands, *SIZE) if lossy else pixels(name, dtype, bands, *SIZE)
        if place == "cog":
            write_cog(path, array, **options)
            return
        write_gdal(path, array, **options)
        with rasterio.Env(TIFF_USE_OVR=place == "external"), rasterio.open(path, "r+") as dataset:
            dataset.build_overviews([2, 4], Resampling.nearest)
        assert path.with_name(path.name + ".ovr").exists() == (place == "external")

    return Case(name, write, lossy=lossy)


def write_cog(path: Path, array: np.ndarray, **options: object) -> None:
    bands, height, width = array.shape
    shape = {"count": bands, "height": height, "width": width, "dtype": array.dtype}
    with rasterio.open(path, "w", driver="COG", blocksize=128, overview_count=2, **shape, **options) as dataset:
        dataset.write(array)


def with_mask(name: str, internal: bool, external_overviews: bool = False) -> Case:
    """Overviews of an image with a mask; the mask has overviews as well."""

    def write(path: Path) -> None:
        array = pixels(name, "uint8", 3, *SIZE)
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=internal, TIFF_USE_OVR=external_overviews):
            shape = {"count": 3, "height": SIZE[0], "width": SIZE[1], "dtype": "uint8"}
            with rasterio.open(path, "w", driver="GTiff", compress="deflate", **shape) as dataset:
                dataset.write(array)
                dataset.write_mask(array[0] > 90)
            with rasterio.open(path, "r+") as dataset:
                dataset.build_overviews([2, 4], Resampling.nearest)

    return Case(name, write)


def sub_ifds(name: str, bigtiff: bool, byteorder: str) -> Case:
    """Overviews as SubIFDs of the full image, as in OME-TIFF."""

    def write(path: Path) -> None:
        array = pixels(name, "uint16", 1, *SIZE)[0]
        options = {"tile": (32, 32), "photometric": "minisblack", "compression": "deflate"}
        with tifffile.TiffWriter(path, bigtiff=bigtiff, byteorder=byteorder) as tif:
            tif.write(array, subifds=LEVELS, **options)
            for factor in (2, 4):
                tif.write(np.ascontiguousarray(array[::factor, ::factor]), subfiletype=1, **options)

    return Case(name, write)


def all_cases() -> Iterator[Case]:
    """Every file with overviews."""
    variants = [
        ("uint8", 1, {"compress": "none"}),
        ("uint16", 3, {"compress": "lzw", "predictor": 2}),
        ("float32", 2, {"compress": "deflate", "predictor": 3}),
        ("int16", 4, {"compress": "zstd", "interleave": "band"}),
        ("uint8", 3, {"compress": "jpeg"}),
    ]
    for place, (dtype, bands, options) in product(PLACES, variants):
        codec = options["compress"]
        name = f"{place}-{dtype}-b{bands}-{codec}"
        if place == "cog":
            # The COG driver takes names of predictors, not numbers.
            options = {**options, "predictor": "yes"} if "predictor" in options else options
            yield pyramid(name, place, dtype, bands, **options)
        else:
            yield pyramid(name, place, dtype, bands, **options, **LAYOUTS["tile48x32"])
    for internal, external_overviews in ((True, False), (False, False), (True, True)):
        label = "internal" if internal else "msk"
        yield with_mask(f"masked-{label}-{'ovr' if external_overviews else 'inside'}", internal, external_overviews)
    for bigtiff, byteorder in product((False, True), "<>"):
        label = f"{'big' if bigtiff else 'classic'}-{'le' if byteorder == '<' else 'be'}"
        yield sub_ifds(f"subifds-{label}", bigtiff, byteorder)
