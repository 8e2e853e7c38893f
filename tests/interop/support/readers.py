"""How the peers read the files that Swath wrote, and which of them they cannot read."""

import tempfile
from functools import cache
from pathlib import Path

import imagecodecs
import numpy as np
import rasterio
import tifffile

from binary import Swath
from case import little
from gdal_cases import write_gdal
from write_cases import Conversion

LZ4 = 50004
# tifffile has no name for this codec number, but imagecodecs decodes its frames.
tifffile.TIFF.DECOMPRESSORS._codecs[LZ4] = imagecodecs.lz4f_decode


@cache
def gdal_lacks(codec: str) -> bool:
    """Whether this GDAL reports that it was built without a codec; then it cannot check the file."""
    swath = Swath()
    with tempfile.TemporaryDirectory() as folder:
        plain, coded = Path(folder) / "plain.tif", Path(folder) / "coded.tif"
        write_gdal(plain, np.zeros((3, 16, 16), np.uint8))
        swath.succeed("convert", plain, coded, "--compression", codec, "--tile", 16)
        swath.close()
        try:
            with rasterio.open(coded) as dataset:
                dataset.read()
        except rasterio.errors.RasterioIOError as error:
            return "missing codec" in str(error)
    return False


def tifffile_limit(made: Conversion, predictor: int, photometric: int) -> str:
    """The reason why tifffile cannot read a valid file; empty if it can."""
    if predictor == 2 and made.dtype.startswith("complex"):
        return "tifffile does not undo predictor 2 over complex samples"
    if made.codec == "jpeg" and made.interleave == "band" and photometric == 2 and made.shape[0] >= 3:
        return "imagecodecs takes one plane of an RGB JPEG for RGB"
    has_holes = "--skip-empty" in made.flags and (made.nodata is not None or made.new_nodata is not None)
    if has_holes and (made.dtype == "int8" or made.bits == 1):
        return "tifffile does not know nodata of int8 and of bits, and fills holes with something else"
    return ""


def tifffile_levels(path: Path, made: Conversion) -> tuple[list[np.ndarray], str]:
    """All levels as tifffile reads them, bands first, or the reason why it cannot."""
    with tifffile.TiffFile(path) as tif:
        pages = [page for page in tif.pages if not page.subfiletype & 4]
        limit = tifffile_limit(made, pages[0].predictor, pages[0].photometric)
        return ([], limit) if limit else ([bands_first(page) for page in pages], "")


def without_lost_nan(theirs: np.ndarray, ours: np.ndarray, made: Conversion) -> np.ndarray:
    """The pixels read by tifffile, with NaN restored: tifffile returns 0 for a LERC blob of which every sample is
    NaN.
    """
    if not (made.codec.startswith("lerc") and made.dtype.startswith("float") and theirs.shape == ours.shape):
        return theirs
    return np.where(np.isnan(ours) & (theirs == 0), ours, theirs)


def bands_first(page: tifffile.TiffPage) -> np.ndarray:
    """The pixels of a page, bands first."""
    array = page.asarray(squeeze=False) if page.samplesperpixel > 1 else page.asarray()
    array = array.reshape(page.shaped)  # separate samples, depth, rows, columns, samples
    separate = page.planarconfig == 2 and page.samplesperpixel > 1
    array = array[:, 0, :, :, 0] if separate else np.moveaxis(array[0, 0], -1, 0)
    return little(array.view(np.uint8) if array.dtype == bool else array)
